"""A preconditioner as a scaling of the columns and a low-rank one for the scaled columns."""

from __future__ import annotations

import numpy as np

from sketchridge.preconditioner.base import Array
from sketchridge.preconditioner.diagonal import DiagonalPreconditioner
from sketchridge.preconditioner.low_rank import LowRankPreconditioner
from sketchridge.preconditioner.scaled import ScaledPreconditioner


def by_columns(
    preconditioner: DiagonalPreconditioner | ScaledPreconditioner, longest_row: float
) -> tuple[Array, LowRankPreconditioner]:
    """Factors f (d,) and P̃ with P⁻¹ ∝ diag(f) P̃⁻¹ diag(f): P̃ suits the columns X diag(f).

    No entry of X diag(f) is larger than one, where no row of X is longer than `longest_row`: they
    fit into float32. Of the penalty, which differs from column to column there, P̃ knows the least.
    """
    if isinstance(preconditioner, DiagonalPreconditioner):
        factors, half = preconditioner.scale**-0.5, np.zeros((preconditioner.columns, 0))
    else:
        factors, half = 1.0 / preconditioner.roots[:, 0], preconditioner.half
    factors = factors / (factors.max() * (longest_row or 1.0))
    squares = np.sum(half**2, axis=0)  # the columns are orthogonal
    squares, half = squares[squares > 0], half[:, squares > 0]
    lam = preconditioner.lam * float(factors.min()) ** 2
    basis = half / np.sqrt(squares)
    return factors, LowRankPreconditioner(preconditioner.name, lam, basis, 1.0 - squares, 1.0)
