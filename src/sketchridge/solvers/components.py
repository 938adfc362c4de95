"""The functions whose mean is F, as stochastic solvers draw them and the kernels see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sketchridge.evaluation import Evaluation
from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.rows import shuffled_rows
from sketchridge.solvers.base import Array
from sketchridge.threads import Team

if TYPE_CHECKING:
    from sketchridge.kernels import Centre, Direction

Regularization = Literal["exact", "sampled"]
Order = NDArray[np.int64]  # the components that are drawn, in their order


@dataclass(frozen=True, eq=False)
class Sampler:
    """Draws from N probabilities in constant time, by an alias table."""

    threshold: Array
    alias: NDArray[np.int64]

    @classmethod
    def of(cls, probabilities: Array) -> Sampler:
        """Make the table."""
        from sketchridge import kernels

        return cls(*kernels.alias_table(probabilities))

    def draw(self, rng: np.random.Generator, count: int) -> Order:
        """`count` independent draws."""
        drawn = rng.integers(self.alias.size, size=count)
        rejected = rng.random(count) >= self.threshold[drawn]
        drawn[rejected] = self.alias[drawn[rejected]]
        return drawn


@dataclass(frozen=True)
class Shuffler:
    """Draws every one of n rows once, in runs of a few neighbours, which are in random order."""

    n: int

    def draw(self, rng: np.random.Generator, count: int) -> Order:
        """All rows; `count` is n."""
        return shuffled_rows(self.n, rng)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a problem in a preconditioner's coordinates."""

    coordinates: Array  # (n, k) x_iᵀU
    forms: Array  # (n,) x_iᵀP⁻¹x_i
    centre: Centre

    @classmethod
    def of(cls, problem: RidgeProblem, preconditioner: LowRankPreconditioner) -> Rows:
        """One pass over the data, where there is a basis."""
        from sketchridge import kernels

        coordinates = np.zeros((problem.n, 0))
        if preconditioner.rank:
            coordinates = problem.multiply(preconditioner.basis)
        forms = preconditioner.quadratic_forms(problem.squared_norms, coordinates)
        mean = np.zeros(0) if problem.mean is None else problem.mean
        centre = kernels.Centre(mean, problem.mean_products, float(mean @ mean))
        return cls(coordinates, forms, centre)


@dataclass(frozen=True, eq=False)
class Components:
    """The components with their sampling by smoothness."""

    preconditioner: LowRankPreconditioner
    coordinates: Array  # (n, k) rows times U; (n + d, k), U below, when the regulariser is sampled
    probabilities: Array  # (N,) p_i
    scales: Array  # (N,) a component's weight over its probability
    smoothness: float  # β̂
    shrinking: float  # the λ that every step applies: λ, or 0 when the regulariser is sampled
    rows: Rows
    sampler: Sampler
    team: Team  # which runs the epochs

    @classmethod
    def of(
        cls,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        regularization: Regularization = "exact",
        evenness: float = 0.0,
    ) -> Components:
        """Sampling by smoothness, p_i ∝ β_i, but for a share `evenness` that goes to all alike."""
        rows = Rows.of(problem, preconditioner)
        coordinates, weights, smoothness = rows.coordinates, problem.weights, rows.forms
        if regularization == "sampled":
            coordinates = np.concatenate([coordinates, preconditioner.basis])
            weights = np.concatenate([weights, np.full(problem.d, problem.lam)])
            smoothness = np.concatenate([smoothness, preconditioner.inverse_diagonal()])
        shares = weights * smoothness
        probabilities = (1 - evenness) * _normalised(shares) + evenness * _normalised(weights > 0)
        sampled = probabilities > 0
        scales = np.divide(weights, probabilities, out=np.zeros_like(weights), where=sampled)
        exact = regularization == "exact"
        return cls(
            preconditioner,
            coordinates,
            probabilities,
            scales,
            # Without λa the exact regulariser would diverge at large λ.
            float(np.max(scales * smoothness))
            + (problem.lam * preconditioner.outside if exact else 0.0),
            problem.lam if exact else 0.0,
            rows,
            Sampler.of(probabilities),
            Team(),
        )

    @property
    def centre(self) -> Centre:
        """The mean row, which is subtracted implicitly."""
        return self.rows.centre

    def draw(self, rng: np.random.Generator, count: int) -> Order:
        """`count` components by their probabilities."""
        return self.sampler.draw(rng, count)

    def direction(self, gradient: Array, row_products: Array | None = None) -> Direction:
        """The gradient with the products that the kernel needs; those with the rows if given."""
        from sketchridge import kernels

        products = np.zeros(0) if row_products is None else row_products
        mean = self.centre.mean
        return kernels.Direction(
            gradient,
            self.preconditioner.basis.T @ gradient,
            products,
            float(mean @ gradient) if mean.size else 0.0,
        )


def _normalised(shares: NDArray[np.float64] | NDArray[np.bool_]) -> Array:
    """Probabilities in proportion; all alike where there is no row to learn from."""
    total = float(shares.sum())
    return shares / total if total > 0 else np.full(shares.size, 1.0 / shares.size)


def grown(latest: Evaluation, best: Evaluation, null_objective: Array) -> NDArray[np.bool_]:
    """Whether each target's objective grew by more than rounding (or is no number)."""
    return ~(latest.objective <= best.objective + 64 * EPSILON * null_objective)


def memory_of_rows(problem: RidgeProblem, rank: int, components: int) -> int:
    """The numbers that coordinates, tables and (for Fortran order) a copy of the rows will hold."""
    dense_columns = isinstance(problem.X, np.ndarray) and not problem.X.flags.c_contiguous
    copy = problem.X.nbytes // 8 if dense_columns else 0
    return components * (rank + 6) + copy
