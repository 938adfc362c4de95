"""Whole multiples of one number, read from a copy in bytes: the same products and certificates."""

from fractions import Fraction

import numpy as np
import pytest

from sketchridge import CG, Embedding, Status, codes, products, solve
from sketchridge.certificate import RidgeCurvature, certified_gap
from sketchridge.codes import CodedProducts, Codes, encode, guessed_step
from sketchridge.planner import Choice, memory_needed
from sketchridge.preconditioner import NoPreconditioner
from sketchridge.problem import RidgeProblem
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
def test_products_with_one_vector_read_the_codes_alone(low):
    X = pixels(low=low, high=100)
    blank = np.full_like(X, np.nan)  # what reads it will tell
    coded = CodedProducts(blank, encode(X, *guessed_step(X))[0])
    rng = np.random.default_rng(0)
    n, d = X.shape
    weights, shift, targets = rng.random(n), rng.standard_normal(1), rng.standard_normal((n, 1))
    V = rng.standard_normal((d, 1))
    R, slope = coded.residual(V, targets, shift, weights)
    expected = X @ V - targets - shift
    assert pytest.approx(expected, rel=1e-10, abs=1e-10) == R
    assert slope == pytest.approx(X.T @ (weights[:, None] * expected), rel=1e-9, abs=1e-6)


def test_products_with_many_vectors_read_the_data():
    X = pixels()
    coded = CodedProducts(X, Codes(np.zeros(X.shape, np.uint8), 1.0))
    V = np.random.default_rng(0).standard_normal((900, 3))
    assert coded.multiply(V) == pytest.approx(X @ V, rel=1e-10, abs=1e-8)


@pytest.mark.parametrize("step", [1e-6, 7.0, 1e6])
@pytest.mark.parametrize("storage", ["float64", "float32"])
def test_codes_are_embedded_as_the_data_is(step, storage):
    X, y = pixels(6000, 350) * step, np.random.default_rng(0).standard_normal((6000, 1))
    recipe = Embedding(rows=3000, kind="countsketch", storage=storage)
    lam = float(np.mean(X**2))
    built = []
    for coded in (False, True):
        problem = RidgeProblem(X, y, lam)
        if coded:
            problem.encode(np.inf)
            assert problem.code_bytes == X.size
        built.append(recipe.build(problem, np.random.default_rng(1)))
        assert problem.raw_squared_norms == pytest.approx(np.sum(X**2, axis=1), rel=1e-12)
    vector = np.random.default_rng(2).standard_normal((350, 1))
    one, other = (each.apply(vector) for each in built)
    assert other == pytest.approx(one, rel=1e-6 if storage == "float64" else 1e-2)
    assert built[1].describes(RidgeProblem(X, y, lam))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("lam", [1e-2, 1e-6])
def test_auto_reads_bytes_and_certifies(images, lam, fit_intercept):
    X, y = images
    lam = lam * float(np.sum(X**2)) / len(X)
    solution = solve(X, y, lam, fit_intercept=fit_intercept, random_state=0)
    truth = solve(X, y, lam, solver="direct", tol=1e-13, fit_intercept=fit_intercept)
    assert solution.status is Status.CONVERGED
    assert solution.objective - truth.objective <= solution.gap
    told = [note for note in solution.plan.notes if "multiples" in note]
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


def test_memory_that_is_enough_without_a_copy_stays_enough(images):
    X, y = images
    problem = RidgeProblem(X, y[:, None], 1e-3)
    least = memory_needed(problem, Choice(CG(), NoPreconditioner(), ""))
    for limit in (1.01 * least, least + 0.9 * X.size):
        solution = solve(X, y, 1e-3, random_state=0, max_memory=limit)
        assert solution.converged and not any("copied" in note for note in solution.plan.notes)


def test_data_that_only_seems_whole_is_read_as_it_is(images):
    X, y = images[0].copy(), images[1]
    X[-1, -1] = 0.5
    solution = solve(X, y, 1e-3, random_state=0)
    assert solution.converged
    assert sum("seemed to be whole multiples" in note for note in solution.plan.notes) == 1
    X[-1, -1] = np.nan
    with pytest.raises(ValueError, match=r"NaN, infinite or overflowing values, first in row 2499"):
        solve(X, y, 1e-3, random_state=0)


@pytest.mark.parametrize("spoilt", [False, True])
def test_the_copy_is_made_once_for_all_penalties(images, spoilt):
    X, y = images[0].copy(), images[1]
    X[-1, -1] = 0.5 if spoilt else X[-1, -1]
    problem = RidgeProblem(X, y[:, None], 1e-3)
    first, second = problem.at(1e-2), problem.at(1e-4)
    first.encode(np.inf)
    second.encode(np.inf)
    second.encode(np.inf)
    assert (first.passes, second.passes) == (1, 0)
    assert first.code_bytes == second.code_bytes == (0 if spoilt else X.size)
    assert len(problem.notes) == 1


def test_memory_maps_and_few_passes_are_not_copied(images, tmp_path):
    X = images[0]
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert guessed_step(np.asarray(mapped)) is None
    assert guessed_step(np.asarray(mapped)[5:]) is None
    tall = np.random.default_rng(0).integers(0, 3, (200_000, 12)).astype(float)
    solution = solve(tall, tall @ np.ones(12), 1e-6, random_state=0)
    assert not any("copied" in note for note in solution.plan.notes)


def test_nothing_but_zeros_is_no_trouble():
    X = np.zeros((2000, 1100))
    solution = solve(X, np.ones(2000), 1e-3)
    assert solution.converged and not solution.coef.any()


@pytest.mark.parametrize("seed", range(40))
def test_the_certificate_holds_in_exact_arithmetic(small_matrices, seed):
    rng = np.random.default_rng(seed)
    n, d = 24, 6
    numbers = rng.integers(0, 2 ** int(rng.integers(1, 9)), (n, d))
    numbers[0, :2] = 0, 1  # a step apart
    X = numbers / rng.uniform(0.1, 1000)
    # All but the largest, of which the step is made, are off to the same side.
    off = np.nextafter(np.nextafter(X, np.inf), np.inf)
    X = np.where((X > 0) & (X.max() > X), off, X)
    offset = bool(seed % 2) * 1e3
    y = rng.standard_normal((n, 1)) + X @ rng.standard_normal((d, 1)) + offset
    lam = float(np.mean(X**2) * 10.0 ** rng.uniform(-13, 0))
    weights = rng.random(n) if seed % 3 else None
    problem = RidgeProblem(X, y, lam, weights, fit_intercept=bool(offset))
    problem.encode(np.inf)
    assert problem.code_bytes == X.size
    exact = ExactRidge(X, y, lam, weights, fit_intercept=bool(offset))
    for move in (0.0, 1e-9, 1e-4):
        W = exact.coef.astype(float) * (1 + move * rng.standard_normal((d, 1)))
        evaluation = problem.evaluate(W)
        gap = certified_gap(problem, RidgeCurvature(lam), evaluation)
        assert Fraction(gap[0]) >= exact.gap(W, problem.intercept(W))[0]
