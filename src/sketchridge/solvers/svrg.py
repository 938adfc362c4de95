"""SVRG (the paper's Algorithm 1) and, with a preconditioner, sketched preconditioned SVRG (3).

The algorithm runs in the original coordinates: preconditioned SVRG on w̃ = P^{1/2} w is SVRG on w
whose every step is multiplied by P⁻¹. The preconditioned data is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import EPSILON, Evaluation, RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates
from sketchridge.validation import check_integer, check_optional

if TYPE_CHECKING:
    from sketchridge.kernels import Centre, Direction, Steps

Snapshot = Literal["average", "last"]
Regularization = Literal["exact", "sampled"]

# In units of 1/β̂. Averaged snapshots bear about 1.5; the last iterate diverges from about 1 on.
BOLD_STEPS: dict[Snapshot, float] = {"average": 1.5, "last": 0.5}
BACK_OFF = 0.5


@dataclass(frozen=True)
class SVRG:
    """Stochastic variance reduced gradient with importance sampling.

    Parameters
    ----------
    step
        The step in units of 1/β̂, β̂ the average smoothness. None starts bold and backs off from
        the best snapshot whenever the objective grows.
    epoch_length
        The number m of steps between snapshots; None is n.
    snapshot
        The next snapshot is the "average" of the epoch's iterates, or its "last" one.
    regularization
        "exact" handles the regulariser in full at every step; "sampled" draws it as d further
        components, as the paper does.
    """

    step: float | None = None
    epoch_length: int | None = None
    snapshot: Snapshot = "average"
    regularization: Regularization = "exact"
    name: ClassVar[str] = "svrg"
    summary: ClassVar[str] = "variance-reduced stochastic gradient, the paper's method"
    cost: ClassVar[str] = "two passes an epoch (sparse: three), O(nnz(x_i) + k) a step"
    use_when: ClassVar[str] = "κ̃ is below n and a moderate accuracy will do"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "lanczos"

    def __post_init__(self) -> None:
        check_optional("step", self.step, "give a positive number, in units of 1/β̂, or None")
        if self.epoch_length is not None:
            check_integer("epoch_length", self.epoch_length, 1, "give the steps between snapshots")
        if self.snapshot not in ("average", "last"):
            raise ValueError(f"snapshot={self.snapshot!r} must be 'average' or 'last'")
        if self.regularization not in ("exact", "sampled"):
            raise ValueError(f"regularization={self.regularization!r} must be 'exact' or 'sampled'")

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The rows' coordinates in the preconditioner's basis, and a copy of Fortran rows."""
        components = problem.n + (problem.d if self.regularization == "sampled" else 0)
        dense_columns = isinstance(problem.X, np.ndarray) and not problem.X.flags.c_contiguous
        copy = problem.X.nbytes // 8 if dense_columns else 0
        return components * (rank + 6) + copy

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the snapshots, each with its fresh gradient."""
        components = Components.of(problem, preconditioner, self.regularization)
        length = self.epoch_length or problem.n
        steps = np.full(problem.targets, self.step or BOLD_STEPS[self.snapshot])
        snapshot = problem.evaluate(start)
        yield Iterate(snapshot.coef, evaluation=snapshot)
        while True:
            order = components.draw(rng, length)
            coef = snapshot.coef + self._moves(problem, components, snapshot.gradient, order, steps)
            problem.passes += length / problem.n
            latest = problem.evaluate(coef)
            event = None
            if self.step is None:
                grew = _grew(latest, snapshot, problem.null_objective)
                if grew.any():
                    event = f"objective grew: back to the best snapshot, step {steps[grew].min():g}"
                    steps = np.where(grew, steps * BACK_OFF, steps)
                    event += f" → {steps[grew].min():g}"
                latest = latest.replaced(by=snapshot, where=grew)
            snapshot = latest
            yield Iterate(snapshot.coef, evaluation=snapshot, event=event)

    def _moves(
        self,
        problem: RidgeProblem,
        components: Components,
        gradients: Array,
        order: NDArray[np.int64],
        steps: Array,
    ) -> Array:
        """The snapshot's move (d, t): one epoch for every target, on the same rows."""
        from sketchridge import kernels

        moves = np.empty_like(gradients)
        for target, gradient in enumerate(gradients.T):
            point, basis_point = kernels.svrg_epoch(
                problem.rows,
                order,
                components.scales,
                components.coordinates,
                components.centre,
                components.direction(problem, np.ascontiguousarray(gradient)),
                components.steps(steps[target] / components.smoothness, order.size, self.snapshot),
            )
            moves[:, target] = point + components.preconditioner.basis @ basis_point
        return moves


