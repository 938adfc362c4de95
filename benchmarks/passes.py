"""A pass over the data, Xᵀ(Xv), in the ways that there are, against one bare product that reads it.

    SKETCHRIDGE_DATA=folder PYTHONPATH=. python benchmarks/passes.py

Dense rows: four at a time, and with the next four read while these are added, which is what is
taken on Intel's processors (docs/decisions/02); in float64, float32 and in bytes, which are never
read ahead. Sparse rows: as given, and in the few bytes of their compact copy, with the columns in
the order of their entries (docs/decisions/25); gigabytes are those of X as given. Every way in turn
with X v by BLAS or scipy; medians, and the quartiles of the ratio. Sparse data is rcv1_subsets.npz
and imdb_tfidf.npz.
"""

import os
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from scipy import sparse

from benchmarks.kernels import settled_seconds
from sketchridge import products
from sketchridge.codes import CodedProducts, encode
from sketchridge.products import DenseProducts
from sketchridge.sparse_products import SparseProducts
from sketchridge.threads import single_threaded_blas

SHAPES = [(100_000, 200), (40_000, 500), (25_000, 784), (15_000, 1500), (8000, 3072), (5000, 5000)]
REPEATS = 15
TEXTS = ("rcv1_subsets", "imdb_tfidf")


def passes(made, d):
    """What makes a pass, with a vector of ones."""
    V, shift, weights = np.ones((d, 1)), np.zeros(1), np.full(made.X.shape[0], 0.5)

    def one():
        with single_threaded_blas():
            made.normal(V, shift, weights)

    return one


def measure(name, ways, product, size):
    """Every way in turn with the bare product."""
    for way in (*ways.values(), product):
        way()
    times = np.array(
        [[settled_seconds(way) for way in (*ways.values(), product)] for _ in range(REPEATS)]
    )
    for way, taken in zip(ways, times.T, strict=False):
        low, middle, high = np.quantile(taken / times[:, -1], [0.25, 0.5, 0.75])
        print(
            f"{name:<22} {way:<22} {1e3 * np.median(taken):6.2f} ms  {middle:5.2f} × the product "
            f"[{low:.2f}, {high:.2f}], {size / np.median(taken) / 1e9:5.1f} GB/s",
            flush=True,
        )


def ahead_or_not(X):
    """The two ways of reading dense rows."""

    def way(ahead):
        with mock.patch.object(products, "reads_ahead", lambda rows: ahead):
            passes(DenseProducts(X), X.shape[1])()

    return {"four at a time": partial(way, False), "the next four ahead": partial(way, True)}


def dense(n, d):
    whole = np.random.default_rng(0).integers(0, 256, size=(n, d)) / 255.0
    codes, _ = encode(whole, 1 / 255, np.uint8)
    v = np.ones(d)
    for X in (whole, whole.astype(np.float32)):
        measure(
            f"{n} × {d}, {X.dtype}", ahead_or_not(X), lambda X=X: X @ v.astype(X.dtype), X.nbytes
        )
    numbers = codes.numbers
    ways = {"in bytes": passes(CodedProducts(whole, codes), d)}
    measure(f"{n} × {d}, {numbers.dtype}", ways, lambda: whole @ v, numbers.nbytes)


def text(name):
    file = np.load(Path(os.environ["SKETCHRIDGE_DATA"]) / f"{name}.npz")
    arrays = file["data"].astype(np.float64), file["indices"], file["indptr"]
    X, v = sparse.csr_array(arrays, shape=tuple(file["shape"].tolist())), np.ones(file["shape"][1])
    ways = {
        "as given": passes(SparseProducts(X, frequent_first=True), v.size),  # in no other order
        "in few bytes": passes(SparseProducts(X, compact=True), v.size),
    }
    measure(name, ways, lambda: X @ v, X.data.nbytes + X.indices.nbytes)


def main():
    for shape in SHAPES:
        dense(*shape)
    for name in TEXTS if "SKETCHRIDGE_DATA" in os.environ else ():
        text(name)


if __name__ == "__main__":
    main()
