"""Small problems with known answers, for all the tests."""

import numpy as np
from scipy import sparse

from sketchridge.problem import RidgeProblem
from sketchridge.solvers import SOLVERS

# Those that go on until tol is reached; sketch and solve ends where it ends.
CONVERGING = {name: solver for name, solver in SOLVERS.items() if name != "sketch_and_solve"}


def orthonormal(rng, rows, columns):
    return np.linalg.qr(rng.standard_normal((rows, columns)))[0]


def with_spectrum(rng, n, d, singular_values):
    """X (n, d) with XᵀX/n of eigenvalues singular_values²."""
    rank = len(singular_values)
    left, right = orthonormal(rng, n, rank), orthonormal(rng, d, rank)
    return np.sqrt(n) * (left * singular_values) @ right.T


def decaying(rng, n, d, power=1.0):
    """X (n, d) with singular values 1/q^power."""
    return with_spectrum(rng, n, d, np.arange(1, min(n, d) + 1.0) ** -power)


def sparse_rows(rng, n, d, density=0.2):
    """A CSR matrix with decaying columns and some empty rows."""
    X = sparse.random_array((n, d), density=density, rng=rng, format="csr")
    X = X @ sparse.diags_array(np.arange(1, d + 1.0) ** -0.5)
    return sparse.csr_array(X)


def dense_of(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)


def centred(X, y, omega):
    """X and y as the literal algorithms want them for an intercept."""
    X = dense_of(X)
    return X - omega @ X, y - omega @ y


def make(X, y, lam, sample_weight=None, fit_intercept=False):
    return RidgeProblem(
        X, np.asarray(y, float).reshape(len(y), -1), lam, sample_weight, fit_intercept
    )


def correlation_factor(X, omega, fit_intercept=False):
    """The paper's X̄ (d, n), dense: X̄X̄ᵀ = C."""
    X = dense_of(X)
    X = X - omega @ X if fit_intercept else X
    return (np.sqrt(omega)[:, None] * X).T


def preconditioned_eigenvalues(X_bar, lam, P_inv_sqrt):
    """Of P^{-1/2}(X̄X̄ᵀ + λI)P^{-1/2}, descending; as squared singular values, for accuracy."""
    d = X_bar.shape[0]
    stacked = np.vstack([X_bar.T, np.sqrt(lam) * np.eye(d)]) @ P_inv_sqrt
    return np.linalg.svd(stacked, compute_uv=False) ** 2


def average_condition_number(X_bar, lam, P_inv_sqrt):
    """The paper's κ̃ = tr / λ_d of P^{-1/2}(C + λI)P^{-1/2}."""
    eigenvalues = preconditioned_eigenvalues(X_bar, lam, P_inv_sqrt)
    return eigenvalues.sum() / eigenvalues[-1]


def frequent_words(rng, n, d, entries, power):
    """Sparse rows (n, d) of at most so many entries, most of them in the first columns."""
    columns = np.minimum((d * rng.random((n, entries)) ** power).astype(int), d - 1)
    arrays = (rng.random(n * entries), columns.ravel(), np.arange(0, n * entries + 1, entries))
    X = sparse.csr_array(arrays, shape=(n, d))
    X.sum_duplicates()
    return X
