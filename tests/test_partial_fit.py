"""partial_fit is fit on all rows at once."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from sketchridge import Ridge, RidgeClassifier
from tests.exact import ExactRidge


def feed(model, X, y, sizes, weights=None, **options):
    start = 0
    for size in sizes:
        rows = slice(start, start + size)
        given = {} if weights is None else {"sample_weight": weights[rows]}
        model.partial_fit(X[rows], y[rows], **given, **options)
        start += size
    assert start == X.shape[0]
    return model


@pytest.mark.parametrize("shape", [(60, 8), (20, 30)])
@pytest.mark.parametrize("targets", [None, 3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("penalty", ["one", "per feature"])
def test_the_result_is_that_of_fit_on_all_rows(
    storage, weighted, intercept, targets, shape, penalty
):
    rng = np.random.default_rng(4)
    n, d = shape
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.5) + 1.0
    X = sparse.csr_array(X) if storage == "csr" else X
    y = rng.standard_normal(n if targets is None else (n, targets)) + 5.0
    weights = rng.uniform(0.1, 2, n) if weighted else None
    multipliers = None
    if penalty == "per feature":
        multipliers = np.append(0.0, rng.uniform(0.5, 2, d - 1))
    model = Ridge(0.3, fit_intercept=intercept, feature_penalty=multipliers)
    whole = Ridge(0.3, fit_intercept=intercept, feature_penalty=multipliers).fit(X, y, weights)
    feed(model, X, y, [1, 5, n - 16, 3, 7], weights)
    scale = np.abs(whole.coef_).max()
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8, atol=1e-9 * scale)
    np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-8)
    assert np.shape(model.intercept_) == np.shape(whole.intercept_)
    assert model.n_samples_seen_ == n
    assert np.all(model.relative_gap_ <= 1e-6)


def test_columns_far_from_zero_lose_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), rng.standard_normal(300)
    near = Ridge(0.3).fit(X, y)
    far = feed(Ridge(0.3), X + 1e7, y + 1e7, [100, 1, 199])
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_gap_is_never_below_the_true_gap_of_all_rows(intercept):
    rng = np.random.default_rng(1)
    for trial in range(12):
        X = rng.standard_normal((9, 3)) + 10.0 ** rng.uniform(-1, 5)
        y = rng.standard_normal(9) + 10.0 ** rng.uniform(-1, 4)
        X = X.astype(np.float32) if trial % 3 == 0 else X
        model = Ridge(10.0 ** rng.uniform(-3, 2), fit_intercept=intercept, tol=1.0)
        feed(model, X, y, [2, 3, 4])
        exact = ExactRidge(X, y[:, None], model.lam_, fit_intercept=intercept)
        coef = model.coef_[:, None].astype(np.float64)
        gap = exact.gap(coef, np.array([model.intercept_], np.float64))
        assert 0 <= gap[0] <= model.gap_


def test_float32_chunks_give_float32_coefficients():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 4)).astype(np.float32), rng.standard_normal(50)
    model = feed(Ridge(), X, y, [20, 30])
    assert model.coef_.dtype == np.float32
    np.testing.assert_allclose(model.coef_, Ridge().fit(X, y).coef_, rtol=1e-5)


def test_a_zero_penalty_waits_for_enough_rows():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 6)), rng.standard_normal(20)
    model = Ridge(0.0, fit_intercept=False)
    model.partial_fit(X[:3], y[:3])
    expected = np.linalg.lstsq(X[:3], y[:3], rcond=None)[0]
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-7)
    model.partial_fit(X[3:], y[3:])
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-7)


def test_every_target_may_have_its_own_penalty():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 4)), rng.standard_normal((60, 30))
    alpha = 10.0 ** rng.uniform(-2, 2, 30)
    model = feed(Ridge(alpha), X, Y, [20, 40])
    np.testing.assert_allclose(model.coef_, Ridge(alpha).fit(X, Y).coef_, rtol=1e-9)
    alpha[3] = 0.0
    with pytest.raises(ValueError, match="alpha is 0 for some targets only"):
        Ridge(alpha).partial_fit(X, Y)


def test_it_goes_on_after_a_pickle():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 4)), rng.standard_normal(40)
    model = pickle.loads(pickle.dumps(Ridge().partial_fit(X[:15], y[:15])))
    np.testing.assert_allclose(model.partial_fit(X[15:], y[15:]).coef_, Ridge().fit(X, y).coef_)


def test_after_fit_it_starts_anew_and_says_so():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 4)), rng.standard_normal(40)
    model = Ridge().fit(X, y)
    with pytest.warns(UserWarning, match="partial_fit after fit starts anew"):
        model.partial_fit(X[:20], y[:20])
    np.testing.assert_allclose(model.coef_, Ridge().fit(X[:20], y[:20]).coef_)
    model.fit(X, y)
    assert not hasattr(model, "_moments")


def test_another_solver_is_not_used_and_that_is_told():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 4)), rng.standard_normal(40)
    model = Ridge(solver="saga").partial_fit(X, y)
    assert model.solver_ == "cholesky"
    assert "solver='saga' is not used: partial_fit is exact" in model.plan_.notes


def test_too_many_columns_are_refused_before_any_work():
    with pytest.raises(ValueError, match=r"5001 × 5001 matrix \(0.2 GB\).*use fit on all rows"):
        Ridge().partial_fit(np.ones((2, 5001)), np.ones(2))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((3, 5)), np.ones(3), "X has 5 features, but Ridge is expecting 4 features"),
        (np.ones((3, 4)), np.ones((3, 2)), r"y has 2 target\(s\), and the rows before had 1"),
        (np.full((3, 4), np.nan), np.ones(3), "NaN"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused_and_changes_nothing(X, y, message):
    rng = np.random.default_rng(0)
    model = Ridge().partial_fit(rng.standard_normal((9, 4)), rng.standard_normal(9))
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y)
    assert np.array_equal(model.coef_, before) and model.n_samples_seen_ == 9


class TestClassifier:
    def data(self, classes=3):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((60, 5))
        return X, np.array(["a", "b", "c"])[np.argsort(np.argsort(X[:, 0])) * classes // 60]

    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("class_weight", [None, {"a": 2.0}])
    def test_the_result_is_that_of_fit(self, classes, class_weight):
        X, y = self.data(classes)
        order = np.argsort(y, kind="stable")  # so that no chunk has all the classes
        whole = RidgeClassifier(class_weight=class_weight).fit(X, y)
        names = np.unique(y)
        model = RidgeClassifier(class_weight=class_weight)
        feed(model, X[order], y[order], [15, 15, 30], classes=names)
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9, atol=1e-12)
        assert np.array_equal(model.predict(X), whole.predict(X))

    def test_the_classes_must_be_known_from_the_start(self):
        X, y = self.data()
        with pytest.raises(ValueError, match="give all the classes"):
            RidgeClassifier().partial_fit(X, y)
        model = RidgeClassifier().partial_fit(X, y, classes=["a", "b", "c"])
        with pytest.raises(ValueError, match="'d', which is not among the classes"):
            model.partial_fit(X, np.full(60, "d"))

    def test_balanced_weights_are_refused(self):
        X, y = self.data()
        with pytest.raises(ValueError, match="class_weight='balanced' needs all rows at once"):
            RidgeClassifier(class_weight="balanced").partial_fit(X, y, classes=["a", "b", "c"])

    @pytest.mark.parametrize(
        ("class_weight", "error", "message"),
        [
            ("heavy", TypeError, "class_weight='heavy' is not a dictionary"),
            ({"a": 2.0, "z": 3.0}, ValueError, "class_weight has 'z', which is not among"),
        ],
    )
    def test_class_weights_that_mean_nothing_are_refused(self, class_weight, error, message):
        X, y = self.data()
        with pytest.raises(error, match=message):
            RidgeClassifier(class_weight=class_weight).partial_fit(X, y, classes=["a", "b", "c"])


def test_fit_forgets_how_many_rows_came_in_chunks():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    model = Ridge().partial_fit(X, y)
    assert model.n_samples_seen_ == 30
    assert not hasattr(model.fit(X[:10], y[:10]), "n_samples_seen_")
