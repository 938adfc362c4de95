"""Dual coordinate ascent by several threads, whose moves are weighed.

Without a basis the dual objective Σ ω_i α_i (y_i − α_i/2) − λ/2 ‖w‖², w = Σ ω_i α_i x_i / λ, is
known along any move of α and w from these alone: no row is read. So each thread takes some of the
rows, from the same w, and the next point is the best that their moves and the last one make. What
all rows have in common the threads all go for, and their sum would go too far; weighed it does not.
(docs/decisions/22-moves-that-are-weighed.md)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.solvers.base import Array
from sketchridge.solvers.components import Order
from sketchridge.solvers.dual import Duals, DualSteps, first_duals
from sketchridge.threads import run_all, thread_count

# The share of its estimate that the gap was after an epoch: 1.0 to 1.3 on text, at first 1.6.
SETTLED = 1.15
# A move is made by this many threads at most, of at least so many rows each.
MOST_THREADS, LEAST_ROWS = 4, 500
# Moves that are alike to this share are one, and slopes below so many roundings are none.
ALIKE, CLEAR = 1e-12, 16.0


@dataclass(frozen=True, eq=False)
class Move:
    """What α and w are moved by."""

    along_rows: Array  # (n,)
    coef: Array  # (d,)
    square: float  # Σ ω_i α_i² + λ ‖w‖²
    size: float  # how far the rows' multiples in w are moved
    count: int  # the steps that it is made of, as rounding counts them

    @classmethod
    def none(cls, problem: RidgeProblem) -> Move:
        """Not at all."""
        return cls(np.zeros(problem.n), np.zeros(problem.d), 0.0, 0.0, 0)


@dataclass(frozen=True, eq=False)
class Part:
    """What a thread did to some of the rows."""

    order: Order  # (m,) these
    coef: Array  # (d,) how w moved
    squares: float  # Σ ω_i (y_i − x_iᵀw − α_i)² as rows were met
    moved: float  # how far the rows' multiples in w were moved
    square: float  # Σ ω_i Δ_i²
    across: float  # Σ ω_i Δ_i times the last move
    slope: float  # Σ ω_i Δ_i (y_i − α_i)
    size: float  # the sum of its terms' sizes
    level: float  # Σ ω_i |α_i (y_i − α_i)|, before it


@dataclass(frozen=True, eq=False)
class Weighed:
    """The state of one target, and the move that led there."""

    duals: Duals
    last: Move

    @classmethod
    def first(cls, problem: RidgeProblem, y: Array) -> Weighed:
        """At w = 0."""
        duals = replace(first_duals(problem, y, 0), settled=SETTLED)
        return cls(duals, Move.none(problem))

    def after(self, problem: RidgeProblem, steps: DualSteps, orders: list[Order]) -> Weighed:
        """The state after a move, of so many threads."""
        parts, along_rows = self._parts(problem, steps, orders)
        curvature, slope = self._quadratic(problem.lam, parts)
        clear = self._is_clear(problem, parts, slope)
        factors = _maximum(curvature, slope) if clear else _mean(len(parts))
        square = float(factors @ curvature @ factors)
        state = self._moved(parts, along_rows, factors, square)
        spread = 0.5 * sum(part.squares for part in parts)
        # Along a move that was not the best there is more to gain, which the next would not know.
        last = state.last if clear else Move.none(problem)
        return Weighed(state.duals.seen(spread, state.last.size, state.last.count), last)

    def _parts(
        self, problem: RidgeProblem, steps: DualSteps, orders: list[Order]
    ) -> tuple[list[Part], Array]:
        """Let each thread take its rows; also the dual variables afterwards, of all rows (n,)."""
        duals, along_rows = self.duals, self.duals.along_rows.copy()

        def part(order: Order) -> Part:
            last = self.last.along_rows
            coef, sums = duals.run(problem, steps, order, 1.0, along_rows, duals.in_basis, last)
            return Part(order, coef - duals.coef, *sums)

        return run_all([partial(part, order) for order in orders]), along_rows

    def _quadratic(self, lam: float, parts: list[Part]) -> tuple[Array, Array]:
        """The dual objective's curvature and slope along each part and, in the end, the last move.

        Along the last move it is the greatest already.
        """
        ways = [*(part.coef for part in parts), self.last.coef]
        # BLAS's product of such flat matrices takes longer than the inner products one by one.
        curvature = lam * np.array([[one @ other for other in ways] for one in ways])
        slope = -lam * np.array([way @ self.duals.coef for way in ways])
        for k, part in enumerate(parts):
            curvature[k, k] += part.square
            curvature[k, -1] += part.across
            curvature[-1, k] += part.across
            slope[k] += part.slope
        curvature[-1, -1], slope[-1] = self.last.square, 0.0
        return curvature, slope

    def _is_clear(self, problem: RidgeProblem, parts: list[Part], slope: Array) -> bool:
        """Whether the slopes are more than rounding: at the maximum they are differences of it.

        The moves are differences themselves, and off by the roundoff of where they began.
        """
        length = problem.lam * float(np.linalg.norm(self.duals.coef))
        level = sum(part.level for part in parts) + length**2 / problem.lam
        hidden = [
            level
            + np.sqrt(part.order.size) * (part.size + length * float(np.linalg.norm(part.coef)))
            for part in parts
        ]
        return bool(np.all(np.abs(slope[:-1]) > CLEAR * EPSILON * np.array(hidden)))

    def _moved(
        self, parts: list[Part], along_rows: Array, factors: Array, square: float
    ) -> Weighed:
        """The state after the parts and the last move, times their factors."""
        from sketchridge import kernels

        before, rows = self.duals.along_rows, factors[-1] * self.last.along_rows
        coef = factors[-1] * self.last.coef
        size = abs(float(factors[-1])) * self.last.size
        # What a part's sums round is multiplied by its factor, and so is what it began with.
        growth = max(1.0, float(np.abs(factors[:-1]).sum()))
        count = growth * (sum(part.order.size for part in parts) + 16)
        count += abs(float(factors[-1])) * self.last.count
        for part, factor in zip(parts, factors, strict=False):  # the last factor is the last move's
            kernels.add_dual_steps(part.order, factor, before, along_rows, rows)
            coef += factor * part.coef
            size += abs(float(factor)) * part.moved
        duals = replace(self.duals, along_rows=before + rows, coef=self.duals.coef + coef)
        return Weighed(duals, Move(rows, coef, square, size, int(count) + 1))


def _maximum(curvature: Array, slope: Array) -> Array:
    """What the moves are to be multiplied by; those that are alike share it."""
    sizes = np.sqrt(np.diag(curvature))
    scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    alike = scale[:, None] * curvature * scale
    factors: Array = scale * np.linalg.lstsq(alike, scale * slope, rcond=ALIKE)[0]
    return factors


def _mean(parts: int) -> Array:
    """The mean of the parts is no worse than they are, on average; nothing of the last move."""
    return np.append(np.full(parts, 1.0 / parts), 0.0)


class WeighedEpochs:
    """Epochs of every target."""

    def __init__(self, problem: RidgeProblem, steps: DualSteps) -> None:
        self.problem, self.steps = problem, steps
        self.states = [Weighed.first(problem, y) for y in problem.Y.T]
        self.threads = threads_for(problem)

    def advance(self, rng: np.random.Generator) -> list[Duals]:
        """An epoch: every row once."""
        order = self.steps.sampler.draw(rng, self.problem.n)
        orders = np.array_split(order, self.threads)
        self.states = [state.after(self.problem, self.steps, orders) for state in self.states]
        return [state.duals for state in self.states]


def threads_for(problem: RidgeProblem) -> int:
    """How many threads share the rows."""
    return max(1, min(thread_count(), MOST_THREADS, problem.n // LEAST_ROWS))
