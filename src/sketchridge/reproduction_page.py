"""The page about a reproduction, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill

from sketchridge.experiments import LAM, RANK, STEPS
from sketchridge.paper_comparison import Row, checks, explain, ratio_at_rank

WIDTH = 118


def page(
    rows: Sequence[Row],
    pictures: dict[str, str],
    skipped: Sequence[str],
    seconds: float,
    machine: str,
) -> str:
    """The page as Markdown; `pictures` are links to the figures by their names."""
    return "\n".join(_lines(rows, pictures, skipped, seconds, machine)) + "\n"


def _lines(
    rows: Sequence[Row],
    pictures: dict[str, str],
    skipped: Sequence[str],
    seconds: float,
    machine: str,
) -> Iterable[str]:
    yield "# The paper, reproduced"
    yield ""
    yield from _introduction(rows, skipped, seconds, machine)
    yield from _data(rows)
    yield from _figure1(rows, pictures)
    yield from _figure2(rows, pictures)
    yield from _fitted(rows, pictures)
    yield from _family(rows, pictures)
    yield from _promises(rows)


def _introduction(
    rows: Sequence[Row], skipped: Sequence[str], seconds: float, machine: str
) -> Iterable[str]:
    yield from _text(
        "This page is written by `make reproduce` (`sketchridge reproduce`). The paper is "
        "Gonen, Orabona, Shalev-Shwartz, *Solving Ridge Regression using Sketched "
        "Preconditioned SVRG*; its curves are the numbers that its figures were printed "
        "from."
    )
    yield from _text(f"This run took {seconds / 60:.0f} minutes on {machine}.")
    if any(row.outcome.cut for row in rows):
        yield from _text(
            "**This was a quick rehearsal on cut data: it says nothing of the paper.**"
        )
    for sentence in skipped:
        yield from _text(f"Skipped: {sentence}.")


def _text(text: str) -> Iterable[str]:
    """A paragraph, broken into lines."""
    yield fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    for line in lines:
        yield f"| {' | '.join(line)} |"
    yield ""


def _data(rows: Sequence[Row]) -> Iterable[str]:
    yield "## The data"
    yield ""
    yield from _text(
        f"λ = {LAM:g}, every row divided by the average norm of the rows. F* is certified: "
        "it is too high by no more than the last column."
    )

    def line(row: Row) -> Sequence[str]:
        outcome = row.outcome
        n, d = outcome.shape
        used = "the paper's" if not outcome.stands_in else f"**stand-in: {outcome.data}**"
        if outcome.name.startswith("synthetic"):
            used = "the paper's recipe, another draw"
        return (
            outcome.title,
            used + (" (cut)" if outcome.cut else ""),
            f"{n} × {d}",
            f"{outcome.minimum:.8g}",
            outcome.minimum_solver,
            f"{outcome.minimum_gap:.1e}",
        )

    yield from _table(
        ("problem", "data", "rows × columns", "F*", "by", "too high by ≤"), map(line, rows)
    )


def _figure1(rows: Sequence[Row], pictures: dict[str, str]) -> Iterable[str]:
    yield "## Figure 1: the ratio"
    yield ""
    yield from _text(
        "The speed-up that the theory promises, tr C / (kλ_k + Σ_{i>k} λ_i), against k: "
        "exact where all eigenvalues are affordable, and from one sketch for every k. The "
        "band is a bound that holds with high probability."
    )
    yield from _picture("Figure 1", pictures.get("figure1"))

    def line(row: Row) -> Sequence[str]:
        ratio = row.outcome.ratio
        error = "not computed" if ratio.error is None else f"{100 * ratio.error:.2g} %"
        return (
            row.outcome.title,
            f"{ratio_at_rank(row.outcome):.4g}",
            f"{ratio.sketched[-1]:.4g} (k = {len(ratio.sketched)})",
            error,
            f"{ratio.passes:.0f}",
        )

    yield from _table(
        (
            "problem",
            f"ratio at k = {RANK}",
            "at the largest k",
            "sketch off the exact one by ≤",
            "passes of the sketch",
        ),
        map(line, rows),
    )


def _figure2(rows: Sequence[Row], pictures: dict[str, str]) -> Iterable[str]:
    yield "## Figure 2: convergence"
    yield ""
    grid = ", ".join(f"{step:g}" for step in STEPS)
    yield from _text(
        f"SVRG and sketched preconditioned SVRG (k = {RANK}) with m = n and averaged "
        f"snapshots. The step is tuned for each method over {grid} times 1/β̂, as the one "
        "that ends lowest. The gain is SVRG's F − F* over the sketched one's at the last "
        "epoch, with the true F*."
    )
    yield from _picture("Figure 2 against epochs", pictures.get("figure2-epochs"))

    def line(row: Row) -> Sequence[str]:
        return (
            row.outcome.label,
            f"{row.scsvrg.epochs}",
            f"{row.paper_gain:.3g}",
            f"{row.gain:.3g}",
            f"{row.svrg.last:.2e} ({row.svrg_to_paper:.2f})",
            f"{row.scsvrg.last:.2e} ({row.scsvrg_to_paper:.2f})",
            f"{row.svrg.setting.step:g}, {row.scsvrg.setting.step:g}",
        )

    yield from _table(
        (
            "problem",
            "epoch",
            "the paper's gain",
            "ours",
            "our SVRG (over the paper's)",
            "our sketched SVRG (over the paper's)",
            "steps",
        ),
        map(line, rows),
    )


def _fitted(rows: Sequence[Row], pictures: dict[str, str]) -> Iterable[str]:
    yield "## The paper's F*"
    yield ""
    yield from _text(
        "The paper's curves bend down at their end, where ours do not: as if its F* were "
        "too high by a small number c. One c for each problem and a step for each method "
        "are fitted. The spread is the median over all epochs of the ratio of our F − F* "
        "− c to the paper's value, or of its inverse: 1 is perfect."
    )
    yield from _picture("Our curves measured from F* + c", pictures.get("figure2-fitted"))

    def line(row: Row) -> Sequence[str]:
        fit = row.fit
        return (
            row.outcome.label,
            f"{fit.offset:.2e}",
            f"{fit.svrg.setting.step:g}, {fit.scsvrg.setting.step:g}",
            f"{fit.svrg_spread:.3f}",
            f"{fit.scsvrg_spread:.3f}",
        )

    yield from _table(
        ("problem", "c", "steps", "spread, SVRG", "spread, sketched SVRG"), map(line, rows)
    )
    yield from _explanations(rows)


def _explanations(rows: Sequence[Row]) -> Iterable[str]:
    tried = [row for row in rows if row.outcome.alternatives]
    if not tried:
        return
    yield "## What the paper leaves open"
    yield ""
    yield from _text(
        "The runs above have m = n (the paper: “proportional to n”), averaged iterates (as its "
        "Algorithm 1), the regulariser handled exactly, and, in the synthetic problems, noise of "
        "variance 0.01. This is how well these and other readings explain the paper's curves, each "
        "with its best step and its own c; the last column needs neither: where the step that "
        "ends lowest ends, over the paper's last value."
    )
    names = {"svrg": "SVRG", "scsvrg": "sketched SVRG"}
    yield from _table(
        ("problem", "the paper's curve", "reading", "step", "c", "spread", "end, over the paper's"),
        (
            (
                row.outcome.title,
                names[reading.method],
                reading.choice,
                f"{reading.step:g}",
                f"{reading.offset:.1e}",
                f"{reading.spread:.3f}",
                f"{reading.end:.2g}",
            )
            for row in tried
            for reading in explain(row.outcome)
        ),
    )


def _family(rows: Sequence[Row], pictures: dict[str, str]) -> Iterable[str]:
    yield "## Against passes and seconds"
    yield ""
    yield from _text(
        "A pass reads every row once; the sketch counts. All methods but SVRG have the "
        "budget of passes of the sketched SVRG above. Seconds are those of this run on "
        "this machine, with whatever else it was doing."
    )
    yield from _picture("Figure 2 against passes", pictures.get("figure2-passes"))
    yield from _picture("Figure 2 against seconds", pictures.get("figure2-seconds"))

    def line(row: Row) -> Sequence[str]:
        bold = row.boldest
        best = "–" if bold is None else f"{bold.last:.2e} ({bold.setting})"
        relatives = {curve.setting.solver: f"{curve.last:.2e}" for curve in row.outcome.relatives}
        return (
            row.outcome.label,
            f"{row.scsvrg.passes[-1]:.0f}",
            f"{row.scsvrg.last:.2e}",
            best,
            "–" if row.boldest_to_paper is None else f"{row.boldest_to_paper:.2f}",
            relatives.get("accelerated_svrg", "–"),
            relatives.get("saga", "–"),
        )

    yield from _table(
        (
            "problem",
            "passes",
            f"sketched SVRG, k = {RANK}",
            "best of rank and m",
            "over the paper's",
            "accelerated",
            "SAGA",
        ),
        map(line, rows),
    )


def _promises(rows: Sequence[Row]) -> Iterable[str]:
    promises = checks(rows)
    if not promises:
        return
    yield "## What is promised"
    yield ""
    for check in promises:
        yield f"- {'kept' if check.kept else '**NOT KEPT**'}: {check.sentence}."


def _picture(title: str, path: str | None) -> Iterable[str]:
    if path is not None:
        yield f"![{title}]({path})"
        yield ""
