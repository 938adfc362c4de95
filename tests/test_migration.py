"""docs/migration.md: other packages' penalties in terms of ours."""

from pathlib import Path

import numpy as np
import pytest
import sklearn.linear_model
from sklearn.kernel_ridge import KernelRidge

from sketchridge import Ridge, RidgeClassifier

PAGE = Path(__file__).parent.parent / "docs" / "migration.md"


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4)) * [1.0, 5.0, 0.2, 2.0] + [0.0, 3.0, -1.0, 10.0]
    y = 7.0 * X[:, 0] - X[:, 1] + 4.0 + 3.0 * rng.standard_normal(120)
    return X, y, rng.uniform(0.2, 2.0, 120)


def same(model, expected, rtol=1e-8):
    np.testing.assert_allclose(model.coef_, expected, rtol=rtol)


def documented(X, y, s, strength):
    """Coefficients that minimise 1/(2W) Σ s (…)² + ½ Σ strength_j w_j², by normal equations."""
    omega = s / s.sum()
    X, y = X - omega @ X, y - omega @ y
    return np.linalg.solve((X.T * omega) @ X + np.diag(strength), X.T @ (omega * y))


def spreads(X, y, s):
    """σ and v, as the page computes them."""
    sigma = np.sqrt(np.average((y - np.average(y, weights=s)) ** 2, weights=s))
    v = np.average((X - np.average(X, axis=0, weights=s)) ** 2, axis=0, weights=s)
    return sigma, v


def test_scikit_learns_ridge(data):
    X, y, s = data
    same(Ridge(3.0).fit(X, y, s), sklearn.linear_model.Ridge(3.0).fit(X, y, s).coef_)


def test_scikit_learns_classifier(data):
    X, y, s = data
    expected = sklearn.linear_model.RidgeClassifier(3.0).fit(X, y > 3, s)
    same(RidgeClassifier(3.0).fit(X, y > 3, s), expected.coef_)


def test_scikit_learns_kernel_ridge(data):
    X, y, _ = data
    kernel = KernelRidge(alpha=3.0).fit(X, y)
    same(Ridge(3.0, fit_intercept=False).fit(X, y), kernel.dual_coef_ @ X)


@pytest.mark.filterwarnings("ignore:Coordinate descent without L1")
@pytest.mark.filterwarnings("ignore:Objective did not converge")  # its own measure needs an L1
def test_scikit_learns_elastic_net(data):
    X, y, s = data
    net = sklearn.linear_model.ElasticNet(0.3, l1_ratio=0.0, tol=1e-14, max_iter=20_000)
    same(Ridge(0.3, alpha_scale="mean").fit(X, y, s), net.fit(X, y, s).coef_)


def test_scikit_learns_sgd(data):
    X, y, _ = data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    descent = sklearn.linear_model.SGDRegressor(
        alpha=0.3, tol=None, max_iter=2000, learning_rate="constant", eta0=1e-4, random_state=0
    )
    same(Ridge(0.3, alpha_scale="mean").fit(X, y), descent.fit(X, y).coef_, rtol=2e-2)


def test_scikit_learns_bayesian_ridge(data):
    X, y, _ = data
    model = sklearn.linear_model.BayesianRidge(tol=1e-12, max_iter=1000).fit(X, y)
    same(Ridge(model.lambda_ / model.alpha_).fit(X, y), model.coef_)


def glmnet(X, y, s, lam, standardize):
    """As its manual has it: y, and X if asked, scaled to unit variance; then scaled back."""
    sigma, v = spreads(X, y, s)
    scale = np.sqrt(v) if standardize else np.ones(X.shape[1])
    inside = documented(X / scale, y / sigma, s, np.full(X.shape[1], lam / sigma))
    return sigma * inside / scale


def test_glmnet_and_spark(data):
    X, y, s = data
    sigma, v = spreads(X, y, s)
    assert abs(sigma - 1) > 1  # else the division would not show
    plain = Ridge(0.5 / sigma, alpha_scale="mean").fit(X, y, s)
    same(plain, glmnet(X, y, s, 0.5, standardize=False))
    scaled = Ridge(0.5 / sigma, alpha_scale="mean", feature_penalty=v).fit(X, y, s)
    same(scaled, glmnet(X, y, s, 0.5, standardize=True))
    # Spark's normal equations: regParam · var_j / σ on the diagonal of the covariance.
    same(scaled, documented(X, y, s, 0.5 * v / sigma))
    same(plain, documented(X, y, s, np.full(4, 0.5 / sigma)))


def test_cyanure(data):
    X, y, _ = data
    expected = documented(X, y, np.ones(len(y)), np.full(4, 0.5))
    same(Ridge(0.5, alpha_scale="mean").fit(X, y), expected)


def test_the_page_has_a_line_for_each():
    page = PAGE.read_text()
    names = ["`Ridge(alpha)`", "RidgeClassifier", "KernelRidge", "ElasticNet", "SGDRegressor"]
    for name in [*names, "BayesianRidge", "glmnet", "Spark", "cyanure"]:
        assert f"| {name}" in page or f"scikit-learn {name}" in page or f"`{name}" in page
