"""The direct solve: Cholesky of the smaller of the two normal matrices, refined.

Where the normal matrix is numerically singular (λ is tiny, or 0), the singular value
decomposition of X takes over, and the history and the plan say so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, Protocol

import numpy as np
import scipy  # its parts load when they are first used

from sketchridge.certificate import Curvature, DegreesCounter
from sketchridge.cholesky import factorise_in_place, in_lapack_order, inverse_trace
from sketchridge.evaluation import Evaluation
from sketchridge.gram import gram_by_rows
from sketchridge.preconditioner import Preconditioner
from sketchridge.problem import EPSILON, LOST, RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates
from sketchridge.threads import blas_threads, thread_count

# λ below this share of the trace, times the size, drowns in the rounding of the normal matrix.
SINGULAR = 8 * EPSILON
# A trace that is guessed may be less than the true one by so much.
MARGIN = 10.0
# λ below this share of the trace makes a loose certificate, and H's smallest eigenvalue pays.
NEARLY_NOTHING = 1e-8


@dataclass(frozen=True)
class Direct:
    """Cholesky in the primal (d ≤ n) or the dual (n < d), then steps of iterative refinement."""

    name: ClassVar[str] = "direct"
    summary: ClassVar[str] = "Cholesky, primal or dual by the smaller side; exact"
    cost: ClassVar[str] = "one factorisation, nd·min(n, d) operations"
    use_when: ClassVar[str] = "the smaller side is below a few thousand, or λ = 0"
    uses_preconditioner: ClassVar[bool] = False
    default_preconditioner: ClassVar[str] = "none"

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The normal matrix, which becomes its factor, and as much to make it or its inverse.

        Two of every thread, where it is small. A dense copy of X and more where it is singular.
        """
        side = min(problem.n, problem.d)
        known = problem.knows_norms
        if _is_singular(problem, problem.raw_trace if known else MARGIN * problem.guessed_trace):
            return 2 * problem.n * problem.d + 4 * side**2
        own = isinstance(problem.X, np.ndarray) and gram_by_rows(problem.n, problem.d)
        return 2 * side**2 * (thread_count() if own else 1)

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: Preconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the solution, then the solution refined by its own residual, and so on."""
        factor, event = factorise(problem)
        iterate = factor.first()
        while True:
            fresh = yield replace(iterate, curvature=factor, event=event)
            event = None
            W = iterate.coef - factor.solve(_slope(iterate, fresh))
            iterate = _evaluated(problem, W)


def _slope(iterate: Iterate, fresh: Evaluation | None) -> Array:
    """The gradient, as well as it is known: the one that the driver sends is the best."""
    best = fresh or iterate.evaluation
    return iterate.slope() if best is None else best.gradient


def _evaluated(problem: RidgeProblem, W: Array) -> Iterate:
    """The point W (d, t) with what the data says of it."""
    return Iterate(W, evaluation=problem.evaluate(W))


class Factor(Curvature, Protocol):
    """A factorisation of H: it solves, and it certifies."""

    def first(self) -> Iterate:
        """The solution, as good as one use of the factor gives it, and what is known of it."""

    def solve(self, G: Array) -> Array:
        """H⁻¹ G for G (d, t)."""


def factorise(problem: RidgeProblem) -> tuple[Factor, str | None]:
    """Factorise H; the second result says so when the decomposition had to be the singular one."""
    if _is_singular(problem, problem.raw_trace):
        return SingularValues.of(problem), _singular_event(problem)
    problem.passes += 1
    if problem.d <= problem.n:
        return PrimalCholesky.of(problem), None
    return DualCholesky.of(problem), None


def _is_singular(problem: RidgeProblem, trace: float) -> bool:
    return problem.lam <= SINGULAR * min(problem.n, problem.d) * trace


def _singular_event(problem: RidgeProblem) -> str:
    if problem.lam == 0:
        return (
            "λ = 0: the minimum-norm solution, by the singular values of X (in a dense copy); "
            "those that are zero to rounding are taken as zero"
        )
    return (
        f"H is numerically singular (λ = {problem.lam:g}, trace of C {problem.trace:g}): "
        "solved by the singular values of X (in a dense copy) instead of Cholesky"
    )


def _factorised(normal: Array) -> Array:
    """The factor of a symmetric matrix, in its memory: the lower triangle.

    Above the diagonal it stays as it is, for `_product`.
    """
    factor = in_lapack_order(normal)
    if not factorise_in_place(factor):
        raise np.linalg.LinAlgError(
            f"a normal matrix of side {len(factor)} is not positive definite"
        )
    return factor


def _product(factor: Array, diagonal: Array, V: Array) -> Array:
    """The matrix that was factorised times V, by the triangle that its factor has left."""
    places = np.diag_indices_from(factor)
    ours = factor[places]
    factor[places] = diagonal  # for a moment
    with blas_threads(2.0 * V.size * len(factor)):
        product: Array = scipy.linalg.blas.dsymm(1.0, factor, V, lower=0)
    factor[places] = ours
    return product


@dataclass(frozen=True, eq=False)
class PrimalCholesky:
    """The Cholesky factor of C + λI, (d, d)."""

    problem: RidgeProblem
    factor: Array
    diagonal: Array  # (d,) of the matrix
    lam: float
    trace: float

    @classmethod
    def of(cls, problem: RidgeProblem) -> PrimalCholesky:
        """Form and factorise the normal matrix."""
        H = problem.products.gram(problem.weights, problem.mean)
        H[np.diag_indices_from(H)] += problem.lam
        diagonal = np.diag(H).copy()
        factor = _factorised(H)
        trace = problem.raw_trace + problem.d * problem.lam
        return cls(problem, factor, diagonal, problem.lam, trace)

    def first(self) -> Iterate:
        """The solution; the matrix tells its gradient and objective, and X is not read for them.

        Not where the matrix's rounding is more than a digit or so of the objective, nor of sparse
        rows that are centred after they are summed: no certificate counts what that loses.
        """
        start = self.problem.null_evaluation()
        W = -self.solve(start.gradient)
        gradient = start.gradient + _product(self.factor, self.diagonal, W)
        rise: Array = np.einsum("ij,ij->j", W, start.gradient + gradient)
        objective = start.objective + 0.5 * rise
        length = np.linalg.norm(W, axis=0)
        lossy = self.problem.mean is not None and not isinstance(self.problem.X, np.ndarray)
        if lossy or np.any(EPSILON * self.trace * length**2 > LOST * objective):
            return _evaluated(self.problem, W)
        return Iterate(
            W,
            gradient=gradient,
            objective=objective,
            energy=np.sum(gradient**2, axis=0),
            known=partial(self.problem.running, start, W, gradient, objective, length, 1),
        )

    @cached_property
    def smallest(self) -> float:
        """A lower bound of the eigenvalues of H: λ, or 1/tr(H⁻¹) where λ is nearly nothing."""
        if self.lam >= NEARLY_NOTHING * self.trace:
            return self.lam
        return max(self.lam, 1.0 / inverse_trace(self.factor) - self._error)

    @property
    def _error(self) -> float:
        """The factor's backward error."""
        return 4 * int(self.factor.shape[0]) * EPSILON * self.trace

    @property
    def constant(self) -> float:
        """The c in P ⪯ c·H: the backward error, relative to the smallest eigenvalue."""
        return 1.0 + self._error / self.smallest

    def solve(self, G: Array) -> Array:
        """H⁻¹ G for G (d, t)."""
        with blas_threads(float(G.size) * len(self.factor)):
            solution: Array = scipy.linalg.cho_solve((self.factor, True), G, check_finite=False)
        return solution

    def energy(self, G: Array) -> Array:
        """gᵀH⁻¹g of every column of G."""
        with blas_threads(0.5 * G.size * len(self.factor)):
            half = scipy.linalg.solve_triangular(self.factor, G, lower=True, check_finite=False)
        energy: Array = np.sum(half**2, axis=0)
        return energy

    def counter(self) -> DegreesCounter:
        """The factor, which counts exactly."""
        return CholeskyCounter(self.factor, self.lam)


