"""P⁻¹ as the mean of several inverses, each of a group of the rows A.

    P⁻¹ = 1/q Σ (q A_iᵀA_i + μI)⁻¹

A group of s/q rows is factorised in its own smaller side: all of them take a q-th of the work of
one factor of s rows, and their mean is nearly as good where a group has several times the degrees
of freedom that μ leaves. The inverse is operator convex, so P ⪯ 1/q Σ (q A_iᵀA_i + μI) = AᵀA + μI:
whatever bounds that bounds P, and gᵀP⁻¹g certifies as if all rows had been factorised together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.factor import (
    Factor,
    ShiftedCholesky,
    SketchedRows,
    factorise,
    usable_shift,
)
from sketchridge.preconditioner.narrow import (
    Flattening,
    NarrowFactor,
    NarrowRows,
    certifying,
    factorise_narrow,
    widened_factor,
)
from sketchridge.products import added
from sketchridge.threads import run_apart, run_shared


@dataclass(frozen=True, eq=False)
class GroupedFactor:
    """P by the factors of A_iᵀA_i + μ_i I, which are q of the inverses' parts: μ = Σ μ_i."""

    parts: tuple[Factor, ...]
    rows: SketchedRows | NarrowRows  # all of them

    @property
    def groups(self) -> tuple[Factor, ...]:
        """The factors of the groups."""
        return self.parts

    @property
    def cholesky(self) -> ShiftedCholesky:
        """The factor of AᵀA + μI of all rows, made when degrees of freedom are to be counted."""
        return _together(self.rows, self.mu).cholesky

    @property
    def exact(self) -> bool:
        """Whether `solve` is P⁻¹ itself."""
        return all(part.exact for part in self.parts)

    @property
    def columns(self) -> int:
        """The number d of columns."""
        return self.parts[0].columns

    @property
    def side(self) -> int:
        """The number of rows of the matrix that all rows together would be factorised by."""
        return min(sum(part.side for part in self.parts), self.columns)

    @property
    def mu(self) -> float:
        """The μ of what bounds P."""
        return sum(part.mu for part in self.parts)

    @property
    def size(self) -> float:
        """What rounding errors are in proportion to: ‖A‖²."""
        return sum(part.size for part in self.parts)

    @property
    def inflation(self) -> float:
        """The a in AᵀA ⪯ a·BᵀB + error, where B are the rows before they were rounded."""
        return max(part.inflation for part in self.parts)

    @property
    def error(self) -> float:
        """And the error, in its trace."""
        return sum(part.error for part in self.parts)

    @property
    def terms(self) -> float:
        """How many units of roundoff a product with P may be off by, over four."""
        return max(part.terms for part in self.parts)

    @property
    def making(self) -> int:
        """Numbers that the same rows with another μ take in the making, besides the factor."""
        return sum(part.making for part in self.parts)

    @property
    def guessed_dimension(self) -> float:
        """About the degrees of freedom that a group has."""
        return float(np.mean([part.guessed_dimension for part in self.parts]))

    @property
    def smallest(self) -> float:
        """A lower bound of P's eigenvalues."""
        largest_inverse = sum(1.0 / part.smallest for part in self.parts) / len(self.parts) ** 2
        return 1.0 / largest_inverse

    def at(self, mu: float) -> Factor:
        """The same rows with another μ: in float64 and together, where float32 does not bear it."""
        try:
            return grouped(self.rows, self.rows.split(len(self.parts)), mu)[0]
        except np.linalg.LinAlgError:
            return _together(self.rows, mu)

    def certifying(self, most: float) -> GroupedFactor:
        """The same with each μ_i nearer to what was factorised, as `narrow.certifying` says."""
        share = most / len(self.parts)
        return replace(self, parts=tuple(certifying(part, share) for part in self.parts))

    def solve(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t)."""
        return self._mean([partial(part.solve, G) for part in self.parts])

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t), from above."""
        return self._mean([partial(part.energy, G) for part in self.parts])

    def _mean(self, tasks: list[Callable[[], Array]]) -> Array:
        """(q A_iᵀA_i + μI)⁻¹ is a q-th of (A_iᵀA_i + μ_i I)⁻¹, and there are q of them."""
        total: Array = sum(run_apart(tasks)) / len(self.parts) ** 2
        return total


@dataclass(frozen=True, eq=False)
class NarrowGroups(GroupedFactor):
    """The same for groups in float32 of fewer rows than columns, with one T."""

    parts: tuple[NarrowFactor, ...]
    rows: NarrowRows

    def solve(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t): T is applied once for all groups."""
        if G.shape[1] > 1:
            return super().solve(G)
        flattening, columns = self.parts[0].flattening, self.rows.columns
        flat = flattening.apply(G[columns])
        inverses = sum(1.0 / part.raised for part in self.parts)
        inside = self._summed(flattening.apply(flat)[:, 0])[:, None]
        whole = G * sum(1.0 / part.mu for part in self.parts)
        whole[columns] = flattening.apply(inverses * flat - flattening.apply(inside))
        whole /= len(self.parts) ** 2
        return whole

    def _summed(self, v: Array) -> Array:
        """Σ Aᵀ(L Lᵀ)⁻¹A v / μ over the groups, for v (m,)."""
        from sketchridge import kernels

        def part(factor: NarrowFactor) -> Array:
            total, rows = np.zeros(v.size), factor.rows.matrix
            kernels.add_by_rows(rows, factor.lower, v, 1.0 / factor.raised, total)
            return total

        return added(run_shared([partial(part, factor) for factor in self.parts]))


def grouped(
    rows: SketchedRows | NarrowRows, parts: Sequence[SketchedRows | NarrowRows], mu: float
) -> tuple[GroupedFactor, tuple[str, ...]]:
    """Factorise the rows in the groups that they were parted into; notes if μ had to be raised."""
    if isinstance(rows, NarrowRows):
        return _grouped_narrow(rows, cast("Sequence[NarrowRows]", parts), mu), ()
    used, notes = usable_shift(mu, min(rows.shape), rows.size)
    share, wide = used / len(parts), cast("Sequence[SketchedRows]", parts)
    made = run_apart([partial(factorise, part, share) for part in wide])
    return GroupedFactor(tuple(factor for factor, _ in made), rows), notes


def _grouped_narrow(rows: NarrowRows, parts: Sequence[NarrowRows], mu: float) -> GroupedFactor:
    """The same in float32; LinAlgError where that does not bear it."""
    share = mu / len(parts)
    if not all(part.few for part in parts):
        return GroupedFactor(_factorised(parts, share, None), rows)
    flattening, _ = Flattening.learned(rows.matrix, mu)
    return NarrowGroups(_factorised(parts, share, flattening), rows)


def _factorised(
    parts: Sequence[NarrowRows], mu: float, flattening: Flattening | None
) -> tuple[NarrowFactor, ...]:
    return tuple(run_apart([partial(factorise_narrow, part, mu, flattening) for part in parts]))


def _together(rows: SketchedRows | NarrowRows, mu: float) -> Factor:
    """The factor of all rows, in float64."""
    if isinstance(rows, NarrowRows):
        used, _ = usable_shift(mu, min(rows.matrix.shape), rows.size)
        return widened_factor(rows, used)
    return factorise(rows, mu)[0]


def certified_by(factor: Factor, most: float) -> Factor:
    """The factor of the P that certificates rest on."""
    return (
        factor.certifying(most) if isinstance(factor, GroupedFactor) else certifying(factor, most)
    )
