"""P = AᵀA + μI by a factor in float32, at half the price of one in float64.

The rows A are rounded to float32, and kept (`narrow_rows`). The Gram matrix, in the smaller side,
and its factor L are computed in float32: they are off by about 1e-8 of the trace, and a shift
somewhat larger than that keeps it positive. Where that is much beside μ, a few leading directions
are first made smaller (`flattening`). To precondition with, that is as good as P itself where μ is
not far below; to certify with, gᵀP⁻¹g is bounded from its residual G − PV, by products with A in
float64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
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
    energy_from_residual,
    usable_shift,
)
from sketchridge.preconditioner.flattening import (
    BLOCK_BYTES,
    Flattening,
    flattening_memory,
    shift_of,
)
from sketchridge.preconditioner.narrow_rows import NarrowRows, to_float32
from sketchridge.preconditioner.sketched_rows import SketchedRows
from sketchridge.threads import thread_count

Narrow = NDArray[np.float32]

UNIT = float(np.finfo(np.float32).eps) / 2
# ‖A‖² of rows whose products float32 holds, with room to spare.
SMALLEST, LARGEST = 1e-20, 1e20
# Where the shift does not make up for the rounding, one of so many times more does nearly always.
FURTHER, TRIES = 4.0, 2
# A λ below this share of ‖A‖² leaves too little of the certificate: one of 1e-16 stagnated.
NOTHING = 1e-14
# A bound of gᵀP⁻¹g is refined until what is left of it is this share, or so many times.
LOOSE, REFINEMENTS = 0.1, 4
# (A + δ)ᵀ(A + δ) ⪯ (1 + θ) AᵀA + (1 + 1/θ) δᵀδ, for the rounding δ of A to float32.
THETA = 1e-3


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
        half, _ = scipy.linalg.lapack.strtrs(self.lower.T, to_float32(signs), lower=0, trans=1)
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
        raised = float(np.float32(mu + shift_of(rows) * FURTHER**power * trace))
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
    flattened = threads * flattening_memory(each, d)
    return (rows * d + flattened + groups * side**2) // 2
