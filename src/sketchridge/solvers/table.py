"""What SAGA and SAG share: a table of the rows' residuals, and steps that refresh it.

With a linear model the gradient of a row is its residual times the row, so the table is n numbers,
and an epoch of n steps reads every row once: there is no snapshot whose gradient has to be made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates
from sketchridge.solvers.components import Order, Rows, Sampler

BACK_OFF = 0.5
# The table lags behind and its objective wavers: only growth beyond this, over the start's or
# that of w = 0, means divergence.
GROWTH = 1.5


@dataclass(frozen=True, eq=False)
class TableSteps:
    """How rows are drawn, and what a step is made of."""

    preconditioner: LowRankPreconditioner
    rows: Rows
    sampler: Sampler
    scales: Array  # (n,) the weight of a row's change in the step
    smoothness: float  # β̂: a step of 1 is 1/β̂


@dataclass(frozen=True, eq=False)
class Table:
    """The state of one target: a point, the residuals that are remembered, their mean gradient."""

    targets: Array  # (n,) y
    coef: Array  # (d,)
    residuals: Array  # (n,) α
    gradient: Array  # (d,) Σ ω_i α_i x_i of the raw rows
    total: float  # Σ ω_i α_i

    def centred_gradient(self, problem: RidgeProblem) -> Array:
        """Σ ω_i α_i (x_i − m), (d,)."""
        if problem.mean is None:
            return self.gradient
        return self.gradient - self.total * problem.mean

    def objective(self, problem: RidgeProblem) -> float:
        """F, as far as the table knows it."""
        loss = problem.weights @ self.residuals**2
        return float(0.5 * loss + 0.5 * problem.lam * self.coef @ self.coef)

    def resummed(self, problem: RidgeProblem) -> Table:
        """The table with its mean gradient made anew from the residuals; a pass."""
        problem.passes += 1
        weighted = problem.weights * self.residuals
        gradient = problem.products.adjoint(weighted[:, None])[:, 0]
        return replace(self, gradient=gradient, total=float(weighted.sum()))

    def after(self, problem: RidgeProblem, steps: TableSteps, order: Order, step: float) -> Table:
        """The table after the steps `order` (m,), each of `step` in units of 1/β̂."""
        from sketchridge import kernels

        preconditioner, rows = steps.preconditioner, problem.rows
        eta = step / steps.smoothness
        outside, inside = eta * preconditioner.outside, eta * preconditioner.inside
        pair = kernels.bundle(rows, self.coef, self.gradient)
        columns = np.stack([self.coef, self.coef, self.centred_gradient(problem)])
        basis = columns @ preconditioner.basis
        residuals = self.residuals.copy()
        total = kernels.table_epoch(
            rows,
            order,
            problem.weights,
            steps.scales,
            self.targets,
            residuals,
            steps.rows.coordinates,
            steps.rows.centre,
            kernels.ConstantSteps(
                1.0 - outside * problem.lam, outside, inside, 1.0 - inside * problem.lam
            ),
            pair,
            basis,
            self.total,
        )
        point, gradient = kernels.unbundle(rows, pair)
        coef = point + preconditioner.basis @ (basis[0] - basis[1])
        return Table(self.targets, coef, residuals, gradient, float(total))


def table_iterates(
    problem: RidgeProblem,
    steps: TableSteps,
    filled: bool,
    start: Array,
    step: float,
    adapt: bool,
    rng: np.random.Generator,
) -> Iterates:
    """Yield the point after every n steps, with the table's own gradient and objective.

    The table starts filled with the residuals at the start, or blank. SAG needs it blank: its
    steps follow the table for a whole epoch, and along a full gradient they would go √n too far.
    Its first epoch then draws every row once, for a blank row's residual is not 0.
    """
    evaluation = problem.evaluate(start)
    yield Iterate(start, evaluation=evaluation)
    tables = _first_tables(problem, start, filled)
    best, lowest = list(tables), evaluation.objective.copy()
    reference = np.maximum(lowest, problem.null_objective)
    sizes = [step] * len(tables)
    blank = not filled
    while True:
        order = rng.permutation(problem.n) if blank else steps.sampler.draw(rng, problem.n)
        blank = False
        problem.passes += 1
        event = None
        for target, table in enumerate(tables):
            latest = table.after(problem, steps, order, sizes[target])
            objective = latest.objective(problem)
            if adapt and not objective <= GROWTH * reference[target]:
                event = f"objective grew: back to the best table, step {sizes[target]:g}"
                sizes[target] *= BACK_OFF
                event += f" → {sizes[target]:g}"
                latest = best[target]
            elif objective < lowest[target]:
                best[target], lowest[target] = latest, objective
            tables[target] = latest
        sent = yield _iterate(problem, steps.preconditioner, tables, event)
        if sent is not None:  # the certificate disagreed: rounding has piled up in the sums
            tables = [table.resummed(problem) for table in tables]


def _first_tables(problem: RidgeProblem, start: Array, filled: bool) -> list[Table]:
    """Tables at the start (d, t): of its residuals, or blank."""
    residuals = np.zeros(problem.Y.shape)
    if filled:
        residuals = (problem.multiply(start) if start.any() else residuals) - problem.Y
    flat = np.ascontiguousarray
    tables = [
        Table(flat(y), flat(coef), flat(residual), np.zeros(problem.d), 0.0)
        for y, coef, residual in zip(problem.Y.T, start.T, residuals.T, strict=True)
    ]
    return [table.resummed(problem) for table in tables] if filled else tables


def _iterate(
    problem: RidgeProblem,
    preconditioner: LowRankPreconditioner,
    tables: list[Table],
    event: str | None,
) -> Iterate:
    coef = np.stack([table.coef for table in tables], axis=1)
    slopes = np.stack([table.centred_gradient(problem) for table in tables], axis=1)
    gradient = slopes + problem.lam * coef
    objective = np.array([table.objective(problem) for table in tables])
    energy: Array = np.sum(gradient * preconditioner.apply(gradient), axis=0)
    return Iterate(
        coef, gradient=gradient, objective=objective, energy=energy, event=event, look=True
    )


def uniform_sampler(problem: RidgeProblem) -> Sampler:
    """Every row that counts is as likely."""
    present: NDArray[np.bool_] = problem.weights > 0
    return Sampler.of(present / present.sum())
