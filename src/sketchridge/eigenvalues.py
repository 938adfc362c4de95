"""Bounds of C's eigenvalues λ_1 ≥ λ_2 ≥ … from a sketch, that hold.

With Q an orthonormal basis of a Krylov space and Q⊥ one of the rest, C is

    [T  Bᵀ]     T = QᵀCQ and B are known,
    [B  D ]     D ⪰ 0 has a known trace, and a norm that fresh random directions bound.

From below: the Nyström approximation Ĉ ⪯ C, whose eigenvalues are at least those of T.
From above: if δ ≥ ‖D‖, then for every μ > δ the number of eigenvalues of C above μ is that of
T + BᵀB/(μ − δ) (by the inertia of a Schur complement), so that

    λ_i ≤ max(μ, λ_i(T + BᵀB/(μ − δ))).

And always: the eigenvalues add up to the trace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.sketch import Krylov, LowerBound, block_lanczos, expand

Array = NDArray[np.float64]
Bounds = tuple[float, float]

# The bounds fail with at most this probability, over the draw of the probing directions.
FAILURE = 1e-6
PROBES = 16
PROBE_PASSES = 6
SHIFTS = 12
# The Krylov space is twice as large as the number of eigenvalues that are asked for.
BLOCKS = 6
SPACE_PER_EIGENVALUE = 2


@dataclass(frozen=True, eq=False)
class Energies:
    """Where the gradient at w = 0 lies: F(0) − F* = ½ Σ energy_i / (λ_i + λ), within bounds.

    A matrix M of the given eigenvalues has M − slack ⪯ C ⪯ M + excess.
    """

    values: Array  # (p,) eigenvalues of M, zero in all other directions
    energy: Array  # (p,) squared coordinates of the gradient, added over the targets
    rest: float  # what of the gradient is in the other directions
    slack: float
    excess: float
    null_objective: float  # F(0), added over the targets

    def explained(self, lam: float) -> Bounds:
        """Bounds of (F(0) − F*) / F(0)."""
        if self.null_objective == 0.0:
            return 0.0, 0.0
        most = np.sum(self.energy / (np.maximum(self.values - self.slack, 0.0) + lam))
        least = np.sum(self.energy / (self.values + self.excess + lam))
        low = float(least + self.rest / (self.excess + lam)) / (2 * self.null_objective)
        high = float(most + self.rest / lam) / (2 * self.null_objective)
        return min(low, 1.0), min(high, 1.0)


@dataclass(frozen=True, eq=False)
class Eigenvalues:
    """lower[i] ≤ λ_{i+1} ≤ upper[i] for the leading eigenvalues of C, and what is left of it."""

    lower: Array  # (K,) descending
    upper: Array  # (K,) descending
    trace: Bounds
    rank: int  # C has no more eigenvalues than this that are not zero
    dimension: int  # d
    exact: bool  # the bounds differ by rounding alone
    failure: float  # the probability that they do not hold
    energies: Energies | None = None

    @property
    def count(self) -> int:
        """The number K of eigenvalues that are known one by one."""
        return self.lower.size

    @property
    def certain(self) -> int:
        """How many eigenvalues are known not to be zero."""
        return int(np.count_nonzero(self.lower > 0.0))

    @property
    def rest(self) -> float:
        """An upper bound of every later eigenvalue."""
        if self.count >= self.rank:
            return 0.0
        return float(self.upper[-1]) if self.count else self.trace[1]

    @property
    def smallest(self) -> Bounds:
        """Bounds of λ_d."""
        if self.rank < self.dimension:
            return 0.0, 0.0
        if self.count == self.dimension:
            return float(self.lower[-1]), float(self.upper[-1])
        remaining = self.trace[1] - float(self.lower.sum())
        return 0.0, min(self.rest, max(0.0, remaining) / (self.dimension - self.count))

    def scaled(self, factor: float) -> Eigenvalues:
        """The eigenvalues of factor·C."""
        low, high = self.trace
        return replace(
            self,
            lower=factor * self.lower,
            upper=factor * self.upper,
            trace=(factor * low, factor * high),
        )

    @cached_property
    def capped_sums(self) -> tuple[Array, Array]:
        """kλ_k + Σ_{i>k} λ_i for k = 1 … K: bounds from below and above (K,).

        It is the trace less Σ_{i<k} (λ_i − λ_k): what a preconditioner of rank k leaves of it.
        """
        k = np.arange(1, self.count + 1)
        above = np.concatenate([[0.0], np.cumsum(self.lower)[:-1]])
        # The leading ones together exceed their lower bounds by what the trace has left at most.
        slack = max(0.0, self.trace[1] - float(self.lower.sum()))
        most = np.minimum(np.concatenate([[0.0], np.cumsum(self.upper)[:-1]]), above + slack)
        low = self.trace[0] - (most - (k - 1) * self.lower)
        clipped = np.maximum(self.lower[None, :] - self.upper[:, None], 0.0)
        high = self.trace[1] - np.sum(np.tril(clipped, -1), axis=1)
        return np.maximum(low, k * self.lower), high

    @cached_property
    def capped_sum_estimates(self) -> Array:
        """kλ_k + Σ_{i>k} λ_i with the sketch's own values: far closer than the bounds tell."""
        k = np.arange(1, self.count + 1)
        values = (self.lower + self.upper) / 2 if self.exact else self.lower
        estimates: Array = self.trace[1] - np.cumsum(values) + k * values
        return estimates

    def effective_dimension(self, lam: float) -> Bounds:
        """Bounds of Σ λ_i / (λ_i + λ).

        The summand is concave, so the sum is smallest where the trace is heaped upon as few
        eigenvalues as the bounds allow, and largest where it is spread as evenly as they allow.
        """
        lower, upper = self._all()
        heaped, spread = heap(lower, upper, self.trace[0]), level(lower, upper, self.trace[1])
        low, high = (float(np.sum(x / (x + lam))) for x in (heaped, spread))
        return low, min(high, float(self.rank))

    def _all(self) -> tuple[Array, Array]:
        """Bounds of every eigenvalue that may differ from zero."""
        more = max(0, self.rank - self.count)
        lower = np.concatenate([self.lower, np.zeros(more)])
        return lower, np.concatenate([self.upper, np.full(more, self.rest)])


