"""Data frames of pandas and polars: names, views where there are some, and notes on copies."""

import numpy as np
import pytest

from sketchridge import Ridge, RidgeClassifier
from sketchridge.estimators.frames import to_matrix

pandas = pytest.importorskip("pandas", reason="pandas is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")

COPIED = "X is a frame: its columns were copied to a matrix"


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4))
    return X, X @ np.array([1.0, -2.0, 0.5, 0.0]) + rng.standard_normal(50)


def frames(X):
    columns = {name: X[:, i].copy() for i, name in enumerate("abcd")}
    return {
        "pandas of an array": pandas.DataFrame(X, columns=list("abcd")),
        "pandas of columns": pandas.DataFrame(columns),
        "pandas, mixed": pandas.DataFrame(columns).astype({"a": "Float64", "d": "Float64"}),
        "polars of columns": polars.DataFrame(columns),
        "polars of an array": polars.DataFrame(X, schema=list("abcd")),
    }


@pytest.mark.parametrize("kind", frames(np.zeros((1, 4))))
def test_a_frame_is_fitted_as_its_values_are_and_its_names_are_known(data, kind):
    X, y = data
    frame = frames(X)[kind]
    model = Ridge().fit(frame, y)
    expected = Ridge().fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_allclose(model.predict(frame), expected.predict(X), rtol=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "d"]])


def test_a_pandas_frame_of_one_block_is_read_as_it_is(data):
    X, y = data
    for kind in ("pandas of an array", "pandas of columns"):
        frame, notes = frames(X)[kind], []
        matrix = to_matrix(frame, notes)
        assert notes == [] and np.shares_memory(matrix, frame["a"].to_numpy())
        assert Ridge().fit(frame, y).plan_.notes == ()


def test_a_polars_frame_of_adjacent_columns_is_read_as_it_is(data):
    X, _ = data
    frame, notes = polars.DataFrame(np.asfortranarray(X)), []
    matrix = to_matrix(frame, notes)
    assert notes == [] and np.array_equal(matrix, X)
    assert np.shares_memory(matrix, frame.get_columns()[0].to_numpy())


def test_a_copy_is_told_with_its_size(data):
    X, y = data
    model = Ridge().fit(frames(X)["pandas, mixed"], y)
    assert any(note.startswith(COPIED) for note in model.plan_.notes)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_float32_frames_give_float32_coefficients_and_wider_ones_do_not(data, library):
    X, y = data
    columns = {name: X[:, i].astype(np.float32) for i, name in enumerate("abcd")}
    make = pandas.DataFrame if library == "pandas" else polars.DataFrame
    assert Ridge().fit(make(columns), y).coef_.dtype == np.float32
    columns["e"] = np.arange(50, dtype=np.int8)
    assert Ridge().fit(make(columns), y).coef_.dtype == np.float32
    columns["e"] = np.arange(50)
    assert Ridge().fit(make(columns), y).coef_.dtype == np.float64


def test_integers_booleans_and_nullable_columns_are_numbers(data):
    X, y = data
    flags = np.arange(50) % 2 == 0
    counts = np.arange(50)
    expected = Ridge().fit(np.column_stack([X[:, 0], flags, counts]), y)
    nullable = pandas.DataFrame(
        {"a": X[:, 0], "b": pandas.array(flags, dtype="boolean"), "c": counts}
    )
    for frame in (nullable, polars.DataFrame({"a": X[:, 0], "b": flags, "c": counts})):
        np.testing.assert_allclose(Ridge().fit(frame, y).coef_, expected.coef_, rtol=1e-9)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_value_is_refused(data, library):
    X, y = data
    if library == "pandas":
        frame = pandas.DataFrame({"a": X[:, 0], "b": pandas.array([1, None] * 25, dtype="Int64")})
    else:
        frame = polars.DataFrame({"a": X[:, 0], "b": [1, None] * 25})
    with pytest.raises(ValueError, match="NaN"):
        Ridge().fit(frame, y)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_text_is_refused_by_the_name_of_its_column(data, library):
    X, y = data
    make = pandas.DataFrame if library == "pandas" else polars.DataFrame
    with pytest.raises(ValueError, match="X's column 'city' cannot be read as numbers"):
        Ridge().fit(make({"a": X[:, 0], "city": ["x"] * 50}), y)


def test_a_lazy_frame_is_refused_with_the_way_to_a_frame(data):
    X, y = data
    with pytest.raises(TypeError, match=r"polars LazyFrame: give a DataFrame .*X\.collect\(\)"):
        Ridge().fit(polars.DataFrame(X).lazy(), y)


def test_sparse_columns_stay_sparse(data):
    from scipy import sparse

    _, y = data
    X = sparse.random_array((50, 6), density=0.3, rng=np.random.default_rng(0), format="csc")
    frame = pandas.DataFrame.sparse.from_spmatrix(X)
    model = Ridge().fit(frame, y)
    np.testing.assert_allclose(model.coef_, Ridge().fit(X, y).coef_, rtol=1e-10)
    assert any("copied to a sparse matrix" in note for note in model.plan_.notes)


def test_targets_and_weights_may_be_frames_and_series(data):
    X, y = data
    weights = np.linspace(1, 2, 50)
    expected = Ridge().fit(X, y, weights)
    for series in (pandas.Series, polars.Series):
        model = Ridge().fit(X, series(y), series(weights))
        assert np.array_equal(model.coef_, expected.coef_)
    both = Ridge().fit(X, pandas.DataFrame({"one": y, "two": -y}))
    assert both.coef_.shape == (2, 4)


def test_labels_of_a_frame(data):
    X, y = data
    labels = polars.Series(np.where(y > 0, "up", "down"))
    model = RidgeClassifier().fit(frames(X)["polars of columns"], labels)
    assert model.classes_.tolist() == ["down", "up"]


def test_chunks_of_a_frame(data):
    X, y = data
    frame = frames(X)["pandas of columns"]
    model = Ridge().partial_fit(frame[:20], y[:20]).partial_fit(frame[20:], y[20:])
    np.testing.assert_allclose(model.coef_, Ridge().fit(X, y).coef_, rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame.rename(columns={"a": "z"}), y)
