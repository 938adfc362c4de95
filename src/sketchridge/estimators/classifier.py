"""RidgeClassifier: classes as targets of −1 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import linear_model
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
        """The labels as given, checked, and their targets."""
        labels = inputs.read_labels(self, X, y)
        check_classification_targets(labels)
        self._learn_classes(labels)
        return labels, self._targets(labels)

    def _learn_classes(self, labels: Any) -> None:
        self._label_binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(labels)
        self.classes_ = self._label_binarizer.classes_

    def _targets(self, labels: NDArray[Any]) -> Array:
        """−1 and 1, (n, 1) for two classes, else (n, t)."""
        targets: Array = self._label_binarizer.transform(labels).astype(np.float64)
        return targets

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

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> RidgeClassifier:
        """Add rows, and fit all that were given so far.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`; X with the same columns in every call, at most 5000.
        classes
            All classes that there will be; needed in the first call.
        """
        first = self._is_first_chunk()
        classes = getattr(self, "classes_", None) if classes is None else classes
        if classes is None:
            raise ValueError("classes=None in the first call of partial_fit: give all the classes")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once, which partial_fit never has: "
                "give the weights of the classes in a dictionary"
            )
        data = inputs.read_data(self, X, sample_weight, reset=first)
        labels = inputs.read_labels(self, data.X, y)
        if first:
            self._learn_classes(np.asarray(classes))
        unknown = np.setdiff1d(labels, self.classes_)
        if unknown.size:
            raise ValueError(f"y has {unknown[0]!r}, which is not among the classes given before")
        if self.class_weight is not None:
            data = data.reweighted(compute_sample_weight(self.class_weight, labels))
        self._partial_fit(data, self._targets(labels))
        return self

    def to_sklearn(self) -> Any:
        """A plain fitted `sklearn.linear_model.RidgeClassifier` with the same coefficients."""
        plain = self._to_sklearn(linear_model.RidgeClassifier, class_weight=self.class_weight)
        plain.classes_ = self.classes_
        plain._label_binarizer = self._label_binarizer
        return plain
