"""What a few rows tell of dense data before it is read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketchridge.costs import Costs
from sketchridge.planner.choice import Candidate
from sketchridge.preconditioner import counted_dimension, counting_memory
from sketchridge.problem import ROWS_LOOKED_AT, RidgeProblem

Array = NDArray[np.float64]

# Columns whose mean squares differ by more than this are scaled before the sketch.
UNEVEN_COLUMNS = 1e4
# So many rows count the degrees of freedom that λ leaves, where that costs at most this share of a
# sure method and d is not small.
COUNTED_ROWS, COUNTED_SHARE = 250, 0.02


def column_squares(problem: RidgeProblem) -> Array:
    """About C's diagonal (d,), of dense data, by a few rows; NaN where none of them counts."""
    places = slice(None, None, max(1, problem.n // ROWS_LOOKED_AT))
    some, weights = problem.X[places], problem.weights[places]
    if not weights.any():
        return np.full(problem.d, np.nan)
    shares = weights / weights.sum()
    if problem.fit_intercept:
        some = some - shares @ some
    squares: Array = np.einsum("i,ij,ij->j", shares, some, some, dtype=np.float64)
    return squares


def columns_that_count(squares: Array, lam: float) -> float:
    """About the effective dimension, or more: x/(x + λ) is concave, and C's diagonal is at hand.

    What is no number is left for the reading of the rows to tell.
    """
    known = np.isfinite(squares)
    shares = squares[known] / (squares[known] + lam)
    return max(1.0, float(shares.sum() + np.sum(~known)))


def scaling_exponent(squares: Array) -> float:
    """The exponent of the columns' scaling, of dense data: 1 for columns that differ."""
    positive = squares[squares > 0]
    uneven = positive.size > 0 and positive.max() > UNEVEN_COLUMNS * float(np.median(positive))
    return 1.0 if uneven else 0.0


def dimension_if_cheap(
    problem: RidgeProblem,
    costs: Costs,
    sure: list[Candidate],
    limit: float,
    rng: np.random.Generator,
) -> float:
    """The effective dimension as it is counted, or d where that would cost too much."""
    worth = sure and costs.sampled_rows(COUNTED_ROWS) <= COUNTED_SHARE * sure[0].seconds
    fits = counting_memory(COUNTED_ROWS) <= limit
    if not worth or not fits or min(problem.n, problem.d) < 4 * COUNTED_ROWS:
        return float(problem.d)
    counted = max(1.0, counted_dimension(problem, COUNTED_ROWS, rng))
    return min(counted, float(problem.d))
