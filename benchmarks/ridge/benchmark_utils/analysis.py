"""What the runs say: duels, regrets, lateness, growth, memory, profiles."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmark_utils.runs import (
    AUTO,
    LEVELS,
    Problem,
    Run,
    Spread,
    Times,
    is_certified,
    is_ours,
    spread,
    times_to,
)

PEER_BOARDS = ("peers", "strong", "between", "quick", "tiny")
# The peers that are not among the strongest run in a board of their own, with ours beside them.
OTHERS = "others"
FINEST = min(LEVELS)
SMALLEST, LARGEST = "1e-08", "1/n"  # penalties, as benchopt writes them
NAMES = {
    "synthetic[d=5000,n=20000,power=2]": "synthetic-quadratic 20000×5000",
    "synthetic[d=5000,n=20000,power=1]": "synthetic-linear 20000×5000",
    "published[data=mnist]": "MNIST 4v7",
    "published[data=cifar10]": "CIFAR-10",
    "published[data=rcv1_subsets]": "RCV1-v2 subsets",
    "published[data=imdb]": "IMDB",
}
PENALTIES = {"1e-08": "1e-8", "1e-06": "1e-6", "0.0001": "1e-4", "1/n": "1/n", "given": "own"}


def name(problem: Problem) -> str:
    if problem.dataset in NAMES:
        return NAMES[problem.dataset]
    if shape := re.fullmatch(r"synthetic\[d=(\d+),n=(\d+),power=(\d)\]", problem.dataset):
        d, n, power = shape.groups()
        return f"synthetic-{'linear' if power == '1' else 'quadratic'} {n}×{d}"
    return problem.dataset


@dataclass(frozen=True)
class Duel:
    """Our time to a level on a problem against the best of the others'."""

    problem: Problem
    level: float
    ours: Spread
    solver: str  # of ours
    peer: str
    theirs: Spread

    @property
    def ratio(self) -> float:
        """How many times faster we are; 0 if we did not get there, infinite if only we did."""
        return 0.0 if math.isinf(self.ours.median) else self.theirs.median / self.ours.median

    @property
    def ratio_range(self) -> tuple[float, float]:
        return self.theirs.low / self.ours.high, self.theirs.high / self.ours.low


NOBODY = Spread(math.inf, math.inf, math.inf, 0)


def on_boards(runs: Iterable[Run], boards: Sequence[str]) -> list[Run]:
    return [run for run in runs if run.board in boards]


def problems_of(runs: Iterable[Run]) -> list[Problem]:
    """The problems in the order of the tables: as `NAMES` has them, penalties from small on."""

    def order(problem: Problem) -> tuple[int, str, int]:
        known = [*NAMES].index(problem.dataset) if problem.dataset in NAMES else len(NAMES)
        return known, problem.dataset, [*PENALTIES].index(problem.lam)

    return sorted({run.problem for run in runs}, key=order)


def fastest(times: Times, problem: Problem, belongs: Callable[[str], bool]) -> tuple[str, Spread]:
    """The solver of a kind with the least median on a problem, and its times."""
    candidates = [
        (solver, seconds)
        for (where, solver), seconds in times.items()
        if where == problem and belongs(solver) and seconds.median < math.inf
    ]
    return min(candidates, key=lambda one: one[1].median, default=("none", NOBODY))


def duels(
    runs: Sequence[Run],
    level: float,
    ours: Callable[[str], bool] = lambda solver: solver == AUTO,
    peers: Callable[[str], bool] = lambda solver: not is_ours(solver),
) -> list[Duel]:
    """The best of ours against the best peer, on every problem that either finished."""
    times = times_to(runs, level)
    found = []
    for problem in problems_of(runs):
        solver, own = fastest(times, problem, ours)
        peer, theirs = fastest(times, problem, peers)
        if (own, theirs) != (NOBODY, NOBODY):
            found.append(Duel(problem, level, own, solver, peer, theirs))
    return found


def regrets(runs: Sequence[Run], level: float) -> list[Duel]:
    """The planner's time (as the peer's) over that of the best of all our candidates, if any."""
    found = duels(
        runs, level, lambda s: is_certified(s) and s != AUTO, lambda solver: solver == AUTO
    )
    return [duel for duel in found if duel.ours != NOBODY]


def lateness(runs: Iterable[Run], unit: str) -> dict[tuple[Problem, float], float]:
    """Passes (or seconds) at the certified end over those at which the true gap crossed tol.

    A direct solve, whose certificate is never late, does not count.
    """
    end, crossing = {
        "passes": ("passes", "crossing_passes"),
        "seconds": ("solve_seconds", "crossing_seconds"),
    }[unit]
    found: dict[tuple[Problem, float], list[float]] = {}
    for run in runs:
        gradual = run.solver == AUTO and not run.method.startswith("direct")
        if gradual and run.status == "converged" and getattr(run, crossing) > 0:
            ratio = getattr(run, end) / getattr(run, crossing)
            found.setdefault((run.problem, run.setting), []).append(ratio)
    return {key: median(ratios) for key, ratios in found.items()}


def seconds_per_nonzero(runs: Iterable[Run]) -> dict[tuple[int, int], Spread]:
    """Of the planner's solves to the finest level, by shape."""
    found: dict[tuple[int, int], list[float]] = {}
    for run in runs:
        if run.solver == AUTO and run.setting == FINEST and run.suboptimality <= FINEST:
            shape = (run.rows, run.columns)
            found.setdefault(shape, []).append(run.seconds / run.nonzeros)
    return {shape: spread(each) for shape, each in sorted(found.items())}


def peak_memory(runs: Iterable[Run], solver: str, problem: Problem, level: float) -> float:
    """The median peak of the runs that reached the level, in bytes."""
    peaks = [
        run.memory
        for run in runs
        if run.solver == solver and run.problem == problem and run.suboptimality <= level
    ]
    return median(peaks) if peaks else math.nan


def performance_profile(runs: Sequence[Run], level: float) -> dict[str, list[float]]:
    """For each solver and problem, its time over the best solver's; infinite where it failed."""
    times = times_to(runs, level)
    problems = problems_of(runs)
    solvers = sorted({run.solver for run in runs})
    best = {problem: fastest(times, problem, lambda solver: True)[1].median for problem in problems}
    return {
        solver: [
            times[problem, solver].median / best[problem]
            if (problem, solver) in times and best[problem] < math.inf
            else math.inf
            for problem in problems
        ]
        for solver in solvers
    }
