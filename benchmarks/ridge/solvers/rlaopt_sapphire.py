"""rlaopt (Udell's group): preconditioned SVRG and SAGA (SketchySVRG, PROMISE), on torch."""

from benchmark_utils.ranked import RankedSolver
from benchmark_utils.runs import ALL_LEVELS


class Solver(RankedSolver):
    """Its loss is 1/n ‖Xw − y‖², so with the penalty λ ‖w‖² the objective is twice ours."""

    name = "rlaopt-sapphire"
    sampling_strategy = "iteration"
    requirements = ["pip::rlaopt"]
    parameters = {"method": ["svrg", "saga"], "rank": [50]}
    levels = ALL_LEVELS
    takes_sparse = False

    def fit(self, X, y, lam, setting):
        from benchmark_utils.rlaopt_sapphire import sapphire

        return sapphire(X, y, lam, self.method, self.rank, setting)
