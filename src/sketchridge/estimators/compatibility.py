"""What changed its name between the versions of scikit-learn that are supported (1.5 and later)."""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.utils import validation

# check_array's argument for NaN and infinity was renamed in 1.6.
_ARGUMENTS = inspect.signature(validation.check_array).parameters
FINITE = "ensure_all_finite" if "ensure_all_finite" in _ARGUMENTS else "force_all_finite"


def remember_features(estimator: Any, X: Any, *, reset: bool) -> None:
    """Set n_features_in_ and feature_names_in_ (if `reset`), or compare X with them."""
    if hasattr(validation, "validate_data"):
        validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
    else:
        estimator._check_feature_names(X, reset=reset)
        estimator._check_n_features(X, reset=reset)
