"""Preconditioned gradient descent with the exact line search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchridge.preconditioner import Preconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates, quotient


@dataclass(frozen=True)
class GD:
    """Steepest descent in the metric of P: along P⁻¹g, as far as the objective falls.

    One product with C an iteration gives the step and the next gradient, for all targets
    together. When the driver sends a fresh evaluation, the iteration goes on from its gradient.
    """

    name: ClassVar[str] = "gd"
    summary: ClassVar[str] = "gradient descent with the exact line search, preconditioned"
    cost: ClassVar[str] = "one pass an iteration, about κ iterations"
    use_when: ClassVar[str] = "to compare: conjugate gradients cost the same and need √κ"
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
        """Yield the point after every step, with its running gradient and objective."""
        fresh = problem.evaluate(start)
        W, gradient, objective = start, fresh.gradient, fresh.objective
        yield Iterate(W, evaluation=fresh)
        direction = preconditioner.apply(gradient)
        energy = np.sum(gradient * direction, axis=0)
        while True:
            image = problem.gram(direction) + problem.lam * direction
            step = quotient(energy, np.sum(direction * image, axis=0))
            W = W - direction * step
            gradient = gradient - image * step
            objective = objective - 0.5 * step * energy
            direction = preconditioner.apply(gradient)
            energy = np.sum(gradient * direction, axis=0)
            sent = yield Iterate(W, gradient=gradient, objective=objective, energy=energy)
            if sent is not None:
                gradient, objective = sent.gradient, sent.objective
                direction = preconditioner.apply(gradient)
                energy = np.sum(gradient * direction, axis=0)
