"""Sums over ranges of rows: how these are shared out, and how long a sum is made in one go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sketchridge.threads import run_all

Array = NDArray[np.float64]

SHARES = 8  # of work for each thread: one that is held up leaves the rest to the others


def even_ranges(count: int, parts: int) -> list[tuple[int, int]]:
    """Split 0 … count into at most `parts` ranges of about the same length."""
    cuts = np.linspace(0, count, min(parts, count) + 1).astype(int).tolist()
    return list(pairwise(cuts))


def longest_sum(n: int) -> int:
    """How many rows are summed one after another.

    A long sum is made of sums of this length: its rounding error then grows with √n even where
    all terms are alike and round the same way, and the certificate counts on that.
    """
    return max(256, int(16 * np.sqrt(n)))


def summed(
    add: Callable[[int, int, Array], None],
    ranges: list[tuple[int, int]],
    shape: tuple[int, ...],
    longest: int,
) -> Array:
    """Sum over ranges of rows, one a thread; `add` adds up to `longest` rows to an array."""

    def part(start: int, stop: int) -> Array:
        piece, total = np.zeros(shape), np.zeros(shape)
        with np.errstate(over="ignore", invalid="ignore"):  # rows may not be checked yet
            for first in range(start, stop, longest):
                add(first, min(first + longest, stop), piece)
                total += piece
                piece.fill(0.0)
        return total

    return added(run_all([partial(part, start, stop) for start, stop in ranges]))


def added(parts: Iterable[Array]) -> Array:
    """The sum of some parts, one at least, in the memory of the first of them."""
    others = iter(parts)
    total = next(others)
    for other in others:
        total += other
    return total
