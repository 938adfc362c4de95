"""Preconditioners P⁻¹ = a·I + U diag(e − a) Uᵀ from approximate eigenpairs (eq. condSketch).

    a = 1 / (σ̃_k² + λ) outside the basis,   e_j = 1 / (σ̃_j² + λ) inside it

A specification (`Lanczos(rank=30)`) builds a `LowRankPreconditioner` for a problem; a built one
can be passed to many solves, with any λ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import Curvature, RidgeCurvature, SketchCurvature
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.sketch import (
    DENSE_EIGENPROBLEM,
    LowerBound,
    Spectrum,
    block_lanczos,
    exact_pairs,
    make_probe,
    paper_blocks,
    random_range,
)
from sketchridge.validation import check_integer, check_number, check_rank

Array = NDArray[np.float64]
Rank = int | Literal["auto"]

# Beyond this ratio of the preconditioner's eigenvalues, the coordinates inside and outside the
# basis cancel to less than the accuracy that a step needs.
LARGEST_CONDITION = 1e12
PAPER_RANK = 30
NYSTROM_RANK = 100
# The paper's q = ⌈ln n / √ε'⌉ is about 14 here; a few blocks give the same preconditioner.
FEW_BLOCKS = 3


@dataclass(frozen=True, eq=False)
class LowRankPreconditioner:
    """P⁻¹ = a·I + U diag(e − a) Uᵀ, with the sketch that it came from."""

    name: str
    lam: float
    basis: Array  # (d, k) U
    inside: Array  # (k,) e
    outside: float  # a
    spectrum: Spectrum | None = None
    notes: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """The number k of directions that are treated one by one."""
        return self.inside.size

    def directions(self, problem: RidgeProblem) -> int:
        """The rank, as a recipe gives it."""
        return self.rank

    def memory(self, problem: RidgeProblem) -> int:
        """The numbers that building it will hold: none, it is built."""
        return 0

    def apply(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t)."""
        return self.power(G, -1.0)

    def power(self, G: Array, exponent: float) -> Array:
        """P^exponent G for G (d, t)."""
        outside = float(self.outside**-exponent)
        if self.rank == 0:
            return outside * G
        coordinates = self.basis.T @ G
        change = (self.inside**-exponent - outside)[:, None]
        return outside * G + self.basis @ (change * coordinates)

    def quadratic_forms(self, squared_norms: Array, coordinates: Array) -> Array:
        """x_iᵀP⁻¹x_i from ‖x_i‖² (n,) and x_iᵀU (n, k).

        The part outside the basis is a difference that cancels; a row that is not zero keeps at
        least what rounding could have taken, so that it stays among the rows that are sampled.
        """
        rest = squared_norms - np.sum(coordinates**2, axis=1)
        rest = np.maximum(rest, 4 * EPSILON * squared_norms)
        forms: Array = self.outside * rest + coordinates**2 @ self.inside
        return forms

    def inverse_diagonal(self) -> Array:
        """The diagonal of P⁻¹, (d,)."""
        return self.outside + self.basis**2 @ (self.inside - self.outside)

    def curvature(self) -> Curvature:
        """What the sketch knows of H, for the certificate."""
        if self.spectrum is None:
            return RidgeCurvature(self.lam)
        return SketchCurvature(self.spectrum.lower, self.lam)

    def at(self, lam: float) -> LowRankPreconditioner:
        """The same sketch for another λ."""
        if lam == self.lam:
            return self
        if self.spectrum is None:
            return replace(self, lam=lam)
        return from_spectrum(self.name, self.spectrum, lam)


def from_spectrum(name: str, spectrum: Spectrum, lam: float) -> LowRankPreconditioner:
    """Eq. condSketch for a spectrum, with the rank lowered where it would lose all accuracy."""
    values = spectrum.values
    last = 0.0 if spectrum.exhausted or not values.size else float(values[-1])
    notes: tuple[str, ...] = ()
    rank = values.size
    top = float(values[0]) if rank else 0.0
    if top + lam > LARGEST_CONDITION * (last + lam):
        rank = max(1, int(np.count_nonzero(top + lam <= LARGEST_CONDITION * (values + lam))))
        last = float(values[rank - 1])
    if rank < values.size:
        notes = (
            f"rank lowered from {values.size} to {rank}: the directions beyond are 1e12 times "
            "weaker than the first, below the accuracy of float64",
        )
    return LowRankPreconditioner(
        name,
        lam,
        np.ascontiguousarray(spectrum.basis[:, :rank]),
        1.0 / (values[:rank] + lam),
        1.0 / (last + lam),
        spectrum,
        notes,
    )


