"""`read`: anyone's data, by the format that the file's name tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from sketchridge.data.arrays import as_target, open_npy, read_npy, read_npz
from sketchridge.data.dataset import DataError, Dataset, NamelessColumns
from sketchridge.data.streams import COMPRESSIONS, Progress
from sketchridge.data.svmlight import ZeroBased, read_svmlight
from sketchridge.data.tables import Column, read_csv, read_parquet

SUFFIXES = {
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".svmlight": "svmlight",
    ".txt": "svmlight",
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
TEXT_FORMATS = ("svmlight", "csv", "tsv")


def read(
    path: str | PathLike[str],
    *,
    target: str | int | PathLike[str] | None = None,
    features: int | Sequence[Column] | None = None,
    format: str | None = None,
    zero_based: ZeroBased = "auto",
    progress: Progress | None = None,
) -> Dataset:
    r"""Read a file of samples.

    Parameters
    ----------
    path
        LIBSVM (.svm, .libsvm, .svmlight, .txt), .csv and .tsv, each also compressed (.gz, .bz2,
        .xz); .npy, which is memory-mapped; .npz with X and y, or with a sparse matrix as
        scipy.sparse.save_npz writes it or as data, indices, indptr and shape, with y; .parquet.
    target
        What to predict: a column of a table by its name, or by its number from 0 (-1 is the
        last), or the path of a .npy file of y, which goes with every format. None takes y from
        where the format has it, and a table whole as features.
    features
        The number of columns that X must have (a LIBSVM file may lack the last ones; others are
        checked), or the columns of a table to use, by name or number, in their order.
    format
        "svmlight", "npy", "npz", "csv", "tsv" or "parquet", where the suffix does not tell.
    zero_based
        Whether a LIBSVM file counts its columns from 0; "auto" looks whether a 0 occurs.
    progress
        Called with the bytes (rows, for Parquet) done and in all, as they are read.

    Returns
    -------
    Dataset
        X, y (None where there is none), the file's name, the features' names where the file has
        them, and notes of whatever was cast, converted or left out. All values are finite.

    Raises
    ------
    DataError
        Naming the file, the line, what is wrong, and what to do about it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sketchridge.data import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "houses.csv"
    ...     _ = path.write_text("rooms,age,price\n3,20,1.5\n5,3,4.0\n")
    ...     houses = read(path, target="price")
    >>> houses.X.shape, houses.y, houses.feature_names
    ((2, 2), array([1.5, 4. ]), ('rooms', 'age'))
    """
    path = Path(path)
    chosen = _format(path, format)
    y_path = _target_path(path, chosen, target)
    column = None if y_path is not None else _column(target)
    dataset = _read(path, chosen, column, features, zero_based, progress)
    if y_path is not None:
        y = as_target(y_path, open_npy(y_path), dataset.X.shape[0])
        dataset = replace(
            dataset, y=y, target_name=None, notes=(*dataset.notes, f"y is from {y_path}")
        )
    if isinstance(features, int) and dataset.X.shape[1] != features:
        raise DataError(
            path,
            f"has {dataset.X.shape[1]} columns and {features} were asked for",
            "give the data that belongs to them",
        )
    return dataset


def _read(
    path: Path,
    format: str,
    target: Column | None,
    features: int | Sequence[Column] | None,
    zero_based: ZeroBased,
    progress: Progress | None,
) -> Dataset:
    if format in ("csv", "tsv"):
        return read_csv(path, "," if format == "csv" else "\t", target, features, progress)
    if format == "parquet":
        return read_parquet(path, target, features, progress)
    if features is not None and not isinstance(features, int):
        raise NamelessColumns(
            path, "has no named columns", "give features=… as a number, or leave it out"
        )
    if format == "svmlight":
        return read_svmlight(path, features, zero_based, progress)
    return (read_npy if format == "npy" else read_npz)(path, progress)


def _format(path: Path, given: str | None) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = bool(suffixes) and suffixes[-1] in COMPRESSIONS
    if compressed:
        suffixes.pop()
    chosen = given or SUFFIXES.get(suffixes[-1] if suffixes else "")
    if given is not None and given not in FORMATS:
        raise ValueError(f"format={given!r} is unknown: choose one of {', '.join(FORMATS)}")
    if chosen is None:
        raise DataError(
            path,
            "its name tells no format",
            f"give format=… (--format), one of {', '.join(FORMATS)}, or one of the suffixes "
            f"{' '.join(SUFFIXES)}",
        )
    if compressed and chosen not in TEXT_FORMATS:
        raise DataError(path, f"is a compressed {chosen} file", "decompress it first")
    return chosen


def _target_path(path: Path, format: str, target: object) -> Path | None:
    """The file of y, if that is what the target is."""
    if isinstance(target, PathLike) or (isinstance(target, str) and target.endswith(".npy")):
        return Path(target)
    if target is not None and format not in ("csv", "tsv", "parquet"):
        raise DataError(
            path,
            f"is no table, so target={target!r} names nothing in it",
            "give the path of a .npy file of y, or leave target out",
        )
    return None


def _column(target: object) -> Column | None:
    if target is None or (isinstance(target, str | int) and not isinstance(target, bool)):
        return target
    raise TypeError(f"target={target!r} is neither a column nor a path: give one")
