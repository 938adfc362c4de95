"""Gram matrices of dense rows, on all threads."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.summing import even_ranges
from sketchridge.threads import run_shared, single_threaded_blas, thread_count

Array = NDArray[np.float64]
# Up to so many columns every thread may have a Gram matrix of its own rows; else they share one.
FEW_COLUMNS = 1000
SMALL_GRAM = 50_000_000  # multiplications: less is done before another thread has begun
MIRRORED = 64  # rows at a time: a square of so many is in the first cache


def gram_by_rows(n: int, d: int) -> bool:
    """Whether every thread makes a Gram matrix of its own rows."""
    return d <= columns_by_rows(n)


def columns_by_rows(n: int) -> int:
    """Up to so many columns it is so: the threads' matrices take no more than n rows of them."""
    return min(FEW_COLUMNS, n // (2 * thread_count()))


def add_gram(A: NDArray[Any], total: NDArray[Any]) -> None:
    """Add AᵀA to the lower triangle of total (d, d), on all threads; what is above may change.

    Both are float64, or float32.
    """
    if A.size * A.shape[1] < SMALL_GRAM:
        total += A.T @ A
        return

    def block(i: slice, j: slice) -> None:
        left = A[:, i]
        total[i, j] += left.T @ (left if i == j else A[:, j])  # BLAS knows the symmetric one

    with single_threaded_blas():
        parts = [slice(*ends) for ends in even_ranges(A.shape[1], thread_count())]
        pairs = [(i, j) for place, i in enumerate(parts) for j in parts[:place]]
        run_shared([partial(block, i, j) for i, j in [*pairs, *zip(parts, parts, strict=True)]])


def mirrored(lower: Array) -> Array:
    """A symmetric matrix from its lower triangle, in place."""
    for start in range(0, len(lower), MIRRORED):
        stop = min(start + MIRRORED, len(lower))
        lower[start:stop, stop:] = lower[stop:, start:stop].T
        corner = lower[start:stop, start:stop]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
    return lower
