"""One eigendecomposition, every λ and every target: for data with a small side.

Primal, C = V diag(s) Vᵀ where d ≤ n; dual, K = S X Xᵀ S = A diag(s) Aᵀ with S = diag(ω)^½ where
n < d. Either gives the solutions, certificates and left-out errors of all λ at the price of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.certificate import Metric
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.solvers.direct import SINGULAR

Array = NDArray[np.float64]

# The image of X under all eigenvectors is as large as X, and dense: it is made in parts.
BLOCK_BYTES = 32 << 20
MIN_COLUMNS = 16


class Decomposition(Protocol):
    """The eigenvalues and eigenvectors of a problem's smaller normal matrix."""

    def points(self, lams: Array) -> Array:
        """The solutions for every λ, (d, L·t): the targets of the first λ, then of the next."""

    def own_points(self, lams: Array) -> Array:
        """The solution of every target with its own λ, (d, t)."""

    def refine(self, gradients: Array, lams: Array) -> Array:
        """H⁻¹g of every column (d, c), each with its own λ."""

    def metric(self, lams: Array) -> Metric:
        """What certifies columns (d, c), each with its own λ."""

    def degrees_of_freedom(self, lam: float) -> float:
        """tr(C H⁻¹)."""

    def left_out_errors(self, lams: Array) -> Iterator[Array]:
        """y_i minus the prediction for row i of a fit without it, (n, t), for every λ.

        λ times the sum of the weights is what stays the same without the row.
        """


def is_singular(problem: RidgeProblem, lam: float) -> bool:
    """Whether λ drowns in the rounding of the normal matrices."""
    return lam <= SINGULAR * min(problem.n, problem.d) * problem.raw_trace


def decompose(problem: RidgeProblem) -> Decomposition:
    """Form the smaller normal matrix and decompose it; one pass."""
    problem.passes += 1
    present = np.flatnonzero(problem.weights)
    if problem.d <= present.size:
        C = problem.products.gram(problem.weights, problem.mean)
        return PrimalEigen.of(problem, C, problem.raw_trace)
    K = problem.products.outer(problem.weights, problem.mean)
    return DualEigen.of(problem, present, K[np.ix_(present, present)], problem.raw_trace)


