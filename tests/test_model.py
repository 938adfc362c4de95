"""Model files: what is written is read back, and nothing else is taken for a model."""

import json
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sketchridge import solve
from sketchridge.model import Model, ModelError
from sketchridge.solution import Forecast
from tests.problems import decaying, sparse_rows


def fitted(targets=1, names=None, **options):
    rng = np.random.default_rng(0)
    X = decaying(rng, 60, 12)
    y = rng.standard_normal((60, targets)) if targets > 1 else rng.standard_normal(60)
    solution = solve(X, y, 1e-3, fit_intercept=True, random_state=0, **options)
    model = Model.of(solution, 1e-3, fit_intercept=True, feature_names=names, target="price")
    return X, solution, model


@pytest.fixture
def saved(tmp_path):
    _, _, model = fitted(names=tuple(f"ς{i}" for i in range(12)))
    path = tmp_path / "a.model"
    model.save(path)
    return path


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("solver", ["auto", "direct", "cg"])
def test_a_model_comes_back_as_it_was(targets, solver, tmp_path):
    X, solution, model = fitted(targets, solver=solver)
    model.save(tmp_path / "a.model")
    back = Model.load(tmp_path / "a.model")
    assert np.array_equal(back.coef, solution.coef)
    assert np.array_equal(back.intercept, solution.intercept)
    assert np.array_equal(back.gap, solution.gap)
    assert back.status is solution.status and back.plan == solution.plan
    assert back.history == solution.history and back.shape == solution.shape
    assert (back.lam, back.tol, back.target) == (1e-3, 1e-6, "price")
    assert back.converged and back.as_dict() == model.as_dict()
    expected = X @ solution.coef.T + solution.intercept
    assert np.allclose(back.predict(X), expected, rtol=1e-13)
    assert [file.name for file in tmp_path.iterdir()] == ["a.model"]


def test_the_document_is_json_even_where_a_gap_is_infinite():
    X, _, _ = fitted()
    solution = solve(X, np.ones(60), 1e-3, fit_intercept=True)  # nothing to explain
    model = Model.of(solution, 1e-3)
    document = json.loads(json.dumps(model.as_dict(), allow_nan=False))
    assert document["status"] == "converged" and document["features"] == 12
    stuck = solve(X, X[:, 0], 1e-3, solver="cg", max_passes=1)
    json.dumps(Model.of(stuck, 1e-3).as_dict(), allow_nan=False)


def test_a_plan_that_weighed_a_hopeless_method_is_kept(tmp_path):
    _, solution, _ = fitted()
    hopeless = Forecast("gd", np.inf, np.inf, 8)
    plan = replace(solution.plan, forecasts=(hopeless,))
    model = Model.of(replace(solution, plan=plan), 1e-3)
    model.save(tmp_path / "a.model")
    assert Model.load(tmp_path / "a.model").plan == plan
    document = json.loads(json.dumps(model.as_dict(), allow_nan=False))
    assert document["plan"]["forecasts"][0]["passes"] is None


def test_predictions_are_alike_for_every_kind_of_matrix(tmp_path, monkeypatch):
    monkeypatch.setattr("sketchridge.model.BLOCK_BYTES", 1000)  # several blocks
    rng = np.random.default_rng(1)
    X = sparse_rows(rng, 70, 12)
    _, _, model = fitted()
    expected = X.toarray() @ model.coef + float(model.intercept)
    np.save(tmp_path / "X.npy", X.toarray())
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for data in (X, X.tocsc(), X.toarray(), mapped, np.asfortranarray(X.toarray())):
        assert np.allclose(model.predict(data), expected)
    whole = (10 * X).toarray().astype(np.uint8)
    assert np.allclose(model.predict(whole), whole @ model.coef + float(model.intercept))
    single = X.toarray().astype(np.float32)
    assert np.allclose(model.predict(single), expected, rtol=1e-5)
    assert model.predict(sparse.csr_array((1, 12))).shape == (1,)


def test_data_that_does_not_fit_the_model_is_refused():
    X, _, model = fitted()
    with pytest.raises(ModelError, match="takes 12 columns"):
        model.predict(X[:, :5])
    with pytest.raises(ModelError, match="takes 12 columns"):
        model.predict(X[0])
    X = X.copy()
    X[7, 3] = np.nan
    with pytest.raises(ModelError, match="row 7"):
        model.predict(X)


