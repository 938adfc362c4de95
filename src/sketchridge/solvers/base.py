"""What a solver is: a frozen dataclass of its parameters that yields iterates.

A solver computes. It never prints, stops, validates or reads the clock: the driver does.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import Curvature
from sketchridge.problem import Evaluation, RidgeProblem

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Iterate:
    """A point (d, t) and what the solver knows of it."""

    coef: Array
    evaluation: Evaluation | None = None  # fresh, where the method needs it anyway
    gradient: Array | None = None  # else the method's own running gradient
    objective: Array | None = None  # and objective
    energy: Array | None = None  # and gᵀP⁻¹g
    curvature: Curvature | None = None  # a tighter certificate than the preconditioner's
    look: bool = False  # whether the running gradient is worth a look every time
    advances: bool = False  # whether the method gets on, though the objective may not show it
    event: str | None = None  # what the history should tell of


# The driver may send a fresh evaluation of the yielded point back.
Iterates = Generator[Iterate, Evaluation | None, None]


class Solver(Protocol):
    """An algorithm with its parameters."""

    name: ClassVar[str]
    summary: ClassVar[str]
    cost: ClassVar[str]  # what an iteration takes
    use_when: ClassVar[str]
    uses_preconditioner: ClassVar[bool]
    default_preconditioner: ClassVar[str]

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The numbers that it will hold besides a few vectors, with a preconditioner of a rank."""

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: Any,  # a built one, of a kind that ALLOWED lets through
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield points, from the start on, for as long as they are asked for.

        A method that is not iterative yields its point and ends.
        """


def quotient(numerator: Array, denominator: Array) -> Array:
    """Elementwise quotient; 0 where a target is solved and the denominator vanishes."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)
