"""P = AᵀA + μI by a factor in float32, at half the price of one in float64.

The rows A are rounded to float32, and kept. Their Gram matrix and its factor L are computed in
float32, so L Lᵀ is P but for an error of about 1e-8 of its trace, with a shift that keeps it
positive. To precondition with, that is as good as P itself where λ is not far below; to certify
with, gᵀP⁻¹g is bounded from its residual G − PV, by products with A in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.factor import (
    COUNTED_SIDE,
    GUESSES,
    ShiftedCholesky,
    SketchedRows,
    energy_from_residual,
    usable_shift,
)
from sketchridge.products import DenseProducts, add_gram
from sketchridge.threads import blas_threads

Narrow = NDArray[np.float32]

UNIT = float(np.finfo(np.float32).eps) / 2
# The Gram matrix in float32 is off by about 1e-8 of its trace (MNIST and CIFAR-10, 784 and 3072
# columns), and so is its factor: a shift of as much makes up for it. One of 4e-8 costs passes.
SHIFT = 1.5e-8
MOST_SHIFTS = 8
# A bound of gᵀP⁻¹g is refined until what is left of it is this share, or so many times.
LOOSE, REFINEMENTS = 0.1, 4
# (A + δ)ᵀ(A + δ) ⪯ (1 + θ) AᵀA + (1 + 1/θ) δᵀδ, for the rounding δ of A to float32.
THETA = 1e-3


@dataclass(frozen=True, eq=False)
class NarrowRows:
    """Rows A (s, d), s ≥ d, rounded to float32."""

    matrix: Narrow

    @cached_property
    def size(self) -> float:
        """What rounding errors are in proportion to: ‖A‖²."""
        return float(DenseProducts(self.matrix).squared_norms().sum())

    def normal(self, V: Array) -> Array:
        """AᵀA V, (d, t), in float64."""
        products, ones = DenseProducts(self.matrix), np.ones(len(self.matrix))
        if V.shape[1] > 1:
            return products.normal(V, np.zeros(V.shape[1]), ones)[0]
        # However small it is: the compiled loops are at hand, and others widen A first.
        return products.compiled_residual(V, np.zeros((len(ones), 1)), ones)[1]


@dataclass(frozen=True, eq=False)
class NarrowFactor:
    """P = AᵀA + μI with a factor L near it, in float32."""

    lower: Narrow  # (d, d) the lower triangle is L
    rows: NarrowRows
    mu: float
    shift: float  # that of L Lᵀ besides, in units of P's size

    @property
    def exact(self) -> bool:
        """Whether `solve` is P⁻¹ itself: it is (L Lᵀ)⁻¹."""
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
    def inflation(self) -> float:
        """The a in AᵀA ⪯ a·BᵀB + error, where B are the rows before they were rounded."""
        return 1.0 + THETA

    @property
    def error(self) -> float:
        """And the error, in its trace."""
        return 4 * (1.0 + 1.0 / THETA) * UNIT**2 * self.size

    @property
    def smallest(self) -> float:
        """A lower bound of P's eigenvalues."""
        return self.mu

    @cached_property
    def cholesky(self) -> ShiftedCholesky:
        """The factor of P in float64, made when degrees of freedom are to be counted."""
        wide = SketchedRows(self.rows.matrix.astype(np.float64))
        mu, _ = usable_shift(self.mu, self.side, self.size)
        return ShiftedCholesky.of(wide.gram(), mu, self.size)

    @property
    def guessed_dimension(self) -> float:
        """About tr AᵀA(AᵀA + μI)⁻¹, by random vectors (Hutchinson) if it is large."""
        if self.side <= COUNTED_SIDE:
            return self.cholesky.effective_dimension
        signs = np.random.default_rng(0).choice(
            np.array([-1.0, 1.0], dtype=np.float32), size=(self.side, GUESSES)
        )
        half = scipy.linalg.solve_triangular(self.lower, signs, lower=True, check_finite=False)
        left = (self.mu + self.shift * self.size) * float(np.sum(half**2)) / GUESSES
        return min(max(0.0, self.side - left), float(self.side))

    def at(self, mu: float) -> NarrowFactor:
        """The same rows with another μ, shifted as far as it takes."""
        for power in range(MOST_SHIFTS):
            try:
                return factorise_narrow(self.rows, mu, 10.0**power * SHIFT)
            except np.linalg.LinAlgError:
                continue
        raise np.linalg.LinAlgError(f"nothing near P can be factorised with μ = {mu:g}")

    def solve(self, G: Array) -> Array:
        """(L Lᵀ)⁻¹ G for G (d, t), a linear map to the accuracy of float64."""
        from sketchridge import kernels

        solution = np.array(G.T, order="C")
        for column in solution:
            kernels.cholesky_solve(self.lower, column)
        return solution.T if G.shape[1] > 1 else solution.reshape(-1, 1)

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


def factorise_narrow(rows: NarrowRows, mu: float, shift: float = SHIFT) -> NarrowFactor:
    """Factorise in float32; LinAlgError where float32 does not hold or does not bear it."""
    d = rows.matrix.shape[1]
    total = np.zeros((d, d), dtype=np.float32)
    add_gram(rows.matrix, total)
    total[np.diag_indices_from(total)] += np.float32(mu + shift * rows.size)
    with blas_threads(d**3 / 6):
        # The transpose is in LAPACK's order, and its upper triangle is the lower one of `total`.
        _, info = scipy.linalg.lapack.spotrf(total.T, lower=0, clean=0, overwrite_a=1)
    if info != 0 or not np.isfinite(total.diagonal()).all():
        raise np.linalg.LinAlgError(f"a normal matrix of side {d} cannot be factorised in float32")
    return NarrowFactor(total, rows, mu, shift)
