"""What is known of a point: its objective, its gradient, and what bounds their errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DualPoint:
    """Dual variables α that a point is made of: w = Σ ω_i α_i x_i / λ, but for a drift."""

    values: Array  # (n, t) α
    drift: Array  # (t,) a bound of ‖w − Σ ω_i α_i x_i / λ‖

    def after(self, move: Array) -> DualPoint:
        """The same variables for a point that was moved by `move` (d, t)."""
        return DualPoint(self.values, self.drift + np.linalg.norm(move, axis=0))


def _joined(
    old: DualPoint | None, new: DualPoint | None, where: NDArray[np.bool_]
) -> DualPoint | None:
    """Take the targets `where` (t,) from the new one; nothing is known where there is none."""
    known = new or old
    if known is None:
        return None
    nothing = DualPoint(np.zeros_like(known.values), np.full_like(known.drift, np.inf))
    old, new = old or nothing, new or nothing
    return DualPoint(np.where(where, new.values, old.values), np.where(where, new.drift, old.drift))


@dataclass(frozen=True)
class Evaluation:
    """The objective and its gradient at a point: from the data, or added up on the way there."""

    coef: Array  # (d, t)
    objective: Array  # (t,) F(w)
    gradient: Array  # (d, t) ∇F(w)
    residual_norm: Array  # (t,) (Σ ω_i r_i²)^½
    residual_mean: Array  # (t,) Σ ω_i r_i, what rounding left of the intercept's gradient
    dual_distance: Array | float = np.inf  # (t,) from the residuals to dual variables, if there are
    duals: DualPoint | None = None  # these, for all targets
    drift: Array | float = 0.0  # (t,) of a gradient that is not fresh: how far it may be off

    def without_duals(self) -> Evaluation:
        """The same, as if it were not known what the point is made of."""
        return replace(self, dual_distance=np.inf, duals=None)

    def replaced(self, by: Evaluation, where: NDArray[np.bool_]) -> Evaluation:
        """Take the targets `where` (t,) from another evaluation."""
        return Evaluation(
            np.where(where, by.coef, self.coef),
            np.where(where, by.objective, self.objective),
            np.where(where, by.gradient, self.gradient),
            np.where(where, by.residual_norm, self.residual_norm),
            np.where(where, by.residual_mean, self.residual_mean),
            np.where(where, by.dual_distance, self.dual_distance),
            _joined(self.duals, by.duals, where),
            np.where(where, by.drift, self.drift),
        )
