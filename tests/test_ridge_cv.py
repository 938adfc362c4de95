"""RidgeCV and RidgeClassifierCV against scikit-learn's, and where they go beyond them."""

import pickle

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer, max_error, mean_absolute_error
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sketchridge.tracing
from sketchridge import Ridge, RidgeClassifierCV, RidgeCV
from sketchridge.threads import single_threaded_blas
from tests.problems import sparse_rows

ALPHAS = (0.01, 1.0, 30.0, 1000.0)
SHUFFLED = KFold(4, shuffle=True, random_state=0)


@pytest.fixture(autouse=True)
def one_thread():
    """On problems this small the threads of BLAS only wait for one another."""
    with single_threaded_blas():
        yield


def regression(kind="dense", shape=(60, 12), targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) * np.arange(1, shape[1] + 1) ** -0.5 + 0.3
    X = sparse.csr_array(X * (rng.random(shape) < 0.5)) if kind == "sparse" else X
    y = X @ rng.standard_normal((shape[1], targets)) + 1.5 * rng.standard_normal(
        (shape[0], targets)
    )
    return X, (y[:, 0] if targets == 1 else y) + 4.0, rng.uniform(0.2, 3.0, shape[0])


def classes(number, kind="dense", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((90, 8))
    scores = X[:, :number] + rng.standard_normal((90, number))
    labels = np.array(["red", "green", "blue", "grey"])[:number][scores.argmax(axis=1)]
    return sparse.csr_array(X) if kind == "sparse" else X, labels, rng.uniform(0.2, 3.0, 90)


# scikit-learn's choices and scores ------------------------------------------------------------


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("shape", [(60, 12), (25, 40)])
def test_leave_one_out_is_scikit_learns(shape, kind, weighted, fit_intercept, targets):
    X, y, weights = regression(kind, shape, targets)
    weights = weights if weighted else None
    options = {"alphas": ALPHAS, "fit_intercept": fit_intercept, "store_cv_results": True}
    ours = RidgeCV(**options).fit(X, y, sample_weight=weights)
    theirs = linear_model.RidgeCV(**options).fit(X, y, sample_weight=weights)
    assert ours.alpha_ == theirs.alpha_
    np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=1e-8)
    np.testing.assert_allclose(ours.cv_results_, theirs.cv_results_, rtol=1e-8, atol=1e-10)
    assert ours.cv_results_.shape == theirs.cv_results_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-8)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("shape", [(60, 12), (25, 40)])
def test_folds_are_those_of_a_grid_search(shape, kind, weighted, fit_intercept, targets):
    X, y, weights = regression(kind, shape, targets)
    solver = "sparse_cg" if kind == "sparse" else "cholesky"
    model = linear_model.Ridge(fit_intercept=fit_intercept, solver=solver, tol=1e-14)
    search = GridSearchCV(model, {"alpha": ALPHAS}, cv=SHUFFLED)
    search.fit(X, y, **({"sample_weight": weights} if weighted else {}))
    ours = RidgeCV(ALPHAS, cv=SHUFFLED, fit_intercept=fit_intercept, tol=1e-12)
    ours.fit(X, y, sample_weight=weights if weighted else None)
    assert ours.alpha_ == search.best_params_["alpha"]
    np.testing.assert_allclose(ours.best_score_, search.best_score_, rtol=1e-8)
    np.testing.assert_allclose(
        ours.alpha_scores_, search.cv_results_["mean_test_score"], rtol=1e-8, atol=1e-10
    )
    for fold in range(4):
        split = search.cv_results_[f"split{fold}_test_score"]
        np.testing.assert_allclose(ours.cv_scores_[fold], split, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.coef_, search.best_estimator_.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("cv", [None, 3, SHUFFLED, "iterable"])
@pytest.mark.parametrize(
    "scoring",
    ["neg_mean_absolute_error", make_scorer(mean_absolute_error, greater_is_better=False)],
)
@pytest.mark.parametrize("targets", [1, 2])
def test_other_scores_are_scikit_learns(targets, scoring, cv):
    X, y, weights = regression(targets=targets)
    if cv == "iterable":
        cv = list(SHUFFLED.split(X))
    options = {"alphas": ALPHAS, "cv": cv, "scoring": scoring}
    ours = RidgeCV(**options).fit(X, y, sample_weight=weights)
    theirs = linear_model.RidgeCV(**options).fit(X, y, sample_weight=weights)
    assert ours.alpha_ == theirs.alpha_
    np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=1e-8)