@dataclass(frozen=True, eq=False)
class Components:
    """The functions whose mean is F: how they are sampled, and how the kernel sees them."""

    preconditioner: LowRankPreconditioner
    coordinates: Array  # (n, k) rows times U; (n + d, k), U below, when the regulariser is sampled
    probabilities: Array  # (N,) p_i
    scales: Array  # (N,) a component's weight over its probability
    smoothness: float  # β̂
    shrinking: float  # the λ that every step applies: λ, or 0 when the regulariser is sampled
    centre: Centre
    threshold: Array  # alias table
    alias: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        regularization: Regularization,
    ) -> Components:
        """Sampling by smoothness: p_i ∝ β_i."""
        from sketchridge import kernels

        coordinates = problem.multiply(preconditioner.basis)
        forms = preconditioner.quadratic_forms(problem.squared_norms, coordinates)
        weights, smoothness = problem.weights, forms
        if regularization == "sampled":
            coordinates = np.concatenate([coordinates, preconditioner.basis])
            weights = np.concatenate([weights, np.full(problem.d, problem.lam)])
            smoothness = np.concatenate([forms, preconditioner.inverse_diagonal()])
        shares = weights * smoothness
        total = float(shares.sum())
        if total == 0.0:  # no row to learn from: any sampling will do
            shares, total = np.ones_like(shares), float(shares.size)
        probabilities = shares / total
        sampled = probabilities > 0
        scales = np.zeros_like(weights)
        scales[sampled] = weights[sampled] / probabilities[sampled]
        exact = regularization == "exact"
        mean = np.zeros(0) if problem.mean is None else problem.mean
        centre = kernels.Centre(mean, problem.mean_products, float(mean @ mean))
        threshold, alias = kernels.alias_table(probabilities)
        return cls(
            preconditioner,
            coordinates,
            probabilities,
            scales,
            # Without λa the exact regulariser would diverge at large λ.
            total + (problem.lam * preconditioner.outside if exact else 0.0),
            problem.lam if exact else 0.0,
            centre,
            threshold,
            alias,
        )

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """`count` components by their probabilities, from the alias table."""
        drawn = rng.integers(self.alias.size, size=count)
        rejected = rng.random(count) >= self.threshold[drawn]
        drawn[rejected] = self.alias[drawn[rejected]]
        return drawn

    def direction(self, problem: RidgeProblem, gradient: Array) -> Direction:
        """The gradient with the products that the kernel needs; a pass for sparse rows."""
        from sketchridge import kernels

        lazy = isinstance(problem.rows, kernels.CSR)
        products = problem.multiply(gradient[:, None])[:, 0] if lazy else np.zeros(0)
        mean = self.centre.mean
        return kernels.Direction(
            gradient,
            self.preconditioner.basis.T @ gradient,
            products,
            float(mean @ gradient) if mean.size else 0.0,
        )

    def steps(self, step: float, length: int, snapshot: Snapshot) -> Steps:
        """The scalars of an epoch with absolute step η.

        A row enters s with −ηaδ and is shrunk by ρ at every later step: its weight in the average
        of m iterates is Σ_{j ≤ m−t} ρ^j / m, and in the last iterate ρ^{m−t}.
        """
        from sketchridge import kernels

        shrink = 1.0 - step * self.preconditioner.outside * self.shrinking
        powers: Array = np.float64(shrink) ** np.arange(length)
        if snapshot == "average":
            row_weights: Array = np.cumsum(powers)[::-1] / length
            basis_weights = np.full(length, 1.0 / length)
        else:
            row_weights, basis_weights = powers[::-1].copy(), np.zeros(length)
            basis_weights[-1] = 1.0
        inside = step * self.preconditioner.inside
        return kernels.Steps(
            shrink,
            step * self.preconditioner.outside,
            inside,
            1.0 - inside * self.shrinking,
            row_weights,
            basis_weights,
        )


def _grew(latest: Evaluation, best: Evaluation, null_objective: Array) -> NDArray[np.bool_]:
    """Whether each target's objective grew by more than rounding (or is no number)."""
    return ~(latest.objective <= best.objective + 64 * EPSILON * null_objective)
