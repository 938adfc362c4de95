"""The paper's problems: their published formats, checks and checksums."""

import bz2
import gzip
import io
import os
import pickle
import tarfile
from dataclasses import replace
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from sketchridge.data import PROBLEMS, DataError, MissingData, images, load
from sketchridge.data.images import read_cifar, read_idx, unpickle_batch


def real(name):
    try:
        return load(name)
    except MissingData as missing:
        pytest.skip(str(missing))


def bytes_of(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


# -- real data, where it is at hand --------------------------------------------------------------


@pytest.mark.parametrize(
    "name, positive",
    [("mnist", 5842), ("cifar10", 30000), ("rcv1-subsets", None), ("imdb", 25000)],
)
def test_a_problem_has_the_papers_size_and_labels(name, positive):
    dataset = real(name)
    assert dataset.X.shape == PROBLEMS[name].shape
    assert set(np.unique(dataset.y)) == {-1, 1}
    if positive is not None:
        assert np.count_nonzero(dataset.y == 1) == positive
    assert dataset.X.dtype == (np.float32 if name in ("mnist", "cifar10") else np.float64)
    assert any("cast to" in note for note in dataset.notes)


def test_california_housing_is_a_regression_problem():
    dataset = real("california-housing")
    assert dataset.X.shape == (20640, 8) and dataset.y.max() == 500001


@pytest.mark.parametrize("name", ["rcv1", "real-sim"])
def test_the_originals_have_labels_of_plus_and_minus_one(name):
    assert set(np.unique(real(name).y)) == {-1, 1}


# -- what is missing or wrong --------------------------------------------------------------------


def test_a_missing_problem_says_where_to_get_it_and_where_to_put_it(tmp_path, monkeypatch):
    with pytest.raises(MissingData, match=r"put rcv1_train\.binary\.bz2 \(https://.*\) into "):
        load("rcv1", tmp_path)
    monkeypatch.delenv("SKETCHRIDGE_DATA", raising=False)
    with pytest.raises(MissingData, match="name it by SKETCHRIDGE_DATA"):
        load("mnist")
    with pytest.raises(ValueError, match="name='rcv2' is unknown: choose one of synthetic-linear"):
        load("rcv2")


def test_every_problem_can_be_asked_for_in_an_empty_folder(tmp_path):
    for name, problem in PROBLEMS.items():
        if problem.find is not None:
            with pytest.raises(MissingData, match="is not at hand: put "):
                load(name, tmp_path)


def test_another_file_of_the_name_is_refused(tmp_path):
    np.savez(tmp_path / "cal_housing.npz", X=np.ones((20640, 8)), y=np.ones(20640))
    with pytest.raises(DataError, match="differs from the data of that name"):
        load("california-housing", tmp_path)


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SKETCHRIDGE_DATA", os.fspath(tmp_path))
    (tmp_path / "real-sim").write_text("1 1:1\n")
    with pytest.raises(DataError, match=r"real-sim has shape \(1, 1\), not \(72309, 20958\)"):
        load("real-sim")


# -- LIBSVM --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, suffix", [("rcv1", ".bz2"), ("real-sim", ".bz2"), ("rcv1", "")])
def test_rcv1_and_real_sim_are_read_as_libsvm_publishes_them(tmp_path, name, suffix):
    n, d = PROBLEMS[name].shape
    rows = np.arange(n)
    columns = rows * 7919 % d
    columns[5] = d - 1
    X = sparse.csr_matrix((np.full(n, 0.5), (rows, columns)), shape=(n, d))
    file = io.BytesIO()
    dump_svmlight_file(X, np.where(rows % 2, 1, -1), file, zero_based=False)
    content = file.getvalue()
    path = tmp_path / {"rcv1": "rcv1_train.binary", "real-sim": "real-sim"}[name]
    path.with_name(path.name + suffix).write_bytes(bz2.compress(content) if suffix else content)
    dataset = load(name, tmp_path)
    assert (dataset.X != X).nnz == 0
    assert any("no checksum of it is published" in note for note in dataset.notes)


# -- MNIST ---------------------------------------------------------------------------------------


@pytest.fixture
def digits(tmp_path, monkeypatch):
    """Made-up idx files whose checksums and number are taken for the published ones."""
    X, y = bytes_of(0, 300, 28, 28), bytes_of(1, 300) % 10
    contents = {"train-images-idx3-ubyte": idx(X), "train-labels-idx1-ubyte": idx(y)}
    sums = {name: md5(content).hexdigest() for name, content in contents.items()}
    monkeypatch.setattr(images, "IDX_MD5", sums)
    wanted = (y == 4) | (y == 7)
    altered = replace(PROBLEMS["mnist"], shape=(int(wanted.sum()), 784))
    monkeypatch.setitem(PROBLEMS, "mnist", altered)
    return contents, X[wanted].reshape(-1, 784), np.where(y[wanted] == 4, 1, -1)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("dotted", [False, True])
def test_mnist_is_read_from_idx_files(tmp_path, digits, suffix, dotted):
    contents, X, y = digits
    for name, content in contents.items():
        name = name.replace("-idx", ".idx") if dotted else name
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(gzip.compress(content) if suffix else content)
    dataset = load("mnist", tmp_path)
    assert np.array_equal(dataset.X, X) and np.array_equal(dataset.y, y)
    assert "from the idx files, MD5 as published" in dataset.notes


def test_other_digits_are_refused_by_their_checksum(tmp_path, digits):
    contents, _, _ = digits
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content[:-1] + b"\x7f")
    with pytest.raises(DataError, match="is not the published one: its MD5 is"):
        load("mnist", tmp_path)


