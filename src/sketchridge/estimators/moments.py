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

from sketchridge.driver import read_rows
from sketchridge.estimators.fitting import Fit
from sketchridge.feature_penalty import varies
from sketchridge.problem import EPSILON, RidgeProblem

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

    @classmethod
    def of(cls, X: Any, Y: Array, weights: Array | None) -> Moments:
        """The moments of one chunk of rows."""
        chunk = RidgeProblem(X, Y, 0.0, weights, fit_intercept=True)
        read_rows(chunk)
        weight = float(chunk.n if weights is None else weights.sum())
        assert chunk.mean is not None
        return cls(
            chunk.n,
            1,
            weight,
            chunk.mean,
            chunk.target_mean,
            weight * chunk.products.gram(chunk.weights, chunk.mean),
            -weight * chunk.null_gradient(),
            2 * weight * chunk.null_objective,
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

    def surrogate(self, centred: bool) -> tuple[Array, Array]:
        """Rows R (r + 1, d) and targets Z (r + 1, t) with the same F as all the rows so far.

        By a pivoted Cholesky factorisation of the correlations; the last row of R is zero, and
        that of Z holds what no coefficients can explain.
        """
        C, cross, squares = self.about(centred)
        scale = np.sqrt(np.where(varies(np.diag(C), self.raw_squares), np.diag(C), 0.0))
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(
            inverse[:, None] * C * inverse, tol=scale.size * EPSILON
        )
        order, upper = pivots - 1, np.triu(factor)[:rank]
        Z = np.empty((rank + 1, squares.size))
        if rank:
            right = (inverse[:, None] * cross)[order[:rank]]
            Z[:rank] = scipy.linalg.solve_triangular(upper[:, :rank], right, trans="T")
        Z[rank] = np.sqrt(np.maximum(squares - np.sum(Z[:rank] ** 2, axis=0), 0.0))
        R = np.zeros((rank + 1, scale.size))
        R[:rank, order] = upper
        R *= scale
        return np.sqrt(rank + 1.0) * R, np.sqrt(rank + 1.0) * Z

    @property
    def raw_squares(self) -> Array:
        """Σ s_i x_ij² / W, (d,): what sums over the rows rounded against."""
        return np.maximum(np.diag(self.gram), 0.0) / self.weight + self.mean**2

    @property
    def rounding_factor(self) -> float:
        """How many units of roundoff the moments and their factorisation may be off by."""
        return float(max(np.sqrt(self.rows), self.mean.size, self.chunks))
