"""Checks of what a user gives, once, before any long work.

Every exception names the argument, the value and the remedy. Whatever has to be copied or cast
is noted, and the notes reach the plan.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def check_matrix(X: Any) -> tuple[Any, list[str]]:
    """X as a float32 or float64 array (C or Fortran order) or canonical CSR matrix, and notes."""
    notes: list[str] = []
    X = _check_sparse(X, notes) if sparse.issparse(X) else _check_dense(X, notes)
    n, d = X.shape
    if n == 0 or d == 0:
        raise ValueError(f"X is empty: its shape is {n} × {d}; give at least one row and column")
    return X, notes


def _check_dense(X: Any, notes: list[str]) -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError("X is a masked array: fill or drop the masked values first")
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"X has {array.ndim} dimension(s), shape {array.shape}: give two, one row a sample; "
            "reshape a single column with X.reshape(-1, 1)"
        )
    array = _check_dtype(array, notes)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        notes.append(f"X is not contiguous: copied ({array.nbytes / 1e6:.1f} MB)")
        array = np.ascontiguousarray(array)
    return array


def _check_sparse(X: Any, notes: list[str]) -> Any:
    if len(X.shape) != 2:
        raise ValueError(f"X is sparse with shape {X.shape}: give two dimensions")
    if X.format != "csr":
        X = X.tocsr()
        notes.append(f"X is not in CSR format: copied to CSR ({_bytes(X) / 1e6:.1f} MB)")
    _check_csr_indices(X)
    data = _check_dtype(X.data, notes)
    if data is not X.data:
        X = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
        notes.append(
            "X has unsorted or duplicate indices: copied, sorted and summed "
            f"({_bytes(X) / 1e6:.1f} MB)"
        )
    return X


def _check_csr_indices(X: Any) -> None:
    """The kernels trust the indices, so that none may point outside."""
    n, d = X.shape
    indptr, indices = X.indptr, X.indices
    sound = indptr.size == n + 1 and indptr[0] == 0 and indptr[-1] <= min(indices.size, X.data.size)
    if not sound or np.any(np.diff(indptr) < 0):
        raise ValueError(
            "X is a broken CSR matrix: indptr must rise from 0 to the number of values"
        )
    used = indices[: indptr[-1]]
    if used.size and (used.min() < 0 or used.max() >= d):
        raise ValueError(
            f"X is a broken CSR matrix: its column indices run from {used.min()} to {used.max()}, "
            f"outside 0 to {d - 1}"
        )


def _bytes(X: Any) -> int:
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def _check_dtype(array: NDArray[Any], notes: list[str]) -> NDArray[Any]:
    if array.dtype in FLOATS and array.dtype.isnative:
        return array
    if array.dtype.kind not in "buif":
        raise TypeError(f"X has dtype {array.dtype}: give real numbers, float32 or float64")
    exact = array.dtype.kind in "biu" and array.dtype.itemsize <= 2
    target = np.float32 if exact or array.dtype == np.float16 else np.float64
    cast = array.astype(target, order="K")
    notes.append(f"X has dtype {array.dtype}: copied to {cast.dtype} ({cast.nbytes / 1e6:.1f} MB)")
    return cast


def check_finite_norms(squared_norms: Array) -> None:
    """Every value of X is finite, and so is its square, if the rows' squared norms are."""
    wrong = np.flatnonzero(~np.isfinite(squared_norms))
    if wrong.size:
        raise ValueError(
            f"X has NaN, infinite or overflowing values, first in row {wrong[0]} "
            f"({wrong.size} row(s) in all): clean or rescale X"
        )


def check_targets(y: Any, n: int) -> tuple[Array, bool]:
    """y as float64 (n, t), and whether it was given in one dimension."""
    if sparse.issparse(y):
        raise TypeError("y is sparse: give a dense array")
    array = np.asarray(y)
    if array.ndim not in (1, 2):
        raise ValueError(f"y has {array.ndim} dimensions, shape {array.shape}: give (n,) or (n, t)")
    if array.shape[0] != n:
        raise ValueError(f"y has {array.shape[0]} rows and X has {n}: they must agree")
    if array.ndim == 2 and array.shape[1] == 0:
        raise ValueError(f"y has shape {array.shape}: give at least one target")
    if array.dtype.kind not in "buif":
        raise TypeError(f"y has dtype {array.dtype}: give real numbers (encode classes as numbers)")
    columns = array.astype(np.float64).reshape(n, -1)
    _check_finite("y", columns)
    if not np.isfinite(np.sum(columns**2)):
        raise ValueError("y has values whose squares overflow: rescale y")
    return columns, array.ndim == 1


def _check_finite(name: str, array: Array) -> None:
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        raise ValueError(f"{name} has a NaN or infinite value at row {wrong[0][0]}: clean {name}")


def check_weights(sample_weight: Any, n: int) -> Array | None:
    """Sample weights as float64 (n,); a number for all is no weighting."""
    if sample_weight is None:
        return None
    array = np.asarray(sample_weight)
    if array.dtype.kind not in "buif":
        raise TypeError(f"sample_weight has dtype {array.dtype}: give real numbers")
    array = array.astype(np.float64)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise ValueError(f"sample_weight has shape {array.shape} and X has {n} rows: give ({n},)")
    _check_finite("sample_weight", array)
    if array.min() < 0:
        row = int(np.argmin(array))
        raise ValueError(f"sample_weight[{row}] = {array[row]:g} is negative: weights must be ≥ 0")
    if array.sum() == 0:
        raise ValueError("sample_weight is all zero: give at least one row a positive weight")
    return array


def check_number(name: str, value: Any, low: float, remedy: str, *, strict: bool = False) -> float:
    """A finite real number at least (or, if strict, above) `low`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} is not a number: {remedy}")
    number = float(value)
    if not np.isfinite(number) or number < low or (strict and number == low):
        raise ValueError(f"{name}={value!r} is out of range: {remedy}")
    return number


def check_optional(name: str, value: Any, remedy: str) -> float | None:
    """None, or a positive number."""
    return None if value is None else check_number(name, value, 0.0, remedy, strict=True)


def check_start(coef_init: Any, d: int, targets: int, flat: bool) -> Array | None:
    """Starting coefficients, given as (d,) or (t, d), as float64 (d, t)."""
    if coef_init is None:
        return None
    array = np.asarray(coef_init, dtype=np.float64)
    expected = (d,) if flat else (targets, d)
    if array.shape != expected:
        raise ValueError(f"coef_init has shape {array.shape}: give {expected}, as coef has")
    start = np.ascontiguousarray(array.reshape(targets, d).T)
    _check_finite("coef_init", start)
    return start


def check_rng(random_state: Any) -> np.random.Generator:
    """A generator from None, a seed or a generator (as it is, and thus advanced)."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state={random_state!r} is no seed: give None, a non-negative integer or a "
            "numpy Generator"
        ) from error
