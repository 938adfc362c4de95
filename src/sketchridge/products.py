"""Products of the data matrix with vectors and blocks, on all cores, in as few reads as possible.

X is a float32 or float64 matrix, dense in either order or CSR; everything that comes out is
float64. A float32 matrix is widened block by block, never as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.threads import run_all, run_shared, single_threaded_blas, thread_count

Array = NDArray[np.float64]

# A block of rows is read from memory once and used twice while it is in the cache. Measured on
# 20000 x 5000: 36 ms with 4 to 8 MB, 54 ms with 2 MB or 20 MB, 60 ms in two separate products.
CACHED_BLOCK_BYTES = 6 << 20
# With many columns the products are bound by arithmetic, and larger blocks waste less.
WIDE_BLOCK_BYTES = 32 << 20
# Of a few sampled rows so much is gathered at a time: memory that is new costs more than a read.
SAMPLED_BLOCK_BYTES = 1 << 20
WIDE = 8
# Below this many multiplications (of sparse data), or elements (of dense data), the compiled
# kernels are not worth loading numba for.
SMALL_WORK = 300_000
LARGE_MATRIX = 2_000_000
# Up to so many columns every thread may have a Gram matrix of its own rows; else they share one.
FEW_COLUMNS = 1000
SMALL_GRAM = 50_000_000  # multiplications: less is done before another thread has begun
VECTORISED = 16
SHARES = 8  # of work for each thread: one that is held up leaves the rest to the others
MIRRORED = 64  # rows at a time: a square of so many is in the first cache
# So many products with single vectors say that more will come, and a vector that the first-level
# cache holds needs no order.
BEFORE_ORDERING = 6
FIRST_CACHE_BYTES = 32 << 10


class Products(Protocol):
    """What the problem needs of its matrix X (n, d)."""

    @property
    def rounding_factor(self) -> float:
        """How many units of roundoff a product may be off by, at worst, over four."""

    def own_threads(self, columns: int) -> bool:
        """Whether products with so many columns run on our threads, not on BLAS's."""

    def squared_norms(self, mean: Array | None = None, factors: Array | None = None) -> Array:
        """‖(x_i − mean) ∘ factors‖², (n,); factors (d,) are of the columns, 1 if not given."""

    def multiply(self, V: Array) -> Array:
        """X V, (n, k)."""

    def adjoint(self, R: Array) -> Array:
        """Xᵀ R, (d, k)."""

    def normal(self, V: Array, shift: Array, weights: Array) -> tuple[Array, Array]:
        """Xᵀ diag(weights) R (d, k) and weightsᵀ R (k,), where R = X V − 1 shiftᵀ."""

    def residual(
        self, V: Array, targets: Array, shift: Array, weights: Array
    ) -> tuple[Array, Array]:
        """R = X V − 1 shiftᵀ − targets (n, k), and Xᵀ diag(weights) R (d, k)."""

    def gram(self, weights: Array, mean: Array | None) -> Array:
        """(X − 1 meanᵀ)ᵀ diag(weights) (X − 1 meanᵀ), dense (d, d)."""

    def outer(self, weights: Array, mean: Array | None, factors: Array | None = None) -> Array:
        """S A Aᵀ S, A = (X − 1 meanᵀ) diag(factors), S = diag(weights)^½; dense (n, n)."""


