"""Products of a sparse matrix (CSR) with vectors and blocks, by compiled loops over its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.summing import added, even_ranges, longest_sum, summed
from sketchridge.threads import run_all, thread_count

Array = NDArray[np.float64]

# Below this many multiplications the compiled kernels are not worth loading numba for.
SMALL_WORK = 300_000
VECTORISED = 16
# So many products with single vectors say that more will come, and a vector that the first-level
# cache holds needs no order.
BEFORE_ORDERING = 6
FIRST_CACHE_BYTES = 32 << 10
# Rows of a compact copy are filled up with zeros to whole numbers of so many entries, which the
# compiled loops take at a time, where that makes it larger by this at most.
FILLED_UP, LARGER = 4, 1.1


@dataclass(frozen=True, eq=False)
class CompactRows:
    """A CSR matrix in few bytes, for the kernels: float32, and 16-bit columns if these suffice."""

    data: NDArray[np.float32]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    shape: tuple[int, int]

    @classmethod
    def empty(cls, before: NDArray[Any], columns: int) -> CompactRows:
        """One to be filled, for rows of which row i has before_i entries before it, (n + 1,).

        Its own rows have room for whole numbers of four entries.
        """
        kind = np.min_scalar_type(max(columns - 1, 1 << 8))  # uint16, uint32 or uint64
        filled = -(-np.diff(before) // FILLED_UP) * FILLED_UP
        indptr = np.append(0, np.cumsum(filled, dtype=np.int64))
        if indptr[-1] > LARGER * before[-1]:
            indptr = before.astype(np.int64)
        entries, shape = int(indptr[-1]), (indptr.size - 1, columns)
        return cls(np.empty(entries, np.float32), np.empty(entries, kind), indptr, shape)

    @property
    def nnz(self) -> int:
        """The number of entries, with the zeros that fill rows up."""
        return self.data.size


@dataclass(frozen=True, eq=False)
class FrequentFirst:
    """A CSR matrix with its columns renumbered, those with the most entries first.

    Most entries of text are in a few columns. Next to each other, their part of a vector stays
    in the cache.
    """

    rows: Any  # kernels.CSR: the indices are a copy, the values only where they are compact
    columns: NDArray[np.intp]  # (d,) the columns in the new order
    places: NDArray[np.intp]  # (d,) where they are in it
    long: int  # so many of the first columns have more entries than may be summed in a row

    @classmethod
    def of(cls, X: Any, counts: NDArray[np.intp], compact: bool) -> FrequentFirst:
        """Renumber the columns of X, which have so many entries (d,)."""
        from sketchridge import kernels

        columns = np.argsort(-counts, kind="stable")
        places = np.empty_like(columns)
        places[columns] = np.arange(columns.size)
        if compact:
            copy = CompactRows.empty(X.indptr, X.shape[1])
            rows = kernels.CSR(copy.data, copy.indices, copy.indptr)
            given = kernels.CSR(X.data, X.indices, X.indptr)
            fill = partial(kernels.compact_rows, given, places)
            run_all([partial(fill, *ends, rows) for ends in row_ranges(X)])
        else:
            rows = kernels.CSR(X.data, np.empty_like(X.indices), X.indptr)
            renumber = partial(kernels.renumber_indices, X.indices, places)
            ranges = even_ranges(X.nnz, thread_count())
            run_all([partial(renumber, *ends, rows.indices) for ends in ranges])
        return cls(rows, columns, places, long_columns(counts, X.shape[0]))


def long_columns(counts: NDArray[np.intp], n: int) -> int:
    """So many columns have more entries than may be summed in a row."""
    return int(np.count_nonzero(counts > longest_sum(n)))


def row_ranges(X: Any) -> list[tuple[int, int]]:
    """As many ranges of a CSR matrix's rows as threads, with about the same number of entries."""
    threads, pointers = thread_count(), X.indptr
    # Numbers of another kind would be searched for in a copy of the pointers.
    goals = (np.arange(1, threads) * int(X.nnz) // threads).astype(pointers.dtype)
    cuts = [0, *np.searchsorted(pointers, goals).tolist(), X.shape[0]]
    return [(a, b) for a, b in pairwise(cuts) if b > a]


class SparseProducts:
    """Products of a CSR matrix, by compiled kernels on our own threads; by scipy when small."""

    def __init__(
        self,
        X: Any,
        tell: Callable[[str], None] | None = None,
        frequent_first: bool = False,
        compact: bool = False,
    ) -> None:
        self.X = X
        self.tell = tell  # of copies
        self.frequent_first = frequent_first  # whether the columns come in that order
        self.compact = compact  # whether products with vectors may be those of rounded values
        self.room = np.inf  # bytes that may be used to have the columns in that order
        self.vector_products = 0
        self.workspaces: list[tuple[Array, Array]] = []  # a thread's, when nobody uses them

    @property
    def rounding_factor(self) -> float:
        """Sums over rows are made of sums of √n; those over a row's entries run on."""
        longest_row = int(np.diff(self.X.indptr).max())
        return float(max(np.sqrt(max(self.X.shape)), longest_row / 16))

    def own_threads(self, columns: int) -> bool:
        """Compiled kernels, on our threads, unless there is little to do."""
        return not self._small(columns)

    def _small(self, columns: int) -> bool:
        """Whether scipy does it, which knows nothing of compact rows."""
        return bool(self.X.nnz * columns < SMALL_WORK) and not isinstance(self.X, CompactRows)

    @property
    def stored_rows(self) -> Any:
        """The matrix as the kernels take it."""
        from sketchridge import kernels

        return kernels.CSR(self.X.data, self.X.indices, self.X.indptr)

    def row_ranges(self) -> list[tuple[int, int]]:
        """As many ranges of rows as threads, with about the same number of non-zeros."""
        return row_ranges(self.X)

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
            return row_sums_of_squares(self.X, factors)
        from sketchridge import kernels

        norms, none = np.empty(self.X.shape[0]), np.zeros(0)
        scales = none if factors is None else np.ascontiguousarray(factors)
        run_all(
            [
                partial(kernels.csr_row_squares, self.stored_rows, scales, start, stop, norms)
                for start, stop in self.row_ranges()
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
            partial(kernels.csr_multiply, self.stored_rows, padded, start, stop, product)
            for start, stop in self.row_ranges()
        ]
        run_all(tasks)
        return np.ascontiguousarray(product[:, : V.shape[1]])

    def adjoint(self, R: Array) -> Array:
        """Xᵀ R, (d, k)."""
        if self._small(R.shape[1]):
            return self._small_adjoint(R)
        from sketchridge import kernels

        rows, padded = self.stored_rows, _padded(R)
        product = summed(
            lambda start, stop, piece: kernels.csr_adjoint(rows, padded, start, stop, piece),
            self.row_ranges(),
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
            shifts = np.full(weights.size, shift[0]) if shift[0] else self._no_shifts
            R, product = self._vector_residual(V, shifts, weights, every=False)
            return product, np.array([weights @ R[:, 0]])
        from sketchridge import kernels

        padded, ranges = _padded(V), self.row_ranges()
        shifts = _padded(shift[None])[0]
        products = [np.zeros(padded.shape) for _ in ranges]
        totals = [np.zeros(padded.shape[1]) for _ in ranges]
        tasks = [
            partial(
                kernels.csr_normal, self.stored_rows, padded, weights, shifts, start, stop, p, t
            )
            for (start, stop), p, t in zip(ranges, products, totals, strict=True)
        ]
        run_all(tasks)
        columns = V.shape[1]
        return added(products)[:, :columns], added(totals)[:columns]

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

        self.vector_products += 1
        ordered = self._ordered if self._orders(V.size) else None
        rows, v = self.stored_rows, np.ascontiguousarray(V[:, 0])
        long = self._long if self.frequent_first else v.size
        if ordered is not None:
            rows, v, long = ordered.rows, v.take(ordered.columns), ordered.long
        R, longest = np.empty((weights.size, 1)), longest_sum(weights.size)

        def part(start: int, stop: int, pair: Array, total: Array) -> None:
            sums = pair, total[:long], R[:, 0]
            kernels.csr_normal_vector(rows, v, shifts, weights, start, stop, every, longest, *sums)

        ranges = self.row_ranges()
        spaces = [self._workspace(v.size) for _ in ranges]
        run_all([partial(part, *ends, *space) for ends, space in zip(ranges, spaces, strict=True)])
        product = added([spaces[0][0][:, 1].copy(), *(pair[:, 1] for pair, _ in spaces[1:])])
        self.workspaces.extend(spaces)
        return R, (product if ordered is None else product.take(ordered.places))[:, None]

    def _workspace(self, d: int) -> tuple[Array, Array]:
        """Memory (d, 2) and (d,) for a thread: what is new would have to be cleared first."""
        try:
            return self.workspaces.pop()
        except IndexError:
            return np.empty((d, 2)), np.empty(d)

    def _orders(self, d: int) -> bool:
        """Whether products go by columns in another order: where enough of them will come."""
        if self.frequent_first or self.compact:  # which is asked for, and counted
            return self.compact
        if 8 * d <= FIRST_CACHE_BYTES or self.X.indices.nbytes > self.room:
            return False
        return self.vector_products > BEFORE_ORDERING

    @cached_property
    def _no_shifts(self) -> Array:
        """For products that are not centred, (n,)."""
        return np.zeros(self.X.shape[0])

    @cached_property
    def compacted(self) -> SparseProducts:
        """The same with products with vectors by a compact copy, which is made when it is used."""
        twin = SparseProducts(self.X, self.tell, compact=True)
        twin.__dict__["column_counts"] = self.column_counts
        return twin

    @cached_property
    def column_counts(self) -> NDArray[np.intp]:
        """The number of entries of every column, (d,)."""
        if self._small(1):
            return np.bincount(self.X.indices, minlength=self.X.shape[1])
        from sketchridge import kernels

        def part(start: int, stop: int) -> NDArray[np.intp]:
            counts = np.zeros(self.X.shape[1], dtype=np.intp)
            kernels.count_indices(self.X.indices, start, stop, counts)
            return counts

        ranges = even_ranges(self.X.nnz, thread_count())
        counts: NDArray[np.intp] = np.sum(run_all([partial(part, *r) for r in ranges]), axis=0)
        return counts

    @cached_property
    def _long(self) -> int:
        return long_columns(self.column_counts, self.X.shape[0])

    @cached_property
    def _ordered(self) -> FrequentFirst:
        ordered = FrequentFirst.of(self.X, self.column_counts, self.compact)
        if self.tell is not None:
            size, what = ordered.rows.indices.nbytes, "the column indices of X are copied"
            if self.compact:
                size, what = size + ordered.rows.data.nbytes, "X is copied to float32"
            self.tell(
                f"{what} ({size / 1e6:.1f} MB), with the columns in the order of their entries, "
                "for faster products"
            )
        return ordered

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


def row_sums_of_squares(X: Any, factors: Array | None) -> Array:
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
