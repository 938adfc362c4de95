"""Ridge: scikit-learn's, with a certificate."""

from __future__ import annotations

from typing import Any

from sklearn import linear_model
from sklearn.base import MultiOutputMixin, RegressorMixin

from sketchridge.estimators import inputs
from sketchridge.estimators.base import RidgeEstimator


class Ridge(MultiOutputMixin, RegressorMixin, RidgeEstimator):
    """Ridge regression to a certified accuracy, in place of `sklearn.linear_model.Ridge`."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Fit the coefficients."""
        data = inputs.read_data(self, X, sample_weight)
        self._fit(data, inputs.read_targets(self, data.X, y))
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Add rows, and fit all that were given so far."""
        data = inputs.read_data(self, X, sample_weight, reset=self._is_first_chunk())
        self._partial_fit(data, inputs.read_targets(self, data.X, y))
        return self

    def predict(self, X: Any) -> Any:
        """Predict the targets, (n,) or (n, t)."""
        return self._decision(X)

    def to_sklearn(self) -> Any:
        """A plain fitted `sklearn.linear_model.Ridge` with the same coefficients."""
        return self._to_sklearn(linear_model.Ridge)
