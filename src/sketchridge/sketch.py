"""Sketches: the leading directions of C from a few passes over the data.

Every sketch is a Krylov space. With Q̂ = [Q_0 … Q_q] orthonormal, the first q blocks spanning the
space that was expanded, C [Q_0 … Q_{q−1}] = Q̂ T̂ holds to rounding, so all that follows is algebra
on the small matrix T̂: Ritz pairs from its square part T, and the Nyström approximation
Ĉ = CQ (QᵀCQ)⁻¹ (CQ)ᵀ = Q̂ T̂ T⁻¹ T̂ᵀ Q̂ᵀ, which never exceeds C. Where there is one block only, that
approximation is made without Q̂ (`RandomRange`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.problem import EPSILON, Fingerprint, Operator, RidgeProblem
from sketchridge.threads import blas_threads

Array = NDArray[np.float64]

# Up to this size of the smaller side the exact sketch forms a matrix of that size.
DENSE_EIGENPROBLEM = 3000
# A direction that keeps this share of its length through an orthogonalisation needs no second one.
MUCH_LEFT = 0.1
# A block whose squared singular values differ by less is made orthonormal in one go.
WELL_CONDITIONED = 0.01
# Beyond this ratio of the preconditioner's eigenvalues, the coordinates inside and outside the
# basis cancel to less than the accuracy that a step needs.
LARGEST_CONDITION = 1e12


class Sketchable(Operator, Protocol):
    """What a sketch needs of a problem: products with C, and their rounding."""

    n: int
    d: int

    @property
    def fingerprint(self) -> Fingerprint:
        """What tells this problem's C from another's."""

    def adjoint(self, R: Array) -> Array:
        """Σ ω_i^½ x_i R_i: the d×n matrix X̄ with X̄X̄ᵀ = C, times R (n, k); one pass."""


@dataclass(frozen=True)
class LowerBound:
    """B diag(values) Bᵀ ⪯ C (to rounding), B = frame @ rotation with orthonormal columns."""

    frame: Array  # (d, r)
    rotation: Array  # (r, p)
    values: Array  # (p,) descending
    slack: float  # ν: rounding may make it exceed C by this much

    def split(self, G: Array) -> tuple[Array, Array]:
        """BᵀG (p, t), and the squared norms (t,) of what of G is orthogonal to B."""
        inside = self.frame.T @ G
        coordinates = self.rotation.T @ inside
        rest = G - self.frame @ inside
        unused = inside - self.rotation @ coordinates
        return coordinates, np.sum(rest**2, axis=0) + np.sum(unused**2, axis=0)


@dataclass(frozen=True)
class Spectrum:
    """Approximate leading eigenpairs of C, free of λ, and a lower bound of C for certificates."""

    basis: Array  # (d, k) orthonormal
    values: Array  # (k,) descending
    lower: LowerBound
    exhausted: bool  # fewer pairs than asked for: C is zero in all other directions
    probe: tuple[Array, Array]  # a vector (d, 1) and its image under C, to know the data again
    fingerprint: Fingerprint  # of the problem that was sketched
    rows: NDArray[np.int64] | None = None  # those that were seen, if not all: lower is of them

    def describes(self, problem: RidgeProblem) -> bool:
        """Whether this is a sketch of the problem's data; one pass, or the part that was seen.

        The fingerprint notices any change of a weight, and of a row's norm beyond rounding; the
        probe notices what leaves the norms as they are, such as permuted columns.
        """
        if self.fingerprint != problem.fingerprint:
            return False
        vector, image = self.probe
        seen = problem
        if self.rows is not None:
            seen = problem.sampled(self.rows)
            problem.passes += self.rows.size / problem.n
        difference = seen.gram(vector) - image
        return bool(np.linalg.norm(difference) <= 1e-10 * np.linalg.norm(image) + 1e-300)


def usable_rank(spectrum: Spectrum, lam: float) -> tuple[int, float, tuple[str, ...]]:
    """How many pairs float64 can use at a λ, the value outside of them, and notes."""
    values = spectrum.values
    last = 0.0 if spectrum.exhausted or not values.size else float(values[-1])
    rank = values.size
    top = float(values[0]) if rank else 0.0
    if top + lam > LARGEST_CONDITION * (last + lam):
        rank = max(1, int(np.count_nonzero(top + lam <= LARGEST_CONDITION * (values + lam))))
        # The smallest that float64 can bear: with the last one kept, what is beyond would be
        # taken for as strong as it.
        last = max(last, (top + lam) / LARGEST_CONDITION - lam)
    if rank == values.size:
        return rank, last, ()
    note = (
        f"rank lowered from {values.size} to {rank}: the directions beyond are 1e12 times "
        "weaker than the first, below the accuracy of float64"
    )
    return rank, last, (note,)


@dataclass(frozen=True)
class Krylov:
    """An orthonormal frame Q̂ (d, r) and T̂ (r, p) with C Q̂[:, :p] = Q̂ T̂."""

    frame: Array
    coefficients: Array
    rounding_scale: float  # ‖C‖ plus what centring cancels
    rounding_factor: float  # how many units of roundoff a product with C may be off by, over four

    @property
    def expanded(self) -> int:
        """The dimension p of the space that C was applied to."""
        return int(self.coefficients.shape[1])

    @property
    def exhausted(self) -> bool:
        """C maps the space into itself."""
        return int(self.frame.shape[1]) == self.expanded

    def probe(self) -> tuple[Array, Array]:
        """A combination of the frame's columns and its image under C."""
        return make_probe(self.frame[:, : self.expanded], self.frame, self.coefficients)

    def ritz(self, rank: int) -> tuple[Array, Array]:
        """The leading Ritz vectors (d, rank) and values: the paper's Ũ_k and σ̃²."""
        values, vectors = self._projected()
        keep = slice(None, None, -1)
        values, vectors = values[keep][:rank], vectors[:, keep][:, :rank]
        return self.frame[:, : self.expanded] @ vectors, np.maximum(values, 0.0)

    def _projected(self) -> tuple[Array, Array]:
        square = self.coefficients[: self.expanded]
        values, vectors = np.linalg.eigh((square + square.T) / 2)
        return values, vectors

    def nystrom(self) -> LowerBound:
        """The Nyström approximation, by its eigenpairs.

        The projected matrix is shifted by ν before it is inverted and the shift is taken off the
        values: rounding alone could make it indefinite.
        """
        values, vectors = self._projected()
        top = max(float(values[-1]), 0.0) if values.size else 0.0
        unit = EPSILON * (top + self.rounding_scale)
        shift = _shift(self.expanded, unit)
        shifted = self.coefficients.copy()
        shifted[: self.expanded] += shift * np.eye(self.expanded)
        factor = (shifted @ vectors) / np.sqrt(np.maximum(values, 0.0) + shift)
        # The strongest columns first: LAPACK's backward error is then a hundred times smaller.
        left, singular, _ = np.linalg.svd(factor[:, ::-1], full_matrices=False)
        return _lower_bound(self.frame, left, singular, shift, self.rounding_factor * unit)