def test_leave_one_out_keeps_predictions_where_there_is_a_scorer():
    X, y, weights = regression(targets=2)
    options = {"alphas": ALPHAS, "scoring": "r2", "store_cv_results": True}
    ours = RidgeCV(**options).fit(X, y, sample_weight=weights)
    theirs = linear_model.RidgeCV(**options).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.cv_results_, theirs.cv_results_, rtol=1e-8)
    alone = cross_val_predict(
        linear_model.Ridge(ALPHAS[1]), X, y, cv=LeaveOneOut(), params={"sample_weight": weights}
    )
    np.testing.assert_allclose(ours.cv_results_[:, :, 1], alone, rtol=1e-8)


@pytest.mark.parametrize("scoring", [None, "neg_median_absolute_error"])
def test_leave_one_out_with_a_penalty_for_every_target_is_scikit_learns(scoring):
    X, y, weights = regression(targets=4)
    y = y * [0.01, 1.0, 1.0, 100.0] + np.random.default_rng(1).standard_normal(y.shape)
    options = {"alphas": ALPHAS, "alpha_per_target": True, "scoring": scoring}
    ours = RidgeCV(**options).fit(X, y, sample_weight=weights)
    theirs = linear_model.RidgeCV(**options).fit(X, y, sample_weight=weights)
    assert np.array_equal(ours.alpha_, theirs.alpha_) and len(set(ours.alpha_)) > 1
    np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=1e-8)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-7)


@pytest.mark.parametrize("scoring", [None, "neg_mean_squared_error"])
def test_folds_with_a_penalty_for_every_target(scoring):
    """scikit-learn refuses it: every target by itself is the same."""
    X, y, weights = regression(targets=4)
    y = y * [0.01, 1.0, 1.0, 100.0] + np.random.default_rng(1).standard_normal(y.shape)
    options = {"alphas": ALPHAS, "cv": SHUFFLED, "scoring": scoring}
    ours = RidgeCV(alpha_per_target=True, **options).fit(X, y, sample_weight=weights)
    alone = [RidgeCV(**options).fit(X, target, sample_weight=weights) for target in y.T]
    assert np.array_equal(ours.alpha_, [one.alpha_ for one in alone]) and len(set(ours.alpha_)) > 1
    np.testing.assert_allclose(ours.best_score_, [one.best_score_ for one in alone], rtol=1e-10)
    np.testing.assert_allclose(ours.coef_, [one.coef_ for one in alone], rtol=1e-8)
    assert ours.cv_scores_.shape == (4, 4, 4) and ours.alpha_scores_.shape == (4, 4)


# Classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("class_weight", [None, "balanced", {"red": 3.0}])
@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("number", [2, 3, 4])
def test_classifiers_choose_as_scikit_learns(number, kind, cv, class_weight):
    X, labels, weights = classes(number, kind)
    options = {"alphas": ALPHAS, "cv": cv, "class_weight": class_weight}
    ours = RidgeClassifierCV(**options).fit(X, labels, sample_weight=weights)
    theirs = linear_model.RidgeClassifierCV(**options).fit(X, labels, sample_weight=weights)
    assert ours.alpha_ == theirs.alpha_
    np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=1e-8)
    loose = 1e-2 if kind == "sparse" and cv else 1e-8  # scikit-learn's sparse folds are iterative
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=loose)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert np.array_equal(ours.classes_, theirs.classes_)


