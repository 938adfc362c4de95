"""A penalty for every feature, against dense normal equations and rational arithmetic."""

import numpy as np
import pytest
from scipy import sparse

from sketchridge import Diagonal, Nystrom, Ridge, RidgeClassifier
from tests.exact import ExactRidge

SHAPES = {"tall": (50, 12), "wide": (15, 40)}


def draw(rng, shape, storage="dense", targets=None):
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    X[:, :3] += 2.0
    y = rng.standard_normal(shape[0] if targets is None else (shape[0], targets))
    return sparse.csr_array(X) if storage == "csr" else X, y


def multipliers(rng, d, free):
    penalty = 10.0 ** rng.uniform(-2, 2, d)
    penalty[:free] = 0.0
    return penalty


def normal_equations(X, y, alpha, penalty, weights, intercept):
    """(XᵀSX + alpha diag(γ))⁻¹ XᵀSy with a column of ones that is not penalised."""
    X = X.toarray() if sparse.issparse(X) else X
    n, d = X.shape
    weights = np.ones(n) if weights is None else weights
    if intercept:
        X, penalty = np.column_stack([X, np.ones(n)]), np.append(penalty, 0.0)
    solution = np.linalg.solve(
        (X.T * weights) @ X + alpha * np.diag(penalty), X.T @ (weights * y.T).T
    )
    return solution[:d].T, solution[d] if intercept else 0.0


@pytest.mark.parametrize("free", [0, 2])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("targets", [None, 3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_it_is_the_solution_of_the_normal_equations(
    storage, weighted, intercept, targets, shape, free
):
    rng = np.random.default_rng(2)
    X, y = draw(rng, SHAPES[shape], storage, targets)
    penalty = multipliers(rng, X.shape[1], free)
    weights = rng.uniform(0.2, 2, X.shape[0]) if weighted else None
    coef, offset = normal_equations(X, y, 0.7, penalty, weights, intercept)
    for solver, tol in [("auto", 1e-6), ("cg", 1e-14)]:
        model = Ridge(
            0.7,
            feature_penalty=penalty,
            fit_intercept=intercept,
            solver=solver,
            tol=tol,
            random_state=0,
        ).fit(X, y, weights)
        error = np.linalg.norm(model.coef_ - coef, axis=-1)
        assert np.all(error <= model.coef_error_bound_)
        assert np.all(error <= 1e-5 * np.linalg.norm(coef, axis=-1))
        if solver == "auto":
            np.testing.assert_allclose(model.coef_, coef, rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(model.intercept_, offset, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["auto", "cg"])
@pytest.mark.parametrize("free", [0, 1, 2])
def test_the_gap_is_never_below_that_of_the_original_objective(free, solver, dtype):
    rng = np.random.default_rng(free)
    for trial in range(12):
        n, d = [(8, 4), (4, 6)][trial % 2]
        X, y = rng.standard_normal((n, d)).astype(dtype) + dtype(2), rng.standard_normal(n)
        X = sparse.csr_array(X) if trial // 2 % 2 else X
        intercept = bool(trial // 4 % 2)
        penalty = multipliers(rng, d, free)
        weights = rng.uniform(0.2, 2, n) if trial % 3 == 0 else None
        model = Ridge(
            10.0 ** rng.uniform(-3, 1),
            feature_penalty=penalty,
            fit_intercept=intercept,
            solver=solver,
            tol=1e-3,
            random_state=trial,
        ).fit(X, y, weights)
        exact = ExactRidge(X, y[:, None], model.lam_, weights, intercept, penalty)
        gap = exact.gap(
            model.coef_[:, None].astype(np.float64), np.array([model.intercept_], float)
        )
        assert 0 <= gap[0] <= model.gap_
        error = np.linalg.norm(model.coef_ - exact.coef[:, 0].astype(float))
        assert error <= model.coef_error_bound_


def test_all_multipliers_one_are_no_multipliers():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (30, 5))
    plain = Ridge().fit(X, y)
    ones = Ridge(feature_penalty=np.ones(5)).fit(X, y)
    assert np.array_equal(plain.coef_, ones.coef_)


def test_no_penalty_at_all_is_least_squares():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (30, 5))
    model = Ridge(feature_penalty=np.zeros(5)).fit(X, y)
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(30)]), y, rcond=None)[0]
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), expected, rtol=1e-9)


def test_a_target_that_unpenalised_columns_explain_is_fitted_by_them_alone():
    rng = np.random.default_rng(0)
    X, _ = draw(rng, (30, 5))
    model = Ridge(1e6, feature_penalty=[0, 1, 1, 1, 1]).fit(X, 2 * X[:, 0] + 1)
    np.testing.assert_allclose(model.coef_, [2, 0, 0, 0, 0], atol=1e-12)
    assert model.intercept_ == pytest.approx(1.0)
    assert model.relative_gap_ <= 1e-6