@dataclass(frozen=True)
class RandomRange:
    """Orthonormal directions Q (d, p) and their images C Q: a Krylov space of one block.

    Its Nyström approximation needs no basis of Q and C Q together, which would cost twice as much.
    """

    frame: Array
    image: Array
    cancelled: float  # what centring cancels of C's trace
    rounding_factor: float  # how many units of roundoff a product with C may be off by, over four

    @property
    def expanded(self) -> int:
        """The dimension p of the space that C was applied to."""
        return int(self.frame.shape[1])

    def probe(self) -> tuple[Array, Array]:
        """A combination of the directions and its image under C."""
        return make_probe(self.frame, self.image, np.eye(self.expanded))

    def nystrom(self) -> LowerBound:
        """C Q (QᵀCQ)⁻¹ (CQ)ᵀ by its eigenpairs, shifted as in `Krylov.nystrom`."""
        with blas_threads(float(self.image.size) * self.expanded):
            square = self.frame.T @ self.image
            values, vectors = np.linalg.eigh((square + square.T) / 2)
            top = max(float(values[-1]), 0.0)
            unit = EPSILON * (2 * top + self.cancelled)
            shift = _shift(self.expanded, unit)
            weights = vectors / np.sqrt(np.maximum(values, 0.0) + shift)
            factor = (self.image + shift * self.frame) @ weights[:, ::-1]  # the strongest first
            basis = np.empty(factor.shape)
            filled, upper = _append(basis, 0, factor, np.sqrt(top + shift))
            left, singular, _ = np.linalg.svd(upper, full_matrices=False)
        return _lower_bound(basis[:, :filled], left, singular, shift, self.rounding_factor * unit)