def test_the_rows_of_a_classifier_have_an_axis_for_the_targets():
    for number, columns in ((2, 1), (3, 3)):
        X, labels, _ = classes(number)
        options = {"alphas": ALPHAS, "store_cv_results": True}
        ours = RidgeClassifierCV(**options).fit(X, labels)
        theirs = linear_model.RidgeClassifierCV(**options).fit(X, labels)
        assert ours.cv_results_.shape == theirs.cv_results_.shape == (90, columns, 4)
        np.testing.assert_allclose(ours.cv_results_, theirs.cv_results_, rtol=1e-8)


@pytest.mark.parametrize("number", [2, 3])
def test_the_accuracy_of_rows_left_out_is_that_of_fits_without_them(number):
    """scikit-learn's is always 1 for two classes, for it compares the largest of one score."""
    X, labels, _ = classes(number)
    X, labels, alphas = X[:40], labels[:40], (0.1, 100.0)
    ours = RidgeClassifierCV(alphas, scoring="accuracy").fit(X, labels)
    for alpha, score in zip(alphas, ours.alpha_scores_, strict=True):
        alone = cross_val_predict(linear_model.RidgeClassifier(alpha), X, labels, cv=LeaveOneOut())
        assert np.isclose(score, np.mean(alone == labels))


def test_several_labels_at_once():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    labels = (X[:, :3] + rng.standard_normal((60, 3)) > 0).astype(int)
    for cv in (None, 3):
        ours = RidgeClassifierCV(ALPHAS, cv=cv).fit(X, labels)
        theirs = linear_model.RidgeClassifierCV(ALPHAS, cv=cv).fit(X, labels)
        assert ours.alpha_ == theirs.alpha_ and np.isclose(ours.best_score_, theirs.best_score_)
        assert np.array_equal(ours.predict(X), theirs.predict(X))


# Large data -----------------------------------------------------------------------------------


@pytest.fixture
def large(monkeypatch):
    """Let small data be treated as large data is."""
    monkeypatch.setattr(sketchridge.tracing, "DIRECT_SIZE", 0)


def sparse_regression():
    rng = np.random.default_rng(0)
    X = sparse_rows(rng, 500, 200, density=0.1)
    return X, X @ rng.standard_normal(200) + 0.5 * rng.standard_normal(500) + 1.0


def test_folds_of_large_data_choose_as_small_ones_do(large, monkeypatch):
    X, y = sparse_regression()
    iterative = RidgeCV(ALPHAS, cv=SHUFFLED, tol=1e-12).fit(X, y)
    monkeypatch.undo()
    exact = RidgeCV(ALPHAS, cv=SHUFFLED).fit(X, y)
    assert iterative.alpha_ == exact.alpha_
    np.testing.assert_allclose(iterative.alpha_scores_, exact.alpha_scores_, rtol=1e-4)
    assert iterative.cv_relative_gap_ <= 1e-12


def test_leverages_of_large_data_are_estimated_and_say_so(large, monkeypatch):
    X, y = sparse_regression()
    estimated = RidgeCV(ALPHAS, random_state=0).fit(X, y)
    monkeypatch.undo()
    exact = RidgeCV(ALPHAS).fit(X, y)
    assert estimated.alpha_ == exact.alpha_
    assert np.all(exact.alpha_score_errors_ == 0) and np.all(estimated.alpha_score_errors_ > 0)
    off = np.abs(estimated.alpha_scores_ - exact.alpha_scores_)
    assert np.all(off <= 4 * estimated.alpha_score_errors_)
    assert any("estimated from random signs" in note for note in estimated.plan_.notes)
    assert any("exactly, by one decomposition" in note for note in exact.plan_.notes)


