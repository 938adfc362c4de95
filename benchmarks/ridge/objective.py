"""Ridge regression, scored by how far a solver's objective is above the certified optimum."""

import numpy as np
from benchmark_utils.lateness import Look, crossing
from benchmark_utils.optimum import optimal_value
from benchopt import BaseObjective

ROUNDING = 1e-12


class Objective(BaseObjective):
    """F(w) = 1/(2n) ‖Xw − y‖² + lam/2 ‖w‖²; the score is (F(w) − F*) / F(0)."""

    name = "Ridge"
    min_benchopt_version = "1.8"
    requirements = ["pip::sketchridge"]
    # A number, "1/n", or "given" for the one that the dataset comes with.
    parameters = {"lam": [1e-8, 1e-6, 1e-4, "1/n"]}
    test_dataset_name = "simulated"

    def set_data(self, X, y, lam=None):
        self.X, self.y = X, y
        self.penalty = {"1/n": 1.0 / X.shape[0], "given": lam}.get(self.lam, self.lam)
        self.null = self._value(np.zeros(X.shape[1]))
        self.minimum, self.slack = optimal_value(X, y, self.penalty)

    def get_objective(self):
        return {"X": self.X, "y": self.y, "lam": self.penalty}

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1])}

    def _value(self, beta):
        residual = self.X @ beta - self.y
        return float(residual @ residual / (2 * self.y.size) + self.penalty / 2 * (beta @ beta))

    def evaluate_result(self, beta, peak_memory=np.nan, solution=None, tol=None):
        value = self._value(beta)
        if value < self.minimum - self.slack - ROUNDING * self.null:
            raise RuntimeError(
                f"F = {value!r} is below the certified optimum {self.minimum!r} − {self.slack:.1e}"
            )
        scores = {
            "value": value,
            "suboptimality": max(value - self.minimum, 0.0) / self.null,
            "peak_memory": peak_memory,
            "rows": self.X.shape[0],
            "columns": self.X.shape[1],
            "nonzeros": getattr(self.X, "nnz", self.X.size),
        }
        return scores if solution is None else {**scores, **self._certificate(solution, tol)}

    def _certificate(self, solution, tol):
        """When our own solve ended, and when the true gap had crossed tol."""
        looks = [
            Look(record.passes, record.seconds, (record.objective - self.minimum) / self.null)
            for record in solution.history
        ]
        passes, seconds = crossing(looks, tol, gradual=solution.plan.solver != "direct")
        return {
            "certified": float(solution.relative_gap),
            "passes": solution.passes,
            "seconds": solution.seconds,
            "crossing_passes": passes,
            "crossing_seconds": seconds,
            "method": f"{solution.plan.solver}+{solution.plan.preconditioner}",
            "status": solution.status.name.lower(),
        }
