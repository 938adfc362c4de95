"""RidgeClassifier against scikit-learn's."""

import numpy as np
import pytest
import sklearn.linear_model
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sketchridge import RidgeClassifier


def draw(classes, storage="dense", n=80, d=6):
    rng = np.random.default_rng(classes)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    scores = X[:, :classes] + 0.3 * rng.standard_normal((n, min(classes, d)))
    labels = np.array(["down", "up", "left", "right", "off"])[scores.argmax(axis=1)]
    return sparse.csr_array(X) if storage == "csr" else X, labels


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"up": 3.0}])
@pytest.mark.parametrize("weighted", [True, False])
def test_it_agrees_with_scikit_learns(classes, storage, intercept, class_weight, weighted):
    X, y = draw(classes, storage)
    weights = np.random.default_rng(0).uniform(0.1, 2, len(y)) if weighted else None
    options = {"alpha": 0.7, "fit_intercept": intercept, "class_weight": class_weight}
    model = RidgeClassifier(**options).fit(X, y, weights)
    dense = X.toarray() if storage == "csr" else X
    expected = sklearn.linear_model.RidgeClassifier(solver="svd", **options)
    expected.fit(dense, y, weights)
    assert np.array_equal(model.classes_, expected.classes_)
    assert model.coef_.shape == expected.coef_.shape
    assert np.shape(model.intercept_) == np.shape(expected.intercept_)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(dense), rtol=1e-8, atol=1e-12
    )
    assert np.array_equal(model.predict(X), expected.predict(dense))
    assert model.score(X, y, weights) == expected.score(dense, y, weights)


@pytest.mark.parametrize("solver", ["cg", "svrg"])
def test_iterative_solvers_certify_every_class(solver):
    X, y = draw(4)
    model = RidgeClassifier(0.7, solver=solver, tol=1e-12, random_state=0).fit(X, y)
    expected = sklearn.linear_model.RidgeClassifier(0.7, solver="svd").fit(X, y)
    errors = np.linalg.norm(model.coef_ - expected.coef_, axis=1)
    assert model.gap_.shape == (4,) and np.all(model.relative_gap_ <= 1e-12)
    assert np.all(errors <= model.coef_error_bound_)


def test_multilabel_data_has_a_target_a_label():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5))
    Y = (X[:, :3] + 0.2 * rng.standard_normal((80, 3)) > 0).astype(int)
    model = RidgeClassifier().fit(X, Y)
    expected = sklearn.linear_model.RidgeClassifier().fit(X, Y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8)
    assert np.array_equal(model.predict(X), expected.predict(X))
    assert np.array_equal(model.classes_, expected.classes_)


def test_float32_is_kept():
    X, y = draw(3)
    model = RidgeClassifier().fit(X.astype(np.float32), y)
    assert model.coef_.dtype == model.intercept_.dtype == np.float32
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32


def test_an_unfitted_classifier_says_so():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        RidgeClassifier().predict(np.eye(2))


def test_regression_targets_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"[Uu]nknown label type: .?continuous"):
        RidgeClassifier().fit(rng.standard_normal((9, 2)), rng.standard_normal(9))


def test_a_fit_that_stops_short_names_the_classifier():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 100)) * np.arange(1, 101.0) ** -2
    with pytest.warns(ConvergenceWarning, match="RidgeClassifier did not reach tol=1e-06"):
        RidgeClassifier(1e-9, solver="cg", preconditioner="none", max_passes=6).fit(X, X[:, 5] > 0)
