"""P = AᵀA + μI by a factor in float32, at half the price of one in float64.

The rows A are rounded to float32, and kept. A few leading directions are made as small as the last
of them (A T, with T = I − U diag(t) Uᵀ), and the Gram matrix of that and its factor L are computed
in float32: L Lᵀ is T P T but for an error of about 1e-8 of its trace, with a shift that keeps it
positive. To precondition with, that is as good as P itself where λ is not far below; to certify
with, gᵀP⁻¹g is bounded from its residual G − PV, by products with A in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.factor import (
    COUNTED_SIDE,
    GUESSES,
    PrimalFactor,
    ShiftedCholesky,
    SketchedRows,
    energy_from_residual,
    usable_shift,
)
from sketchridge.products import DenseProducts, add_gram
from sketchridge.threads import (
    blas_threads,
    run_all,
    run_shared,
    single_threaded_blas,
    thread_count,
)

Narrow = NDArray[np.float32]

UNIT = float(np.finfo(np.float32).eps) / 2
# The Gram matrix in float32 is off by about 1e-8 of its trace, and so is its factor: a shift of
# somewhat more makes up for it. Where it does not, one of so many times more does nearly always.
SHIFT, FURTHER, TRIES = 2.5e-8, 4.0, 2
# So many directions are flattened, and none by more than this ratio of their squares.
FLATTENED, STEEPEST = 8, 1e-10
# Rows at a time that are flattened, and of these a thread.
BLOCK, CHUNK = 4096, 128
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
    """Rows A (s, d), s ≥ d, rounded to float32."""

    matrix: Narrow

    @classmethod
    def of(cls, rows: Array) -> NarrowRows:
        """Round rows in float64; those that float32 does not hold become infinite."""
        with np.errstate(over="ignore"):
            return cls(rows.astype(np.float32))

    @cached_property
    def size(self) -> float:
        """What rounding errors are in proportion to: ‖A‖²."""
        return float(DenseProducts(self.matrix).squared_norms().sum())

    def cholesky(self, mu: float) -> ShiftedCholesky:
        """The factor of AᵀA + μI in float64."""
        return ShiftedCholesky.of(
            SketchedRows(self.matrix.astype(np.float64)).gram(), mu, self.size
        )

    def normal(self, V: Array) -> Array:
        """AᵀA V, (d, t), in float64."""
        products, ones = DenseProducts(self.matrix), np.ones(len(self.matrix))
        if V.shape[1] > 1:
            return products.normal(V, np.zeros(V.shape[1]), ones)[0]
        # However small it is: the compiled loops are at hand, and others widen A first.
        return products.compiled_residual(V, np.zeros((len(ones), 1)), ones)[1]


@dataclass(frozen=True, eq=False)
class Flattening:
    """T = I − U diag(t) Uᵀ: it makes the leading directions of A as small as the last of them."""

    basis: Array  # (d, k) U, numbers of float32
    shares: Array  # (k,) t, below one

    @classmethod
    def of(cls, A: Narrow) -> Flattening:
        """One step of subspace iteration, in float32."""
        count = min(FLATTENED, A.shape[1])
        signs = np.random.default_rng(0).choice(np.array([-1.0, 1.0]), size=(A.shape[1], count))
        basis, _ = np.linalg.qr(_normal(A, signs.astype(np.float32)))
        image = _in_parts(A, lambda part: part @ basis.astype(np.float32))
        inner = np.concatenate(image).astype(np.float64)
        squares, turn = np.linalg.eigh(inner.T @ inner)
        least = max(float(squares[0]), STEEPEST * float(squares[-1]))
        shares = 1.0 - np.sqrt(least / np.maximum(squares, least)) if least > 0 else 0.0 * squares
        return cls((basis @ turn).astype(np.float32).astype(np.float64), shares)

    def apply(self, G: Array) -> Array:
        """T G for G (d, t)."""
        flattened: Array = G - self.basis @ (self.shares[:, None] * (self.basis.T @ G))
        return flattened

    def gram(self, A: Narrow) -> Narrow:
        """(A T)ᵀ(A T), (d, d), in float32: the lower triangle."""
        d = A.shape[1]
        total, block = np.zeros((d, d), np.float32), np.empty((min(BLOCK, len(A)), d), np.float32)
        scaled, across = self.basis * self.shares, self.basis.T
        flatten = partial(_flatten, scaled.astype(np.float32), across.astype(np.float32))
        for start in range(0, len(A), BLOCK):
            some = A[start : start + BLOCK]
            flat = block[: len(some)]
            cuts = range(0, len(some), CHUNK)
            tasks = [partial(flatten, some[c : c + CHUNK], flat[c : c + CHUNK]) for c in cuts]
            run_shared(tasks)
            add_gram(flat, total)
        return total


def _flatten(scaled: Narrow, across: Narrow, A: Narrow, out: Narrow) -> None:
    """A T = A − (A U diag(t)) Uᵀ, to out."""
    np.matmul(A @ scaled, across, out=out)
    np.subtract(A, out, out=out)


def _in_parts(A: Narrow, work: Callable[[Narrow], Any]) -> list[Any]:
    """Some work with parts of the rows, one a thread."""
    parts = np.array_split(A, thread_count())
    with single_threaded_blas():
        return run_all([partial(work, part) for part in parts])


def _normal(A: Narrow, V: Narrow) -> Array:
    """AᵀA V, (d, k), in float32."""
    products = _in_parts(A, lambda part: part.T @ (part @ V))
    total: Array = np.sum(products, axis=0, dtype=np.float64)
    return total


class OfRoundedRows:
    """What the rounding of the rows leaves of AᵀA ⪯ c·C."""

    rows: NarrowRows

    @property
    def inflation(self) -> float:
        """The a in AᵀA ⪯ a·BᵀB + error, where B are the rows before they were rounded."""
        return 1.0 + THETA

    @property
    def error(self) -> float:
        """And the error, in its trace."""
        return 4 * (1.0 + 1.0 / THETA) * UNIT**2 * self.rows.size


@dataclass(frozen=True, eq=False)
class NarrowFactor(OfRoundedRows):
    """P = AᵀA + μI with a factor near it, in float32: T⁻¹ L Lᵀ T⁻¹."""

    flattening: Flattening
    lower: Narrow  # (d, d) the lower triangle is L
    rows: NarrowRows
    mu: float

    @property
    def exact(self) -> bool:
        """Whether `solve` is P⁻¹ itself: it is T (L Lᵀ)⁻¹ T."""
        return False

    @property
    def columns(self) -> int:
        """The number d of columns."""
        return len(self.lower)

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

    @cached_property
    def cholesky(self) -> ShiftedCholesky:
        """The factor of P in float64, made when degrees of freedom are to be counted."""
        mu, _ = usable_shift(self.mu, self.side, self.size)
        return self.rows.cholesky(mu)

    @property
    def guessed_dimension(self) -> float:
        """About tr AᵀA(AᵀA + μI)⁻¹, by random vectors (Hutchinson) if it is large."""
        if self.side <= COUNTED_SIDE:
            return self.cholesky.effective_dimension
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(self.side, GUESSES))
        left = self.mu * float(np.vdot(signs, self.solve(signs))) / GUESSES
        return min(max(0.0, self.side - left), float(self.side))

    def at(self, mu: float) -> NarrowFactor | WidenedFactor:
        """The same rows with another μ: in float64, where float32 does not bear it."""
        try:
            return factorise_narrow(self.rows, mu)
        except np.linalg.LinAlgError:
            return WidenedFactor(self.rows.cholesky(mu), self.rows)

    def solve(self, G: Array) -> Array:
        """T (L Lᵀ)⁻¹ T G for G (d, t), a linear map to the accuracy of float64."""
        from sketchridge import kernels

        columns = np.ascontiguousarray(self.flattening.apply(G).T)
        for column in columns:
            kernels.cholesky_solve(self.lower, column)
        return self.flattening.apply(columns.T)

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
        left: Array = G - self.rows.normal(V) - self.mu * V
        return left


@dataclass(frozen=True, eq=False)
class WidenedFactor(OfRoundedRows, PrimalFactor):
    """P = AᵀA + μI of rounded rows, by a factor in float64."""

    rows: NarrowRows

    def at(self, mu: float) -> WidenedFactor:
        """The same rows with another μ."""
        return WidenedFactor(self.cholesky.at(mu), self.rows)


def factorise_narrow(rows: NarrowRows, mu: float) -> NarrowFactor:
    """Factorise in float32; LinAlgError where float32 does not hold it, or breaks down."""
    if not SMALLEST <= rows.size <= LARGEST or mu > LARGEST:
        raise np.linalg.LinAlgError(
            f"‖A‖² = {rows.size:.3g} and λ = {mu:.3g} are out of the range of float32"
        )
    if mu < NOTHING * rows.size:
        raise np.linalg.LinAlgError(f"λ = {mu:.3g} is too small to be certified with float32")
    flattening = Flattening.of(rows.matrix)
    for power in range(TRIES):
        lower = _lower(rows.matrix, flattening, mu, SHIFT * FURTHER**power)
        if lower is not None:
            return NarrowFactor(flattening, lower, rows, mu)
    side = rows.matrix.shape[1]
    raise np.linalg.LinAlgError(f"a normal matrix of side {side} cannot be factorised in float32")


def _lower(A: Narrow, flattening: Flattening, mu: float, shift: float) -> Narrow | None:
    """The lower factor of TAᵀAT + μI, and a shift in units of its trace; None if it breaks down."""
    total, d = flattening.gram(A), A.shape[1]
    diagonal = np.diag_indices_from(total)
    total[diagonal] += np.float32(mu + shift * float(np.trace(total, dtype=np.float64)))
    with blas_threads(d**3 / 6):
        # The transpose is in LAPACK's order, and its upper triangle is the lower one of `total`.
        _, info = scipy.linalg.lapack.spotrf(total.T, lower=0, clean=0, overwrite_a=1)
    return total if info == 0 and np.isfinite(total[diagonal]).all() else None
