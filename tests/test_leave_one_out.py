"""Leave-one-out: the formulas against fits without each row, the estimates against the formulas."""

import time

import numpy as np
import pytest
from scipy import sparse

from sketchridge import solve
from sketchridge.crossvalidation import Samples
from sketchridge.driver import check_controls
from sketchridge.leave_one_out import leave_one_out
from sketchridge.threads import single_threaded_blas
from sketchridge.tracing import Tracer
from tests.problems import decaying, sparse_rows


@pytest.fixture(autouse=True)
def one_thread():
    """On problems this small the threads of BLAS only wait for one another."""
    with single_threaded_blas():
        yield


def left_out(X, Y, alphas, weights=None, fit_intercept=False, asked=None, seed=0, **options):
    """What leaving out rows tells for each alpha, in the order of `alphas`, which descend."""
    weights = np.ones(X.shape[0]) if weights is None else weights
    problem = Samples(X, Y, weights, fit_intercept).problem(weights)
    controls = check_controls(tol=1e-12, **options)
    lams = np.asarray(alphas) / weights.sum()
    tracer = Tracer(problem, lams, controls, time.perf_counter(), asked=asked)
    tracer.trace()
    return list(leave_one_out(tracer, np.random.default_rng(seed)))


def refitted_errors(X, Y, alpha, weights, fit_intercept):
    """y_i minus the prediction of a fit to all other rows, one by one."""
    n = X.shape[0]
    errors = np.empty(Y.shape)
    for i in range(n):
        others = np.arange(n) != i
        lam = alpha / weights[others].sum()
        fit = solve(
            X[others],
            Y[others],
            lam,
            tol=1e-20,
            sample_weight=weights[others],
            fit_intercept=fit_intercept,
            solver="direct",
        )
        row = X[[i]].toarray() if sparse.issparse(X) else X[[i]]
        errors[i] = Y[i] - (fit.coef @ row[0] + fit.intercept)
    return errors


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("shape", [(15, 4), (8, 20), (9, 9)])
def test_exact_errors_are_those_of_fits_without_the_row(shape, kind, fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape) + 1.0
    X = sparse.csr_array(X * (rng.random(shape) < 0.6)) if kind == "sparse" else X
    Y = rng.standard_normal((shape[0], 2)) + 3.0
    weights = rng.uniform(0.2, 3.0, shape[0])
    weights[2] = 0.0  # a row that does not count is predicted by the fit of all the others
    for alpha, left in zip(
        [10.0, 0.3, 1e-3], left_out(X, Y, [10.0, 0.3, 1e-3], weights, fit_intercept), strict=True
    ):
        expected = refitted_errors(X, Y, alpha, weights, fit_intercept)
        np.testing.assert_allclose(left.errors, expected, rtol=1e-8, atol=1e-9)
        assert np.array_equal(left.squares, left.errors**2) and not np.any(left.doubt)


def test_a_weight_is_not_a_number_of_repetitions():
    """Leaving out a row of weight two takes all of it away; of two copies one stays."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((10, 3)), rng.standard_normal((10, 1))
    weights = np.ones(10)
    weights[0] = 2.0
    weighted = left_out(X, Y, [1.0], weights)[0].errors
    repeated = left_out(np.vstack([X[:1], X]), np.vstack([Y[:1], Y]), [1.0])[0].errors
    assert abs(weighted[0, 0]) > abs(repeated[0, 0]) + 1e-3
    np.testing.assert_allclose(weighted[1:], repeated[2:], rtol=1e-10)


def test_tiny_penalties_do_not_lose_the_digits_of_wide_data():
    """Residual and 1 − h vanish together there: their quotient must not be taken."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 40)), rng.standard_normal((12, 1))
    for fit_intercept in (False, True):
        small, smaller = left_out(X, Y, [1e-7, 1e-9], fit_intercept=fit_intercept)
        np.testing.assert_allclose(small.errors, smaller.errors, rtol=1e-6)
        expected = refitted_errors(X, Y, 1e-7, np.ones(12), fit_intercept)
        np.testing.assert_allclose(small.errors, expected, rtol=1e-6)


