"""Tables and figures from the results of the rounds.

    python benchmarks/ridge/board.py                    print what the results show
    python benchmarks/ridge/board.py --docs docs        and put it into docs/benchmarks.md

Every figure comes from the runs alone. A time is the median over the rounds, with the lowest and
the highest in brackets; a ratio is the best peer's median over ours.
"""

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from benchmark_utils.analysis import (
    FINEST,
    LARGEST,
    NOBODY,
    OTHERS,
    PEER_BOARDS,
    PENALTIES,
    SMALLEST,
    Duel,
    duels,
    lateness,
    name,
    on_boards,
    peak_memory,
    problems_of,
    regrets,
    seconds_per_nonzero,
)
from benchmark_utils.runs import (
    ALL_LEVELS,
    AUTO,
    LEVELS,
    STOCHASTIC_LEVEL,
    Problem,
    Run,
    Spread,
    is_certified,
    is_our_stochastic,
    is_stochastic_peer,
    read_runs,
    times_to,
)

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- ridge benchmark: begin -->", "<!-- ridge benchmark: end -->"
# What must be shown: how many times faster than the best peer, to 1e-6, at which penalties.
FASTER = {
    "synthetic-quadratic 20000×5000": (6.0, (SMALLEST,)),
    "synthetic-linear 20000×5000": (3.0, (SMALLEST,)),
    "MNIST 4v7": (3.0, (SMALLEST,)),
    "CIFAR-10": (3.0, (SMALLEST,)),
    "RCV1-v2 subsets": (3.0, (SMALLEST,)),
    "IMDB": (2.0, (SMALLEST, LARGEST)),
}
NEVER_SLOWER = 1 / 1.1
STOCHASTIC_FASTER = {"RCV1-v2 subsets": 1.5, "IMDB": 1.5}
STOCHASTIC_FASTER_ELSEWHERE = 5.0
MOST_REGRET, FLAT, SMALL_RATIO = 1.2, 2.0, 2.0
MEDIAN_LATENESS, WORST_LATENESS = 1.3, 2.0


def figure(value: float) -> str:
    """Three figures, as people write them."""
    if math.isinf(value) or math.isnan(value):
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def seconds(times: Spread) -> str:
    if math.isinf(times.median):
        return "not reached"
    return f"{figure(times.median)} s [{figure(times.low)}, {figure(times.high)}]"


def verdict(value: float, least: float) -> str:
    return "ok" if value >= least else "MISSED"


def at_most(value: float, limit: float) -> str:
    """A factor with what it must not exceed."""
    return f"{figure(value)} × (must be ≤ {limit:g}: {verdict(-value, -limit)})"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def duel_row(duel: Duel, least: float) -> list[str]:
    low, high = duel.ratio_range
    return [
        name(duel.problem),
        PENALTIES[duel.problem.lam],
        duel.peer,
        seconds(duel.theirs),
        seconds(duel.ours),
        f"**{figure(duel.ratio)} ×** [{figure(low)}, {figure(high)}]",
        f"≥ {figure(least)} ×",
        verdict(duel.ratio, least),
    ]


def least_ratio(problem: Problem) -> float:
    """How many times faster than the best peer the planner must be to the finest level."""
    ratio, penalties = FASTER.get(name(problem), (NEVER_SLOWER, ()))
    return ratio if problem.lam in penalties else NEVER_SLOWER


def peers_section(runs: Sequence[Run]) -> str:
    header = ["problem", "λ", "best peer", "its time", "auto", "ratio", "must be", ""]
    rows = [duel_row(duel, least_ratio(duel.problem)) for duel in duels(runs, FINEST)]
    coarser = [
        [
            name(duel.problem),
            PENALTIES[duel.problem.lam],
            f"{duel.level:g}",
            duel.peer,
            f"{figure(duel.ratio)} ×",
            verdict(duel.ratio, NEVER_SLOWER),
        ]
        for level in LEVELS
        if level != FINEST
        for duel in duels(runs, level)
    ]
    return "\n\n".join(
        [
            "### To 1e-6, against the best peer",
            table(header, rows),
            "### To 1e-2 and 1e-4",
            table(["problem", "λ", "to", "best peer", "ratio", "≥ 0.91 ×"], coarser),
        ]
    )


def stochastic_section(runs: Sequence[Run]) -> str:
    found = duels(runs, STOCHASTIC_LEVEL, is_our_stochastic, is_stochastic_peer)
    rows = [
        [
            duel.solver.removeprefix("sketchridge-stochastic"),
            *duel_row(duel, _stochastic_least(duel)),
        ]
        for duel in found
        if duel.problem.lam == SMALLEST
    ]
    header = ["ours", "problem", "λ", "best peer", "its time", "our time", "ratio", "must be", ""]
    rules = (
        "Ours under the rules of the peers: the epochs are swept, and the fastest run whose true "
        "gap is small enough counts; no certificate."
    )
    return "\n\n".join(["### Stochastic solvers alone, to 1e-3", rules, table(header, rows)])


def _stochastic_least(duel: Duel) -> float:
    return STOCHASTIC_FASTER.get(name(duel.problem), STOCHASTIC_FASTER_ELSEWHERE)


