"""SVRG and its acceleration, sketched, by the peers' rules: so many epochs, no certificate."""

import numpy as np
from benchmark_utils.runs import ALL_LEVELS
from benchmark_utils.wrapper import RidgeSolver

from sketchridge import solve
from sketchridge.preconditioner import Diagonal, Nystrom

# Columns are scaled by this power of their mean squares, where that is asked for.
SCALING = 0.75
# Dense data is sketched by so many rows a direction, and at least so many; sparse data by all.
ROWS_A_DIRECTION, LEAST_ROWS = 6, 2000


class Solver(RidgeSolver):
    """Two methods and a few ranks of the sketch (0: scaled columns), as others have methods."""

    name = "sketchridge-stochastic"
    sampling_strategy = "iteration"
    requirements = ["pip::sketchridge"]
    parameters = {
        "solver, rank": [
            ("svrg", 10),
            ("svrg", 100),
            ("accelerated_svrg", 0),
            ("accelerated_svrg", 10),
            ("accelerated_svrg", 40),
            ("accelerated_svrg", 100),
        ]
    }
    levels = ALL_LEVELS

    def warm_up(self):
        # On the problem itself, for other sizes compile other kernels.
        self.fit(self.X, self.y, self.lam, 1)

    def fit(self, X, y, lam, setting):
        epochs = 0

        def is_enough(record):
            nonlocal epochs
            epochs += 1
            return epochs > setting  # the first is the start

        return solve(
            X,
            y,
            lam,
            solver=self.solver,
            preconditioner=self.recipe(X),
            tol=1e-15,
            callback=is_enough,
            max_seconds=self.time_limit,
            random_state=0,
        ).coef

    def recipe(self, X):
        if self.rank == 0:
            return Diagonal(SCALING)
        rows = max(ROWS_A_DIRECTION * self.rank, LEAST_ROWS)
        some = isinstance(X, np.ndarray) and 2 * rows <= X.shape[0]
        return Nystrom(rank=min(self.rank, *X.shape), rows=rows if some else "all")
