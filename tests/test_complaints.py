"""What users of scikit-learn's Ridge asked for, by the number of its issue."""

from fractions import Fraction

import numpy as np
import pytest
import sklearn.linear_model
from scipy import sparse
from sklearn.datasets import make_regression

from sketchridge import Ridge
from sketchridge.solvers import SOLVERS
from tests.problems import with_spectrum

# One direct solve of a sketch: it has no accuracy to ask for.
ITERATIVE = sorted(set(SOLVERS) - {"sketch_and_solve"})


def objective(model, X, y, alpha):
    residual = y - X @ model.coef_ - model.intercept_
    return residual @ residual + alpha * model.coef_ @ model.coef_


def exact_objective(model, X, y, alpha):
    """The same in rational numbers: differences of it do not drown in rounding."""
    coef, intercept = [Fraction(w) for w in model.coef_.tolist()], Fraction(model.intercept_)
    fitted = [sum(Fraction(x) * w for x, w in zip(row, coef, strict=True)) for row in X.tolist()]
    loss = sum((Fraction(t) - f - intercept) ** 2 for t, f in zip(y.tolist(), fitted, strict=True))
    return loss + Fraction(alpha) * sum(w**2 for w in coef)


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("solver", ITERATIVE)
def test_22243_tol_means_the_same_for_every_solver(solver, tol):
    rng = np.random.default_rng(0)
    X, y = with_spectrum(rng, 120, 8, np.geomspace(1, 0.2, 8)), rng.standard_normal(120) + 1.0
    model = Ridge(4.0, solver=solver, tol=tol, random_state=0).fit(X, y)
    best = sklearn.linear_model.Ridge(4.0, solver="svd").fit(X, y)
    nothing = np.sum((y - y.mean()) ** 2)
    above = exact_objective(model, X, y, 4.0) - exact_objective(best, X, y, 4.0)
    assert float(above) / nothing <= model.relative_gap_ <= tol


@pytest.mark.parametrize("solver", ["sag", "saga"])
class Test23180:
    def test_the_same_seed_gives_the_same_coefficients(self, solver):
        X, y = make_regression(200, 10, noise=5.0, random_state=0)
        first, second = (Ridge(solver=solver, random_state=7).fit(X, y).coef_ for _ in range(2))
        assert np.array_equal(first, second)

    def test_no_smaller_tol_is_needed_than_for_the_others(self, solver):
        X, y = make_regression(200, 10, noise=5.0, random_state=0)
        model = Ridge(solver=solver, tol=1e-10, random_state=0).fit(X, y)
        best = sklearn.linear_model.Ridge(solver="svd").fit(X, y)
        other = Ridge(solver="cg", tol=1e-10, random_state=0).fit(X, y)
        errors = [np.linalg.norm(fitted.coef_ - best.coef_) for fitted in (model, other)]
        assert max(errors) <= 1e-4 * np.linalg.norm(best.coef_)


@pytest.mark.parametrize("alpha", [1.0, 0.0])
@pytest.mark.parametrize("solver", ["auto", "cholesky", "lsqr", "sparse_cg"])
def test_4710_sparse_data_has_the_intercept_of_dense_data(solver, alpha):
    if alpha == 0 and solver in ("lsqr", "sparse_cg"):
        with pytest.raises(ValueError, match="alpha=0 cannot be solved by 'cg'"):
            Ridge(alpha, solver=solver).fit(sparse.csr_array(np.eye(3)), np.ones(3))
        return
    rng = np.random.default_rng(42)
    X = rng.standard_normal((5000, 2))
    w = rng.standard_normal(2)
    y = X @ w + 10
    model = Ridge(alpha, tol=1e-12, solver=solver).fit(sparse.csr_array(X), y)
    dense = sklearn.linear_model.Ridge(alpha, solver="svd").fit(X, y)
    assert objective(model, X, y, alpha) == pytest.approx(objective(dense, X, y, alpha), abs=1e-8)
    assert model.intercept_ == pytest.approx(dense.intercept_, abs=1e-8)


def test_17574_every_target_has_a_penalty_of_its_own():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 9)), rng.standard_normal((60, 4))
    alphas = [0.01, 100.0, 1.0, 0.01]
    together = Ridge(alphas).fit(X, Y)
    for target, alpha in enumerate(alphas):
        alone = sklearn.linear_model.Ridge(alpha).fit(X, Y[:, target])
        np.testing.assert_allclose(together.coef_[target], alone.coef_, rtol=1e-9)


def test_19656_every_feature_has_a_penalty_of_its_own_and_some_have_none():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), rng.standard_normal(60)
    strengths = np.array([0.0, 0.1, 1.0, 10.0, 1000.0])
    model = Ridge(alpha=1.0, feature_penalty=strengths, fit_intercept=False).fit(X, y)
    expected = np.linalg.solve(X.T @ X + np.diag(strengths), X.T @ y)
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9)


def test_35016_solver_tells_which_factorisation_gave_the_answer():
    X, y = make_regression(n_samples=5, n_features=20, random_state=123)
    X, y = np.r_[X, X], np.r_[y, y]
    assert Ridge(fit_intercept=False, alpha=0).fit(X, y).solver_ == "svd"
    assert Ridge(fit_intercept=False, alpha=1).fit(X, y).solver_ == "cholesky"
    assert Ridge(solver="cholesky", alpha=1e-18).fit(X, y).solver_ == "svd"


@pytest.mark.parametrize("solver", ["sag", "saga"])
def test_21067_indices_of_64_bits_are_read(solver):
    rng = np.random.default_rng(0)
    X = sparse.random_array((150, 12), density=0.4, rng=rng, format="csr")
    y = rng.standard_normal(150)
    long = X.copy()
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    model = Ridge(0.5, solver=solver, tol=1e-10, random_state=0).fit(long, y)
    expected = Ridge(0.5, solver="svd").fit(X, y)
    assert np.linalg.norm(model.coef_ - expected.coef_) <= model.coef_error_bound_
    assert model.plan_.notes == () and long.indices.dtype == np.int64


def test_34191_float32_gives_what_float64_gives():
    X, y = make_regression(random_state=0)
    narrow = Ridge().fit(X.astype(np.float32), y)
    wide = Ridge().fit(X, y)
    assert narrow.coef_.dtype == np.float32
    assert np.linalg.norm(narrow.coef_ - wide.coef_) <= 1e-4 * np.linalg.norm(wide.coef_)


def test_33914_rows_may_come_in_chunks():
    X, y = make_regression(500, 20, noise=3.0, random_state=0)
    model = Ridge(2.0)
    for start in range(0, 500, 60):
        model.partial_fit(X[start : start + 60], y[start : start + 60])
    expected = sklearn.linear_model.Ridge(2.0).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    assert model.intercept_ == pytest.approx(expected.intercept_, rel=1e-9)
