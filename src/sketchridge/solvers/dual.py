"""What SDCA and Kaczmarz share: a dual number a row, and steps that change one of them.

In the preconditioned coordinates w̃ = P^{1/2}w, with μ = λa the strong convexity that all
directions have, the shifted objective is Σ ω_i f_i(w̃) + μ/2 ‖w̃‖². The dual variables α_i have
w̃ = Σ ω_i α_i / μ. α_i lies in the span of x̃_i and of the basis: one number and k numbers a row.
Without a basis w = Σ ω_i α_i x_i / λ in any coordinates, and the dual objective certifies w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sketchridge.evaluation import DualPoint
from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates
from sketchridge.solvers.components import Order, Rows, Sampler, Shuffler

Sampling = Literal["uniform", "importance", "shuffled"]

BACK_OFF = 0.5
# The primal objective wavers on the way; beyond this, over that of w = 0, dual-free steps diverge.
GROWTH = 1.5
# The share of its estimate that the gap was after an epoch, at most: 0.70 to 0.75 on text.
SETTLED = 0.8
NO_MOVE = np.empty(0)
STARTS_FROM_ZERO = "a dual method cannot start from given coefficients: it starts from zero"


@dataclass(frozen=True, eq=False)
class DualSteps:
    """How rows are drawn, and how far a step goes."""

    preconditioner: LowRankPreconditioner
    rows: Rows
    sampler: Sampler | Shuffler
    rates: Array  # (n,) τ_i


@dataclass(frozen=True, eq=False)
class Duals:
    """The state of one target."""

    targets: Array  # (n,) y
    coef: Array  # (d,)
    along_rows: Array  # (n,) α_i's part along x̃_i
    in_basis: Array  # (n, k) and in the basis, times e^½
    spread: float = np.inf  # ½ Σ ω_i (y_i − x_iᵀw − α_i)² over the last steps, as rows were met
    shrinks: float = 1.0  # by how much it was less than over the steps before
    moved: float = 0.0  # how far the rows' multiples in w were moved, over all steps
    steps: int = 0
    settled: float = SETTLED  # the gap's share of its estimate

    def after(self, problem: RidgeProblem, steps: DualSteps, order: Order, scale: float) -> Duals:
        """The state after the steps `order` (m,), with rates scaled."""
        along_rows, in_basis = self.along_rows.copy(), self.in_basis.copy()
        coef, (squares, moved, *_) = self.run(problem, steps, order, scale, along_rows, in_basis)
        state = replace(self, coef=coef, along_rows=along_rows, in_basis=in_basis)
        return state.seen(0.5 * squares, moved, order.size)

    def seen(self, spread: float, moved: float, steps: int) -> Duals:
        """With what was seen on the way here, over so many steps."""
        shrinks = min(1.0, spread / self.spread) if 0 < self.spread < np.inf else 1.0
        return replace(
            self,
            spread=spread,
            shrinks=shrinks,
            moved=self.moved + moved,
            steps=self.steps + steps,
        )

    def run(
        self,
        problem: RidgeProblem,
        steps: DualSteps,
        order: Order,
        scale: float,
        along_rows: Array,
        in_basis: Array,
        last: Array = NO_MOVE,
    ) -> tuple[Array, tuple[float, ...]]:
        """Take the steps from here: these dual variables are changed in place, and w is new.

        Also the sums of `kernels.dual_epoch`, five more if there is a last move (n,).
        """
        from sketchridge import kernels

        preconditioner = steps.preconditioner
        convexity = problem.lam * preconditioner.outside
        coef = self.coef.copy()
        basis = np.tile(coef @ preconditioner.basis, (2, 1))
        sums = kernels.dual_epoch(
            problem.rows,
            order,
            problem.weights,
            steps.rates if scale == 1.0 else scale * steps.rates,
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
            last,
            coef,
            basis,
        )
        coef += preconditioner.basis @ (basis[0] - basis[1])
        return coef, sums

    @property
    def gap(self) -> float:
        """About F(w) less the dual objective.

        Rows were met half an epoch ago, on average, and the last of them still fit.
        """
        return self.settled * self.spread * float(np.sqrt(self.shrinks))

    def dual_objective(self, problem: RidgeProblem) -> float:
        """What the dual variables prove F* to be at least, but for rounding; without a basis."""
        from sketchridge import kernels

        gained = kernels.dual_gain(problem.weights, self.targets, self.along_rows)
        return float(gained - 0.5 * problem.lam * (self.coef @ self.coef))


Advance = Callable[[np.random.Generator], list[Duals]]


def dual_iterates(
    problem: RidgeProblem,
    steps: DualSteps,
    start: Array,
    rng: np.random.Generator,
    advance: Advance | None = None,
) -> Iterates:
    """Yield the point after every n steps; or after every epoch of `advance`, without a basis.

    A point is what its dual variables make of it, and those of a given start are not known: the
    iteration starts from zero.
    """
    event = None
    if start.any():
        event = STARTS_FROM_ZERO
        yield Iterate(start, evaluation=problem.evaluate(start))
    if steps.preconditioner.rank:
        yield from _dual_free_iterates(problem, steps, rng, event)
    else:
        advance = advance or PlainEpochs(problem, steps).advance
        yield from _exact_iterates(problem, steps, rng, event, advance)


class PlainEpochs:
    """One row after the other, of every target."""

    def __init__(self, problem: RidgeProblem, steps: DualSteps) -> None:
        self.problem, self.steps = problem, steps
        self.duals = [first_duals(problem, y, 0) for y in problem.Y.T]

    def advance(self, rng: np.random.Generator) -> list[Duals]:
        """An epoch."""
        order = self.steps.sampler.draw(rng, self.problem.n)
        self.duals = [dual.after(self.problem, self.steps, order, 1.0) for dual in self.duals]
        return self.duals


def _exact_iterates(
    problem: RidgeProblem,
    steps: DualSteps,
    rng: np.random.Generator,
    event: str | None,
    advance: Advance,
) -> Iterates:
    """Without a basis every step maximises the dual, and the point needs no evaluation.

    Rows that are drawn at random are not all met: there it is evaluated every time.
    """
    longest = _longest_row(problem)
    while True:
        problem.passes += 1
        duals = advance(rng)
        coef, point = np.stack([dual.coef for dual in duals], axis=1), _dual_point(duals, longest)
        if isinstance(steps.sampler, Shuffler):
            gap = np.array([dual.gap for dual in duals])
            bound = np.array([dual.dual_objective(problem) for dual in duals])
            yield Iterate(coef, objective=bound + gap, estimate=gap, duals=point, event=event)
        else:
            evaluation = problem.evaluate(coef, point)
            yield Iterate(coef, evaluation=evaluation, event=event, advances=True)
        event = None


def _longest_row(problem: RidgeProblem) -> float:
    """A bound of the rows' norms, centred or not."""
    length = float(np.sqrt(problem.raw_squared_norms[problem.weights > 0].max()))
    return length if problem.mean is None else length + float(np.linalg.norm(problem.mean))


