"""rlaopt (Udell's group): conjugate gradients with a Nyström preconditioner, on torch."""

from benchmark_utils.ranked import RankedSolver


class Solver(RankedSolver):
    """(XᵀX/n + λI) w = Xᵀy/n. Products go through X, XᵀX is not formed."""

    name = "rlaopt-pcg"
    sampling_strategy = "iteration"
    requirements = ["pip::rlaopt"]
    parameters = {"rank": [50, 100, 200, 500]}

    def prepare(self, X, y):
        from benchmark_utils.rlaopt_gram import as_tensors

        return as_tensors(X), y

    def fit(self, X, y, lam, setting):
        from benchmark_utils.rlaopt_gram import conjugate_gradients

        return conjugate_gradients(X, y, lam, self.rank, setting)
