"""glum: generalised linear models, here Gaussian with the identity link."""

from benchmark_utils.wrapper import RidgeSolver
from glum import GeneralizedLinearRegressor


class Solver(RidgeSolver):
    """Its objective is 1/(2n) ‖Xw − y‖² + alpha/2 ‖w‖², which is ours; solved in one step."""

    name = "glum"
    sampling_strategy = "run_once"
    requirements = ["pip::glum"]

    def operations(self, n, d, nonzeros):
        return nonzeros * d + d**3 / 3

    def fit(self, X, y, lam, setting):
        model = GeneralizedLinearRegressor(
            family="normal",
            link="identity",
            alpha=lam,
            l1_ratio=0,
            fit_intercept=False,
            solver="closed-form",
        )
        return model.fit(X, y).coef_
