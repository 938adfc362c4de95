"""The picture of a regularisation path: coefficients, degrees of freedom and certified gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge import plots
from sketchridge.path import RidgePath

Array = NDArray[np.float64]

NAMED = 6  # coefficients that are told apart, by colour
OTHERS = "#9a9a9a"
SHOWN = 200  # and how many lines there are at most


def draw(
    path: RidgePath,
    file: Path,
    title: str,
    names: tuple[str, ...] | None = None,
    target: int = 0,
    held_out: Array | None = None,
) -> Path:
    """Draw a path for one of its targets against λ.

    `held_out` (folds, L) are errors of rows that folds hold out: they get a panel of their own.
    """
    pyplot = plots.import_pyplot()
    order = np.argsort(path.lams)
    panels = [_coefficients, _degrees, _gaps] + ([_held_out] if held_out is not None else [])
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(7.6, 2.9 * len(panels)), sharex=True, layout="constrained"
    )
    for axis, panel in zip(axes, panels, strict=True):
        panel(axis, path, order, target, names, held_out)
    for axis in axes[:-1]:
        axis.set_xlabel("")
    figure.suptitle(title)
    plots.save_figure(figure, file)
    return file


def _lines(path: RidgePath, target: int) -> tuple[Array, Array]:
    """The coefficients (L, d) and relative gaps (L,) of a target."""
    flat = path.coef.ndim == 2
    coef = path.coef if flat else path.coef[:, target]
    return coef, path.relative_gap if flat else path.relative_gap[:, target]


def _coefficients(axis: Any, path: RidgePath, order: Any, target: int, names: Any, _: Any) -> None:
    coef, _gaps = _lines(path, target)
    strongest = np.argsort(-np.abs(coef).max(axis=0), kind="stable")
    for feature in strongest[NAMED:SHOWN]:
        axis.plot(path.lams[order], coef[order, feature], color=OTHERS, lw=0.6, zorder=1)
    for feature, colour in zip(strongest[:NAMED], plots.COLOURS, strict=False):
        label = f"feature {feature}" if names is None else names[feature]
        axis.plot(path.lams[order], coef[order, feature], color=colour, lw=1.6, label=label)
    plots.style_axis(axis, "λ", "coefficients", logarithmic="x")
    plots.legend_above(axis)


def _degrees(axis: Any, path: RidgePath, order: Any, *_: Any) -> None:
    bounds = path.degrees_of_freedom_bounds[order]
    plots._band(axis, path.lams[order], bounds[:, 0], bounds[:, 1], plots.COLOURS[0])
    axis.plot(path.lams[order], path.degrees_of_freedom[order], color=plots.COLOURS[0], lw=1.6)
    plots.style_axis(axis, "λ", "degrees of freedom", logarithmic="x")


def _gaps(axis: Any, path: RidgePath, order: Any, target: int, *_: Any) -> None:
    _coef, gaps = _lines(path, target)
    floor = 1e-30  # where there is nothing to fit the gap is 0, which no logarithm shows
    axis.plot(path.lams[order], np.maximum(gaps[order], floor), "o", color=plots.COLOURS[0], ms=4)
    axis.axhline(path.tol, color=plots.COLOURS[1], lw=1.2, ls="--", label=f"tol = {path.tol:g}")
    plots.style_axis(axis, "λ", "certified relative gap", logarithmic="xy")
    plots.legend_above(axis)


def _held_out(axis: Any, path: RidgePath, order: Any, _t: int, _n: Any, errors: Any) -> None:
    """Every fold as a thin line, their mean as a thick one, and a mark where it is least."""
    for fold in errors:
        axis.plot(path.lams[order], fold[order], color=OTHERS, lw=0.8, zorder=1)
    mean = errors.mean(axis=0)
    best = int(np.argmin(mean))
    axis.plot(path.lams[order], mean[order], color=plots.COLOURS[0], lw=1.6, label="mean of folds")
    axis.plot(
        path.lams[best],
        mean[best],
        "o",
        color=plots.COLOURS[1],
        ms=6,
        label=f"least at λ = {path.lams[best]:.2g}",
    )
    plots.style_axis(axis, "λ", "squared error, held out", logarithmic="x")
    plots.legend_above(axis)
