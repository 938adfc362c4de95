"""Preconditioners P⁻¹ = a·I + U diag(e − a) Uᵀ from approximate eigenpairs (eq. condSketch).

    a = 1 / (σ̃_k² + λ) outside the basis,   e_j = 1 / (σ̃_j² + λ) inside it

With a scaling of the columns the same is done to C̃ = D^{-1/2} C D^{-1/2}.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

import numpy as np

from sketchridge.certificate import Curvature, RidgeCurvature, SketchCurvature
from sketchridge.preconditioner.base import Array, Rank, resolve_rank
from sketchridge.preconditioner.diagonal import Columns, check_exponent
from sketchridge.preconditioner.sampled import SampledProblem
from sketchridge.preconditioner.scaled import ScaledPreconditioner, ScaledProblem, unscaled
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.products import gathered_rows
from sketchridge.sketch import (
    DENSE_EIGENPROBLEM,
    LowerBound,
    Sketchable,
    Spectrum,
    block_lanczos,
    exact_pairs,
    make_probe,
    paper_blocks,
    random_range,
    usable_rank,
)
from sketchridge.threads import thread_count
from sketchridge.validation import check_integer, check_number, check_rank

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
    low_rank: ClassVar[bool] = True

    @property
    def columns(self) -> int:
        """The number d of columns that it is for."""
        return int(self.basis.shape[0])

    @property
    def least_curvature(self) -> float:
        """P ⪯ H + σ̃_k² I, to the sketch's accuracy, and H ⪰ λI."""
        return self.lam * self.outside

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

    def describes(self, problem: RidgeProblem) -> bool:
        """Whether it is a sketch of the problem's data; one pass. P = I fits every problem."""
        return self.spectrum is None or self.spectrum.describes(problem)

    def at(self, lam: float) -> LowRankPreconditioner:
        """The same sketch for another λ."""
        if lam == self.lam:
            return self
        if self.spectrum is None:
            return replace(self, lam=lam)
        return from_spectrum(self.name, self.spectrum, lam)


def from_spectrum(name: str, spectrum: Spectrum, lam: float) -> LowRankPreconditioner:
    """Eq. condSketch for a spectrum, with the rank lowered where it would lose all accuracy."""
    rank, last, notes = usable_rank(spectrum, lam)
    return LowRankPreconditioner(
        name,
        lam,
        np.ascontiguousarray(spectrum.basis[:, :rank]),
        1.0 / (spectrum.values[:rank] + lam),
        1.0 / (last + lam),
        spectrum,
        notes,
    )


class _Sketching(Protocol):
    """A recipe that sketches C, or C with scaled columns."""

    name: ClassVar[str]

    @property
    def scaling(self) -> float:
        """The exponent of the columns' mean squares; 0 is no scaling."""

    def sketch(self, problem: Sketchable, rank: int, rng: np.random.Generator) -> Spectrum:
        """Approximate the leading eigenpairs."""


def _sketched(
    spec: _Sketching, problem: RidgeProblem, rank: int, rng: np.random.Generator
) -> LowRankPreconditioner | ScaledPreconditioner:
    """Sketch C, or with a scaling C̃, and make the preconditioner."""
    if spec.scaling == 0:
        return from_spectrum(spec.name, spec.sketch(problem, rank, rng), problem.lam)
    columns = Columns.of(problem)
    scale = columns.scale(problem.lam, spec.scaling)
    spectrum = spec.sketch(ScaledProblem(problem, columns, scale), rank, rng)
    return ScaledPreconditioner.of(spec.name, unscaled(spectrum, scale), scale, problem.lam)


def _sketched_sample(
    spec: Nystrom, problem: RidgeProblem, rank: int, rows: int, rng: np.random.Generator
) -> LowRankPreconditioner:
    """Sketch a sample of the rows, and make the preconditioner for all of them."""
    sample = SampledProblem(problem, rows, rng)
    spectrum = sample.for_all_rows(spec.sketch(sample, rank, rng))
    made = from_spectrum(spec.name, spectrum, problem.lam)
    told = f"{sample.n} of {problem.n} rows were sketched"
    return replace(made, notes=(told, *made.notes))


def _scaling_memory(scaling: float, problem: RidgeProblem, rank: int) -> int:
    """What scaled columns add: the bound in the columns as given, the directions, scaled blocks."""
    return 0 if scaling == 0 else 5 * problem.d * rank + Columns.memory(problem)


