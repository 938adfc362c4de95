"""Problems of random size, sparsity, spectrum and penalty, for the planner's regret."""

import numpy as np
from benchmark_utils.scaling import scaled_rows
from benchopt import BaseDataset
from scipy import sparse

COUNT = 30
# Exponents of ten, from the least to the most.
DENSE_ROWS, DENSE_COLUMNS, DENSE_ENTRIES = (3.0, 5.0), (2.0, 4.0), (5.5, 7.5)
SPARSE_ROWS, SPARSE_COLUMNS = (3.5, 5.0), (2.7, 4.7)


class Dataset(BaseDataset):
    """The problem of a seed: dense of some spectral decay, badly scaled, or sparse like text."""

    name = "random"
    requirements = ["numpy", "scipy"]
    parameters = {"seed": list(range(COUNT))}
    test_parameters = {"seed": [0]}

    def get_data(self):
        rng = np.random.default_rng(self.seed)
        kind = ("decaying", "badly scaled", "text")[self.seed % 3]
        make = {"decaying": _decaying, "badly scaled": _badly_scaled, "text": _text}[kind]
        X = scaled_rows(make(rng, *_shape(rng, sparse_rows=kind == "text")))
        signal = X @ rng.standard_normal(X.shape[1])
        noise = rng.uniform(0.05, 1.0) * signal.std() * rng.standard_normal(X.shape[0])
        y = np.sign(signal + noise) if rng.random() < 0.5 else signal + noise
        return {"X": X, "y": y, "lam": 10.0 ** rng.uniform(-9, -2)}


def _shape(rng, sparse_rows):
    """Rows and columns, uniform in their logarithms, of a matrix that is neither tiny nor huge."""
    if sparse_rows:
        return int(10 ** rng.uniform(*SPARSE_ROWS)), int(10 ** rng.uniform(*SPARSE_COLUMNS))
    while True:
        rows, columns = rng.uniform(*DENSE_ROWS), rng.uniform(*DENSE_COLUMNS)
        if DENSE_ENTRIES[0] <= rows + columns <= DENSE_ENTRIES[1]:
            return int(10**rows), int(10**columns)


def _decaying(rng, n, d):
    """Gaussian rows with column deviations 1/q^power, turned by a random reflection."""
    X = rng.standard_normal((n, d)) * np.arange(1.0, d + 1.0) ** -rng.uniform(0, 2)
    axis = rng.standard_normal(d)
    axis /= np.linalg.norm(axis)
    return X - 2 * np.outer(X @ axis, axis)


def _badly_scaled(rng, n, d):
    """Correlated columns of scales from 1 to 1e4, none of mean zero."""
    factors = rng.standard_normal((n, 5)) @ rng.standard_normal((5, d))
    scales = 10.0 ** rng.uniform(0, 4, size=d)
    return (factors + rng.standard_normal((n, d)) + rng.uniform(0, 2, size=d)) * scales


def _text(rng, n, d):
    """Rows of a few words, drawn by Zipf's law, with positive weights."""
    words = rng.integers(5, 120, size=n)
    columns = np.minimum(d * rng.random(words.sum()) ** rng.uniform(2, 4), d - 1).astype(np.int32)
    rows = np.repeat(np.arange(n), words)
    weights = rng.exponential(size=columns.size)
    return sparse.csr_matrix(sparse.coo_matrix((weights, (rows, columns)), shape=(n, d)))
