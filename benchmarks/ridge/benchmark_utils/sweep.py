"""Which effort (iterations, epochs) of a solver to try next, so that it is judged at its best.

The effort doubles until every level is reached. Then, level by level, the least effort that
reaches it is narrowed down. Every trial is a fresh run from zero: nothing is read off a curve.
"""

from collections.abc import Sequence
from typing import NamedTuple

GROWTH = 2
# The effort that reaches a level is at most this factor above the least one.
RESOLUTION = 1.1
# A solver that was under way and has not improved by a tenth in this many doublings is done; one
# that has hardly begun may need many more.
PATIENCE = 4
WORTHWHILE = 0.9
UNDER_WAY = 0.5


class Trial(NamedTuple):
    """One timed run of a solver."""

    effort: int
    seconds: float
    suboptimality: float  # (F(w) − F*) / F(0); nan if it broke down

    def reaches(self, level: float) -> bool:
        return self.suboptimality <= level  # false for nan


def next_effort(
    trials: Sequence[Trial], levels: Sequence[float], seconds_left: float
) -> int | None:
    """The effort to try next, or None when there is nothing left to learn (or no time for it)."""
    if not trials:
        return 1
    ordered = sorted(trials)
    wanted = [_grown(ordered, levels), *(_narrowed(ordered, level) for level in sorted(levels))]
    affordable = (
        effort
        for effort in wanted
        if effort is not None and _predicted_seconds(ordered, effort) <= seconds_left
    )
    return next(affordable, None)


def _grown(ordered: Sequence[Trial], levels: Sequence[float]) -> int | None:
    """Twice the largest effort, while a level is out of reach and there is progress."""
    if any(trial.reaches(min(levels)) for trial in ordered) or _stalled(ordered):
        return None
    return GROWTH * ordered[-1].effort


def _stalled(ordered: Sequence[Trial]) -> bool:
    if len(ordered) <= PATIENCE:
        return False
    before, latest = _best(ordered[:-PATIENCE]), _best(ordered[-PATIENCE:])
    broken = latest == float("inf")
    return broken or (before < UNDER_WAY and latest >= WORTHWHILE * before)


def _best(trials: Sequence[Trial]) -> float:
    finite = [trial.suboptimality for trial in trials if trial.reaches(float("inf"))]
    return min(finite, default=float("inf"))


def _narrowed(ordered: Sequence[Trial], level: float) -> int | None:
    """The geometric middle between the least effort that reaches a level and the one before."""
    place = next((i for i, trial in enumerate(ordered) if trial.reaches(level)), None)
    if place is None or place == 0:
        return None
    low, high = ordered[place - 1].effort, ordered[place].effort
    if high <= RESOLUTION * low or high == low + 1:
        return None
    return min(max(round((low * high) ** 0.5), low + 1), high - 1)


def _predicted_seconds(ordered: Sequence[Trial], effort: int) -> float:
    """As long as the next larger effort took, or what the line through the last two says."""
    larger = [trial.seconds for trial in ordered if trial.effort >= effort]
    if larger:
        return larger[0]
    last = ordered[-1]
    if len(ordered) == 1:
        return last.seconds
    before = ordered[-2]
    slope = (last.seconds - before.seconds) / (last.effort - before.effort)
    return last.seconds + max(slope, 0.0) * (effort - last.effort)
