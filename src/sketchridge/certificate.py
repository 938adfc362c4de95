"""The certificate: a proved upper bound of F(w) − F* from a gradient.

F is quadratic, so F(w) − F* = ½ gᵀH⁻¹g with g = ∇F(w), H = C + λI. Whenever P ⪯ c·H is known,
it is at most (c/2) gᵀP⁻¹g. A `Curvature` is such a P with its c. Rounding breaks the plain
formula near the optimum, so the gradient's rounding error (and its drift, where it is not fresh) is
added in the P⁻¹ norm.

Where a point is made of dual variables, w = Σ ω_i α_i x_i / λ, the dual objective is a lower bound
of F*, and F(w) is above it by ½ Σ ω_i (y_i − x_iᵀw − α_i)²: the smaller of the two is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sketchridge.evaluation import Evaluation
from sketchridge.problem import Problem
from sketchridge.sketch import LowerBound

Array = NDArray[np.float64]
Numbers = float | Array  # one for all columns, or one a column where each has a λ of its own


class Metric(Protocol):
    """A matrix P ⪯ constant·H whose inverse can be applied: all that a certificate needs."""

    @property
    def smallest(self) -> Numbers:
        """A lower bound of P's eigenvalues."""

    @property
    def constant(self) -> Numbers:
        """The c in P ⪯ c·H."""

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t)."""


class Curvature(Metric, Protocol):
    """A metric that knows the degrees of freedom too."""

    def counter(self) -> DegreesCounter:
        """What counts the degrees of freedom; of the data it holds a sketch at most."""


class DegreesCounter(Protocol):
    """What is known of the effective dimension tr(C H⁻¹)."""

    def degrees_of_freedom(self, trace: tuple[float, float], rank: int) -> tuple[float, float]:
        """Bounds of tr(C H⁻¹), given bounds of C's trace and the largest rank it can have."""


@dataclass(frozen=True)
class RidgeCurvature:
    """P = λI: what is known when nothing has been computed."""

    lam: float
    constant: float = 1.0

    @property
    def smallest(self) -> float:
        """A lower bound of P's eigenvalues."""
        return self.lam

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t)."""
        energy: Array = np.sum(G**2, axis=0) / self.lam
        return energy

    def counter(self) -> DegreesCounter:
        """What counts the degrees of freedom."""
        return self

    def degrees_of_freedom(self, trace: tuple[float, float], rank: int) -> tuple[float, float]:
        """Bounds of tr(C H⁻¹): from no eigenvalue but one, to all alike."""
        low, high = trace
        return low / (low + self.lam), rank * high / (high + rank * self.lam)


@dataclass(frozen=True)
class SketchCurvature:
    """P = Ĉ + λI with Ĉ ⪯ C from a sketch; λ is a number, or one a column."""

    lower: LowerBound
    lam: Numbers

    @property
    def smallest(self) -> Numbers:
        """A lower bound of P's eigenvalues: more than λ where the sketch covers every direction."""
        d, values = self.lower.frame.shape[0], self.lower.values
        return self.lam + float(values[-1]) if values.size == d else self.lam

    @property
    def constant(self) -> Numbers:
        """The c in P ⪯ c·H: rounding may have put Ĉ above C by ν."""
        constant: Numbers = 1.0 + self.lower.slack / np.maximum(
            self.lam, self.smallest - self.lower.slack
        )
        return constant

    def energy(self, G: Array) -> Array:
        """gᵀP⁻¹g of every column of G (d, t)."""
        coordinates, rest = self.lower.split(G)
        energy: Array = np.sum(coordinates**2 / (self.lower.values[:, None] + self.lam), axis=0)
        return energy + rest / self.lam

    def counter(self) -> DegreesCounter:
        """What counts the degrees of freedom."""
        return self

    def degrees_of_freedom(self, trace: tuple[float, float], rank: int) -> tuple[float, float]:
        """Bounds of tr(C H⁻¹): the rest of the trace on no direction, or evenly on all others."""
        values, lam = self.lower.values, float(self.lam)
        covered = float(np.sum(values / (values + lam)))
        rest = max(0.0, trace[1] - float(values.sum()))
        return covered, min(float(rank), covered + rest * rank / (rest + rank * lam))


def certified_gap(problem: Problem, curvature: Metric | None, evaluation: Evaluation) -> Array:
    """An upper bound of F(w) − F*, (t,).

    F(w) itself is one, for F* ≥ 0: the only one where no curvature is known (λ = 0).
    """
    slip = problem.residual_rounding(evaluation)
    penalty = 0.5 * problem.lam * np.sum(evaluation.coef**2, axis=0)
    objective: Array = 0.5 * (evaluation.residual_norm + slip) ** 2 + penalty * (1.0 + 1e-12)
    # At w = 0 with nothing to fit there is nothing to round.
    nothing = (problem.null_objective == 0) & ~np.any(evaluation.coef, axis=0)
    objective = np.where(nothing, 0.0, objective)
    if curvature is None:
        return objective
    root = np.sqrt(curvature.energy(evaluation.gradient))
    error = problem.rounding(evaluation) / np.sqrt(curvature.smallest)
    gap: Array = 0.5 * curvature.constant * (root + error) ** 2
    gap = np.minimum(gap, 0.5 * (evaluation.dual_distance + slip) ** 2)
    if problem.fit_intercept:  # it is the best one up to this, which is a gap of its own
        gap = gap + 0.5 * (np.abs(evaluation.residual_mean) + slip) ** 2
    bound: Array = np.minimum(gap, objective)
    return bound


def rounding_floor(problem: Problem, curvature: Curvature | None, evaluation: Evaluation) -> Array:
    """The part of the certified gap that rounding alone accounts for, (t,)."""
    if curvature is None:
        return np.zeros(problem.targets)
    error = problem.rounding(evaluation) / np.sqrt(curvature.smallest)
    floor: Array = 0.5 * curvature.constant * error**2
    if evaluation.duals is None:
        return floor
    drift: Array = np.sqrt(problem.lam) * evaluation.duals.drift
    dual: Array = 0.5 * (problem.residual_rounding(evaluation) + drift) ** 2
    return np.minimum(floor, dual)
