"""P = AᵀA + μI for a few rows A that stand for all of them, by Cholesky in the smaller side.

Rows drawn from X and rows of an embedding S X are both such an A; what differs is the constant
c with AᵀA ⪯ c·C, which makes the certificate: P ⪯ max(c, μ/λ)·H.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy  # its parts load when they are first used

from sketchridge.certificate import DegreesCounter
from sketchridge.cholesky import factorise_in_place, in_lapack_order, inverse_trace
from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.sketched_rows import SketchedRows, SummedRows
from sketchridge.problem import EPSILON
from sketchridge.threads import blas_threads

# μ below this share of A's size, times the side, drowns in the rounding of the normal matrix.
SINGULAR = 8 * EPSILON
# μ below this share of A's size makes a loose certificate, and P's smallest eigenvalue pays.
NEARLY_NOTHING = 1e-10
# So many random vectors guess a trace, of a matrix that is larger than this.
GUESSES, COUNTED_SIDE = 8, 200


class ShiftedCholesky:
    """The Cholesky factor of M + μI, and M itself, so that another μ can follow.

    One array holds both: the factor is its lower triangle, M's other half its upper one.
    """

    def __init__(self, array: Array, diagonal: Array, mu: float, size: float) -> None:
        self.array, self.diagonal, self.mu = array, diagonal, mu
        self.size = size  # what M's rounding errors are in proportion to

    @classmethod
    def of(cls, M: Array, mu: float, size: float) -> ShiftedCholesky:
        """Factorise M + μI; M is overwritten."""
        diagonal = M.diagonal().copy()
        M[np.diag_indices_from(M)] += mu
        array = in_lapack_order(M)
        if not factorise_in_place(array):
            raise np.linalg.LinAlgError(
                f"a normal matrix of side {len(diagonal)} is not positive definite with μ = {mu:g}"
            )
        return cls(array, diagonal, mu, size)

    def at(self, mu: float) -> ShiftedCholesky:
        """The factor of the same M with another μ."""
        M = np.triu(self.array, 1)
        M += M.T
        M[np.diag_indices_from(M)] = self.diagonal
        return ShiftedCholesky.of(np.ascontiguousarray(M), mu, self.size)

    @property
    def side(self) -> int:
        """The number of rows of M."""
        return self.diagonal.size

    def solve(self, G: Array) -> Array:
        """(M + μI)⁻¹ G."""
        if G.shape[1] == 1:  # LAPACK's solver of many right-hand sides takes twice as long for one
            solve = scipy.linalg.blas.dtrsv
            half = solve(self.array, G[:, 0], lower=1)
            return np.asarray(solve(self.array, half, lower=1, trans=1))[:, None]
        with blas_threads(float(G.size) * self.side):
            solution: Array = scipy.linalg.cho_solve((self.array, True), G, check_finite=False)
        return solution

    def half(self, G: Array) -> Array:
        """L⁻¹ G."""
        solution: Array = scipy.linalg.solve_triangular(
            self.array, G, lower=True, check_finite=False
        )
        return solution

    @cached_property
    def inverse_trace(self) -> float:
        """tr (M + μI)⁻¹."""
        return inverse_trace(self.array)

    @property
    def effective_dimension(self) -> float:
        """tr M(M + μI)⁻¹, up to rounding."""
        return max(0.0, self.side - self.mu * self.inverse_trace)

    @property
    def guessed_dimension(self) -> float:
        """The same to a few per cent of the side, by random vectors (Hutchinson) if it is large."""
        if self.side <= COUNTED_SIDE:
            return self.effective_dimension
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(self.side, GUESSES))
        left = self.mu * float(np.sum(self.half(signs) ** 2)) / GUESSES
        return min(max(0.0, self.side - left), float(self.side))


class Factor(Protocol):
    """P = AᵀA + μI."""

    @property
    def cholesky(self) -> ShiftedCholesky:
        """The factor of AᵀA + μI, or of A Aᵀ + μI, to count the degrees of freedom by."""

    @property
    def groups(self) -> tuple[Factor, ...]:
        """The factors of the groups of rows, if there are several: P⁻¹ is their mean."""

    @property
    def exact(self) -> bool:
        """Whether `solve` is P⁻¹ itself, and not only near it."""

    @property
    def columns(self) -> int:
        """The number d of columns."""

    @property
    def side(self) -> int:
        """The number of rows of the matrix that is factorised."""

    @property
    def mu(self) -> float:
        """The μ of P."""

    @property
    def size(self) -> float:
        """What rounding errors are in proportion to: ‖A‖²."""

    @property
    def inflation(self) -> float:
        """The a in AᵀA ⪯ a·BᵀB + error, where B are the rows before they were rounded."""

    @property
    def error(self) -> float:
        """And the error, in its trace."""

    @property
    def terms(self) -> float:
        """How many units of roundoff a product with P may be off by, over four."""

    @property
    def making(self) -> int:
        """Numbers that the same rows with another μ take in the making, besides the factor."""

    @property
    def guessed_dimension(self) -> float:
        """About tr AᵀA(AᵀA + μI)⁻¹."""

    @property
    def smallest(self) -> float:
        """A lower bound of P's eigenvalues."""

    def at(self, mu: float) -> Factor:
        """The same rows with another μ."""

    def solve(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t)."""

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t), from above."""


