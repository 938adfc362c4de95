"""Whole multiples of one number, read from a copy in bytes: the same products and certificates."""

from fractions import Fraction

import numpy as np
import pytest

from sketchridge import Status, codes, products, solve
from sketchridge.certificate import RidgeCurvature, certified_gap
from sketchridge.codes import CodedProducts, encode, guessed_step
from sketchridge.problem import RidgeProblem
from sketchridge.products import DenseProducts
from tests.exact import ExactRidge

EPSILON = np.finfo(np.float64).eps


def pixels(n=2500, d=900, seed=0, low=0, high=255, norm=3.7):
    """Smooth images with many zeros, divided by a number that no code knows."""
    rng = np.random.default_rng(seed)
    strengths = rng.standard_normal((n, 12)) @ np.cos(np.outer(np.arange(12), np.arange(d) / 40))
    numbers = np.rint(np.clip(60 * strengths + 5 * rng.standard_normal((n, d)), low, high))
    return numbers / norm


@pytest.fixture(scope="module")
def images():
    X = pixels()
    rng = np.random.default_rng(1)
    return X, X @ rng.standard_normal(900) / 300 + rng.standard_normal(len(X))


@pytest.fixture
def small_matrices(monkeypatch):
    """Small matrices are coded and read by the compiled loops too."""
    monkeypatch.setattr(codes, "LARGE_MATRIX", 0)
    monkeypatch.setattr(products, "LARGE_MATRIX", 0)


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        (pixels(), np.uint8),
        (pixels(low=-128, high=127), np.int8),
        (pixels(norm=1.0), np.uint8),
        (pixels(norm=1e-150, high=9), np.uint8),
        (np.random.default_rng(0).integers(0, 3, (2000, 1100)).astype(float), np.uint8),
        (np.random.default_rng(0).choice([-0.3, 0.3], (2000, 1100)), np.int8),
    ],
)
def test_every_value_is_its_code_times_the_step(X, kind):
    step, found = guessed_step(X)
    coded, norms = encode(X, step, found)
    assert coded.numbers.dtype == found == kind
    # In exact arithmetic, for a product in float64 would round what is to be seen.
    values, places = np.unique(X, return_index=True)
    for value, code in zip(values, coded.numbers.ravel()[places], strict=True):
        off = abs(Fraction(value) - Fraction(step) * int(code))
        assert off <= Fraction(4 * EPSILON) * abs(Fraction(value))
    assert norms == pytest.approx(np.sum(X**2, axis=1), rel=1e-12)


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).standard_normal((2000, 1100)),
        np.random.default_rng(0).integers(0, 300, (2000, 1100)).astype(float),  # too many
        pixels(low=-128, high=255),
        pixels() + 1e-3,  # a constant is no multiple
        pixels().astype(np.float32),
        np.asfortranarray(pixels()),
        pixels(200, 100),  # small
        np.zeros((2000, 1100)),
    ],
)
def test_other_data_has_no_step(X):
    assert guessed_step(X) is None


@pytest.mark.parametrize("value", [0.1234, 256 / 3.7, -1 / 3.7, np.nan, np.inf, 1e300, 1e-300])
def test_one_value_that_is_no_code_is_noticed(value):
    X = pixels()
    step, kind = guessed_step(X)
    X[1777, 333] = value
    assert encode(X, step, kind)[0] is None


@pytest.mark.parametrize("low", [0, -100])
def test_products_are_those_of_the_data(low):
    X = pixels(low=low, high=100)
    coded = CodedProducts(X, encode(X, *guessed_step(X))[0])
    rng = np.random.default_rng(0)
    n, d = X.shape
    weights, shift, targets = rng.random(n), rng.standard_normal(1), rng.standard_normal((n, 1))
    for width in (1, 3):
        V, Y = rng.standard_normal((d, width)), np.tile(targets, width)
        R, slope = coded.residual(V, Y, np.tile(shift, width), weights)
        expected = X @ V - Y - shift
        assert pytest.approx(expected, rel=1e-10, abs=1e-10) == R
        assert slope == pytest.approx(X.T @ (weights[:, None] * expected), rel=1e-9, abs=1e-6)
    assert coded.rounding_factor == DenseProducts(X).rounding_factor + 1


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("lam", [1e-2, 1e-6])
def test_auto_reads_bytes_and_certifies(images, lam, fit_intercept):
    X, y = images
    lam = lam * float(np.sum(X**2)) / len(X)
    solution = solve(X, y, lam, fit_intercept=fit_intercept, random_state=0)
    truth = solve(X, y, lam, solver="direct", tol=1e-13, fit_intercept=fit_intercept)
    assert solution.status is Status.CONVERGED
    assert solution.objective - truth.objective <= solution.gap
    told = [note for note in solution.plan.notes if "whole multiples" in note]
    assert told == [
        f"X is whole multiples of {1 / 3.7:.4g}: copied to bytes (2.2 MB), for faster passes"
    ]


def test_the_copy_counts_as_memory_and_may_be_too_much(images):
    X, y = images
    roomy = solve(X, y, 1e-3, random_state=0, max_memory=1e9)
    tight = solve(X, y, 1e-3, random_state=0, max_memory=1.9 * X.size)
    assert any("copied to bytes" in note for note in roomy.plan.notes)
    assert not any("copied to bytes" in note for note in tight.plan.notes)
    assert all(forecast.memory >= X.size for forecast in roomy.plan.forecasts)
    assert tight.converged


def test_data_that_only_seems_whole_is_read_as_it_is(images):
    X, y = images[0].copy(), images[1]
    X[-1, -1] = 0.5
    solution = solve(X, y, 1e-3, random_state=0)
    assert solution.converged
    assert any("seemed to be whole multiples" in note for note in solution.plan.notes)
    X[-1, -1] = np.nan
    with pytest.raises(ValueError, match=r"NaN, infinite or overflowing values, first in row 2499"):
        solve(X, y, 1e-3, random_state=0)


@pytest.mark.parametrize("seed", range(40))
def test_the_certificate_holds_in_exact_arithmetic(small_matrices, seed):
    rng = np.random.default_rng(seed)
    n, d = 24, 6
    numbers = rng.integers(0, 2 ** int(rng.integers(1, 9)), (n, d))
    numbers[0, :2] = 0, 1  # a step apart
    X = numbers / rng.uniform(0.1, 1000)
    y = rng.standard_normal((n, 1)) + X @ rng.standard_normal((d, 1))
    lam = float(np.mean(X**2) * 10.0 ** rng.uniform(-13, 0))
    problem = RidgeProblem(X, y, lam)
    problem.encode(np.inf)
    assert problem.code_bytes == X.size
    exact = ExactRidge(X, y, lam)
    for off in (0.0, 1e-9, 1e-4):
        W = exact.coef.astype(float) * (1 + off * rng.standard_normal((d, 1)))
        evaluation = problem.evaluate(W)
        gap = certified_gap(problem, RidgeCurvature(lam), evaluation)
        assert Fraction(gap[0]) >= exact.gap(W, np.zeros(1))[0]
