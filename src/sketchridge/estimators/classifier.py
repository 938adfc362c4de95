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
from sklearn.utils.validation import column_or_1d

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
        """Give the scores of the classes.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one score, above 0 for the second; else one a class.
        """
        return self._decision(X)

    def predict(self, X: Any) -> Any:
        """Predict the classes.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows to predict.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            The classes; for multilabel data zeros and ones, one column a label.
        """
        scores = self.decision_function(X)
        if self._label_binarizer.y_type_.startswith("multilabel"):
            return self._label_binarizer.inverse_transform(np.where(scores > 0, 1.0, -1.0))
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]


class RidgeClassifier(ClassesAsTargets, RidgeEstimator):
    """Classification by ridge regression, in place of `sklearn.linear_model.RidgeClassifier`.

    Two classes are a target of −1 and 1, more classes a target each, and the highest score wins.
    All targets are solved together, to one certified accuracy.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        The penalty, as for `Ridge`.
    fit_intercept : bool, default=True
        Fit an unpenalised intercept.
    class_weight : dict or "balanced", default=None
        Weights of the classes, which multiply the sample weights; "balanced" makes all classes
        weigh the same.
    solver, preconditioner, rank, tol, max_passes, max_seconds, max_memory, alpha_scale, \
    feature_penalty, warm_start, random_state, verbose, callback, copy_X, max_iter, positive
        As for `Ridge`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        The coefficients; one row a class where there are more than two.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The intercepts; 0.0 with `fit_intercept=False`.
    gap_, relative_gap_, coef_error_bound_, lam_ : ndarray of shape (n_targets,)
        The certificates of the targets, as for `Ridge`.
    sum_of_weights_, n_iter_, solver_, plan_, history_, n_features_in_, feature_names_in_
        As for `Ridge`.

    See Also
    --------
    Ridge : Regression.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge import RidgeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 5))
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> model = RidgeClassifier(alpha=1.0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

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
        """Fit the coefficients.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows, as for `Ridge.fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            The classes, of any kind; a matrix of zeros and ones for multilabel data.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights ≥ 0, with the meaning of repeated rows.

        Returns
        -------
        RidgeClassifier
            The estimator itself.
        """
        data = inputs.read_data(self, X, sample_weight)
        labels, Y = self._read_classes(data.X, y)
        if self.class_weight is not None:
            data = data.reweighted(compute_sample_weight(self.class_weight, labels))
        self._fit(data, Y)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> RidgeClassifier:
        """Add rows, and fit all that were given so far, as `Ridge.partial_fit` does.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            More rows, of the same columns in every call; at most 5000 columns.
        y : array-like of shape (n_samples,)
            Their classes.
        classes : array-like of shape (n_classes,), default=None
            All classes that there will be; needed in the first call.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Their weights.

        Returns
        -------
        RidgeClassifier
            The estimator itself.
        """
        first = self._is_first_chunk()
        classes = getattr(self, "classes_", None) if classes is None else classes
        if classes is None:
            raise ValueError("classes=None in the first call of partial_fit: give all the classes")
        self._check_class_weight(classes)
        data = inputs.read_data(self, X, sample_weight, reset=first)
        labels = column_or_1d(inputs.read_labels(self, data.X, y))
        if first:
            self._learn_classes(np.asarray(classes))
        unknown = np.setdiff1d(labels, self.classes_).tolist()
        if unknown:
            raise ValueError(f"y has {unknown[0]!r}, which is not among the classes given before")
        if self.class_weight is not None:  # a chunk need not have all classes
            weights = [self.class_weight.get(label, 1.0) for label in labels.tolist()]
            data = data.reweighted(np.array(weights))
        self._partial_fit(data, self._targets(labels))
        return self

    def _check_class_weight(self, classes: Any) -> None:
        """Refuse weights that chunks of rows cannot have: those of unknown classes, say."""
        if self.class_weight is None:
            return
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once, which partial_fit never has: "
                "give the weights of the classes in a dictionary"
            )
        if not isinstance(self.class_weight, dict):
            raise TypeError(
                f"class_weight={self.class_weight!r} is not a dictionary: give one, of weights of "
                "classes, or None"
            )
        unknown = [label for label in self.class_weight if label not in np.asarray(classes)]
        if unknown:
            raise ValueError(f"class_weight has {unknown[0]!r}, which is not among the classes")

    def to_sklearn(self) -> Any:
        """Make a plain fitted `sklearn.linear_model.RidgeClassifier` of the same coefficients.

        Returns
        -------
        sklearn.linear_model.RidgeClassifier
            It predicts the same, and goes wherever scikit-learn's own does (ONNX, say). It knows
            no `feature_penalty`: fitted again, it penalises all columns alike.
        """
        plain = self._to_sklearn(linear_model.RidgeClassifier, class_weight=self.class_weight)
        plain.classes_ = self.classes_
        plain._label_binarizer = self._label_binarizer
        return plain
