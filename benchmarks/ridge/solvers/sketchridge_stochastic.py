"""SVRG and its acceleration with a sketch, by the peers' rules: so many epochs, no certificate."""

import numpy as np
from benchmark_utils.runs import ALL_LEVELS
from benchmark_utils.wrapper import RidgeSolver

from sketchridge import solve
from sketchridge.preconditioner import Nystrom

# Dense data is sketched by so many rows a direction, and at least so many; sparse data by all.
ROWS_A_DIRECTION, LEAST_ROWS = 6, 2000


class Solver(RidgeSolver):
    """Two methods and a few ranks of the sketch, as others have a few methods."""

    name = "sketchridge-stochastic"
    sampling_strategy = "iteration"
    requirements = ["pip::sketchridge"]
    parameters = {
        "solver, rank": [
            ("svrg", 2),
            ("svrg", 10),
            ("svrg", 100),
            ("svrg", 200),
            ("accelerated_svrg", 2),
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
            epochs += record.certified
            return epochs > setting  # the first is the start

        rows = max(ROWS_A_DIRECTION * self.rank, LEAST_ROWS)
        some = isinstance(X, np.ndarray) and 2 * rows <= len(y)
        sketch = Nystrom(rank=min(self.rank, *X.shape), rows=rows if some else "all")
        return solve(
            X,
            y,
            lam,
            solver=self.solver,
            preconditioner=sketch,
            tol=1e-15,
            callback=is_enough,
            max_seconds=self.time_limit,
            random_state=0,
        ).coef