def others_section(runs: Sequence[Run]) -> str:
    """The best of the weaker peers at every level, and whether one of them is in the way."""
    rows = []
    for problem in problems_of(runs):
        here = [run for run in runs if run.problem == problem]
        found = [duel for level in LEVELS for duel in duels(here, level)]
        enough = all(
            duel.ratio >= (least_ratio(problem) if duel.level == FINEST else NEVER_SLOWER)
            for duel in found
        )
        best = {duel.level: f"{duel.peer} **{figure(duel.ratio)} ×**" for duel in found}
        cells = [best.get(level, "–") for level in LEVELS]
        rows.append([name(problem), PENALTIES[problem.lam], *cells, "ok" if enough else "MISSED"])
    meaning = (
        "Those that are not among the strongest, in a board of their own with ours beside them: "
        "the fastest of them to each level, and its time over that of auto. The goals are those "
        "of the tables above."
    )
    header = ["problem", "λ", *(f"to {level:g}" for level in LEVELS), ""]
    return "\n\n".join(["### The other peers", meaning, table(header, rows)])


def regret_section(runs: Sequence[Run]) -> str:
    rows, all_regrets = [], []
    for level in LEVELS:
        for duel in regrets(runs, level):
            all_regrets.append(duel.ratio)
            rows.append(
                [
                    name(duel.problem),
                    PENALTIES[duel.problem.lam],
                    f"{level:g}",
                    duel.solver.removeprefix("sketchridge-candidate"),
                    seconds(duel.ours),
                    seconds(duel.theirs),
                    f"{figure(duel.ratio)} ×",
                    "ok" if duel.ratio <= MOST_REGRET else "MISSED",
                ]
            )
    if not all_regrets:
        return ""
    within = sum(ratio <= MOST_REGRET for ratio in all_regrets)
    summary = (
        f"The planner's time over that of the best of all our candidates: median "
        f"{figure(median(all_regrets))} ×, worst {figure(max(all_regrets))} ×; "
        f"{within} of {len(all_regrets)} within {MOST_REGRET} ×."
    )
    header = ["problem", "λ", "to", "best candidate", "its time", "auto", "regret", "≤ 1.2 ×"]
    return "\n\n".join(["### The planner's regret", summary, table(header, rows)])


def lateness_section(runs: Sequence[Run]) -> str:
    sentences = [_lateness_sentence(lateness(runs, unit), unit) for unit in ("passes", "seconds")]
    if not any(sentences):
        return ""
    meaning = (
        "When the planner's solve stopped by its certificate, over when the true gap had crossed "
        "the tolerance; direct solves, which are never late, are left out."
    )
    return "\n\n".join(["### The certificate's lateness", meaning, *sentences])


def _lateness_sentence(found: dict[tuple[Problem, float], float], unit: str) -> str:
    if not found:
        return ""
    worst = max(found, key=lambda key: found[key])
    problem, level = worst
    return (
        f"In {unit}, over {len(found)} problems, penalties and levels: median "
        f"{at_most(median(found.values()), MEDIAN_LATENESS)}, worst "
        f"{at_most(found[worst], WORST_LATENESS)} on {name(problem)}, "
        f"λ = {PENALTIES[problem.lam]}, to {level:g}."
    )


def growth_section(runs: Sequence[Run]) -> str:
    found = seconds_per_nonzero(runs)
    parts = ["### Growth"]
    for title, series in (
        ("n grows at d = 500", {s: t for s, t in found.items() if s[1] == 500}),
        ("d grows at n = 20000", {s: t for s, t in found.items() if s[0] == 20000}),
    ):
        if not series:
            continue
        least = min(t.median for t in series.values())
        most = max(t.median for t in series.values())
        rows = [
            [f"{n}×{d}", f"{figure(1e9 * t.median)} ns", f"{figure(t.median / least)} ×"]
            for (n, d), t in series.items()
        ]
        parts.append(
            f"{title}: the time per non-zero to 1e-6 is flat within {at_most(most / least, FLAT)}."
        )
        parts.append(table(["size", "per non-zero", "over the least"], rows))
    return "\n\n".join(parts)


def memory_section(runs: Sequence[Run]) -> str:
    rows = []
    for duel in duels(runs, FINEST):
        size = next(_data_bytes(run) for run in runs if run.problem == duel.problem)
        ours = peak_memory(runs, AUTO, duel.problem, FINEST)
        theirs = peak_memory(runs, duel.peer, duel.problem, FINEST)
        megabytes = [figure(b / 1e6) for b in (size, ours, theirs)]
        rows.append([name(duel.problem), PENALTIES[duel.problem.lam], *megabytes, duel.peer])
    header = ["problem", "λ", "X, MB", "auto, MB beyond X", "best peer", "which"]
    return "\n\n".join(["### Peak memory, to 1e-6", table(header, rows)])


def _data_bytes(run: Run) -> int:
    dense = run.nonzeros == run.rows * run.columns
    return 8 * run.nonzeros if dense else 12 * run.nonzeros + 4 * run.rows


