"""rlaopt's preconditioned stochastic solvers; importing this loads torch."""

import torch
from rlaopt.atoms import LinearRegression, SumSquares
from rlaopt.data import DataLoader, Dataset
from rlaopt.expression import Variable
from rlaopt.linalg import NystromConfig
from rlaopt.solvers import GradSolverStoppingCriteria, Sapphire, SapphireConfig

from benchmark_utils.rlaopt_gram import ANY_ERROR

BATCH = 256
NEVER = 10**6  # epochs: the Hessian of a quadratic does not change, and we do the scoring


def sapphire(X, y, lam, method, rank, epochs):
    """Coefficients after some epochs."""
    torch.manual_seed(0)
    batch = min(BATCH, y.size)
    loader = DataLoader(Dataset(X, y, dtype=torch.float64), batch_size=batch, shuffle=True)
    beta = Variable((X.shape[1],), name="beta", dtype=torch.float64)
    objective = LinearRegression(beta, loader, fit_intercept=False) + lam * SumSquares(beta)
    nystrom = NystromConfig(
        rank_init=rank, error_tolerance=ANY_ERROR, num_power_iters=1, base_damping=lam
    )
    config = SapphireConfig(
        base_method=method,
        precond_config=nystrom,
        precond_update_freq=NEVER,
        check_termination_freq=NEVER,
    )
    solver = Sapphire(objective, config)
    steps = epochs * -(-y.size // batch)
    criteria = GradSolverStoppingCriteria(max_iters=steps, eps_abs=1e-300, eps_rel=1e-300)
    return solver.solve(stopping_criteria=criteria).variable_values["beta"].numpy()
