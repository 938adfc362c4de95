"""Column scaling: P = D, the diagonal of C + λI to a power. Cheap, and often enough on text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import Curvature, RidgeCurvature
from sketchridge.columns import dense_column_squares
from sketchridge.preconditioner.base import Array
from sketchridge.problem import Fingerprint, RidgeProblem
from sketchridge.products import CACHED_BLOCK_BYTES
from sketchridge.threads import thread_count
from sketchridge.validation import check_number


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns' mean squares: what a scaling of the columns is made of."""

    raw: Array  # (d,) Σ ω_i x_ij² of the data as given
    centred: Array  # (d,) the diagonal of C; the variances where there is an intercept

    @classmethod
    def of(cls, problem: RidgeProblem) -> Columns:
        """Sum the squares; one pass, and sparse data stays sparse."""
        mean = problem.mean
        squares = np.zeros(problem.d) if mean is None else mean**2
        if isinstance(problem.X, np.ndarray):
            problem.passes += 1
            centred = dense_column_squares(problem.X, problem.weights, mean)
            return cls(centred + squares, centred)
        raw = problem.sparse_column_squares()
        return cls(raw, np.maximum(raw - squares, 0.0))

    @staticmethod
    def memory(problem: RidgeProblem) -> int:
        """The numbers that summing holds: a few vectors, and a block of columns."""
        return (4 + 2 * thread_count()) * problem.d + 2 * CACHED_BLOCK_BYTES // 8

    def scale(self, lam: float, exponent: float) -> Array:
        """D = (diag C + λ)^exponent, (d,)."""
        scale: Array = (self.centred + lam) ** exponent
        return scale


def check_exponent(name: str, value: Any) -> float:
    """A power of the columns' mean squares, from 0 to 1."""
    remedy = "give 0 (no scaling), 0.5 or 1 (columns of equal norm), or a number between"
    if check_number(name, value, 0.0, remedy) > 1:
        raise ValueError(f"{name}={value} is out of range: {remedy}")
    return float(value)


@dataclass(frozen=True, eq=False)
class DiagonalPreconditioner:
    """P = D = (diag C + λ)^exponent."""

    exponent: float
    lam: float
    squares: Columns
    fingerprint: Fingerprint
    name: ClassVar[str] = "diagonal"
    rank: ClassVar[int] = 0
    low_rank: ClassVar[bool] = False
    notes: ClassVar[tuple[str, ...]] = ()

    @property
    def columns(self) -> int:
        """The number d of columns that it is for."""
        return self.squares.centred.size

    @cached_property
    def scale(self) -> Array:
        """D, (d,)."""
        return self.squares.scale(self.lam, self.exponent)

    @property
    def least_curvature(self) -> float:
        """H ⪰ λI is all that is known."""
        return float(self.lam / self.scale.max())

    def directions(self, problem: RidgeProblem) -> int:
        """None is treated by itself."""
        return 0

    def memory(self, problem: RidgeProblem) -> int:
        """The numbers that building it will hold: none, it is built."""
        return 0

    def apply(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t)."""
        return G / self.scale[:, None]

    def curvature(self) -> Curvature:
        """Nothing is known of H but λ."""
        return RidgeCurvature(self.lam)

    def describes(self, problem: RidgeProblem) -> bool:
        """Whether the rows have the same norms; no certificate relies on it."""
        return self.fingerprint == problem.fingerprint

    def of_some(self, columns: NDArray[np.intp], lam: float) -> DiagonalPreconditioner:
        """The scaling of some of the columns, for another λ."""
        squares = Columns(self.squares.raw[columns], self.squares.centred[columns])
        return DiagonalPreconditioner(self.exponent, lam, squares, self.fingerprint)

    def at(self, lam: float) -> DiagonalPreconditioner:
        """The same columns for another λ."""
        return DiagonalPreconditioner(self.exponent, lam, self.squares, self.fingerprint)


@dataclass(frozen=True)
class Diagonal:
    """Columns scaled by a power of their mean squares.

    Parameters
    ----------
    exponent
        P = (diag C + λ)^exponent: 1 is Jacobi's, columns of equal norm; 0.5 goes half the way;
        0 is none.
    """

    exponent: float = 1.0
    name: ClassVar[str] = "diagonal"
    summary: ClassVar[str] = "P = diag(C) + λ, columns scaled to equal norm"
    cost: ClassVar[str] = "one pass to build, O(d) to apply"
    use_when: ClassVar[str] = "columns differ in scale: text, unscaled tables"
    low_rank: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_exponent("exponent", self.exponent)

    def directions(self, problem: RidgeProblem) -> int:
        """None is treated by itself."""
        return 0

    def memory(self, problem: RidgeProblem) -> int:
        """What summing the squares holds."""
        return Columns.memory(problem)

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> DiagonalPreconditioner:
        """Measure the columns in one pass."""
        columns = Columns.of(problem)
        return DiagonalPreconditioner(
            float(self.exponent), problem.lam, columns, problem.fingerprint
        )
