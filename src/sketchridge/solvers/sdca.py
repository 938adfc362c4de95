"""SDCA: stochastic dual coordinate ascent (Shalev-Shwartz and Zhang), and its dual-free form.

The exact dual form is invariant to P: w = Σ ω_i α_i x_i / λ whatever the coordinates. With a
preconditioner it is the dual-free form (Shalev-Shwartz) on the shifted objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterates
from sketchridge.solvers.components import memory_of_rows
from sketchridge.solvers.dual import Sampling, dual_iterates, dual_steps
from sketchridge.solvers.weighed import WeighedEpochs, threads_for

Moves = Literal["plain", "weighed"]


@dataclass(frozen=True)
class SDCA:
    """Dual coordinate ascent: exact without a preconditioner, dual-free with one.

    Parameters
    ----------
    sampling
        "importance" draws a row in proportion to ω_i x_iᵀP⁻¹x_i + λa, "uniform" all alike;
        "shuffled" takes every row once an epoch, which is faster where λ is large; without a
        preconditioner (preconditioner="none") its gap is then reckoned on the way, and certified
        by the dual.
    moves
        "weighed", where rows are shuffled and there is no preconditioner, lets every thread take
        some of the rows from the same point, and makes the best of what they did and the move
        before: fewer epochs on one thread, faster ones on several. "plain" takes row after row.
    """

    sampling: Sampling = "importance"
    moves: Moves = "plain"
    name: ClassVar[str] = "sdca"
    summary: ClassVar[str] = "stochastic dual coordinate ascent; dual-free with a preconditioner"
    cost: ClassVar[str] = "one or two passes an epoch, n numbers of memory (n·k preconditioned)"
    use_when: ClassVar[str] = "sparse data and nλ about as large as a row's squared norm"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "lanczos"

    def __post_init__(self) -> None:
        if self.sampling not in get_args(Sampling):
            names = ", ".join(map(repr, get_args(Sampling)))
            raise ValueError(f"sampling={self.sampling!r} must be one of {names}")
        if self.moves not in get_args(Moves):
            raise ValueError(f"moves={self.moves!r} must be 'plain' or 'weighed'")

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The rows' coordinates, the dual variables twice, and a copy of Fortran rows."""
        duals = 2 * problem.n * (rank + 1) * problem.targets
        if self.moves == "weighed":
            columns = (threads_for(problem) + 4) * problem.d
            duals += columns + (4 * problem.n + 2 * problem.d) * problem.targets
        return memory_of_rows(problem, rank, problem.n) + duals

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the point after every n steps."""
        steps = dual_steps(problem, preconditioner, self.sampling)
        if self.moves == "plain":
            return dual_iterates(problem, steps, start, rng)
        if preconditioner.rank or self.sampling != "shuffled":
            problem.notes.append(
                "moves are weighed where rows are shuffled and there is no preconditioner: here "
                "they are plain"
            )
            return dual_iterates(problem, steps, start, rng)
        return dual_iterates(problem, steps, start, rng, WeighedEpochs(problem, steps).advance)