@pytest.mark.parametrize(
    "content, problem",
    [
        (idx(bytes_of(0, 3, 4))[:-1], r"has 23 bytes where its header \(3 × 4\) needs 24"),
        (idx(bytes_of(0, 3, 4)) + b"x", r"has 25 bytes where"),
        (idx(bytes_of(0, 3, 4))[:9], "cut short or damaged"),
        (b"\0\0\x0d\1" + bytes(9), "is not an idx file of bytes"),
        (b"\0", "is not an idx file of bytes"),
        (b"", "is empty"),
    ],
)
def test_a_broken_idx_file_is_refused(tmp_path, content, problem):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=problem):
        read_idx(tmp_path / "a")


# -- CIFAR-10 ------------------------------------------------------------------------------------


class Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings, as the published batches have them."""

    dispatch = pickle._Pickler.dispatch.copy()

    def save_string(self, value):
        self.write(b"T" + len(value).to_bytes(4, "little") + value)

    dispatch[bytes] = save_string


def python_batch(X, y):
    """A batch as Python 2 pickled it."""
    buffer = io.BytesIO()
    Python2Pickler(buffer, 2).dump({b"data": X, b"labels": y.tolist(), b"batch_label": b"one"})
    return buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


@pytest.fixture
def batches(monkeypatch):
    """Five made-up batches in both formats, whose checksums are taken for the published ones."""
    monkeypatch.setattr(images, "BATCH", 100)
    altered = replace(PROBLEMS["cifar10"], shape=(500, 3072))
    monkeypatch.setitem(PROBLEMS, "cifar10", altered)
    parts = [(bytes_of(i, 100, 3072), bytes_of(i + 9, 100) % 10) for i in range(5)]
    binary = {
        f"data_batch_{i + 1}.bin": np.concatenate([y[:, None], X], axis=1).tobytes()
        for i, (X, y) in enumerate(parts)
    }
    python = {f"data_batch_{i + 1}": python_batch(X, y) for i, (X, y) in enumerate(parts)}
    for name, contents in (("BINARY_MD5", binary), ("PYTHON_MD5", python)):
        sums = {key: md5(content).hexdigest() for key, content in contents.items()}
        monkeypatch.setattr(images, name, sums)
    return parts, {"bin": binary, "py": python}


def test_cifar_is_read_from_every_published_form(tmp_path, batches):
    parts, forms = batches
    X = np.concatenate([X for X, _ in parts])
    classes = np.concatenate([y for _, y in parts])
    for form, contents in forms.items():
        folder = tmp_path / form
        unpacked = folder / f"cifar-10-batches-{form}"
        unpacked.mkdir(parents=True)
        for name, content in contents.items():
            (unpacked / name).write_bytes(content)
        dataset = load("cifar10", folder)
        assert np.array_equal(dataset.X, X)
        assert np.array_equal(dataset.y == -1, np.isin(classes, [0, 1, 8, 9]))
    packed = tmp_path / "packed"
    packed.mkdir()
    with tarfile.open(packed / "cifar-10-python.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(unpacked, "cifar-10-batches-py")
    found, _ = read_cifar(packed / "cifar-10-python.tar.gz")
    assert np.array_equal(found, X)


def test_an_altered_or_missing_batch_is_refused(tmp_path, batches):
    _, forms = batches
    for name, content in forms["bin"].items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "data_batch_3.bin").write_bytes(forms["bin"]["data_batch_3.bin"][:-1] + b"\0")
    with pytest.raises(DataError, match=r"data_batch_3\.bin is not the published one"):
        read_cifar(tmp_path)
    (tmp_path / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match="of the five training batches"):
        read_cifar(tmp_path)


def test_a_cut_archive_is_refused(tmp_path):
    with tarfile.open(tmp_path / "whole.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("data_batch_1.bin")
        info.size = 100_000
        archive.addfile(info, io.BytesIO(bytes_of(0, 100_000).tobytes()))
    path = tmp_path / "cifar-10-binary.tar.gz"
    path.write_bytes((tmp_path / "whole.tar.gz").read_bytes()[:50_000])
    with pytest.raises(DataError, match="is cut short or damaged"):
        read_cifar(path)


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("/tmp/never-made-by-a-pickle",))


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({b"data": Evil(), b"labels": []}, 2),
        pickle.dumps({b"data": bytes_of(0, 2, 3072)}, 2),
        pickle.dumps([1, 2]),
        pickle.dumps({b"data": [1, 2], b"labels": [1, 2]}, 2),
        python_batch(bytes_of(0, 2, 3072).astype(float), bytes_of(1, 2)),
        python_batch(bytes_of(0, 2, 3072), bytes_of(1, 2))[:-9],
        b"",
        b"not a pickle",
    ],
)
def test_a_pickle_that_is_no_batch_is_refused_and_runs_nothing(content):
    with pytest.raises(DataError, match="data_batch_1"):
        unpickle_batch(Path("folder"), "data_batch_1", content)
    assert not Path("/tmp/never-made-by-a-pickle").exists()