def heap(lower: Array, upper: Array, total: float) -> Array:
    """The vector between the bounds with the sum `total` whose leading sums are the largest."""
    free = max(0.0, total - float(lower.sum()))
    used = np.minimum(np.cumsum(upper - lower), free)
    return lower + np.diff(used, prepend=0.0)


def level(lower: Array, upper: Array, total: float) -> Array:
    """The vector between the bounds with the sum `total` that is as even as possible."""
    low, high = 0.0, float(upper.max(initial=0.0))
    for _ in range(200):
        middle = (low + high) / 2
        if float(np.clip(middle, lower, upper).sum()) < total:
            low = middle
        else:
            high = middle
    leveled: Array = np.clip(high, lower, upper)
    return leveled


def largest_rank(problem: RidgeProblem) -> int:
    """The largest rank that C can have: a row of weight zero, and centring, each take one."""
    rows = int(np.count_nonzero(problem.weights)) - int(problem.fit_intercept)
    return min(rows, problem.d)


def exact_eigenvalues(problem: RidgeProblem) -> Eigenvalues:
    """All eigenvalues, from the Gram matrix of the smaller side of X; two passes."""
    side = problem.products.gram if problem.d <= problem.n else problem.products.outer
    problem.passes += 1
    matrix = side(problem.weights, problem.mean)
    rank = largest_rank(problem)
    vectors = None
    if problem.null_objective.any():
        values, vectors = np.linalg.eigh(matrix)
        vectors = vectors[:, ::-1][:, :rank]
    else:
        values = np.linalg.eigvalsh(matrix)
    values = np.maximum(values[::-1][:rank], 0.0)
    slack = 8 * EPSILON * problem.rounding_factor * problem.raw_trace
    slack += EPSILON * np.sqrt(values.size) * float(values.max(initial=0.0))
    return Eigenvalues(
        lower=np.maximum(values - slack, 0.0),
        upper=values + slack,
        trace=problem.trace_bounds,
        rank=rank,
        dimension=problem.d,
        exact=True,
        failure=0.0,
        energies=None if vectors is None else _exact_energies(problem, values, vectors, slack),
    )


def _exact_energies(problem: RidgeProblem, values: Array, vectors: Array, slack: float) -> Energies:
    if problem.d <= problem.n:
        energy = np.sum((vectors.T @ problem.null_gradient()) ** 2, axis=1)
    else:
        scaled = np.sqrt(problem.weights)[:, None] * problem.Y
        energy = values * np.sum((vectors.T @ scaled) ** 2, axis=1)
    return Energies(values, energy, 0.0, slack, slack, float(problem.null_objective.sum()))