def _eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending and not below 0, and eigenvectors; the matrix is overwritten."""
    values, vectors = scipy.linalg.eigh(matrix, driver="evd", overwrite_a=True, check_finite=False)
    return np.maximum(values, 0.0), vectors


def _shrunk(known: Array, values: Array, lams: Array) -> Array:
    """known (r, t) divided by values + λ, for every λ: (r, L·t)."""
    shrunk = known[:, None, :] / (values[:, None] + lams)[:, :, None]
    return shrunk.reshape(known.shape[0], -1)


@dataclass(frozen=True, eq=False)
class PrimalEigen:
    """The eigenpairs of C, (d, d)."""

    problem: RidgeProblem
    values: Array  # (d,) ascending
    vectors: Array  # (d, d)
    scale: float  # the trace of all that was added and subtracted to form C

    @classmethod
    def of(cls, problem: RidgeProblem, C: Array, scale: float) -> PrimalEigen:
        """Decompose C, which is overwritten."""
        return cls(problem, *_eigh(C), scale)

    @cached_property
    def _known(self) -> Array:
        """Xᵀ diag(ω) y in the eigenvectors' coordinates, (d, t)."""
        known: Array = -self.vectors.T @ self.problem.null_gradient()
        return known

    def points(self, lams: Array) -> Array:
        """The solutions for every λ, (d, L·t)."""
        return self.vectors @ _shrunk(self._known, self.values, lams)

    def own_points(self, lams: Array) -> Array:
        """The solution of every target with its own λ, (d, t)."""
        return self.vectors @ (self._known / (self.values[:, None] + lams))

    def refine(self, gradients: Array, lams: Array) -> Array:
        """H⁻¹g of every column (d, c), each with its own λ."""
        known = self.vectors.T @ gradients
        return self.vectors @ (known / (self.values[:, None] + lams))

    def metric(self, lams: Array) -> PrimalMetric:
        """What certifies columns (d, c), each with its own λ."""
        return PrimalMetric(self, lams)

    def degrees_of_freedom(self, lam: float) -> float:
        """tr(C H⁻¹)."""
        return float(np.sum(self.values / (self.values + lam)))

    def left_out_errors(self, lams: Array) -> Iterator[Array]:
        """r_i / (1 − h_i), the residual over what the row's leverage leaves, (n, t) for every λ."""
        remaining, known = self._remaining(lams), self._known
        for index, lam in enumerate(lams):
            points = self.vectors @ (known / (self.values + lam)[:, None])
            residual = self.problem.Y - self.problem.multiply(points)
            yield residual / remaining[:, index, None]

    def _remaining(self, lams: Array) -> Array:
        """1 − h_i, h_i = ω_i x_iᵀH⁻¹x_i, and ω_i more for an intercept, (n, L)."""
        problem, d = self.problem, self.values.size
        inverse = 1.0 / (self.values[:, None] + lams)
        forms = np.zeros((problem.n, lams.size))
        step = max(MIN_COLUMNS, BLOCK_BYTES // (8 * problem.n))
        for part in (slice(first, first + step) for first in range(0, d, step)):
            forms += problem.multiply(self.vectors[:, part]) ** 2 @ inverse[part]
        remaining = 1.0 - problem.weights[:, None] * forms
        return remaining - problem.weights[:, None] if problem.fit_intercept else remaining


@dataclass(frozen=True, eq=False)
class PrimalMetric:
    """P = V diag(s + λ) Vᵀ, with a λ for every column."""

    eigen: PrimalEigen
    lams: Array

    @property
    def _error(self) -> Array:
        """The backward error of decomposing C + λI, and of the sums over rows that formed it."""
        d, sums = self.eigen.values.size, self.eigen.problem.rounding_factor
        error: Array = 4 * max(d, sums) * EPSILON * (self.eigen.scale + d * self.lams)
        return error

    @property
    def smallest(self) -> Array:
        """A lower bound of P's eigenvalues."""
        lowest: Array = self.lams + np.maximum(0.0, self.eigen.values[0] - self._error)
        return lowest

    @property
    def constant(self) -> Array:
        """The c in P ⪯ c·H: the backward error, relative to the smallest eigenvalue."""
        return 1.0 + self._error / self.smallest

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, c)."""
        known = self.eigen.vectors.T @ G
        energy: Array = np.sum(known**2 / (self.eigen.values[:, None] + self.lams), axis=0)
        return energy


@dataclass(frozen=True, eq=False)
class DualEigen:
    """The eigenpairs of K, of the rows whose weight is not zero, (r, r).

    With an intercept the rows are centred, K maps ω^½ to zero, and the left-out errors have to
    do without that direction: K + τ ω^½ω^½ᵀ is decomposed instead, where it is the strongest.
    """

    problem: RidgeProblem
    present: NDArray[np.intp]  # (r,) the rows
    values: Array  # (r,) ascending
    vectors: Array  # (r, r)
    scale: float  # the trace of all that was added and subtracted to form K
    lifted: float  # τ; 0 without an intercept

    @classmethod
    def of(
        cls, problem: RidgeProblem, present: NDArray[np.intp], K: Array, scale: float
    ) -> DualEigen:
        """Decompose K, which is overwritten."""
        lifted = 0.0
        if problem.fit_intercept:
            roots = np.sqrt(problem.weights[present])
            lifted = float(np.trace(K)) or 1.0
            K += lifted * np.outer(roots, roots)
        return cls(problem, present, *_eigh(K), scale, lifted)

    @property
    def _roots(self) -> Array:
        """ω^½ of the rows, (r, 1)."""
        return np.sqrt(self.problem.weights[self.present])[:, None]

    @cached_property
    def _known(self) -> Array:
        """S y in the eigenvectors' coordinates, (r, t)."""
        known: Array = self.vectors.T @ (self._roots * self.problem.Y[self.present])
        return known

    def _dual(self, lams: Array) -> Array:
        """(K + λI)⁻¹ S y for every λ, (r, L·t)."""
        return self.vectors @ _shrunk(self._known, self.values, lams)

    def _spread(self, dual: Array) -> Array:
        """X̄ times what belongs to the rows that are present, (d, c); one pass."""
        spread = np.zeros((self.problem.n, dual.shape[1]))
        spread[self.present] = dual
        return self.problem.adjoint(spread)

    def image(self, G: Array) -> Array:
        """AᵀX̄ᵀG, (r, c); one pass."""
        return self.vectors.T @ (self._roots * self.problem.multiply(G)[self.present])

    def points(self, lams: Array) -> Array:
        """The solutions X̄ (K + λI)⁻¹ S y for every λ, (d, L·t)."""
        return self._spread(self._dual(lams))

    def own_points(self, lams: Array) -> Array:
        """The solution of every target with its own λ, (d, t)."""
        return self._spread(self.vectors @ (self._known / (self.values[:, None] + lams)))

    def refine(self, gradients: Array, lams: Array) -> Array:
        """H⁻¹g = (g − X̄ (K + λI)⁻¹ X̄ᵀg) / λ of every column (d, c), each with its own λ."""
        dual = self.vectors @ (self.image(gradients) / (self.values[:, None] + lams))
        return (gradients - self._spread(dual)) / lams

    def metric(self, lams: Array) -> DualMetric:
        """What certifies columns (d, c), each with its own λ."""
        return DualMetric(self, lams)

    def degrees_of_freedom(self, lam: float) -> float:
        """tr(C H⁻¹)."""
        lifted = self.lifted / (self.lifted + lam)
        return float(np.sum(self.values / (self.values + lam))) - lifted

    def left_out_errors(self, lams: Array) -> Iterator[Array]:
        """c_i / ω_i^½ D_i with c = (K + λI)⁻¹ S y and D the inverse's diagonal, (n, t) for every λ.

        Both are of one size however small λ is, where the residual and 1 − h_i vanish together.
        """
        absent = np.flatnonzero(self.problem.weights == 0)
        for lam in lams:
            errors = np.empty(self.problem.Y.shape)
            dual = self._dual(np.array([lam]))
            diagonal = self.vectors**2 @ (1.0 / (self.values + lam))
            if self.lifted:
                diagonal -= self._roots[:, 0] ** 2 / (self.lifted + lam)
            errors[self.present] = dual / (self._roots * diagonal[:, None])
            if absent.size:  # a fit without a row that does not count is the fit itself
                fitted = self.problem.multiply(self._spread(dual))
                errors[absent] = (self.problem.Y - fitted)[absent]
            yield errors


@dataclass(frozen=True, eq=False)
class DualMetric:
    """P = C + λI by way of its dual, with a λ for every column."""

    eigen: DualEigen
    lams: Array
    constant: float = 1.0

    @property
    def smallest(self) -> Array:
        """A lower bound of P's eigenvalues: n < d, and there is λ alone in many directions."""
        return self.lams

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, c), from above.

        It is a difference, (‖g‖² − ‖(K + λI)^-½X̄ᵀg‖²) / λ: what its rounding and the
        decomposition's could hide is added; and it is never more than ‖g‖² / λ.
        """
        squares = np.sum(G**2, axis=0)
        covered = np.sum(
            self.eigen.image(G) ** 2 / (self.eigen.values[:, None] + self.lams), axis=0
        )
        size = max(self.eigen.present.size, self.eigen.problem.rounding_factor)
        scale = self.eigen.scale + self.eigen.lifted
        hidden = 4 * size * EPSILON * (1.0 + scale / self.lams) * squares
        energy: Array = np.minimum(squares, squares - covered + hidden) / self.lams
        return np.maximum(energy, 0.0)