@dataclass(frozen=True, eq=False)
class DualCholesky:
    """The Cholesky factor of K + λI, K = S X Xᵀ S with S = diag(ω)^½, (n, n)."""

    problem: RidgeProblem
    factor: Array
    diagonal: Array  # (n,) of the matrix
    lam: float

    constant: ClassVar[float] = 1.0

    @property
    def smallest(self) -> float:
        """A lower bound of the eigenvalues of H: n < d, and there is λ alone in many directions."""
        return self.lam

    @classmethod
    def of(cls, problem: RidgeProblem) -> DualCholesky:
        """Form and factorise the dual normal matrix."""
        K = problem.products.outer(problem.weights, problem.mean)
        K[np.diag_indices_from(K)] += problem.lam
        diagonal = np.diag(K).copy()
        return cls(problem, _factorised(K), diagonal, problem.lam)

    def first(self) -> Iterate:
        """The solution w = X̄a, a = (K + λI)⁻¹ S y; the matrix tells how good a is.

        What (K + λI)a is off S y by is what w's residuals are off dual variables.
        """
        scaled = np.sqrt(self.problem.weights)[:, None] * self.problem.Y
        dual = self._solve(scaled)
        W = self.problem.adjoint(dual)
        off = _product(self.factor, self.diagonal, dual) - scaled
        return Iterate(
            W,
            gradient=np.zeros_like(W),  # next to nothing
            objective=self.problem.dual_objective(W, dual, off),
            energy=np.zeros(W.shape[1]),
            known=partial(self.problem.by_duals, W, dual, off),
        )

    def _solve(self, V: Array) -> Array:
        """(K + λI)⁻¹ V for V (n, t)."""
        with blas_threads(float(V.size) * len(self.factor)):
            solution: Array = scipy.linalg.cho_solve((self.factor, True), V, check_finite=False)
        return solution

    def _image(self, G: Array) -> Array:
        image: Array = np.sqrt(self.problem.weights)[:, None] * self.problem.multiply(G)
        return image

    def solve(self, G: Array) -> Array:
        """H⁻¹ G = (G − X̄ (K + λI)⁻¹ X̄ᵀG) / λ, X̄ = XᵀS."""
        solution: Array = (G - self.problem.adjoint(self._solve(self._image(G)))) / self.lam
        return solution

    def energy(self, G: Array) -> Array:
        """gᵀH⁻¹g of every column of G, from above.

        It is a difference, (‖g‖² − ‖L⁻¹X̄ᵀg‖²) / λ: what its rounding and the factor's could
        hide is added; and it is never more than ‖g‖² / λ.
        """
        squares: Array = np.sum(G**2, axis=0)
        if not squares.any():
            return squares
        image = scipy.linalg.solve_triangular(
            self.factor, self._image(G), lower=True, check_finite=False
        )
        size = self.factor.shape[0]
        hidden = 4 * size * EPSILON * (1.0 + self.problem.raw_trace / self.lam) * squares
        energy: Array = np.minimum(squares, squares - np.sum(image**2, axis=0) + hidden) / self.lam
        return np.maximum(energy, 0.0)

    def counter(self) -> DegreesCounter:
        """The factor, which counts exactly."""
        return CholeskyCounter(self.factor, self.lam)


