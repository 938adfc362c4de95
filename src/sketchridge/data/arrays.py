"""numpy's files: .npy, memory-mapped, and .npz, dense or sparse."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.data.dataset import DataError, Dataset
from sketchridge.data.streams import Progress, check_file, check_magic

BYTES_AT_A_TIME = 1 << 24
# The arrays of a CSR matrix: scipy.sparse.save_npz adds "format", which may be another.
SPARSE_KEYS = {"data", "indices", "indptr", "shape"}


def read_npy(path: Path, progress: Progress | None = None) -> Dataset:
    """Map a .npy file into memory; it is read once, to check that its values are finite."""
    X = open_npy(path, map_memory=True)
    if X.ndim != 2:
        raise DataError(path, f"has shape {X.shape}", "store two dimensions, one row a sample")
    check_finite(path, X, progress)
    return Dataset(X, None, path.name)


def open_npy(path: Path, map_memory: bool = False) -> NDArray[Any]:
    """An array of real numbers from a .npy file."""
    check_file(path)
    check_magic(path, b"\x93NUMPY", "a .npy file")
    try:
        array: NDArray[Any] = np.load(path, "r" if map_memory else None, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise DataError(
                path, "holds Python objects, which are never unpickled", "store numbers"
            ) from error
        raise DataError(path, f"is cut short or damaged ({error})", "write it again") from error
    _check_kind(path, "it", array)
    return array


def read_npz(path: Path, progress: Progress | None = None) -> Dataset:
    """Read X and y, or the arrays of a sparse matrix and y, from a .npz file."""
    size = check_file(path)
    check_magic(path, b"PK\x03\x04", "a .npz file (a zip archive)")
    try:
        # numpy would leave a damaged file open.
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            dataset = _from_archive(path, file)
    except DataError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError) as error:
        if "allow_pickle" in str(error):
            raise DataError(
                path, "holds Python objects, which are never unpickled", "store numbers"
            ) from error
        raise DataError(path, f"is cut short or damaged ({error})", "write it again") from error
    if progress is not None:
        progress(size, size)
    return dataset


def _from_archive(path: Path, file: Any) -> Dataset:
    notes: list[str] = []
    keys = {name for name in file.files if f"{name}.npy" in file.zip.namelist()}
    if keys >= SPARSE_KEYS or "format" in keys:
        X = _sparse(path, file, keys, notes)
        check_finite(path, X.data)
    elif "X" in keys or len(keys) == 1:
        X = file["X" if "X" in keys else min(keys)]
        _check_kind(path, "X", X)
        if X.ndim != 2:
            raise DataError(path, f"X has shape {X.shape}", "store two dimensions")
        check_finite(path, X)
    else:
        raise DataError(
            path,
            f"holds the arrays {', '.join(sorted(keys)) or '(none)'}",
            "store X and y, or data, indices, indptr, shape and y",
        )
    y = as_target(path, file["y"], X.shape[0]) if "y" in keys else None
    unused = sorted(keys - SPARSE_KEYS - {"X", "y", "format", "row", "col", "_is_array"})
    if unused and "X" in keys:
        notes.append(f"arrays left out: {', '.join(unused)}")
    return Dataset(X, y, path.name, None, tuple(notes))


def _sparse(path: Path, file: Any, keys: set[str], notes: list[str]) -> Any:
    from scipy import sparse

    if "format" in keys:
        X = sparse.load_npz(path)
        if X.format != "csr":
            notes.append(f"stored as {X.format.upper()}: converted to CSR")
        X = sparse.csr_matrix(X)
    else:
        shape = tuple(int(side) for side in file["shape"])
        if len(shape) != 2:
            raise DataError(path, f"shape is {shape}", "store two sides")
        arrays = (file["data"], file["indices"], file["indptr"])
        X = sparse.csr_matrix(arrays, shape=shape)
    _check_kind(path, "data", X.data)
    X.check_format(full_check=True)
    return X


def _check_kind(path: Path, name: str, array: NDArray[Any]) -> None:
    if array.dtype.kind not in "buif":
        raise DataError(path, f"{name} has dtype {array.dtype}", "store real numbers")
    if array.size == 0:
        raise DataError(path, f"{name} is empty, of shape {array.shape}", "store at least one row")


def check_finite(path: Path, array: NDArray[Any], progress: Progress | None = None) -> None:
    """Refuse NaN and infinite values, naming the first row; reads a memory map block by block."""
    if array.dtype.kind != "f":
        return
    rows = max(1, BYTES_AT_A_TIME // max(1, array.nbytes // len(array)))
    for start in range(0, len(array), rows):
        block = array[start : start + rows]
        finite = np.isfinite(block)
        if not finite.all():
            row = start + int(np.argwhere(~finite)[0][0])
            what = "row" if array.ndim == 2 else "entry"
            raise DataError(path, f"has a NaN or infinite value in {what} {row}", "clean the data")
        if progress is not None:
            progress(min(array.nbytes, start * (array.nbytes // len(array))), array.nbytes)
    if progress is not None:
        progress(array.nbytes, array.nbytes)


def as_target(path: Path, y: NDArray[Any], rows: int) -> NDArray[np.float64]:
    """y as (n,) float64, finite."""
    _check_kind(path, "y", y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or len(y) != rows:
        raise DataError(
            path, f"y has shape {y.shape} and X has {rows} rows", f"store y with shape ({rows},)"
        )
    check_finite(path, y)
    return y.astype(np.float64)
