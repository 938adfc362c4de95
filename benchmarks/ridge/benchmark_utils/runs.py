"""Timed runs, as the rounds leave them, and the time that each solver took to reach a level."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

LEVELS = (1e-2, 1e-4, 1e-6)
STOCHASTIC_LEVEL = 1e-3
ALL_LEVELS = (1e-2, STOCHASTIC_LEVEL, 1e-4, 1e-6)
# The variable that names a file with the settings to run: {"dataset | objective | solver": […]}.
REPLAY = "RIDGE_BENCHMARK_REPLAY"
AUTO = "sketchridge"
CANDIDATE = "sketchridge-candidate"
OUR_STOCHASTIC = "sketchridge-stochastic"
STOCHASTIC_PEERS = ("sklearn-stochastic", "cyanure", "lightning", "rlaopt-sapphire")


class Problem(NamedTuple):
    """A dataset and a penalty, as benchopt names them."""

    dataset: str
    lam: str


@dataclass(frozen=True)
class Run:
    """One timed run of a solver with one setting; the last lines are of our own solves alone."""

    board: str
    problem: Problem
    solver: str
    round: tuple[int, int]  # the file's number, and the repetition in it
    setting: float
    seconds: float
    suboptimality: float
    memory: float = math.nan  # bytes at the peak, beyond what was there
    rows: int = 0
    columns: int = 0
    nonzeros: int = 0
    passes: float = math.nan
    crossing_passes: float = math.nan  # when the true gap crossed tol
    solve_seconds: float = math.nan
    crossing_seconds: float = math.nan
    method: str = ""  # what was chosen
    status: str = ""


class Spread(NamedTuple):
    """Seconds over the rounds; infinite where a level was not reached."""

    median: float
    low: float
    high: float
    rounds: int


Times = Mapping[tuple[Problem, str], Spread]


def is_ours(solver: str) -> bool:
    return is_certified(solver) or is_our_stochastic(solver)


def is_certified(solver: str) -> bool:
    """Whether it is asked for a level, and stops by its certificate."""
    return solver == AUTO or solver.startswith(CANDIDATE)


def is_stochastic_peer(solver: str) -> bool:
    return solver.startswith(STOCHASTIC_PEERS)


def is_our_stochastic(solver: str) -> bool:
    """Ours under the rules of the peers: swept, and scored by the true gap."""
    return solver.startswith(OUR_STOCHASTIC)


def times_to(runs: Iterable[Run], level: float) -> dict[tuple[Problem, str], Spread]:
    """The seconds that each solver took to a level: in every round its fastest run that got there.

    Those that stop by their certificate are asked for the level, and only that run of theirs
    counts, however early they were there.
    """
    fastest: dict[tuple[Problem, str], dict[tuple[str, int, int], float]] = defaultdict(dict)
    for run in runs:
        if is_certified(run.solver) and run.setting != level:
            continue
        rounds, here = fastest[run.problem, run.solver], (run.board, *run.round)
        seconds = run.seconds if run.suboptimality <= level else math.inf
        rounds[here] = min(seconds, rounds.get(here, math.inf))
    return {key: spread(list(rounds.values())) for key, rounds in fastest.items()}


def spread(seconds: list[float]) -> Spread:
    return Spread(median(seconds), min(seconds), max(seconds), len(seconds))


def best_run(runs: Iterable[Run], solver: str, level: float) -> Run:
    """A solver's fastest run to the level, or the one that was asked for the level."""
    there = (run for run in runs if run.solver == solver and run.suboptimality <= level)
    allowed = (run for run in there if not is_certified(solver) or run.setting == level)
    return min(allowed, key=lambda run: run.seconds)


def read_runs(folder: Path) -> list[Run]:
    """All runs in a folder of boards, each a folder of problems, each with a file a round."""
    return [run for path in sorted(folder.glob("*/*")) for run in read_problem(path)]


def read_problem(folder: Path) -> list[Run]:
    """The runs of one problem; a file is named by its round, and perhaps by what is apart in it."""
    import pandas

    runs = []
    for path in sorted(folder.glob("*.parquet")):
        rows = pandas.read_parquet(path).to_dict("records")
        number = int(path.stem.split("-")[0])
        runs += [_from_row(folder.parent.name, number, row) for row in rows]
    return runs


def _from_row(board: str, number: int, row: Mapping[str, object]) -> Run:
    def measured(name, absent=math.nan):
        value = row.get(f"objective_{name}")
        return absent if value is None or value != value else value

    return Run(
        board,
        Problem(row["dataset_name"], str(row["p_obj_lam"])),
        row["solver_name"],
        (number, row["idx_rep"]),
        row["stop_val"],
        row["time"],
        measured("suboptimality"),
        measured("peak_memory"),
        int(measured("rows", 0)),
        int(measured("columns", 0)),
        int(measured("nonzeros", 0)),
        measured("passes"),
        measured("crossing_passes"),
        measured("seconds"),
        measured("crossing_seconds"),
        measured("method", ""),
        measured("status", ""),
    )