@dataclass(frozen=True, eq=False)
class CholeskyCounter:
    """The factor of C + λI, or of its dual: both have the same degrees of freedom."""

    factor: Array
    lam: float

    def degrees_of_freedom(self, trace: tuple[float, float], rank: int) -> tuple[float, float]:
        """tr(C H⁻¹) = size − λ ‖L⁻¹‖², exact."""
        size = int(self.factor.shape[0])
        inverse = scipy.linalg.solve_triangular(
            self.factor, np.eye(size), lower=True, check_finite=False
        )
        exact = size - self.lam * float(np.sum(inverse**2))
        return exact, exact


@dataclass(frozen=True, eq=False)
class SingularValues:
    """The singular value decomposition S X = A diag(s) Vᵀ, S = diag(ω)^½, of a dense copy of X.

    It does not square the condition number, and serves where Cholesky cannot.
    """

    problem: RidgeProblem
    left: Array  # (n, r)
    values: Array  # (r,) s
    right: Array  # (d, r)
    smallest: float  # a lower bound of the eigenvalues of H: above λ if X has full column rank

    @classmethod
    def of(cls, problem: RidgeProblem) -> SingularValues:
        """Decompose; singular values that are zero to rounding are left out."""
        problem.passes += 1
        dense = problem.X if isinstance(problem.X, np.ndarray) else problem.X.toarray()
        scaled = dense.astype(np.float64)
        if problem.mean is not None:
            scaled -= problem.mean
        scaled *= np.sqrt(problem.weights)[:, None]
        with blas_threads(float(scaled.size) * min(scaled.shape)):
            left, values, right = scipy.linalg.svd(
                scaled, full_matrices=False, overwrite_a=True, check_finite=False
            )
        kept = values > max(problem.n, problem.d) * EPSILON * np.sqrt(problem.raw_trace)
        left, values, right = left[:, kept], values[kept], right[kept].T
        return cls(problem, left, values, right, _smallest_eigenvalue(problem, values))

    @property
    def constant(self) -> float:
        """The decomposition's backward error: (s + e)² ≤ 1.1 s² + 11 e²."""
        error = _decomposition_error(self.problem, self.values)
        return max(1.1, 1.0 + 11.0 * error**2 / self.smallest)

    def first(self) -> Iterate:
        """V diag(s / (s² + λ)) AᵀS y."""
        scaled = np.sqrt(self.problem.weights)[:, None] * self.problem.Y
        filtered = self.values / (self.values**2 + self.problem.lam)
        W = self.right @ (filtered[:, None] * (self.left.T @ scaled))
        return _evaluated(self.problem, W)

    def _split(self, G: Array) -> tuple[Array, Array]:
        coordinates = self.right.T @ G
        return coordinates, G - self.right @ coordinates

    def solve(self, G: Array) -> Array:
        """H⁻¹ G for G (d, t); with λ = 0 the pseudo-inverse."""
        coordinates, rest = self._split(G)
        inside = self.right @ (coordinates / (self.values**2 + self.problem.lam)[:, None])
        return inside + rest / self.problem.lam if self.problem.lam > 0 else inside

    def energy(self, G: Array) -> Array:
        """gᵀH⁻¹g of every column of G; with λ = 0, in the directions that were kept."""
        coordinates, rest = self._split(G)
        energy: Array = (1.0 / (self.values**2 + self.problem.lam)) @ coordinates**2
        if self.problem.lam > 0:
            energy = energy + np.sum(rest**2, axis=0) / self.problem.lam
        return energy

    def counter(self) -> DegreesCounter:
        """The singular values, which count exactly."""
        return SingularValuesCounter(self.values**2, self.problem.lam)


def _decomposition_error(problem: RidgeProblem, values: Array) -> float:
    """How far a singular value may be off."""
    return float(10 * EPSILON * np.sqrt(max(1, values.size) * problem.raw_trace))


def _smallest_eigenvalue(problem: RidgeProblem, values: Array) -> float:
    """Of H, or of its part in the directions that were kept if λ = 0; from below."""
    weakest = float(values[-1]) if values.size else 1.0
    if problem.lam == 0:
        return weakest**2
    if values.size < problem.d:  # in the other directions there is λ alone
        return problem.lam
    return problem.lam + max(0.0, weakest - _decomposition_error(problem, values)) ** 2


@dataclass(frozen=True, eq=False)
class SingularValuesCounter:
    """The eigenvalues of C."""

    eigenvalues: Array
    lam: float

    def degrees_of_freedom(self, trace: tuple[float, float], rank: int) -> tuple[float, float]:
        """tr(C H⁻¹), exact."""
        exact = float(np.sum(self.eigenvalues / (self.eigenvalues + self.lam)))
        return exact, exact
