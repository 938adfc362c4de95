"""The picture of a comparison: certified gap against passes and against seconds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from sketchridge import plots
from sketchridge.solution import Solution, Status

# A colour a solver, a line a preconditioner: what two curves have in common is seen.
COLOURS = (*plots.COLOURS, "#000000", "#999999", "#8B4513", "#6A3D9A", "#B2DF8A")
LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))
ALONE = 3  # records; a method with fewer is a point
LEGEND_WIDTH = 140  # characters


def draw(solutions: Mapping[str, Solution], tol: float, path: Path, title: str) -> Path:
    """Draw the solutions by label: curves, and points for methods that are done in one step."""
    pyplot = plots.import_pyplot()
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 5.4), sharey=True, layout="constrained")
    styles = _styles(solutions)
    floor = tol / 30
    for axis, quantity in zip(axes, ("passes", "seconds"), strict=True):
        for label, solution in solutions.items():
            _curve(axis, quantity, label, solution, styles[label], floor)
        _logarithmic(axis, pyplot)
        axis.axhline(tol, color="0.5", lw=0.8, zorder=0)
        axis.grid(True, which="major", color="0.92")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(floor / 1.5, 2.0)
    axes[0].set_ylabel("certified (F(w) − F*) / F(0), at most")
    axes[0].set_xlabel("passes over the data, the sketch included")
    axes[1].set_xlabel("seconds, the sketch included")
    figure.legend(
        *axes[1].get_legend_handles_labels(),
        title="ring: converged    cross: not converged    diamond: one step",
        loc="outside lower center",
        ncols=max(1, min(4, LEGEND_WIDTH // max(len(label) + 10 for label in ("", *solutions)))),
        frameon=False,
        handlelength=3.5,
    )
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def _logarithmic(axis: Any, pyplot: Any) -> None:
    """Logarithmic axes, with figures that are read without counting zeros."""
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.xaxis.set_major_locator(pyplot.LogLocator(subs=(1, 2, 5), numticks=12))
    axis.xaxis.set_major_formatter(pyplot.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(pyplot.NullFormatter())


def _styles(solutions: Mapping[str, Solution]) -> dict[str, dict[str, Any]]:
    """A colour a solver and a line a preconditioner, or one of each a method."""
    pairs = {label: (one.plan.solver, one.plan.preconditioner) for label, one in solutions.items()}
    if len(set(pairs.values())) < len(pairs):  # the same solver with other parameters
        pairs = {label: (label, str(place // len(COLOURS))) for place, label in enumerate(pairs)}
    colours = dict(
        zip(dict.fromkeys(solver for solver, _ in pairs.values()), cycle(COLOURS), strict=False)
    )
    lines = dict(
        zip(dict.fromkeys(second for _, second in pairs.values()), cycle(LINES), strict=False)
    )
    return {
        label: {"color": colours[solver], "ls": lines[second]}
        for label, (solver, second) in pairs.items()
    }


def _curve(
    axis: Any,
    quantity: str,
    label: str,
    solution: Solution,
    style: Mapping[str, Any],
    floor: float,
) -> None:
    """One method; what is certified far beyond the tolerance is drawn at the bottom.

    A running gradient may say more than 1, which w = 0 has for certain.
    """
    across = np.array([getattr(record, quantity) for record in solution.history])
    heights = np.array([record.relative_gap for record in solution.history])
    finite = np.isfinite(heights)
    across, heights = across[finite], np.clip(heights[finite], floor, 1.0)
    if not across.size:
        return
    converged = solution.status is Status.CONVERGED
    end = {"marker": "o" if converged else "X", "ms": 7, "color": style["color"], "ls": "none"}
    if across.size < ALONE:
        axis.plot(across[-1], heights[-1], label=label, **end | {"marker": "D"})
        return
    axis.plot(across, heights, lw=1.7, label=label, **style)
    axis.plot(across[-1], heights[-1], **end, mfc="none" if converged else style["color"])