def small_section(small: dict[str, float]) -> str:
    numba = "numba was imported: MISSED" if small["numba"] else "numba was not imported: ok"
    rows = [
        [fit, f"{1e6 * small[fit]:.0f} µs", f"{figure(ratio)} ×", verdict(-ratio, -SMALL_RATIO)]
        for fit in ("sketchridge", "sketchridge.Ridge")
        if fit in small
        for ratio in [small[fit] / small["sklearn"]]
    ]
    sentence = (
        f"n = {small['rows']}, d = {small['columns']}, medians of {small['repeats']} fits in turn "
        f"with scikit-learn's Ridge, which takes {1e6 * small['sklearn']:.0f} µs; {numba}."
    )
    header = ["fit", "time", "over scikit-learn's", f"≤ {SMALL_RATIO:g} ×"]
    return "\n\n".join(["### Small problems", sentence, table(header, rows)])


def everything(runs: Sequence[Run]) -> str:
    """All times of all solvers, a table a problem; and one more where the others ran too."""
    parts = ["# Every solver on every problem", "Seconds to each level, medians over the rounds."]
    peers, others = on_boards(runs, PEER_BOARDS), on_boards(runs, [OTHERS])
    for problem in problems_of([*peers, *others]):
        parts.append(f"## {name(problem)}, λ = {PENALTIES[problem.lam]}")
        for board in (peers, others):
            here = [run for run in board if run.problem == problem]
            if here and board is others:
                parts.append("The other peers, in a board of their own:")
            if here:
                parts.append(all_times(here))
    return "\n\n".join(parts) + "\n"


def all_times(runs: Sequence[Run]) -> str:
    """The times of all solvers on one problem, those who came first to the finest level first."""
    times = {
        level: {solver: spread for (_, solver), spread in times_to(runs, level).items()}
        for level in ALL_LEVELS
    }
    solvers = {run.solver for run in runs}
    rows = [
        [
            solver,
            *(seconds(times[level].get(solver, NOBODY)) for level in ALL_LEVELS),
            figure(min(run.suboptimality for run in runs if run.solver == solver)),
        ]
        for solver in sorted(solvers, key=lambda s: (times[FINEST].get(s, NOBODY).median, s))
    ]
    return table(["solver", *(f"to {level:g}" for level in ALL_LEVELS), "best reached"], rows)


def machine_sentence(machine: dict[str, object]) -> str:
    packages = ", ".join(f"{package} {v}" for package, v in machine["packages"].items())
    return (
        f"One run on {machine['cores']} cores of {machine['processor']}, {machine['memory']}, "
        f"{machine['system']}, Python {machine['python']}, load {machine['load']} at the start, "
        f"{machine['date']}; {packages}."
    )


def report(runs: Sequence[Run], machine: dict[str, object], small: dict[str, float] | None) -> str:
    """The whole section of the docs."""
    peers, growth = on_boards(runs, PEER_BOARDS), on_boards(runs, ["growth"])
    others = on_boards(runs, [OTHERS])
    sections = [machine_sentence(machine)]
    if peers:
        sections += [peers_section(peers), stochastic_section(peers), memory_section(peers)]
    if others:
        sections.append(others_section(others))
    if growth:
        sections.append(growth_section(growth))
    aside = ("growth", OTHERS)
    ours = [run for run in runs if run.board not in aside and is_certified(run.solver)]
    if ours:
        sections += [lateness_section(ours), regret_section(ours)]
    if small is not None:
        sections.append(small_section(small))
    return "\n\n".join(section for section in sections if section)


def between_markers(text: str, section: str) -> str:
    """The text with the section between its markers, appended if they are not there yet."""
    block = f"{BEGIN}\n{section}\n{END}"
    if BEGIN not in text:
        return f"{text.rstrip()}\n\n{block}\n"
    head, rest = text.split(BEGIN, 1)
    if END not in rest:
        raise ValueError(f"{BEGIN!r} has no {END!r} after it: put it back")
    return head + block + rest.split(END, 1)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--docs", type=Path, help="the folder whose benchmarks.md is rewritten")
    arguments = parser.parse_args()
    runs = read_runs(arguments.results)
    if not runs:
        raise SystemExit(f"no results in {arguments.results}: run rounds.py first")
    machine = json.loads((arguments.results / "machine.json").read_text())
    path = arguments.results / "small.json"
    section = report(runs, machine, json.loads(path.read_text()) if path.exists() else None)
    print(section)
    if arguments.docs is not None:
        write_docs(arguments.docs, section, runs)


def write_docs(docs: Path, section: str, runs: Sequence[Run]) -> None:
    from figures import draw_profile, draw_times

    pictures = [draw_times(runs, docs / "figures"), draw_profile(runs, docs / "figures")]
    images = "\n\n".join(f"![{alt}](figures/{path.name})" for alt, path in pictures)
    page = docs / "benchmarks.md"
    rest = "The times of every solver are in [benchmarks-all.md](benchmarks-all.md)."
    page.write_text(between_markers(page.read_text(), f"{section}\n\n{rest}\n\n{images}"))
    (docs / "benchmarks-all.md").write_text(everything(runs))


if __name__ == "__main__":
    main()
