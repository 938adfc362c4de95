"""SAGA with importance sampling (Defazio, Bach, Lacoste-Julien), in the preconditioner's metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterates
from sketchridge.solvers.components import Components, memory_of_rows
from sketchridge.solvers.table import TableSteps, table_iterates
from sketchridge.validation import check_optional

# In units of 1/β̂; from about 1 on it diverges, and the theory asks for a third.
BOLD_STEP = 0.5
# A row that is drawn seldom keeps a stale residual: this share of the draws goes to all alike.
EVENNESS = 0.5


@dataclass(frozen=True)
class SAGA:
    """SAGA: an unbiased step, and every row's last residual remembered.

    Parameters
    ----------
    step
        The step in units of 1/β̂. None starts bold and backs off when the objective grows.
    """

    step: float | None = None
    name: ClassVar[str] = "saga"
    summary: ClassVar[str] = "stochastic gradient with a table of residuals, importance sampling"
    cost: ClassVar[str] = "one pass an epoch, n numbers of memory"
    use_when: ClassVar[str] = "κ̃ is at most about n, to moderate accuracy"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "lanczos"

    def __post_init__(self) -> None:
        check_optional("step", self.step, "give a positive number, in units of 1/β̂, or None")

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The rows' coordinates, three tables, and a copy of Fortran rows."""
        return memory_of_rows(problem, rank, problem.n) + 3 * problem.n * problem.targets

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the point after every n steps."""
        steps = saga_steps(problem, preconditioner)
        step = self.step or BOLD_STEP
        return table_iterates(problem, steps, True, start, step, self.step is None, rng)


def saga_steps(problem: RidgeProblem, preconditioner: LowRankPreconditioner) -> TableSteps:
    """Rows drawn by smoothness, with a share for all alike; a change weighs ω_i / p_i."""
    components = Components.of(problem, preconditioner, evenness=EVENNESS)
    return TableSteps(
        preconditioner,
        components.rows,
        components.sampler,
        components.scales,
        components.smoothness,
    )
