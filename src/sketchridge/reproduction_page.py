"""The page about a reproduction: one content, as HTML by `report` or as Markdown here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill

from sketchridge.experiments import LAM, RANK, STEPS
from sketchridge.figures import DRAWINGS, title
from sketchridge.paper_comparison import Row, checks, explain, ratio_at_rank
from sketchridge.report import Page, Picture, Section, Table

WIDTH = 118
METHOD_NAMES = {"svrg": "SVRG", "scsvrg": "sketched SVRG"}


def reproduction_page(
    rows: Sequence[Row], skipped: Sequence[str], seconds: float, machine: str
) -> Page:
    """The page: data, both figures, the paper's F*, what it leaves open, the promises."""
    promises = checks(rows)
    broken = sum(not promise.kept for promise in promises)
    verdict = f"{len(promises) - broken} of {len(promises)} promises kept" if promises else ""
    return Page(
        title="The paper, reproduced",
        verdict=verdict,
        good=broken == 0,
        lead="The figures of Gonen, Orabona and Shalev-Shwartz, Solving Ridge Regression using "
        "Sketched Preconditioned SVRG, out of this code and beside the paper's own curves, which "
        "are the numbers that its figures were printed from.",
        sections=[
            _this_run(rows, skipped, seconds, machine),
            _data(rows),
            _figure1(rows),
            _figure2(rows),
            _fitted(rows),
            *_open_choices(rows),
            _family(rows),
            *_promises(rows),
        ],
    )


def _this_run(rows: Sequence[Row], skipped: Sequence[str], seconds: float, machine: str) -> Section:
    texts = [
        f"Written by “make reproduce” (sketchridge reproduce) in {seconds / 60:.0f} minutes on "
        f"{machine}."
    ]
    if any(row.outcome.cut for row in rows):
        texts.append("This was a quick rehearsal on cut data: it says nothing of the paper.")
    return Section(paragraphs=[*texts, *(f"Skipped: {sentence}." for sentence in skipped)])


def _pictures(name: str, rows: Sequence[Row]) -> list[Picture]:
    """A figure, a picture for each problem."""
    drawing = DRAWINGS[name]
    return [
        Picture(
            drawing.panel(row),
            f"{row.outcome.label}: {drawing.label}",
            title(row.outcome).replace("\n", ", "),
        )
        for row in rows
        if drawing.shows(row)
    ]


def _data(rows: Sequence[Row]) -> Section:
    def line(row: Row) -> Sequence[str]:
        outcome = row.outcome
        n, d = outcome.shape
        used = f"stand-in: {outcome.data}" if outcome.stands_in else "the paper's"
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

    header = ("problem", "data", "rows × columns", "F*", "by", "too high by ≤")
    return Section(
        title="The data",
        paragraphs=[
            f"λ = {LAM:g}, every row divided by the average norm of the rows. F* is certified: it "
            "is too high by no more than the last column."
        ],
        tables=[Table(header, list(map(line, rows)))],
    )


def _figure1(rows: Sequence[Row]) -> Section:
    def line(row: Row) -> Sequence[str]:
        ratio = row.outcome.ratio
        return (
            row.outcome.label,
            f"{ratio_at_rank(row.outcome):.4g}",
            f"{ratio.sketched[-1]:.4g} (k = {len(ratio.sketched)})",
            "not computed" if ratio.error is None else f"{100 * ratio.error:.2g} %",
            f"{ratio.passes:.0f}",
        )

    header = (
        "problem",
        f"ratio at k = {RANK}",
        "at the largest k",
        "sketch off the exact one by ≤",
        "passes of the sketch",
    )
    return Section(
        title="Figure 1: the ratio",
        paragraphs=[
            "The speed-up that the theory promises, tr C / (kλ_k + Σ_{i>k} λ_i), against k: exact, "
            "and from one sketch for every k. The band is a bound that holds with high probability."
        ],
        figures=_pictures("figure1", rows),
        tables=[Table(header, list(map(line, rows)))],
    )


def _figure2(rows: Sequence[Row]) -> Section:
    def line(row: Row) -> Sequence[str]:
        return (
            row.outcome.label,
            f"{row.scsvrg.epochs}",
            f"{row.paper_gain:.3g}",
            f"{row.gain:.3g}",
            f"{row.svrg.last:.2e} ({row.svrg_to_paper:.2g})",
            f"{row.scsvrg.last:.2e} ({row.scsvrg_to_paper:.2g})",
            f"{row.svrg.setting.step:g}, {row.scsvrg.setting.step:g}",
        )

    header = (
        "problem",
        "epoch",
        "the paper's gain",
        "our gain",
        "our SVRG (over the paper's)",
        "our sketched SVRG (over the paper's)",
        "steps",
    )
    grid = ", ".join(f"{step:g}" for step in STEPS)
    return Section(
        title="Figure 2: convergence",
        paragraphs=[
            f"SVRG and sketched preconditioned SVRG (k = {RANK}), m = n, averaged snapshots. The "
            f"step is tuned for each method over {grid} times 1/β̂, as the one that ends lowest. "
            "The gain is SVRG's F − F* over the sketched one's at the last epoch, with the true F*."
        ],
        figures=_pictures("figure2-epochs", rows),
        tables=[Table(header, list(map(line, rows)))],
    )


