"""Pictures of the results: accuracy against time, and a performance profile."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmark_utils.analysis import (
    FINEST,
    PEER_BOARDS,
    PENALTIES,
    SMALLEST,
    fastest,
    name,
    on_boards,
    performance_profile,
    problems_of,
)
from benchmark_utils.runs import AUTO, Problem, Run, is_ours, times_to

FLOOR = 1e-9  # below the levels that matter
SHOWN = 5  # peers a panel
WIDEST = 100.0  # times the best solver's time
# Distinguishable in print, in grey and by most colour-blind readers (Okabe and Ito).
COLOURS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
OUR_COLOUR = "#0072B2"
MARKERS = ("o", "s", "^", "D")  # where there are more solvers than colours
Look = dict[str, Any]  # how a solver is drawn


def draw_times(runs: Sequence[Run], folder: Path) -> tuple[str, Path]:
    """A panel a problem: what each solver reached in what time, the smallest penalty."""
    pyplot = _pyplot()
    board = on_boards(runs, PEER_BOARDS)
    problems = [problem for problem in problems_of(board) if problem.lam == SMALLEST]
    rows = -(-len(problems) // 2)
    figure, axes = pyplot.subplots(
        rows, 2, figsize=(11, 3.6 * rows), layout="constrained", squeeze=False, sharey=True
    )
    looks = {AUTO: {"color": OUR_COLOUR, "marker": "o", "lw": 2.5}}
    for axis, problem in zip(axes.flat, problems, strict=False):
        _panel(axis, board, problem, looks)
    for axis in axes.flat[len(problems) :]:
        axis.set_axis_off()
    lines = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    shown = [solver for solver in looks if solver in lines]
    figure.legend(
        [lines[solver] for solver in shown], shown, loc="outside lower center", ncols=4, fontsize=8
    )
    return f"Suboptimality against seconds, λ = {PENALTIES[SMALLEST]}", _save(
        figure, folder, "peers_time.png"
    )


def _panel(axis: Any, runs: Sequence[Run], problem: Problem, looks: dict[str, Look]) -> None:
    """Our automatic choice and the peers that were fastest to the finest level.

    A solver looks the same in every panel.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    here = [run for run in runs if run.problem == problem]
    times = times_to(here, FINEST)
    peers = {run.solver for run in here if not is_ours(run.solver)}
    best = sorted(peers, key=lambda s: (fastest(times, problem, lambda x: x == s)[1].median, s))
    for solver in (AUTO, *best[:SHOWN]):
        look = looks.setdefault(solver, _look(len(looks) - 1))
        front = pareto(medians([run for run in here if run.solver == solver]))
        if front:
            across, heights = zip(*front, strict=True)
            floored = [max(height, FLOOR) for height in heights]
            axis.loglog(across, floored, ms=4, label=solver, **look)
    axis.axhline(FINEST, color="0.7", lw=0.8)
    axis.set(title=name(problem), xlabel="seconds", ylabel="(F(w) − F*) / F(0)")
    # A panel may be less than a decade wide: seconds in plain numbers, so many that they fit.
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.spines[["top", "right"]].set_visible(False)


def _look(place: int) -> Look:
    """How the peer at a place is drawn."""
    round_, place = divmod(place, len(COLOURS))
    return {"color": COLOURS[place], "marker": MARKERS[round_ % len(MARKERS)], "lw": 1.3}


def medians(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """Seconds and suboptimality of a solver by its settings, over the rounds."""
    settings = {run.setting for run in runs}
    groups = [[run for run in runs if run.setting == setting] for setting in sorted(settings)]
    return [
        (median(run.seconds for run in group), median(run.suboptimality for run in group))
        for group in groups
    ]


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no faster point is as accurate as."""
    front: list[tuple[float, float]] = []
    for seconds, reached in sorted(points):
        if not front or reached < front[-1][1]:
            front.append((seconds, reached))
    return front


def draw_profile(runs: Sequence[Run], folder: Path) -> tuple[str, Path]:
    """The share of problems that a solver finished within a factor of the best."""
    pyplot = _pyplot()
    board = on_boards(runs, PEER_BOARDS)
    board = [run for run in board if run.solver == AUTO or not is_ours(run.solver)]
    profile = performance_profile(board, FINEST)
    ranked = sorted(profile, key=lambda s: (s != AUTO, sum(min(f, WIDEST) for f in profile[s])))
    figure, axis = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for solver, colour in zip(ranked, (OUR_COLOUR, *COLOURS), strict=False):
        factors = sorted(factor for factor in profile[solver] if factor < WIDEST)
        shares = [place / len(profile[solver]) for place in range(len(factors) + 1)]
        across, up = [1.0, *factors, WIDEST], [*shares, shares[-1]]
        width = 2.5 if solver == AUTO else 1.3
        axis.step(across, up, where="post", color=colour, lw=width, label=solver)
    axis.set(xscale="log", xlim=(0.97, WIDEST), ylim=(0, 1.02))
    axis.set_xlabel("time over the best solver's, to 1e-6")
    axis.set_ylabel("share of problems and penalties")
    axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    return "Performance profile to 1e-6", _save(figure, folder, "peers_profile.png")


def _save(figure: Any, folder: Path, file: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / file, dpi=130)
    _pyplot().close(figure)
    return folder / file


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
