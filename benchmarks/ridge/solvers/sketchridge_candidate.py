"""Every solver of sketchridge with every preconditioner that suits it: the planner's choices."""

from benchmark_utils.certified import CertifiedSolver

from sketchridge.preconditioner import PRECONDITIONERS
from sketchridge.solvers import SOLVERS

# Exact eigenpairs cost more than what they save; the plain methods are the peers' part.
SKETCHES = ("nystrom", "lanczos", "embedding", "row_sampling", "diagonal")
STOCHASTIC = ("svrg", "accelerated_svrg", "saga")
PAIRS = [
    ("direct", "none"),
    *(("cg", sketch) for sketch in ("none", *SKETCHES)),
    *((solver, sketch) for solver in STOCHASTIC for sketch in ("lanczos", "nystrom")),
]


class Solver(CertifiedSolver):
    """One solver and preconditioner, each at its default parameters."""

    name = "sketchridge-candidate"
    sampling_strategy = "tolerance"
    requirements = ["pip::sketchridge"]
    parameters = {
        "solver, preconditioner": [
            pair for pair in PAIRS if pair[0] in SOLVERS and pair[1] in PRECONDITIONERS
        ]
    }

    def operations(self, n, d, nonzeros):
        small = min(n, d)
        return nonzeros * small + small**3 / 3 if self.solver == "direct" else 0.0

    def method(self):
        if self.solver == "direct":
            return {"solver": "direct"}
        return {"solver": self.solver, "preconditioner": self.preconditioner}
