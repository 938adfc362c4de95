"""Rows of X: in a random order, or some at a time in float64, without a copy of a whole part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.summing import longest_sum

Array = NDArray[np.float64]

BLOCK_BYTES = 32 << 20
# Neighbours that stay together in a random order, where the rows are so many runs at least. Of dual
# ascent's epochs there are up to a third more with 64, and with 8 they take up to a fifth longer.
RUN, LEAST_RUNS = 16, 256


def shuffled_rows(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The numbers of n rows in random order, but for short runs of neighbours.

    Neighbours are next to each other in memory: a run of them is read as fast as all rows in turn.
    """
    run = max(1, min(RUN, n // LEAST_RUNS))
    order = (rng.permutation(-(-n // run))[:, None] * run + np.arange(run)).ravel()
    return order[order < n] if n % run else order


def row_blocks(
    X: Any, rows: NDArray[np.intp], width: int = 1
) -> Iterator[tuple[NDArray[np.intp], Any]]:
    """Blocks of the given rows with their numbers: dense or CSR, float64.

    A block, and what it gives in a product with `width` columns, stay within 32 MB or so; and it
    is no longer than a sum over rows may be.
    """
    n, d = X.shape
    length = d if isinstance(X, np.ndarray) else max(1, X.nnz // n)
    step = min(max(1, BLOCK_BYTES // (8 * max(length, width))), longest_sum(n))
    for start in range(0, rows.size, step):
        part = rows[start : start + step]
        yield part, X[_as_slice(part)].astype(np.float64, copy=False)


def _as_slice(rows: NDArray[np.intp]) -> Any:
    """Neighbouring rows as a slice, which costs no copy of a dense matrix."""
    first, last = int(rows[0]), int(rows[-1])
    neighbours = last - first == rows.size - 1 and np.all(np.diff(rows) == 1)
    return slice(first, last + 1) if neighbours else rows


def predict_rows(X: Any, rows: NDArray[np.intp], coef: Array, intercept: Array) -> Array:
    """x_iᵀ coef + intercept of the given rows, (r, c), for coef (d, c) and intercept (c,)."""
    parts = [block @ coef for _, block in row_blocks(X, rows, coef.shape[1])]
    return np.concatenate([*parts, np.empty((0, coef.shape[1]))]) + intercept


def second_moment(X: Any, rows: NDArray[np.intp], weights: Array, centre: Array | None) -> Array:
    """Σ weights_i (x_i − centre)(x_i − centre)ᵀ over the given rows, dense (d, d).

    `weights` has one entry for every row of X.
    """
    d = X.shape[1]
    total = np.zeros((d, d))
    for part, block in row_blocks(X, rows, d):
        scale = np.sqrt(weights[part])
        if isinstance(block, np.ndarray):
            scaled = block * scale[:, None] if centre is None else block - centre
            if centre is not None:
                scaled *= scale[:, None]
            total += scaled.T @ scaled
        else:
            _add_sparse_moment(total, block, scale, centre)
    return total


def _add_sparse_moment(total: Array, block: Any, scale: Array, centre: Array | None) -> None:
    """The same of a CSR block, whose rows stay sparse: the centre is subtracted at the end."""
    scaled = block.multiply(scale[:, None]).tocsr()
    total += (scaled.T @ scaled).toarray()
    if centre is not None:
        first = scaled.T @ scale
        total -= np.outer(first, centre) + np.outer(centre, first)
        total += float(scale @ scale) * np.outer(centre, centre)
