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
    """How a solve ended, as a sentence that says what to do next; the worst comes last."""

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
    """A line of the history: the worst target's gaps and the mean objective at one point."""

    passes: float
    seconds: float
    objective: float  # mean over the targets
    gap: float  # the largest over the targets, absolute
    relative_gap: float  # the largest over the targets
    certified: bool  # with all rounding; else by the solver's running gradient, or its estimates
    event: str | None = None


@dataclass(frozen=True)
class Forecast:
    """What the planner expected of a method; passes and seconds are NaN where they are unknown."""

    method: str
    passes: float
    seconds: float
    memory: int  # bytes beyond X

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
    """What was chosen, and why."""

    solver: str
    preconditioner: str
    rank: int
    reason: str
    notes: tuple[str, ...] = ()
    forecasts: tuple[Forecast, ...] = ()  # of all that was weighed, the cheapest first

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

    `coef`, `gap`, `relative_gap`, `converged` and `explained_gap` have one entry a target when y
    has two dimensions, and are a vector and scalars when it has one.
    """

    coef: Array
    intercept: Any
    objective: Any
    gap: Any  # certified: F(coef) − F* is at most this
    relative_gap: Any  # gap / F(0)
    explained_gap: Any  # gap / (F(0) − F(coef)): strict where little is explained
    converged: Any
    status: Status
    passes: float
    seconds: float
    tol: float
    history: tuple[Record, ...]
    plan: Plan
    preconditioner: Preconditioner
    shape: tuple[int, int]
    trace_bounds: tuple[float, float]  # of the trace of C; they differ by rounding
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
