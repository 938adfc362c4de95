"""rlaopt (Udell's group): preconditioned SVRG and SAGA (SketchySVRG, PROMISE), on torch."""

from importlib.util import find_spec

from benchmark_utils.wrapper import STOCHASTIC_LEVELS, RidgeSolver

# Imported when it is first run, and not by every run: torch brings a thread pool of its own.
if find_spec("rlaopt") is None:
    raise ImportError("No module named 'rlaopt'")


class Solver(RidgeSolver):
    """Its loss is 1/n ‖Xw − y‖², so with the penalty λ ‖w‖² the objective is twice ours."""

    name = "rlaopt-sapphire"
    sampling_strategy = "iteration"
    requirements = ["pip::rlaopt"]
    parameters = {"method": ["svrg", "saga"], "rank": [50]}
    levels = STOCHASTIC_LEVELS
    takes_sparse = False

    def skip(self, X, y, lam):
        if self.rank > min(X.shape):
            return True, f"the data has fewer than {self.rank} rows or columns"
        return super().skip(X, y, lam)

    def warm_up(self):
        X, y = self.data
        rows = max(64, 2 * self.rank)
        self._quietly(X[:rows], y[:rows], 1)

    def fit(self, X, y, lam, setting):
        from benchmark_utils.rlaopt_sapphire import sapphire

        return sapphire(X, y, lam, self.method, self.rank, setting)
