"""Column scaling: P = D, the diagonal of C + λI to a power. Cheap, and often enough on text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sketchridge.certificate import Curvature, RidgeCurvature
from sketchridge.preconditioner.base import Array
from sketchridge.problem import RidgeProblem
from sketchridge.validation import check_number

BLOCK_BYTES = 6 << 20


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns' mean squares: what a scaling of the columns is made of."""

    raw: Array  # (d,) Σ ω_i x_ij² of the data as given
    centred: Array  # (d,) the diagonal of C; the variances where there is an intercept

    @classmethod
    def of(cls, problem: RidgeProblem) -> Columns:
        """Sum the squares; one pass, and sparse data stays sparse."""
        problem.passes += 1
        weights, mean = problem.weights, problem.mean
        squares = np.zeros(problem.d) if mean is None else mean**2
        if isinstance(problem.X, np.ndarray):
            centred = _dense_squares(problem.X, weights, mean)
            return cls(centred + squares, centred)
        raw = _sparse_squares(problem.X, weights)
        return cls(raw, np.maximum(raw - squares, 0.0))

    def scale(self, lam: float, exponent: float) -> Array:
        """D = (diag C + λ)^exponent, (d,)."""
        scale: Array = (self.centred + lam) ** exponent
        return scale


def _dense_squares(X: Any, weights: Array, mean: Array | None) -> Array:
    """Σ ω_i (x_ij − mean_j)², (d,)."""
    n, d = X.shape
    total, step = np.zeros(d), max(1, BLOCK_BYTES // (8 * d))
    for start in range(0, n, step):
        block = X[start : start + step].astype(np.float64)
        if mean is not None:
            block -= mean
        block *= block
        total += weights[start : start + step] @ block
    return total


def _sparse_squares(X: Any, weights: Array) -> Array:
    """Σ ω_i x_ij² of a CSR matrix, (d,)."""
    n, d = X.shape
    total, step = np.zeros(d), max(1, n * (BLOCK_BYTES // 8) // max(1, X.nnz))
    for start in range(0, n, step):
        bounds = X.indptr[start : start + step + 1]
        values = slice(bounds[0], bounds[-1])
        omega = np.repeat(weights[start : start + step], np.diff(bounds))
        squares = omega * X.data[values].astype(np.float64) ** 2
        total += np.bincount(X.indices[values], squares, minlength=d)
    return total


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
    fingerprint: bytes
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

    def for_columns_of(self, problem: RidgeProblem) -> DiagonalPreconditioner:
        """The same scaling of another problem's columns; one pass over it."""
        squares = Columns.of(problem)
        return DiagonalPreconditioner(self.exponent, problem.lam, squares, self.fingerprint)

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
        """A few vectors, and a block of rows."""
        return 4 * problem.d + 2 * BLOCK_BYTES // 8

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> DiagonalPreconditioner:
        """Measure the columns in one pass."""
        columns = Columns.of(problem)
        return DiagonalPreconditioner(
            float(self.exponent), problem.lam, columns, problem.fingerprint
        )