def test_unpenalised_columns_that_depend_on_each_other_are_told_and_shared():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (30, 5))
    X[:, 1], X[:, 2] = 3.0, X[:, 0]
    model = Ridge(feature_penalty=[0, 0, 0, 1, 1]).fit(X, y)
    reduced = Ridge(feature_penalty=[0, 1, 1]).fit(X[:, [0, 3, 4]], y)
    np.testing.assert_allclose(model.predict(X), reduced.predict(X[:, [0, 3, 4]]), rtol=1e-9)
    assert model.coef_[0] == pytest.approx(model.coef_[2]) and model.coef_[1] == 0.0
    assert any(
        "2 of them are constant or depend on the others" in note for note in model.plan_.notes
    )


def test_an_unpenalised_column_far_from_zero_keeps_its_accuracy():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (60, 5))
    year = X.copy()
    year[:, 0] = 1.7e9 + 1e3 * X[:, 0]
    penalty = [0, 1, 2, 3, 4]
    near, far = (Ridge(feature_penalty=penalty).fit(data, y) for data in (X, year))
    np.testing.assert_allclose(far.coef_[1:], near.coef_[1:], rtol=1e-6)
    assert far.coef_[0] * 1e3 == pytest.approx(near.coef_[0], rel=1e-6)


@pytest.mark.parametrize("free", [0, 3])
def test_sparse_data_is_neither_copied_nor_made_dense(free, monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.random_array((4000, 2500), density=0.002, rng=rng, format="csr")
    y = rng.standard_normal(4000)

    def refuse(*args, **kwargs):
        raise AssertionError("copied or densified")

    for method in ("toarray", "copy", "tocsc", "multiply", "__getitem__"):
        monkeypatch.setattr(sparse.csr_array, method, refuse)
    penalty = multipliers(rng, 2500, free)
    model = Ridge(1.0, feature_penalty=penalty, random_state=0).fit(X, y)
    assert model.solver_ == "cg" and model.relative_gap_ <= 1e-6
    assert not any("cop" in note for note in model.plan_.notes)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "svrg"},
        {"solver": "cg", "preconditioner": Diagonal()},
        {"solver": "cg", "preconditioner": Nystrom(rank=4, rows=20)},
    ],
)
def test_what_reads_rows_gets_a_scaled_copy_and_says_so(storage, dtype, options):
    rng = np.random.default_rng(0)
    X, y = draw(rng, (60, 8), storage)
    X, penalty = X.astype(dtype), multipliers(rng, 8, 0)
    model = Ridge(2.0, feature_penalty=penalty, tol=1e-9, random_state=0, **options).fit(X, y)
    coef, _ = normal_equations(X.astype(np.float64), y, 2.0, penalty, None, True)
    assert np.linalg.norm(model.coef_ - coef) <= model.coef_error_bound_
    assert any("the columns are scaled in a copy of X" in note for note in model.plan_.notes)


def test_what_reads_rows_cannot_leave_columns_unpenalised():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (60, 8))
    with pytest.raises(ValueError, match="cannot project unpenalised columns out: use solver='cg'"):
        Ridge(feature_penalty=multipliers(rng, 8, 1), solver="svrg").fit(X, y)


def test_a_warm_start_goes_through_the_map():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (200, 50))
    model = Ridge(
        0.01, feature_penalty=multipliers(rng, 50, 2), solver="cg", preconditioner="none",
        warm_start=True, tol=1e-9, random_state=0,
    )  # fmt: skip
    cold = model.fit(X, y).n_iter_[0]
    assert model.fit(X, y).n_iter_[0] < cold


def test_many_penalties_of_many_targets():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (60, 8), targets=30)
    alpha, penalty = 10.0 ** rng.uniform(-2, 2, 30), multipliers(rng, 8, 2)
    model = Ridge(alpha, feature_penalty=penalty).fit(X, y)
    assert model.solver_ == "eigh"
    for target in (0, 11, 29):
        coef, _ = normal_equations(X, y[:, target], alpha[target], penalty, None, True)
        np.testing.assert_allclose(model.coef_[target], coef, rtol=1e-8)


def test_a_classifier_takes_it_too():
    rng = np.random.default_rng(0)
    X, _ = draw(rng, (60, 4))
    y = X[:, 0] > 2
    model = RidgeClassifier(1e3, feature_penalty=[0, 1, 1, 1]).fit(X, y)
    assert model.score(X, y) > RidgeClassifier(1e3).fit(X, y).score(X, y)


@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        ([1.0, 1.0], r"feature_penalty has shape \(2,\) and X has 3 columns"),
        ([1.0, -1.0, 1.0], r"feature_penalty\[1\] = -1 is out of range: give 0 \(no penalty\)"),
        ([1.0, np.nan, 1.0], r"feature_penalty\[1\] = nan is out of range"),
        ([1.0, 1.0, np.inf], r"feature_penalty\[2\] = inf is out of range"),
    ],
)
def test_bad_multipliers_are_refused(penalty, message):
    with pytest.raises(ValueError, match=message):
        Ridge(feature_penalty=penalty).fit(np.eye(3), np.ones(3))


def test_too_many_unpenalised_columns_are_refused():
    with pytest.raises(ValueError, match="feature_penalty has 2001 zeros: at most 2000"):
        Ridge(feature_penalty=np.zeros(2001)).fit(np.ones((2, 2001)), np.ones(2))
