"""Rows A rounded to float32, and their products in float64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.preconditioner.base import Array
from sketchridge.products import DenseProducts
from sketchridge.summing import even_ranges
from sketchridge.threads import run_shared

Narrow = NDArray[np.float32]

# Columns of zeros are left out where they are at least one in so many.
EMPTY_COLUMNS = 20


@dataclass(frozen=True, eq=False)
class NarrowRows:
    """Rows A (s, d) rounded to float32, without the columns of zeros where these are many."""

    matrix: Narrow  # (s, m)
    columns: Any  # the index of these m
    width: int  # d
    size: float  # what rounding errors are in proportion to: ‖A‖²

    @classmethod
    def of(cls, rows: Array) -> NarrowRows:
        """Round rows in float64; those that float32 does not hold become infinite."""
        with np.errstate(over="ignore"):
            narrow = rows.astype(np.float32)
        return cls.packed(narrow, (rows != 0).any(axis=0), float(np.vdot(rows, rows)))

    @classmethod
    def packed(cls, rows: Narrow, filled: NDArray[np.bool_], size: float) -> NarrowRows:
        """Rows (s, d) in C order, in the same memory, given which columns (d,) are not all zero."""
        (s, d), columns = rows.shape, np.flatnonzero(filled)
        if EMPTY_COLUMNS * (d - columns.size) < d:
            return cls(rows, slice(None), d, size)
        from sketchridge import kernels

        numbers = rows.reshape(-1)
        kernels.pack_columns(numbers, s, d, columns)
        packed = numbers[: s * columns.size].reshape(s, columns.size)
        return cls(packed, columns, d, size)

    @property
    def few(self) -> bool:
        """Whether they are fewer than the columns."""
        return bool(self.matrix.shape[0] < self.matrix.shape[1])

    def split(self, groups: int) -> list[NarrowRows]:
        """So many groups of them, one after the other."""
        from sketchridge import kernels

        squares = np.empty(len(self.matrix))
        ranges = even_ranges(len(self.matrix), groups)
        run_shared([partial(kernels.dense_row_squares, self.matrix, *r, squares) for r in ranges])
        return [
            NarrowRows(self.matrix[a:b], self.columns, self.width, float(squares[a:b].sum()))
            for a, b in ranges
        ]

    def slope(self, R: Array) -> Array:
        """Aᵀ R, (d, t), with the columns of zeros."""
        full = np.zeros((self.width, R.shape[1]))
        full[self.columns] = self.adjoint(R)
        return full

    def widened(self) -> Array:
        """A in float64, with all columns."""
        wide = np.zeros((len(self.matrix), self.width))
        wide[:, self.columns] = self.matrix
        return wide

    def multiply(self, V: Array) -> Array:
        """A V (s, t), in float64, for V (m, t)."""
        products = DenseProducts(self.matrix)
        return products.compiled_multiply(V) if V.shape[1] == 1 else products.multiply(V)

    def adjoint(self, R: Array) -> Array:
        """Aᵀ R, (m, t), in float64."""
        products = DenseProducts(self.matrix)
        return products.compiled_adjoint(R) if R.shape[1] == 1 else products.adjoint(R)

    def normal(self, V: Array) -> Array:
        """AᵀA V, (m, t), in float64, for V (m, t)."""
        products, ones = DenseProducts(self.matrix), np.ones(len(self.matrix))
        if V.shape[1] > 1:
            return products.normal(V, np.zeros(V.shape[1]), ones)[0]
        # However small it is: the compiled loops are at hand, and others widen A first.
        return products.compiled_residual(V, np.zeros((len(ones), 1)), ones)[1]


def to_float32(numbers: Array) -> Narrow:
    """Rounded; a copy."""
    return numbers.astype(np.float32)


def to_float64(numbers: Narrow) -> Array:
    """The same numbers; a copy."""
    return numbers.astype(np.float64)
