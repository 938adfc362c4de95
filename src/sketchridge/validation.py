"""Checks of what a user gives, once, before any long work.

Every exception names the argument, the value and the remedy. Whatever has to be copied or cast
is noted, and the notes reach the plan.
"""

from __future__ import annotations

import numbers
from typing import Any, Literal

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.problem import RidgeProblem

Array = NDArray[np.float64]
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
# Squares of squares must neither overflow nor vanish.
LARGEST, SMALLEST = 1e70, 1e-70


def check_matrix(X: Any) -> tuple[Any, list[str]]:
    """X as a float32 or float64 array (C or Fortran order) or canonical CSR matrix, and notes."""
    notes: list[str] = []
    X = _check_sparse(X, notes) if scipy.sparse.issparse(X) else _check_dense(X, notes)
    n, d = X.shape
    if n == 0 or d == 0:
        raise ValueError(f"X is empty: its shape is {n} × {d}; give at least one row and column")
    return X, notes


def _check_dense(X: Any, notes: list[str]) -> NDArray[Any]:
    array = _as_array("X", X)
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


def _as_array(name: str, values: Any) -> NDArray[Any]:
    """An array of what was given, with the argument's name in every refusal."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: fill or drop the masked values first")
    if scipy.sparse.issparse(values):
        raise TypeError(f"{name} is sparse: give a dense array")
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is not an array of numbers ({error}): give one") from error


def _as_floats(name: str, values: Any) -> Array:
    array = _as_array(name, values)
    if array.dtype.kind not in "buif":
        raise TypeError(f"{name} has dtype {array.dtype}: give real numbers")
    return array.astype(np.float64)


def _check_sparse(X: Any, notes: list[str]) -> Any:
    if len(X.shape) != 2:
        raise ValueError(f"X is sparse with shape {X.shape}: give two dimensions")
    _check_indices(X)
    if X.format != "csr":
        X = X.tocsr()
        notes.append(f"X is not in CSR format: copied to CSR ({_bytes(X) / 1e6:.1f} MB)")
    if max(X.data.size, X.indices.size) > X.nnz:  # room for more that nobody has used: left alone
        used = X.data[: X.nnz], X.indices[: X.nnz], X.indptr
        X = scipy.sparse.csr_array(used, shape=X.shape)
    data = _check_dtype(X.data, notes)
    if data is not X.data:
        X = scipy.sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
        notes.append(
            "X has unsorted or duplicate indices: copied, sorted and summed "
            f"({_bytes(X) / 1e6:.1f} MB)"
        )
    return X


def _check_indices(X: Any) -> None:
    """The kernels (and scipy's conversions) trust the indices, so that none may point outside."""
    if X.format in ("csr", "csc", "bsr"):
        height, width = X.blocksize if X.format == "bsr" else (1, 1)
        rows, columns = X.shape[0] // height, X.shape[1] // width
        if X.format == "csc":
            rows, columns = columns, rows
        indptr, indices = X.indptr, X.indices
        length = min(indices.size, len(X.data))
        sound = indptr.size == rows + 1 and indptr[0] == 0 and indptr[-1] <= length
        if not sound or np.any(np.diff(indptr) < 0):
            raise ValueError(
                f"X is a broken {X.format.upper()} matrix: indptr must rise from 0 to the number "
                "of values; build it anew"
            )
        _check_range(X, indices[: indptr[-1]], columns)
    elif X.format == "coo":
        for indices, limit in zip(X.coords, X.shape, strict=True):
            _check_range(X, indices, limit)


def _check_range(X: Any, indices: NDArray[Any], limit: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= limit):
        raise ValueError(
            f"X is a broken {X.format.upper()} matrix: indices run from {indices.min()} to "
            f"{indices.max()}, outside 0 to {limit - 1}; build it anew"
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


def read_rows(problem: RidgeProblem) -> None:
    """Read the data for the first time, and refuse what cannot be computed with."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = problem.raw_squared_norms
    check_norms(norms, problem.scale_rows and not np.any(norms[problem.weights > 0]))


def check_norms(squared_norms: Array, no_scale: bool = False) -> None:
    """Every value of X is finite, and of a size whose squares are numbers, if the norms say so."""
    wrong = np.flatnonzero(~np.isfinite(squared_norms))
    if wrong.size:
        raise ValueError(
            f"X has NaN, infinite or overflowing values, first in row {wrong[0]} "
            f"({wrong.size} row(s) in all): clean or rescale X"
        )
    largest = float(np.sqrt(squared_norms.max()))
    _check_size("X", largest)
    if no_scale:
        raise ValueError(
            "scale_rows=True needs a row of X that is not zero (and has a weight): none is; leave "
            "it out"
        )


def _check_size(name: str, largest: float) -> None:
    if largest > LARGEST or 0 < largest < SMALLEST:
        raise ValueError(
            f"{name} is as large as {largest:g}: its squares overflow or vanish; rescale {name} to "
            f"between {SMALLEST:g} and {LARGEST:g}"
        )


def check_targets(y: Any, n: int) -> tuple[Array, bool]:
    """y as float64 (n, t), and whether it was given in one dimension."""
    array = _as_array("y", y)
    if array.ndim not in (1, 2):
        raise ValueError(f"y has {array.ndim} dimensions, shape {array.shape}: give (n,) or (n, t)")
    if array.shape[0] != n:
        raise ValueError(f"y has {array.shape[0]} rows and X has {n}: they must agree")
    if array.ndim == 2 and array.shape[1] == 0:
        raise ValueError(f"y has shape {array.shape}: give at least one target")
    if array.dtype.kind not in "buif":
        raise TypeError(f"y has dtype {array.dtype}: give real numbers (encode classes as numbers)")
    # Of many targets a copy is dear; compiled loops take one that is their own, and contiguous.
    flags = array.flags
    as_given = array.ndim == 2 and flags.writeable and (flags.c_contiguous or flags.f_contiguous)
    columns = array.astype(np.float64, copy=not as_given).reshape(n, -1)
    largest = float(max(columns.max(), -columns.min()))  # no number if there is one that is none
    if not np.isfinite(largest):
        _check_finite("y", columns)
    _check_size("y", largest)
    return columns, array.ndim == 1


def _check_finite(name: str, array: Array) -> None:
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        raise ValueError(f"{name} has a NaN or infinite value at row {wrong[0][0]}: clean {name}")


def check_weights(sample_weight: Any, n: int) -> Array | None:
    """Sample weights as float64 (n,); a number for all is no weighting."""
    if sample_weight is None:
        return None
    array = _as_floats("sample_weight", sample_weight)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise ValueError(f"sample_weight has shape {array.shape} and X has {n} rows: give ({n},)")
    _check_finite("sample_weight", array)
    if array.min() < 0:
        row = int(np.argmin(array))
        raise ValueError(f"sample_weight[{row}] = {array[row]:g} is negative: weights must be ≥ 0")
    if array.max() == 0:
        raise ValueError("sample_weight is all zero: give at least one row a positive weight")
    return array


def check_number(name: str, value: Any, low: float, remedy: str, *, strict: bool = False) -> float:
    """A finite real number at least (or, if strict, above) `low`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} is not a number: {remedy}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not np.isfinite(number) or number < low or (strict and number == low):
        raise ValueError(f"{name}={value!s:.60} is out of range: {remedy}")
    return number


def check_integer(name: str, value: Any, low: int, remedy: str) -> int:
    """An integer at least `low`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name}={value!r} is not an integer: {remedy}")
    if value < low:
        raise ValueError(f"{name}={value} is out of range: {remedy}")
    return int(value)


def check_rank(rank: Any) -> int | Literal["auto"]:
    """A positive integer, or "auto"."""
    if isinstance(rank, str) and rank == "auto":
        return "auto"
    return check_integer("rank", rank, 1, "give an integer from 1 to min(n, d), or 'auto'")


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{name}={value!r} is neither True nor False: give one of them")


def check_lam(lam: Any) -> float:
    """The penalty: 0, or of a size that can be squared."""
    number = check_number("lam", lam, 0.0, "give a number ≥ 0")
    if number > LARGEST**2 or 0 < number < SMALLEST**2:
        raise ValueError(f"lam={lam!r} is out of range: give 0, or between 1e-140 and 1e140")
    return number


def check_optional(name: str, value: Any, remedy: str) -> float | None:
    """None, or a positive number."""
    return None if value is None else check_number(name, value, 0.0, remedy, strict=True)


def check_start(coef_init: Any, d: int, targets: int, flat: bool) -> Array | None:
    """Starting coefficients, given as (d,) or (t, d), as float64 (d, t)."""
    if coef_init is None:
        return None
    array = _as_floats("coef_init", coef_init)
    expected = (d,) if flat else (targets, d)
    if array.shape != expected:
        raise ValueError(f"coef_init has shape {array.shape}: give {expected}, as coef has")
    start = np.ascontiguousarray(array.reshape(targets, d).T)
    _check_finite("coef_init", start)
    _check_size("coef_init", float(np.abs(start).max()))
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
