"""SDCA: stochastic dual coordinate ascent (Shalev-Shwartz and Zhang), and its dual-free form.

The exact dual form is invariant to P: w = Σ ω_i α_i x_i / λ whatever the coordinates. With a
preconditioner it is the dual-free form (Shalev-Shwartz) on the shifted objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterates
from sketchridge.solvers.components import memory_of_rows
from sketchridge.solvers.dual import dual_iterates, dual_steps

Sampling = Literal["uniform", "importance"]


@dataclass(frozen=True)
class SDCA:
    """Dual coordinate ascent: exact without a preconditioner, dual-free with one.

    Parameters
    ----------
    sampling
        "importance" draws a row in proportion to ω_i x_iᵀP⁻¹x_i + λa, "uniform" all alike.
    """

    sampling: Sampling = "importance"
    name: ClassVar[str] = "sdca"
    summary: ClassVar[str] = "stochastic dual coordinate ascent; dual-free with a preconditioner"
    cost: ClassVar[str] = "two passes an epoch, n numbers of memory (n·k with a preconditioner)"
    use_when: ClassVar[str] = "λ is large, or to compare"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "lanczos"

    def __post_init__(self) -> None:
        if self.sampling not in ("uniform", "importance"):
            raise ValueError(f"sampling={self.sampling!r} must be 'uniform' or 'importance'")

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The rows' coordinates, the dual variables twice, and a copy of Fortran rows."""
        duals = 2 * problem.n * (rank + 1) * problem.targets
        return memory_of_rows(problem, rank, problem.n) + duals

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the point after every n steps."""
        steps = dual_steps(problem, preconditioner, self.sampling == "uniform")
        return dual_iterates(problem, steps, start, rng)
