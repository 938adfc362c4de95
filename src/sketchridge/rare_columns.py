"""Columns of one entry or none, left out of a sparse problem exactly.

A column without entries has the coefficient 0. One whose only entry is x, in row i, sees nothing
of the others but that row's residual q: its best coefficient is −ω x q / (λ + ω s), where s sums
the squares of all such entries of the row. Put into F, that leaves the row as it was, with the
weight ω λ / (λ + ω s) instead of ω. So the other columns are a ridge problem of their own, smaller
and better conditioned: on text, half of the columns can be such
(docs/decisions/16-rare-columns.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.evaluation import Evaluation
from sketchridge.problem import RidgeProblem
from sketchridge.sparse_products import CompactRows, SparseProducts
from sketchridge.threads import run_all

Array = NDArray[np.float64]

# Fewer columns than this share are not worth the copy of the others.
WORTHWHILE = 0.1
# Rows weigh less by a factor of 1 + ω s / λ, and s is at most a row's squared norm: where λ n is
# more than this share of the trace, no row gets much lighter, and no pass is saved.
LARGE_PENALTY = 0.2


@dataclass(frozen=True, eq=False)
class Singles:
    """The entries that are alone in their columns."""

    rows: NDArray[np.intp]  # (m,)
    columns: NDArray[np.intp]  # (m,)
    values: Array  # (m,)

    def squares(self, n: int) -> Array:
        """The sums of their squares for every row, (n,)."""
        return np.bincount(self.rows, self.values**2, minlength=n).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class WithoutRareColumns:
    """A sparse problem without its rare columns, and the way back.

    F of the problem is `total` times F of the `smaller` one, whose weights sum to one again.
    """

    problem: RidgeProblem
    smaller: RidgeProblem
    kept: NDArray[np.intp]  # (k,) the columns that are left, those with the most entries first
    singles: Singles
    pull: Array  # (n,) ω / (λ + ω s)
    total: float

    def restricted(self, W: Array) -> Array:
        """The coefficients (k, t) of the columns that are left."""
        return W[self.kept]

    def point(self, W: Array) -> Array:
        """All coefficients (d, t), the rare ones at their best for these (k, t); one pass.

        By the data as given: the smaller problem's may be rounded.
        """
        full = np.zeros((self.problem.d, W.shape[1]))
        full[self.kept] = W
        residual = self.problem.products.multiply(full) - self.problem.Y
        if self.problem.fit_intercept:  # at its best for both
            residual -= self.smaller.weights @ residual
        self.problem.passes += 1
        pulled = (self.pull[:, None] * residual)[self.singles.rows]
        full[self.singles.columns] = -self.singles.values[:, None] * pulled
        self.count_passes()
        return full

    def objective(self, smaller: Array) -> Array:
        """F (t,) of the problem, from that of the smaller one."""
        return self.total * smaller

    def count_passes(self) -> None:
        """Passes over the smaller problem are passes over this one."""
        self.problem.passes += self.smaller.passes
        self.smaller.passes = 0.0

    def evaluation(self, fresh: Evaluation) -> Evaluation:
        """The smaller problem's F and slope at such a point, from this one's; no pass.

        Where the rare coefficients are at their best, F's slope along the others is that of the
        smaller problem's F. What an evaluation knows besides is still this problem's.
        """
        return replace(
            fresh,
            coef=self.restricted(fresh.coef),
            objective=fresh.objective / self.total,
            gradient=fresh.gradient[self.kept] / self.total,
        )

    def slope(self, gradient: Array) -> Array:
        """The gradient (d, t) at such a point, from that of the smaller problem (k, t)."""
        full = np.zeros((self.problem.d, gradient.shape[1]))
        full[self.kept] = self.total * gradient
        return full


def without_rare_columns(problem: RidgeProblem, compact: bool = False) -> WithoutRareColumns | None:
    """The problem without its rare columns; None where that is not worth it.

    Its copy of the data is compact if that may be: with values rounded to float32.
    """
    products = problem.products
    if not isinstance(products, SparseProducts) or type(problem) is not RidgeProblem:
        return None
    if problem.lam * problem.n > LARGE_PENALTY * problem.raw_trace:
        return None
    counts = products.column_counts
    left = int(np.count_nonzero(counts > 1))
    if left == 0 or problem.d - left < WORTHWHILE * problem.d:
        return None
    compact = compact and problem.narrows and problem.in_float32_range
    return _without(problem, np.argsort(-counts, kind="stable")[:left], products, compact)


def _without(
    problem: RidgeProblem, kept: NDArray[np.intp], products: SparseProducts, compact: bool
) -> WithoutRareColumns:
    lam, weights = problem.lam, problem.weights
    smaller, singles = _parted(products, kept, compact)
    denominators = lam + weights * singles.squares(problem.n)
    lighter = weights * (lam / denominators)
    total = float(lighter.sum())
    reduced = RidgeProblem(smaller, problem.Y, lam / total, lighter, problem.fit_intercept)
    reduced.products = SparseProducts(smaller, frequent_first=True)
    size, alone = (smaller.data.nbytes + smaller.indices.nbytes) / 1e6, singles.values.size
    problem.notes.append(
        f"of {problem.d} columns {alone} have one entry and {problem.d - kept.size - alone} "
        f"none: they are left out exactly, and the other {kept.size} are copied"
        + (" in float32" if compact else "")
        + f" ({size:.1f} MB)"
    )
    return WithoutRareColumns(problem, reduced, kept, singles, weights / denominators, total)


def _parted(products: SparseProducts, kept: NDArray[np.intp], compact: bool) -> tuple[Any, Singles]:
    """Some columns of a CSR matrix in a new order, and the entries of all others."""
    X = products.X
    places = np.full(X.shape[1], kept.size)
    places[kept] = np.arange(kept.size)
    if products.own_threads(1):
        return _parted_by_loops(products, places, kept.size, compact)
    return _parted_by_numpy(X, places, kept.size)


def _parted_by_numpy(X: Any, places: NDArray[np.intp], kept: int) -> tuple[Any, Singles]:
    indices = places.take(X.indices)
    is_kept = indices < kept
    before = np.append(0, np.cumsum(is_kept))
    arrays = (X.data[is_kept], indices[is_kept], before[X.indptr])
    alone = np.flatnonzero(~is_kept)
    rows = np.searchsorted(X.indptr, alone, side="right") - 1
    singles = Singles(rows, X.indices[alone].astype(np.intp), X.data[alone].astype(np.float64))
    return scipy.sparse.csr_array(arrays, shape=(X.shape[0], kept)), singles


def _parted_by_loops(
    products: SparseProducts, places: NDArray[np.intp], kept: int, compact: bool
) -> tuple[Any, Singles]:
    from sketchridge import kernels

    X, rows, ranges = products.X, products.stored_rows, products.row_ranges()
    before = np.zeros(X.shape[0] + 1, X.indptr.dtype)
    count = partial(kernels.count_kept, rows, places, kept)
    run_all([partial(count, *ends, before[1:]) for ends in ranges])
    np.cumsum(before, out=before)
    entries = int(before[-1])
    if compact:
        smaller: Any = CompactRows.empty(before, kept)
        arrays = smaller.data, smaller.indices, smaller.indptr
    else:
        arrays = np.empty(entries, X.data.dtype), np.empty(entries, X.indices.dtype), before
    alone = X.nnz - entries
    singles = Singles(np.empty(alone, np.intp), np.empty(alone, np.intp), np.empty(alone))
    part = partial(kernels.keep_columns, rows, places, kept, before)
    others = singles.values, singles.columns, singles.rows
    run_all([partial(part, *ends, kernels.CSR(*arrays), *others) for ends in ranges])
    if not compact:  # once its indices are there: scipy looks at them
        smaller = scipy.sparse.csr_array(arrays, shape=(X.shape[0], kept))
    return smaller, singles
