"""rlaopt's conjugate gradients on XᵀX/n + λI; importing this loads torch."""

import torch
from linops import LinearOperator
from linops.linops import Symmetric
from rlaopt.linalg import LinSys, NystromConfig
from rlaopt.solvers import PCG, PCGConfig, PCGStoppingCriteria
from scipy import sparse

torch.set_default_dtype(torch.float64)
# The rank is given, so the error estimate that would adapt it is left out as far as it can be.
ANY_ERROR = 1e300


class Gram(LinearOperator):
    """XᵀX/n, by one product with X and one with Xᵀ."""

    supports_operator_matrix = True

    def __init__(self, X, transposed):
        super().__init__()
        self._X, self._transposed = X, transposed
        self._shape = (X.shape[1], X.shape[1])
        self._adjoint = Symmetric
        self.device = X.device

    def _matmul_impl(self, v):
        return self._transposed @ (self._X @ v) / self._X.shape[0]


def as_tensors(X):
    """X and its transpose as torch tensors; a dense X is not copied."""
    if not sparse.issparse(X):
        return torch.from_numpy(X), torch.from_numpy(X).T
    return tuple(
        torch.sparse_csr_tensor(M.indptr, M.indices, M.data, M.shape) for M in (X, X.T.tocsr())
    )


def conjugate_gradients(tensors, y, lam, rank, iterations):
    """Coefficients after some iterations."""
    torch.manual_seed(0)
    X, transposed = tensors
    system = LinSys(Gram(X, transposed), transposed @ torch.from_numpy(y) / y.size, reg=lam)
    nystrom = NystromConfig(
        rank_init=rank, error_tolerance=ANY_ERROR, num_power_iters=1, base_damping=lam
    )
    solver = PCG(system, PCGConfig(preconditioner_config=nystrom))
    criteria = PCGStoppingCriteria(max_iters=iterations, tol=1e-15)
    return solver.solve(stopping_criteria=criteria).solution.numpy()
