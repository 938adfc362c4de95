"""Second moments of rows that arrive in chunks, and the small problem that stands for them all.

Ridge regression needs of the data only its weight, means and centred second moments. Chunks are
centred by their own means before they are merged (Chan, Golub and LeVeque), so that nothing
cancels however far the data is from zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.estimators.fit import Fit
from sketchridge.feature_penalty import varies
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.validation import read_rows

Array = NDArray[np.float64]

# XᵀX has the square of this many entries (200 MB), and is factorised after every chunk.
MOST_COLUMNS = 5000


def check_affordable(d: int) -> None:
    """Refuse more columns than the exact method can do."""
    if d > MOST_COLUMNS:
        raise ValueError(
            f"partial_fit with {d} columns would keep a {d} × {d} matrix ({8e-9 * d * d:.1f} GB) "
            f"and factorise it after every chunk: it is offered up to {MOST_COLUMNS} columns; "
            "use fit on all rows at once (memory maps are read as they are)"
        )


def raised_cholesky(C: Array, cross: Array, noise: Array) -> tuple[Array, Array]:
    """R (d, d) and Z (d, t) with RᵀR = C + diag(raise) and RᵀZ = cross.

    The diagonal is raised by the noise that rounding left in C (d,), which may have made it
    indefinite; where that is not enough, by more of it.
    """
    noise = np.maximum(noise, EPSILON)  # a column that is zero too
    while True:
        R, failed = scipy.linalg.lapack.dpotrf(C + np.diag(noise), lower=0, clean=1)
        if not failed:
            return R, scipy.linalg.solve_triangular(R, cross, trans="T", check_finite=False)
        noise = 2 * noise


def pivoted_cholesky(C: Array, cross: Array, noise: Array) -> tuple[Array, Array]:
    """R (r, d) and Z (r, t) with RᵀR = C and RᵀZ = cross, of the rank r that C has above noise."""
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(C, tol=float(noise.max()))
    order, upper = pivots - 1, np.triu(factor)[:rank]
    R, Z = np.zeros((rank, len(C))), np.zeros((rank, cross.shape[1]))
    R[:, order] = upper
    if rank:
        Z[:] = scipy.linalg.solve_triangular(upper[:, :rank], cross[order[:rank]], trans="T")
    return R, Z


def with_intercept(fit: Fit, moments: Moments, null_objective: Array, dtype: np.dtype[Any]) -> Fit:
    """The fit of centred moments with its intercepts, and what their rounding adds to the gap."""
    coef = fit.coef.astype(dtype).astype(np.float64)
    intercept = moments.target_mean - coef @ moments.mean
    size = np.abs(moments.target_mean) + np.abs(coef) @ np.abs(moments.mean)
    off = np.abs(intercept.astype(dtype).astype(np.float64) - intercept)
    extra = 0.5 * (off + 4 * EPSILON * moments.rounding_factor * size) ** 2
    share = np.divide(extra, null_objective, out=np.zeros_like(extra), where=null_objective > 0)
    return replace(
        fit, intercept=intercept, gap=fit.gap + extra, relative_gap=fit.relative_gap + share
    )


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of all rows so far."""

    rows: int
    chunks: int
    weight: float  # W, the sum of the weights
    mean: Array  # (d,)
    target_mean: Array  # (t,)
    gram: Array  # (d, d) Σ s_i (x_i − mean)(x_i − mean)ᵀ
    cross: Array  # (d, t) Σ s_i (x_i − mean)(y_i − target_mean)ᵀ
    target_squares: Array  # (t,) Σ s_i (y_i − target_mean)²
    summed: Array  # (d,) the squares that were summed for gram: about zero where X is sparse

    @classmethod
    def of(cls, X: Any, Y: Array, weights: Array | None) -> Moments:
        """The moments of one chunk of rows."""
        chunk = RidgeProblem(X, Y, 0.0, weights, fit_intercept=True)
        read_rows(chunk)
        weight = float(chunk.n if weights is None else weights.sum())
        assert chunk.mean is not None
        gram = weight * chunk.products.gram(chunk.weights, chunk.mean)
        summed = np.diag(gram).copy()
        if not isinstance(X, np.ndarray):
            summed += weight * chunk.mean**2
        return cls(
            chunk.n,
            1,
            weight,
            chunk.mean,
            chunk.target_mean,
            gram,
            -weight * chunk.null_gradient(),
            2 * weight * chunk.null_objective,
            np.maximum(summed, 0.0),
        )

    def merged(self, other: Moments) -> Moments:
        """The moments of both together."""
        weight = self.weight + other.weight
        share = other.weight / weight
        shift = other.mean - self.mean
        target_shift = other.target_mean - self.target_mean
        between = self.weight * share
        return Moments(
            self.rows + other.rows,
            self.chunks + other.chunks,
            weight,
            self.mean + share * shift,
            self.target_mean + share * target_shift,
            self.gram + other.gram + between * np.outer(shift, shift),
            self.cross + other.cross + between * np.outer(shift, target_shift),
            self.target_squares + other.target_squares + between * target_shift**2,
            self.summed + other.summed + between * shift**2,
        )

    def about(self, centred: bool) -> tuple[Array, Array, Array]:
        """Σ xxᵀ, Σ xyᵀ and Σ y² over W: about the means, or about zero."""
        if centred:
            moments = self.gram, self.cross, self.target_squares
        else:
            moments = (
                self.gram + self.weight * np.outer(self.mean, self.mean),
                self.cross + self.weight * np.outer(self.mean, self.target_mean),
                self.target_squares + self.weight * self.target_mean**2,
            )
        C, cross, squares = (moment / self.weight for moment in moments)
        return C, cross, squares

    def surrogate(self, centred: bool, penalised: bool) -> tuple[Array, Array]:
        """Rows R (r + 1, d) and targets Z (r + 1, t) with the same F as all the rows so far.

        By a Cholesky factorisation of the correlations, whose diagonal is raised by rounding: a
        direction in which the rows hardly vary still tells of the targets. Without a penalty
        such a direction must be left out. The last row of R is zero, and that of Z holds what no
        coefficients can explain.
        """
        C, cross, squares = self.about(centred)
        varying = varies(np.diag(C), self.raw_squares, self.rounding_factor)
        scale = np.sqrt(np.where(varying, np.diag(C), 0.0))
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        sizes = np.sqrt(self.raw_squares * self.summed_squares(centred))
        noise = EPSILON * self.rounding_factor * sizes
        factor = raised_cholesky if penalised else pivoted_cholesky
        R, Z = factor(inverse[:, None] * C * inverse, inverse[:, None] * cross, noise * inverse**2)
        rest = np.sqrt(np.maximum(squares - np.sum(Z**2, axis=0), 0.0))
        size = np.sqrt(len(R) + 1.0)
        return size * np.vstack([R * scale, np.zeros(scale.size)]), size * np.vstack([Z, rest])

    @property
    def raw_squares(self) -> Array:
        """Σ s_i x_ij² / W, (d,): what sums over the rows rounded against."""
        return np.maximum(np.diag(self.gram), 0.0) / self.weight + self.mean**2

    def summed_squares(self, centred: bool) -> Array:
        """The mean squares of what was summed for C, (d,)."""
        return self.summed / self.weight + (0.0 if centred else self.mean**2)

    @property
    def rounding_factor(self) -> float:
        """How many units of roundoff the moments and their factorisation may be off by."""
        return float(2 * max(np.sqrt(self.rows), self.mean.size, self.chunks))