def sketch_shape(problem: RidgeProblem, count: int) -> tuple[int, int]:
    """The width and the number of Krylov blocks for so many eigenvalues."""
    room = min(SPACE_PER_EIGENVALUE * count, largest_rank(problem))
    return max(1, -(-room // BLOCKS)), BLOCKS


def sketched_eigenvalues(
    problem: RidgeProblem, count: int, rng: np.random.Generator
) -> Eigenvalues:
    """The leading eigenvalues by block Lanczos, about 15 passes."""
    width, blocks = sketch_shape(problem, count)
    krylov = block_lanczos(problem, width, blocks, rng)
    nystrom = krylov.nystrom()
    rank, trace = largest_rank(problem), problem.trace_bounds
    known = min(nystrom.values.size, rank)
    lower = np.maximum(nystrom.values[:known] - nystrom.slack, 0.0)
    remaining = max(0.0, trace[1] - float(np.trace(krylov.coefficients)))
    delta = min(remaining, _norm_of_the_rest(problem, krylov, rng)) + nystrom.slack
    upper = np.minimum(_inertia_bounds(krylov, delta)[:known], nystrom.values[:known] + delta)
    upper = np.minimum(upper + 2 * nystrom.slack, _trace_bounds(lower, trace[1]))
    return Eigenvalues(
        lower=lower,
        upper=np.maximum(np.minimum.accumulate(upper), lower),
        trace=trace,
        rank=rank,
        dimension=problem.d,
        exact=False,
        failure=FAILURE,
        energies=_sketched_energies(problem, nystrom, delta),
    )


def _sketched_energies(problem: RidgeProblem, nystrom: LowerBound, delta: float) -> Energies | None:
    if not problem.null_objective.any():
        return None
    coordinates, rest = nystrom.split(problem.null_gradient())
    return Energies(
        values=nystrom.values,
        energy=np.sum(coordinates**2, axis=1),
        rest=float(rest.sum()),
        slack=nystrom.slack,
        excess=delta + nystrom.slack,
        null_objective=float(problem.null_objective.sum()),
    )


def _trace_bounds(lower: Array, trace: float) -> Array:
    """λ_i ≤ (trace − Σ_{j<m} λ_j) / (i − m + 1) for every m ≤ i."""
    left = trace - np.concatenate([[0.0], np.cumsum(lower)[:-1]])
    bounds = np.empty_like(lower)
    for i in range(lower.size):
        bounds[i] = np.min(left[: i + 1] / np.arange(i + 1, 0, -1))
    return np.maximum(bounds, lower)


def _inertia_bounds(krylov: Krylov, delta: float) -> Array:
    """λ_i ≤ max(μ, λ_i(T + BᵀB/(μ − δ))), with the best of a few μ for every i."""
    p = krylov.expanded
    T, B = krylov.coefficients[:p], krylov.coefficients[p:]
    T, BtB = (T + T.T) / 2, B.T @ B
    top = float(np.linalg.eigvalsh(T)[-1]) if p else 0.0
    coupling = float(np.sqrt(np.trace(BtB)))
    smallest = max(1e-3 * min(delta, top), EPSILON * top, 1e-300)
    best = np.full(p, np.inf)
    for shift in np.geomspace(smallest, max(top, coupling, 2 * smallest), SHIFTS):
        values = np.linalg.eigvalsh(T + BtB / shift)[::-1]
        best = np.minimum(best, np.maximum(delta + shift, values))
    return best


class _Rest:
    """C on the orthogonal complement of a frame, as the sketch takes a problem."""

    def __init__(self, problem: RidgeProblem, frame: Array) -> None:
        self.problem, self.frame = problem, frame
        self.trace, self.raw_trace = problem.trace, problem.raw_trace
        self.rounding_factor = problem.rounding_factor

    def project(self, V: Array) -> Array:
        return V - self.frame @ (self.frame.T @ V)

    def gram(self, V: Array) -> Array:
        return self.project(self.problem.gram(V))


def _norm_of_the_rest(problem: RidgeProblem, krylov: Krylov, rng: np.random.Generator) -> float:
    """A bound of ‖D‖ that fails with probability FAILURE.

    Let u be D's leading eigenvector and Ω Gaussian, drawn after the frame: ‖uᵀΩ‖² is χ² with as
    many degrees of freedom as Ω has columns. So ‖f(D)Ω‖ ≥ |f(‖D‖)| χ for every f at once, and
    the Chebyshev polynomial of [0, a], which grows fast beyond a, gives a bound for every a.
    """
    rest = _Rest(problem, krylov.frame[:, : krylov.expanded])
    probes = rest.project(rng.standard_normal((problem.d, min(PROBES, problem.d))))
    chi = np.sqrt(2 * scipy.special.gammaincinv(probes.shape[1] / 2, FAILURE))
    space = expand(rest, probes.copy(), PROBE_PASSES)
    start = space.frame.T @ probes
    p = space.expanded
    # The frame holds D's polynomials up to the number of passes; of any degree if it is invariant.
    degree = 10 * PROBE_PASSES if space.exhausted else -(-p // start.shape[1])
    top = float(np.linalg.norm(space.coefficients, 2)) if p else 0.0
    if top == 0.0:
        return 0.0
    bounds = []
    for a in top * np.geomspace(0.3, 1.3, SHIFTS):
        size = np.linalg.norm(_chebyshev(space.coefficients, start, a, degree), 2)
        growth = np.arccosh(max(1.0, size / chi)) / degree
        bounds.append(a * (1 + np.cosh(growth)) / 2)
    return float(min(bounds))


def _chebyshev(coefficients: Array, start: Array, a: float, degree: int) -> Array:
    """T_degree(2D/a − I) applied to the columns of start, in the frame's coordinates (r, k)."""
    p = coefficients.shape[1]

    def image(block: Array) -> Array:
        return 2 / a * (coefficients @ block[:p]) - block

    before, now = start, image(start)
    for _ in range(degree - 1):
        before, now = now, 2 * image(now) - before
    return now
