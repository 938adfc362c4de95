"""A sketch of scaled columns: C̃ = D^{-1/2} C D^{-1/2} is sketched, and P is put together again.

    P = D^{1/2} (V diag(s_j − s_k) Vᵀ + s_k I) D^{1/2} + λI

is eq. condSketch in the scaled columns with the penalty as it is, in the columns as given. With
E = s_k D + λI it is E^{1/2} (I + B Bᵀ) E^{1/2}, B = E^{-1/2} D^{1/2} V diag(s_j − s_k)^{1/2}.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sketchridge.certificate import Curvature, SketchCurvature
from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.diagonal import Columns
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.sketch import LowerBound, Spectrum, usable_rank


class ScaledProblem:
    """What a sketch sees of a problem whose columns are divided by D^{1/2}."""

    def __init__(self, problem: RidgeProblem, columns: Columns, scale: Array) -> None:
        self.problem = problem
        self.n, self.d = problem.n, problem.d
        self.roots = np.sqrt(scale)[:, None]
        self.trace = float(np.sum(columns.centred / scale))
        self.raw_trace = float(np.sum(columns.raw / scale))
        self.rounding_factor = problem.rounding_factor
        self.fingerprint = problem.fingerprint

    def gram(self, V: Array) -> Array:
        """C̃ V, (d, k); one pass."""
        return self.problem.gram(V / self.roots) / self.roots

    def adjoint(self, R: Array) -> Array:
        """D^{-1/2} X̄ R, (d, k); one pass."""
        return self.problem.adjoint(R) / self.roots


def unscaled(spectrum: Spectrum, scale: Array) -> Spectrum:
    """The spectrum of C̃ with its bound and its probe in the columns as given.

    Ĉ̃ ⪯ C̃ + νI gives D^{1/2} Ĉ̃ D^{1/2} ⪯ C + νD, and νD ⪯ ν max(D) I.
    """
    roots, lower = np.sqrt(scale)[:, None], spectrum.lower
    factor = roots * (lower.frame @ lower.rotation) * np.sqrt(lower.values)
    left, singular, _ = np.linalg.svd(factor, full_matrices=False)
    values = singular**2
    rounding = 10 * EPSILON * np.sqrt(max(1, values.size)) * float(values.max(initial=0.0))
    slack = lower.slack * float(scale.max()) + rounding
    bound = LowerBound(left, np.eye(values.size), values, slack)
    vector, image = spectrum.probe
    return replace(spectrum, lower=bound, probe=(vector / roots, image * roots))


@dataclass(frozen=True, eq=False)
class ScaledPreconditioner:
    """P⁻¹ = E^{-1/2} (I − Y Yᵀ) E^{-1/2}: a diagonal and a few directions."""

    name: str
    lam: float
    scale: Array  # (d,) D
    roots: Array  # (d, 1) E^{1/2}
    half: Array  # (d, k) Y
    least_curvature: float
    spectrum: Spectrum  # of C̃; its bound and its probe are of C
    notes: tuple[str, ...] = ()
    low_rank: ClassVar[bool] = False

    @classmethod
    def of(cls, name: str, spectrum: Spectrum, scale: Array, lam: float) -> ScaledPreconditioner:
        """Put P together for a λ."""
        largest = float(scale.max())
        rank, last, notes = usable_rank(spectrum, lam / largest)
        roots = np.sqrt(last * scale + lam)[:, None]
        strength = np.sqrt(np.maximum(spectrum.values[:rank] - last, 0.0))
        factor = np.sqrt(scale)[:, None] / roots * spectrum.basis[:, :rank] * strength
        squares, vectors = np.linalg.eigh(factor.T @ factor)
        half = factor @ (vectors / np.sqrt(1.0 + np.maximum(squares, 0.0)))
        least = lam / (lam + last * largest)
        return cls(name, lam, scale, roots, half, least, spectrum, notes)

    @property
    def columns(self) -> int:
        """The number d of columns that it is for."""
        return self.scale.size

    @property
    def rank(self) -> int:
        """The number k of directions that are treated one by one."""
        return int(self.half.shape[1])

    def directions(self, problem: RidgeProblem) -> int:
        """The rank, as a recipe gives it."""
        return self.rank

    def memory(self, problem: RidgeProblem) -> int:
        """The numbers that building it will hold: none, it is built."""
        return 0

    def apply(self, G: Array) -> Array:
        """P⁻¹ G for G (d, t)."""
        scaled = G / self.roots
        return (scaled - self.half @ (self.half.T @ scaled)) / self.roots

    def curvature(self) -> Curvature:
        """What the sketch knows of H, for the certificate."""
        return SketchCurvature(self.spectrum.lower, self.lam)

    def describes(self, problem: RidgeProblem) -> bool:
        """Whether it is a sketch of the problem's data; one pass."""
        return self.spectrum.describes(problem)

    def at(self, lam: float) -> ScaledPreconditioner:
        """The same sketch, of the same scaling, for another λ."""
        return ScaledPreconditioner.of(self.name, self.spectrum, self.scale, lam)