@pytest.mark.parametrize("mode", ["svd", "eigen", "stochastic"])
def test_how_leverages_are_found_can_be_asked_for(mode, monkeypatch):
    X, y = sparse_regression()
    monkeypatch.setattr(sketchridge.tracing, "DIRECT_SIZE", 0 if mode != "stochastic" else 2000)
    model = RidgeCV(ALPHAS, gcv_mode=mode, random_state=0).fit(X, y)
    assert np.all((model.alpha_score_errors_ > 0) == (mode == "stochastic"))


# What is kept, and what is refused ------------------------------------------------------------


def test_the_answer_is_ridges_with_its_certificate():
    X, y, weights = regression(targets=3)
    model = RidgeCV(ALPHAS).fit(X, y, sample_weight=weights)
    ridge = Ridge(alpha=model.alpha_).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(model.coef_, ridge.coef_)
    np.testing.assert_array_equal(model.gap_, ridge.gap_)
    assert np.all(model.relative_gap_ <= 1e-6) and model.cv_relative_gap_ <= 1e-6
    assert model.solver_ == ridge.solver_ and model.n_features_in_ == 12
    distance = np.linalg.norm(model.coef_ - ridge.to_sklearn().coef_, axis=1)
    assert np.all(distance <= model.coef_error_bound_)
    plain = model.to_sklearn()
    assert type(plain) is linear_model.Ridge and plain.alpha == model.alpha_
    np.testing.assert_allclose(plain.predict(X), model.predict(X), rtol=1e-13)


def test_a_classifier_becomes_scikit_learns():
    X, labels, _ = classes(3)
    model = RidgeClassifierCV(ALPHAS).fit(X, labels)
    plain = model.to_sklearn()
    assert type(plain) is linear_model.RidgeClassifier
    assert np.array_equal(plain.predict(X), model.predict(X))


@pytest.mark.parametrize("cv", [None, 4])
def test_the_first_of_equal_penalties_wins_and_order_does_not_matter(cv):
    X, y, _ = regression()
    forwards = RidgeCV(ALPHAS, cv=cv).fit(X, y)
    backwards = RidgeCV(ALPHAS[::-1], cv=cv).fit(X, y)
    assert forwards.alpha_ == backwards.alpha_
    np.testing.assert_allclose(forwards.alpha_scores_, backwards.alpha_scores_[::-1], rtol=1e-12)
    always = RidgeCV(ALPHAS[::-1], cv=cv, scoring=lambda model, X, y: 1.0).fit(X, y)
    assert always.alpha_ == ALPHAS[-1]


def test_one_penalty_may_be_a_number():
    X, y, _ = regression()
    assert RidgeCV(2.0).fit(X, y).alpha_ == 2.0


def test_folds_may_have_no_penalty():
    X, y, _ = regression()
    ours = RidgeCV([0.0, 1e4], cv=SHUFFLED).fit(X, y)
    search = GridSearchCV(linear_model.Ridge(), {"alpha": [0.0, 1e4]}, cv=SHUFFLED).fit(X, y)
    expected = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(ours.alpha_scores_, expected, rtol=1e-8)


def test_float32_stays_and_chooses_alike():
    X, y, _ = regression()
    for cv in (None, 3):
        narrow = RidgeCV(ALPHAS, cv=cv).fit(X.astype(np.float32), y)
        wide = RidgeCV(ALPHAS, cv=cv).fit(X.astype(np.float32).astype(np.float64), y)
        assert narrow.coef_.dtype == np.float32 and narrow.alpha_ == wide.alpha_
        np.testing.assert_allclose(narrow.best_score_, wide.best_score_, rtol=1e-10)


def test_the_mean_scale_is_lambda():
    X, y, _ = regression()
    mean = RidgeCV(np.array(ALPHAS) / 60, alpha_scale="mean").fit(X, y)
    assert np.isclose(mean.alpha_ * 60, RidgeCV(ALPHAS).fit(X, y).alpha_)
    folds = RidgeCV([0.1], alpha_scale="mean", cv=SHUFFLED).fit(X, y)
    search = GridSearchCV(linear_model.Ridge(), {"alpha": [0.1 * 45]}, cv=SHUFFLED).fit(X, y)
    assert np.isclose(folds.best_score_, search.best_score_)  # 45 rows train in each fold


