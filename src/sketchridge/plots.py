"""Pictures: as files, and as SVG for a page, whose colours follow the page's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from sketchridge.diagnostics import Diagnosis
from sketchridge.files import atomic_write
from sketchridge.solution import Record, Solution

# Distinguishable in print, in grey and by most colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


# What is drawn in these colours on a page takes the page's colours, light or dark.
INK, FAINT = "#101010", "#d9d9d9"
PAGE_STYLE = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
PAGE_SIZE = (4.3, 3.1)
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Panel = Callable[[Any], None]


def import_pyplot() -> Any:
    """matplotlib.pyplot, for files and not for a screen; or a sentence on what to install."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib: install it with pip install 'sketchridge[plot]'"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def check_available() -> None:
    """Say that matplotlib is missing before the work that it would draw."""
    import_pyplot()


def convergence(
    solutions: Mapping[str, Solution],
    minimum: float,
    null_objective: float,
    path: Path,
    title: str,
) -> Path:
    """Draw the relative suboptimality of each solution against passes and seconds.

    `minimum` is F* from another solve, `null_objective` is F(0). A ring marks what each
    solution's certificate proves at its end.
    """
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4.8), sharey=True, layout="constrained")
    for axis, quantity in zip(axes, ("passes", "seconds"), strict=True):
        for (name, solution), colour in zip(solutions.items(), COLOURS, strict=False):
            across = [getattr(record, quantity) for record in solution.history]
            heights = _suboptimality(solution, minimum, null_objective)
            axis.semilogy(across, heights, color=colour, lw=1.8, label=name)
            axis.plot(
                across[-1],
                float(solution.relative_gap),
                "o",
                color=colour,
                mfc="none",
                ms=9,
                label=f"{name}: certified at the end",
            )
        axis.grid(True, which="major", color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("(F(w) − F*) / F(0)")
    axes[0].set_xlabel("passes over the data, the sketch included")
    axes[1].set_xlabel("seconds, the sketch included")
    lines = axes[1].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=len(solutions), frameon=False)
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)
    return path


def _suboptimality(solution: Solution, minimum: float, null_objective: float) -> Sequence[float]:
    """(F − F*) / F(0) along the history, kept above what float64 can tell apart."""
    return [
        max(record.objective - minimum, 1e-16 * null_objective) / null_objective
        for record in solution.history
    ]


def save_figure(figure: Any, path: Path) -> None:
    """Write a picture, in the format that its name tells."""
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        import_pyplot().close(figure)
        raise ValueError(f"{path} is no name of a picture: end it in .png, .svg or .pdf")
    with atomic_write(path) as file:
        figure.savefig(file, dpi=150, format=kind)
    import_pyplot().close(figure)


# -- diagnostics ---------------------------------------------------------------------------------


def diagnosis(found: Diagnosis, path: Path, title: str) -> Path:
    """Draw the spectrum, the paper's ratio, the condition numbers and the budgets."""
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7.6), layout="constrained")
    for axis, panel in zip(axes.flat, diagnosis_panels(found).values(), strict=True):
        panel(axis)
    figure.suptitle(title)
    save_figure(figure, path)
    return path


def diagnosis_panels(found: Diagnosis) -> dict[str, Panel]:
    """The panels of a diagnosis by name: functions that draw on an axis."""
    return {
        "spectrum": lambda axis: _spectrum(axis, found),
        "ratio": lambda axis: _ratio(axis, found),
        "conditions": lambda axis: _conditions(axis, found),
        "budgets": lambda axis: _budgets(axis, found),
    }


def _spectrum(axis: Any, found: Diagnosis) -> None:
    known, ranks = found.eigenvalues, found.ranks
    lower, upper = known.lower[: ranks.size], known.upper[: ranks.size]
    _band(axis, ranks, lower, upper, COLOURS[0])
    axis.plot(ranks, lower, color=COLOURS[0], lw=1.6)
    style_axis(axis, "k", "eigenvalue λₖ of C", logarithmic="xy")


def _ratio(axis: Any, found: Diagnosis) -> None:
    _band(axis, found.ranks, *found.ratio_bounds, COLOURS[1])
    axis.plot(found.ranks, found.ratio, color=COLOURS[1], lw=1.6)
    steep = float(found.ratio.max()) > 5
    style_axis(axis, "rank k", "the paper's ratio (speed-up)", logarithmic="y" if steep else "")


def _conditions(axis: Any, found: Diagnosis) -> None:
    for penalty, colour in zip(found.penalties, COLOURS, strict=False):
        low, high = penalty.preconditioned
        _band(axis, found.ranks, low, high, colour)
        axis.plot(found.ranks, high, color=colour, lw=1.6, label=f"λ = {penalty.lam:.2g}")
    axis.axhline(found.data.rows, color=INK, lw=0.9, ls=":", label="n")
    style_axis(axis, "rank k (1 is as without)", "average condition number", logarithmic="xy")
    legend_above(axis)


