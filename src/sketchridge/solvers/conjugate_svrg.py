"""SVRG's epochs as directions of conjugate gradients.

From the gradient g at w an epoch of SVRG makes a move near −H⁻¹g: it acts as a preconditioner that
is drawn anew every time. Flexible conjugate gradients (Notay, 2000) take what a preconditioner
gives, make it conjugate to the last few directions, and go to the least F along it. The product
with H that this needs takes the place of the next snapshot's gradient: an epoch costs what it does
in SVRG, the objective does not grow, and the passes grow with the root of what SVRG's grow with.

As F is minimised by the directions, an epoch may work on something simpler: the columns may be
scaled, with the least of the penalties that they then have for all of them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.evaluation import Evaluation
from sketchridge.preconditioner import LowRankPreconditioner, by_columns
from sketchridge.problem import RidgeProblem
from sketchridge.products import WIDE_BLOCK_BYTES
from sketchridge.solvers.base import Array, Iterate, Iterates, quotient
from sketchridge.solvers.components import Components
from sketchridge.solvers.svrg import BACK_OFF, svrg_moves
from sketchridge.threads import thread_count

# In units of 1/β̂: bolder epochs are noisier, and no better as directions.
STEP = 1.0
# The epochs' noise spoils what is conjugate: with one direction text took twice the epochs, and
# with twenty no fewer.
WINDOW = 4
# A direction that keeps no more than this share of its bend, when it is made conjugate, is noise.
CANCELLED = 1e-6


def conjugate(
    problem: RidgeProblem, preconditioner: Any, start: Array, rng: np.random.Generator, length: int
) -> Iterates:
    """Yield the point after every epoch of `length` steps, with its running gradient."""
    epochs = Epochs.of(problem, preconditioner)
    fresh = problem.evaluate(start)
    yield Iterate(start, evaluation=fresh)
    steps = np.full(problem.targets, STEP)
    while True:
        fresh, steps = yield from _from(problem, preconditioner, epochs, fresh, steps, rng, length)


@dataclass(frozen=True, eq=False)
class Epochs:
    """SVRG on the problem, or on its scaled columns."""

    problem: RidgeProblem
    components: Components
    factors: Array | None  # (d, 1) of the columns, if they are scaled

    @classmethod
    def of(cls, problem: RidgeProblem, preconditioner: Any) -> Epochs:
        """What epochs with this preconditioner need; scaled columns are a copy."""
        if isinstance(preconditioner, LowRankPreconditioner):
            return cls(problem, Components.of(problem, preconditioner), None)
        longest = float(np.sqrt(problem.raw_squared_norms.max()))
        factors, inner = by_columns(preconditioner, longest)
        scaled = problem.with_scaled_columns(factors, inner.lam)
        components = Components.of(scaled, inner)
        problem.passes += scaled.passes
        return cls(scaled, components, factors[:, None])

    def moves(self, gradients: Array, length: int, steps: Array, rng: np.random.Generator) -> Array:
        """Where an epoch goes from the points with these gradients, (d, t)."""
        order = self.components.draw(rng, length)
        slopes = gradients if self.factors is None else self.factors * gradients
        absolute = steps / self.components.smoothness
        moves = svrg_moves(self.problem, self.components, slopes, order, absolute, "average")
        return moves if self.factors is None else self.factors * moves


@dataclass(frozen=True, eq=False)
class Direction:
    """Directions p of all targets with H p and pᵀH p."""

    vectors: Array  # (d, t)
    images: Array  # (d, t)
    bend: Array  # (t,)
    length: Array  # (t,) of all that p was made of: its rounding is in proportion to that

    @classmethod
    def of(cls, moves: Array, images: Array) -> Direction:
        """The moves (d, t), whose products with H are `images`, as they are."""
        bend = np.maximum(_products(moves, images), 0.0)
        return cls(moves, images, bend, np.linalg.norm(moves, axis=0))

    def conjugate_to(self, others: list[Direction]) -> Direction:
        """Less its part along the others; as it is for targets where that leaves nothing."""
        vectors, images, length = self.vectors, self.images, self.length
        for other in others:
            share = quotient(_products(vectors, other.images), other.bend)
            vectors = vectors - share * other.vectors
            images = images - share * other.images
            length = length + np.abs(share) * other.length
        bend = _products(vectors, images)
        whole = bend > CANCELLED * self.bend
        return Direction(
            np.where(whole, vectors, self.vectors),
            np.where(whole, images, self.images),
            np.where(whole, bend, self.bend),
            np.where(whole, length, self.length),
        )


def _from(
    problem: RidgeProblem,
    preconditioner: Any,
    epochs: Epochs,
    fresh: Evaluation,
    steps: Array,
    rng: np.random.Generator,
    length: int,
) -> Generator[Iterate, Evaluation | None, tuple[Evaluation, Array]]:
    """Yield points until a fresh evaluation is sent; that, and the steps (t,) by then."""
    W, gradient, objective = fresh.coef, fresh.gradient, fresh.objective
    window: list[Direction] = []
    travelled, products = np.zeros(problem.targets), 0
    floor = problem.rounding(fresh)
    while True:
        moves = epochs.moves(gradient, length, steps, rng)
        problem.passes += length / problem.n
        # Where nothing is left of the gradient but rounding, there is no direction to go.
        moves = np.where(np.linalg.norm(gradient, axis=0) > floor, moves, 0.0)
        images = problem.gram(moves) + problem.lam * moves
        steps, event, moves, images = _tamed(gradient, moves, images, steps)
        direction = Direction.of(moves, images).conjugate_to(window)
        slope = _products(gradient, direction.vectors)
        far = -quotient(slope, direction.bend)
        W = W + far * direction.vectors
        gradient = gradient + far * direction.images
        objective = objective + 0.5 * far * slope
        window = [direction, *window][:WINDOW]
        travelled = travelled + np.abs(far) * direction.length
        products += 1
        sent = yield Iterate(
            W,
            gradient=gradient,
            objective=objective,
            energy=_products(gradient, preconditioner.apply(gradient)),
            look=True,
            event=event,
            known=partial(
                problem.running, fresh, W, gradient, objective, travelled, products * (WINDOW + 1)
            ),
        )
        if sent is not None:
            return sent, steps


def scaled_memory(problem: RidgeProblem, rank: int) -> int:
    """The numbers that epochs on scaled columns hold: the copy, its coordinates, and its blocks."""
    wide = 2 * thread_count() * WIDE_BLOCK_BYTES // 8 if rank else 0
    size = int(problem.X.size)
    return size // 2 + min(wide, size) + problem.n * (rank + 6)


def _tamed(
    gradient: Array, moves: Array, images: Array, steps: Array
) -> tuple[Array, str | None, Array, Array]:
    """Smaller steps (t,) for targets whose epoch alone made F grow, and what happened.

    The line search makes the best of such a move, unless it is no number.
    """
    growth = _products(gradient, moves) + 0.5 * _products(moves, images)
    grew = ~(growth <= 0.0)
    if not grew.any():
        return steps, None, moves, images
    after = np.where(grew, steps * BACK_OFF, steps)
    usable: NDArray[np.bool_] = np.isfinite(growth)
    event = f"an epoch went too far: step {steps[grew].min():g} → {after[grew].min():g}"
    return after, event, np.where(usable, moves, 0.0), np.where(usable, images, 0.0)


def _products(left: Array, right: Array) -> Array:
    """The inner products of the columns, (t,)."""
    products: Array = np.einsum("ij,ij->j", left, right)
    return products
