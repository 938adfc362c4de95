"""Products of the data matrix with vectors and blocks, on all cores, in as few reads as possible.

What every matrix does, and how a dense one does it: float32 or float64, in either order. Everything
that comes out is float64. A float32 matrix is widened block by block, never as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchridge.gram import add_gram, gram_by_rows, mirrored
from sketchridge.machine import is_intels, second_cache_bytes
from sketchridge.summing import added, even_ranges, longest_sum, summed
from sketchridge.threads import run_all, run_shared, single_threaded_blas, thread_count

Array = NDArray[np.float64]

# A block of rows is read from memory once and used twice while it is in the cache. Measured on
# 20000 x 5000: 36 ms with 4 to 8 MB, 54 ms with 2 MB or 20 MB, 60 ms in two separate products.
CACHED_BLOCK_BYTES = 6 << 20
# With many columns the products are bound by arithmetic, and larger blocks waste less.
WIDE_BLOCK_BYTES = 32 << 20
WIDE = 8
# Of sampled rows so many at least are gathered for products with that many columns, which BLAS
# copies for every block; and for products with each other so much: memory that is new costs more
# than a read.
SAMPLED_BLOCK_ROWS, SAMPLED_BLOCK_BYTES = 256, 1 << 20
# Some contiguous rows are multiplied with a few columns as they lie, up to so many multiplications:
# of more BLAS makes a copy first, which takes as long again. With fewer rows it does not pay.
UNPACKED, UNPACKED_COLUMNS, UNPACKED_ROWS = 1_000_000, 24, 60
# Then it sums term after term. Each addition is off by half an EPSILON at most, and the certificate
# counts 4 EPSILON times `rounding_factor`: such sums are no longer than this times that factor.
LONGEST_LANE = 7.5
# Of fewer elements than this the compiled kernels are not worth loading numba for.
LARGE_MATRIX = 2_000_000
# Rows are read ahead on Intel's processors, where half of a core's second-level cache, a large one,
# holds eight of them (docs/decisions/02).
READ_AHEAD, SHARE_OF_CACHE, LARGE_CACHE = 8, 0.5, 1 << 20


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
        """Sums over rows are made of sums of √n; those over columns run on in a few lanes.

        Where they run on in one, `thin_product` makes them in parts.
        """
        columns = self.X.shape[1] / (64 if self.X.flags.c_contiguous else 16)
        return float(max(np.sqrt(max(self.X.shape)), columns))

    @property
    def stored(self) -> tuple[NDArray[Any], float]:
        """What single vectors are multiplied with, and the factor that makes it X."""
        return self.X, 1.0

    def _blocks(self, columns: int, start: int, stop: int) -> Iterator[tuple[slice, Array]]:
        """Blocks of a range of rows in float64; a view where the data is float64 already."""
        step = min(self._block_rows(columns), longest_sum(len(self.X)))
        for first in range(start, stop, step):
            rows = slice(first, min(first + step, stop))
            yield rows, self.X[rows].astype(np.float64, copy=False)

    def _block_rows(self, columns: int) -> int:
        """How many rows are best multiplied with so many columns at a time."""
        d = int(self.X.shape[1])
        if 1 < columns <= UNPACKED_COLUMNS and self.X.flags.c_contiguous:
            rows = UNPACKED // (columns * d)
            if rows >= UNPACKED_ROWS:
                return rows
        size = WIDE_BLOCK_BYTES if columns >= WIDE else CACHED_BLOCK_BYTES
        return max(1, size // (8 * d))

    def _by_threads(self, columns: int, work: Callable[[int, int], Any]) -> list[Any]:
        """Do some work for ranges of rows, one a thread, each with a BLAS of one thread.

        BLAS's own threads would do it as fast, but go on spinning for a tenth of a second.
        """
        if self.count * self.X.shape[1] * columns < LARGE_MATRIX:
            return [work(0, self.count)]
        with single_threaded_blas():
            ranges = even_ranges(self.count, thread_count())
            return run_all([partial(work, start, stop) for start, stop in ranges])

    def _thin(self, A: Array, B: Array) -> Array:
        """The product of a block, or of its transpose, with some columns."""
        return thin_product(A, B, int(LONGEST_LANE * self.rounding_factor))

    def _summed(self, columns: int, part: Callable[[slice, Array], Array]) -> Array:
        """The sum over all blocks of rows of what `part` makes of each, (d, columns).

        Blocks are many where they are small: some are summed, and then their sums.
        """
        longest = longest_sum(self.count)

        def piece(start: int, stop: int) -> Array:
            return added(part(*block) for block in self._blocks(columns, start, stop))

        def work(start: int, stop: int) -> Array:
            firsts = range(start, stop, longest)
            return added(piece(first, min(first + longest, stop)) for first in firsts)

        return np.ascontiguousarray(added(self._by_threads(columns, work)))

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

    def compiled_first_sums(self, factors: Array) -> tuple[Array, Array]:
        """‖x_i‖² (n,) and Xᵀ factors (d, m) in one read, for a few factors."""
        norms, add = np.empty(self.X.shape[0]), self._first_sums()
        sums = summed(
            lambda start, stop, piece: add(factors, start, stop, norms, piece),
            even_ranges(norms.size, thread_count()),
            (factors.shape[1], self.X.shape[1]),
            longest_sum(norms.size),
        )
        return norms, np.ascontiguousarray(sums.T)

    def _first_sums(self) -> Callable[..., None]:
        """The compiled loop that does so, on the data."""
        from sketchridge import kernels

        return partial(kernels.dense_first_sums, self.X)

    def multiply(self, V: Array) -> Array:
        """X V, (n, k)."""
        product = np.empty((self.X.shape[0], V.shape[1]))

        def part(start: int, stop: int) -> None:
            for rows, block in self._blocks(V.shape[1], start, stop):
                product[rows] = self._thin(block, V)

        self._by_threads(V.shape[1], part)
        return product

    def adjoint(self, R: Array) -> Array:
        """Xᵀ R, (d, k)."""

        def part(rows: slice, block: Array) -> Array:
            return self._thin(block.T, R[rows])

        return self._summed(R.shape[1], part)

    def normal(self, V: Array, shift: Array, weights: Array) -> tuple[Array, Array]:
        """Xᵀ diag(weights) R (d, k) and weightsᵀ R (k,), where R = X V − 1 shiftᵀ."""
        if self.own_threads(V.shape[1]):
            shifts = np.broadcast_to(shift, (weights.size, 1))
            R, product = self.compiled_residual(V, shifts, weights)
            return product, weights @ R

        totals: dict[int, Array] = {}

        def part(rows: slice, block: Array) -> Array:
            R = self._thin(block, V)
            R -= shift
            R *= weights[rows, None]
            totals[rows.start] = R.sum(axis=0)
            return self._thin(block.T, R)

        product = self._summed(V.shape[1], part)
        in_order = np.column_stack([totals[start] for start in sorted(totals)])
        return product, in_order.sum(axis=1)

    def residual(
        self, V: Array, targets: Array, shift: Array, weights: Array
    ) -> tuple[Array, Array]:
        """R = X V − 1 shiftᵀ − targets (n, k), and Xᵀ diag(weights) R (d, k)."""
        if self.own_threads(V.shape[1]):
            return self.compiled_residual(V, targets + shift, weights)
        R = np.empty(targets.shape)

        def part(rows: slice, block: Array) -> Array:
            some = self._thin(block, V)
            some -= targets[rows]
            some -= shift
            R[rows] = some
            some *= weights[rows, None]
            return self._thin(block.T, some)

        return R, self._summed(V.shape[1], part)

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
        product = summed(
            lambda start, stop, piece: kernels.dense_adjoint_vector(self.X, r, start, stop, piece),
            even_ranges(self.count, thread_count()),
            (self.X.shape[1],),
            longest_sum(self.count),
        )
        return product[:, None]

    def compiled_residual(self, V: Array, shifts: Array, weights: Array) -> tuple[Array, Array]:
        """R = X V − shifts (n, 1) and Xᵀ diag(weights) R, for one vector."""
        factor, add = self.stored[1], self._normal_vector()
        R, v = np.empty((weights.size, 1)), factor * V[:, 0]
        flat = np.ascontiguousarray(shifts[:, 0])

        def part(start: int, stop: int) -> Array:
            product = np.zeros(v.size)
            add(v, flat, weights, start, stop, R[:, 0], product)
            return product

        # As many pieces for every thread: with seven of them one of two threads would be idle.
        threads = thread_count()
        pieces = threads * -(-weights.size // (threads * longest_sum(weights.size)))
        ranges = even_ranges(weights.size, pieces)
        product = added(run_shared([partial(part, start, stop) for start, stop in ranges]))
        return R, factor * product[:, None]

    def _normal_vector(self) -> Callable[..., None]:
        """The compiled loop that does so, on the data as it is stored."""
        from sketchridge import kernels

        rows = self.stored[0]
        return partial(kernels.dense_normal_vector, rows, reads_ahead(rows))

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
            total = added(self._by_threads(d, part))
        else:
            total = np.zeros((d, d))
            for block in scaled(d, 0, self.count):
                add_gram(block, total)
            mirrored(total)
        if even:
            total *= weights[0]
        return total

    def outer(self, weights: Array, mean: Array | None, factors: Array | None = None) -> Array:
        """S A Aᵀ S, A = (X − 1 meanᵀ) diag(factors), S = diag(weights)^½; dense (n, n)."""
        n, d = self.X.shape
        even = bool(np.all(weights == weights[0]))
        plain = even and mean is None and factors is None
        scale, total = np.sqrt(weights)[:, None], np.zeros((n, n))
        step = min(d, max(1, WIDE_BLOCK_BYTES // (8 * n)))
        space = np.empty((0 if plain else n, step))  # for all blocks: new memory is dear

        def scaled(columns: slice) -> Array:
            block = self.X[:, columns]
            if plain:  # the columns as they are, without a copy
                return block.astype(np.float64, copy=False)
            part = space[:, : block.shape[1]]
            np.subtract(block, 0.0 if mean is None else mean[columns], out=part)
            if not even:
                part *= scale
            if factors is not None:
                part *= factors[columns]
            return part

        for start in range(0, d, step):
            add_gram(scaled(slice(start, start + step)).T, total)
        if even:
            total *= weights[0]
        return mirrored(total)


def reads_ahead(rows: NDArray[Any]) -> bool:
    """Whether four rows are read while the four before them are added.

    A core of AMD's takes nearly all the bandwidth without that. Not codes either, which are bound
    by arithmetic.
    """
    cache, size = second_cache_bytes(), READ_AHEAD * rows.shape[1] * rows.itemsize
    fits = cache >= LARGE_CACHE and size <= SHARE_OF_CACHE * cache
    return is_intels() and fits and rows.dtype.kind == "f"


class ColumnProducts(DenseProducts):
    """Products of a dense matrix in Fortran order, column after column, as tables often are.

    A compiled loop reads it twice for a value and its gradient: what a cache holds of all columns
    is too short a piece of each to be read at full speed.
    """

    def own_threads(self, columns: int) -> bool:
        """One vector: a compiled loop."""
        return bool(columns == 1 and self.X.size >= LARGE_MATRIX)

    def _first_sums(self) -> Callable[..., None]:
        """The compiled loop that reads columns."""
        from sketchridge import kernels

        return partial(kernels.column_first_sums, self.X.T)

    def _normal_vector(self) -> Callable[..., None]:
        """The compiled loop that reads columns."""
        from sketchridge import kernels

        return partial(kernels.column_normal_vector, self.X.T)


def lies_by_columns(X: Any) -> bool:
    """Whether it is dense, in Fortran order."""
    return isinstance(X, np.ndarray) and bool(X.flags.f_contiguous and not X.flags.c_contiguous)


def products_of_dense(X: NDArray[Any]) -> DenseProducts:
    """The products of a dense matrix, in the order in which it lies."""
    return ColumnProducts(X) if lies_by_columns(X) else DenseProducts(X)


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
        step = min(gathered_rows(self.count, d, columns), stop - start)
        space = np.empty(step * d, dtype=self.X.dtype)
        widened = space if space.dtype == np.float64 else np.empty(space.size)
        for first in range(start, stop, step):
            rows = slice(first, min(first + step, stop))
            block = self._gathered(rows, space)
            if widened is not space:
                wide = widened[: block.size]
                wide[:] = block.ravel(order="K")
                block = wide.reshape(block.shape, order="C" if block.flags.c_contiguous else "F")
            yield rows, block

    def _gathered(self, rows: slice, space: NDArray[Any]) -> NDArray[Any]:
        """Some of the rows, in memory that there is, in the order in which X lies.

        In the other order numpy would copy the whole of X first.
        """
        taken, d = self.indices[rows], self.X.shape[1]
        part = space[: taken.size * d]
        if lies_by_columns(self.X):
            block = part.reshape(d, taken.size)
            return np.take(self.X.T, taken, axis=1, out=block, mode="clip").T
        return np.take(self.X, taken, axis=0, out=part.reshape(taken.size, d), mode="clip")

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
            return added(run_all([partial(part, start, stop) for start, stop in ranges]))


def gathered_rows(count: int, d: int, columns: int) -> int:
    """Of so many sampled rows, how many are gathered at a time for a product."""
    least = SAMPLED_BLOCK_ROWS if columns >= WIDE else 1
    return min(count, max(least, CACHED_BLOCK_BYTES // (8 * d)), longest_sum(count))


def thin_product(A: Array, B: Array, longest: int) -> Array:
    """A B (m, k), as the transpose of Bᵀ Aᵀ: where k is small BLAS is up to twice as fast so.

    Sums that BLAS makes in one go are no longer than `longest`. What comes out has its columns one
    after the other.
    """
    inner, columns = B.shape
    if columns == 1 or inner <= longest or A.size * columns > UNPACKED:
        return (B.T @ A.T).T
    ranges = even_ranges(inner, -(-inner // longest))
    return added([(B[start:stop].T @ A[:, start:stop].T).T for start, stop in ranges])


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
