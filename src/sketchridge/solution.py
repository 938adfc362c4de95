"""What a solve returns: the coefficients, their certificate, how it went and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import DegreesCounter
from sketchridge.preconditioner import Preconditioner

Array = NDArray[np.float64]
SHOWN = 6  # of the methods that were weighed, where a plan is printed


class Status(Enum):
    """How a solve ended, as a sentence that says what to do next; the worst comes last.

    CONVERGED, STOPPED, ENDED, MAX_PASSES, MAX_SECONDS, INTERRUPTED, STAGNATED or DIVERGED; the
    guide to reading the certificate tells what to do about each.
    """

    CONVERGED = "converged: the certified relative gap is within tol"
    STOPPED = "stopped by the callback: the best point so far is returned"
    ENDED = (
        "ended: the method is not iterative, and its certified gap is above tol; give it more "
        "rows, or go on from its coef as coef_init with solver='cg'"
    )
    MAX_PASSES = (
        "not converged: the budget of passes is spent; raise max_passes, or tol, or use a "
        "preconditioner of higher rank"
    )
    MAX_SECONDS = (
        "not converged: the time is spent; raise max_seconds, or tol, or use a preconditioner "
        "of higher rank"
    )
    INTERRUPTED = "interrupted: the best point so far is returned; pass it as coef_init to go on"
    STAGNATED = (
        "stagnated: no progress at the accuracy of float64; raise lam or tol, or accept the "
        "certified gap"
    )
    DIVERGED = (
        "diverged: the best point before it is returned; use a smaller step, or step=None to "
        "have it adapted"
    )


@dataclass(frozen=True)
class Record:
    """A line of the history: the worst target's gaps and the mean objective at one point.

    Attributes
    ----------
    passes : float
        Passes over the data so far, sketches and certificates included.
    seconds : float
        Since the solve began.
    objective : float
        F, the mean over the targets.
    gap : float
        At least F − min F, the largest over the targets.
    relative_gap : float
        The same over F(0).
    certified : bool
        Whether that is proved, with all rounding; else it is the solver's estimate.
    event : str or None
        What happened there, if anything did: a step that was halved, say.
    """

    passes: float
    seconds: float
    objective: float
    gap: float
    relative_gap: float
    certified: bool
    event: str | None = None


@dataclass(frozen=True)
class Forecast:
    """What the planner expected of a method; passes and seconds are NaN where they are unknown.

    Attributes
    ----------
    method : str
        The solver, with its preconditioner.
    passes : float
        Over the data.
    seconds : float
        On this machine.
    memory : int
        Bytes beyond X.
    """

    method: str
    passes: float
    seconds: float
    memory: int

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The method, its passes, seconds and megabytes in words."""
        unknown = self.passes != self.passes
        return (
            self.method,
            "?" if unknown else f"{self.passes:.0f}",
            "?" if unknown else f"{self.seconds:.2g}",
            f"{self.memory / 1e6:.3g}",
        )

    def __str__(self) -> str:
        method, passes, seconds, megabytes = self.cells
        return f"{method:<44} {passes:>6} passes {seconds:>9} s {megabytes:>9} MB"


@dataclass(frozen=True)
class Plan:
    """What was chosen, and why; `print` it.

    Attributes
    ----------
    solver : str
        Its name.
    preconditioner : str
        Its name; "none" for none.
    rank : int
        How many directions the preconditioner treats one by one; 0 for none.
    reason : str
        A sentence.
    notes : tuple of str
        Copies, casts, fallbacks and changes of the plan.
    forecasts : tuple of Forecast
        Of all that was weighed, the cheapest first.
    """

    solver: str
    preconditioner: str
    rank: int
    reason: str
    notes: tuple[str, ...] = ()
    forecasts: tuple[Forecast, ...] = ()

    def __str__(self) -> str:
        method = self.solver
        if self.preconditioner != "none":
            rank = f" (rank {self.rank})" if self.rank else ""
            method += f" with {self.preconditioner}{rank}"
        table = [f"  expected: {forecast}" for forecast in self.forecasts[:SHOWN]]
        if len(self.forecasts) > SHOWN:
            table.append(f"  and {len(self.forecasts) - SHOWN} others, in plan.forecasts")
        return "\n".join(
            [f"{method}: {self.reason}", *table, *(f"  note: {note}" for note in self.notes)]
        )


