"""What a user hands to an estimator, checked once: matrices, frames, targets and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from sketchridge.estimators.frames import to_matrix
from sketchridge.validation import FLOATS, check_matrix, check_weights

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Data:
    """The training data as the engine takes it, and what had to be done to it."""

    X: Any  # float32 or float64: dense, or canonical CSR
    weights: Array | None  # (n,)
    dtype: np.dtype[Any]  # of the coefficients
    notes: list[str]

    @property
    def total_weight(self) -> float:
        """W, the sum of the weights: alpha = W·λ."""
        return float(self.X.shape[0] if self.weights is None else self.weights.sum())

    def reweighted(self, factors: Array) -> Data:
        """The same with every weight multiplied by a factor, (n,)."""
        weights = factors if self.weights is None else self.weights * factors
        return replace(self, weights=check_weights(weights, self.X.shape[0]))


def read_data(estimator: Any, X: Any, sample_weight: Any, *, reset: bool = True) -> Data:
    """Check X and the weights for a fit; X is not copied unless a note says so."""
    notes: list[str] = []
    # NaN and infinity will show in the rows' norms, which are wanted anyway.
    given = to_matrix(X, notes)
    if not _is_ready(given):  # else scikit-learn would find nothing to say, and take a while
        given = _read_numbers(estimator, given, accept_sparse=True, ensure_all_finite=False)
    validate_data(estimator, X, reset=reset, skip_check_array=True)  # the features, remembered
    matrix, copies = check_matrix(given)
    dtype = np.dtype(np.float32 if given.dtype == np.float32 else np.float64)
    weights = check_weights(sample_weight, matrix.shape[0])
    return Data(matrix, weights, dtype, [*notes, *copies])


def read_new_data(estimator: Any, X: Any) -> Any:
    """X to predict from, as an array, CSR or CSC matrix with the features of the fit."""
    matrix = _read_numbers(estimator, to_matrix(X, []), accept_sparse=["csr", "csc"])
    validate_data(estimator, X, reset=False, skip_check_array=True)  # the features, compared
    return matrix


def _read_numbers(estimator: Any, X: Any, **options: Any) -> Any:
    return check_array(X, dtype="numeric", estimator=estimator, input_name="X", **options)


def _is_ready(X: Any) -> bool:
    """Whether X is a plain array of floats with something in it."""
    plain = isinstance(X, np.ndarray) and not isinstance(X, np.ma.MaskedArray)
    return bool(plain and X.ndim == 2 and X.size and X.dtype in FLOATS)


def read_targets(estimator: Any, X: Any, y: Any) -> Array:
    """y as float64, (n,) or (n, t)."""
    _require(estimator, y)
    targets: Array = y
    plain = isinstance(y, np.ndarray) and y.dtype == np.float64 and y.ndim in (1, 2)
    if not (plain and y.shape[0] == X.shape[0] and y.size and np.isfinite(y).all()):
        targets = check_array(
            y, ensure_2d=False, dtype=np.float64, estimator=estimator, input_name="y"
        )
        check_consistent_length(X, targets)
    return targets


def read_labels(estimator: Any, X: Any, y: Any) -> NDArray[Any]:
    """y as labels of any kind, (n,), or a matrix of zeros and ones (n, t) for multilabel data."""
    _require(estimator, y)
    labels: NDArray[Any] = check_array(
        y, ensure_2d=False, dtype=None, estimator=estimator, input_name="y"
    )
    if labels.ndim == 1 or labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    check_consistent_length(X, labels)
    return labels


def _require(estimator: Any, y: Any) -> None:
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, "
            "but the target y is None."
        )