def test_frames_reach_the_scorer_as_they_are():
    pandas = pytest.importorskip("pandas")
    X, y, _ = regression()
    frame = pandas.DataFrame(X, columns=[f"column {i}" for i in range(12)])
    seen = []

    def scorer(model, X, y):
        seen.append(list(X.columns))
        return -np.abs(model.predict(X) - y).mean()

    model = RidgeCV(ALPHAS, cv=3, scoring=scorer).fit(frame, y)
    assert seen[0] == list(frame.columns) == list(model.feature_names_in_)
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame))


def test_groups_and_weights_are_routed():
    X, y, weights = regression()
    groups = np.arange(60) % 7
    with sklearn.config_context(enable_metadata_routing=True):
        cv = GroupKFold(3)
        ours = RidgeCV(ALPHAS, cv=cv).set_fit_request(sample_weight=True)
        ours.fit(X, y, sample_weight=weights, groups=groups)
        plain = linear_model.Ridge().set_fit_request(sample_weight=True)
        scorer = sklearn.metrics.get_scorer("r2").set_score_request(sample_weight=True)
        search = GridSearchCV(plain, {"alpha": ALPHAS}, cv=cv, scoring=scorer)
        search.fit(X, y, sample_weight=weights, groups=groups)
    np.testing.assert_allclose(ours.alpha_scores_, search.cv_results_["mean_test_score"], rtol=1e-8)
    with pytest.raises(ValueError, match="fit does not take groups"):
        RidgeCV(cv=GroupKFold(3)).fit(X, y, groups=groups)


def test_a_score_without_weights_is_told():
    X, y, weights = regression()
    for cv in (None, 3):
        scoring = make_scorer(max_error, greater_is_better=False)
        with pytest.warns(UserWarning, match="does not take sample_weight"):
            model = RidgeCV(ALPHAS, cv=cv, scoring=scoring).fit(X, y, sample_weight=weights)
        assert model.best_score_ < 0


def test_it_lives_in_pipelines_and_searches():
    X, y, _ = regression()
    pipe = make_pipeline(StandardScaler(), RidgeCV(ALPHAS)).fit(X, y)
    search = GridSearchCV(pipe, {"ridgecv__fit_intercept": [False, True]}, cv=3).fit(X, y)
    assert search.best_params_ == {"ridgecv__fit_intercept": True}
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert clone(RidgeClassifierCV(cv=StratifiedKFold(3))).get_params()["alphas"] == (0.1, 1, 10)


def test_bootstrap_and_shuffled_splits():
    X, y, _ = regression()
    splitter = ShuffleSplit(5, train_size=0.2, random_state=0)
    ours = RidgeCV(ALPHAS, cv=splitter).fit(X, y)
    theirs = linear_model.RidgeCV(ALPHAS, cv=splitter).fit(X, y)
    np.testing.assert_allclose(ours.best_score_, theirs.best_score_, rtol=1e-8)


def test_fits_that_do_not_converge_are_told():
    X, y = sparse_regression()
    model = RidgeCV([1e-6, 1.0], cv=3, solver="cg", preconditioner="none", max_passes=6)
    with pytest.warns(ConvergenceWarning) as told:
        model.fit(X, y)
    assert any("compared alphas by fits" in str(warning.message) for warning in told)
    assert model.cv_relative_gap_ > 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphas": [1.0, -1.0]}, r"alphas\[1\]=-1.0 is out of range: give a number > 0"),
        ({"alphas": [0.0]}, r"alphas\[0\]=0.0 is out of range"),
        ({"alphas": [0.0, -1.0], "cv": 3}, r"alphas\[1\]=-1.0 is out of range: give a number ≥ 0"),
        ({"alphas": []}, "alphas has shape"),
        ({"gcv_mode": "qr"}, "gcv_mode='qr' is unknown"),
        ({"store_cv_results": True, "cv": 3}, "store_cv_results=True goes with leave-one-out"),
        ({"alpha_scale": "max"}, "alpha_scale='max' is unknown"),
    ],
)
def test_refusals_name_the_argument(options, message):
    X, y, _ = regression()
    with pytest.raises(ValueError, match=message):
        RidgeCV(**options).fit(X, y)


