"""A preconditioner from sampled rows (Yang et al.): P = X_Sᵀ Ω_S X_S + λI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.preconditioner.base import Array, Rows, check_rows, resolve_rows, uniform_rows
from sketchridge.preconditioner.factor import ShiftedCholesky, sparse_factor, usable_shift
from sketchridge.preconditioner.low_rank import LowRankPreconditioner, Nystrom
from sketchridge.preconditioner.sketched import (
    SketchedPreconditioner,
    Targets,
    expected_least,
    probe_vector,
)
from sketchridge.preconditioner.sketched_rows import SketchedRows
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.products import SAMPLED_BLOCK_BYTES, SampledProducts
from sketchridge.threads import thread_count

Method = Literal["uniform", "leverage"]
# A share of the draws is uniform: the scores are approximate, and no row may be left out.
UNIFORM_SHARE = 0.1
BLOCK_BYTES = 6 << 20


@dataclass(frozen=True, eq=False)
class RowSample:
    """Rows x_i − m, each multiplied by a scale."""

    indices: NDArray[np.int64]  # (s,) ascending
    scales: Array  # (s,) their multipliers
    excess: float  # the largest scale² / ω_i: AᵀA ⪯ excess·C

    @classmethod
    def uniform(cls, problem: RidgeProblem, rows: int, rng: np.random.Generator) -> RowSample:
        """Draw without replacement; no row is reweighted, so that AᵀA ⪯ C."""
        indices = uniform_rows(problem, rows, rng)
        return cls(indices, np.sqrt(problem.weights[indices]), 1.0)

    @classmethod
    def weighted(
        cls, problem: RidgeProblem, probabilities: Array, rows: int, rng: np.random.Generator
    ) -> RowSample:
        """Draw with replacement by probabilities (n,), reweighted so that AᵀA is C on average."""
        counts = rng.multinomial(rows, probabilities)
        indices = np.flatnonzero(counts)
        excess = counts[indices] / (rows * probabilities[indices])
        scales = np.sqrt(problem.weights[indices] * excess)
        return cls(indices, scales, float(excess.max()))

    def image(self, problem: RidgeProblem, vector: Array) -> Array:
        """A times a vector (d, 1), from the problem's data, (s, 1)."""
        return self.rows(problem).multiply(vector)

    def rows(self, problem: RidgeProblem) -> SketchedRows:
        """Read the sampled rows, in float64."""
        problem.passes += self.indices.size / problem.n
        mean, scales = problem.mean, self.scales
        if isinstance(problem.X, np.ndarray):
            return SketchedRows.of(_gathered(problem.X, self.indices, scales), mean, scales)
        sampled = problem.X[self.indices].astype(np.float64)
        matrix = scipy.sparse.csr_array(scipy.sparse.diags_array(scales) @ sampled)
        return SketchedRows.of(matrix, mean, scales)

    def outer(self, problem: RidgeProblem) -> Array:
        """A Aᵀ of dense data, (s, s): the rows are read and not kept."""
        problem.passes += self.indices.size / problem.n
        return SampledProducts(problem.X, self.indices).outer(self.scales**2, problem.mean)

    def rounding(self, problem: RidgeProblem) -> float:
        """A bound of the rounding error of AᵀA."""
        squares = problem.raw_squared_norms[self.indices]
        if problem.mean is not None:
            squares = squares + problem.mean @ problem.mean
        size = float(self.scales**2 @ squares)
        terms = max(min(self.indices.size, problem.d), problem.rounding_factor)
        return 4 * EPSILON * terms * size


