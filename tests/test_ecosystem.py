"""The estimators among scikit-learn's tools, joblib, pickle, skops and ONNX."""

import pickle
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
import sklearn
import sklearn.linear_model
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sketchridge
from sketchridge import Lanczos, Ridge, RidgeClassifier
from sketchridge.threads import thread_count


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    return X, X @ np.arange(5.0) + rng.standard_normal(60)


# scikit-learn's tools -------------------------------------------------------------------------


def test_a_pipeline_and_its_frames(data):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcde"))
    pipeline = make_pipeline(StandardScaler(), Ridge(0.1)).set_output(transform="pandas")
    pipeline.fit(frame, y)
    expected = make_pipeline(StandardScaler(), sklearn.linear_model.Ridge(0.1)).fit(X, y)
    assert pipeline[-1].feature_names_in_.tolist() == list("abcde")
    np.testing.assert_allclose(pipeline.predict(frame), expected.predict(X), rtol=1e-8)


def test_text_goes_through_a_pipeline():
    words = ["good fine good", "bad awful", "fine good", "awful bad bad"] * 5
    y = ["plus", "minus", "plus", "minus"] * 5
    model = make_pipeline(TfidfVectorizer(), RidgeClassifier()).fit(words, y)
    assert model.predict(["good", "awful"]).tolist() == ["plus", "minus"]


def test_grid_search_finds_scikit_learns_choice(data):
    X, y = data
    grid = {"alpha": [0.01, 1.0, 100.0], "fit_intercept": [True, False]}
    ours = GridSearchCV(Ridge(), grid, cv=4).fit(X, y)
    theirs = GridSearchCV(sklearn.linear_model.Ridge(), grid, cv=4).fit(X, y)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], rtol=1e-8
    )


def test_a_transformed_target(data):
    X, y = data
    ours, theirs = (
        TransformedTargetRegressor(model, func=np.arcsinh, inverse_func=np.sinh).fit(X, y)
        for model in (Ridge(), sklearn.linear_model.Ridge())
    )
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-8)


def test_clone_copies_parameters_and_nothing_else(data):
    X, y = data
    model = Ridge([0.1], preconditioner=Lanczos(rank=3), solver="cg", random_state=1).fit(X, y)
    copy = clone(model)
    assert copy.get_params()["preconditioner"] == Lanczos(rank=3)
    assert not hasattr(copy, "coef_")
    assert np.array_equal(copy.fit(X, y).coef_, model.coef_)


def test_sample_weights_are_routed(data):
    X, y = data
    weights = np.linspace(0.1, 3, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        scored = cross_validate(
            Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
            X,
            y,
            params={"sample_weight": weights},
            cv=3,
            return_estimator=True,
            return_indices=True,
        )
    rows = scored["indices"]["train"][0]
    expected = Ridge().fit(X[rows], y[rows], weights[rows])
    np.testing.assert_allclose(scored["estimator"][0].coef_, expected.coef_, rtol=1e-12)


def test_a_notebook_shows_the_estimator(data):
    page = Ridge(0.5)._repr_html_()
    assert "Ridge(alpha=0.5)" in page and "Not fitted" in page
    assert "Fitted" in Ridge(0.5).fit(*data)._repr_html_()


# joblib ---------------------------------------------------------------------------------------


def fit_and_count(X, y, alpha):
    return Ridge(alpha, solver="cg", random_state=0).fit(X, y).coef_, thread_count()


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_fits_in_parallel_are_those_in_sequence(data, backend):
    X, y = data
    alphas = [0.1, 1.0, 10.0, 100.0]
    tasks = [joblib.delayed(fit_and_count)(X, y, alpha) for alpha in alphas]
    results = joblib.Parallel(n_jobs=2, backend=backend)(tasks)
    for (coef, _), alpha in zip(results, alphas, strict=True):
        np.testing.assert_allclose(coef, fit_and_count(X, y, alpha)[0], rtol=1e-9)


def test_processes_of_joblib_share_the_cores(data):
    X, y = data
    tasks = [joblib.delayed(fit_and_count)(X, y, 1.0) for _ in range(2)]
    workers = joblib.cpu_count()
    results = joblib.Parallel(n_jobs=workers, backend="loky")(tasks)
    assert {threads for _, threads in results} == {1}


def test_fits_on_threads_share_the_cores():
    """As many solves at once as cores: each may use one thread of ours."""
    cores = thread_count()
    seen, together = [], threading.Barrier(cores)

    def meet(record):
        together.wait(timeout=30)  # all of them are inside a solve
        seen.append(thread_count())
        together.wait(timeout=30)
        return True

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 60)), rng.standard_normal(400)
    model = Ridge(solver="cg", preconditioner="none", callback=meet)
    tasks = [joblib.delayed(clone(model).fit)(X, y) for _ in range(cores)]
    joblib.Parallel(n_jobs=cores, backend="threading")(tasks)
    assert seen == [1] * cores
    assert thread_count() == cores


