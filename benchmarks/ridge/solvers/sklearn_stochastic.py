"""scikit-learn's stochastic solvers."""

from benchmark_utils.runs import ALL_LEVELS
from benchmark_utils.wrapper import RidgeSolver
from sklearn.linear_model import Ridge


class Solver(RidgeSolver):
    """SAG and SAGA, stopped after a number of epochs."""

    name = "sklearn-stochastic"
    sampling_strategy = "iteration"
    requirements = ["scikit-learn"]
    parameters = {"method": ["sag", "saga"]}
    levels = ALL_LEVELS

    def fit(self, X, y, lam, setting):
        model = Ridge(
            alpha=y.size * lam,
            fit_intercept=False,
            copy_X=False,
            solver=self.method,
            max_iter=setting,
            tol=1e-15,
            random_state=0,
        )
        return model.fit(X, y).coef_
