"""The synthetic problems: their distribution, checked by what Haar measure implies."""

from importlib import import_module

import numpy as np
import pytest
from scipy import stats

from sketchridge.data import synthetic
from sketchridge.data.synthetic import apply_haar, haar, haar_spectrum

SHAPES = [(60, 20), (25, 20), (20, 20), (20, 60), (7, 1), (1, 7), (1, 1)]


@pytest.mark.parametrize("n, d", SHAPES)
@pytest.mark.parametrize("power", [1, 2])
def test_the_singular_values_are_as_asked_to_rounding(n, d, power):
    values = np.arange(1.0, min(n, d) + 1) ** -power
    X = haar_spectrum(n, d, values, np.random.default_rng(0))
    assert X.shape == (n, d) and X.flags.c_contiguous
    assert np.allclose(np.linalg.svd(X, compute_uv=False), values, rtol=1e-11)


@pytest.mark.parametrize("rows, columns", [(300, 300), (300, 40), (5, 1), (1, 1)])
def test_the_factors_are_orthonormal_to_rounding(rows, columns):
    Q = haar(rows, columns, np.random.default_rng(1))
    assert np.abs(Q.T @ Q - np.eye(columns)).max() < 1e-14 * max(4, np.sqrt(rows))
    U = apply_haar(3 * rows, np.eye(rows), np.random.default_rng(2))
    assert np.abs(U.T @ U - np.eye(rows)).max() < 1e-13


def draws(shape, count=2000):
    """Many small orthonormal factors by each of the two methods."""
    rows, columns = shape
    rng = np.random.default_rng(3)
    yield np.array([haar(rows, columns, rng) for _ in range(count)])
    if rows >= 2 * columns:
        yield np.array([apply_haar(rows, np.eye(columns), rng) for _ in range(count)])


@pytest.mark.parametrize("shape", [(6, 2), (3, 3), (4, 2)])
def test_the_entries_are_those_of_haar_measure(shape):
    """An entry's square is Beta(½, (n−1)/2) with any sign; fourth moments join two columns."""
    rows, columns = shape
    beta = stats.beta(0.5, (rows - 1) / 2)
    for Q in draws(shape):
        for i in range(rows):
            for j in range(columns):
                assert stats.kstest(Q[:, i, j] ** 2, beta.cdf).pvalue > 1e-5
                assert abs(np.mean(Q[:, i, j] > 0) - 0.5) < 4.5 * 0.5 / np.sqrt(len(Q))
        # E q_11² q_22² = (n+1) / ((n−1) n (n+2)), E q_11 q_12 q_21 q_22 = −1 / ((n−1) n (n+2)).
        n = rows
        scale = 1 / ((n - 1) * n * (n + 2))
        for products, expected in (
            (Q[:, 0, 0] ** 2 * Q[:, 1, 1] ** 2, (n + 1) * scale),
            (Q[:, 0, 0] * Q[:, 0, 1] * Q[:, 1, 0] * Q[:, 1, 1], -scale),
        ):
            error = products.std() / np.sqrt(len(Q))
            assert abs(products.mean() - expected) < 4.5 * error


def test_a_square_factor_is_a_rotation_as_often_as_a_reflection():
    (Q,) = draws((3, 3))
    share = np.mean(np.linalg.det(Q) > 0)
    assert abs(share - 0.5) < 4.5 * 0.5 / np.sqrt(len(Q))


def test_the_singular_vectors_of_both_sides_are_independent():
    """The first left and right singular vectors' entries do not vary together."""
    rng = np.random.default_rng(5)
    values = np.array([1.0, 1e-3])
    signs = [np.sign(haar_spectrum(5, 2, values, rng)[:2, :]) for _ in range(1000)]
    # X is nearly u vᵀ: the sign of an entry is that of u_i v_j, fair; of a 2×2 minor's product +1.
    assert abs(np.mean([s[0, 0] for s in signs])) < 4.5 / np.sqrt(len(signs))
    assert np.mean([s.prod() for s in signs]) > 0.9


@pytest.mark.parametrize("power", [1, 2])
def test_rows_have_norm_one_and_the_noise_its_variance(power):
    n, d = 4000, 50
    X, y = synthetic(n, d, power, np.random.default_rng(6))
    assert np.allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-14)
    residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    variance = residual @ residual / (n - d)
    assert variance == pytest.approx(0.1, rel=4.5 * np.sqrt(2 / (n - d)))


def test_the_true_coefficients_are_standard_gaussian():
    """Var y_i = ‖x_i‖² + 0.1 over draws of w."""
    values = np.array([synthetic(2, 3, 1, np.random.default_rng(seed))[1] for seed in range(3000)])
    assert values[:, 0].var() == pytest.approx(1.1, rel=4.5 * np.sqrt(2 / 3000))
    assert stats.kstest(values[:, 0] / np.sqrt(1.1), "norm").pvalue > 1e-4


def test_a_large_gram_matrix_is_factorised_in_parts(monkeypatch):
    M = np.random.default_rng(0).standard_normal((30, 12))
    whole = apply_haar(90, M, np.random.default_rng(1))
    module = import_module(apply_haar.__module__)  # `sketchridge.data.synthetic` is the function
    monkeypatch.setattr(module, "LARGEST", 7)  # 30 columns are four parts and a rest
    np.testing.assert_allclose(apply_haar(90, M, np.random.default_rng(1)), whole, atol=1e-12)


def test_the_same_seed_gives_the_same_problem():
    X, y = synthetic(50, 10, 1, np.random.default_rng(7))
    again, y_again = synthetic(50, 10, 1, np.random.default_rng(7))
    assert np.array_equal(X, again) and np.array_equal(y, y_again)