class DenseProducts:
    """Products of a dense matrix: with one vector by a compiled loop, else by BLAS in blocks."""

    def __init__(self, X: NDArray[Any]) -> None:
        self.X = X

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    @property
    def rounding_factor(self) -> float:
        """Sums over rows are made of sums of √n; those over columns run on in a few lanes."""
        columns = self.X.shape[1] / (64 if self.X.flags.c_contiguous else 16)
        return float(max(np.sqrt(max(self.X.shape)), columns))

    @property
    def stored(self) -> tuple[NDArray[Any], float]:
        """What single vectors are multiplied with, and the factor that makes it X."""
        return self.X, 1.0

    def _blocks(self, columns: int, start: int, stop: int) -> Iterator[tuple[slice, Array]]:
        """Blocks of a range of rows in float64; a view where the data is float64 already."""
        n, d = self.X.shape
        size = WIDE_BLOCK_BYTES if columns >= WIDE else CACHED_BLOCK_BYTES
        step = min(max(1, size // (8 * d)), longest_sum(n))
        for first in range(start, stop, step):
            rows = slice(first, min(first + step, stop))
            yield rows, self.X[rows].astype(np.float64, copy=False)

    def _by_threads(self, columns: int, work: Callable[[int, int], Any]) -> list[Any]:
        """Do some work for ranges of rows, one a thread, each with a BLAS of one thread.

        BLAS's own threads would do it as fast, but go on spinning for a tenth of a second.
        """
        if self.count * self.X.shape[1] * columns < LARGE_MATRIX:
            return [work(0, self.count)]
        with single_threaded_blas():
            ranges = even_ranges(self.count, thread_count())
            return run_all([partial(work, start, stop) for start, stop in ranges])

    def squared_norms(self, mean: Array | None = None, factors: Array | None = None) -> Array:
        """‖(x_i − mean) ∘ factors‖², (n,)."""
        norms = np.empty(self.X.shape[0])

        def part(rows: slice) -> None:
            block = self.X[rows] if mean is None else self.X[rows] - mean
            block = block if factors is None else block * factors
            np.einsum("ij,ij->i", block, block, dtype=np.float64, out=norms[rows])

        step = max(1, CACHED_BLOCK_BYTES // (8 * self.X.shape[1]))
        starts = range(0, norms.size, step)
        run_shared([partial(part, slice(start, start + step)) for start in starts])
        return norms

    def compiled_squared_norms(self) -> Array:
        """‖x_i‖² (n,), for rows in C order."""
        from sketchridge import kernels

        norms = np.empty(self.X.shape[0])
        ranges = even_ranges(norms.size, SHARES * thread_count())
        squares = partial(kernels.dense_row_squares, self.X)
        run_shared([partial(squares, start, stop, norms) for start, stop in ranges])
        return norms

    def multiply(self, V: Array) -> Array:
        """X V, (n, k)."""
        product = np.empty((self.X.shape[0], V.shape[1]))

        def part(start: int, stop: int) -> None:
            for rows, block in self._blocks(V.shape[1], start, stop):
                np.matmul(block, V, out=product[rows])

        self._by_threads(V.shape[1], part)
        return product

    def adjoint(self, R: Array) -> Array:
        """Xᵀ R, (d, k)."""

        def part(start: int, stop: int) -> Array:
            product = np.zeros((self.X.shape[1], R.shape[1]))
            for rows, block in self._blocks(R.shape[1], start, stop):
                product += block.T @ R[rows]
            return product

        return _added(self._by_threads(R.shape[1], part))

    def normal(self, V: Array, shift: Array, weights: Array) -> tuple[Array, Array]:
        """Xᵀ diag(weights) R (d, k) and weightsᵀ R (k,), where R = X V − 1 shiftᵀ."""
        if self.own_threads(V.shape[1]):
            shifts = np.broadcast_to(shift, (weights.size, 1))
            R, product = self.compiled_residual(V, shifts, weights)
            return product, weights @ R

        def part(start: int, stop: int) -> tuple[Array, Array]:
            product, total = np.zeros(V.shape), np.zeros(V.shape[1])
            for rows, block in self._blocks(V.shape[1], start, stop):
                R = block @ V
                R -= shift
                R *= weights[rows, None]
                total += R.sum(axis=0)
                product += block.T @ R
            return product, total

        products, totals = zip(*self._by_threads(V.shape[1], part), strict=True)
        return _added(products), _added(totals)

    def residual(
        self, V: Array, targets: Array, shift: Array, weights: Array
    ) -> tuple[Array, Array]:
        """R = X V − 1 shiftᵀ − targets (n, k), and Xᵀ diag(weights) R (d, k)."""
        if self.own_threads(V.shape[1]):
            return self.compiled_residual(V, targets + shift, weights)
        R = np.empty(targets.shape)

        def part(start: int, stop: int) -> Array:
            product = np.zeros(V.shape)
            for rows, block in self._blocks(V.shape[1], start, stop):
                np.matmul(block, V, out=R[rows])
                R[rows] -= targets[rows]
                R[rows] -= shift
                product += block.T @ (weights[rows, None] * R[rows])
            return product

        return R, _added(self._by_threads(V.shape[1], part))

    def own_threads(self, columns: int) -> bool:
        """One vector and rows that are contiguous: a compiled loop reads X once, at full speed."""
        return bool(columns == 1 and self.X.flags.c_contiguous and self.X.size >= LARGE_MATRIX)

    def compiled_multiply(self, V: Array) -> Array:
        """X V (n, 1) for one vector and rows in C order; what is narrower is not widened."""
        from sketchridge import kernels

        product, v = np.empty((self.count, 1)), np.ascontiguousarray(V[:, 0])
        ranges = even_ranges(self.count, thread_count())
        multiply = partial(kernels.dense_multiply_vector, self.X, v)
        run_all([partial(multiply, start, stop, product[:, 0]) for start, stop in ranges])
        return product

    def compiled_adjoint(self, R: Array) -> Array:
        """Xᵀ R (d, 1) for one vector and rows in C order; what is narrower is not widened."""
        from sketchridge import kernels

        r = np.ascontiguousarray(R[:, 0])
        product = _summed(
            lambda start, stop, piece: kernels.dense_adjoint_vector(self.X, r, start, stop, piece),
            even_ranges(self.count, thread_count()),
            (self.X.shape[1],),
            longest_sum(self.count),
        )
        return product[:, None]

    def compiled_residual(self, V: Array, shifts: Array, weights: Array) -> tuple[Array, Array]:
        """R = X V − shifts (n, 1) and Xᵀ diag(weights) R, for one vector and rows in C order."""
        from sketchridge import kernels

        rows, factor = self.stored
        R, v = np.empty((weights.size, 1)), factor * V[:, 0]
        flat = np.ascontiguousarray(shifts[:, 0])

        def part(start: int, stop: int) -> Array:
            product = np.zeros(v.size)
            kernels.dense_normal_vector(rows, v, flat, weights, start, stop, R[:, 0], product)
            return product

        # As many pieces for every thread: with seven of them one of two threads would be idle.
        threads = thread_count()
        pieces = threads * -(-weights.size // (threads * longest_sum(weights.size)))
        ranges = even_ranges(weights.size, pieces)
        product = _added(run_shared([partial(part, start, stop) for start, stop in ranges]))
        return R, factor * product[:, None]

    def gram(self, weights: Array, mean: Array | None) -> Array:
        """(X − 1 meanᵀ)ᵀ diag(weights) (X − 1 meanᵀ), dense (d, d)."""
        d = self.X.shape[1]
        even = mean is None and bool(np.all(weights == weights[0]))
        scale = np.sqrt(weights)[:, None]

        def scaled(columns: int, start: int, stop: int) -> Iterator[Array]:
            for rows, block in self._blocks(columns, start, stop):
                if even:  # the rows as they are, without a copy
                    yield block
                elif mean is None:
                    yield block * scale[rows]
                else:
                    centred = block - mean
                    centred *= scale[rows]
                    yield centred

        def part(start: int, stop: int) -> Array:
            total = np.zeros((d, d))
            for block in scaled(1, start, stop):  # small blocks, for every thread has its own
                total += block.T @ block
            return total

        if gram_by_rows(self.count, d):
            total = _added(self._by_threads(d, part))
        else:
            total = np.zeros((d, d))
            for block in scaled(WIDE, 0, self.count):
                add_gram(block, total)
            mirrored(total)
        if even:
            total *= weights[0]
        return total

    def outer(self, weights: Array, mean: Array | None, factors: Array | None = None) -> Array:
        """S A Aᵀ S, A = (X − 1 meanᵀ) diag(factors), S = diag(weights)^½; dense (n, n)."""
        n, d = self.X.shape
        scale = np.sqrt(weights)[:, None]
        total = np.zeros((n, n))
        step = max(1, WIDE_BLOCK_BYTES // (8 * n))
        for start in range(0, d, step):
            columns = slice(start, start + step)
            block = self.X[:, columns].astype(np.float64, copy=False)
            scaled = (block if mean is None else block - mean[columns]) * scale
            if factors is not None:
                scaled *= factors[columns]
            add_gram(scaled.T, total)
        return mirrored(total)


class SampledProducts(DenseProducts):
    """Products of some of the rows of a dense matrix, gathered block by block."""

    def __init__(self, X: NDArray[Any], indices: NDArray[np.int64]) -> None:
        super().__init__(X)
        self.indices = indices

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.indices.size

    def own_threads(self, columns: int) -> bool:
        """The compiled loop reads all rows."""
        return False

    def _blocks(self, columns: int, start: int, stop: int) -> Iterator[tuple[slice, Array]]:
        """Blocks of a range of the rows, in the same memory one after the other."""
        d = self.X.shape[1]
        step = max(1, min(CACHED_BLOCK_BYTES // (8 * d), longest_sum(self.count)))
        block = np.empty((min(step, stop - start), d), dtype=self.X.dtype)
        for first in range(start, stop, step):
            rows = slice(first, min(first + step, stop))
            part = block[: rows.stop - first]
            np.take(self.X, self.indices[rows], axis=0, out=part, mode="clip")
            yield rows, part.astype(np.float64, copy=False)

    def outer(self, weights: Array, mean: Array | None, factors: Array | None = None) -> Array:
        """S A Aᵀ S as of the rows alone, which are gathered a few columns at a time.

        Every thread has a sum of its own.
        """
        scale = np.sqrt(weights)[:, None]
        step = max(1, SAMPLED_BLOCK_BYTES // (8 * self.count))

        def part(start: int, stop: int) -> Array:
            total = np.zeros((self.count, self.count))
            for first in range(start, stop, step):
                columns = slice(first, min(first + step, stop))
                block = self.X[self.indices, columns].astype(np.float64, copy=False)
                if mean is not None:
                    block -= mean[columns]
                block *= scale if factors is None else scale * factors[columns]
                with np.errstate(over="ignore", invalid="ignore"):  # rows may not be checked yet
                    total += block @ block.T
            return total

        with single_threaded_blas():
            ranges = even_ranges(self.X.shape[1], thread_count())
            return _added(run_all([partial(part, start, stop) for start, stop in ranges]))


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


def narrow_copy(X: NDArray[Any]) -> NDArray[np.float32]:
    """Dense rows in float32, C order, copied by all threads."""
    narrow = np.empty(X.shape, dtype=np.float32)
    step = max(1, CACHED_BLOCK_BYTES // (8 * X.shape[1]))

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            rows = slice(first, min(first + step, stop))
            np.copyto(narrow[rows], X[rows], casting="same_kind")

    run_all([partial(part, start, stop) for start, stop in even_ranges(X.shape[0], thread_count())])
    return narrow


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
        return scaled, _row_sums_of_squares(scaled, None)
    from sketchridge import kernels

    rows = kernels.CSR(X.data, X.indices, X.indptr)
    ranges = SparseProducts(X)._row_ranges()
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


def column_squares(X: Any, weights: Array, mean: Array | None) -> Array:
    """Σ weights_i (x_ij − mean_j)², (d,); the mean is left alone where X is sparse."""
    if isinstance(X, np.ndarray):
        return _dense_column_squares(X, weights, mean)
    n, d = X.shape
    if X.nnz < SMALL_WORK:
        omega = np.repeat(weights, np.diff(X.indptr))
        squares = omega * X.data.astype(np.float64) ** 2
        return np.asarray(np.bincount(X.indices, squares, minlength=d), dtype=np.float64)
    from sketchridge import kernels

    products = SparseProducts(X)
    rows, ranges = products._rows, products._row_ranges()
    return _summed(
        lambda start, stop, piece: kernels.csr_column_squares(rows, weights, start, stop, piece),
        ranges,
        (d,),
        longest_sum(n),
    )


def _dense_column_squares(X: NDArray[Any], weights: Array, mean: Array | None) -> Array:
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

    return _summed(
        lambda start, stop, piece: kernels.dense_column_squares(
            X, weights, centre, start, stop, piece
        ),
        even_ranges(n, thread_count()),
        (d,),
        longest_sum(n),
    )


def gathered_sums(S: Any, products: DenseProducts, product: Array, norms: Array) -> Array:
    """S X, written to product (s, d), for a sparse S (s, n) in CSR and dense rows in C order.

    Every row is read where it lies, and a row of the product is made while it is in the cache: this
    costs one read of X for every entry that a column of S has. The squared norms of the rows that
    are read go to norms (n,).
    """
    from sketchridge import kernels

    rows, factor = products.stored
    sums = kernels.CSR(factor * S.data, S.indices, S.indptr)
    ranges = even_ranges(S.shape[0], SHARES * thread_count())
    gather = partial(kernels.gathered_rows, sums, rows)
    run_shared([partial(gather, start, stop, product, norms) for start, stop in ranges])
    norms[S.indices] *= factor**2  # of those that were read now, however often
    return product


@dataclass(frozen=True, eq=False)
class NarrowSums:
    """Sums of rows, rounded to float32, and what was seen of them before."""

    rows: NDArray[np.float32]  # (s, d)
    norms: Array  # (n,) the squared norms of the rows that were summed
    image: Array  # (s, 1) the sums' products with a probe
    slope: Array  # (d, t) the sums' transpose times targets
    filled: NDArray[np.bool_]  # (d,) the columns that are not all zero
    size: float  # the sum of the squares

    @classmethod
    def gathered(
        cls,
        S: Any,
        products: DenseProducts,
        centring: tuple[Array, Array | None],
        targets: Array,
        probe: Array,
    ) -> NarrowSums:
        """S X − shift meanᵀ for a sparse S (s, n) in CSR, dense rows in C order and (shift, mean).

        One read of X, as in `gathered_sums`, and nothing else. Targets (s, t), the probe (d, 1).
        """
        from sketchridge import kernels

        rows, factor = products.stored
        (s, n), d = S.shape, rows.shape[1]
        shift, mean = centring
        centre = np.zeros(0) if mean is None else mean
        product, norms, image = np.empty((s, d), np.float32), np.empty(n), np.empty((s, 1))
        sums = kernels.CSR(factor * S.data, S.indices, S.indptr)

        def part(start: int, stop: int) -> tuple[Array, NDArray[np.bool_], float]:
            slope, filled = np.zeros((targets.shape[1], d)), np.zeros(d, dtype=np.bool_)
            seen = (product, norms, image[:, 0], slope, filled)
            size = kernels.gathered_narrow_rows(
                sums, rows, shift, centre, targets, probe[:, 0], start, stop, *seen
            )
            return slope, filled, size

        ranges = even_ranges(s, SHARES * thread_count())
        slopes, filled, sizes = zip(*run_shared([partial(part, *r) for r in ranges]), strict=True)
        norms *= factor**2
        return cls(product, norms, image, _added(slopes).T, np.any(filled, axis=0), sum(sizes))


@dataclass(frozen=True, eq=False)
class FrequentFirst:
    """A CSR matrix with its columns renumbered, those with the most entries first.

    Most entries of text are in a few columns. Next to each other, their part of a vector stays
    in the cache.
    """

    rows: Any  # kernels.CSR: the indices are a copy, the values are not
    columns: NDArray[np.intp]  # (d,) the columns in the new order
    places: NDArray[np.intp]  # (d,) where they are in it
    long: int  # so many of the first columns have more entries than may be summed in a row

    @classmethod
    def of(cls, X: Any, longest: int) -> FrequentFirst:
        """Renumber the columns of X."""
        from sketchridge import kernels

        ranges, indices = even_ranges(X.nnz, thread_count()), np.empty_like(X.indices)
        counts = _column_counts(X, ranges)
        columns = np.argsort(-counts, kind="stable")
        places = np.empty_like(columns)
        places[columns] = np.arange(columns.size)
        run_all([partial(kernels.renumber_indices, X.indices, places, *r, indices) for r in ranges])
        rows = kernels.CSR(X.data, indices, X.indptr)
        return cls(rows, columns, places, int(np.count_nonzero(counts > longest)))


def _column_counts(X: Any, ranges: list[tuple[int, int]]) -> NDArray[np.int64]:
    """The number of entries of every column, (d,), by ranges of the entries."""
    from sketchridge import kernels

    def part(start: int, stop: int) -> NDArray[np.int64]:
        counts = np.zeros(X.shape[1], dtype=np.int64)
        kernels.count_indices(X.indices, start, stop, counts)
        return counts

    counts: NDArray[np.int64] = np.sum(run_all([partial(part, *ends) for ends in ranges]), axis=0)
    return counts


class SparseProducts:
    """Products of a CSR matrix, by compiled kernels on our own threads; by scipy when small."""

    def __init__(
        self, X: Any, tell: Callable[[str], None] | None = None, frequent_first: bool = False
    ) -> None:
        self.X = X
        self.tell = tell  # of copies
        self.frequent_first = frequent_first  # whether the columns come in that order
        self.vector_products = 0

    @property
    def rounding_factor(self) -> float:
        """Sums over rows are made of sums of √n; those over a row's entries run on."""
        longest_row = int(np.diff(self.X.indptr).max())
        return float(max(np.sqrt(max(self.X.shape)), longest_row / 16))

    def own_threads(self, columns: int) -> bool:
        """Compiled kernels, on our threads, unless there is little to do."""
        return not self._small(columns)

    def _small(self, columns: int) -> bool:
        return bool(self.X.nnz * columns < SMALL_WORK)

    @property
    def _rows(self) -> Any:
        from sketchridge import kernels

        return kernels.CSR(self.X.data, self.X.indices, self.X.indptr)

    def _row_ranges(self) -> list[tuple[int, int]]:
        """As many ranges of rows as threads, with about the same number of non-zeros."""
        threads = thread_count()
        goals = np.arange(1, threads) * (self.X.nnz / threads)
        cuts = [0, *np.searchsorted(self.X.indptr, goals).tolist(), self.X.shape[0]]
        return [(a, b) for a, b in pairwise(cuts) if b > a]

    def squared_norms(self, mean: Array | None = None, factors: Array | None = None) -> Array:
        """‖(x_i − mean) ∘ factors‖², (n,)."""
        norms = self._row_squares(factors)
        if mean is None:
            return norms
        scaled = mean if factors is None else mean * factors**2
        centred: Array = norms - 2 * self.multiply(scaled[:, None])[:, 0] + mean @ scaled
        return centred

    def _row_squares(self, factors: Array | None) -> Array:
        """‖x_i ∘ factors‖², (n,)."""
        if self._small(1):
            return _row_sums_of_squares(self.X, factors)
        from sketchridge import kernels

        norms, none = np.empty(self.X.shape[0]), np.zeros(0)
        scales = none if factors is None else np.ascontiguousarray(factors)
        run_all(
            [
                partial(kernels.csr_row_squares, self._rows, scales, start, stop, norms)
                for start, stop in self._row_ranges()
            ]
        )
        return norms

    def multiply(self, V: Array) -> Array:
        """X V, (n, k)."""
        if self._small(V.shape[1]):
            product: Array = self.X @ V
            return product
        from sketchridge import kernels

        padded = _padded(V)
        product = np.empty((self.X.shape[0], padded.shape[1]))
        tasks = [
            partial(kernels.csr_multiply, self._rows, padded, start, stop, product)
            for start, stop in self._row_ranges()
        ]
        run_all(tasks)
        return np.ascontiguousarray(product[:, : V.shape[1]])

    def adjoint(self, R: Array) -> Array:
        """Xᵀ R, (d, k)."""
        if self._small(R.shape[1]):
            return self._small_adjoint(R)
        from sketchridge import kernels

        rows, padded = self._rows, _padded(R)
        product = _summed(
            lambda start, stop, piece: kernels.csr_adjoint(rows, padded, start, stop, piece),
            self._row_ranges(),
            (self.X.shape[1], padded.shape[1]),
            longest_sum(self.X.shape[0]),
        )
        return product[:, : R.shape[1]]

    def _small_adjoint(self, R: Array) -> Array:
        """Xᵀ R by scipy, in pieces of rows (views)."""
        n, d = self.X.shape
        total, step = np.zeros((d, R.shape[1])), longest_sum(n)
        for start in range(0, n, step):
            bounds = self.X.indptr[start : start + step + 1]
            values = slice(bounds[0], bounds[-1])
            arrays = (self.X.data[values], self.X.indices[values], bounds - bounds[0])
            piece = scipy.sparse.csr_array(arrays, shape=(bounds.size - 1, d))
            total += piece.T @ R[start : start + step]
        return total

    def normal(self, V: Array, shift: Array, weights: Array) -> tuple[Array, Array]:
        """Xᵀ diag(weights) R (d, k) and weightsᵀ R (k,), where R = X V − 1 shiftᵀ."""
        if self._small(V.shape[1]):
            R = (self.X @ V - shift) * weights[:, None]
            return self._small_adjoint(R), R.sum(axis=0)
        if V.shape[1] == 1:
            shifts = np.full(weights.size, shift[0])
            R, product = self._vector_residual(V, shifts, weights, every=False)
            return product, weights @ R
        from sketchridge import kernels

        padded, ranges = _padded(V), self._row_ranges()
        shifts = _padded(shift[None])[0]
        products = [np.zeros(padded.shape) for _ in ranges]
        totals = [np.zeros(padded.shape[1]) for _ in ranges]
        tasks = [
            partial(kernels.csr_normal, self._rows, padded, weights, shifts, start, stop, p, t)
            for (start, stop), p, t in zip(ranges, products, totals, strict=True)
        ]
        run_all(tasks)
        columns = V.shape[1]
        return _added(products)[:, :columns], _added(totals)[:columns]

    def residual(
        self, V: Array, targets: Array, shift: Array, weights: Array
    ) -> tuple[Array, Array]:
        """R = X V − 1 shiftᵀ − targets (n, k), and Xᵀ diag(weights) R (d, k)."""
        if V.shape[1] == 1 and not self._small(1):
            return self._vector_residual(V, targets[:, 0] + shift[0], weights, every=True)
        R = self.multiply(V)
        R -= targets
        R -= shift
        return R, self.adjoint(weights[:, None] * R)

    def _vector_residual(
        self, V: Array, shifts: Array, weights: Array, every: bool
    ) -> tuple[Array, Array]:
        from sketchridge import kernels

        R, longest = np.empty((weights.size, 1)), longest_sum(weights.size)
        self.vector_products += 1
        if self.frequent_first:
            rows, v, long = self._rows, np.ascontiguousarray(V[:, 0]), self._long
        elif self.vector_products <= BEFORE_ORDERING or 8 * V.size <= FIRST_CACHE_BYTES:
            rows, v, long = self._rows, np.ascontiguousarray(V[:, 0]), V.size
        else:
            ordered = self._ordered
            rows, v, long = ordered.rows, V[:, 0].take(ordered.columns), ordered.long

        def part(start: int, stop: int) -> Array:
            pair = np.zeros((v.size, 2))
            pair[:, 0] = v

            def add(first: int, last: int) -> None:
                kernels.csr_normal_vector(rows, pair, shifts, weights, first, last, every, R[:, 0])

            _add_in_turns(add, start, stop, longest, pair[:long, 1])
            return np.ascontiguousarray(pair[:, 1])

        product = _added(run_all([partial(part, *ends) for ends in self._row_ranges()]))
        if rows.indices is self.X.indices:
            return R, product[:, None]
        return R, product.take(self._ordered.places)[:, None]

    @cached_property
    def _long(self) -> int:
        """So many columns have more entries than may be summed in a row."""
        counts = _column_counts(self.X, even_ranges(self.X.nnz, thread_count()))
        return int(np.count_nonzero(counts > longest_sum(self.X.shape[0])))

    @cached_property
    def _ordered(self) -> FrequentFirst:
        if self.tell is not None:
            size = self.X.indices.nbytes / 1e6
            self.tell(
                f"the column indices of X are copied ({size:.1f} MB), with the columns in the "
                "order of their entries, for faster products"
            )
        return FrequentFirst.of(self.X, longest_sum(self.X.shape[0]))

    def gram(self, weights: Array, mean: Array | None) -> Array:
        """(X − 1 meanᵀ)ᵀ diag(weights) (X − 1 meanᵀ), dense (d, d)."""
        scaled = scipy.sparse.diags_array(np.sqrt(weights)) @ self.X.astype(np.float64, copy=False)
        total: Array = (scaled.T @ scaled).toarray()
        if mean is not None:
            raw_mean = self.X.T @ weights
            total += weights.sum() * np.outer(mean, mean)
            total -= np.outer(raw_mean, mean) + np.outer(mean, raw_mean)
        return total

    def outer(self, weights: Array, mean: Array | None, factors: Array | None = None) -> Array:
        """S A Aᵀ S, A = (X − 1 meanᵀ) diag(factors), S = diag(weights)^½; dense (n, n)."""
        X = self.X.astype(np.float64, copy=False)
        if factors is not None:
            X = X @ scipy.sparse.diags_array(factors)
            mean = None if mean is None else mean * factors
        total: Array = (X @ X.T).toarray()
        if mean is not None:
            products = X @ mean
            total += mean @ mean - products[:, None] - products
        scale = np.sqrt(weights)
        total *= scale[:, None]
        total *= scale
        return total


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


def _summed(
    add: Callable[[int, int, Array], None],
    ranges: list[tuple[int, int]],
    shape: tuple[int, ...],
    longest: int,
    long: int | None = None,
) -> Array:
    """Sum over ranges of rows, one a thread; `add` adds up to `longest` rows to an array.

    The first `long` entries (all, if not given) are sums that may become longer than that.
    """

    def part(start: int, stop: int) -> Array:
        piece = np.zeros(shape)
        _add_in_turns(
            lambda first, last: add(first, last, piece), start, stop, longest, piece[:long]
        )
        return piece

    return _added(run_all([partial(part, start, stop) for start, stop in ranges]))


def _add_in_turns(
    add: Callable[[int, int], None], start: int, stop: int, longest: int, sums: Array
) -> None:
    """Let `add` add ranges of at most `longest` rows to sums, which are added up by themselves."""
    total = np.zeros(sums.shape)
    for first in range(start, stop, longest):
        add(first, min(first + longest, stop))
        total += sums
        sums.fill(0.0)
    sums[:] = total


def _added(parts: Sequence[Array]) -> Array:
    """The sum of the threads' parts, in the first of them."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _padded(V: Array) -> Array:
    """V with zero columns up to a whole number of vector operations; few columns stay as they are.

    The compiled loops over columns take 16 at a time and the rest one by one: 32 columns take
    half the time of 30.
    """
    rows, columns = V.shape
    width = -(-columns // VECTORISED) * VECTORISED
    if columns < VECTORISED or width == columns:
        return np.ascontiguousarray(V)
    padded = np.zeros((rows, width))
    padded[:, :columns] = V
    return padded


def _row_sums_of_squares(X: Any, factors: Array | None) -> Array:
    """Sums of squares of the rows of a CSR matrix, without a copy of the whole of its values."""
    n, norms = X.shape[0], np.zeros(X.shape[0])
    step = max(1, n * 1_000_000 // max(1, X.nnz))
    for start in range(0, n, step):
        bounds = X.indptr[start : start + step + 1]
        values = slice(bounds[0], bounds[-1])
        squares = X.data[values].astype(np.float64) ** 2
        if factors is not None:
            squares *= factors[X.indices[values]] ** 2
        filled = np.flatnonzero(np.diff(bounds))
        if filled.size:
            norms[start + filled] = np.add.reduceat(squares, bounds[filled] - bounds[0])
    return norms
