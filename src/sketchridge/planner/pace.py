"""How fast a solve gets on, and the plan to change to when that is slower than another method."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sketchridge.planner.choice import Choice

# What the spectrum alone cannot tell is found out by trying: so many passes.
TRIAL_PASSES = 8.0
# A first try, or dual ascent, may take so many times the seconds in `Choice.otherwise`.
FIRST_LIMIT = 1.25


@dataclass
class Pace:
    """How fast the certified gap shrinks with the passes."""

    passes: list[float] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)

    def remaining(self, passes: float, gap: float, goal: float) -> float:
        """The passes that are still needed at the pace since about half of them."""
        self.passes.append(passes)
        self.logs.append(float(np.log(max(gap, 1e-300))))
        if passes - self.passes[0] < TRIAL_PASSES or gap <= goal:
            return 0.0
        middle = int(np.searchsorted(self.passes, (self.passes[0] + passes) / 2))
        gained = self.logs[middle] - self.logs[-1]
        spent = passes - self.passes[middle]
        if spent <= 0:
            return 0.0
        needed = self.logs[-1] - float(np.log(goal))
        return needed * spent / gained if gained > 0 else np.inf


def changed(choice: Choice, spent: float, remaining: float) -> Choice | None:
    """The plan to change to, if the passes that remain would take longer than a sure method.

    A first try must not take longer than a plan, nor dual ascent much longer than was expected, all
    in all: the pace is the best at the beginning.
    """
    if choice.otherwise is not None:
        if (spent + remaining) * choice.seconds_a_pass <= FIRST_LIMIT * choice.otherwise:
            return None
        reason = f"{choice.solver.name} would need {remaining:.0f} passes more: planned anew"
        return replace(choice, is_open=True, otherwise=None, tried=True, reason=reason)
    other = choice.fallback
    if other is None or remaining * choice.seconds_a_pass <= other.seconds:
        return None
    return fallen_back(choice, f"would need {remaining:.0f} passes more")


def fallen_back(choice: Choice, why: str) -> Choice:
    """The choice's sure method instead, with the reason."""
    other = choice.fallback
    assert other is not None
    reason = (
        f"{choice.solver.name} with {choice.preconditioner.name} {why}, so the plan changed to "
        f"{other.label}, {other.seconds:.2g} s expected"
    )
    return replace(
        choice,
        solver=other.solver,
        preconditioner=other.preconditioner,
        reason=reason,
        fallback=None,
    )
