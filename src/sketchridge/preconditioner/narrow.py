"""P = AᵀA + μI by a factor in float32, at half the price of one in float64.

The rows A are rounded to float32, and kept. The Gram matrix, in the smaller side, and its factor L
are computed in float32: they are off by about 1e-8 of the trace, and a shift somewhat larger than
that keeps it positive. Where that is much beside μ, a few leading directions are first made as
small as the last of them (A T, with T = I − U diag(t) Uᵀ), and less of the trace is left. To
precondition with, that is as good as P itself where μ is not far below; to certify with, gᵀP⁻¹g is
bounded from its residual G − PV, by products with A in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.cholesky import factorise_in_place
from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.factor import (
    COUNTED_SIDE,
    GUESSES,
    DualFactor,
    Factor,
    PrimalFactor,
    ShiftedCholesky,
    SketchedRows,
    energy_from_residual,
    usable_shift,
)
from sketchridge.products import DenseProducts, add_gram, columns_by_rows, even_ranges, gram_by_rows
from sketchridge.threads import run_all, run_shared, single_threaded_blas, thread_count

Narrow = NDArray[np.float32]

UNIT = float(np.finfo(np.float32).eps) / 2
# The Gram matrix in float32 is off by about 1e-8 of its trace, and so is its factor: a shift of
# somewhat more makes up for it. Where it does not, one of so many times more does nearly always.
SHIFT, FURTHER, TRIES = 2.5e-8, 4.0, 2
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
# Columns of zeros are left out where they are at least one in so many.
EMPTY_COLUMNS = 20
# ‖A‖² of rows whose products float32 holds, with room to spare.
SMALLEST, LARGEST = 1e-20, 1e20
# A λ below this share of ‖A‖² leaves too little of the certificate: one of 1e-16 stagnated.
NOTHING = 1e-14
# A bound of gᵀP⁻¹g is refined until what is left of it is this share, or so many times.
LOOSE, REFINEMENTS = 0.1, 4
# (A + δ)ᵀ(A + δ) ⪯ (1 + θ) AᵀA + (1 + 1/θ) δᵀδ, for the rounding δ of A to float32.
THETA = 1e-3


@dataclass(frozen=True, eq=False)
class NarrowRows:
    """Rows A (s, d) rounded to float32, without the columns of zeros where these are many."""

    matrix: Narrow  # (s, m)
    columns: Any  # the index of these m
    width: int  # d
    size: float  # what rounding errors are in proportion to: ‖A‖²

    @classmethod
    def of(cls, rows: Array) -> NarrowRows:
        """Round rows in float64; those that float32 does not hold become infinite."""
        with np.errstate(over="ignore"):
            narrow = rows.astype(np.float32)
        return cls.packed(narrow, (rows != 0).any(axis=0), float(np.vdot(rows, rows)))

    @classmethod
    def packed(cls, rows: Narrow, filled: NDArray[np.bool_], size: float) -> NarrowRows:
        """Rows (s, d) in C order, in the same memory, given which columns (d,) are not all zero."""
        (s, d), columns = rows.shape, np.flatnonzero(filled)
        if EMPTY_COLUMNS * (d - columns.size) < d:
            return cls(rows, slice(None), d, size)
        from sketchridge import kernels

        numbers = rows.reshape(-1)
        kernels.pack_columns(numbers, s, d, columns)
        packed = numbers[: s * columns.size].reshape(s, columns.size)
        return cls(packed, columns, d, size)

    @property
    def few(self) -> bool:
        """Whether they are fewer than the columns."""
        return bool(self.matrix.shape[0] < self.matrix.shape[1])

    def split(self, groups: int) -> list[NarrowRows]:
        """So many groups of them, one after the other."""
        from sketchridge import kernels

        squares = np.empty(len(self.matrix))
        ranges = even_ranges(len(self.matrix), groups)
        run_shared([partial(kernels.dense_row_squares, self.matrix, *r, squares) for r in ranges])
        return [
            NarrowRows(self.matrix[a:b], self.columns, self.width, float(squares[a:b].sum()))
            for a, b in ranges
        ]

    def slope(self, R: Array) -> Array:
        """Aᵀ R, (d, t), with the columns of zeros."""
        full = np.zeros((self.width, R.shape[1]))
        full[self.columns] = self.adjoint(R)
        return full

    def widened(self) -> Array:
        """A in float64, with all columns."""
        wide = np.zeros((len(self.matrix), self.width))
        wide[:, self.columns] = self.matrix
        return wide

    def multiply(self, V: Array) -> Array:
        """A V (s, t), in float64, for V (m, t)."""
        products = DenseProducts(self.matrix)
        return products.compiled_multiply(V) if V.shape[1] == 1 else products.multiply(V)

    def adjoint(self, R: Array) -> Array:
        """Aᵀ R, (m, t), in float64."""
        products = DenseProducts(self.matrix)
        return products.compiled_adjoint(R) if R.shape[1] == 1 else products.adjoint(R)

    def normal(self, V: Array) -> Array:
        """AᵀA V, (m, t), in float64, for V (m, t)."""
        products, ones = DenseProducts(self.matrix), np.ones(len(self.matrix))
        if V.shape[1] > 1:
            return products.normal(V, np.zeros(V.shape[1]), ones)[0]
        # However small it is: the compiled loops are at hand, and others widen A first.
        return products.compiled_residual(V, np.zeros((len(ones), 1)), ones)[1]


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
        shift = _shift(rows) * rows.size
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
        basis, _ = np.linalg.qr(_widen(A.T @ (A @ _narrow(signs))))
        inner = _widen(A @ _narrow(basis))
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


def _shift(rows: NarrowRows) -> float:
    """What makes up for the rounding, in shares of the trace."""
    return SHIFT_OF_FEW if rows.few else SHIFT


def _narrow(numbers: Array) -> Narrow:
    return numbers.astype(np.float32)


def _widen(numbers: Narrow) -> Array:
    return numbers.astype(np.float64)


class OfRoundedRows:
    """What the rounding of the rows leaves of AᵀA ⪯ c·C."""

    rows: Any  # NarrowRows, or the same numbers in SketchedRows

    @property
    def inflation(self) -> float:
        """The a in AᵀA ⪯ a·BᵀB + error, where B are the rows before they were rounded."""
        return 1.0 + THETA

    @property
    def error(self) -> float:
        """And the error, in its trace."""
        return 4 * (1.0 + 1.0 / THETA) * UNIT**2 * float(self.rows.size)


@dataclass(frozen=True, eq=False)
class NarrowFactor(OfRoundedRows):
    """P = AᵀA + μI with a factor near it, in float32."""

    flattening: Flattening
    lower: Narrow  # the lower triangle is L
    rows: NarrowRows
    mu: float
    raised: float  # the μ that L is of: with what makes up for its rounding

    @property
    def groups(self) -> tuple[Factor, ...]:
        """All rows are one."""
        return (self,)

    @property
    def exact(self) -> bool:
        """Whether `solve` is P⁻¹ itself: it is only near it."""
        return False

    @property
    def columns(self) -> int:
        """The number d of columns."""
        return self.rows.width

    @property
    def side(self) -> int:
        """The number of rows of the matrix that is factorised."""
        return len(self.lower)

    @property
    def size(self) -> float:
        """What rounding errors are in proportion to: ‖A‖²."""
        return self.rows.size

    @property
    def smallest(self) -> float:
        """A lower bound of P's eigenvalues."""
        return self.mu

    @property
    def terms(self) -> float:
        """How many units of roundoff a product with P may be off by, over four."""
        return max(self.side, 0.5 * self.columns)

    @property
    def making(self) -> int:
        """Flattened rows, or all of them in float64 with their smaller side."""
        s, d = len(self.rows.matrix), self.columns
        return s * d + 2 * min(s, d) ** 2 + BLOCK_BYTES // 8

    @cached_property
    def cholesky(self) -> ShiftedCholesky:
        """The factor of P in float64, made when degrees of freedom are to be counted."""
        mu, _ = usable_shift(self.mu, self.side, self.size)
        return widened_factor(self.rows, mu).cholesky

    @property
    def guessed_dimension(self) -> float:
        """About tr AᵀA(AᵀA + μI)⁻¹, by random vectors (Hutchinson) if it is large."""
        if self.side > COUNTED_SIDE:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(self.side, GUESSES))
            signs /= np.sqrt(GUESSES)
        else:
            signs = np.eye(self.side)
        # Flattened directions are among those that are used, nearly whole, either way.
        half, _ = scipy.linalg.lapack.strtrs(self.lower.T, _narrow(signs), lower=0, trans=1)
        left = self.raised * float(np.vdot(half, half))
        return min(max(0.0, self.side - left), float(self.side))

    def at(self, mu: float) -> Factor:
        """The same rows with another μ: in float64, where float32 does not bear it."""
        try:
            return factorise_narrow(self.rows, mu)
        except np.linalg.LinAlgError:
            return widened_factor(self.rows, mu)

    def _inside(self, G: Array) -> Array:
        """(L Lᵀ)⁻¹ G."""
        from sketchridge import kernels

        columns = G.T.copy()  # in C order
        for column in columns:
            kernels.cholesky_solve(self.lower, column)
        return columns.T

    def solve(self, G: Array) -> Array:
        """T (TAᵀAT + μI)⁻¹ T G for G (d, t), a linear map to the accuracy of float64.

        Where a column of A is zero, there is μ alone.
        """
        flat = self.flattening.apply(G[self.rows.columns])
        solved = self._by_rows(flat) if self.rows.few else self._inside(flat)
        whole = G / self.mu
        whole[self.rows.columns] = self.flattening.apply(solved)
        return whole

    def _by_rows(self, G: Array) -> Array:
        """(TAᵀAT + μI)⁻¹ G for G (m, t), by (AT²Aᵀ + μI)⁻¹."""
        image = self._inside(self.rows.multiply(self.flattening.apply(G)))
        solved: Array = (G - self.flattening.apply(self.rows.adjoint(image))) / self.raised
        return solved

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t), from above."""
        V = self.solve(G)
        R = self._left(G, V)
        best = energy_from_residual(self, G, V, R)
        for _ in range(REFINEMENTS):
            if np.all(np.sum(R**2, axis=0) / self.mu <= LOOSE * np.sum(V * G, axis=0)):
                break
            V = V + self.solve(R)
            R = self._left(G, V)
            best = np.minimum(best, energy_from_residual(self, G, V, R))
        return best

    def _left(self, G: Array, V: Array) -> Array:
        """G − P V."""
        left: Array = G - self.mu * V
        left[self.rows.columns] -= self.rows.normal(V[self.rows.columns])
        return left


@dataclass(frozen=True, eq=False)
class WidenedFactor(OfRoundedRows, PrimalFactor):
    """P = AᵀA + μI of rounded rows, by a factor in float64."""

    rows: NarrowRows

    def at(self, mu: float) -> WidenedFactor:
        """The same rows with another μ."""
        return WidenedFactor(self.cholesky.at(mu), self.rows)


@dataclass(frozen=True, eq=False)
class WidenedDualFactor(OfRoundedRows, DualFactor):
    """The same for fewer rows than columns."""

    def at(self, mu: float) -> WidenedDualFactor:
        """The same rows with another μ."""
        return WidenedDualFactor(self.cholesky.at(mu), self.rows)


def widened_factor(rows: NarrowRows, mu: float) -> WidenedFactor | WidenedDualFactor:
    """A factor of rounded rows in float64."""
    wide = SketchedRows(rows.widened())
    if len(rows.matrix) < rows.width:
        return WidenedDualFactor(ShiftedCholesky.of(wide.outer(), mu, rows.size), wide)
    return WidenedFactor(ShiftedCholesky.of(wide.gram(), mu, rows.size), rows)


def certifying(factor: Factor, most: float) -> Factor:
    """The factor of a P whose μ is nearer to what was factorised, where it may be so large.

    A certificate is late by what bounds AᵀA, and μ may be as many λ for nothing: P⁻¹ is smaller,
    and less of it is left to refine.
    """
    if not isinstance(factor, NarrowFactor):
        return factor
    return replace(factor, mu=min(factor.raised, max(factor.mu, most)))


def factorise_narrow(rows: NarrowRows, mu: float) -> NarrowFactor:
    """Factorise in float32; LinAlgError where float32 does not hold it, or breaks down."""
    check_range(rows, mu)
    return factorise_checked(rows, mu, Flattening.of(rows, mu))


def check_range(rows: NarrowRows, mu: float) -> None:
    """LinAlgError where float32 does not hold rows and μ, or what they certify."""
    if not SMALLEST <= rows.size <= LARGEST or mu > LARGEST:
        raise np.linalg.LinAlgError(
            f"‖A‖² = {rows.size:.3g} and λ = {mu:.3g} are out of the range of float32"
        )
    if mu < NOTHING * rows.size:
        raise np.linalg.LinAlgError(f"λ = {mu:.3g} is too small to be certified with float32")


def factorise_checked(rows: NarrowRows, mu: float, flattening: Flattening) -> NarrowFactor:
    """The same for rows, or a group of them, that float32 holds; LinAlgError if it breaks down."""
    for power in range(TRIES):
        if power and not flattening.shares.size:
            flattening, _ = Flattening.learned(rows.matrix, mu)
        total = flattening.smaller_side(rows)
        trace = float(np.trace(total, dtype=np.float64))
        raised = float(np.float32(mu + _shift(rows) * FURTHER**power * trace))
        if _factorised_in_place(total, raised):
            return NarrowFactor(flattening, total, rows, mu, raised)
        del total  # before another is made
    side = min(rows.matrix.shape)
    raise np.linalg.LinAlgError(f"a normal matrix of side {side} cannot be factorised in float32")


def _factorised_in_place(total: Narrow, mu: float) -> bool:
    """The lower triangle of `total` becomes the factor of it and μI; whether that is possible."""
    diagonal = np.diag_indices_from(total)
    total[diagonal] += np.float32(mu)
    return factorise_in_place(total) and bool(np.isfinite(total[diagonal]).all())


def narrow_memory(rows: int, d: int, groups: int = 1) -> int:
    """Numbers (of eight bytes) that the rows, some of them flattened, and the factors take."""
    each, threads = -(-rows // groups), min(groups, thread_count())
    side = min(each, d)
    flattened = BLOCK_BYTES // 4 if each < d else max(min(BLOCK, each) * d, _own_memory(each, d))
    return (rows * d + threads * flattened + groups * side**2) // 2


def _own_memory(rows: int, d: int) -> int:
    """Numbers that the threads have of their own: a block each, its sum and a product.

    As many columns as that may be of: columns of zeros are left out.
    """
    threads, columns = thread_count(), min(d, columns_by_rows(rows))
    return min(threads * OWN_BLOCK, rows) * columns + 2 * threads * columns**2
