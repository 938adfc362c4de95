"""Diagnostics: bars that hold, against exact decompositions and direct solves."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sketchridge import Exact, diagnose, solve
from sketchridge.eigenvalues import heap, level
from tests.problems import (
    average_condition_number,
    correlation_factor,
    decaying,
    make,
    orthonormal,
    sparse_rows,
    with_spectrum,
)

ROUNDING = 1e-12


def true_eigenvalues(X, omega=None, fit_intercept=False):
    """All d of C, descending, from the singular values of X̄."""
    n, d = X.shape
    omega = np.full(n, 1 / n) if omega is None else omega / omega.sum()
    factor = correlation_factor(X, omega, fit_intercept)
    values = np.linalg.svd(factor, compute_uv=False) ** 2
    return np.concatenate([values, np.zeros(d - values.size)])


def assert_within(bounds, truth, scale=0.0):
    low, high = bounds
    slip = ROUNDING * (np.abs(truth) + scale)
    assert np.all(low <= truth + slip), (low, truth)
    assert np.all(truth <= high + slip), (truth, high)


def assert_everything_holds(diagnosis, values, lam):
    """Every interval of a diagnosis at one λ holds the number that the true spectrum gives."""
    n, d = diagnosis.data.rows, diagnosis.data.columns
    known, penalty = diagnosis.eigenvalues, diagnosis.penalties[0]
    total = values.sum()
    assert_within((known.lower, known.upper), values[: known.count], values[0])
    assert np.all(values[known.count :] <= known.rest + ROUNDING * values[0])
    assert_within(known.smallest, values[-1], values[0])
    left = np.array([k * values[k - 1] + values[k:].sum() for k in diagnosis.ranks])
    assert_within(diagnosis.ratio_bounds, total / left)
    assert np.all(diagnosis.ratio <= diagnosis.ratio_bounds[1] * (1 + ROUNDING))
    assert np.all(diagnosis.ratio >= diagnosis.ratio_bounds[0] * (1 - ROUNDING))
    condition = (total + d * lam) / (values[-1] + lam)
    after = (left + d * lam) / (values[-1] + lam)
    slip = values[0] / (values[-1] + lam)
    assert_within(penalty.condition, condition, slip)
    assert_within(penalty.preconditioned, after, slip)
    assert_within(penalty.speed_up, (n + condition) / (n + after))
    assert_within(penalty.effective_dimension, np.sum(values / (values + lam)), values[0] / lam)


spectra = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "n": st.integers(12, 90),
        "d": st.integers(12, 90),
        "power": st.floats(0.0, 3.0),
        "share": st.floats(0.2, 1.0),  # of the rank that is used
        "rank": st.integers(1, 20),
        "lam": st.floats(-6, 1),
        "intercept": st.booleans(),
        "weighted": st.booleans(),
        "method": st.sampled_from(["sketch", "exact"]),
    }
)


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(spectra)
def test_every_bar_holds_on_random_spectra(case):
    rng = np.random.default_rng(case["seed"])
    rank = max(2, int(case["share"] * min(case["n"], case["d"])))
    X = with_spectrum(rng, case["n"], case["d"], np.arange(1, rank + 1.0) ** -case["power"])
    weights = rng.integers(0, 3, case["n"]) + 0.5 if case["weighted"] else np.ones(case["n"])
    values = true_eigenvalues(X, weights, case["intercept"])
    lam = values[0] * 10 ** case["lam"]
    diagnosis = diagnose(
        X,
        lam,
        rank=case["rank"],
        sample_weight=weights,
        fit_intercept=case["intercept"],
        method=case["method"],
        random_state=case["seed"],
    )
    assert_everything_holds(diagnosis, values, lam)


@pytest.mark.parametrize(
    "singular",
    [
        np.ones(60),  # one eigenvalue, far more often than a block is wide
        np.concatenate([np.full(8, 10.0), np.full(52, 0.1)]),
        np.concatenate([[1e6], np.ones(59)]),
        np.arange(1, 61.0) ** -6,
    ],
    ids=["flat", "two levels", "one giant", "below rounding"],
)
def test_bars_hold_on_awkward_spectra(singular):
    X = with_spectrum(np.random.default_rng(1), 150, 60, singular)
    values = true_eigenvalues(X)
    lam = 1e-3 * values[0]
    for seed in range(5):
        diagnosis = diagnose(X, lam, rank=5, method="sketch", random_state=seed)
        assert_everything_holds(diagnosis, values, lam)


def test_bars_hold_in_float32_and_on_sparse_data_with_an_intercept():
    X = sparse_rows(np.random.default_rng(2), 300, 80).astype(np.float32)
    values = true_eigenvalues(X.astype(float), fit_intercept=True)
    for data in (X, X.toarray()):
        diagnosis = diagnose(
            data, 1e-3, rank=8, fit_intercept=True, method="sketch", random_state=0
        )
        assert_everything_holds(diagnosis, values, 1e-3)


def test_bars_are_tight_where_the_spectrum_decays():
    X = decaying(np.random.default_rng(3), 900, 300, power=1)
    diagnosis = diagnose(X, 1e-4, rank=40, method="sketch", random_state=0)
    known, (low, high) = diagnosis.eigenvalues, diagnosis.ratio_bounds
    assert np.all(known.upper[:25] <= 1.01 * known.lower[:25])
    assert np.all(known.upper[:40] <= 1.1 * known.lower[:40])
    assert np.all(high[:25] <= 1.01 * low[:25]) and np.all(high <= 1.1 * low)
    values = np.arange(1, 301.0) ** -2
    left = np.array([k * values[k - 1] + values[k:].sum() for k in range(1, 41)])
    assert np.all(np.abs(diagnosis.ratio * left / values.sum() - 1) < 0.01)
    # A flat tail is bounded by its own size, not by the whole trace that it holds.
    flat = with_spectrum(np.random.default_rng(4), 900, 300, np.r_[np.full(6, 3.0), np.ones(294)])
    known = diagnose(flat, 1e-4, rank=30, method="sketch", random_state=0).eigenvalues
    assert np.all(known.upper[:6] <= 1.05 * 9.0)
    assert known.rest <= 1.05  # it is 1, and the trace left is 294


def test_the_bound_of_what_a_sketch_missed_hides_nothing():
    """A direction that the sketch cannot have seen is within the bars all the same."""
    X = np.zeros((400, 120))
    X[np.arange(100), np.arange(100)] = 1.0
    X[399, 119] = 1.05  # stands out by a little from a hundred alike
    values = true_eigenvalues(X)
    for seed in range(40):
        known = diagnose(X, 1e-3, rank=2, method="sketch", random_state=seed).eigenvalues
        assert_within((known.lower, known.upper), values[: known.count])


# -- what is derived from the spectrum -----------------------------------------------------------


def test_condition_numbers_are_those_of_the_exactly_preconditioned_problem():
    """Against P^{-1/2}(C + λI)P^{-1/2} itself, formed for every rank."""
    rng = np.random.default_rng(5)
    X, lam = decaying(rng, 80, 30, power=0.7), 1e-3
    problem = make(X, np.zeros(80), lam)
    X_bar = correlation_factor(X, np.full(80, 1 / 80))
    penalty = diagnose(X, lam, rank=30).penalties[0]
    assert penalty.condition[1] == pytest.approx(average_condition_number(X_bar, lam, np.eye(30)))
    for k in (1, 4, 11, 29):
        P = Exact(rank=k).build(problem, rng).power(np.eye(30), -0.5)
        after = average_condition_number(X_bar, lam, P)
        assert penalty.preconditioned[0][k - 1] == pytest.approx(after, rel=1e-8)
        assert penalty.preconditioned[1][k - 1] == pytest.approx(after, rel=1e-8)


@pytest.mark.parametrize("method", ["exact", "sketch"])
@pytest.mark.parametrize("shape", [(120, 40), (40, 120)])
def test_effective_dimension_and_explained_share_are_those_of_the_solution(shape, method):
    rng = np.random.default_rng(6)
    n, d = shape
    X = decaying(rng, n, d, power=1) + 0.1 * rng.standard_normal(d)
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)
    centred = X - X.mean(axis=0)
    C = centred.T @ centred / n
    for lam in (1e-6, 1e-3, 1.0):
        found = diagnose(
            X, lam, y, rank=15, fit_intercept=True, method=method, random_state=0
        ).penalties[0]
        truth = np.trace(np.linalg.solve(C + lam * np.eye(d), C))
        assert_within(found.effective_dimension, truth, scale=1e3)
        solution = solve(X, y, lam, fit_intercept=True, solver="direct", tol=1e-12)
        share = 1 - solution.objective / (0.5 * np.var(y))
        assert_within(found.explained, share, scale=1e3)
        if method == "exact":
            assert found.explained[1] - found.explained[0] < 1e-6


def test_heaped_and_level_spectra_are_the_extremes():
    rng = np.random.default_rng(7)
    for _ in range(50):
        lower = np.sort(rng.random(6))[::-1]
        upper = np.sort(lower + rng.random(6))[::-1]
        inside = lower + rng.random(6) * (np.maximum(upper, lower) - lower)
        total, lam = inside.sum(), 10 ** rng.uniform(-3, 1)
        heaped, leveled = heap(lower, upper, total), level(lower, upper, total)
        for extreme in (heaped, leveled):
            assert np.all(extreme >= lower - 1e-12) and np.all(extreme <= upper + 1e-12)
            assert extreme.sum() == pytest.approx(total)
        low, middle, high = (np.sum(x / (x + lam)) for x in (heaped, inside, leveled))
        assert low <= middle * (1 + 1e-12) and middle <= high * (1 + 1e-12)


def test_budgets_follow_the_papers_equations():
    X = decaying(np.random.default_rng(8), 300, 60, power=0.5)
    values = true_eigenvalues(X)
    diagnosis = diagnose(X, budget=[20, 1000])
    trade = diagnosis.trades[0]
    left = 20 * values[19] + values[20:].sum()
    assert trade.rank == 20
    assert trade.sketched_svrg[1] == pytest.approx(left / (300 * 20))  # eq. decay
    assert trade.svrg[1] == pytest.approx(values.sum() / (300 * 20))  # eq. decaySVRG
    assert trade.cg[1] == pytest.approx(values[19] / 20**2)
    # At that λ the average condition number is the budget of steps, n passes' worth.
    assert left / trade.sketched_svrg[1] == pytest.approx(300 * 20)
    assert np.sqrt(300 * left / trade.sketched_accelerated_svrg[1]) == pytest.approx(300 * 20)
    # The two differ by the ratio, and no rank exceeds what there is.
    assert trade.svrg[1] / trade.sketched_svrg[1] == pytest.approx(diagnosis.ratio[19])
    assert diagnosis.trades[1].rank == 60


def test_scaled_rows_are_the_rows_divided_by_their_average_norm():
    rng = np.random.default_rng(9)
    X, y = 37.0 * decaying(rng, 60, 20), rng.standard_normal(60)
    scaled = diagnose(X, 1e-3, y, scale_rows=True)
    divided = diagnose(X / np.linalg.norm(X, axis=1).mean(), 1e-3, y)
    assert np.allclose(scaled.eigenvalues.upper, divided.eigenvalues.upper)
    assert scaled.penalties[0].condition == pytest.approx(divided.penalties[0].condition)
    assert scaled.penalties[0].explained == pytest.approx(divided.penalties[0].explained)
    assert divided.data.average_norm == pytest.approx(1.0)


def test_weights_are_repetitions_and_absent_rows():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((30, 50))
    weights = rng.integers(0, 4, 30).astype(float)
    weighted = diagnose(X, 1e-2, sample_weight=weights, fit_intercept=True)
    repeated = diagnose(np.repeat(X, weights.astype(int), axis=0), 1e-2, fit_intercept=True)
    k = weighted.eigenvalues.rank
    assert k == np.count_nonzero(weights) - 1
    assert np.allclose(weighted.eigenvalues.upper, repeated.eigenvalues.upper[:k])


# -- advice --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("power", "lam"), [(0.5, 1e-2), (1.0, 1e-3), (1.0, 1e-5)])
def test_predicted_passes_are_near_the_real_ones(power, lam):
    rng = np.random.default_rng(11)
    X = decaying(rng, 1500, 400, power)
    y = X @ (rng.standard_normal(400) * np.arange(1, 401.0) ** power)  # all directions matter
    advice = diagnose(X, lam, rank=60, method="sketch", random_state=0).penalties[0].advice
    for candidate in advice.candidates:
        if candidate.solver != "cg":
            continue
        options = {"rank": candidate.rank} if candidate.rank else {}
        solution = solve(
            X, y, lam, "cg", candidate.preconditioner, **options, random_state=0, max_passes=3000
        )
        assert solution.converged
        assert candidate.passes / 3 <= solution.passes <= 3 * candidate.passes


def test_advice_goes_with_the_spectrum():
    rng = np.random.default_rng(12)
    small = diagnose(rng.standard_normal((5000, 20)), 1e-9).penalties[0].advice
    assert small.best.solver == "direct"
    steep = diagnose(decaying(rng, 400, 300, 2.0), 1e-7).penalties[0].advice
    costs = {(c.solver, c.preconditioner): c.cost for c in steep.candidates}
    assert costs["svrg", "lanczos"] < costs["svrg", "none"]
    assert costs["cg", "nystrom"] < costs["cg", "none"]
    assert steep.best.cost == min(costs.values())
    assert str(steep.best) in str(steep) and "passes" in steep.reason
    flat = diagnose(with_spectrum(rng, 400, 300, np.ones(300)), 1.0).penalties[0].advice
    assert flat.rank == 0  # nothing stands out: no preconditioner


# -- arguments, words and files ------------------------------------------------------------------


def test_without_lam_there_is_one_over_n_and_decades_of_the_trace():
    X = decaying(np.random.default_rng(13), 50, 20)
    lams = [penalty.lam for penalty in diagnose(X).penalties]
    assert 1 / 50 in lams and lams == sorted(lams) and len(lams) == 5
    assert lams[0] == pytest.approx(1e-8 * true_eigenvalues(X).sum())


def test_everything_is_said_in_words_and_in_json():
    rng = np.random.default_rng(14)
    X = decaying(rng, 90, 40)
    diagnosis = diagnose(X, [1e-4, 1e-2], X[:, 0], rank=12, method="sketch", random_state=0)
    text = diagnosis.summary()
    assert "90 rows × 40 columns" in text and "lam 0.0001" in text and "0.999999" in text
    assert "advice" in text and "effective dimension" in text and "share explained" in text
    assert repr(diagnosis).startswith("Diagnosis(90 × 40")
    document = json.loads(json.dumps(diagnosis.as_dict(), allow_nan=False))
    assert [penalty["lam"] for penalty in document["penalties"]] == [1e-4, 1e-2]
    assert len(document["ratio"]["lower"]) == 12
    assert document["spectrum"]["failure_probability"] == 1e-6
    assert document["penalties"][0]["advice"]["rank"] == diagnosis.penalties[0].advice.rank


def test_the_same_seed_gives_the_same_diagnosis():
    X = decaying(np.random.default_rng(15), 90, 70)
    first, second = (
        diagnose(X, 1e-3, rank=10, method="sketch", random_state=3).as_dict() for _ in range(2)
    )
    del first["seconds"], second["seconds"]
    assert first == second


def test_memory_limits_the_sketch_and_says_so():
    X = decaying(np.random.default_rng(16), 300, 200)
    diagnosis = diagnose(X, 1e-3, rank=90, method="sketch", max_memory=3e5, random_state=0)
    assert any("max_memory" in note for note in diagnosis.notes)
    assert_everything_holds(diagnosis, true_eigenvalues(X), 1e-3)


def test_a_copy_is_noted():
    X = np.random.default_rng(17).integers(0, 9, (30, 5))
    assert any("copied" in note for note in diagnose(X).notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": 0}, "lam=0"),
        ({"lam": []}, "lam is empty"),
        ({"lam": [1e-3, -1]}, "lam=-1"),
        ({"lam": "small"}, "lam='small'"),
        ({"rank": 0}, "rank=0"),
        ({"budget": -3}, "budget=-3"),
        ({"tol": 2}, "tol=2"),
        ({"method": "guess"}, "method='guess'"),
        ({"max_memory": 0}, "max_memory=0"),
        ({"y": [1.0, 2.0]}, "y has 2 rows"),
        ({"random_state": "x"}, "random_state='x'"),
    ],
)
def test_wrong_arguments_are_named(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        diagnose(np.eye(4), **options)


@pytest.mark.parametrize("X", [np.zeros((5, 3)), np.ones((5, 3))])
def test_data_without_a_spectrum_is_refused(X):
    with pytest.raises(ValueError, match="constant or zero"):
        diagnose(X, 1.0, fit_intercept=True)


def test_tiny_data_is_diagnosed():
    for X in (np.ones((1, 1)), np.ones((3, 1)), np.ones((1, 3)), sparse.eye_array(2).tocsr()):
        for method in ("exact", "sketch"):
            values = true_eigenvalues(X)
            diagnosis = diagnose(X, 0.1, method=method, random_state=0)
            assert_everything_holds(diagnosis, values, 0.1)


def test_rotated_data_has_the_same_diagnosis():
    rng = np.random.default_rng(18)
    X = decaying(rng, 70, 25)
    plain, turned = (diagnose(data, 1e-3) for data in (X, X @ orthonormal(rng, 25, 25)))
    assert np.allclose(plain.ratio, turned.ratio)


def test_the_sketch_gives_the_papers_ratio_on_mnist_within_a_percent():
    folder = os.environ.get("SKETCHRIDGE_DATA")
    if folder is None or not (Path(folder) / "mnist_4v7.npz").exists():
        pytest.skip("mnist_4v7.npz is not at hand: set SKETCHRIDGE_DATA to the folder with it")
    X = np.load(Path(folder) / "mnist_4v7.npz")["X"]
    exact = diagnose(X, 1e-8, scale_rows=True)
    sketched = diagnose(X, 1e-8, scale_rows=True, method="sketch", random_state=0)
    values = true_eigenvalues(X.astype(np.float64) / exact.data.average_norm)
    ratio = [values.sum() / (k * values[k - 1] + values[k:].sum()) for k in range(1, 301)]
    for diagnosis in (exact, sketched):
        assert np.all(np.abs(diagnosis.ratio / ratio - 1) < 0.01)
        assert np.all(np.abs(diagnosis.ratio_bounds[1] / diagnosis.ratio_bounds[0] - 1) < 0.01)
        assert_everything_holds(diagnosis, values, 1e-8)
