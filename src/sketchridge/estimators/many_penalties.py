"""Direct solves of one X with many penalties: one eigendecomposition serves them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.certificate import DegreesCounter
from sketchridge.preconditioner import Preconditioner
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.solvers import Direct, Iterate, Iterates
from sketchridge.solvers.direct import SingularValuesCounter, _is_singular

Array = NDArray[np.float64]

# Of a matrix of side s: s³/3 for a Cholesky factorisation, and about this for all eigenpairs.
EIGEN_COST = 9.0


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Eigenpairs of C, or of its dual K = S X Xᵀ S where n < d (S = diag(ω)^½)."""

    values: Array  # (s,) ≥ 0
    vectors: Array  # (s, s)


def decomposition_pays(problem: RidgeProblem, penalties: int) -> bool:
    """Whether one eigendecomposition takes less time than a factorisation for every penalty."""
    side, other = float(min(problem.n, problem.d)), float(max(problem.n, problem.d))
    return penalties * (other + side / 3) > other + EIGEN_COST * side


def decompose(problem: RidgeProblem) -> Decomposition:
    """All eigenpairs of the smaller of the two normal matrices; one pass."""
    problem.passes += 1
    form = problem.products.gram if problem.d <= problem.n else problem.products.outer
    values, vectors = scipy.linalg.eigh(
        form(problem.weights, problem.mean), overwrite_a=True, check_finite=False
    )
    return Decomposition(np.maximum(values, 0.0), vectors)


@dataclass(frozen=True)
class ManyPenalties(Direct):
    """The direct solver with a decomposition made before; where λ drowns in it, as without."""

    decomposition: Decomposition | None = None

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: Preconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the solution, then the solution refined by its own residual, and so on."""
        if self.decomposition is None or _is_singular(problem):
            yield from super().iterates(problem, preconditioner, start, rng)
            return
        shape = PrimalEigen if problem.d <= problem.n else DualEigen
        factor = shape(problem, self.decomposition)
        W = factor.first()
        while True:
            evaluation = problem.evaluate(W)
            yield Iterate(W, evaluation=evaluation, curvature=factor)
            W = W - factor.solve(evaluation.gradient)


@dataclass(frozen=True, eq=False)
class PrimalEigen:
    """H = V diag(values + λ) Vᵀ."""

    problem: RidgeProblem
    decomposition: Decomposition

    @property
    def _error(self) -> float:
        """The decomposition's backward error, and that of the matrix it is of."""
        trace = self.problem.raw_trace + self.problem.d * self.problem.lam
        return 4 * self.problem.d * EPSILON * trace

    @property
    def smallest(self) -> float:
        """A lower bound of the eigenvalues of H."""
        return self.problem.lam + max(0.0, float(self.decomposition.values[0]) - self._error)

    @property
    def constant(self) -> float:
        """The c in P ⪯ c·H."""
        return 1.0 + self._error / self.smallest

    def _split(self, G: Array) -> tuple[Array, Array]:
        """The inverse eigenvalues (d, 1), and G in the eigenvectors' coordinates."""
        inverse = 1.0 / (self.decomposition.values + self.problem.lam)
        return inverse[:, None], self.decomposition.vectors.T @ G

    def first(self) -> Array:
        """The solution, as good as one use of the decomposition gives it, (d, t)."""
        return -self.solve(self.problem.null_gradient())

    def solve(self, G: Array) -> Array:
        """H⁻¹ G for G (d, t)."""
        inverse, coordinates = self._split(G)
        return self.decomposition.vectors @ (inverse * coordinates)

    def energy(self, G: Array) -> Array:
        """gᵀH⁻¹g of every column of G."""
        inverse, coordinates = self._split(G)
        energy: Array = np.sum(inverse * coordinates**2, axis=0)
        return energy

    def counter(self) -> DegreesCounter:
        """The eigenvalues, which count exactly."""
        return EigenCounter(self.decomposition.values, self.problem.lam)


@dataclass(frozen=True, eq=False)
class DualEigen:
    """K + λI = V diag(values + λ) Vᵀ, and H⁻¹ = (I − X̄ (K + λI)⁻¹ X̄ᵀ) / λ with X̄ = XᵀS."""

    problem: RidgeProblem
    decomposition: Decomposition

    constant: ClassVar[float] = 1.0

    @property
    def smallest(self) -> float:
        """A lower bound of the eigenvalues of H: n < d, and there is λ alone in many directions."""
        return self.problem.lam

    def _dual(self, R: Array) -> tuple[Array, Array]:
        """R (n, t) in the eigenvectors' coordinates, and (K + λI)⁻¹ R in them."""
        coordinates = self.decomposition.vectors.T @ R
        return coordinates, coordinates / (self.decomposition.values + self.problem.lam)[:, None]

    def _image(self, G: Array) -> Array:
        image: Array = np.sqrt(self.problem.weights)[:, None] * self.problem.multiply(G)
        return image

    def first(self) -> Array:
        """The solution X̄ (K + λI)⁻¹ S y, (d, t)."""
        _, solved = self._dual(np.sqrt(self.problem.weights)[:, None] * self.problem.Y)
        return self.problem.adjoint(self.decomposition.vectors @ solved)

    def solve(self, G: Array) -> Array:
        """H⁻¹ G for G (d, t)."""
        _, solved = self._dual(self._image(G))
        solution: Array = G - self.problem.adjoint(self.decomposition.vectors @ solved)
        return solution / self.problem.lam

    def energy(self, G: Array) -> Array:
        """gᵀH⁻¹g of every column of G, from above: what rounding could hide is added."""
        squares = np.sum(G**2, axis=0)
        coordinates, solved = self._dual(self._image(G))
        share = 1.0 + self.problem.raw_trace / self.problem.lam
        hidden = 4 * self.decomposition.values.size * EPSILON * share * squares
        energy = squares - np.sum(coordinates * solved, axis=0) + hidden
        clipped: Array = np.clip(energy, 0.0, squares) / self.problem.lam
        return clipped

    def counter(self) -> DegreesCounter:
        """The eigenvalues, which count exactly."""
        return EigenCounter(self.decomposition.values, self.problem.lam)


class EigenCounter(SingularValuesCounter):
    """The eigenvalues of C, from an eigendecomposition."""
