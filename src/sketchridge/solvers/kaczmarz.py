"""Randomised Kaczmarz (Strohmer and Vershynin) on the augmented rows (x_i, √(nλ) e_i).

The system X w + √(nλ) z = y is consistent, and the smallest (w, z) that solves it has the ridge
solution as its w: that is where Kaczmarz's projections converge to from zero. A projection onto
row i is the maximisation of SDCA's dual in α_i = √(nλ) z_i, so the steps are the same; rows are
drawn in proportion to the squared norm of the augmented row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterates
from sketchridge.solvers.components import memory_of_rows
from sketchridge.solvers.dual import dual_iterates, dual_steps


@dataclass(frozen=True)
class Kaczmarz:
    """Projections onto one augmented row after another."""

    name: ClassVar[str] = "kaczmarz"
    summary: ClassVar[str] = "randomised projections onto augmented rows"
    cost: ClassVar[str] = "two passes an epoch, n numbers of memory"
    use_when: ClassVar[str] = "λ is large, or to compare"
    uses_preconditioner: ClassVar[bool] = False
    default_preconditioner: ClassVar[str] = "none"

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The dual variables twice, and a copy of Fortran rows."""
        return memory_of_rows(problem, rank, problem.n) + 2 * problem.n * problem.targets

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the point after every n projections."""
        steps = dual_steps(problem, preconditioner, "importance")
        return dual_iterates(problem, steps, start, rng)
