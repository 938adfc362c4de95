"""What a preconditioner is, built or to be built."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import Curvature
from sketchridge.problem import RidgeProblem
from sketchridge.validation import check_integer

Array = NDArray[np.float64]
Rank = int | Literal["auto"]
Rows = int | Literal["auto"]

# A factor that fills more than this share of the machine's memory is refused.
LARGEST_SHARE = 0.5


class Preconditioner(Protocol):
    """A matrix P near H = C + λI whose inverse is cheap to apply."""

    @property
    def name(self) -> str:
        """The name of the recipe that it came from."""

    @property
    def lam(self) -> float:
        """The λ that it is for."""

    @property
    def columns(self) -> int:
        """The number d of columns that it is for."""

    @property
    def rank(self) -> int:
        """The number of directions in which it is more than a diagonal matrix."""

    @property
    def low_rank(self) -> bool:
        """Whether P⁻¹ = a·I + U diag(e − a) Uᵀ, which the stochastic solvers need."""

    @property
    def least_curvature(self) -> float:
        """About the smallest eigenvalue of P^{-1/2} H P^{-1/2}; momentum goes by it, no proof."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan should tell of it."""

    def directions(self, problem: RidgeProblem) -> int:
        """The rank, as a recipe gives it."""

    def memory(self, problem: RidgeProblem) -> int:
        """The numbers that building it will hold: none, it is built."""

    def apply(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t)."""

    def curvature(self) -> Curvature:
        """What it knows of H, for the certificate."""

    def describes(self, problem: RidgeProblem) -> bool:
        """Whether it was made from this problem's data; what it knows of H holds only then."""

    def at(self, lam: float) -> Preconditioner:
        """The same sketch for another λ."""


class PreconditionerSpec(Protocol):
    """A recipe that builds a preconditioner for a problem."""

    name: ClassVar[str]
    summary: ClassVar[str]
    cost: ClassVar[str]  # what building and applying it take
    use_when: ClassVar[str]

    @property
    def low_rank(self) -> bool:
        """Whether what it builds is a multiple of the identity and a few directions."""

    def directions(self, problem: RidgeProblem) -> int:
        """The rank that it will have; parameters out of range are refused here."""

    def memory(self, problem: RidgeProblem) -> int:
        """The numbers that building it will hold at its peak, about."""

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> Any:
        """Sketch the problem and make the preconditioner."""


def resolve_rank(rank: Rank, default: int, problem: RidgeProblem) -> int:
    """The rank to use; 'auto' is the default, or less on small data."""
    limit = min(problem.n, problem.d)
    if rank == "auto":
        return min(default, limit)
    if not 1 <= rank <= limit:
        raise ValueError(
            f"rank={rank} is out of range: it must be from 1 to min(n, d) = {limit}; "
            "choose a smaller rank, or rank='auto'"
        )
    return rank


def check_rows(rows: Any) -> None:
    """A positive integer, or "auto"."""
    if not (isinstance(rows, str) and rows == "auto"):
        check_integer("rows", rows, 1, "give an integer from 1 to n, or 'auto'")


def resolve_rows(rows: Rows, times: int, problem: RidgeProblem, name: str) -> int:
    """The number s of rows of a sketch; one whose factor cannot be held is refused.

    "auto" is `times` the columns: fewer leave P badly conditioned, more cost more than they
    save. Where there are few rows it is half of them, for all of them would be a direct solve.
    """
    if rows != "auto" and rows > problem.n:
        raise ValueError(
            f"rows={rows} is out of range: X has {problem.n}; give fewer, or rows='auto'"
        )
    count = min(times * problem.d, -(-problem.n // 2)) if rows == "auto" else rows
    side = min(count, problem.d)
    needed, limit = 8 * side**2, LARGEST_SHARE * machine_memory()
    if needed > limit:
        fewer = int(np.sqrt(limit / 8))
        raise ValueError(
            f"{name} would factorise a {side} × {side} matrix of {needed / 1e9:.3g} GB, more than "
            f"half of this machine's memory: give rows={fewer} or fewer, or use 'nystrom'"
        )
    return count


@cache
def machine_memory() -> float:
    """Bytes of memory of this machine; unbounded where it does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return np.inf


def uniform_rows(problem: RidgeProblem, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """So many of the rows that count, drawn without replacement, ascending."""
    present = np.flatnonzero(problem.weights > 0)
    return np.sort(rng.choice(present, min(rows, present.size), replace=False))