@dataclass(frozen=True)
class NoPreconditioner:
    """P = I: the solver sees the data as it is."""

    name: ClassVar[str] = "none"
    summary: ClassVar[str] = "P = I, the data as it is"
    cost: ClassVar[str] = "nothing"
    use_when: ClassVar[str] = "λ is large, or to compare"
    low_rank: ClassVar[bool] = True

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
    cost: ClassVar[str] = "min(n, d)³, or tens of passes, to build; O(dk) to apply"
    use_when: ClassVar[str] = "to see what a sketch could reach at best"
    low_rank: ClassVar[bool] = True

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
    scaling
        Not 0: the columns are first divided by (diag C + λ)^(scaling / 2), one pass more; P is
        then no longer low rank plus identity, and serves cg, gd, agd and accelerated_svrg.
    """

    rank: Rank = "auto"
    blocks: int = FEW_BLOCKS
    epsilon: float | None = None
    keep: Literal["rank", "all"] = "rank"
    scaling: float = 0.0
    name: ClassVar[str] = "lanczos"
    summary: ClassVar[str] = "Ritz pairs by block Lanczos, the paper's sketch"
    cost: ClassVar[str] = "a few passes to build, O(dk) to apply"
    use_when: ClassVar[str] = "the spectrum decays, and the solver is stochastic"

    def __post_init__(self) -> None:
        check_rank(self.rank)
        check_integer("blocks", self.blocks, 1, "give the number of Krylov blocks, 1 or more")
        if self.epsilon is not None:
            remedy = "give a number between 0 and 1, as in the paper"
            if check_number("epsilon", self.epsilon, 0.0, remedy, strict=True) >= 1:
                raise ValueError(f"epsilon={self.epsilon} is out of range: {remedy}")
        if self.keep not in ("rank", "all"):
            raise ValueError(f"keep={self.keep!r} must be 'rank' or 'all'")
        check_exponent("scaling", self.scaling)

    @property
    def low_rank(self) -> bool:
        """Whether P⁻¹ is a multiple of the identity and a few directions."""
        return self.scaling == 0

    def directions(self, problem: RidgeProblem) -> int:
        """The rank that it will have; a rank out of range is refused here."""
        return resolve_rank(self.rank, PAPER_RANK, problem)

    def memory(self, problem: RidgeProblem) -> int:
        """The Krylov blocks, a few more of the same width, and at first as many random rows."""
        width = self.directions(problem)
        frame = min(problem.d, (self._blocks(problem) + 1) * width)
        krylov = problem.d * (frame + (1 + 2 * thread_count()) * width) + 3 * problem.n * width
        kept = width if self.keep == "rank" else width * self._blocks(problem)
        return krylov + _scaling_memory(self.scaling, problem, kept)

    def _blocks(self, problem: Sketchable) -> int:
        return self.blocks if self.epsilon is None else paper_blocks(problem.n, self.epsilon)

    def build(
        self, problem: RidgeProblem, rng: np.random.Generator
    ) -> LowRankPreconditioner | ScaledPreconditioner:
        """Run block Lanczos and make the preconditioner."""
        return _sketched(self, problem, self.directions(problem), rng)

    def sketch(self, problem: Sketchable, rank: int, rng: np.random.Generator) -> Spectrum:
        """Approximate the leading eigenpairs by Ritz pairs."""
        blocks = self._blocks(problem)
        krylov = block_lanczos(problem, rank, blocks, rng)
        wanted = rank if self.keep == "rank" else krylov.expanded
        basis, values = krylov.ritz(wanted)
        asked = rank if self.keep == "rank" else rank * blocks
        exhausted = krylov.exhausted and krylov.expanded < asked
        return Spectrum(
            basis, values, krylov.nystrom(), exhausted, krylov.probe(), problem.fingerprint
        )


@dataclass(frozen=True)
class Nystrom:
    """The Nyström approximation of C from one pass over the data.

    Parameters
    ----------
    rank
        The number of random directions that C is applied to.
    scaling
        Not 0: the columns are first divided by (diag C + λ)^(scaling / 2), one pass more; P is
        then no longer low rank plus identity, and serves cg, gd, agd and accelerated_svrg.
    rows
        The number of rows, drawn at random, that stand for all in the sketch: a few times the
        rank are nearly as good, and cost as much less. "all" takes them all.
    """

    rank: Rank = "auto"
    scaling: float = 0.0
    rows: int | Literal["all"] = "all"
    name: ClassVar[str] = "nystrom"
    summary: ClassVar[str] = "randomised Nyström approximation of C, one pass"
    cost: ClassVar[str] = "one pass to build, O(dk) to apply"
    use_when: ClassVar[str] = "the spectrum decays; the cheap choice for any solver"

    def __post_init__(self) -> None:
        check_rank(self.rank)
        check_exponent("scaling", self.scaling)
        if self.rows != "all":
            check_integer("rows", self.rows, 1, "give the number of rows to sketch, or 'all'")
            if self.scaling != 0:
                raise ValueError("scaling and rows cannot be combined: give one of them")

    @property
    def low_rank(self) -> bool:
        """Whether P⁻¹ is a multiple of the identity and a few directions."""
        return self.scaling == 0

    def directions(self, problem: RidgeProblem) -> int:
        """The rank that it will have; a rank out of range is refused here."""
        return resolve_rank(self.rank, NYSTROM_RANK, problem)

    def memory(self, problem: RidgeProblem) -> int:
        """The test vectors, their images, and a few more of the same width."""
        width = self.directions(problem)
        needed = (4 + 2 * thread_count()) * problem.d * width  # every thread makes a product
        needed += _scaling_memory(self.scaling, problem, width)
        if self.rows == "all":
            return needed
        if isinstance(problem.X, np.ndarray):
            gathered = gathered_rows(self.rows, problem.d, width) * problem.d
            narrow = gathered // 2 if problem.X.itemsize < 8 else 0  # as they are, to be widened
            return needed + thread_count() * (gathered + narrow)
        return needed + 2 * int(problem.X.nnz) * self.rows // problem.n

    def build(
        self, problem: RidgeProblem, rng: np.random.Generator
    ) -> LowRankPreconditioner | ScaledPreconditioner:
        """Sketch in one pass, or in that of a sample, and make the preconditioner."""
        rank = self.directions(problem)
        if self.rows != "all" and self.rows < problem.n:
            return _sketched_sample(self, problem, rank, self.rows, rng)
        return _sketched(self, problem, rank, rng)

    def sketch(self, problem: Sketchable, rank: int, rng: np.random.Generator) -> Spectrum:
        """Approximate the leading eigenpairs by those of the Nyström approximation."""
        krylov = random_range(problem, rank, rng)
        lower = krylov.nystrom()
        basis = lower.frame @ lower.rotation
        exhausted = lower.values.size < rank
        return Spectrum(basis, lower.values, lower, exhausted, krylov.probe(), problem.fingerprint)
