"""What a fit comes to, before it is put in scikit-learn's shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sketchridge.solution import Plan, Record, Status

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fit:
    """The coefficients of t targets with their certificates."""

    coef: Array  # (t, d)
    intercept: Array  # (t,)
    lam: Array  # (t,)
    gap: Array  # (t,) certified
    relative_gap: Array  # (t,)
    coef_error_bound: Array  # (t,) ‖w − w*‖ is at most this
    passes: Array  # (t,)
    solver: str  # what really solved it
    status: Status  # the worst
    tol: float
    plan: Plan
    history: tuple[Record, ...]

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Whether each target's certified relative gap is within tol."""
        return self.relative_gap <= self.tol


def join(fits: list[Fit], targets: list[NDArray[np.intp]]) -> Fit:
    """The fits of several groups of targets as one, the targets in their own order."""
    if len(fits) == 1:
        return fits[0]
    order = np.argsort(np.concatenate(targets))

    def together(attribute: str) -> Array:
        values: Array = np.concatenate([getattr(fit, attribute) for fit in fits])[order]
        return values

    notes = list(dict.fromkeys(note for fit in fits for note in fit.plan.notes))
    notes.append(f"{len(fits)} groups of targets by their penalties, each solved together")
    severity = list(Status)
    return replace(
        fits[0],
        coef=together("coef"),
        intercept=together("intercept"),
        lam=together("lam"),
        gap=together("gap"),
        relative_gap=together("relative_gap"),
        coef_error_bound=together("coef_error_bound"),
        passes=together("passes"),
        solver="+".join(dict.fromkeys(fit.solver for fit in fits)),
        status=max((fit.status for fit in fits), key=severity.index),
        plan=replace(fits[0].plan, notes=tuple(notes)),
        history=tuple(record for fit in fits for record in fit.history),
    )
