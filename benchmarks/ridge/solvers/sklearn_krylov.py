"""scikit-learn's Krylov solvers."""

from benchmark_utils.wrapper import RidgeSolver
from sklearn.linear_model import Ridge


class Solver(RidgeSolver):
    """LSQR, stopped after a number of iterations, and conjugate gradients, by their tolerance.

    Where n < d sparse_cg takes no notice of max_iter, so its effort is the number of binary
    digits that the tolerance asks of the residual.
    """

    name = "sklearn-krylov"
    sampling_strategy = "iteration"
    requirements = ["scikit-learn"]
    parameters = {"method": ["lsqr", "sparse_cg"]}

    def fit(self, X, y, lam, setting):
        if self.method == "lsqr":
            stopping = {"max_iter": setting, "tol": 1e-15}
        else:
            stopping = {"max_iter": None, "tol": 0.5**setting}
        model = Ridge(
            alpha=y.size * lam, fit_intercept=False, copy_X=False, solver=self.method, **stopping
        )
        return model.fit(X, y).coef_
