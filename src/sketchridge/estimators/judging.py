"""How good a penalty is: scikit-learn's scores of what the engine predicts."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import _safe_indexing

from sketchridge.crossvalidation import Fold
from sketchridge.estimators.classifier import ClassesAsTargets
from sketchridge.leave_one_out import LeftOut

Array = NDArray[np.float64]


def takes_weights(scorer: Any) -> bool:
    """Whether a scorer, or the metric that it was made of, has a parameter sample_weight."""
    metric = getattr(scorer, "_score_func", scorer)
    return "sample_weight" in signature(metric).parameters


class Echo(RegressorMixin, BaseEstimator):
    """Predicts what it is given: predictions are scored without a model."""

    def predict(self, X: Any) -> Any:
        """X itself."""
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return True


class EchoClassifier(ClassesAsTargets, BaseEstimator):
    """Classifies by the scores that it is given."""

    def __init__(self, binarizer: Any) -> None:
        self.binarizer = binarizer
        self._label_binarizer = binarizer
        self.classes_ = binarizer.classes_

    def decision_function(self, X: Any) -> Any:
        """X itself, flat for two classes."""
        return X[:, 0] if X.ndim == 2 and X.shape[1] == 1 else X


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores for regression, as scikit-learn's RidgeCV gives them.

    By rows: without a scorer, minus the mean of s_i e_i². By folds: without a scorer R², weighted.
    With `per_target` every target is scored by itself.
    """

    template: Any  # an estimator to put a fold's coefficients on
    X: Any  # as the user gave it
    y: NDArray[Any]  # targets (n,) or (n, t), or labels
    Y: Array  # (n, t) the targets that are fitted
    sample_weight: Array  # (n,)
    scorer: Any
    per_target: bool
    params: dict[str, Any]  # for the scorer, one entry a row

    def echo(self) -> Any:
        """What predicts from predictions."""
        return Echo()

    def rows(self, left: LeftOut) -> tuple[Any, Any, Array]:
        """The score of rows left out, its standard error, and what is known of each row."""
        if self.scorer is None:
            squares, error = left.mean_square(self.sample_weight)
            kept = self.sample_weight[:, None] * left.squares
            if self.per_target:
                return -squares, error, kept
            return -squares.mean(), error.mean(), kept
        predictions = self.Y - left.errors
        score = self._score_predictions(predictions)
        return score, np.zeros_like(score), predictions

    def _score_predictions(self, predictions: Array) -> Any:
        if not self.per_target:
            shaped = predictions.reshape(self.y.shape)
            return np.float64(self.scorer(self.echo(), shaped, self.y, **self.params))
        columns = zip(predictions.T, self.y.T, strict=True)
        return np.array([self.scorer(self.echo(), p, y, **self.params) for p, y in columns])

    def fold(self, fold: Fold) -> Array:
        """The scores of a fold's held-out rows for all λ, (L,) or (L, t)."""
        y = _safe_indexing(self.y, fold.test)
        if self.scorer is None:
            weights, predictions = self.sample_weight[fold.test], fold.predictions()
            return np.array([self.default(y, P, weights) for P in predictions.transpose(1, 0, 2)])
        X = _safe_indexing(self.X, fold.test)
        params = {name: _safe_indexing(value, fold.test) for name, value in self.params.items()}
        models = zip(fold.tracer.coef, fold.tracer.intercepts(), strict=True)
        return np.array([self._score_model(*model, X, y, params) for model in models])

    def default(self, y: NDArray[Any], predictions: Array, weights: Array) -> Any:
        """R², of all targets or of each."""
        kind = "raw_values" if self.per_target else "uniform_average"
        return r2_score(y, predictions, sample_weight=weights, multioutput=kind)

    def _score_model(
        self, coef: Array, intercept: Array, X: Any, y: NDArray[Any], params: dict[str, Any]
    ) -> Any:
        if not self.per_target:
            return self.scorer(self._model(coef, intercept), X, y, **params)
        targets = range(coef.shape[0])
        return [
            self.scorer(self._model(coef[[j]], intercept[[j]]), X, y[:, j], **params)
            for j in targets
        ]

    def _model(self, coef: Array, intercept: Array) -> Any:
        """A fitted estimator with these coefficients (t, d)."""
        model = copy(self.template)
        one = coef.shape[0] == 1
        model.coef_ = coef[0] if one else coef
        model.intercept_ = intercept[0] if one else intercept
        return model


class ClassJudge(Judge):
    """Scores for classification; by folds, without a scorer, the accuracy."""

    def echo(self) -> Any:
        """What classifies by scores."""
        return EchoClassifier(self.template._label_binarizer)

    def default(self, y: NDArray[Any], predictions: Array, weights: Array) -> Any:
        """The share of rows that are classified right."""
        return accuracy_score(y, self.echo().predict(predictions), sample_weight=weights)

    def _score_predictions(self, predictions: Array) -> Any:
        return np.float64(self.scorer(self.echo(), predictions, self.y, **self.params))