@dataclass(frozen=True, repr=False, eq=False)
class Solution:
    """The answer of `solve`.

    What there is for each target has one entry a target when y has two dimensions, and is a
    vector and scalars when it has one.

    Attributes
    ----------
    coef : ndarray of shape (d,) or (t, d)
        The coefficients.
    intercept : float or ndarray of shape (t,)
        The intercepts; 0 without `fit_intercept`.
    objective : float or ndarray of shape (t,)
        F(coef).
    gap : float or ndarray of shape (t,)
        Certified: F(coef) − min F is at most this.
    relative_gap : float or ndarray of shape (t,)
        `gap` / F(0), which `tol` is about.
    explained_gap : float or ndarray of shape (t,)
        `gap` / (F(0) − F(coef)): strict where little is explained.
    converged : bool or ndarray of shape (t,)
        Whether `relative_gap` is within `tol`.
    status : Status
        How the solve ended, and what to do next.
    passes : float
        Passes over the data, sketches and certificates included.
    seconds : float
        What it took.
    tol : float
        What was asked for.
    history : tuple of Record
        How the accuracy grew.
    plan : Plan
        What was chosen and why, and what had to be copied or cast.
    preconditioner : Preconditioner
        For further solves on the same data, of other targets or λ.
    shape : tuple of int
        (n, d).
    trace_bounds : tuple of float
        Bounds of the trace of C = XᵀX/n (centred, with an intercept); they differ by rounding.
    """

    coef: Array
    intercept: Any
    objective: Any
    gap: Any
    relative_gap: Any
    explained_gap: Any
    converged: Any
    status: Status
    passes: float
    seconds: float
    tol: float
    history: tuple[Record, ...]
    plan: Plan
    preconditioner: Preconditioner
    shape: tuple[int, int]
    trace_bounds: tuple[float, float]
    _counter: DegreesCounter = field(repr=False)

    @cached_property
    def degrees_of_freedom_bounds(self) -> tuple[float, float]:
        """Bounds of the effective dimension tr(C(C + λI)⁻¹); equal after a direct solve."""
        return self._counter.degrees_of_freedom(self.trace_bounds, min(self.shape))

    @property
    def degrees_of_freedom(self) -> float:
        """The effective dimension: exact after a direct solve, else the middle of its bounds."""
        low, high = self.degrees_of_freedom_bounds
        return (low + high) / 2

    def __repr__(self) -> str:
        return (
            f"Solution({self.status.name.lower()}, relative gap ≤ "
            f"{np.max(self.relative_gap):.2g}, {self.plan.solver}+{self.plan.preconditioner}, "
            f"{self.passes:.4g} passes, {self.seconds:.3g} s)"
        )

    def summary(self) -> str:
        """A page about the solve, for people."""
        n, d = self.shape
        targets = "" if self.coef.ndim == 1 else f", {self.coef.shape[0]} targets"
        worst = float(np.max(self.relative_gap))
        events = [
            f"  at pass {record.passes:.1f}: {record.event}"
            for record in self.history
            if record.event and record.event not in self.plan.notes
        ]
        lines = [
            f"ridge regression, {n} rows × {d} columns{targets}",
            f"status         {self.status.value}",
            f"objective      {_figures(self.objective, '.10g')}",
            f"certified gap  {_figures(self.gap, '.3g')}   (F(coef) − F* is at most this)",
            f"relative gap   {worst:.3g} of F(0)   (tol {self.tol:g})",
            f"               {float(np.max(self.explained_gap)):.3g} of what is explained",
            f"work           {self.passes:.1f} passes over the data, {self.seconds:.3g} s",
            f"plan           {self.plan}".replace("\n", "\n               "),
        ]
        return "\n".join([*lines, *(["events", *events] if events else [])])


def _figures(values: Any, form: str) -> str:
    array = np.atleast_1d(values)
    if array.size == 1:
        return format(float(array[0]), form)
    return f"{format(float(array.min()), form)} to {format(float(array.max()), form)}"