@dataclass(frozen=True, eq=False)
class ByCholesky:
    """What a factor in float64 knows of P."""

    cholesky: ShiftedCholesky

    @property
    def groups(self) -> tuple[Any, ...]:
        """All rows are one."""
        return (self,)

    @property
    def exact(self) -> bool:
        """Whether `solve` is P⁻¹ itself: up to the rounding of float64."""
        return True

    @property
    def side(self) -> int:
        """The number of rows of the matrix that is factorised."""
        return self.cholesky.side

    @property
    def mu(self) -> float:
        """The μ of P."""
        return self.cholesky.mu

    @property
    def size(self) -> float:
        """What rounding errors are in proportion to: ‖A‖²."""
        return self.cholesky.size

    @property
    def inflation(self) -> float:
        """The rows are as they were."""
        return 1.0

    @property
    def error(self) -> float:
        """The rows are as they were."""
        return 0.0

    @property
    def making(self) -> int:
        """M is at hand."""
        return 0

    @property
    def guessed_dimension(self) -> float:
        """About tr AᵀA(AᵀA + μI)⁻¹."""
        return self.cholesky.guessed_dimension


@dataclass(frozen=True, eq=False)
class PrimalFactor(ByCholesky):
    """By the factor of AᵀA + μI, (d, d)."""

    @property
    def columns(self) -> int:
        """The number d of columns."""
        return self.cholesky.side

    @property
    def terms(self) -> float:
        """How many units of roundoff a product with P may be off by, over four."""
        return float(self.side)

    @property
    def smallest(self) -> float:
        """A lower bound of P's eigenvalues: μ, or 1 / tr P⁻¹ where μ is nearly nothing."""
        mu, size = self.cholesky.mu, self.cholesky.size
        if mu >= NEARLY_NOTHING * size:
            return mu
        error = 4 * self.cholesky.side * EPSILON * size
        return max(mu, 1.0 / self.cholesky.inverse_trace - error)

    def at(self, mu: float) -> PrimalFactor:
        """The same rows with another μ."""
        return PrimalFactor(self.cholesky.at(mu))

    def solve(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t)."""
        return self.cholesky.solve(G)

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t)."""
        energy: Array = np.sum(self.cholesky.half(G) ** 2, axis=0)
        return energy


