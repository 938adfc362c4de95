"""The planner's regret on the 30 random problems, in one process: about ten minutes.

python benchmarks/ridge/regret.py [SEED ...]

The time of solver="auto" to a certified 1e-6, over that of the best of all candidates: the solvers
with the preconditioners of `sketchridge_candidate.py`. Whoever is within half as much again in a
first run runs again, in turn with the planner's choice; medians. `rounds.py regret` measures the
same by benchopt, in two hours.
"""

import statistics
import sys
import time

import numpy as np
from datasets.random_problem import COUNT, Dataset
from solvers.sketchridge_candidate import PAIRS, arguments

from sketchridge import solve

TOL = 1e-6
ROUNDS = 5
# A candidate is given up when it takes so many times as long as the choice, and so much more.
GIVEN_UP, SLACK = 2.5, 0.02
CLOSE = 1.5
MOST_REGRET = 1.2
LONGEST = 60.0
# A factorisation of more than so many multiplications a second of the choice's time is hopeless.
HOPELESS = 2e11


def main():
    seeds = [int(word) for word in sys.argv[1:]] or range(COUNT)
    found = [regret(seed) for seed in seeds]
    within = sum(ratio <= MOST_REGRET for ratio in found)
    print(
        f"median {statistics.median(found):.2f}, worst {max(found):.2f}; "
        f"{within} of {len(found)} within {MOST_REGRET}"
    )


def regret(seed):
    """Measure a problem, tell of it, and return the ratio."""
    problem = Dataset.get_instance(seed=seed).get_data()
    for _ in range(2):  # the first run compiles
        choice, solution = timed(problem, LONGEST)
    seconds = {pair: first_run(problem, pair, choice) for pair in PAIRS}
    close = [pair for pair, first in seconds.items() if first <= CLOSE * choice]
    measured = {pair: [] for pair in [None, *close]}
    for _ in range(ROUNDS):
        for pair, times in measured.items():
            times.append(timed(problem, LONGEST, **method(pair))[0])
    medians = {pair: statistics.median(times) for pair, times in measured.items()}
    auto = medians.pop(None)
    best = min(medians, key=medians.get, default=None)
    ratio = auto / medians[best] if best else 1 / CLOSE  # at most
    told = f"{' with '.join(best)} {1e3 * medians[best]:.1f} ms" if best else "none is close"
    n, d = problem["X"].shape
    kind = "dense" if isinstance(problem["X"], np.ndarray) else "sparse"
    plan = f"{solution.plan.solver} with {solution.plan.preconditioner}"
    print(
        f"{seed:3d}  {n} × {d} {kind}, λ = {problem['lam']:.1e}: auto ({plan}) "
        f"{1e3 * auto:.1f} ms; best: {told}; regret {ratio:.2f}",
        flush=True,
    )
    return ratio


def method(pair):
    """The arguments of a candidate; none for the planner's choice."""
    return {} if pair is None else arguments(*pair)


def first_run(problem, pair, choice):
    """Seconds of a candidate, or infinity if it is not done in time."""
    X, side = problem["X"], min(problem["X"].shape)
    size = X.size if isinstance(X, np.ndarray) else X.nnz
    if pair[0] == "direct" and size * side + side**3 / 3 > HOPELESS * max(choice, 0.05):
        return np.inf
    limit = GIVEN_UP * choice + SLACK
    for _ in range(2):  # the first run compiles
        seconds, solution = timed(problem, limit, **method(pair))
        if seconds > limit + 10 * SLACK:
            break
    return seconds if solution.converged else np.inf


def timed(problem, limit, **how):
    """Seconds and the solution."""
    X, y, lam = problem["X"], problem["y"], problem["lam"]
    began = time.perf_counter()
    solution = solve(X, y, lam, tol=TOL, random_state=0, max_seconds=limit, **how)
    return time.perf_counter() - began, solution


if __name__ == "__main__":
    main()
