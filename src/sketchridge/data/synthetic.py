"""The paper's synthetic problems: random singular vectors, singular values 1/q^power."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
NOISE_VARIANCE = 0.1


def synthetic(n: int, d: int, power: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """X (n, d) with rows of norm one and y (n,) = Xw + noise, w Gaussian.

    X has uniformly random singular vectors and singular values 1/q^power before its rows are
    normalised; power 1 is the paper's linear decay and power 2 its quadratic one.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge.data import synthetic
    >>> X, y = synthetic(100, 20, power=2, rng=np.random.default_rng(0))
    >>> X.shape, y.shape
    ((100, 20), (100,))
    """
    rank = min(n, d)
    values = np.arange(1.0, rank + 1.0) ** -power
    left, right = _orthonormal(n, rank, rng), _orthonormal(d, rank, rng)
    X = (left * values) @ right.T
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    noise = np.sqrt(NOISE_VARIANCE) * rng.standard_normal(n)
    return X, X @ rng.standard_normal(d) + noise


def _orthonormal(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """Uniformly random orthonormal columns: QR of a Gaussian matrix, signs made unique."""
    Q, R = np.linalg.qr(rng.standard_normal((rows, columns)))
    result: Array = Q * np.sign(np.diag(R))
    return result
