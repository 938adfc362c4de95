"""Snap ML (IBM): parallel coordinate descent, primal or dual."""

import os

from benchmark_utils.runs import ALL_LEVELS
from benchmark_utils.wrapper import RidgeSolver
from snapml import LinearRegression


class Solver(RidgeSolver):
    """Its objective is ½ ‖Xw − y‖² + regularizer/2 ‖w‖²: regularizer = nλ."""

    name = "snapml"
    sampling_strategy = "iteration"
    requirements = ["pip::snapml"]
    parameters = {"dual": [False, True]}
    levels = ALL_LEVELS

    def fit(self, X, y, lam, setting):
        model = LinearRegression(
            regularizer=y.size * lam,
            dual=self.dual,
            max_iter=setting,
            tol=0.0,
            fit_intercept=False,
            n_jobs=os.cpu_count(),
            random_state=0,
        )
        return model.fit(X, y).coef_
