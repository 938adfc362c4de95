"""The paper's two figures, drawn from our runs beside its own curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from sketchridge.data.paper import paper_curves, paper_ratio
from sketchridge.experiments import Curve, Outcome
from sketchridge.paper_comparison import Row
from sketchridge.plots import (
    COLOURS,
    INK,
    Panel,
    import_pyplot,
    legend_above,
    save_figure,
    style_axis,
)

PLAIN, SKETCHED, OTHER, PAPER = COLOURS[0], COLOURS[1], COLOURS[2], INK
FAMILY = {"accelerated_svrg": COLOURS[3], "saga": COLOURS[4]}
FAMILY_NAMES = {
    "accelerated_svrg": "sketched accelerated SVRG",
    "saga": "sketched SAGA",
}
# A ratio that grows this much is drawn on a logarithmic scale, as in the paper.
STEEP = 3.0


@dataclass(frozen=True)
class Drawing:
    """A figure: what it draws for one problem, and for which problems."""

    name: str
    label: str  # for those who cannot see it
    draw: Callable[[Any, Row], None]
    shows: Callable[[Row], bool] = lambda row: True

    def panel(self, row: Row) -> Panel:
        """One problem by itself, with a legend."""

        def draw(axis: Any) -> None:
            self.draw(axis, row)
            legend_above(axis, columns=2)

        return draw


def draw_all(rows: Sequence[Row], folder: Path) -> dict[str, Path]:
    """Draw every figure into the folder; returns their paths by name."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for drawing in DRAWINGS.values():
        shown = [row for row in rows if drawing.shows(row)]
        if shown:
            paths[drawing.name] = folder / f"{drawing.name}.png"
            _grid(drawing, shown, paths[drawing.name])
    return paths


def _grid(drawing: Drawing, rows: Sequence[Row], path: Path) -> None:
    """A panel for each problem, with one legend for all."""
    columns = min(len(rows), 2 if len(rows) == 4 else 3)
    lines = ceil(len(rows) / columns)
    figure, axes = import_pyplot().subplots(
        lines,
        columns,
        figsize=(4.2 * columns + 0.2, 3.2 * lines + 0.5),
        layout="constrained",
        squeeze=False,
    )
    handles: dict[str, Any] = {}
    for axis, row in zip(axes.flat, rows, strict=False):
        drawing.draw(axis, row)
        axis.set_title(title(row.outcome), fontsize=10)
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for axis in axes.flat[len(rows) :]:
        axis.set_visible(False)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(columns, 2 if len(handles) == 4 else 3),
        frameon=False,
    )
    save_figure(figure, path)


def title(outcome: Outcome) -> str:
    """The problem, its size, and what stands in for it."""
    n, d = outcome.shape
    stand_in = "\nstand-in for " + outcome.title if outcome.stands_in else ""
    name = {"rcv1-subsets": "RCV1-v2 subsets", "imdb": "IMDB"}.get(outcome.data, outcome.title)
    cut = " (cut)" if outcome.cut else ""
    return f"{name}, {n} × {d}{cut}{stand_in}"


# -- Figure 1 ----------------------------------------------------------------------------------


def draw_ratio(axis: Any, row: Row) -> None:
    """The ratio against k: exact, from the sketch with its bounds, and as printed."""
    ratio = row.outcome.ratio
    ranks = np.arange(1, len(ratio.sketched) + 1)
    axis.fill_between(ranks, ratio.low, ratio.high, color=SKETCHED, alpha=0.2, lw=0)
    if ratio.exact is not None:
        axis.plot(ranks, ratio.exact, color=PLAIN, lw=4, alpha=0.45, label="exact")
    axis.plot(ranks, ratio.sketched, color=SKETCHED, lw=1.4, label="sketch, with bounds")
    printed = paper_ratio(row.outcome.name)
    if printed is not None:
        across = np.arange(1, printed.size + 1)
        axis.plot(across, printed, color=PAPER, lw=1.6, ls="--", label="the paper")
    steep = max(ratio.sketched) > STEEP
    style_axis(axis, "rank k of the preconditioner", "ratio (speed-up)", "y" if steep else "")


