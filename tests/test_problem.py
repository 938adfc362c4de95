"""The objective: against its formula, by differences, by repetition and by explicit centring."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from sketchridge import products, solve
from sketchridge.driver import make_problem
from sketchridge.preconditioner.diagonal import Columns
from tests import literal
from tests.problems import centred, decaying, dense_of, make, sparse_rows

KINDS = ["dense", "F", "csr"]
every_kind = pytest.mark.parametrize("kind", KINDS)
weighting = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
centring = pytest.mark.parametrize("intercept", [False, True], ids=["raw", "intercept"])


def data(kind, n=30, d=8, targets=1, seed=0):
    """X, Y and weights of which one is zero; the columns are far from centred."""
    rng = np.random.default_rng(seed)
    X = sparse_rows(rng, n, d, 0.4) if kind == "csr" else decaying(rng, n, d) + 1.0
    X = np.asfortranarray(X) if kind == "F" else X
    weights = rng.uniform(0.1, 3.0, n)
    weights[2] = 0.0
    return X, rng.standard_normal((n, targets)) + 2.0, weights


def for_numpy(X, Y, weights, intercept):
    """The same problem written out: X and Y centred where there is an intercept, and ω."""
    omega = weights / weights.sum()
    return *(centred(X, Y, omega) if intercept else (dense_of(X), Y)), omega


@every_kind
@weighting
@centring
def test_value_and_gradient_are_the_formulas(kind, weighted, intercept):
    X, Y, weights = data(kind, targets=3)
    weights = weights if weighted else np.ones(30)
    problem = make(X, Y, 0.1, weights if weighted else None, intercept)
    W = np.random.default_rng(1).standard_normal((8, 3))
    found = problem.evaluate(W)
    X0, Y0, omega = for_numpy(X, Y, weights, intercept)
    for t in range(3):
        value = literal.objective(X0, Y0[:, t], 0.1, W[:, t], omega)
        gradient = literal.gradient(X0, Y0[:, t], 0.1, W[:, t], omega)
        assert found.objective[t] == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(found.gradient[:, t], gradient, rtol=1e-11, atol=1e-13)
        residual = X0 @ W[:, t] - Y0[:, t]
        assert found.residual_norm[t] == pytest.approx(np.sqrt(omega @ residual**2), rel=1e-13)
        assert abs(found.residual_mean[t]) < 1e-14 if intercept else found.residual_mean[t] == 0
    np.testing.assert_allclose(problem.null_objective, 0.5 * omega @ Y0**2, rtol=1e-13)
    assert np.array_equal(found.coef, W)


@every_kind
@centring
def test_the_gradient_is_the_derivative_of_the_value(kind, intercept):
    X, Y, weights = data(kind)
    problem = make(X, Y, 0.1, weights, intercept)
    w, h = np.linspace(-1, 1, 8)[:, None], 1e-5
    steps = h * np.eye(8)[:, :, None]
    differences = [
        (problem.evaluate(w + e).objective - problem.evaluate(w - e).objective)[0] / (2 * h)
        for e in steps
    ]
    np.testing.assert_allclose(problem.evaluate(w).gradient[:, 0], differences, rtol=1e-7)


@every_kind
@weighting
@centring
def test_products_with_the_covariance_are_the_formulas(kind, weighted, intercept):
    X, Y, weights = data(kind)
    weights = weights if weighted else np.ones(30)
    problem = make(X, Y, 0.1, weights if weighted else None, intercept)
    X0, Y0, omega = for_numpy(X, Y, weights, intercept)
    C = literal.correlation(X0, omega)
    rng = np.random.default_rng(5)
    V, R = rng.standard_normal((8, 4)), rng.standard_normal((30, 4))
    half = np.sqrt(omega)[:, None]
    np.testing.assert_allclose(problem.gram(V), C @ V, atol=1e-13)
    np.testing.assert_allclose(problem.adjoint(R), X0.T @ (half * R), atol=1e-13)
    np.testing.assert_allclose(problem.multiply(V), X0 @ V, atol=1e-13)
    np.testing.assert_allclose(problem.squared_norms, (X0**2).sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(problem.null_gradient(), -X0.T @ (half**2 * Y0), atol=1e-13)
    assert problem.trace == pytest.approx(np.trace(C), rel=1e-13)
    assert problem.raw_trace == pytest.approx(omega @ (dense_of(X) ** 2).sum(axis=1), rel=1e-13)


@every_kind
@centring
def test_an_integer_weight_is_a_repeated_row(kind, intercept):
    X, Y, _ = data(kind)
    counts = np.arange(30) % 4
    repeated = np.repeat(np.arange(30), counts)
    W = np.random.default_rng(2).standard_normal((8, 1))
    weighted = make(X, Y, 0.1, counts.astype(float), intercept)
    plain = make(X[repeated], Y[repeated], 0.1, None, intercept)
    a, b = weighted.evaluate(W), plain.evaluate(W)
    assert a.objective == pytest.approx(b.objective, rel=1e-13)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(weighted.intercept(W), plain.intercept(W), rtol=1e-12)
    assert weighted.trace == pytest.approx(plain.trace, rel=1e-12)


@every_kind
def test_a_row_of_weight_zero_is_an_absent_row(kind):
    X, Y, weights = data(kind)
    Y = Y.copy()
    Y[2] = 1e9
    solution = solve(X, Y[:, 0], 0.1, sample_weight=weights, fit_intercept=True)
    kept = weights > 0
    without = solve(X[kept], Y[kept, 0], 0.1, sample_weight=weights[kept], fit_intercept=True)
    np.testing.assert_allclose(solution.coef, without.coef, rtol=1e-9)
    assert solution.intercept == pytest.approx(without.intercept, rel=1e-9)


@every_kind
@weighting
def test_the_intercept_is_explicit_centring(kind, weighted):
    X, Y, weights = data(kind)
    weights = weights if weighted else np.ones(30)
    problem = make(X, Y, 0.1, weights, fit_intercept=True)
    X0, Y0, omega = for_numpy(X, Y, weights, True)
    W = literal.ridge_solution(X0, Y0[:, 0], 0.1, omega)[:, None]
    assert np.linalg.norm(problem.evaluate(W).gradient) < 1e-13
    best = np.average(Y - dense_of(X) @ W, axis=0, weights=weights)
    np.testing.assert_allclose(problem.intercept(W), best, rtol=1e-12)


def test_no_intercept_is_zero():
    X, Y, _ = data("dense", targets=2)
    assert np.array_equal(make(X, Y, 0.1).intercept(np.ones((8, 2))), np.zeros(2))


@pytest.mark.parametrize("solver", ["direct", "cg", "svrg"])
def test_an_intercept_leaves_sparse_data_sparse(solver, monkeypatch):
    X, Y, _ = data("csr")
    X.sum_duplicates()  # canonical, so that nothing has to be copied
    buffers = X.data, X.indices, X.indptr
    plain = sparse.csr_array.toarray

    def toarray(self, *arguments, **options):
        assert self.shape != X.shape, "X was made dense"  # its small Gram matrix may be
        return plain(self, *arguments, **options)

    monkeypatch.setattr(sparse.csr_array, "toarray", toarray)
    problem, _, notes = make_problem(X, Y[:, 0], 0.1, fit_intercept=True)
    assert problem.X is X and notes == []
    solve(X, Y[:, 0], 0.1, solver=solver, fit_intercept=True, random_state=0)
    assert all(
        now is then for now, then in zip((X.data, X.indices, X.indptr), buffers, strict=True)
    )


@every_kind
@centring
def test_scaled_rows_are_rows_divided_by_their_average_norm(kind, intercept):
    X, Y, _ = data(kind)
    average = np.linalg.norm(dense_of(X), axis=1).mean()
    scaled, _, _ = make_problem(X, Y, 0.1, fit_intercept=intercept, scale_rows=True)
    divided = make(dense_of(X) / average, Y, 0.1, None, intercept)
    W = np.random.default_rng(2).standard_normal((8, 1))
    assert scaled.lam == pytest.approx(0.1 * average**2, rel=1e-13)
    a, b = scaled.evaluate(W), divided.evaluate(W * average)
    assert a.objective == pytest.approx(b.objective, rel=1e-12)
    np.testing.assert_allclose(a.gradient, b.gradient * average, rtol=1e-11, atol=1e-13)


@every_kind
def test_scaled_rows_predict_as_divided_rows_do(kind):
    X, Y, _ = data(kind)
    average = np.linalg.norm(dense_of(X), axis=1).mean()
    solution = solve(X, Y[:, 0], 0.1, scale_rows=True)
    expected = literal.ridge_solution(dense_of(X) / average, Y[:, 0], 0.1)
    predicted = dense_of(X) @ solution.coef
    np.testing.assert_allclose(predicted, dense_of(X) / average @ expected, rtol=1e-10)


@every_kind
@centring
def test_every_read_of_the_data_is_a_pass(kind, intercept):
    X, Y, _ = data(kind)
    problem = make(X, Y, 0.1, None, intercept)
    assert problem.passes == 0
    _ = problem.trace
    made = problem.passes
    assert made == 1 + intercept  # the norms, and the mean
    V, R = np.ones((8, 5)), np.ones((30, 5))
    calls = [
        lambda: problem.evaluate(V[:, :1]),
        lambda: problem.gram(V),
        lambda: problem.multiply(V),
        lambda: problem.adjoint(R),
        lambda: problem.null_gradient(),
    ]
    for number, call in enumerate(calls, start=1):
        call()
        assert problem.passes == made + number
    _ = problem.trace, problem.null_objective
    assert problem.passes == made + len(calls)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("targets", [1, 2])
def test_the_squares_of_sparse_columns_tell_the_slope_too(fit_intercept, targets, monkeypatch):
    monkeypatch.setattr("sketchridge.sparse_products.SMALL_WORK", 0)
    monkeypatch.setattr("sketchridge.columns.SMALL_WORK", 0)
    rng = np.random.default_rng(0)
    X, Y = sparse_rows(rng, 900, 40, 0.2), rng.standard_normal((900, targets))
    weights = rng.uniform(0.2, 3.0, 900)
    weights[5] = 0.0
    problem = make(X, Y, 0.1, weights, fit_intercept)
    fresh = make(X, Y, 0.1, weights, fit_intercept).evaluate(np.zeros((40, targets)))
    squares = Columns.of(problem)
    omega, dense = weights / weights.sum(), X.toarray()
    np.testing.assert_allclose(squares.raw, omega @ dense**2, rtol=1e-12, atol=1e-15)
    before = problem.passes
    known = problem.evaluate(np.zeros((40, targets)))
    assert problem.passes - before == (targets > 1)
    rows, Yc = dense - fit_intercept * (omega @ dense), Y - fit_intercept * (omega @ Y)
    np.testing.assert_allclose(known.gradient, -rows.T @ (omega[:, None] * Yc), atol=1e-13)
    np.testing.assert_allclose(known.gradient, fresh.gradient, atol=1e-14)
    np.testing.assert_allclose(known.objective, fresh.objective, rtol=1e-13)
    other = problem.at(0.1, [0])
    assert (other._known_slope() is None) == (targets > 1)


@centring
@weighting
def test_the_first_read_of_large_dense_data_tells_the_mean_and_the_slope(
    intercept, weighted, monkeypatch
):
    monkeypatch.setattr(products, "LARGE_MATRIX", 0)
    X, Y, weights = data("dense")
    weights = weights if weighted else np.ones(30)
    problem = make(X, Y, 0.1, weights, intercept)
    literally = make(np.asfortranarray(X), Y, 0.1, weights, intercept)
    _ = problem.raw_squared_norms, problem.trace
    assert problem.passes == 1
    zero = np.zeros((8, 1))
    for found, expected in zip(
        vars(problem.evaluate(zero)).values(), vars(literally.evaluate(zero)).values(), strict=True
    ):
        if isinstance(expected, np.ndarray):
            np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(problem.null_gradient(), literally.null_gradient(), rtol=1e-12)
    assert problem.passes == 1
    X0, _, omega = for_numpy(X, Y, weights, intercept)
    assert problem.trace == pytest.approx(np.trace(literal.correlation(X0, omega)), rel=1e-12)


def test_what_the_first_read_told_is_not_said_of_other_targets_or_rows(monkeypatch):
    monkeypatch.setattr(products, "LARGE_MATRIX", 0)
    X, Y, _ = data("dense")
    problem = make(X, Y, 0.1, None, True)
    _ = problem.raw_squared_norms
    other = problem.at(0.2)
    other.Y = 3.0 * Y
    np.testing.assert_allclose(other.null_gradient(), 3.0 * problem.null_gradient(), rtol=1e-10)
    assert problem.at(0.2)._known_slope() is not None  # another λ changes neither
    some = problem.sampled(np.arange(5))
    assert some._known_slope() is None
    problem.evaluate(np.ones((8, 1)))
    assert problem.passes == 2  # the first read, and this one


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("intercept", [False, True])
def test_infinities_far_apart_are_an_error_and_no_warning(order, intercept, monkeypatch):
    monkeypatch.setattr(products, "LARGE_MATRIX", 0)
    X = np.ones((9000, 3), order=order)
    X[100, 1], X[8000, 1] = np.inf, -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="first in row 100"):
            solve(X, np.arange(9000.0), 0.1, solver="cg", fit_intercept=intercept)


def test_the_trace_is_that_of_centred_rows_where_the_mean_is_nearly_all_of_them():
    rng = np.random.default_rng(0)
    X = 1e6 + rng.standard_normal((50, 8))
    problem = make(X, rng.standard_normal((50, 1)), 0.1, None, True)
    exact = np.sum((X - X.mean(axis=0)) ** 2) / 50
    assert problem.trace == pytest.approx(exact, rel=1e-9)
    assert problem.raw_trace - problem.mean @ problem.mean != pytest.approx(exact, rel=1e-6)


@every_kind
def test_a_constant_target_with_an_intercept_leaves_nothing_to_fit(kind):
    X, _, weights = data(kind)
    problem = make(X, np.full((30, 1), 0.1), 0.1, weights, fit_intercept=True)
    assert problem.null_objective == 0
    assert problem.intercept(np.zeros((8, 1))) == pytest.approx(0.1)


def test_rows_for_the_stochastic_kernels_are_contiguous_and_a_copy_is_noted():
    X, Y, _ = data("F")
    problem = make(X, Y, 0.1)
    assert problem.rows.flags.c_contiguous and np.array_equal(problem.rows, X)
    assert any("Fortran" in note for note in problem.notes)
    X = np.ascontiguousarray(X)
    problem = make(X, Y, 0.1)
    assert problem.rows is X and problem.notes == []


@every_kind
@centring
def test_the_rounding_bound_covers_the_gradients_rounding(kind, intercept):
    """Against the gradient in long double, at a point where everything cancels."""
    X, Y, weights = data(kind)
    problem = make(X, Y, 1e-6, weights, intercept)
    X0, Y0, omega = for_numpy(X, Y, weights, intercept)
    w = literal.ridge_solution(X0, Y0[:, 0], 1e-6, omega)
    found = problem.evaluate(w[:, None])
    wide = dense_of(X).astype(np.longdouble), Y[:, 0].astype(np.longdouble)
    omega = weights.astype(np.longdouble) / weights.astype(np.longdouble).sum()
    A, b = (wide[0] - omega @ wide[0], wide[1] - omega @ wide[1]) if intercept else wide
    truth = A.T @ (omega * (A @ w - b)) + np.longdouble(1e-6) * w
    error = np.linalg.norm((found.gradient[:, 0] - truth).astype(float))
    assert 0 < error <= problem.rounding(found)[0] < 1e-11
