"""The columns of a matrix, dense or sparse: their squares, and copies with other scales."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.products import CACHED_BLOCK_BYTES, LARGE_MATRIX
from sketchridge.sparse_products import SMALL_WORK, SparseProducts, row_sums_of_squares
from sketchridge.summing import even_ranges, longest_sum, summed
from sketchridge.threads import run_all, run_shared, thread_count

Array = NDArray[np.float64]


def scaled_copy(X: Any, factors: Array, dtype: Any = np.float64) -> tuple[Any, Array]:
    """X diag(factors), in C order, and its rows' squared norms (n,).

    Rounded to float32 it is another problem, if a near one.
    """
    if isinstance(X, np.ndarray):
        return _scaled_rows(X, factors, dtype)
    data, norms = np.empty(X.nnz, dtype), np.empty(X.shape[0])
    scaled = scipy.sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
    if X.nnz < SMALL_WORK:
        data[:] = X.data * factors.take(X.indices)
        return scaled, row_sums_of_squares(scaled, None)
    from sketchridge import kernels

    rows = kernels.CSR(X.data, X.indices, X.indptr)
    ranges = SparseProducts(X).row_ranges()
    run_all([partial(kernels.csr_scale_columns, rows, factors, *r, data, norms) for r in ranges])
    return scaled, norms


def _scaled_rows(X: NDArray[Any], factors: Array, dtype: Any) -> tuple[NDArray[Any], Array]:
    scaled, norms = np.empty(X.shape, dtype), np.empty(X.shape[0])
    compiled = X.flags.c_contiguous and X.size >= LARGE_MATRIX

    def part(start: int, stop: int) -> None:
        if compiled:
            from sketchridge import kernels

            kernels.dense_scale_columns(X, factors, start, stop, scaled, norms)
            return
        block = X[start:stop] * factors
        scaled[start:stop] = block
        np.einsum("ij,ij->i", block, block, out=norms[start:stop])

    parts = max(thread_count(), X.nbytes // CACHED_BLOCK_BYTES)
    run_shared([partial(part, start, stop) for start, stop in even_ranges(X.shape[0], parts)])
    return scaled, norms


def sparse_column_squares(X: Any, weights: Array) -> Array:
    """Σ weights_i x_ij² of a CSR matrix, (d,)."""
    if X.nnz >= SMALL_WORK:
        return sparse_column_sums(X, weights, np.zeros_like(weights))[0]
    omega = np.repeat(weights, np.diff(X.indptr))
    squares = omega * X.data.astype(np.float64) ** 2
    return np.asarray(np.bincount(X.indices, squares, minlength=X.shape[1]), dtype=np.float64)


def sparse_column_sums(X: Any, weights: Array, factors: Array) -> tuple[Array, Array]:
    """Σ weights_i x_ij² and Σ factors_i x_ij of a CSR matrix, (d,), in one read."""
    from sketchridge import kernels

    products = SparseProducts(X)
    rows = products.stored_rows
    sums = summed(
        lambda *part: kernels.csr_column_sums(rows, weights, factors, *part),
        products.row_ranges(),
        (X.shape[1], 2),
        longest_sum(X.shape[0]),
    )
    return sums[:, 0].copy(), sums[:, 1].copy()


def dense_column_squares(X: NDArray[Any], weights: Array, mean: Array | None) -> Array:
    """Σ weights_i (x_ij − mean_j)² of a dense matrix, (d,)."""
    n, d = X.shape
    centre = np.zeros(d) if mean is None else mean
    if X.size < LARGE_MATRIX or not X.flags.c_contiguous:
        step = max(1, CACHED_BLOCK_BYTES // (8 * n))

        def part(start: int) -> Array:
            block = slice(start, start + step)
            squares: Array = weights @ (X[:, block] - centre[block]) ** 2
            return squares

        return np.concatenate(run_shared([partial(part, start) for start in range(0, d, step)]))
    from sketchridge import kernels

    return summed(
        lambda start, stop, piece: kernels.dense_column_squares(
            X, weights, centre, start, stop, piece
        ),
        even_ranges(n, thread_count()),
        (d,),
        longest_sum(n),
    )
