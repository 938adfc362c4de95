"""skglm: coordinate descent with Anderson acceleration, and L-BFGS."""

import numpy as np
from benchmark_utils.wrapper import RidgeSolver
from scipy import sparse
from skglm.datafits import Quadratic
from skglm.penalties import L2, L1_plus_L2
from skglm.solvers import LBFGS, AndersonCD


class Solver(RidgeSolver):
    """Its quadratic datafit is 1/(2n) ‖Xw − y‖² and its penalty alpha/2 ‖w‖²: ours.

    Coordinate descent takes the penalty as an elastic net without its l1 part. L-BFGS has no
    sparse gradient of this datafit.
    """

    name = "skglm"
    sampling_strategy = "iteration"
    requirements = ["pip::skglm"]
    parameters = {"method": ["anderson-cd", "lbfgs"]}

    def skip(self, X, y, lam):
        self.takes_sparse = self.method == "anderson-cd"
        return super().skip(X, y, lam)

    def prepare(self, X, y):
        return (X.tocsc() if sparse.issparse(X) else np.asfortranarray(X)), y

    def fit(self, X, y, lam, setting):
        if self.method == "lbfgs":
            return LBFGS(max_iter=setting, tol=1e-14).solve(X, y, Quadratic(), L2(lam))[0]
        # All coordinates are in the working set, for no coefficient is zero: one outer
        # iteration of `setting` epochs.
        solver = AndersonCD(
            max_iter=1, max_epochs=setting, p0=X.shape[1], tol=1e-14, fit_intercept=False
        )
        return solver.solve(X, y, Quadratic(), L1_plus_L2(lam, 0.0))[0]