class PreconditionerSpec(Protocol):
    """A recipe that builds a preconditioner for a problem."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def directions(self, problem: RidgeProblem) -> int:
        """The rank that it will have; a rank out of range is refused here."""

    def memory(self, problem: RidgeProblem) -> int:
        """The numbers that building it will hold at its peak, about."""

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> LowRankPreconditioner:
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


@dataclass(frozen=True)
class NoPreconditioner:
    """P = I: the solver sees the data as it is."""

    name: ClassVar[str] = "none"
    summary: ClassVar[str] = "P = I, the data as it is"

    def directions(self, problem: RidgeProblem) -> int:
        """None."""
        return 0

    def memory(self, problem: RidgeProblem) -> int:
        """None."""
        return 0

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> LowRankPreconditioner:
        """Make P = I."""
        return LowRankPreconditioner(
            self.name, problem.lam, np.zeros((problem.d, 0)), np.zeros(0), 1.0
        )


@dataclass(frozen=True)
class Exact:
    """The leading eigenpairs of C to working accuracy (the paper's exact sketched conditioning)."""

    rank: Rank = "auto"
    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = "exact leading eigenpairs of C"

    def __post_init__(self) -> None:
        check_rank(self.rank)

    def directions(self, problem: RidgeProblem) -> int:
        """The rank that it will have; a rank out of range is refused here."""
        return resolve_rank(self.rank, PAPER_RANK, problem)

    def memory(self, problem: RidgeProblem) -> int:
        """The eigenvectors, and the matrix they are of."""
        side = min(problem.n, problem.d, DENSE_EIGENPROBLEM)
        return 3 * problem.d * self.directions(problem) + 2 * side**2

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> LowRankPreconditioner:
        """Compute the truncated SVD and make the preconditioner."""
        rank = self.directions(problem)
        basis, values = exact_pairs(problem, rank, rng)
        scale = float(values.max(initial=0.0)) + problem.raw_trace - problem.trace
        slack = 10 * EPSILON * problem.rounding_factor * scale
        lower = LowerBound(basis, np.eye(values.size), values, max(slack, 1e-300))
        exhausted = values.size < rank
        probe = make_probe(basis, basis, np.diag(values))
        spectrum = Spectrum(basis, values, lower, exhausted, probe, problem.fingerprint)
        return from_spectrum(self.name, spectrum, problem.lam)


@dataclass(frozen=True)
class Lanczos:
    """Ritz pairs by block Lanczos: the paper's sketched preconditioner (Algorithm 2).

    Parameters
    ----------
    rank
        The paper's k, the width of a Krylov block.
    blocks
        The number q of Krylov blocks; the sketch costs q + 1 passes.
    epsilon
        If given, q = ⌈ln n / √epsilon⌉ as in the paper, instead of `blocks`.
    keep
        "rank" keeps k Ritz pairs, as the paper does; "all" keeps all q·k that were paid for.
    """

    rank: Rank = "auto"
    blocks: int = FEW_BLOCKS
    epsilon: float | None = None
    keep: Literal["rank", "all"] = "rank"
    name: ClassVar[str] = "lanczos"
    summary: ClassVar[str] = "Ritz pairs by block Lanczos, the paper's sketch"

    def __post_init__(self) -> None:
        check_rank(self.rank)
        check_integer("blocks", self.blocks, 1, "give the number of Krylov blocks, 1 or more")
        if self.epsilon is not None:
            remedy = "give a number between 0 and 1, as in the paper"
            if check_number("epsilon", self.epsilon, 0.0, remedy, strict=True) >= 1:
                raise ValueError(f"epsilon={self.epsilon} is out of range: {remedy}")
        if self.keep not in ("rank", "all"):
            raise ValueError(f"keep={self.keep!r} must be 'rank' or 'all'")

    def directions(self, problem: RidgeProblem) -> int:
        """The rank that it will have; a rank out of range is refused here."""
        return resolve_rank(self.rank, PAPER_RANK, problem)

    def memory(self, problem: RidgeProblem) -> int:
        """The Krylov blocks, and a few more of the same width."""
        width = self.directions(problem)
        return problem.d * (min(problem.d, (self._blocks(problem) + 1) * width) + 3 * width)

    def _blocks(self, problem: RidgeProblem) -> int:
        return self.blocks if self.epsilon is None else paper_blocks(problem.n, self.epsilon)

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> LowRankPreconditioner:
        """Run block Lanczos and make the preconditioner."""
        rank, blocks = self.directions(problem), self._blocks(problem)
        krylov = block_lanczos(problem, rank, blocks, rng)
        wanted = rank if self.keep == "rank" else krylov.expanded
        basis, values = krylov.ritz(wanted)
        asked = rank if self.keep == "rank" else rank * blocks
        exhausted = krylov.exhausted and krylov.expanded < asked
        spectrum = Spectrum(
            basis,
            values,
            krylov.nystrom(),
            exhausted,
            krylov.probe(),
            problem.fingerprint,
        )
        return from_spectrum(self.name, spectrum, problem.lam)


@dataclass(frozen=True)
class Nystrom:
    """The Nyström approximation of C from one pass over the data."""

    rank: Rank = "auto"
    name: ClassVar[str] = "nystrom"
    summary: ClassVar[str] = "randomised Nyström approximation of C, one pass"

    def __post_init__(self) -> None:
        check_rank(self.rank)

    def directions(self, problem: RidgeProblem) -> int:
        """The rank that it will have; a rank out of range is refused here."""
        return resolve_rank(self.rank, NYSTROM_RANK, problem)

    def memory(self, problem: RidgeProblem) -> int:
        """The test vectors, their images, and a few more of the same width."""
        return 6 * problem.d * self.directions(problem)

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> LowRankPreconditioner:
        """Sketch in one pass and make the preconditioner."""
        rank = self.directions(problem)
        krylov = random_range(problem, rank, rng)
        lower = krylov.nystrom()
        basis = lower.frame @ lower.rotation
        exhausted = lower.values.size < rank
        spectrum = Spectrum(
            basis,
            lower.values,
            lower,
            exhausted,
            krylov.probe(),
            problem.fingerprint,
        )
        return from_spectrum(self.name, spectrum, problem.lam)


PRECONDITIONERS: dict[str, type[PreconditionerSpec]] = {
    spec.name: spec for spec in (NoPreconditioner, Exact, Lanczos, Nystrom)
}