def _gathered(X: NDArray[np.floating], indices: NDArray[np.int64], scales: Array) -> Array:
    """The rows X[indices] times their scales, in float64; copied block by block."""
    rows = np.empty((indices.size, X.shape[1]))
    step = max(1, BLOCK_BYTES // (8 * X.shape[1]))
    for start in range(0, indices.size, step):
        part = slice(start, start + step)
        np.multiply(X[indices[part]], scales[part, None], out=rows[part])
    return rows


@dataclass(frozen=True)
class RowSampling:
    """P = X_Sᵀ Ω_S X_S + λI for sampled rows S.

    Parameters
    ----------
    rows
        The number s of rows; "auto" is 2d, and half of the rows where there are few.
    method
        "uniform" draws without replacement; "leverage" draws by approximate ridge leverage
        scores from a Nyström sketch, three passes more, for data whose rows differ.
    """

    rows: Rows = "auto"
    method: Method = "uniform"
    name: ClassVar[str] = "row_sampling"
    summary: ClassVar[str] = "Gram matrix of sampled rows, Cholesky"
    cost: ClassVar[str] = "sd² + d³/3 and s rows read to build, O(d²) to apply"
    use_when: ClassVar[str] = "n ≫ d, d in the thousands, rows alike; certifies for free"
    low_rank: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_rows(self.rows)
        if self.method not in ("uniform", "leverage"):
            raise ValueError(f"method={self.method!r} must be 'uniform' or 'leverage'")

    def _rows(self, problem: RidgeProblem) -> int:
        return resolve_rows(self.rows, 2, problem, self.name)

    def directions(self, problem: RidgeProblem) -> int:
        """The rank that it will have, at most; rows out of range are refused here."""
        return min(self._rows(problem), problem.d)

    def memory(self, problem: RidgeProblem) -> int:
        """The sampled rows, the factor, and for scores a Nyström sketch and its coordinates."""
        s, d = self._rows(problem), problem.d
        needed = s * d + min(s * d, BLOCK_BYTES // 4) + min(s, d) ** 2
        if not isinstance(problem.X, np.ndarray):
            needed = 6 * int(problem.X.nnz) * s // problem.n + sparse_factor(min(s, d))
        scores = 0
        if self.method == "leverage":
            sketch = Nystrom()
            scores = sketch.memory(problem) + 2 * problem.n * sketch.directions(problem)
        return max(scores, needed)

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> SketchedPreconditioner:
        """Draw the rows and factorise."""
        count = self._rows(problem)
        if self.method == "uniform":
            source = RowSample.uniform(problem, count, rng)
            least = 1.0
        else:
            source = RowSample.weighted(problem, leverage(problem, rng), count, rng)
            least = expected_least(count, problem.d)
        told = f"{source.indices.size} of {problem.n} rows sampled, {self.method}"
        rows = source.rows(problem)
        return SketchedPreconditioner.of(
            self.name,
            problem,
            rows,
            rows.multiply(probe_vector(problem.d)),
            Targets.of(rows, source.scales[:, None] * problem.Y[source.indices]),
            source,
            source.rounding(problem),
            least,
            told,
        )


def leverage(problem: RidgeProblem, rng: np.random.Generator) -> Array:
    """Probabilities (n,) in proportion to approximate ridge leverage scores ω_i x_iᵀP⁻¹x_i."""
    sketch = Nystrom().build(problem, rng)
    assert isinstance(sketch, LowRankPreconditioner)
    coordinates = problem.multiply(sketch.basis)
    scores = problem.weights * sketch.quadratic_forms(problem.squared_norms, coordinates)
    present = (problem.weights > 0) / np.count_nonzero(problem.weights)
    total = float(scores.sum())
    if total == 0:
        return present
    mixed: Array = (1 - UNIFORM_SHARE) * scores / total + UNIFORM_SHARE * present
    mixed /= mixed.sum()
    return mixed


def counting_memory(rows: int) -> int:
    """Bytes that counting takes: of every thread a sum, a product, and some columns twice."""
    return thread_count() * 2 * (8 * rows**2 + SAMPLED_BLOCK_BYTES)


def counted_dimension(problem: RidgeProblem, rows: int, rng: np.random.Generator) -> float:
    """About tr C(C + λI)⁻¹ of dense data, from above, by so many random rows; they are read.

    In a sample λ does as much as λ/(1 − k/s) in the data, where k of the s degrees of freedom are
    used; and a larger λ leaves fewer of them, but not by more than its ratio.
    """
    sample = RowSample.uniform(problem, rows, rng)
    share, outer = float(problem.weights[sample.indices].sum()), sample.outer(problem)
    size = float(np.trace(outer))
    if not np.isfinite(size):
        return np.inf  # whoever reads all rows will tell
    mu, raised = usable_shift(share * problem.lam, len(outer), size)
    used = ShiftedCholesky.of(outer, mu, size).effective_dimension
    return np.inf if raised or used >= rows else used / (1.0 - used / rows)
