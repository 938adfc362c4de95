"""himalaya: ridge by the SVD, and kernel ridge with a linear kernel."""

from benchmark_utils.wrapper import RidgeSolver
from himalaya.kernel_ridge import KernelRidge
from himalaya.ridge import Ridge


class Solver(RidgeSolver):
    """Its objective is ‖Xw − y‖² + alpha ‖w‖²: alpha = nλ."""

    name = "himalaya"
    sampling_strategy = "iteration"
    requirements = ["pip::himalaya"]
    parameters = {"method": ["svd", "kernel-eigenvalues", "kernel-cg"]}

    def operations(self, n, d, nonzeros):
        kernel = n**2 * d  # whatever the sparsity: the kernel becomes dense
        return {
            "svd": 6 * n * d * min(n, d) + 20 * min(n, d) ** 3,
            "kernel-eigenvalues": kernel + 10 * n**3,
            "kernel-cg": kernel,
        }[self.method]

    def skip(self, X, y, lam):
        self.takes_sparse = self.method != "svd"
        return super().skip(X, y, lam)

    def next_setting(self, trials, seconds_left):
        if self.method != "kernel-cg":
            return None
        return super().next_setting(trials, seconds_left)

    def fit(self, X, y, lam, setting):
        if self.method == "svd":
            return Ridge(alpha=y.size * lam, solver_params={"warn": False}).fit(X, y).coef_
        solver, parameters = "eigenvalues", None
        if self.method == "kernel-cg":
            solver, parameters = "conjugate_gradient", {"max_iter": setting, "tol": 1e-15}
        model = KernelRidge(
            alpha=y.size * lam, kernel="linear", solver=solver, solver_params=parameters
        )
        return model.fit(X, y).get_primal_coef()