def _dual_point(duals: list[Duals], longest: float) -> DualPoint:
    """The dual variables, and what rounding may have put between them and w.

    A number of w that is changed m times, by rounded products of rounded steps, is off by at most
    (m + 4)·ε times the sum of the changes' sizes, which rows as long as the longest have.
    """
    drift = [EPSILON * (dual.steps + 4) * dual.moved * longest for dual in duals]
    return DualPoint(np.stack([dual.along_rows for dual in duals], axis=1), np.array(drift))


def _dual_free_iterates(
    problem: RidgeProblem, steps: DualSteps, rng: np.random.Generator, event: str | None
) -> Iterates:
    """With a basis steps may be too long: back to the best point, and shorter ones."""
    duals = [first_duals(problem, y, steps.preconditioner.rank) for y in problem.Y.T]
    best, lowest, scales = duals, problem.null_objective.copy(), np.ones(problem.targets)
    while True:
        order = steps.sampler.draw(rng, problem.n)
        problem.passes += 1
        moved = [
            dual.after(problem, steps, order, s) for dual, s in zip(duals, scales, strict=True)
        ]
        latest = problem.evaluate(np.stack([dual.coef for dual in moved], axis=1))
        diverged = ~(latest.objective <= GROWTH * problem.null_objective)
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


def first_duals(problem: RidgeProblem, y: Array, rank: int) -> Duals:
    """The state of one target at w = 0."""
    zeros = np.zeros(problem.d), np.zeros(problem.n), np.zeros((problem.n, rank))
    return Duals(np.ascontiguousarray(y), *zeros)


def dual_steps(
    problem: RidgeProblem, preconditioner: LowRankPreconditioner, sampling: Sampling
) -> DualSteps:
    """Rates 1/(ω_i x_iᵀP⁻¹x_i + μ), which maximise the dual in α_i where there is no basis.

    Rows are drawn uniformly, or in proportion to the rates' inverses ("importance"), or shuffled.
    """
    rows = Rows.of(problem, preconditioner)
    sizes = problem.weights * rows.forms + problem.lam * preconditioner.outside
    if sampling == "shuffled":
        return DualSteps(preconditioner, rows, Shuffler(problem.n), 1.0 / sizes)
    present = problem.weights > 0
    likely = np.where(present, 1.0 if sampling == "uniform" else sizes, 0.0)
    return DualSteps(preconditioner, rows, Sampler.of(likely / likely.sum()), 1.0 / sizes)
