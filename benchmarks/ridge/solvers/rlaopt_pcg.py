"""rlaopt (Udell's group): conjugate gradients with a Nyström preconditioner, on torch."""

from importlib.util import find_spec

from benchmark_utils.wrapper import RidgeSolver

# Imported when it is first run, and not by every run: torch brings a thread pool of its own.
if find_spec("rlaopt") is None:
    raise ImportError("No module named 'rlaopt'")


class Solver(RidgeSolver):
    """(XᵀX/n + λI) w = Xᵀy/n. Products go through X, XᵀX is not formed."""

    name = "rlaopt-pcg"
    sampling_strategy = "iteration"
    requirements = ["pip::rlaopt"]
    parameters = {"rank": [50, 200, 500]}

    def skip(self, X, y, lam):
        if self.rank > min(X.shape):
            return True, f"the data has fewer than {self.rank} rows or columns"
        return super().skip(X, y, lam)

    def prepare(self, X, y):
        from benchmark_utils.rlaopt_gram import as_tensors

        return as_tensors(X), y

    def warm_up(self):
        X, y = self.data
        rows = max(64, 2 * self.rank)
        self._quietly(*self.prepare(X[:rows], y[:rows]), 1)

    def fit(self, X, y, lam, setting):
        from benchmark_utils.rlaopt_gram import conjugate_gradients

        return conjugate_gradients(X, y, lam, self.rank, setting)
