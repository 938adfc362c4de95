"""Sums of dense rows, S X for a sparse S, in one read of X: what embeddings are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.products import DenseProducts
from sketchridge.summing import SHARES, added, even_ranges
from sketchridge.threads import run_all, run_shared, thread_count

Array = NDArray[np.float64]


def gathered_sums(S: Any, products: DenseProducts, product: Array, norms: Array) -> Array:
    """S X, written to product (s, d), for a sparse S (s, n) in CSR and dense rows in C order.

    Every row is read where it lies, and a row of the product is made while it is in the cache: this
    costs one read of X for every entry that a column of S has. The squared norms of the rows that
    are read go to norms (n,).
    """
    from sketchridge import kernels

    rows, factor = products.stored
    sums = kernels.CSR(factor * S.data, S.indices, S.indptr)
    ranges = even_ranges(S.shape[0], SHARES * thread_count())
    gather = partial(kernels.gathered_rows, sums, rows)
    run_shared([partial(gather, start, stop, product, norms) for start, stop in ranges])
    norms[S.indices] *= factor**2  # of those that were read now, however often
    return product


@dataclass(frozen=True, eq=False)
class NarrowSums:
    """Sums of rows, rounded to float32, and what was seen of them before."""

    rows: NDArray[np.float32]  # (s, d)
    norms: Array | None  # (n,) the squared norms of the rows that were summed, if they were found
    image: Array  # (s, 1) the sums' products with a probe
    slope: Array  # (d, t) the sums' transpose times targets
    filled: NDArray[np.bool_]  # (d,) the columns that are not all zero
    size: float  # the sum of the squares

    @classmethod
    def gathered(
        cls,
        S: Any,
        products: DenseProducts,
        centring: tuple[Array, Array | None],
        targets: Array,
        probe: Array,
    ) -> NarrowSums:
        """S X − shift meanᵀ for a sparse S (s, n) in CSR, dense rows in C order and (shift, mean).

        One read of X, as in `gathered_sums`, and nothing else. Targets (s, t), the probe (d, 1).
        """
        from sketchridge import kernels

        rows, factor = products.stored
        (s, n), d = S.shape, rows.shape[1]
        shift, mean = centring
        centre = np.zeros(0) if mean is None else mean
        product, norms, image = np.empty((s, d), np.float32), np.empty(n), np.empty((s, 1))
        sums = kernels.CSR(factor * S.data, S.indices, S.indptr)

        def part(start: int, stop: int) -> tuple[Array, NDArray[np.bool_], float]:
            slope, filled = np.zeros((targets.shape[1], d)), np.zeros(d, dtype=np.bool_)
            seen = (product, norms, image[:, 0], slope, filled)
            size = kernels.gathered_narrow_rows(
                sums, rows, shift, centre, targets, probe[:, 0], start, stop, *seen
            )
            return slope, filled, size

        ranges = even_ranges(s, SHARES * thread_count())
        slopes, filled, sizes = zip(*run_shared([partial(part, *r) for r in ranges]), strict=True)
        norms *= factor**2
        return cls(product, norms, image, added(slopes).T, np.any(filled, axis=0), sum(sizes))

    @classmethod
    def scattered(
        cls,
        S: Any,
        X: NDArray[Any],
        centring: tuple[Array, Array | None],
        targets: Array,
        probe: Array,
    ) -> NarrowSums:
        """The same of dense columns, for an S that has one entry in every column; no norms."""
        product = np.empty((S.shape[0], X.shape[1]), np.float32)
        return cls(product, None, *scattered_sums(S, X, centring, targets, probe, product))


def scattered_sums(
    S: Any,
    X: NDArray[Any],
    centring: tuple[Array, Array | None],
    targets: Array,
    probe: Array,
    product: NDArray[Any],
) -> tuple[Array, Array, NDArray[np.bool_], float]:
    """S X − shift meanᵀ, written to product (s, d) of any type; X in Fortran order, read once.

    Every column is added up by itself, in s sums that stay in the cache. S (s, n) is sparse and has
    one entry in every column. Returns what `NarrowSums` tells of them, but the rows and the norms.
    """
    from sketchridge import kernels

    (s, _), d = S.shape, X.shape[1]
    thrown, (shift, mean) = S.tocsc(), centring
    centre = np.zeros(0) if mean is None else mean
    slope, filled = np.empty((targets.shape[1], d)), np.zeros(d, dtype=np.bool_)
    sums = partial(kernels.scattered_columns, X.T, thrown.indices, thrown.data, shift, centre)

    def part(start: int, stop: int) -> tuple[Array, float]:
        image = np.zeros(s)
        size = sums(targets, probe[:, 0], start, stop, product, image, slope, filled)
        return image, size

    fours = even_ranges(-(-d // 4), thread_count())  # which are added up together
    ranges = [(4 * start, min(4 * stop, d)) for start, stop in fours]
    images, sizes = zip(*run_all([partial(part, *ends) for ends in ranges]), strict=True)
    return added(images)[:, None], slope.T, filled, float(sum(sizes))


def scattering_memory(rows: int) -> int:
    """The numbers that `scattered_sums` holds besides what it makes: sums, and products."""
    return 5 * rows * thread_count()
