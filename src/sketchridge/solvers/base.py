"""What a solver is: a frozen dataclass of its parameters that yields iterates.

A solver computes. It never prints, stops, validates or reads the clock: the driver does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import Curvature
from sketchridge.evaluation import DualPoint, Evaluation
from sketchridge.problem import RidgeProblem

Array = NDArray[np.float64]


class Expansion(Protocol):
    """What makes points of the problem from those of a smaller one."""

    def point(self, W: Array) -> Array:
        """The coefficients (d, t)."""

    def slope(self, gradient: Array) -> Array:
        """The gradient (d, t) there."""


@dataclass(frozen=True)
class Lower:
    """A point and its objective (t,)."""

    coef: Array
    objective: Array


@dataclass(frozen=True)
class Iterate:
    """A point and what the solver knows of it.

    It may be one of a smaller problem: most are not looked at, and need not be expanded.
    """

    coef: Array  # (d, t)
    evaluation: Evaluation | None = None  # fresh, where the method needs it anyway
    gradient: Array | None = None  # else the method's own running gradient
    objective: Array | None = None  # and objective
    energy: Array | None = None  # and gᵀP⁻¹g, of the one or the other
    curvature: Curvature | None = None  # a tighter certificate than the preconditioner's
    look: bool = False  # whether the running gradient is worth a look every time
    advances: bool = False  # whether the method gets on, though the objective may not show it
    event: str | None = None  # what the history should tell of
    expansion: Expansion | None = None  # of the smaller problem's coef and gradient
    lower: Lower | None = None  # a point with a smaller objective, if a larger gradient
    estimate: Array | None = None  # (t,) of its gap, where there is no running gradient
    duals: DualPoint | None = None  # what it is made of, if that is known
    known: Callable[[], Evaluation | None] | None = None  # what is certain of it without a pass

    def point(self) -> Array:
        """The coefficients (d, t)."""
        return self._whole(self.coef)

    def lower_point(self) -> Array:
        """The coefficients (d, t) of the other point."""
        assert self.lower is not None
        return self._whole(self.lower.coef.copy())  # the solver goes on with it

    def _whole(self, coef: Array) -> Array:
        return coef if self.expansion is None else self.expansion.point(coef)

    def slope(self) -> Array:
        """The running gradient (d, t)."""
        assert self.gradient is not None
        return self.gradient if self.expansion is None else self.expansion.slope(self.gradient)


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
