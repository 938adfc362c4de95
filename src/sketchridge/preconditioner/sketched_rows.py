"""Rows A in float64, dense or sparse, centred or not: their products, and their Gram matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sketchridge.gram import add_gram, mirrored
from sketchridge.preconditioner.base import Array
from sketchridge.products import DenseProducts
from sketchridge.summing import even_ranges


@dataclass(frozen=True, eq=False)
class SketchedRows:
    """A = B − u mᵀ (s, d): B dense or CSR in float64, m the mean that is centred away."""

    matrix: Any  # B
    centring: tuple[Array, Array] | None = None  # u (s,) and m (d,), where there is something to do

    @classmethod
    def of(cls, matrix: Any, mean: Array | None, shift: Array) -> SketchedRows:
        """Centre the rows: dense ones in place, sparse ones implicitly."""
        if mean is None:
            return cls(matrix)
        if isinstance(matrix, np.ndarray):
            for row, amount in zip(matrix, shift, strict=True):
                row -= amount * mean
            return cls(matrix)
        return cls(matrix, (shift, mean))

    @cached_property
    def size(self) -> float:
        """What rounding errors are in proportion to: ‖A‖², and what centring cancels."""
        values = self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.data
        size = float(np.vdot(values, values))
        if self.centring is not None:
            shift, mean = self.centring
            size += float(shift @ shift) * float(mean @ mean)
        return size

    @property
    def shape(self) -> tuple[int, int]:
        """(s, d)."""
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    def split(self, groups: int) -> list[SketchedRows]:
        """So many groups of them, one after the other."""
        parts = []
        for start, stop in even_ranges(self.shape[0], groups):
            centring = self.centring
            if centring is not None:
                centring = centring[0][start:stop], centring[1]
            parts.append(SketchedRows(self.matrix[start:stop], centring))
        return parts

    def slope(self, R: Array) -> Array:
        """Aᵀ R, (d, t)."""
        return self.adjoint(R)

    def multiply(self, V: Array) -> Array:
        """A V, (s, k)."""
        if isinstance(self.matrix, np.ndarray):
            return DenseProducts(self.matrix).multiply(V)
        product: Array = self.matrix @ V
        if self.centring is None:
            return product
        shift, mean = self.centring
        return product - np.outer(shift, mean @ V)

    def adjoint(self, R: Array) -> Array:
        """Aᵀ R, (d, k)."""
        if isinstance(self.matrix, np.ndarray):
            return DenseProducts(self.matrix).adjoint(R)
        product: Array = self.matrix.T @ R
        if self.centring is None:
            return product
        shift, mean = self.centring
        return product - np.outer(mean, shift @ R)

    def gram(self) -> Array:
        """AᵀA, dense (d, d)."""
        product = _gram(self.matrix)
        if self.centring is not None:
            shift, mean = self.centring
            _centre(product, mean, self.matrix.T @ shift, float(shift @ shift))
        return product

    def outer(self) -> Array:
        """A Aᵀ, dense (s, s)."""
        product = _gram(self.matrix.T)
        if self.centring is not None:
            shift, mean = self.centring
            _centre(product, shift, self.matrix @ mean, float(mean @ mean))
        return product


@dataclass(frozen=True, eq=False)
class SummedRows:
    """AᵀA of rows A (s, d), s ≥ d, that were made block by block and not kept."""

    normal: Array  # (d, d)

    @property
    def size(self) -> float:
        """What rounding errors are in proportion to: ‖A‖²."""
        return float(np.trace(self.normal))


def _gram(matrix: Any) -> Array:
    """MᵀM of a dense or sparse matrix, dense."""
    if not isinstance(matrix, np.ndarray):
        product: Array = (matrix.T @ matrix).toarray()
        return product
    total = np.zeros((matrix.shape[1], matrix.shape[1]))
    add_gram(matrix, total)
    return mirrored(total)


def _centre(product: Array, vector: Array, image: Array, square: float) -> None:
    """Subtract v bᵀ + b vᵀ − square·v vᵀ in place, row by row so that nothing is copied."""
    image = image - 0.5 * square * vector
    for row, one, other in zip(product, vector, image, strict=True):
        row -= one * image + other * vector