@dataclass(frozen=True, eq=False)
class DualFactor(ByCholesky):
    """By the factor of A Aᵀ + μI, (s, s), and the rows A."""

    rows: SketchedRows

    @property
    def columns(self) -> int:
        """The number d of columns."""
        return self.rows.shape[1]

    @property
    def terms(self) -> float:
        """How many units of roundoff a product with P may be off by, over four."""
        return float(max(self.side, np.sqrt(self.columns)))

    @property
    def smallest(self) -> float:
        """A lower bound of P's eigenvalues: s < d, and there is μ alone in many directions."""
        return self.cholesky.mu

    def at(self, mu: float) -> DualFactor:
        """The same rows with another μ."""
        return DualFactor(self.cholesky.at(mu), self.rows)

    def solve(self, G: Array) -> Array:
        """P⁻¹ G = (G − Aᵀ (A Aᵀ + μI)⁻¹ A G) / μ."""
        inside = self.rows.adjoint(self.cholesky.solve(self.rows.multiply(G)))
        solution: Array = (G - inside) / self.cholesky.mu
        return solution

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t), from above.

        As the difference ‖g‖² − ‖L⁻¹Ag‖², over μ, it would drown in rounding.
        """
        V = self.solve(G)
        R = G - self.rows.adjoint(self.rows.multiply(V)) - self.mu * V
        return energy_from_residual(self, G, V, R)


def energy_from_residual(factor: Factor, G: Array, V: Array, R: Array) -> Array:
    """gᵀP⁻¹g of every column of G (d, t), from above, where V is near P⁻¹G and R = G − PV.

    For any V it is gᵀv + vᵀr + rᵀP⁻¹r, and P ⪰ μI; what the rounding of R could hide is added.
    """
    terms = 4 * factor.terms * EPSILON
    length, squares = np.linalg.norm(V, axis=0), np.sum(G**2, axis=0)
    hidden = terms * ((factor.size + factor.mu) * length + np.sqrt(squares))
    left = np.linalg.norm(R, axis=0) + hidden
    energy: Array = np.sum(V * (G + R), axis=0) + length * hidden + left**2 / factor.mu
    most: Array = squares / factor.mu
    return np.minimum(energy, most)


def factorise(rows: SketchedRows | SummedRows, mu: float) -> tuple[Factor, tuple[str, ...]]:
    """Factorise in the smaller side; notes if μ had to be raised to the accuracy of float64."""
    if isinstance(rows, SummedRows):
        return _primal(rows.normal, mu, rows.size)
    s, d = rows.shape
    if d <= s:
        return _primal(rows.gram(), mu, rows.size)
    used, notes = usable_shift(mu, s, rows.size)
    return DualFactor(ShiftedCholesky.of(rows.outer(), used, rows.size), rows), notes


def _primal(normal: Array, mu: float, size: float) -> tuple[PrimalFactor, tuple[str, ...]]:
    used, notes = usable_shift(mu, len(normal), size)
    return PrimalFactor(ShiftedCholesky.of(normal, used, size)), notes


def sparse_factor(side: int) -> int:
    """The numbers that a factor takes where the rows are sparse: their product is sparse first."""
    return 3 * side**2


def usable_shift(mu: float, side: int, size: float) -> tuple[float, tuple[str, ...]]:
    """The μ that Cholesky can bear beside a matrix of this size, and a note if it is larger."""
    least = SINGULAR * side * size
    if mu >= least:
        return mu, ()
    return least, (raised_note(mu, least),)


def raised_note(mu: float, least: float) -> str:
    """What the plan tells of a μ that is larger than was asked for."""
    return f"the preconditioner's λ is raised from {mu:.3g} to {least:.3g}, the accuracy of float64"


@dataclass(frozen=True, eq=False)
class FactorCurvature:
    """P = AᵀA + μI with AᵀA ⪯ excess·C, as a certificate."""

    factor: Factor
    lam: float
    excess: float
    error: float  # rounding may have put P above AᵀA + μI by this much

    @cached_property
    def smallest(self) -> float:
        """A lower bound of P's eigenvalues."""
        return self.factor.smallest

    @property
    def exact(self) -> bool:
        """Whether gᵀP⁻¹g is what a solver has that is preconditioned by it."""
        return self.factor.exact

    @property
    def constant(self) -> float:
        """The c in P ⪯ c·H."""
        exact = max(self.excess, self.factor.mu / self.lam)
        return exact + self.error / max(self.lam, (self.smallest - self.error) / exact)

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t)."""
        return self.factor.energy(G)

    def counter(self) -> DegreesCounter:
        """What counts the degrees of freedom."""
        slip = self.factor.error / self.factor.mu
        return FactorCounter(self.factor, self.lam, self.excess, slip)


@dataclass(frozen=True, eq=False)
class FactorCounter:
    """What AᵀA ⪯ excess·C tells of the effective dimension."""

    factor: Factor
    lam: float
    excess: float
    slip: float = 0.0  # what the rounding of A may have added

    def degrees_of_freedom(self, trace: tuple[float, float], rank: int) -> tuple[float, float]:
        """Bounds of tr(C H⁻¹): that of AᵀA/excess at least; the rest evenly on all directions."""
        cholesky, goal = self.factor.cholesky, self.excess * self.lam
        mu, covered = cholesky.mu, cholesky.effective_dimension
        rest = max(0.0, trace[1] - float(cholesky.diagonal.sum()) / self.excess)
        most = covered * max(1.0, mu / goal) + rest * rank / (rest + rank * self.lam)
        evenly = rank * trace[1] / (trace[1] + rank * self.lam)
        return max(0.0, covered * min(1.0, mu / goal) - self.slip), min(most + self.slip, evenly)
