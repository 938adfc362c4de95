"""Preconditioned conjugate gradients on (C + λI) w = Xᵀy / n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates


@dataclass(frozen=True)
class CG:
    """Conjugate gradients: one product with C an iteration, for all targets together.

    This differs from the textbook in one thing: when the driver sends a fresh evaluation (its
    certificate disagreed with the running residual), the iteration restarts from that gradient.
    """

    name: ClassVar[str] = "cg"
    summary: ClassVar[str] = "preconditioned conjugate gradients, one pass an iteration"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "nystrom"

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """None."""
        return 0

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the point after every iteration, with its running gradient and objective."""
        fresh = problem.evaluate(start)
        W, gradient, objective = start, fresh.gradient, fresh.objective
        yield Iterate(W, evaluation=fresh)
        direction = np.zeros_like(W)
        previous = np.ones(problem.targets)
        steepest = preconditioner.apply(gradient)
        energy = np.sum(gradient * steepest, axis=0)
        while True:
            direction = steepest + direction * (energy / previous)
            image = problem.gram(direction) + problem.lam * direction
            step = _ratio(energy, np.sum(direction * image, axis=0))
            W = W - direction * step
            gradient = gradient - image * step
            objective = objective - 0.5 * step * energy
            previous = np.where(energy > 0, energy, 1.0)
            steepest = preconditioner.apply(gradient)
            energy = np.sum(gradient * steepest, axis=0)
            sent = yield Iterate(W, gradient=gradient, objective=objective, energy=energy)
            if sent is not None:
                gradient, objective = sent.gradient, sent.objective
                direction = np.zeros_like(W)
                steepest = preconditioner.apply(gradient)
                energy = np.sum(gradient * steepest, axis=0)


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Elementwise quotient; 0 where a target is solved and the denominator vanishes."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)
