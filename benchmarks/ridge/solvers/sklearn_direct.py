"""scikit-learn's direct solvers."""

from benchmark_utils.wrapper import RidgeSolver
from sklearn.linear_model import Ridge


class Solver(RidgeSolver):
    """Normal equations by Cholesky (the kernel's where n < d), or the SVD of X."""

    name = "sklearn-direct"
    sampling_strategy = "run_once"
    requirements = ["scikit-learn"]
    parameters = {"method": ["cholesky", "svd"]}

    def operations(self, n, d, nonzeros):
        small = min(n, d)
        gram = nonzeros * small + small**3 / 3
        return gram if self.method == "cholesky" else 6 * n * d * small + 20 * small**3

    def skip(self, X, y, lam):
        self.takes_sparse = self.method == "cholesky"
        return super().skip(X, y, lam)

    def fit(self, X, y, lam, setting):
        model = Ridge(alpha=y.size * lam, fit_intercept=False, copy_X=False, solver=self.method)
        return model.fit(X, y).coef_