def _fitted(rows: Sequence[Row]) -> Section:
    def line(row: Row) -> Sequence[str]:
        fit = row.fit
        return (
            row.outcome.label,
            f"{fit.offset:.2e}",
            f"{fit.svrg.setting.step:g}, {fit.scsvrg.setting.step:g}",
            f"{fit.svrg_spread:.3f}",
            f"{fit.scsvrg_spread:.3f}",
        )

    header = ("problem", "c", "steps", "spread, SVRG", "spread, sketched SVRG")
    return Section(
        title="The paper's F*",
        paragraphs=[
            "The paper's curves bend down at their end, where ours do not: as if its F* were too "
            "high by a small number c. One c for each problem and a step for each method are "
            "fitted. The spread is the median over all epochs of the ratio of our F − F* − c to "
            "the paper's value, or of its inverse: 1 is perfect. On stand-in data it means little."
        ],
        figures=_pictures("figure2-fitted", rows),
        tables=[Table(header, list(map(line, rows)))],
    )


def _open_choices(rows: Sequence[Row]) -> Iterable[Section]:
    lines = [
        (
            row.outcome.title,
            METHOD_NAMES[reading.method],
            reading.choice,
            f"{reading.step:g}",
            f"{reading.offset:.1e}",
            f"{reading.spread:.3f}",
            f"{reading.end:.2g}",
        )
        for row in rows
        for reading in explain(row.outcome)
    ]
    header = ("problem", "curve", "reading", "step", "c", "spread", "end, over the paper's")
    if lines:
        yield Section(
            title="What the paper leaves open",
            paragraphs=[
                "The runs above have m = n (the paper: “proportional to n”), averaged iterates (as "
                "its Algorithm 1), the regulariser handled exactly, and, in the synthetic "
                "problems, noise of variance 0.01: the paper's N(0, 0.1) read as a standard "
                "deviation. This is how well these and other readings explain the paper's curves, "
                "each with its best step and its own c. The last column needs neither: it is where "
                "the step that ends lowest ends, over the paper's last value."
            ],
            tables=[Table(header, lines)],
        )


def _family(rows: Sequence[Row]) -> Section:
    def line(row: Row) -> Sequence[str]:
        bold = row.boldest
        relatives = {curve.setting.solver: f"{curve.last:.2e}" for curve in row.outcome.relatives}
        return (
            row.outcome.label,
            f"{row.scsvrg.passes[-1]:.0f}",
            f"{row.scsvrg.last:.2e}",
            "–" if bold is None else f"{bold.last:.2e} ({bold.setting})",
            "–" if row.boldest_to_paper is None else f"{row.boldest_to_paper:.2g}",
            relatives.get("accelerated_svrg", "–"),
            relatives.get("saga", "–"),
        )

    header = (
        "problem",
        "passes",
        f"sketched SVRG, k = {RANK}",
        "best of rank and m",
        "over the paper's",
        "accelerated",
        "SAGA",
    )
    return Section(
        title="Against passes and seconds",
        paragraphs=[
            "A pass reads every row once; the sketch counts. All methods but SVRG have the budget "
            "of passes of the tuned sketched SVRG above. Seconds are those of this run on this "
            "machine, with whatever else it was doing."
        ],
        figures=_pictures("figure2-passes", rows) + _pictures("figure2-seconds", rows),
        tables=[Table(header, list(map(line, rows)))],
    )


def _promises(rows: Sequence[Row]) -> Iterable[Section]:
    lines = [("kept" if check.kept else "NOT KEPT", check.sentence) for check in checks(rows)]
    if lines:
        yield Section(title="What is promised", tables=[Table(("", "promise"), lines)])


# -- as Markdown -------------------------------------------------------------------------------

SECTION_FIGURES = {
    "Figure 1: the ratio": ("figure1",),
    "Figure 2: convergence": ("figure2-epochs",),
    "The paper's F*": ("figure2-fitted",),
    "Against passes and seconds": ("figure2-passes", "figure2-seconds"),
}


def as_markdown(page: Page, links: Mapping[str, str]) -> str:
    """The page as Markdown; `links` lead to the figures, all problems in one, by their names."""
    blocks = [f"# {page.title}", _wrapped(page.lead)]
    for section in page.sections:
        blocks += [f"## {section.title}"] if section.title else []
        blocks += map(_wrapped, section.paragraphs)
        for name in SECTION_FIGURES.get(section.title, ()):
            if name in links:
                blocks.append(f"![{DRAWINGS[name].label}]({links[name]})")
        blocks += map(_table, section.tables)
    return "\n\n".join(blocks) + "\n"


def _wrapped(text: str) -> str:
    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _table(table: Table) -> str:
    lines = [table.header, ["---"] * len(table.header), *table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