# -- files that are no models --------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_a_truncated_file_is_refused(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelError, match=r"a\.model"):
        Model.load(saved)


def test_no_flipped_byte_makes_another_model(saved):
    """Every byte of the archive in turn is damaged: the model is refused or as it was."""
    whole, before = saved.read_bytes(), Model.load(saved)
    for position in range(0, len(whole), 17):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        saved.write_bytes(bytes(damaged))
        try:
            after = Model.load(saved)
        except ModelError:
            continue
        assert np.array_equal(after.coef, before.coef), position
        assert after.as_dict() == before.as_dict(), position


def rewritten(path, **changes):
    """The file with some members changed, or left out where the change is None."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays |= changes
    with path.open("wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


def with_about(path, **changes):
    with np.load(path) as archive:
        about = json.loads(bytes(archive["about"]))
    about |= changes
    rewritten(path, about=np.frombuffer(json.dumps(about).encode(), np.uint8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"coef": np.full(12, np.nan)}, "no numbers"),
        ({"intercept": np.array(np.inf)}, "no numbers"),
        ({"coef": np.ones(11)}, "shapes"),
        ({"coef": np.ones((2, 12))}, "shapes"),
        ({"coef": np.ones(12, np.float32)}, "float32"),
        ({"gap": np.ones(3)}, "shapes"),
        ({"coef": None}, "damaged"),
        ({"history": np.ones((2, 3))}, "history"),
        ({"about": None}, "not a model"),
        ({"about": np.frombuffer(b"{", np.uint8)}, "damaged"),
        ({"about": np.frombuffer(b"[]", np.uint8)}, "damaged"),
        ({"about": np.frombuffer(b"[" * 100_000, np.uint8)}, "damaged"),
    ],
)
def test_a_file_that_disagrees_with_itself_is_refused(saved, changes, words):
    rewritten(saved, **changes)
    with pytest.raises(ModelError, match=words):
        Model.load(saved)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": ["sketchridge model", 99]}, "format 99"),
        ({"format": ["another", 1]}, "not a model"),
        ({"status": "SPLENDID"}, "damaged"),
        ({"lam": "small"}, "damaged"),
        ({"feature_names": ["one"]}, "shapes"),
        ({"plan": {"solver": "cg"}}, "damaged"),
        ({"target": ["price"]}, "is no name"),
    ],
)
def test_a_document_that_makes_no_sense_is_refused(saved, changes, words):
    with_about(saved, **changes)
    with pytest.raises(ModelError, match=words):
        Model.load(saved)


def test_nothing_in_a_file_is_executed(saved, tmp_path):
    trap = tmp_path / "sprung"

    class Trap:
        def __reduce__(self):
            return (open, (str(trap), "w"))

    rewritten(saved, coef=np.array([Trap()], dtype=object))
    with pytest.raises(ModelError):
        Model.load(saved)
    saved.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ModelError):
        Model.load(saved)
    assert not trap.exists()


def test_other_files_are_refused_in_words(tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        Model.load(tmp_path / "nothing")
    with pytest.raises(ModelError, match="folder"):
        Model.load(tmp_path)
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(ModelError, match="not a model"):
        Model.load(tmp_path / "x.npy")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("about.npy", b"no array")
    with pytest.raises(ModelError, match="not a model"):
        Model.load(tmp_path / "x.zip")


def test_a_write_that_fails_leaves_the_old_model(saved, monkeypatch):
    before = saved.read_bytes()
    _, _, model = fitted()

    def full(*arguments, **arrays):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match=r"No space left on device.*a\.model"):
        model.save(saved)
    assert saved.read_bytes() == before
    assert [file.name for file in saved.parent.iterdir()] == ["a.model"]


def test_a_linked_file_is_replaced_behind_the_link(saved):
    link = saved.with_name("link")
    link.symlink_to(saved)
    _, _, model = fitted(3)
    model.save(link)
    assert link.is_symlink() and Model.load(saved).coef.shape == (3, 12)
