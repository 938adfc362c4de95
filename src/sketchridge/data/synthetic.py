"""The paper's synthetic problems: random singular vectors, singular values 1/q^power."""

from __future__ import annotations

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.cholesky import LARGEST, factorise_in_place

Array = NDArray[np.float64]
NOISE_VARIANCE = 0.1
# A Gaussian matrix this many times as tall as wide is so well conditioned (below 6, almost surely)
# that a Cholesky factor of its Gram matrix orthonormalises it to rounding.
TALL = 2
ROWS_AT_A_TIME = 2000
LAPACK_BLOCK = 128


def synthetic(
    n: int,
    d: int,
    power: float,
    rng: np.random.Generator,
    noise_variance: float = NOISE_VARIANCE,
) -> tuple[Array, Array]:
    """X (n, d) with rows of norm one and y (n,) = Xw + noise of variance 0.1, w Gaussian.

    X has uniformly random (Haar) singular vectors and singular values 1/q^power before its rows
    are normalised; power 1 is the paper's linear decay and power 2 its quadratic one. The paper
    writes the noise as N(0, 0.1), which is a variance; its curves are those of 0.01, as if it
    were a standard deviation (docs/reproduction.md).

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge.data import synthetic
    >>> X, y = synthetic(100, 20, power=2, rng=np.random.default_rng(0))
    >>> X.shape, y.shape
    ((100, 20), (100,))
    """
    X = haar_spectrum(n, d, np.arange(1.0, min(n, d) + 1.0) ** -power, rng)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, noisy_targets(X, rng, noise_variance)


def noisy_targets(X: Array, rng: np.random.Generator, noise_variance: float) -> Array:
    """y (n,) = Xw + noise, with w and the noise Gaussian."""
    n, d = X.shape
    noise = np.sqrt(noise_variance) * rng.standard_normal(n)
    y: Array = X @ rng.standard_normal(d) + noise
    return y


def haar_spectrum(n: int, d: int, values: Array, rng: np.random.Generator) -> Array:
    """U diag(values) Vᵀ (n, d), with U and V independent and Haar distributed."""
    if n < d:
        return np.ascontiguousarray(haar_spectrum(d, n, values, rng).T)
    return apply_haar(n, values[:, None] * haar(d, d, rng).T, rng)


def apply_haar(n: int, M: Array, rng: np.random.Generator) -> Array:
    """U M for a Haar distributed U (n, r) and M (r, d), without forming U where n is large.

    A Gaussian matrix is G = UR with U Haar and independent of R, and R is the Cholesky factor of
    GᵀG. So U M = G (R⁻¹M), the product of a matrix that costs nothing and a small one.
    """
    rank = M.shape[0]
    if n < TALL * rank:
        return haar(n, rank, rng) @ M
    G = rng.standard_normal((n, rank))
    lower = _factor_of_gram(G)
    M = scipy.linalg.solve_triangular(lower, M, lower=True, trans="T", check_finite=False)
    product = G if M.shape[1] == rank else np.empty((n, M.shape[1]))
    for start in range(0, n, ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        product[rows] = G[rows] @ M
    return product


def _factor_of_gram(G: Array) -> Array:
    """The lower Cholesky factor of GᵀG; a large one in parts, both of them (see cholesky.py)."""
    side = G.shape[1]
    if side <= LARGEST:
        upper: Array = scipy.linalg.cholesky(G.T @ G, overwrite_a=True, check_finite=False)
        return upper.T
    lower = np.empty((side, side))
    for start in range(0, side, LARGEST):
        columns = slice(start, start + LARGEST)
        lower[:, columns] = G.T @ G[:, columns]
    possible = factorise_in_place(lower)
    assert possible, "a Gaussian matrix has full rank"
    return lower


def haar(rows: int, columns: int, rng: np.random.Generator) -> Array:
    """Uniformly random orthonormal columns (rows, columns), as a product of random reflections.

    The Householder vectors of a Gaussian matrix are independent, and each is that of a Gaussian
    vector (Stewart, 1980): they are drawn as such, and no matrix is factorised.
    """
    vectors = np.asfortranarray(np.tril(rng.standard_normal((rows, columns))))
    norms = np.linalg.norm(vectors, axis=0)
    heads = np.diag(vectors).copy()
    images = np.where(heads > 0, -norms, norms)  # the reflection sends the vector to images·e_j
    vectors /= heads - images
    # Room for blocks: without it LAPACK multiplies one reflection at a time, fifty times slower.
    Q, _, failed = scipy.linalg.lapack.dorgqr(
        vectors, (images - heads) / images, lwork=LAPACK_BLOCK * columns, overwrite_a=True
    )
    assert failed == 0
    orthonormal: Array = np.multiply(Q, np.sign(images), order="C")
    return orthonormal
