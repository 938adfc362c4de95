"""Data whose values are small whole numbers times one step, as pixels, counts and genotypes are.

A copy in one byte each, an eighth of float64, is what the passes read. It says what the data says:
x = step·k·(1 + δ) with |δ| at most 4ε of float64, which is checked for every value when the copy is
made. (Whole numbers were divided by something, as a rule, and rounded.) So a product with it is as
good as one with the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from mmap import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.products import LARGE_MATRIX, DenseProducts
from sketchridge.summing import SHARES, even_ranges
from sketchridge.threads import run_shared, thread_count

Array = NDArray[np.float64]

# How far a value may be off the whole number of steps, as a share of it; what rounds in finding
# that out, and in a product with the step, is as much as a third of it.
EPSILON = float(np.finfo(np.float64).eps)
SLIP = 3 * EPSILON
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

    None where they are no whole numbers of a step, or X is not large, in C order, in memory and
    float64.
    """
    if X.dtype != np.float64 or not X.flags.c_contiguous or X.size < LARGE_MATRIX or _is_mapped(X):
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


def _is_mapped(X: NDArray[Any]) -> bool:
    """Whether X is (a view of) a memory map, which may be larger than the memory."""
    owner: Any = X
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return isinstance(owner, mmap)


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
        return super().rounding_factor + 1.0  # four units of roundoff

    @property
    def stored(self) -> tuple[NDArray[Any], float]:
        """What single vectors are multiplied with, and the factor that makes it X."""
        return self.codes.numbers, self.codes.step
