"""Columns of one entry or none are left out exactly: against direct solves and identities."""

import numpy as np
import pytest
from scipy import sparse

from sketchridge import solve, sparse_products
from sketchridge.preconditioner import Diagonal
from sketchridge.problem import RidgeProblem
from sketchridge.rare_columns import without_rare_columns
from sketchridge.run import Run
from sketchridge.solution import Status
from sketchridge.solvers import CG
from tests.problems import frequent_words

N, COMMON, SINGLE, EMPTY = 60, 12, 25, 8


def text(seed, dtype=np.float64, index=np.int32):
    """Sparse rows over a few common columns, with words of their own and unused ones, shuffled."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((N, COMMON)) * (rng.random((N, COMMON)) < 0.4)
    alone = np.zeros((N, SINGLE))
    alone[rng.integers(N // 2, size=SINGLE), np.arange(SINGLE)] = rng.standard_normal(SINGLE)
    dense = np.hstack([common, alone, np.zeros((N, EMPTY))])
    X = sparse.csr_array(dense[:, rng.permutation(dense.shape[1])].astype(dtype))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X, rng.standard_normal((N, 2)), rng


@pytest.fixture(params=["numpy", "loops"])
def made_by(request, monkeypatch):
    """What copies the columns that are kept: numpy where the data is small, else compiled loops."""
    if request.param == "loops":
        monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
    return request.param


def weights(kind, rng):
    if kind == "none":
        return None
    given = rng.random(N) + 0.1
    if kind == "held out":
        given[::3] = 0.0
    return given


def direct(X, Y, lam, given, fit_intercept):
    """The coefficients (d, t) by a dense normal matrix, with a column of ones."""
    omega = np.full(N, 1 / N) if given is None else given / given.sum()
    A = np.hstack([X.toarray().astype(float), np.ones((N, 1))])
    penalty = np.full(A.shape[1], lam)
    penalty[-1] = 0.0 if fit_intercept else 1e30
    return np.linalg.solve(
        A.T @ (omega[:, None] * A) + np.diag(penalty), A.T @ (omega[:, None] * Y)
    )


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["none", "random", "held out"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_smaller_problem_has_the_same_minimum(fit_intercept, kind, index, made_by):
    X, Y, rng = text(1, index=index)
    given, lam = weights(kind, rng), 1e-4
    expected = direct(X, Y, lam, given, fit_intercept)[:-1]
    problem = RidgeProblem(X, Y, lam, given, fit_intercept)
    smaller = without_rare_columns(problem)
    inner = smaller.smaller
    # Its own normal equations, solved densely.
    best = np.linalg.solve(
        inner.gram(np.eye(inner.d)) + inner.lam * np.eye(inner.d), -inner.null_gradient()
    )
    np.testing.assert_allclose(smaller.point(best), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["none", "random", "held out"])
def test_values_and_gradients_are_those_of_the_point_that_is_expanded(fit_intercept, kind, made_by):
    X, Y, rng = text(2)
    problem = RidgeProblem(X, Y, 1e-3, weights(kind, rng), fit_intercept)
    smaller = without_rare_columns(problem)
    W = rng.standard_normal((smaller.smaller.d, 2))
    inner, outer = smaller.smaller.evaluate(W), problem.evaluate(smaller.point(W))
    np.testing.assert_allclose(smaller.objective(inner.objective), outer.objective, rtol=1e-12)
    np.testing.assert_allclose(smaller.slope(inner.gradient), outer.gradient, atol=1e-13)
    np.testing.assert_array_equal(smaller.restricted(smaller.point(W)), W)
    back = smaller.evaluation(outer)  # without a pass
    np.testing.assert_array_equal(back.coef, W)
    np.testing.assert_allclose(back.objective, inner.objective, rtol=1e-12)
    np.testing.assert_allclose(back.gradient, inner.gradient, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_columns_that_are_left_keep_their_scaling(fit_intercept):
    X, Y, rng = text(3)
    problem = RidgeProblem(X, Y, 1e-3, weights("random", rng), fit_intercept)
    smaller = without_rare_columns(problem)
    for exponent in (0.8, 1.0):
        scaling = Diagonal(exponent).build(problem, rng)
        kept = scaling.of_some(smaller.kept, smaller.smaller.lam)
        same = scaling.at(smaller.smaller.lam)
        np.testing.assert_array_equal(kept.scale, same.scale[smaller.kept])
        assert kept.columns == smaller.smaller.d < problem.d


def test_loops_and_numpy_copy_the_same(monkeypatch):
    X, Y, _ = text(11)
    parts = []
    for small in (10**9, 0):
        monkeypatch.setattr(sparse_products, "SMALL_WORK", small)
        parts.append(without_rare_columns(RidgeProblem(X, Y, 1e-4)))
    by_numpy, by_loops = parts
    np.testing.assert_array_equal(by_numpy.smaller.X.toarray(), by_loops.smaller.X.toarray())
    for name in ("rows", "columns", "values"):
        np.testing.assert_array_equal(
            getattr(by_numpy.singles, name), getattr(by_loops.singles, name)
        )


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_compact_copy_is_the_same_to_float32(fit_intercept, monkeypatch):
    monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
    X, Y, rng = text(12)
    problem = RidgeProblem(X, Y[:, :1], 1e-4, fit_intercept=fit_intercept)
    exact = without_rare_columns(problem)
    compact = without_rare_columns(problem, compact=True)
    kept, data = compact.smaller.X, exact.smaller.X
    assert (kept.data.dtype, kept.indices.dtype) == (np.float32, np.uint16)
    assert "copied in float32" in problem.notes[-1]
    np.testing.assert_array_equal(kept.data, data.data.astype(np.float32))
    np.testing.assert_array_equal(kept.indices, data.indices)
    W = rng.standard_normal((kept.shape[1], 2))
    for width in (1, 2):
        np.testing.assert_allclose(
            compact.smaller.gram(W[:, :width]), exact.smaller.gram(W[:, :width]), atol=1e-6
        )
    slope = problem.evaluate(
        compact.point(W[:, :1])
    ).gradient  # not rounded: they are at their best
    np.testing.assert_allclose(slope[compact.singles.columns], 0.0, atol=1e-15)


@pytest.mark.parametrize("tol", [1e-3, 1e-8, 1e-12])
def test_answers_by_a_compact_copy_are_certified_on_the_data(tol, monkeypatch):
    monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
    X, Y, _ = text(13)
    method = CG("float32", rare_columns="eliminated")
    solution = solve(X, Y[:, 0], 1e-5, method, "diagonal", tol=tol, fit_intercept=True)
    truth = solve(X, Y[:, 0], 1e-5, "direct", tol=1e-14, fit_intercept=True)
    assert solution.converged
    assert any("copied in float32" in note for note in solution.plan.notes)
    assert solution.objective - truth.objective <= solution.gap + truth.gap


def test_what_is_left_may_be_small_where_all_was_not(monkeypatch):
    """Compact rows are for the compiled loops, however few they are."""
    X, Y, _ = text(14)
    monkeypatch.setattr(sparse_products, "SMALL_WORK", X.nnz)
    method = CG("float32", rare_columns="eliminated")
    solution = solve(X, Y[:, 0], 1e-5, method, "diagonal", tol=1e-8)
    assert solution.converged
    assert any("copied in float32" in note for note in solution.plan.notes)
    truth = solve(X, Y[:, 0], 1e-5, "direct", tol=1e-14)
    assert solution.objective - truth.objective <= solution.gap + truth.gap


def test_it_leaves_out_what_it_says():
    X, Y, _ = text(3)
    counts = np.diff(X.tocsc().indptr)
    problem = RidgeProblem(X, Y, 1e-4)
    smaller = without_rare_columns(problem)
    assert set(smaller.kept) == set(np.flatnonzero(counts > 1))
    assert np.all(np.diff(counts[smaller.kept]) <= 0)  # the most entries first
    assert (
        f"{np.sum(counts == 1)} have one entry and {np.sum(counts == 0)} none" in problem.notes[-1]
    )


@pytest.mark.parametrize(
    "change", ["dense", "large penalty", "few of them", "nothing but them", "own penalties"]
)
def test_it_is_left_alone_where_it_is_not_worth_it(change):
    X, Y, rng = text(4)
    lam = 1e-4
    if change == "dense":
        X = X.toarray()
    elif change == "large penalty":
        lam = 1.0
    elif change == "few of them":
        X = sparse.csr_array(rng.random((N, 30)))
    elif change == "nothing but them":
        X = sparse.csr_array(np.eye(N))
    problem = RidgeProblem(X, Y, lam)
    if change == "own penalties":
        from sketchridge.feature_penalty import FeaturePenaltyProblem

        problem.__class__ = FeaturePenaltyProblem  # its columns are not those of X
    assert without_rare_columns(problem) is None


@pytest.mark.parametrize("preconditioner", ["none", "diagonal"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cg_without_rare_columns_certifies_the_direct_answer(preconditioner, dtype):
    X, Y, _ = text(5, dtype)
    solution = solve(
        X, Y, 1e-5, CG(rare_columns="eliminated"), preconditioner, tol=1e-12, fit_intercept=True
    )
    assert np.all(solution.converged)
    expected = direct(X, Y, 1e-5, None, True)
    np.testing.assert_allclose(solution.coef.T, expected[:-1], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(solution.intercept, expected[-1], rtol=1e-3, atol=1e-4)
    assert any("left out exactly" in note for note in solution.plan.notes)


def test_it_goes_on_from_a_start_and_after_any_number_of_passes():
    X, Y, _ = text(6)
    method = CG(rare_columns="eliminated")
    best = solve(X, Y, 1e-5, method, "diagonal", tol=1e-12)
    for passes in (1, 3, 8):
        some = solve(X, Y, 1e-5, method, "diagonal", tol=1e-12, max_passes=passes)
        assert some.status is Status.MAX_PASSES
        assert np.all(best.objective <= some.objective)
        assert np.all(some.objective - best.objective <= some.gap + best.gap)
    again = solve(X, Y, 1e-5, method, "diagonal", tol=1e-10, coef_init=best.coef)
    assert np.all(again.converged) and again.passes < best.passes


@pytest.mark.parametrize("rare_columns", ["given", "eliminated"])
def test_an_objective_that_is_small_enough_is_certified_as_it_is(rare_columns, monkeypatch):
    rng = np.random.default_rng(10)
    n, d = 200, 900
    X = sparse.random_array((n, d), density=0.005, rng=rng, format="csr")
    X = sparse.csr_array(sparse.hstack([X, 0.3 * np.ones((n, 1))]))
    y = np.sign(rng.standard_normal(n))
    method = CG(rare_columns=rare_columns)
    early = solve(X, y, 1e-9, method, "diagonal", tol=0.2)
    assert early.converged and early.gap <= early.objective * (1 + 1e-9)
    null = 0.5 * np.mean(y**2)
    best = direct_objective(X, y, 1e-9)
    assert (early.objective - best) / null <= early.relative_gap <= 0.2
    monkeypatch.setattr(Run, "_is_low_enough", lambda *_: False)
    late = solve(X, y, 1e-9, method, "diagonal", tol=0.2)
    assert late.converged and early.passes < late.passes


def direct_objective(X, y, lam):
    """min F by the dual."""
    K = (X @ X.T).toarray() / len(y)
    alpha = np.linalg.solve(K + lam * np.eye(len(y)), y)
    return 0.5 * lam * float(y @ alpha) / len(y)


def test_passes_over_the_smaller_problem_count():
    X, Y, _ = text(7)
    problem = RidgeProblem(X, Y, 1e-5)
    smaller = without_rare_columns(problem)
    before = problem.passes
    smaller.smaller.gram(np.zeros((smaller.smaller.d, 1)))
    smaller.point(np.zeros((smaller.smaller.d, 2)))
    assert problem.passes == before + 2


def test_auto_leaves_rare_columns_out_of_large_text_and_saves_passes():
    rng = np.random.default_rng(8)
    X = frequent_words(rng, 6000, 60000, 40, 4)
    y = rng.standard_normal(6000)
    auto = solve(X, y, 1e-6, random_state=0)
    plain = solve(X, y, 1e-6, CG(), "diagonal", random_state=0)
    assert auto.converged and plain.converged
    assert any("left out exactly" in note for note in auto.plan.notes)
    assert auto.passes < 0.7 * plain.passes
    assert abs(auto.objective - plain.objective) <= auto.gap + plain.gap


@pytest.mark.parametrize("preconditioner", ["nystrom", "lanczos", "row_sampling", "embedding"])
def test_preconditioners_that_mix_columns_are_refused(preconditioner):
    X, Y, _ = text(9)
    with pytest.raises(ValueError, match="mixes the columns"):
        solve(X, Y, 1e-4, CG(rare_columns="eliminated"), preconditioner)


def test_an_unknown_word_is_refused():
    with pytest.raises(ValueError, match="rare_columns='dropped' must be"):
        CG(rare_columns="dropped")
