"""scipy's least-squares solvers, with the penalty as their damping."""

import numpy as np
from benchmark_utils.wrapper import RidgeSolver
from scipy.sparse.linalg import lsmr, lsqr


class Solver(RidgeSolver):
    """LSMR and LSQR on X and √(nλ) I below it, stopped after a number of iterations."""

    name = "scipy"
    sampling_strategy = "iteration"
    requirements = ["scipy"]
    parameters = {"method": ["lsmr", "lsqr"]}

    def fit(self, X, y, lam, setting):
        damp = np.sqrt(y.size * lam)
        if self.method == "lsmr":
            return lsmr(X, y, damp=damp, atol=0, btol=0, conlim=0, maxiter=setting)[0]
        return lsqr(X, y, damp=damp, atol=0, btol=0, conlim=0, iter_lim=setting)[0]
