"""Data whose values are small whole numbers times one step, as pixels, counts and genotypes are.

A copy in one byte each, an eighth of float64, is what the passes read. It says what the data says:
x = step·k·(1 + δ) for every value, with |δ| at most four units of float64's roundoff, and this is
checked for every value when the copy is made. (The step is divided by something, as a rule, and
the values are rounded.) So a product with it is as good as one with the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.products import LARGE_MATRIX, SHARES, DenseProducts, even_ranges
from sketchridge.threads import run_shared, thread_count

Array = NDArray[np.float64]

# How far a value may be off the whole number of steps, as a share of it.
SLIP = 4 * float(np.finfo(np.float64).eps)
# Values that are looked at to guess the step.
LOOKED_AT = 4096
MOST_CODES = 256


@dataclass(frozen=True, eq=False)
class Codes:
    """X (n, d) as whole numbers of steps."""

    numbers: NDArray[Any]  # (n, d) uint8 or int8, in C order
    step: float


def guessed_step(X: NDArray[Any]) -> tuple[float, type[np.integer[Any]]] | None:
    """The step of the values, and the type that holds the codes, as a few rows let one guess.

    None where they are no whole numbers of a step, or X is not large, in C order and float64.
    """
    if X.dtype != np.float64 or not X.flags.c_contiguous or X.size < LARGE_MATRIX:
        return None
    rows = X[:: max(1, X.size // LOOKED_AT)]
    values = np.unique(np.append(rows.ravel()[:LOOKED_AT], 0.0))
    if values.size > MOST_CODES or values.size == 1 or not np.isfinite(values).all():
        return None
    # Two neighbours among the values are a step apart, or the guess is wrong.
    largest, smallest = float(np.abs(values).max()), float(np.diff(values).min())
    count = round(min(largest / smallest, 2.0 * MOST_CODES))
    step = largest / count
    codes = np.rint(values / step)
    if np.any(np.abs(values - step * codes) > SLIP * np.abs(values)):
        return None
    for kind in (np.uint8, np.int8):
        if np.iinfo(kind).min <= codes.min() and codes.max() <= np.iinfo(kind).max:
            return step, kind
    return None


def encode(X: NDArray[Any], step: float, kind: type[np.integer[Any]]) -> tuple[Codes | None, Array]:
    """X as codes, or None where some value is no whole number of steps; and ‖x_i‖² (n,)."""
    from sketchridge import kernels

    limits = np.iinfo(kind)
    numbers, norms = np.empty(X.shape, kind), np.empty(len(X))
    low, high = float(limits.min), float(limits.max)
    work = partial(kernels.encode_rows, X, step, low, high, SLIP)
    ranges = even_ranges(len(X), SHARES * thread_count())
    good = run_shared([partial(work, start, stop, numbers, norms) for start, stop in ranges])
    return (Codes(numbers, step) if all(good) else None), norms


class CodedProducts(DenseProducts):
    """Products of a dense matrix, with one vector by its codes."""

    def __init__(self, X: NDArray[Any], codes: Codes) -> None:
        super().__init__(X)
        self.codes = codes

    @property
    def rounding_factor(self) -> float:
        """That of X, and what the codes are off."""
        return super().rounding_factor + SLIP / (4 * float(np.finfo(np.float64).eps))

    @property
    def stored(self) -> tuple[NDArray[Any], float]:
        """What single vectors are multiplied with, and the factor that makes it X."""
        return self.codes.numbers, self.codes.step
