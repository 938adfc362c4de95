"""The paper's problems by name, from files that the user has. Nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import md5
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.data.arrays import read_npz
from sketchridge.data.dataset import DataError, Dataset, MissingData
from sketchridge.data.images import check_cifar, read_cifar, read_mnist
from sketchridge.data.streams import COMPRESSIONS
from sketchridge.data.svmlight import read_svmlight
from sketchridge.data.synthetic import synthetic

FOLDER_VARIABLE = "SKETCHRIDGE_DATA"
LIBSVM_SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"
DESCRIBED = "docs/data.md tells what it holds"  # where it is in no public place
SYNTHETIC_SEED = 0
FOUR, SEVEN = 4, 7
VEHICLES = (0, 1, 8, 9)  # airplane, automobile, ship, truck; the other classes are animals


@dataclass(frozen=True)
class Problem:
    """A problem: what it is, what its data must look like, and where that comes from."""

    name: str
    title: str
    shape: tuple[int, int]
    find: Callable[[Path], Dataset | None] | None  # None: it is made, not read
    remedy: str = ""
    stand_in: str | None = None  # the problem that takes its place where its data is missing


# -- finding the files -------------------------------------------------------------------------


def _spellings(folder: Path, *names: str) -> Iterator[Path]:
    """The files of those names, plain or compressed, that exist."""
    for name in names:
        for suffix in ("", *COMPRESSIONS):
            path = folder / f"{name}{suffix}"
            if path.is_file():
                yield path


def _archive(folder: Path, name: str) -> Dataset | None:
    path = folder / name
    return read_npz(path) if path.is_file() else None


def _mnist(folder: Path) -> Dataset | None:
    prepared = _npz("mnist_4v7.npz", "fb1237e8fe51dca2e11476b0203a41bd")(folder)
    if prepared is not None:
        X, digits = prepared.X, np.asarray(prepared.y)
        source = "from mnist_4v7.npz, MD5 of its arrays as expected"
    else:
        images = next(
            _spellings(folder, "train-images-idx3-ubyte", "train-images.idx3-ubyte"), None
        )
        labels = next(
            _spellings(folder, "train-labels-idx1-ubyte", "train-labels.idx1-ubyte"), None
        )
        if images is None or labels is None:
            return None
        X, digits = read_mnist(images, labels)
        wanted = (digits == FOUR) | (digits == SEVEN)
        X, digits, source = X[wanted], digits[wanted], "from the idx files, MD5 as published"
    return Dataset(X, _signs(digits == FOUR), "mnist", None, (source, "4 is +1, 7 is −1"))


def _cifar(folder: Path) -> Dataset | None:
    prepared = _archive(folder, "cifar10.npz")
    if prepared is not None:
        X, classes = prepared.X, np.asarray(prepared.y)
        check_cifar(folder / "cifar10.npz", X, classes)
    else:
        names = ("cifar-10-batches-bin", "cifar-10-batches-py")
        archives = ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz")
        source = next(
            (folder / name for name in (*names, *archives) if (folder / name).exists()), None
        )
        if source is None:
            return None
        X, classes = read_cifar(source)
    notes = ("MD5 of every batch as published", "animals are +1, vehicles −1")
    return Dataset(X, _signs(~np.isin(classes, VEHICLES)), "cifar10", None, notes)


def _signs(positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(positive, 1.0, -1.0)


def _libsvm(*names: str) -> Callable[[Path], Dataset | None]:
    def find(folder: Path) -> Dataset | None:
        path = next(_spellings(folder, *names), None)
        if path is None:
            return None
        dataset = read_svmlight(path)
        note = f"from {path.name}: no checksum of it is published, its shape is checked"
        return replace(dataset, notes=(*dataset.notes, note))

    return find


def _npz(name: str, digest: str) -> Callable[[Path], Dataset | None]:
    def find(folder: Path) -> Dataset | None:
        dataset = _archive(folder, name)
        if dataset is not None:
            _check_content(folder / name, dataset, digest)
        return dataset

    return find


def _check_content(path: Path, dataset: Dataset, expected: str) -> None:
    """Compare with the data that the project's figures were made from."""
    X = dataset.X
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr.astype(np.int64)]
    digest = md5(usedforsecurity=False)
    for array in (*arrays, dataset.y):
        digest.update(np.ascontiguousarray(array).tobytes())
    if digest.hexdigest() != expected:
        raise DataError(
            path,
            f"differs from the data of that name (MD5 of its arrays {digest.hexdigest()}, "
            f"expected {expected})",
            "fetch it again, or read it with sketchridge.data.read",
        )


# -- the problems ------------------------------------------------------------------------------

PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem("synthetic-linear", "Synthetic, singular values 1/q", (20000, 5000), None),
        Problem("synthetic-quadratic", "Synthetic, singular values 1/q²", (20000, 5000), None),
        Problem(
            "mnist",
            "MNIST, 4 against 7",
            (12107, 784),
            _mnist,
            "train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz "
            "(http://yann.lecun.com/exdb/mnist/), or mnist_4v7.npz",
        ),
        Problem(
            "cifar10",
            "CIFAR-10, animals against vehicles",
            (50000, 3072),
            _cifar,
            "cifar-10-binary.tar.gz or cifar-10-python.tar.gz "
            "(https://www.cs.toronto.edu/~kriz/cifar.html), packed or unpacked, or cifar10.npz",
        ),
        Problem(
            "rcv1",
            "RCV1",
            (20242, 47236),
            _libsvm("rcv1_train.binary"),
            f"rcv1_train.binary.bz2 ({LIBSVM_SITE})",
            "rcv1-subsets",
        ),
        Problem(
            "real-sim",
            "real-sim",
            (72309, 20958),
            _libsvm("real-sim"),
            f"real-sim.bz2 ({LIBSVM_SITE})",
            "imdb",
        ),
        Problem(
            "rcv1-subsets",
            "RCV1-v2 subsets",
            (20242, 47236),
            _npz("rcv1_subsets.npz", "7c2b1a7c287f5fd6bb5ad83033b08194"),
            f"rcv1_subsets.npz ({DESCRIBED})",
        ),
        Problem(
            "imdb",
            "IMDB",
            (50000, 20958),
            _npz("imdb_tfidf.npz", "5cb89affa66fd319f591ffb56ced8c21"),
            f"imdb_tfidf.npz ({DESCRIBED})",
        ),
        Problem(
            "california-housing",
            "California housing",
            (20640, 8),
            _npz("cal_housing.npz", "4a19296f293f37db957f16e249e0faf7"),
            f"cal_housing.npz ({DESCRIBED})",
        ),
    )
}


def load(name: str, folder: str | PathLike[str] | None = None) -> Dataset:
    """Load a problem of the paper, or one of the data that stands in for it, by its name.

    Parameters
    ----------
    name
        "synthetic-linear" or "synthetic-quadratic", which are made anew (20000 × 5000, seed 0);
        "mnist", "cifar10", "rcv1" or "real-sim", as the paper has them, with labels ±1;
        "rcv1-subsets" and "imdb", other text of like size; "california-housing".
    folder
        Where the files are; by default the folder that SKETCHRIDGE_DATA names.

    Returns
    -------
    Dataset
        X in float32 (bytes) or float64, y, and notes of where it came from and what was checked.

    Raises
    ------
    MissingData
        If its files are not there, with where to get them and where to put them.
    DataError
        If they are there and are not what they should be.

    Examples
    --------
    >>> from sketchridge.data import MissingData, load
    >>> try:
    ...     rcv1 = load("rcv1", folder="/nowhere")
    ... except MissingData as missing:
    ...     print(str(missing)[:47])
    RCV1 is not at hand: put rcv1_train.binary.bz2
    """
    if name not in PROBLEMS:
        raise ValueError(f"name={name!r} is unknown: choose one of {', '.join(PROBLEMS)}")
    problem = PROBLEMS[name]
    if problem.find is None:
        return _made(problem)
    place = folder if folder is not None else os.environ.get(FOLDER_VARIABLE) or None
    dataset = None if place is None else problem.find(Path(place))
    if dataset is None:
        where = f"a folder, and name it by {FOLDER_VARIABLE}" if place is None else f"{place}"
        raise MissingData(f"{problem.title} is not at hand: put {problem.remedy} into {where}")
    if dataset.X.shape != problem.shape:
        raise DataError(
            str(place),
            f"{problem.title} has shape {dataset.X.shape}, not {problem.shape}",
            "fetch it again",
        )
    X, notes = _as_floats(dataset.X)
    return replace(dataset, X=X, name=name, notes=(*dataset.notes, *notes))


def _made(problem: Problem) -> Dataset:
    power = 1 if problem.name == "synthetic-linear" else 2
    X, y = synthetic(*problem.shape, power, np.random.default_rng(SYNTHETIC_SEED))
    return Dataset(X, y, problem.name, None, (f"made anew, seed {SYNTHETIC_SEED}",))


def _as_floats(X: Any) -> tuple[Any, tuple[str, ...]]:
    """Bytes as float32, which holds them exactly; float32 values as float64."""
    if X.dtype == np.float64:
        return X, ()
    kind = np.float32 if X.dtype.kind == "u" else np.float64
    return X.astype(kind), (f"{X.dtype} cast to {np.dtype(kind)}",)
