"""Preconditioned conjugate gradients on (C + λI) w = Xᵀy / n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchridge.preconditioner import Preconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates, quotient


@dataclass(frozen=True)
class CG:
    """Conjugate gradients: one product with C an iteration, for all targets together.

    This differs from the textbook in one thing: when the driver sends a fresh evaluation (its
    certificate disagreed with the running residual), the iteration restarts from that gradient.
    """

    name: ClassVar[str] = "cg"
    summary: ClassVar[str] = "preconditioned conjugate gradients, one pass an iteration"
    cost: ClassVar[str] = "one pass an iteration, about √κ iterations"
    use_when: ClassVar[str] = "anything larger, at any accuracy; with any preconditioner"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "nystrom"

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """None."""
        return 0

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: Preconditioner,
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
            step = quotient(energy, np.sum(direction * image, axis=0))
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
