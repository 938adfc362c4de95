"""Cyanure (Mairal): accelerated variance-reduced solvers."""

from benchmark_utils.runs import ALL_LEVELS
from benchmark_utils.wrapper import RidgeSolver
from cyanure.estimators import Regression


class Solver(RidgeSolver):
    """Its objective is 1/n Σ ½(xᵀw − y)² + lambda_1/2 ‖w‖², which is ours."""

    name = "cyanure"
    sampling_strategy = "iteration"
    requirements = ["pip::cyanure"]
    parameters = {"method": ["auto", "acc-svrg", "catalyst-svrg", "qning-svrg"]}
    levels = ALL_LEVELS

    def fit(self, X, y, lam, setting):
        model = Regression(
            penalty="l2",
            lambda_1=lam,
            fit_intercept=False,
            solver=self.method,
            max_iter=setting,
            tol=1e-15,
            # Its own gap is looked at this seldom: a look costs as much as an epoch.
            duality_gap_interval=max(setting, 1),
            verbose=False,
            random_state=0,
        )
        model.fit(X, y)
        return model.coef_
