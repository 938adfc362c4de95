"""Columns of one entry or none, left out of a sparse problem exactly.

A column without entries has the coefficient 0. One whose only entry is x, in row i, sees nothing
of the others but that row's residual q: its best coefficient is −ω x q / (λ + ω s), where s sums
the squares of all such entries of the row. Put into F, that leaves the row as it was, with the
weight ω λ / (λ + ω s) instead of ω. So the other columns are a ridge problem of their own, smaller
and better conditioned: on text, half of the columns can be such
(docs/decisions/16-rare-columns.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.problem import RidgeProblem
from sketchridge.sparse_products import SparseProducts

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
        """All coefficients (d, t), the rare ones at their best for these (k, t); one pass."""
        residual = self.smaller.multiply(W) - self.smaller.Y
        full = np.zeros((self.problem.d, W.shape[1]))
        full[self.kept] = W
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

    def slope(self, gradient: Array) -> Array:
        """The gradient (d, t) at such a point, from that of the smaller problem (k, t)."""
        full = np.zeros((self.problem.d, gradient.shape[1]))
        full[self.kept] = self.total * gradient
        return full


def without_rare_columns(problem: RidgeProblem) -> WithoutRareColumns | None:
    """The problem without its rare columns; None where that is not worth it."""
    if isinstance(problem.X, np.ndarray) or type(problem) is not RidgeProblem:
        return None
    if problem.lam * problem.n > LARGE_PENALTY * problem.raw_trace:
        return None
    counts = np.bincount(problem.X.indices, minlength=problem.d)
    left = int(np.count_nonzero(counts > 1))
    if left == 0 or problem.d - left < WORTHWHILE * problem.d:
        return None
    return _without(problem, counts, left)


def _without(problem: RidgeProblem, counts: NDArray[np.intp], left: int) -> WithoutRareColumns:
    X, lam, weights = problem.X, problem.lam, problem.weights
    order = np.argsort(-counts, kind="stable")
    smaller, is_kept = _columns_of(X, order[:left])
    alone = np.flatnonzero(~is_kept)
    rows = np.searchsorted(X.indptr, alone, side="right") - 1
    singles = Singles(rows, X.indices[alone].astype(np.intp), X.data[alone].astype(np.float64))
    denominators = lam + weights * singles.squares(problem.n)
    lighter = weights * (lam / denominators)
    total = float(lighter.sum())
    reduced = RidgeProblem(smaller, problem.Y, lam / total, lighter, problem.fit_intercept)
    reduced.products = SparseProducts(smaller, frequent_first=True)
    size = (smaller.data.nbytes + smaller.indices.nbytes) / 1e6
    problem.notes.append(
        f"of {problem.d} columns {alone.size} have one entry and {problem.d - left - alone.size} "
        f"none: they are left out exactly, and the other {left} are copied ({size:.1f} MB)"
    )
    pull = weights / denominators
    return WithoutRareColumns(problem, reduced, order[:left], singles, pull, total)


def _columns_of(X: Any, columns: NDArray[np.intp]) -> tuple[Any, NDArray[np.bool_]]:
    """Some columns of a CSR matrix in a new order, and which of its entries are in them."""
    places = np.full(X.shape[1], columns.size, dtype=X.indices.dtype)
    places[columns] = np.arange(columns.size)
    indices = places.take(X.indices)
    is_kept = indices < columns.size
    before = np.append(0, np.cumsum(is_kept))
    pointers = before[X.indptr].astype(X.indptr.dtype)
    arrays = (X.data[is_kept], indices[is_kept], pointers)
    return scipy.sparse.csr_array(arrays, shape=(X.shape[0], columns.size)), is_kept
