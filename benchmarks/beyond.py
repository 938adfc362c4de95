"""Beyond the paper: how many passes the best stochastic method saves on real data.

    SKETCHRIDGE_DATA=folder make experiments
    SKETCHRIDGE_DATA=folder python benchmarks/beyond.py [NAME …]

On each dataset, with the paper's scaling of the rows and λ = 1e-8: the passes until
(F(w) − F*) / F(0) ≤ 1e-4, against those of SVRG without a preconditioner (the paper's Algorithm 1).
F* is from another solver, to 1e-8. Passes are those of the method and its sketch; looking at F
costs nothing here. A method is given up at one and a half times the passes of the best one before
it, and SVRG at three times. Passes do not depend on the machine.
"""

import sys
import time

import numpy as np

from sketchridge import Diagonal, Lanczos, Nystrom, solve
from sketchridge.data import MissingData, load
from sketchridge.driver import make_problem
from sketchridge.preconditioner import NoPreconditioner
from sketchridge.solvers import SVRG
from sketchridge.solvers.accelerated_svrg import AcceleratedSVRG
from sketchridge.solvers.saga import SAGA

LAM, GOAL, REFERENCE_TOL = 1e-8, 1e-4, 1e-8
PATIENCE, BASELINE_PATIENCE = 1.5, 3.0
LARGEST_DIRECT = 5000
DATASETS = ("mnist", "cifar10", "rcv1-subsets", "imdb", "california-housing")
METHODS = {
    "accelerated_svrg+lanczos(rank=100)": (AcceleratedSVRG(), Lanczos(rank=100)),
    "accelerated_svrg+lanczos": (AcceleratedSVRG(), Lanczos()),
    "accelerated_svrg+diagonal(exponent=0.75)": (AcceleratedSVRG(), Diagonal(0.75)),
    "accelerated_svrg+none": (AcceleratedSVRG(), NoPreconditioner()),
    "saga+lanczos": (SAGA(), Lanczos()),
    "saga+none": (SAGA(), NoPreconditioner()),
    "saga(step=0.6)+none": (SAGA(step=0.6), NoPreconditioner()),
    "svrg+lanczos(rank=100)": (SVRG(), Lanczos(rank=100)),
    "svrg+lanczos": (SVRG(), Lanczos()),
}


def reference(data, intercept):
    """F* by a method that is not stochastic."""
    small = min(data.X.shape) <= LARGEST_DIRECT
    how = ("direct", "none") if small else ("cg", Nystrom(rank=300))
    solution = solve(
        data.X,
        data.y,
        LAM,
        *how,
        tol=REFERENCE_TOL,
        scale_rows=True,
        fit_intercept=intercept,
        random_state=0,
    )
    assert solution.converged, solution
    return solution.objective


def passes_to_goal(data, intercept, minimum, solver, recipe, limit):
    """Passes until the goal is met, and whether it was before the limit."""
    problem, _, _ = make_problem(data.X, data.y, LAM, fit_intercept=intercept, scale_rows=True)
    level = minimum + GOAL * problem.null_objective[0]
    rng = np.random.default_rng(0)
    preconditioner = recipe.build(problem, rng)
    for iterate in solver.iterates(problem, preconditioner, np.zeros((problem.d, 1)), rng):
        passes = problem.passes
        evaluation = iterate.evaluation or problem.evaluate(iterate.coef)
        problem.passes = passes
        if evaluation.objective[0] <= level or passes > limit:
            return passes, evaluation.objective[0] <= level
    raise AssertionError("the iterates came to an end")


def fits(recipe, data):
    """Whether there are as many directions as the recipe asks for."""
    rank = getattr(recipe, "rank", "auto")
    return rank == "auto" or rank <= min(data.X.shape)


def told(passes, reached):
    return f"{passes:.0f}" if reached else f"> {passes:.0f}"


def measure(name):
    data = load(name)
    intercept = name == "california-housing"
    minimum = reference(data, intercept)
    best, best_name, lines = np.inf, None, []
    for label, (solver, recipe) in METHODS.items():
        if not fits(recipe, data):
            continue
        limit = min(PATIENCE * best, 2000)
        passes, reached = passes_to_goal(data, intercept, minimum, solver, recipe, limit)
        lines.append(f"    {label:<35} {told(passes, reached):>7}")
        if reached and passes < best:
            best, best_name = passes, label
    passes, reached = passes_to_goal(
        data, intercept, minimum, SVRG(), NoPreconditioner(), BASELINE_PATIENCE * best
    )
    lines.append(f"    {'svrg+none':<35} {told(passes, reached):>7}")
    half = best <= passes / 2
    times = ("" if reached else "more than ") + f"{passes / best:.1f} times"
    print(f"{name}: {best_name} in {best:.0f} passes; svrg without a preconditioner takes {times}")
    print(f"    at most half: {'yes' if half else 'NO'}")
    print("\n".join(lines), flush=True)


def main():
    for name in sys.argv[1:] or DATASETS:
        began = time.process_time()
        try:
            measure(name)
        except MissingData as missing:
            print(f"{name}: skipped. {missing}")
        print(f"    ({time.process_time() - began:.0f} s of CPU)", flush=True)


if __name__ == "__main__":
    main()
