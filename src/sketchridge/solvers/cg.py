"""Preconditioned conjugate gradients on (C + λI) w = Xᵀy / n."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sketchridge.preconditioner import Preconditioner
from sketchridge.problem import Evaluation, RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates, quotient

Storage = Literal["given", "float32"]


@dataclass(frozen=True)
class CG:
    """Conjugate gradients: one product with C an iteration, for all targets together.

    This differs from the textbook in two things. The points that it gives are smoothed (see
    `Smoothed`): they can be certified sooner. And when the driver sends a fresh evaluation (its
    certificate disagreed with the running residual), the iteration restarts from there.

    Parameters
    ----------
    storage
        "float32" keeps a copy of dense float64 data in float32, for the passes of the iteration
        alone: they cost half. What is certified is always computed from the data as given.
    """

    storage: Storage = "given"

    name: ClassVar[str] = "cg"
    summary: ClassVar[str] = "preconditioned conjugate gradients, one pass an iteration"
    cost: ClassVar[str] = "one pass an iteration, about √κ iterations"
    use_when: ClassVar[str] = "anything larger, at any accuracy; with any preconditioner"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "nystrom"

    def __post_init__(self) -> None:
        if self.storage not in ("given", "float32"):
            raise ValueError(f"storage={self.storage!r} must be 'given' or 'float32'")

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The average's point and gradient, and the copy in float32."""
        copied = problem.n * problem.d // 2 if self.storage == "float32" and problem.narrows else 0
        return 2 * problem.d * problem.targets + copied

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: Preconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the point after every iteration, with its running gradient and objective."""
        fresh = problem.evaluate(start)
        yield Iterate(start, evaluation=fresh)
        stored = problem.narrowed() if self.storage == "float32" else problem
        while True:
            fresh = yield from _iterates_from(problem, stored, preconditioner, fresh)


def _iterates_from(
    problem: RidgeProblem,
    stored: RidgeProblem,
    preconditioner: Preconditioner,
    fresh: Evaluation,
) -> Generator[Iterate, Evaluation | None, Evaluation]:
    """Yield the smoothed points after every iteration, until a fresh evaluation is sent.

    The products are those of `stored`, which is the problem itself or a copy of it in float32.
    """
    W, gradient, objective = fresh.coef, fresh.gradient, fresh.objective
    direction = np.zeros_like(W)
    previous = np.ones(problem.targets)
    steepest = preconditioner.apply(gradient)
    energy = np.sum(gradient * steepest, axis=0)
    smoothed = Smoothed(W, gradient, objective, energy)
    while True:
        direction = steepest + direction * (energy / previous)
        image = stored.gram(direction) + problem.lam * direction
        problem.passes += stored is not problem
        step = quotient(energy, np.sum(direction * image, axis=0))
        W = W - direction * step
        gradient = gradient - image * step
        objective = objective - 0.5 * step * energy
        previous = np.where(energy > 0, energy, 1.0)
        steepest = preconditioner.apply(gradient)
        energy = np.sum(gradient * steepest, axis=0)
        smoothed = smoothed.joined_by(Smoothed(W, gradient, objective, energy))
        sent = yield Iterate(
            smoothed.coef,
            gradient=smoothed.gradient,
            objective=smoothed.objective,
            energy=smoothed.energy,
        )
        if sent is not None:
            return sent


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The average of CG's points whose gradient is the least in P's norm (residual smoothing).

    CG makes F small, and the certificate needs a small gradient, which CG's own points have later
    (docs/decisions/15-the-points-that-cg-gives.md). The gradients of CG are orthogonal in P's norm,
    so the best weights are one over their squared norms.
    """

    coef: Array  # (d, t)
    gradient: Array  # (d, t)
    objective: Array  # (t,)
    energy: Array  # (t,) gᵀP⁻¹g

    def joined_by(self, new: Smoothed) -> Smoothed:
        """The average with one point more."""
        share = quotient(self.energy, self.energy + new.energy)
        move, turn = new.coef - self.coef, new.gradient - self.gradient
        between = 0.5 * share * (1.0 - share) * np.sum(move * turn, axis=0)
        return Smoothed(
            self.coef + share * move,
            self.gradient + share * turn,
            self.objective + share * (new.objective - self.objective) - between,
            share * new.energy,
        )
