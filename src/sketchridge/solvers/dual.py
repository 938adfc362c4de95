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
from sketchridge.solvers.components import Order, Rows, Sampler, grown

BACK_OFF = 0.5


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
    problem: RidgeProblem,
    steps: DualSteps,
    start: Array,
    adapt: bool,
    rng: np.random.Generator,
) -> Iterates:
    """Yield the point after every n steps, with its fresh gradient.

    A point is what its dual variables make of it, and those of a given start are not known: the
    iteration starts from zero.
    """
    yield Iterate(start, evaluation=problem.evaluate(start))
    event = "a dual method cannot start from given coefficients: it starts from zero"
    note = event if start.any() else None
    duals = [_first(problem, y, steps.preconditioner.rank) for y in problem.Y.T]
    scales = np.ones(problem.targets)
    best = problem.evaluate(np.zeros_like(start)) if note else None
    while True:
        order = steps.sampler.draw(rng, problem.n)
        problem.passes += 1
        moved = [d.after(problem, steps, order, s) for d, s in zip(duals, scales, strict=True)]
        latest = problem.evaluate(np.stack([dual.coef for dual in moved], axis=1))
        if adapt and best is not None:
            grew = grown(latest, best, problem.null_objective)
            if grew.any():
                note = f"objective grew: back to the best point, rates {scales[grew].min():g}"
                scales = np.where(grew, scales * BACK_OFF, scales)
                note += f" → {scales[grew].min():g}"
                latest = latest.replaced(by=best, where=grew)
                moved = [old if g else new for old, new, g in zip(duals, moved, grew, strict=True)]
        duals, best = moved, latest
        yield Iterate(latest.coef, evaluation=latest, event=note)
        note = None


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