def _shift(expanded: int, unit: float) -> float:
    """ν, what a projected matrix is shifted by before it is inverted."""
    return float(max(10 * np.sqrt(max(1, expanded)) * unit, np.finfo(np.float64).tiny))


def _lower_bound(
    frame: Array, left: Array, singular: Array, shift: float, sums: float
) -> LowerBound:
    """From the factor's singular vectors and values; `sums` is what rounds in a product."""
    kept = np.maximum(singular**2 - shift, 0.0)
    useful = kept > 0
    # The shift uses its slack up; as much again is for the algebra, and the rest for the sums.
    return LowerBound(frame, left[:, useful], kept[useful], float(2 * shift + 4 * sums))


def make_probe(columns: Array, frame: Array, coefficients: Array) -> tuple[Array, Array]:
    """A vector and its image under C, where C columns = frame @ coefficients."""
    d, count = columns.shape
    if count == 0:  # C = 0: any vector will tell
        return np.ones((d, 1)), np.zeros((d, 1))
    mix = np.cos(np.arange(1.0, count + 1.0))[:, None]
    return columns @ mix, frame @ (coefficients @ mix)


def paper_blocks(n: int, epsilon: float) -> int:
    """The paper's number of Krylov blocks, q = ⌈ln n / √ε'⌉."""
    return max(1, int(np.ceil(np.log(n) / np.sqrt(epsilon))))


def block_lanczos(problem: Sketchable, rank: int, blocks: int, rng: np.random.Generator) -> Krylov:
    """The paper's Algorithm 2: the Krylov space of X̄Π, Π Gaussian (n, rank); blocks + 1 passes."""
    start = problem.adjoint(rng.standard_normal((problem.n, rank)))
    return expand(problem, start, blocks)


def random_range(problem: Sketchable, rank: int, rng: np.random.Generator) -> RandomRange:
    """C applied once to Gaussian directions: what the Nyström sketch needs; one pass."""
    start = rng.standard_normal((problem.d, rank))
    frame = np.empty((problem.d, rank))
    filled, _ = _append(frame, 0, start, np.sqrt(problem.d))  # about its spectral norm
    image = problem.gram(frame[:, :filled])
    cancelled = problem.raw_trace - problem.trace
    return RandomRange(frame[:, :filled], image, cancelled, problem.rounding_factor)


def expand(problem: Operator, start: Array, blocks: int) -> Krylov:
    """Block Lanczos with full re-orthogonalisation from the columns of start (d, k)."""
    d, width = start.shape
    frame = np.empty((d, min(d, (blocks + 1) * width)))
    columns: list[Array] = []
    filled, _ = _append(frame, 0, start, _spectral_norm(start))
    done, norm = 0, 0.0
    for _ in range(blocks):
        if filled == done:
            break
        image = problem.gram(frame[:, done:filled])
        norm = max(norm, _spectral_norm(image))
        done, (filled, coefficients) = filled, _append(frame, filled, image, norm)
        columns.append(coefficients)
    coefficients = np.zeros((filled, done))
    position = 0
    for block in columns:
        coefficients[: block.shape[0], position : position + block.shape[1]] = block
        position += block.shape[1]
    scale = norm + problem.raw_trace - problem.trace
    return Krylov(frame[:, :filled], coefficients, scale, problem.rounding_factor)


def _append(frame: Array, filled: int, block: Array, norm: float) -> tuple[int, Array]:
    """Extend the frame by an orthonormal basis of what the block (d, k) adds to it.

    Returns the new number of columns and the block's coefficients in the frame; the block is
    overwritten. Directions below the rounding of `norm` are dropped: on rank-deficient data
    there are such. Only products are used, no Householder QR, which is bound by memory for tall
    thin blocks; repeating makes it as accurate: every round orthogonalises against the frame,
    then within the block.
    """
    with blas_threads(float(block.size) * (filled + block.shape[1])):
        return _orthonormalised(frame, filled, block, norm)


