"""RidgeClassifier: classes as targets of −1 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from sketchridge.estimators import inputs
from sketchridge.estimators.base import RidgeEstimator
from sketchridge.run import Callback

Array = NDArray[np.float64]


class ClassesAsTargets(ClassifierMixin):
    """Classes to targets of −1 and 1, and scores back to classes; for ridge estimators."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _read_classes(self, X: Any, y: Any) -> tuple[NDArray[Any], Array]:
        """The labels as given, checked, and the targets: (n,) for two classes, else (n, t)."""
        labels = inputs.read_labels(self, X, y)
        check_classification_targets(labels)
        self._label_binarizer = LabelBinarizer(pos_label=1, neg_label=-1)
        Y = self._label_binarizer.fit_transform(labels).astype(np.float64)
        self.classes_ = self._label_binarizer.classes_
        return labels, Y

    def decision_function(self, X: Any) -> Any:
        """The scores: (n,) for two classes, else one a class, (n, t)."""
        return self._decision(X)

    def predict(self, X: Any) -> Any:
        """The classes of the rows of X; for multilabel data one column a label."""
        scores = self.decision_function(X)
        if self._label_binarizer.y_type_.startswith("multilabel"):
            return self._label_binarizer.inverse_transform(np.where(scores > 0, 1.0, -1.0))
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]


class RidgeClassifier(ClassesAsTargets, RidgeEstimator):
    """Ridge regression on classes, in place of `sklearn.linear_model.RidgeClassifier`."""

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: Any = "auto",
        preconditioner: Any = "auto",
        rank: Any = "auto",
        tol: float = 1e-6,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        max_memory: float | None = None,
        alpha_scale: str = "sum",
        feature_penalty: Any = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
        copy_X: bool = True,
        max_iter: float | None = None,
        positive: bool = False,
    ) -> None:
        super().__init__(
            alpha,
            fit_intercept=fit_intercept,
            solver=solver,
            preconditioner=preconditioner,
            rank=rank,
            tol=tol,
            max_passes=max_passes,
            max_seconds=max_seconds,
            max_memory=max_memory,
            alpha_scale=alpha_scale,
            feature_penalty=feature_penalty,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
            callback=callback,
            copy_X=copy_X,
            max_iter=max_iter,
            positive=positive,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RidgeClassifier:
        """Fit the coefficients."""
        data = inputs.read_data(self, X, sample_weight)
        labels, Y = self._read_classes(data.X, y)
        if self.class_weight is not None:
            data = data.reweighted(compute_sample_weight(self.class_weight, labels))
        self._fit(data, Y)
        return self
