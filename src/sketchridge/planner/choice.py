"""What a plan is made of: a method with its predicted cost, and the one that was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sketchridge.preconditioner import BuiltPreconditioner, NoPreconditioner, PreconditionerSpec
from sketchridge.problem import RidgeProblem
from sketchridge.solution import Forecast
from sketchridge.solvers import CG, AcceleratedSVRG, Solver


@dataclass(frozen=True)
class Choice:
    """A solver, what preconditions it, and the reason in words."""

    solver: Solver
    preconditioner: PreconditionerSpec | BuiltPreconditioner
    reason: str
    is_open: bool = False  # whether `plan` is to decide, once the data has been read
    forecasts: tuple[Forecast, ...] = ()
    fallback: Candidate | None = None  # a sure method, for when this one is slower than expected
    seconds_a_pass: float = 0.0  # of this method, as predicted
    probe: Any = None  # the sketch that the plan was made with, for the certificate
    otherwise: float | None = None  # of what may be planned anew: the seconds that it should take
    tried: bool = False  # whether that was tried before


@dataclass(frozen=True)
class Candidate:
    """A method with its predicted cost."""

    solver: Solver
    preconditioner: PreconditionerSpec | BuiltPreconditioner
    passes: float
    seconds: float  # all of it
    memory: int  # bytes beyond X
    sure: bool = False  # whether the prediction does not depend on the spectrum

    @classmethod
    def of(
        cls,
        problem: RidgeProblem,
        solver: Solver,
        preconditioner: Any,
        passes: float,
        seconds: float,
        sure: bool = False,
    ) -> Candidate:
        """The method with so many passes and seconds predicted, and the memory that it needs."""
        memory = memory_needed(problem, Choice(solver, preconditioner, ""))
        return cls(solver, preconditioner, passes, seconds, memory, sure)

    @property
    def label(self) -> str:
        """The method in a few words."""
        name = self.preconditioner.name
        if name == NoPreconditioner.name:
            return self._solver
        size = getattr(self.preconditioner, "rank", getattr(self.preconditioner, "rows", None))
        narrow = getattr(self.preconditioner, "storage", None) == "float32"
        groups = getattr(self.preconditioner, "groups", 1)
        rows = (f" {size}" if size else "") + (f" in {groups} groups" if groups > 1 else "")
        return f"{self._solver} with {name}{rows}" + " (32 bits)" * narrow

    @property
    def _solver(self) -> str:
        narrow = isinstance(self.solver, CG) and self.solver.storage == "float32"
        return self.solver.name + (" in float32" if narrow else "")

    def forecast(self) -> Forecast:
        """For the plan."""
        return Forecast(self.label, self.passes, self.seconds, self.memory)


def memory_needed(problem: RidgeProblem, choice: Choice) -> int:
    """Bytes beyond X that the choice will hold at its peak, about."""
    vectors = (6 * problem.d + 4 * problem.n) * problem.targets
    numbers = choice.preconditioner.memory(problem)
    rank = choice.preconditioner.directions(problem)
    if isinstance(choice.solver, AcceleratedSVRG) and not choice.preconditioner.low_rank:
        numbers += choice.solver.memory_by_columns(problem, rank)
    else:
        numbers += choice.solver.memory(problem, rank)
    return 8 * (vectors + numbers) + problem.code_bytes
