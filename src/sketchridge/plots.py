"""Pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sketchridge.solution import Solution

# Distinguishable in print, in grey and by most colour-blind readers (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib: install it with pip install 'sketchridge[plot]'"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


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
    pyplot = _pyplot()
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
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def _suboptimality(solution: Solution, minimum: float, null_objective: float) -> Sequence[float]:
    """(F − F*) / F(0) along the history, kept above what float64 can tell apart."""
    return [
        max(record.objective - minimum, 1e-16 * null_objective) / null_objective
        for record in solution.history
    ]