def _orthonormalised(frame: Array, filled: int, block: Array, norm: float) -> tuple[int, Array]:
    inside = np.zeros((filled, block.shape[1]))
    upper = np.eye(block.shape[1])
    room = frame.shape[1] - filled
    floor = 8 * EPSILON * norm
    basis, spare = frame[:, :filled], np.empty_like(block)
    orthogonal = filled == 0
    for attempt in range(5):
        if not orthogonal:
            overlap = basis.T @ block
            block -= np.matmul(basis, overlap, out=spare)
            inside += overlap @ upper
        squares, vectors = np.linalg.eigh(block.T @ block)
        block, spare = np.matmul(block, vectors, out=spare), block
        upper = vectors.T @ upper
        # Squares below the rounding of the Gram matrix are noise, of either sign: measure.
        sizes = np.sqrt(np.einsum("ij,ij->j", block, block))
        kept = sizes * np.linalg.norm(upper, axis=1) > floor
        if not kept.all():
            block, upper, sizes = block[:, kept], upper[kept], sizes[kept]
            spare = np.empty_like(block)
        if not kept.any():
            return filled, inside
        block /= sizes
        upper *= sizes[:, None]
        # Rounding left components along the frame, which grew where little was left of the block.
        orthogonal = filled == 0 or bool(sizes.min() > MUCH_LEFT * norm)
        norm = 1.0
        # Only a block that came in nearly orthogonal goes out orthonormal: a random one does.
        fresh = attempt == 0 and filled == 0 and squares[0] > WELL_CONDITIONED * squares[-1]
        alike = attempt > 0 and bool(np.all(np.abs(squares - 1.0) < 0.1))
        if kept.all() and (fresh or alike):
            break
    # A full frame leaves room for rounding alone; of the rest, the strongest directions are last.
    first = max(0, upper.shape[0] - room)
    block, upper = block[:, first:], upper[first:]
    frame[:, filled : filled + upper.shape[0]] = block
    return filled + upper.shape[0], np.concatenate([inside, upper])


def _spectral_norm(block: Array) -> float:
    with blas_threads(float(block.size) * block.shape[1]):
        squares = np.linalg.eigvalsh(block.T @ block)
    return float(np.sqrt(max(squares[-1], 0.0)))


def exact_pairs(problem: RidgeProblem, rank: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The leading `rank` eigenvectors (d, rank) and eigenvalues of C, to working accuracy."""
    n, d = problem.n, problem.d
    if problem.trace == 0.0:
        return np.zeros((d, 0)), np.zeros(0)
    if min(n, d) <= DENSE_EIGENPROBLEM or rank >= min(n, d) - 1:
        return _dense_pairs(problem, rank)
    from scipy.sparse.linalg import LinearOperator, eigsh

    operator = LinearOperator(
        (d, d),
        matvec=lambda v: problem.gram(v.reshape(d, 1))[:, 0],
        matmat=problem.gram,
        dtype=np.float64,
    )
    values, vectors = eigsh(operator, k=rank, which="LA", v0=rng.standard_normal(d))
    order = np.argsort(values)[::-1]
    return np.ascontiguousarray(vectors[:, order]), np.maximum(values[order], 0.0)


def _dense_pairs(problem: RidgeProblem, rank: int) -> tuple[Array, Array]:
    """By the eigenproblem of C, or of X̄ᵀX̄ when that is smaller."""
    problem.passes += 1
    if problem.d <= problem.n:
        C = problem.products.gram(problem.weights, problem.mean)
        values, vectors = _leading(C, rank)
        return np.ascontiguousarray(vectors[:, ::-1]), np.maximum(values[::-1], 0.0)
    K = problem.products.outer(problem.weights, problem.mean)
    values, vectors = _leading(K, rank)
    values = np.maximum(values[::-1], 0.0)
    # Directions that are zero to rounding have no image to normalise; they are no directions of C.
    found = int(np.count_nonzero(values > problem.n * EPSILON * values[0]))
    image = problem.adjoint(vectors[:, ::-1][:, :found])
    basis, _ = np.linalg.qr(image)
    return basis, values[:found]


def _leading(matrix: Array, rank: int) -> tuple[Array, Array]:
    """The largest eigenvalues, ascending, and their eigenvectors."""
    side = len(matrix)
    with blas_threads(float(side) ** 3):
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(side - rank, side - 1))
    return values, vectors