def _budgets(axis: Any, found: Diagnosis) -> None:
    passes = [trade.passes for trade in found.trades]
    names = {
        "SVRG": "svrg",
        "sketched SVRG": "sketched_svrg",
        "accelerated SVRG": "accelerated_svrg",
        "sketched, accelerated": "sketched_accelerated_svrg",
        "CG": "cg",
    }
    for (name, field), colour in zip(names.items(), COLOURS, strict=False):
        heights = [getattr(trade, field)[1] for trade in found.trades]
        axis.plot(passes, heights, "o-", color=colour, lw=1.6, ms=4, label=name)
    style_axis(axis, "budget in passes", "smallest λ afforded", logarithmic="xy")
    legend_above(axis)


# -- a solve -------------------------------------------------------------------------------------


def history_panels(history: Sequence[Record], tol: float) -> dict[str, Panel]:
    """The relative gap along a solve against passes and against seconds."""
    return {
        "passes": lambda axis: _gaps(axis, history, tol, "passes", "passes over the data"),
        "seconds": lambda axis: _gaps(axis, history, tol, "seconds", "seconds"),
    }


def _gaps(axis: Any, history: Sequence[Record], tol: float, field: str, label: str) -> None:
    """A line through all records; the certified ones are filled dots."""
    shown = [record for record in history if 0 < record.relative_gap < np.inf]
    across = [getattr(record, field) for record in shown]
    heights = [record.relative_gap for record in shown]
    axis.plot(across, heights, color=COLOURS[0], lw=1.4)
    for certified, fill in ((True, COLOURS[0]), (False, "none")):
        dots = [
            (x, y)
            for x, y, record in zip(across, heights, shown, strict=True)
            if record.certified == certified
        ]
        if dots:
            name = "certified" if certified else "estimated on the way"
            axis.plot(*zip(*dots, strict=True), "o", color=COLOURS[0], mfc=fill, ms=4, label=name)
    axis.axhline(tol, color=COLOURS[1], lw=1.2, ls="--", label=f"tol = {tol:g}")
    axis.set_xlim(left=0)  # the time and the passes before the first look count
    style_axis(axis, label, "relative gap", logarithmic="y")
    legend_above(axis)


# -- pages ---------------------------------------------------------------------------------------


def page_svg(panel: Panel, label: str) -> str:
    """A panel as an <svg> element that takes its colours from the page's variables.

    The page defines --ink, --faint and --line0 to --line5.
    """
    pyplot = import_pyplot()
    # Its identifiers come from the salt: two pictures of a page must not share any.
    with pyplot.rc_context({**PAGE_STYLE, "svg.hashsalt": label}):
        figure, axis = pyplot.subplots(figsize=PAGE_SIZE, layout="constrained")
        panel(axis)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    return _themed(text.getvalue(), label)


def _themed(svg: str, label: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # other pictures of the page have the same
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), svg)
    opening = f'<svg role="img" aria-label="{label}" viewBox'
    svg = re.sub(r"<svg[^>]*?viewBox", opening, svg, count=1, flags=re.DOTALL)
    colours = {INK: "--ink", FAINT: "--faint"}
    colours |= {colour.lower(): f"--line{i}" for i, colour in enumerate(COLOURS)}
    for colour, variable in colours.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg


def _band(axis: Any, across: Any, low: Any, high: Any, colour: str) -> None:
    axis.fill_between(across, low, high, color=colour, alpha=0.2, lw=0)


def legend_above(axis: Any, columns: int = 3) -> None:
    """Above the plot: inside it there is no free place that is always free."""
    axis.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        fontsize="small",
        frameon=False,
        columnspacing=1.0,
        handlelength=1.2,
    )


def style_axis(axis: Any, across: str, up: str, logarithmic: str) -> None:
    """Labels, a grid, and powers of ten along the axes ("x", "y" or both) that are logarithmic."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for name, label in (("x", across), ("y", up)):
        direction = getattr(axis, f"{name}axis")
        if name in logarithmic:
            getattr(axis, f"set_{name}scale")("log")
            direction.set_major_formatter(FuncFormatter(_power_of_ten))
            low, high = direction.get_view_interval()
            if high / low > 30:
                direction.set_minor_formatter(NullFormatter())
            else:
                direction.set_minor_formatter(FuncFormatter(_few_figures))
        direction.set_label_text(label)
    axis.grid(True, which="major", color=FAINT)
    axis.spines[["top", "right"]].set_visible(False)


def _power_of_ten(value: float, position: int | None = None) -> str:
    exponent = round(np.log10(value))
    if 0 <= exponent <= 3:
        return f"{10**exponent}"
    return "10" + str(exponent).translate(SUPERSCRIPTS)


def _few_figures(value: float, position: int | None = None) -> str:
    return f"{value:.1e}" if value < 1e-2 or value >= 1e4 else f"{value:g}"
