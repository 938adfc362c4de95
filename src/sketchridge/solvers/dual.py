"""What SDCA and Kaczmarz share: a dual number a row, and steps that change one of them.

In the preconditioned coordinates w̃ = P^{1/2}w, with μ = λa the strong convexity that all
directions have, the shifted objective is Σ ω_i f_i(w̃) + μ/2 ‖w̃‖². The dual variables α_i have
w̃ = Σ ω_i α_i / μ. α_i lies in the span of x̃_i and of the basis: one number and k numbers a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates
from sketchridge.solvers.components import Order, Rows, Sampler

BACK_OFF = 0.5
# The primal objective wavers on the way; beyond this, over that of w = 0, dual-free steps diverge.
GROWTH = 1.5
STARTS_FROM_ZERO = "a dual method cannot start from given coefficients: it starts from zero"


@dataclass(frozen=True, eq=False)
class DualSteps:
    """How rows are drawn, and how far a step goes."""

    preconditioner: LowRankPreconditioner
    rows: Rows
    sampler: Sampler
    rates: Array  # (n,) τ_i


@dataclass(frozen=True, eq=False)
class Duals:
    """The state of one target."""

    targets: Array  # (n,) y
    coef: Array  # (d,)
    along_rows: Array  # (n,) α_i's part along x̃_i
    in_basis: Array  # (n, k) and in the basis, times e^½

    def after(self, problem: RidgeProblem, steps: DualSteps, order: Order, scale: float) -> Duals:
        """The state after the steps `order` (m,), with rates scaled."""
        from sketchridge import kernels

        preconditioner = steps.preconditioner
        convexity = problem.lam * preconditioner.outside
        coef, along_rows, in_basis = self.coef.copy(), self.along_rows.copy(), self.in_basis.copy()
        basis = np.stack([coef, coef]) @ preconditioner.basis
        kernels.dual_epoch(
            problem.rows,
            order,
            problem.weights,
            scale * steps.rates,
            self.targets,
            along_rows,
            in_basis,
            steps.rows.coordinates,
            steps.rows.centre,
            kernels.DualMetric(
                preconditioner.outside,
                preconditioner.inside,
                problem.lam * preconditioner.inside - convexity,
                convexity,
            ),
            coef,
            basis,
        )
        coef += preconditioner.basis @ (basis[0] - basis[1])
        return Duals(self.targets, coef, along_rows, in_basis)


def dual_iterates(
    problem: RidgeProblem, steps: DualSteps, start: Array, rng: np.random.Generator
) -> Iterates:
    """Yield the point after every n steps, with its fresh gradient.

    A point is what its dual variables make of it, and those of a given start are not known: the
    iteration starts from zero.
    """
    evaluation = problem.evaluate(start)
    yield Iterate(start, evaluation=evaluation)
    event = STARTS_FROM_ZERO if start.any() else None
    duals = [_first(problem, y, steps.preconditioner.rank) for y in problem.Y.T]
    best, lowest, scales = duals, problem.null_objective.copy(), np.ones(problem.targets)
    while True:
        order = steps.sampler.draw(rng, problem.n)
        problem.passes += 1
        moved = [
            dual.after(problem, steps, order, s) for dual, s in zip(duals, scales, strict=True)
        ]
        latest = problem.evaluate(np.stack([dual.coef for dual in moved], axis=1))
        diverged = ~(latest.objective <= GROWTH * problem.null_objective) & (
            steps.preconditioner.rank > 0
        )
        if diverged.any():
            event = f"objective grew: back to the best point, rates {scales[diverged].min():g}"
            scales = np.where(diverged, scales * BACK_OFF, scales)
            event += f" → {scales[diverged].min():g}"
        better = latest.objective < lowest
        best = [new if b else old for new, old, b in zip(moved, best, better, strict=True)]
        lowest = np.where(better, latest.objective, lowest)
        duals = [old if bad else new for old, new, bad in zip(best, moved, diverged, strict=True)]
        yield Iterate(latest.coef, evaluation=latest, event=event, advances=True)
        event = None


def _first(problem: RidgeProblem, y: Array, rank: int) -> Duals:
    zeros = np.zeros(problem.d), np.zeros(problem.n), np.zeros((problem.n, rank))
    return Duals(np.ascontiguousarray(y), *zeros)


def dual_steps(
    problem: RidgeProblem, preconditioner: LowRankPreconditioner, uniform: bool
) -> DualSteps:
    """Rates 1/(ω_i x_iᵀP⁻¹x_i + μ), which maximise the dual in α_i where there is no basis.

    Rows are drawn uniformly, or in proportion to the rates' inverses.
    """
    rows = Rows.of(problem, preconditioner)
    sizes = problem.weights * rows.forms + problem.lam * preconditioner.outside
    present = problem.weights > 0
    likely = np.where(present, 1.0 if uniform else sizes, 0.0)
    return DualSteps(preconditioner, rows, Sampler.of(likely / likely.sum()), 1.0 / sizes)