def as_masks(train, test, n):
    return np.isin(np.arange(n), train), np.isin(np.arange(n), test)


@pytest.mark.parametrize(
    "written",
    [
        lambda train, test: (train.tolist(), test.tolist()),
        lambda train, test: as_masks(train, test, 60),
        lambda train, test: (train - 60, test - 60),
    ],
    ids=["lists", "masks", "from_the_end"],
)
@pytest.mark.parametrize("scoring", [None, "r2"])
def test_splits_may_be_written_as_lists_masks_or_from_the_end(written, scoring):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), rng.standard_normal(60)
    splits = [written(*split) for split in KFold(3).split(X)]
    ours = RidgeCV(ALPHAS, cv=splits, scoring=scoring).fit(X, y)
    theirs = linear_model.RidgeCV(ALPHAS, cv=KFold(3)).fit(X, y)
    assert ours.alpha_ == theirs.alpha_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, rel=1e-9)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([], "cv gives no splits"),
        ([([0, 1], [])], "split 0 of cv has no test rows"),
        ([([0, 1], [2]), ([], [0])], "split 1 of cv has no train rows"),
        ([([0, 1], [60])], "split 0 of cv has test rows that X, of 60 rows, does not have"),
        ([([True, False], [1])], "split 0 of cv has train rows that X, of 60 rows"),
    ],
)
def test_splits_that_cannot_be_are_told(splits, message):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=message):
        RidgeCV(ALPHAS, cv=splits).fit(rng.standard_normal((60, 5)), rng.standard_normal(60))


@pytest.mark.filterwarnings("ignore:R.2 score is not well-defined")
def test_scores_that_do_not_exist_are_told():
    """R² of one row is not a number: no alpha is better than another."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 3)), rng.standard_normal(12)
    with pytest.warns(UserWarning, match="RidgeCV could not score every alpha"):
        model = RidgeCV(ALPHAS, cv=LeaveOneOut()).fit(X, y)
    assert np.isnan(model.alpha_scores_).all() and model.alpha_ == ALPHAS[0]


def test_a_fold_without_weight_is_told():
    rng = np.random.default_rng(0)
    X, y, weights = rng.standard_normal((60, 5)), rng.standard_normal(60), np.ones(60)
    weights[:20] = 0.0
    with pytest.raises(ValueError, match="split 0 of cv has only test rows of weight zero"):
        RidgeCV(ALPHAS, cv=3).fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="split 0 of cv has only train rows of weight zero"):
        RidgeCV(ALPHAS, cv=[(range(20), range(20, 60))]).fit(X, y, sample_weight=weights)


def test_a_fit_keeps_no_scores_of_an_earlier_one():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), rng.standard_normal(60)
    model = RidgeCV(ALPHAS, store_cv_results=True).fit(X, y)
    assert hasattr(model, "cv_results_") and not hasattr(model, "cv_scores_")
    model.set_params(cv=3, store_cv_results=False).fit(X, y)
    assert hasattr(model, "cv_scores_") and not hasattr(model, "cv_results_")


@pytest.mark.parametrize("kind", [RidgeCV, RidgeClassifierCV])
def test_warnings_name_the_line_that_called_fit(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    with pytest.warns(ConvergenceWarning) as caught:
        kind(ALPHAS, cv=3, solver="svrg", max_passes=5, random_state=0).fit(X, X[:, 0] > 0)
    assert {warning.filename for warning in caught} == {__file__}
