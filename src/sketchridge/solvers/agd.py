"""Nesterov's accelerated gradient method, in the metric of P."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchridge.preconditioner import Preconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates, quotient


@dataclass(frozen=True)
class AGD:
    """Accelerated gradient descent for strongly convex functions; nothing is to be tuned.

    x_{k+1} = v_k − P⁻¹∇F(v_k)/L and v_{k+1} = x_{k+1} + β(x_{k+1} − x_k), the momentum β by
    Nesterov's recursion, which tends to (1 − √q)/(1 + √q) with q = μ/L. This differs from the
    textbook in three things:

    - one product with C an iteration: the gradients at x and at v are combinations of it;
    - L is learnt: a step's Rayleigh quotient dᵀHd / dᵀPd, d = P⁻¹∇F(v), comes free, and where it
      exceeds L, L is raised and the step is made with the new L from the product at hand;
    - μ is the little that the preconditioner knows; where the objective grows, the momentum was
      too much and starts anew.
    """

    name: ClassVar[str] = "agd"
    summary: ClassVar[str] = "Nesterov's accelerated gradient descent, preconditioned"
    cost: ClassVar[str] = "one pass an iteration, about √κ iterations"
    use_when: ClassVar[str] = "to compare: conjugate gradients cost the same and need fewer"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "nystrom"

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """Points, gradients and directions of two sequences."""
        return 4 * problem.d * problem.targets

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: Preconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the point x after every step, with its running gradient and objective."""
        fresh = problem.evaluate(start)
        yield Iterate(start, evaluation=fresh)
        x = State(start, fresh.gradient, preconditioner.apply(fresh.gradient))
        v, objective = x, fresh.objective
        momentum = Momentum.start(problem.targets, preconditioner.least_curvature)
        while True:
            image = problem.gram(v.direction) + problem.lam * v.direction
            curvature = np.sum(v.direction * image, axis=0)
            momentum = momentum.raised(quotient(curvature, v.energy))
            step = quotient(np.ones(problem.targets), momentum.smoothness)
            gradient = v.gradient - image * step
            latest = State(v.point - v.direction * step, gradient, preconditioner.apply(gradient))
            # Exact for a quadratic, and without the cancellation of a difference of values.
            growth = 0.5 * np.sum((x.gradient + gradient) * (latest.point - x.point), axis=0)
            objective = objective + growth
            sent = yield Iterate(
                latest.point, gradient=gradient, objective=objective, energy=latest.energy
            )
            if sent is not None:
                objective = sent.objective
                latest = State(latest.point, sent.gradient, preconditioner.apply(sent.gradient))
            momentum, beta = momentum.advanced(restart=growth > 0)
            x, v = latest, latest.beyond(x, beta)


@dataclass(frozen=True)
class State:
    """Points (d, t), their gradients, and P⁻¹ times these."""

    point: Array
    gradient: Array
    direction: Array

    @property
    def energy(self) -> Array:
        """gᵀP⁻¹g, (t,)."""
        energy: Array = np.sum(self.gradient * self.direction, axis=0)
        return energy

    def beyond(self, before: State, beta: Array) -> State:
        """The point β times as far again from the one before; all of it is linear."""
        return State(
            self.point + beta * (self.point - before.point),
            self.gradient + beta * (self.gradient - before.gradient),
            self.direction + beta * (self.direction - before.direction),
        )


@dataclass(frozen=True)
class Momentum:
    """Nesterov's sequence α with α_{k+1}² = (1 − α_{k+1}) α_k² + q α_{k+1}, for every target."""

    alpha: Array  # (t,)
    smoothness: Array  # (t,) L
    convexity: float  # μ

    @classmethod
    def start(cls, targets: int, convexity: float) -> Momentum:
        """No momentum yet, and no L."""
        return cls(np.ones(targets), np.zeros(targets), convexity)

    def raised(self, quotients: Array) -> Momentum:
        """With L at least the Rayleigh quotients of the steps."""
        return Momentum(self.alpha, np.maximum(self.smoothness, quotients), self.convexity)

    def advanced(self, restart: Array) -> tuple[Momentum, Array]:
        """The next α, and β = α_k (1 − α_k) / (α_k² + α_{k+1}); no momentum where it restarts."""
        q = np.minimum(1.0, quotient(np.full(self.alpha.shape, self.convexity), self.smoothness))
        square = self.alpha**2
        slope = q - square
        following = 0.5 * (slope + np.sqrt(slope**2 + 4 * square))
        beta = self.alpha * (1 - self.alpha) / (square + following)
        following = np.where(restart, 1.0, following)
        return Momentum(following, self.smoothness, self.convexity), np.where(restart, 0.0, beta)
