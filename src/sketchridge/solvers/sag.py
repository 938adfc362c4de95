"""SAG (Le Roux, Schmidt, Bach), in the preconditioner's metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterates
from sketchridge.solvers.components import Rows, memory_of_rows
from sketchridge.solvers.table import TableSteps, table_iterates, uniform_sampler
from sketchridge.validation import check_optional

# In units of one over the largest smoothness of a row. The theory asks for 1/16; 1 is common.
BOLD_STEP = 1.0


@dataclass(frozen=True)
class SAG:
    """SAG: a biased step along the mean of the remembered gradients, rows drawn uniformly.

    Parameters
    ----------
    step
        The step in units of 1/β, β the largest smoothness of a row. None starts at 1 and backs
        off when the objective grows.
    """

    step: float | None = None
    name: ClassVar[str] = "sag"
    summary: ClassVar[str] = "stochastic average gradient, uniform sampling"
    cost: ClassVar[str] = "one pass an epoch, n numbers of memory"
    use_when: ClassVar[str] = "to compare; saga does as well and samples better"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "lanczos"

    def __post_init__(self) -> None:
        check_optional("step", self.step, "give a positive number, in units of 1/β, or None")

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
        steps = sag_steps(problem, preconditioner)
        step = self.step or BOLD_STEP
        return table_iterates(problem, steps, False, start, step, self.step is None, rng)


def sag_steps(problem: RidgeProblem, preconditioner: LowRankPreconditioner) -> TableSteps:
    """Rows drawn uniformly; a change weighs ω_i, as it does in the mean."""
    rows = Rows.of(problem, preconditioner)
    present = int(np.count_nonzero(problem.weights))
    largest = present * float(np.max(problem.weights * rows.forms))
    return TableSteps(
        preconditioner,
        rows,
        uniform_sampler(problem),
        problem.weights,
        largest + problem.lam * preconditioner.outside,
    )