# -- Figure 2 ----------------------------------------------------------------------------------


def _epochs(axis: Any, curve: Curve, offset: float = 0.0, **style: Any) -> None:
    heights = np.maximum(np.array(curve.suboptimality[1:]) - offset, 1e-16)
    axis.plot(np.arange(1, heights.size + 1), heights, **style)


def _printed(axis: Any, row: Row, **style: Any) -> None:
    printed = paper_curves(row.outcome.name)
    for values, colour, name in (
        (printed.svrg, PLAIN, "SVRG, the paper"),
        (printed.scsvrg, SKETCHED, "sketched SVRG, the paper"),
    ):
        axis.plot(np.arange(1, values.size + 1), values, color=colour, label=name, **style)


def draw_epochs(axis: Any, row: Row) -> None:
    """Suboptimality against epochs, steps tuned for each method, with the true F*."""
    _printed(axis, row, lw=1.4, ls=(0, (3, 2)), alpha=0.75)
    _epochs(axis, row.svrg, color=PLAIN, lw=1.8, label="SVRG, ours")
    _epochs(axis, row.scsvrg, color=SKETCHED, lw=1.8, label="sketched SVRG, ours")
    axis.set_xlim(left=0)
    style_axis(axis, "epochs", "F(w) − F*", "y")


def draw_fitted(axis: Any, row: Row) -> None:
    """Our curves with the fitted steps, measured from the paper's F*, over the paper's."""
    fit = row.fit
    _printed(axis, row, ls="none", marker="o", ms=3.6, mfc="none", alpha=0.8)
    for curve, colour, name in (
        (fit.svrg, PLAIN, "SVRG"),
        (fit.scsvrg, SKETCHED, "sketched SVRG"),
    ):
        _epochs(axis, curve, fit.offset, color=colour, lw=1.5, label=f"{name}, ours")
        _epochs(axis, curve, color=colour, lw=0.9, ls=":", label=f"{name}, ours, c = 0")
    axis.set_xlim(left=0)
    style_axis(axis, "epochs", "F(w) − F* − c", "y")
    axis.text(
        0.97,
        0.95,
        f"c = {fit.offset:.1e}",
        transform=axis.transAxes,
        ha="right",
        va="top",
        color=INK,
    )


def draw_family(axis: Any, row: Row, quantity: str) -> None:
    """Suboptimality against passes or seconds, sketch included, of the whole family."""
    curves = [
        (row.svrg, PLAIN, "SVRG"),
        (row.scsvrg, SKETCHED, "sketched SVRG, k = 30"),
    ]
    if row.boldest is not None:
        curves.append((row.boldest, OTHER, "sketched SVRG, best rank and m"))
    for curve in row.outcome.relatives:
        name = curve.setting.solver
        curves.append((curve, FAMILY[name], FAMILY_NAMES[name]))
    for curve, colour, name in curves:
        across = getattr(curve, quantity)
        axis.plot(across, curve.suboptimality, color=colour, lw=1.6, label=name)
    axis.set_xlim(left=0)
    labels = {
        "passes": "passes over the data, sketch included",
        "seconds": "seconds on this run's machine, sketch included",
    }
    style_axis(axis, labels[quantity], "F(w) − F*", "y")


DRAWINGS = {
    drawing.name: drawing
    for drawing in (
        Drawing("figure1", "the ratio against the rank", draw_ratio),
        Drawing("figure2-epochs", "suboptimality against epochs", draw_epochs),
        Drawing(
            "figure2-fitted",
            "suboptimality from the paper's F* against epochs",
            draw_fitted,
            lambda row: not row.outcome.stands_in,
        ),
        Drawing(
            "figure2-passes",
            "suboptimality against passes",
            lambda axis, row: draw_family(axis, row, "passes"),
        ),
        Drawing(
            "figure2-seconds",
            "suboptimality against seconds",
            lambda axis, row: draw_family(axis, row, "seconds"),
        ),
    )
}
