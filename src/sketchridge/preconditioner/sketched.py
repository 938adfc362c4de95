"""P = AᵀA + μI as a preconditioner: the factor of a few rows, and where the rows come from.

μ is λ, or a shift that is larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from sketchridge.certificate import Curvature
from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.factor import (
    Factor,
    FactorCurvature,
    SketchedRows,
    SummedRows,
    factorise,
    usable_shift,
)
from sketchridge.preconditioner.narrow import NarrowRows, certifying, factorise_narrow
from sketchridge.problem import EPSILON, Fingerprint, RidgeProblem

# What the noise is reckoned to cost a start must be at most this share of what it gains.
CLEARLY = 0.7
# A few rows with more degrees of freedom than this share of them fit whatever the targets are.
FITTED = 0.75


class RowSource(Protocol):
    """Where the rows A of a sketch come from: it can make them again from the same data."""

    @property
    def excess(self) -> float:
        """The c with AᵀA ⪯ c·C."""

    def image(self, problem: RidgeProblem, vector: Array) -> Array:
        """A times a vector (d, 1), from the problem's data, (s, 1)."""


@dataclass(frozen=True, eq=False)
class Targets:
    """What is left of the targets when the rows become a few: z (s, t)."""

    slope: Array  # (d, t) Aᵀz
    squares: Array  # (t,) ‖z‖²

    @classmethod
    def of(cls, rows: SketchedRows, z: Array) -> Targets:
        """Of all rows, at once."""
        return cls(rows.adjoint(z), np.sum(z**2, axis=0))

    def start(self, factor: Factor, rows: int) -> Array:
        """Where the sketched problem has its minimum, (d, t), or 0 where that is no better.

        Of the objective at 0 it leaves a share r, less than the data's own share f = r/(1 − k/s):
        k/s of the noise is fitted too, by as many degrees of freedom as λ leaves. The point is off
        the best by about f·k/(s − k), and 0 by 1 − f: it should be clearly less.
        """
        used = factor.guessed_dimension
        if used > FITTED * rows:
            return np.zeros_like(self.slope)
        point = factor.solve(self.slope)
        fitted = np.sum(self.slope * point, axis=0)
        left = 1.0 - np.divide(fitted, self.squares, out=np.zeros_like(fitted), where=fitted > 0)
        share = left / (1.0 - used / rows)
        return np.where(share * used / (rows - used) < CLEARLY * (1.0 - share), point, 0.0)


@dataclass(frozen=True, eq=False)
class SketchedPreconditioner:
    """P = AᵀA + μI, with what knows its data again."""

    name: str
    lam: float
    factor: Factor
    source: RowSource
    rounding: float  # a bound of P's rounding error but for μ's part
    expected: float  # λ_min(P^{-1/2} H P^{-1/2}), about, where μ is λ
    fingerprint: Fingerprint
    probe: Array  # (s, 1) A times the vector of `probe_vector`
    told: tuple[str, ...]
    start: Array  # (d, t) a good one for the targets that it came with
    raised: tuple[str, ...] = ()
    shift: float = 0.0  # μ is at least this, and λ

    @classmethod
    def of(
        cls,
        name: str,
        problem: RidgeProblem,
        rows: SketchedRows | SummedRows | NarrowRows,
        probe: Array,
        targets: Targets,
        source: RowSource,
        rounding: float,
        expected: float,
        *told: str,
        shift: float = 0.0,
    ) -> SketchedPreconditioner:
        """Factorise the rows A for the problem's λ, or a shift that is larger."""
        factor, raised = _factorised(rows, max(problem.lam, shift))
        return cls(
            name,
            problem.lam,
            factor,
            source,
            rounding,
            expected,
            problem.fingerprint,
            probe,
            told,
            targets.start(factor, len(probe)),
            raised,
            shift,
        )

    @property
    def least_curvature(self) -> float:
        """About the smallest eigenvalue of P^{-1/2} H P^{-1/2}."""
        return self.expected * (min(1.0, self.lam / self.shift) if self.shift else 1.0)

    @property
    def low_rank(self) -> bool:
        """It is not."""
        return False

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan should tell of it."""
        return self.told + self.raised

    @property
    def columns(self) -> int:
        """The number d of columns that it is for."""
        return self.factor.columns

    @property
    def rank(self) -> int:
        """The number of directions that the rows span."""
        return self.factor.side

    def directions(self, problem: RidgeProblem) -> int:
        """The rank, as a recipe gives it."""
        return self.rank

    def memory(self, problem: RidgeProblem) -> int:
        """Nothing for its own λ; a factor more for another, and what making it takes."""
        again = 3 * self.rank**2 + self.factor.making
        return 0 if problem.given_lam == self.lam else again

    def apply(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t)."""
        return self.factor.solve(G)

    def curvature(self) -> Curvature:
        """P itself or one near it, with the constant that bounds it by H."""
        excess = self.factor.inflation * self.source.excess
        factor = certifying(self.factor, excess * self.lam)
        penalty = 4 * self.rank * EPSILON * self.rank * factor.mu
        error = self.rounding + factor.error + penalty
        return FactorCurvature(factor, self.lam, excess, error)

    def describes(self, problem: RidgeProblem) -> bool:
        """Whether the rows of the sketch come from the problem's data."""
        if self.fingerprint != problem.fingerprint:
            return False
        vector = probe_vector(problem.d)
        difference = self.source.image(problem, vector) - self.probe
        size = np.sqrt(self.source.excess * problem.raw_trace) * np.linalg.norm(vector)
        return bool(np.linalg.norm(difference) <= 1e-10 * size)

    def at(self, lam: float) -> SketchedPreconditioner:
        """The same rows for another λ: one more factorisation."""
        if lam == self.lam:
            return self
        mu, raised = usable_shift(max(lam, self.shift), self.factor.side, self.factor.size)
        return replace(self, lam=lam, factor=self.factor.at(mu), raised=raised)


def _factorised(
    rows: SketchedRows | SummedRows | NarrowRows, mu: float
) -> tuple[Factor, tuple[str, ...]]:
    if isinstance(rows, NarrowRows):
        return factorise_narrow(rows, mu), ()
    return factorise(rows, mu)


def probe_vector(d: int) -> Array:
    """A vector (d, 1) whose image tells data apart."""
    vector: Array = np.cos(np.arange(1.0, d + 1.0))[:, None]
    return vector


def expected_least(rows: int, d: int) -> float:
    """λ_min(P^{-1/2} H P^{-1/2}) as of s random rows in d dimensions (Marchenko–Pastur)."""
    return float(1.0 / (1.0 + np.sqrt(d / rows)) ** 2)
