"""Leading directions of rows in float32 made as small as the last of them, and the matrix then."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from sketchridge.gram import add_gram, columns_by_rows, gram_by_rows
from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.narrow_rows import NarrowRows, to_float32, to_float64
from sketchridge.summing import even_ranges
from sketchridge.threads import run_all, run_shared, single_threaded_blas, thread_count

Narrow = NDArray[np.float32]

# The Gram matrix in float32 is off by about 1e-8 of its trace, and so is its factor: a shift of
# somewhat more makes up for it.
SHIFT = 2.5e-8
# Where the rows are few, P⁻¹ is made by a difference, and positive only if the shift is more than
# the error.
SHIFT_OF_FEW = 1e-7
# So many directions are flattened, none by more than this ratio of their squares, where μ with the
# shift becomes smaller by this factor.
FLATTENED, STEEPEST, WORTHWHILE = 8, 1e-10, 2.0
# Nor to below so many times μ: T makes μ as many times larger as it makes them smaller.
WELL_ABOVE = 100.0
# They are found in so many rows at most.
LEARNED_FROM = 128
# Rows at a time that are flattened, and of these a thread; or by a thread that is on its own.
BLOCK, CHUNK, OWN_BLOCK = 4096, 128, 1024
# Bytes of the columns at a time that are flattened, where the rows are few.
BLOCK_BYTES = 8 << 20


@dataclass(frozen=True, eq=False)
class Flattening:
    """T = I − U diag(t) Uᵀ: it makes the leading directions of A as small as the last of them."""

    basis: Array  # (m, k) U; none where nothing is flattened
    shares: Array  # (k,) t, below one

    @classmethod
    def of(cls, rows: NarrowRows, mu: float) -> Flattening:
        """What makes the shift, and with it the μ that L is of, much smaller; or nothing.

        Few rows are always flattened: what float32 rounds in a large direction could make the
        difference that P⁻¹ is made by negative there.
        """
        shift = shift_of(rows) * rows.size
        if not rows.few and mu + shift <= WORTHWHILE * mu:
            return cls.none(rows.matrix)
        found, left = cls.learned(rows.matrix, mu)
        if rows.few or mu + shift > WORTHWHILE * (mu + left * shift):
            return found
        return cls.none(rows.matrix)

    @classmethod
    def none(cls, A: Narrow) -> Flattening:
        """T = I."""
        return cls(np.empty((A.shape[1], 0)), np.empty(0))

    @classmethod
    def learned(cls, A: Narrow, mu: float) -> tuple[Flattening, float]:
        """One step of subspace iteration, in float32, with some of the rows; to well above μ.

        Also the share of the trace that T leaves.
        """
        share, count = -(-len(A) // LEARNED_FROM), min(FLATTENED, A.shape[1])
        A = A[::share]
        signs = np.random.default_rng(0).choice(np.array([-1.0, 1.0]), size=(A.shape[1], count))
        basis, _ = np.linalg.qr(to_float64(A.T @ (A @ to_float32(signs))))
        inner = to_float64(A @ to_float32(basis))
        squares, turn = np.linalg.eigh(inner.T @ inner)
        least = max(float(squares[0]), STEEPEST * float(squares[-1]), WELL_ABOVE * mu / share)
        shares = 1.0 - np.sqrt(least / np.maximum(squares, least)) if least > 0 else 0.0 * squares
        taken = float(np.sum(squares * (1.0 - (1.0 - shares) ** 2)))
        trace = float(np.sum(np.einsum("ij,ij->i", A, A), dtype=np.float64))
        left = 1.0 - taken / max(trace, taken) if taken > 0 else 1.0
        return cls(basis @ turn, shares), left

    def apply(self, G: Array) -> Array:
        """T G for G (m, t)."""
        if not self.shares.size:
            return G
        flattened: Array = G - self.basis @ (self.shares[:, None] * (self.basis.T @ G))
        return flattened

    def smaller_side(self, rows: NarrowRows) -> Narrow:
        """The matrix to factorise, in float32: of the rows where they are few, or the columns."""
        A = rows.matrix
        total = np.zeros((min(A.shape), min(A.shape)), np.float32)
        if rows.few:  # they are always flattened
            self._add_outer(A, total)
        elif gram_by_rows(*A.shape):
            self._add_own_grams(A, total)
        elif self.shares.size:
            self._add_gram(A, total)
        else:
            add_gram(A, total)
        return total

    def _add_outer(self, A: Narrow, total: Narrow) -> None:
        """Add A T² Aᵀ to the lower triangle of total (s, s): by blocks of columns of A T."""
        from sketchridge import kernels

        s, m = A.shape
        inner, step = self._inner(A), max(1, BLOCK_BYTES // (4 * s))
        block = np.empty((s, min(step, m)), np.float32)
        subtract = kernels.subtract_eight
        for start in range(0, m, step):
            columns = slice(start, min(start + step, m))
            part, across = A[:, columns], self._across[:, columns]
            flat = block[:, : columns.stop - start]
            run_shared([partial(subtract, part[c], inner[c], across, flat[c]) for c in _chunks(s)])
            add_gram(flat.T, total)

    def _add_gram(self, A: Narrow, total: Narrow) -> None:
        """Add (A T)ᵀ(A T) to the lower triangle of total (m, m): by blocks of rows of A T."""
        block = np.empty((min(BLOCK, len(A)), A.shape[1]), np.float32)
        for start in range(0, len(A), BLOCK):
            rows = A[start : start + BLOCK]
            flat = block[: len(rows)]
            run_shared([partial(self._flatten, rows[c], flat[c]) for c in _chunks(len(rows))])
            add_gram(flat, total)

    def _add_own_grams(self, A: Narrow, total: Narrow) -> None:
        """Add (A T)ᵀ(A T), of which every thread makes that of its rows."""
        with single_threaded_blas():
            ranges = even_ranges(len(A), thread_count())
            own = run_all([partial(self._gram, A[start:stop]) for start, stop in ranges])
        for each in own:
            total += each

    def _gram(self, A: Narrow) -> Narrow:
        """(A T)ᵀ(A T), on this thread alone: what it has flattened is in its cache."""
        if not self.shares.size:
            return A.T @ A
        total = np.zeros((A.shape[1], A.shape[1]), np.float32)
        block = np.empty((min(OWN_BLOCK, len(A)), A.shape[1]), np.float32)
        for start in range(0, len(A), OWN_BLOCK):
            rows = A[start : start + OWN_BLOCK]
            flat = block[: len(rows)]
            self._flatten(rows, flat)
            total += flat.T @ flat
        return total

    def _flatten(self, A: Narrow, out: Narrow) -> None:
        """A T to out, on this thread alone.

        In float64: what is subtracted is larger than what is left, and its rounding would be in
        all.
        """
        from sketchridge import kernels

        inner = np.empty((len(A), FLATTENED))
        kernels.eight_products(A, self._scaled, 0, len(A), inner)
        kernels.subtract_eight(A, inner, self._across, out)

    @cached_property
    def _across(self) -> Array:
        """Uᵀ, (8, m): with zeros where there are fewer directions."""
        across = np.zeros((FLATTENED, len(self.basis)))
        across[: self.shares.size] = self.basis.T
        return across

    @cached_property
    def _scaled(self) -> Array:
        """The same, times t."""
        scaled = self._across.copy()
        scaled[: self.shares.size] *= self.shares[:, None]
        return scaled

    def _inner(self, A: Narrow) -> Array:
        """A U diag(t), (s, 8)."""
        from sketchridge import kernels

        inner = np.empty((len(A), FLATTENED))
        products = partial(kernels.eight_products, A, self._scaled)
        ranges = even_ranges(len(A), thread_count())
        run_all([partial(products, start, stop, inner) for start, stop in ranges])
        return inner


def _chunks(count: int) -> list[slice]:
    """A few rows at a time, for whichever thread is free."""
    return [slice(start, start + CHUNK) for start in range(0, count, CHUNK)]


def shift_of(rows: NarrowRows) -> float:
    """What makes up for the rounding, in shares of the trace."""
    return SHIFT_OF_FEW if rows.few else SHIFT


def flattening_memory(rows: int, d: int) -> int:
    """Numbers in float32 that flattening takes, besides the matrix to factorise.

    A block of the columns of few rows; a block of others; or, of every thread, a block, its sum and
    a product, of as many columns as that may be of: columns of zeros are left out.
    """
    if rows < d:
        return BLOCK_BYTES // 4
    threads, columns = thread_count(), min(d, columns_by_rows(rows))
    own = min(threads * OWN_BLOCK, rows) * columns + 2 * threads * columns**2
    return max(min(BLOCK, rows) * d, own)
