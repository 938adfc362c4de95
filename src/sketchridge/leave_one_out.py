"""Leave-one-out cross-validation for every λ, from one fit of all rows.

Without row i, and with λ times the sum of the weights unchanged, the prediction for row i misses
by r_i / (1 − h_i): r_i is the residual of the fit to all rows, and the leverage h_i is
ω_i x_iᵀH⁻¹x_i, plus ω_i for an intercept. A weight is not a number of repetitions here: the row
is left out with all of its weight.

On small data the leverages come from the eigendecomposition, exactly. On large data they are
estimated. For random signs z, z_i (Sz)_i has the mean h_i, where Sz is the fit to z, so that a
few fits to random signs estimate all leverages, and one Krylov space serves every λ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchridge.decomposition import Decomposition, decompose
from sketchridge.krylov import KrylovSpace
from sketchridge.problem import RidgeProblem
from sketchridge.tracing import Tracer, grow_until, space_capacity, threads_for

Array = NDArray[np.float64]

PROBES = 32
PROBES_TOGETHER = 16
# Fits to random signs are not exact: the leverages' mean may be low by this much.
PROBE_TOL = 1e-4


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What leaving out rows tells of one λ; the last three are zero where nothing is estimated."""

    errors: Array  # (n, t) y_i minus the prediction without row i
    squares: Array  # (n, t) of the errors
    doubt: Array  # (n, t) standard errors of the squares
    degrees_of_freedom: float  # the sum of the leverages, without the intercept's
    degrees_doubt: float = 0.0  # its standard error
    shortfall: float = 0.0  # the leverages' mean may be low by this much

    def mean_square(self, sample_weight: Array) -> tuple[Array, Array]:
        """The mean over the rows of s_i e_i², (t,), and a bound of its standard error, (t,).

        The estimated leverages of two rows are correlated: the variance of a sum is at most
        twice the sum of the variances.
        """
        share = sample_weight[:, None] / sample_weight.size
        error: Array = np.sqrt(2.0 * np.sum((share * self.doubt) ** 2, axis=0))
        return np.sum(share * self.squares, axis=0), error


def leave_one_out(
    tracer: Tracer, rng: np.random.Generator, probes: int = PROBES
) -> Iterator[LeftOut]:
    """What leaving out rows tells of every λ of a path that has been traced.

    Exact where the path came from a decomposition, else estimated with so many random signs.
    """
    if tracer.method == "direct":
        return _exact(tracer, tracer.decomposition or decompose(tracer.problem))
    return _estimated(tracer, rng, probes)


def _exact(tracer: Tracer, decomposition: Decomposition) -> Iterator[LeftOut]:
    nothing = np.zeros(tracer.problem.Y.shape)
    errors = decomposition.left_out_errors(tracer.lams)
    for lam, missed in zip(tracer.lams, errors, strict=True):
        degrees = decomposition.degrees_of_freedom(float(lam))
        yield LeftOut(missed, missed**2, nothing, degrees)


def _estimated(tracer: Tracer, rng: np.random.Generator, probes: int) -> Iterator[LeftOut]:
    problem, leverages = tracer.problem, Leverages.of(tracer, rng, probes)
    for index, lam in enumerate(tracer.lams):
        residual = problem.Y - problem.multiply(tracer.coef[index].T)
        mean, variance = leverages.estimate(index)
        remaining = _remaining(problem, float(lam), mean, variance)
        grown = residual / remaining
        noise = (variance / remaining[:, 0] ** 2)[:, None]
        # Unbiased leverages make biased quotients: (1 − ĥ)^-k is high by about k(k+1)/2 · noise.
        squares = grown**2 / (1.0 + 3.0 * noise)
        yield LeftOut(
            grown / (1.0 + noise),
            squares,
            2.0 * squares * np.sqrt(noise),
            *leverages.degrees(index),
            leverages.shortfall[index],
        )