# Estimates ------------------------------------------------------------------------------------


CASES = {
    "tall": lambda rng: decaying(rng, 400, 60, power=0.7),
    "wide": lambda rng: decaying(rng, 150, 300, power=0.5),
    "sparse": lambda rng: sparse_rows(rng, 400, 150, density=0.1),
}


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_estimates_are_within_their_error_bars(case, fit_intercept):
    rng = np.random.default_rng(0)
    X = CASES[case](rng)
    n = X.shape[0]
    Y = X @ rng.standard_normal((X.shape[1], 2)) + 0.3 * rng.standard_normal((n, 2))
    weights = rng.uniform(0.5, 2.0, n)
    alphas = np.array([100.0, 10.0, 1.0])
    options = {"weights": weights, "fit_intercept": fit_intercept}
    exact = left_out(X, Y, alphas, **options)
    scaled = []
    for seed in range(12):
        for truth, estimate in zip(
            exact, left_out(X, Y, alphas, asked="cg", seed=seed, **options), strict=True
        ):
            value, error = estimate.mean_square(weights)
            expected, none = truth.mean_square(weights)
            assert np.all(none == 0) and np.all(error < 0.1 * expected)
            scaled.append((value - expected) / error)
            degrees = estimate.degrees_of_freedom - truth.degrees_of_freedom
            assert abs(degrees) < 5 * estimate.degrees_doubt
            assert estimate.shortfall < 1e-3
    scaled = np.array(scaled)
    assert np.abs(scaled).max() < 4.0  # the bars bound a standard deviation from above …
    assert np.abs(scaled).mean() > 0.1  # … and not by much
    assert np.abs(scaled.mean(axis=0)).max() < 0.7  # nor is there much bias


def test_the_estimates_order_the_penalties_as_the_exact_ones_do():
    rng = np.random.default_rng(1)
    X = sparse_rows(rng, 800, 300, density=0.05)
    Y = (X @ rng.standard_normal(300) + 0.5 * rng.standard_normal(800))[:, None]
    alphas = 10.0 ** np.arange(3.0, -3.0, -0.5)
    scores = {
        asked: [
            left.mean_square(np.ones(800))[0][0]
            for left in left_out(X, Y, alphas, fit_intercept=True, asked=asked)
        ]
        for asked in ("direct", "cg")
    }
    np.testing.assert_allclose(scores["cg"], scores["direct"], rtol=0.05)
    assert abs(np.argmin(scores["cg"]) - np.argmin(scores["direct"])) <= 1


def test_estimated_errors_have_little_bias_row_by_row():
    rng = np.random.default_rng(2)
    X = decaying(rng, 300, 80, power=0.5)
    Y = rng.standard_normal((300, 1))
    exact = left_out(X, Y, [5.0])[0]
    runs = [left_out(X, Y, [5.0], asked="cg", seed=seed)[0] for seed in range(40)]
    errors = np.mean([run.errors for run in runs], axis=0)
    squares = np.mean([run.squares for run in runs], axis=0)
    np.testing.assert_allclose(errors, exact.errors, rtol=0.05)
    np.testing.assert_allclose(squares.mean(), exact.squares.mean(), rtol=5e-3)


def test_no_leverage_leaves_its_certain_bounds():
    """One row far out is nearly all there is of its direction: 1 − h is tiny, and known to be."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 20))
    X[0] *= 1e4
    Y = rng.standard_normal((60, 1))
    for fit_intercept in (False, True):
        for seed in range(5):
            left = left_out(X, Y, [1.0], fit_intercept=fit_intercept, asked="cg", seed=seed)[0]
            assert np.all(np.isfinite(left.squares)) and np.all(left.squares >= 0)
