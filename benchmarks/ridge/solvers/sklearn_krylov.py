"""scikit-learn's Krylov solvers."""

from benchmark_utils.wrapper import RidgeSolver
from sklearn.linear_model import Ridge


class Solver(RidgeSolver):
    """LSQR and conjugate gradients, stopped after a number of iterations."""

    name = "sklearn-krylov"
    sampling_strategy = "iteration"
    requirements = ["scikit-learn"]
    parameters = {"method": ["lsqr", "sparse_cg"]}

    def fit(self, X, y, lam, setting):
        model = Ridge(
            alpha=y.size * lam,
            fit_intercept=False,
            copy_X=False,
            solver=self.method,
            max_iter=setting,
            tol=1e-15,  # with 0 sparse_cg divides zero by zero once it is exact
        )
        return model.fit(X, y).coef_