def _remaining(problem: RidgeProblem, lam: float, leverages: Array, variances: Array) -> Array:
    """1 − h_i from estimated leverages, (n, 1), not far below the least that it can be.

    By the formula for a change of rank one it is 1 / (1 + ω_i x̆_iᵀH₋⁻¹x̆_i + ω_i / (1 − ω_i)),
    with H₋ ⪰ λI and x̆_i the row less the mean of the others. An estimate may fall below by its
    noise: to cut it off right there would make all of them too high.
    """
    weights = problem.weights
    own = weights if problem.fit_intercept else np.zeros(problem.n)
    others = np.maximum(1.0 - own, np.finfo(np.float64).eps)
    least = 1.0 / (1.0 + weights * problem.squared_norms / (lam * others**2) + own / others)
    floor = np.maximum(least - 3.0 * np.sqrt(variances), least / 3.0)
    return np.maximum(1.0 - leverages - own, floor)[:, None]


@dataclass(frozen=True, eq=False)
class Leverages:
    """Sums over random signs z, for every λ."""

    sums: Array  # (L, n) of z_i (Sz)_i
    squares: Array  # (L, n) of their squares
    totals: Array  # (L, probes) zᵀSz
    shortfall: Array  # (L,) the leverages' mean may be low by this much

    @classmethod
    def of(cls, tracer: Tracer, rng: np.random.Generator, probes: int) -> Leverages:
        """Fit random signs, some at a time."""
        count, n = tracer.lams.size, tracer.problem.n
        sums, squares = np.zeros((count, n)), np.zeros((count, n))
        totals, shortfall = np.zeros((count, probes)), np.zeros(count)
        for first in range(0, probes, PROBES_TOGETHER):
            part = slice(first, min(first + PROBES_TOGETHER, probes))
            signs, space, missed = _fit_signs(tracer, rng, part.stop - first)
            shortfall = np.maximum(shortfall, missed)
            for index in range(count):
                products = signs * _fitted(tracer.problem, space, tracer.lams[index])
                sums[index] += products.sum(axis=1)
                squares[index] += np.sum(products**2, axis=1)
                totals[index, part] = products.sum(axis=0)
        return cls(sums, squares, totals, shortfall)

    def estimate(self, index: int) -> tuple[Array, Array]:
        """The leverages for a λ and the variances of their estimates, (n,)."""
        count = self.totals.shape[1]
        mean = self.sums[index] / count
        variance = np.maximum(self.squares[index] / count - mean**2, 0.0) / (count - 1)
        return mean, variance

    def degrees(self, index: int) -> tuple[float, float]:
        """The leverages' sum for a λ, and its standard error."""
        totals = self.totals[index]
        return float(totals.mean()), float(totals.std(ddof=1) / np.sqrt(totals.size))


def _fit_signs(
    tracer: Tracer, rng: np.random.Generator, probes: int
) -> tuple[Array, KrylovSpace, Array]:
    """Random signs (n, probes), a space that serves their fits, and how low these are, (L,).

    zᵀSz falls short by twice the gap of the fit to z.
    """
    problem = tracer.problem
    present = problem.weights > 0
    signs = rng.choice([-1.0, 1.0], size=(problem.n, probes)) * present[:, None]
    rows = int(np.count_nonzero(present))
    with threads_for(problem, probes):
        capacity = space_capacity(problem, probes, tracer.controls)
        space = KrylovSpace(problem, problem.adjoint(signs), capacity)
        gap = grow_until(space, tracer.lams, np.full(probes, 0.5 * PROBE_TOL * rows))
    return signs, space, 2.0 * gap.mean(axis=1) / rows


def _fitted(problem: RidgeProblem, space: KrylovSpace, lam: float) -> Array:
    """Sz, (n, probes); one pass."""
    with threads_for(problem, space.start.shape[1]):
        fitted = problem.multiply(space.points(np.array([lam])))
    return np.sqrt(problem.weights)[:, None] * fitted