# Files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [Ridge(), RidgeClassifier()])
def test_a_pickle_keeps_everything(data, estimator):
    X, y = data
    model = estimator.fit(X, y if isinstance(estimator, Ridge) else y > 0)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(X), model.predict(X))
    assert copy.plan_ == model.plan_ and copy.history_ == model.history_


@pytest.mark.parametrize("estimator", [Ridge(), RidgeClassifier()])
def test_skops_keeps_everything_with_the_types_of_this_package_alone(data, estimator):
    skops = pytest.importorskip("skops.io", reason="skops is not installed")
    X, y = data
    model = estimator.fit(X, y if isinstance(estimator, Ridge) else y > 0)
    file = skops.dumps(model)
    types = skops.get_untrusted_types(data=file)
    assert all(name.startswith("sketchridge.") for name in types)
    copy = skops.loads(file, trusted=types)
    assert np.array_equal(copy.predict(X), model.predict(X))
    assert copy.plan_ == model.plan_ and copy.history_ == model.history_


# To scikit-learn and ONNX ---------------------------------------------------------------------


@pytest.mark.parametrize("targets", [1, 3])
def test_to_sklearn_is_a_plain_fitted_ridge(data, targets):
    X, y = data
    y = y if targets == 1 else np.column_stack([y, -y, y**2])
    model = Ridge(0.02, alpha_scale="mean").fit(X, y)
    plain = model.to_sklearn()
    assert type(plain) is sklearn.linear_model.Ridge
    assert np.array_equal(plain.predict(X), model.predict(X))
    np.testing.assert_allclose(clone(plain).fit(X, y).coef_, model.coef_, rtol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_to_sklearn_is_a_plain_fitted_classifier(data, classes):
    X, y = data
    labels = np.array(["a", "b", "c"])[np.argsort(np.argsort(y)) * classes // 60]
    model = RidgeClassifier(0.3, class_weight="balanced").fit(X, labels)
    plain = model.to_sklearn()
    assert type(plain) is sklearn.linear_model.RidgeClassifier
    assert np.array_equal(plain.predict(X), model.predict(X))
    np.testing.assert_allclose(clone(plain).fit(X, labels).coef_, model.coef_, rtol=1e-8)


def onnx_run(model, X):
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    exported = skl2onnx.to_onnx(model, X[:1])
    session = runtime.InferenceSession(exported.SerializeToString())
    return session.run(None, {session.get_inputs()[0].name: X})[0]


@pytest.mark.filterwarnings("default")  # of the exporter itself
def test_onnx_export_of_a_regression(data):
    X, y = data
    model = Ridge().fit(X, np.column_stack([y, -y]))
    result = onnx_run(model.to_sklearn(), X.astype(np.float32))
    np.testing.assert_allclose(result, model.predict(X), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("default")
def test_onnx_export_of_a_classifier(data):
    X, y = data
    model = RidgeClassifier().fit(X, np.digitize(y, [-3, 3]))
    result = onnx_run(model.to_sklearn(), X.astype(np.float32))
    assert np.array_equal(result, model.predict(X.astype(np.float32)))


# Without scikit-learn -------------------------------------------------------------------------


def test_the_engine_works_and_the_estimators_say_what_to_install_without_scikit_learn():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import numpy as np, sketchridge\n"
        "sketchridge.solve(np.eye(3), np.ones(3), 0.1)\n"
        "try:\n"
        "    sketchridge.Ridge\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "pip install 'sketchridge[sklearn]'" in result.stdout


def test_the_public_names_are_there():
    assert {"Ridge", "RidgeClassifier"} <= set(sketchridge.__all__)
