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
    factorise,
    raised_note,
    usable_shift,
)
from sketchridge.preconditioner.flattening import BLOCK_BYTES, Flattening
from sketchridge.preconditioner.narrow import (
    NarrowFactor,
    certifying,
    check_range,
    factorise_checked,
    widened_factor,
)
from sketchridge.preconditioner.narrow_rows import NarrowRows
from sketchridge.preconditioner.sketched_rows import SketchedRows
from sketchridge.summing import added
from sketchridge.threads import run_apart, run_shared, thread_count


@dataclass(frozen=True, eq=False)
class GroupedFactor:
    """P by the factors of A_iᵀA_i + μ_i I, one for each of the q groups; μ is Σ μ_i."""

    groups: tuple[Factor, ...]
    rows: SketchedRows | NarrowRows  # all of them

    @property
    def cholesky(self) -> ShiftedCholesky:
        """The factor of AᵀA + μI of all rows, made when degrees of freedom are to be counted."""
        return _together(self.rows, self.mu).cholesky

    @property
    def exact(self) -> bool:
        """Whether `solve` is P⁻¹ itself."""
        return all(group.exact for group in self.groups)

    @property
    def columns(self) -> int:
        """The number d of columns."""
        return self.groups[0].columns

    @property
    def side(self) -> int:
        """The number of rows of the matrix that all rows together would be factorised by."""
        return min(sum(group.side for group in self.groups), self.columns)

    @property
    def mu(self) -> float:
        """The μ of what bounds P."""
        return sum(group.mu for group in self.groups)

    @property
    def size(self) -> float:
        """What rounding errors are in proportion to: ‖A‖²."""
        return sum(group.size for group in self.groups)

    @property
    def inflation(self) -> float:
        """The a in AᵀA ⪯ a·BᵀB + error, where B are the rows before they were rounded."""
        return max(group.inflation for group in self.groups)

    @property
    def error(self) -> float:
        """And the error, in its trace."""
        return sum(group.error for group in self.groups)

    @property
    def terms(self) -> float:
        """How many units of roundoff a product with P may be off by, over four."""
        return max(group.terms for group in self.groups)

    @property
    def making(self) -> int:
        """Numbers that the same rows with another μ take in the making, with their factors.

        They may have to be factorised together, if they are in float32.
        """
        side, threads = max(group.side for group in self.groups), thread_count()
        factors = (len(self.groups) + 3 * threads) * side**2
        matrix = self.rows.matrix
        if isinstance(self.rows, NarrowRows):
            return factors + matrix.size + threads * BLOCK_BYTES // 8
        return factors + (0 if isinstance(matrix, np.ndarray) else 2 * int(matrix.nnz))

    @property
    def guessed_dimension(self) -> float:
        """About the degrees of freedom that a group has."""
        return float(np.mean([group.guessed_dimension for group in self.groups]))

    @property
    def smallest(self) -> float:
        """A lower bound of P's eigenvalues."""
        largest_inverse = sum(1.0 / group.smallest for group in self.groups) / len(self.groups) ** 2
        return 1.0 / largest_inverse

    def at(self, mu: float) -> Factor:
        """The same rows with another μ: in float64 and together, where float32 does not bear it."""
        try:
            return grouped(self.rows, self.rows.split(len(self.groups)), mu)[0]
        except np.linalg.LinAlgError:
            return _together(self.rows, mu)

    def certifying(self, most: float) -> GroupedFactor:
        """The same with each μ_i nearer to what was factorised, as `narrow.certifying` says."""
        share = most / len(self.groups)
        return replace(self, groups=tuple(certifying(group, share) for group in self.groups))

    def solve(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t)."""
        return self._mean([partial(group.solve, G) for group in self.groups])

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t), from above."""
        return self._mean([partial(group.energy, G) for group in self.groups])

    def _mean(self, tasks: list[Callable[[], Array]]) -> Array:
        """(q A_iᵀA_i + μI)⁻¹ is a q-th of (A_iᵀA_i + μ_i I)⁻¹, and there are q of them."""
        total: Array = sum(run_apart(tasks)) / len(self.groups) ** 2
        return total


@dataclass(frozen=True, eq=False)
class NarrowGroups(GroupedFactor):
    """The same for groups in float32 of fewer rows than columns, which are flattened alike."""

    groups: tuple[NarrowFactor, ...]
    rows: NarrowRows
    flattening: Flattening

    def solve(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t): T is applied once for all groups."""
        if G.shape[1] > 1:
            return super().solve(G)
        columns, flatten = self.rows.columns, self.flattening.apply
        flat = flatten(G[columns])
        inverses = sum(1.0 / group.raised for group in self.groups)
        inside = self._summed(flatten(flat)[:, 0])[:, None]
        whole = G * sum(1.0 / group.mu for group in self.groups)
        whole[columns] = flatten(inverses * flat - flatten(inside))
        whole /= len(self.groups) ** 2
        return whole

    def _summed(self, v: Array) -> Array:
        """Σ Aᵀ(L Lᵀ)⁻¹A v / μ over the groups, for v (m,)."""
        from sketchridge import kernels

        def part(group: NarrowFactor) -> Array:
            total, rows = np.zeros(v.size), group.rows.matrix
            kernels.add_by_rows(rows, group.lower, v, 1.0 / group.raised, total)
            return total

        return added(run_shared([partial(part, group) for group in self.groups]))


def grouped(
    rows: SketchedRows | NarrowRows, parts: Sequence[SketchedRows | NarrowRows], mu: float
) -> tuple[GroupedFactor, tuple[str, ...]]:
    """Factorise the rows in the groups that they were parted into; notes if μ had to be raised."""
    if isinstance(rows, NarrowRows):
        return _grouped_narrow(rows, cast("Sequence[NarrowRows]", parts), mu), ()
    share, wide = mu / len(parts), cast("Sequence[SketchedRows]", parts)
    made = run_apart([partial(factorise, part, share) for part in wide])
    factor = GroupedFactor(tuple(group for group, _ in made), rows)
    if not any(raised for _, raised in made):
        return factor, ()
    return factor, (raised_note(mu, factor.mu),)


def _grouped_narrow(rows: NarrowRows, parts: Sequence[NarrowRows], mu: float) -> GroupedFactor:
    """The same in float32; LinAlgError where that does not bear it."""
    check_range(rows, mu)
    share = mu / len(parts)

    def factors(flattening: Flattening | None) -> tuple[NarrowFactor, ...]:
        def factorised(part: NarrowRows) -> NarrowFactor:
            return factorise_checked(part, share, flattening or Flattening.of(part, share))

        return tuple(run_apart([partial(factorised, part) for part in parts]))

    if not all(part.few for part in parts):
        return GroupedFactor(factors(None), rows)
    alike, _ = Flattening.learned(rows.matrix, mu)
    return NarrowGroups(factors(alike), rows, alike)


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
