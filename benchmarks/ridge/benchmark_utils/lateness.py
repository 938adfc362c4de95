"""When the true gap crossed the tolerance, to be compared with when the certificate did."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Look(NamedTuple):
    """A line of a solve's history."""

    passes: float
    seconds: float
    suboptimality: float  # the true one, relative to F(0)


def crossing(looks: Sequence[Look], tol: float, gradual: bool) -> tuple[float, float]:
    """Passes and seconds at which the true suboptimality crossed tol; nan if it never did.

    Between two looks at a gradual solver its logarithm is taken to fall in proportion to the
    passes; a direct solver has its answer at once, at its last look and not before.
    """
    for before, after in zip((None, *looks), looks, strict=False):
        if after.suboptimality > tol:
            continue
        if before is None or not gradual:
            return after.passes, after.seconds
        share = _share(before.suboptimality, max(after.suboptimality, 1e-300), tol)
        passes = before.passes + share * (after.passes - before.passes)
        return passes, before.seconds + share * (after.seconds - before.seconds)
    return math.nan, math.nan


def _share(high: float, low: float, tol: float) -> float:
    """The share of the way from log high to log low at which log tol lies."""
    return math.log(high / tol) / math.log(high / low)
