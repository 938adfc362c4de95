"""Data frames of pandas and polars as matrices: a view where there is one, else column by column.

Neither library is imported: a frame is known by its face.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_matrix(X: Any, notes: list[str]) -> Any:
    """The frame as an array (or sparse matrix) of floats; anything else as it is."""
    if _is_pandas(X):
        return _from_pandas(X, notes)
    if _is_polars(X):
        return _from_polars(X, notes)
    return X


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "dtypes") and len(X.shape) == 2 and X.shape[1] > 0


def _is_polars(X: Any) -> bool:
    if type(X).__module__.split(".")[0] != "polars":
        return False
    if not hasattr(X, "get_columns"):
        raise TypeError(
            f"X is a polars {type(X).__name__}: give a DataFrame (of a LazyFrame, X.collect())"
        )
    return bool(X.shape[1] > 0)


def _from_pandas(X: Any, notes: list[str]) -> Any:
    dtypes = list(X.dtypes)
    if all(hasattr(dtype, "fill_value") for dtype in dtypes):  # pandas' own sparse columns
        notes.append("X is a frame of sparse columns: copied to a sparse matrix")
        return X.sparse.to_coo().tocsr()
    if len(set(dtypes)) == 1 and _is_plain_float(dtypes[0]):
        array = X.to_numpy()
        if np.shares_memory(array, X.iloc[:, 0].to_numpy()):
            return array
    numbers = [dtype if isinstance(dtype, np.dtype) else _numpy_dtype(dtype) for dtype in dtypes]

    def column(index: int, target: np.dtype[Any]) -> NDArray[Any]:
        values: NDArray[Any] = X.iloc[:, index].to_numpy(dtype=target, na_value=np.nan)
        return values

    return _filled(X, list(X.columns), numbers, column, notes)


def _is_plain_float(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype in (np.float32, np.float64)


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """Of pandas' own types: that of their values; float64 for all else, if it converts at all."""
    found = getattr(dtype, "numpy_dtype", np.dtype(np.float64))
    return found if isinstance(found, np.dtype) else np.dtype(np.float64)


def _from_polars(X: Any, notes: list[str]) -> Any:
    try:  # columns that lie side by side in memory already
        array = X.to_numpy(allow_copy=False)
        if _is_plain_float(array.dtype):
            return array
    except RuntimeError:
        pass
    columns = X.get_columns()
    numbers = [column.head(0).to_numpy().dtype for column in columns]

    def column(index: int, target: np.dtype[Any]) -> NDArray[Any]:
        values: NDArray[Any] = columns[index].to_numpy().astype(target, copy=False)
        return values

    return _filled(X, list(X.columns), numbers, column, notes)


def _filled(
    X: Any,
    names: list[Any],
    dtypes: list[np.dtype[Any]],
    column: Callable[[int, np.dtype[Any]], NDArray[Any]],
    notes: list[str],
) -> NDArray[Any]:
    """A matrix in Fortran order, filled column by column: no second copy in between."""
    matrix = np.empty(X.shape, _common_dtype(dtypes), order="F")
    for index, name in enumerate(names):
        try:
            matrix[:, index] = column(index, matrix.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"X's column {name!r} cannot be read as numbers ({error}): encode or drop it"
            ) from error
    notes.append(
        f"X is a frame: its columns were copied to a matrix ({matrix.nbytes / 1e6:.1f} MB)"
    )
    return matrix


def _common_dtype(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """What scikit-learn computes with: float32 if nothing in the frame is wider, else float64."""
    numeric = [dtype for dtype in dtypes if dtype.kind in "buif"]
    narrow = len(numeric) == len(dtypes) and np.result_type(*numeric) == np.float32
    return np.dtype(np.float32 if narrow else np.float64)
