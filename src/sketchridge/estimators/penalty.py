"""alpha ↔ λ: scikit-learn's penalty is of the sum of squares, the engine's of their mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.validation import LARGEST, SMALLEST, check_number

Array = NDArray[np.float64]
SCALES = ("sum", "mean")
MOST_UNPENALISED = 2000


def check_alpha(alpha: Any, targets: int) -> Array:
    """The penalties, one a target (t,), from a number or one number a target."""
    if isinstance(alpha, int | float):
        return np.full(targets, check_number("alpha", alpha, 0.0, "give a number ≥ 0"))
    values = np.atleast_1d(np.asarray(alpha, dtype=object))
    if values.ndim != 1 or values.size not in (1, targets):
        raise ValueError(
            f"alpha has shape {np.shape(alpha)} and y has {targets} target(s): give a number, or "
            "one for each target"
        )
    checked = [check_number("alpha", value, 0.0, "give a number ≥ 0") for value in values]
    return np.broadcast_to(np.array(checked), (targets,))


def check_scale(alpha_scale: Any) -> str:
    """What alpha is measured against."""
    if alpha_scale not in SCALES:
        raise ValueError(
            f"alpha_scale={alpha_scale!r} is unknown: give 'sum' (scikit-learn's, the penalty of "
            "the sum of squares) or 'mean' (λ, that of half their mean)"
        )
    return str(alpha_scale)


def check_feature_penalty(feature_penalty: Any, d: int) -> Array | None:
    """The multipliers of the penalty, one a feature (d,); None if they are all one."""
    if feature_penalty is None:
        return None
    try:
        values = np.asarray(feature_penalty, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"feature_penalty={feature_penalty!s:.60} is not made of numbers: give one number "
            "≥ 0 for each column, or None"
        ) from None
    if values.shape != (d,):
        raise ValueError(
            f"feature_penalty has shape {values.shape} and X has {d} columns: give one number ≥ 0 "
            "for each column, or None"
        )
    wrong = np.flatnonzero(~((values == 0) | ((values >= SMALLEST) & (values <= LARGEST))))
    if wrong.size:
        raise ValueError(
            f"feature_penalty[{wrong[0]}] = {values[wrong[0]]:g} is out of range: give 0 (no "
            f"penalty), or between {SMALLEST:g} and {LARGEST:g}"
        )
    unpenalised = int(np.count_nonzero(values == 0))
    if unpenalised > MOST_UNPENALISED:
        raise ValueError(
            f"feature_penalty has {unpenalised} zeros: at most {MOST_UNPENALISED} columns can be "
            "left unpenalised, for a matrix of that size is factorised; give them a small penalty"
        )
    return None if np.all(values == 1.0) else values


def to_lam(alpha: Array, alpha_scale: str, total_weight: float) -> Array:
    """λ of alpha, (t,)."""
    return alpha / total_weight if alpha_scale == "sum" else alpha


def to_sum_alpha(lam: Any, total_weight: float) -> Any:
    """scikit-learn's alpha of λ, a number or (t,)."""
    return lam * total_weight
