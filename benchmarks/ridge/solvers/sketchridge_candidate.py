"""Every solver of sketchridge with every preconditioner that suits it: the planner's choices."""

from benchmark_utils.certified import CertifiedSolver

from sketchridge.preconditioner import PRECONDITIONERS, Embedding
from sketchridge.solvers import SDCA, SOLVERS

# Exact eigenpairs cost more than what they save; the plain methods are the peers' part.
NARROW = "embedding32"
SKETCHES = ("nystrom", "lanczos", "embedding", NARROW, "row_sampling", "diagonal")
STOCHASTIC = ("svrg", "accelerated_svrg", "saga")
PAIRS = [
    ("direct", "none"),
    *(("cg", sketch) for sketch in ("none", *SKETCHES)),
    *((solver, sketch) for solver in STOCHASTIC for sketch in ("lanczos", "nystrom")),
    ("sdca", "none"),
]
# Dual ascent and narrow embeddings as the planner takes them; the others at their defaults.
SHUFFLED = SDCA(sampling="shuffled")
RECIPES = {NARROW: Embedding(kind="countsketch", storage="float32")}


class Solver(CertifiedSolver):
    """One solver and preconditioner."""

    name = "sketchridge-candidate"
    sampling_strategy = "tolerance"
    requirements = ["pip::sketchridge"]
    parameters = {
        "solver, preconditioner": [
            pair for pair in PAIRS if pair[0] in SOLVERS and pair[1] in {*PRECONDITIONERS, *RECIPES}
        ]
    }

    def operations(self, n, d, nonzeros):
        small = min(n, d)
        return nonzeros * small + small**3 / 3 if self.solver == "direct" else 0.0

    def method(self):
        return arguments(self.solver, self.preconditioner)


def arguments(solver, preconditioner):
    """How `solve` is told."""
    return {
        "solver": SHUFFLED if solver == "sdca" else solver,
        "preconditioner": RECIPES.get(preconditioner, preconditioner),
    }
