"""P = AᵀA + μI as a preconditioner: the factor of a few rows, and where the rows come from.

μ is λ, or a shift that is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Protocol

import numpy as np

from sketchridge.certificate import Curvature
from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.factor import (
    Factor,
    FactorCurvature,
    factorise,
    raised_note,
    usable_shift,
)
from sketchridge.preconditioner.grouped import certified_by, grouped
from sketchridge.preconditioner.narrow import factorise_narrow
from sketchridge.preconditioner.narrow_rows import NarrowRows
from sketchridge.preconditioner.sketched_rows import SketchedRows, SummedRows
from sketchridge.problem import EPSILON, Fingerprint, RidgeProblem
from sketchridge.threads import run_apart

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

    slopes: tuple[Array, ...]  # (d, t) Aᵀz, or that of every group of rows
    squares: Array  # (t,) ‖z‖²
    values: Array  # (s, t) z

    @classmethod
    def of(cls, rows: SketchedRows, z: Array) -> Targets:
        """Of all rows, at once."""
        return cls((rows.adjoint(z),), np.sum(z**2, axis=0), z)

    def of_groups(self, parts: Sequence[SketchedRows | NarrowRows]) -> Targets:
        """The same for rows that are parted."""
        ends = np.cumsum([0, *(part.matrix.shape[0] for part in parts)])
        values = [self.values[start:stop] for start, stop in pairwise(ends)]
        tasks = [partial(part.slope, z) for part, z in zip(parts, values, strict=True)]
        return replace(self, slopes=tuple(run_apart(tasks)))

    def start(self, factor: Factor, rows: int) -> Array:
        """Where the sketched problem has its minimum, (d, t), or 0 where that is no better.

        Of the objective at 0 it leaves a share r, less than the data's own share f = r/(1 − k/s):
        k/s of the noise is fitted too, by as many degrees of freedom as λ leaves. The point is off
        the best by about f·k/(s − k), and 0 by 1 − f: it should be clearly less. Groups have a
        minimum each, and the mean of q is off by a q-th.
        """
        groups, used = factor.groups, factor.guessed_dimension
        each = rows / len(groups)
        if used > FITTED * each:
            return np.zeros_like(self.slopes[0])
        solves = [partial(part.solve, s) for part, s in zip(groups, self.slopes, strict=True)]
        points = run_apart(solves) if len(solves) > 1 else [solves[0]()]
        fitted = sum(np.sum(s * p, axis=0) for s, p in zip(self.slopes, points, strict=True))
        left = 1.0 - np.divide(fitted, self.squares, out=np.zeros_like(fitted), where=fitted > 0)
        share = left / (1.0 - used / each)
        noise = share * used / (each - used) / len(groups)
        return np.where(noise < CLEARLY * (1.0 - share), sum(points) / len(groups), 0.0)


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
    made: tuple[int, bool] = (1, True)  # in how many groups, and whether its inverse is exact

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
        groups: int = 1,
    ) -> SketchedPreconditioner:
        """Factorise the rows A for the problem's λ, or a shift that is larger."""
        factor: Factor
        mu = max(problem.lam, shift)
        if groups > 1:
            assert not isinstance(rows, SummedRows), "of which nothing is left to part"
            parts = rows.split(groups)
            factor, raised = grouped(rows, parts, mu)
            targets = targets.of_groups(parts)
        else:
            factor, raised = _factorised(rows, mu)
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
            (len(factor.groups), factor.exact),
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
        if (len(self.factor.groups), self.factor.exact) == self.made:
            return self.told + self.raised
        anew = f"for λ = {self.lam:.3g} all rows were factorised together, in float64"
        return (*self.told, *self.raised, anew)

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
        factor = certified_by(self.factor, excess * self.lam)
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
        factor = self.factor.at(mu)
        if factor.mu > mu * (1.0 + 1e-9):  # a group of heavy rows needs more than all together
            raised = (raised_note(max(lam, self.shift), factor.mu),)
        return replace(self, lam=lam, factor=factor, raised=raised)


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
