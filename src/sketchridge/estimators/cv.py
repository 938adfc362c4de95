"""RidgeCV and RidgeClassifierCV: the penalty chosen by cross-validation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn import linear_model
from sklearn.base import MultiOutputMixin, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring, get_scorer
from sklearn.model_selection import check_cv
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from sketchridge import validation
from sketchridge.crossvalidation import Samples
from sketchridge.driver import Controls
from sketchridge.estimators import inputs
from sketchridge.estimators.base import RidgeEstimator
from sketchridge.estimators.classifier import ClassesAsTargets, RidgeClassifier
from sketchridge.estimators.fitting import fit_targets
from sketchridge.estimators.judging import ClassJudge, Judge, takes_weights
from sketchridge.estimators.penalty import check_alpha, to_lam
from sketchridge.estimators.ridge import Ridge
from sketchridge.estimators.selection import (
    Selection,
    check_alphas,
    check_splits,
    select_by_folds,
    select_by_rows,
)
from sketchridge.problem import RidgeProblem
from sketchridge.run import Callback
from sketchridge.validation import read_rows

Array = NDArray[np.float64]

# How leave-one-out finds the leverages: "svd" and "eigen", scikit-learn's names, by a
# decomposition, exactly; "stochastic" by random signs; None and "auto" by the size of X.
GCV_METHODS = {None: None, "auto": None, "svd": "direct", "eigen": "direct", "stochastic": "cg"}


class CrossValidated(RidgeEstimator):
    """What both estimators share; not to be used by itself."""

    # Parameters of the other estimators that have no place here.
    feature_penalty = None
    warm_start = False
    copy_X = True  # noqa: N815  scikit-learn's name
    positive = False

    _callers_of_keep = 3  # _refit, _choose_and_fit and fit

    def __init__(
        self,
        alphas: Any = (0.1, 1.0, 10.0),
        *,
        fit_intercept: bool = True,
        scoring: Any = None,
        cv: Any = None,
        gcv_mode: str | None = None,
        store_cv_results: bool = False,
        alpha_per_target: bool = False,
        solver: Any = "auto",
        preconditioner: Any = "auto",
        rank: Any = "auto",
        tol: float = 1e-6,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        max_memory: float | None = None,
        alpha_scale: str = "sum",
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
        max_iter: float | None = None,
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.gcv_mode = gcv_mode
        self.store_cv_results = store_cv_results
        self.alpha_per_target = alpha_per_target
        self.solver = solver
        self.preconditioner = preconditioner
        self.rank = rank
        self.tol = tol
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.max_memory = max_memory
        self.alpha_scale = alpha_scale
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.max_iter = max_iter

    @property
    def alpha(self) -> Any:
        """The penalty that was chosen, as the other estimators call it."""
        return self.alpha_

    # -- choosing ------------------------------------------------------------------------------

    def _choose_and_fit(self, data: inputs.Data, judge: Judge, splitting: dict[str, Any]) -> None:
        """Choose the penalty by the judge's scores, fit with it, and keep what was found."""
        controls, notes = self._controls()
        alphas = check_alphas(self.alphas, zero=self.cv is not None)
        self._check_modes()
        samples = Samples(data.X, judge.Y, judge.sample_weight, self._centred())
        read_rows(samples.problem(samples.sample_weight))
        if self.cv is None:
            lams, method = self._lams(alphas, data.total_weight), GCV_METHODS[self.gcv_mode]
            keep = self.store_cv_results
            selection = select_by_rows(samples, lams, judge.rows, controls, method, keep)
        else:
            folds = check_cv(self.cv, judge.y, classifier=is_classifier(self))
            given = folds.split(judge.X, judge.y, **splitting)
            splits = check_splits(given, judge.sample_weight, judge.scorer is None)
            selection = select_by_folds(samples, alphas, self._lams, splits, judge.fold, controls)
        best = selection.best()
        self.alpha_ = alphas[best] if judge.per_target else float(alphas[best])
        self._refit(data, judge, selection, controls, [*data.notes, *notes])
        self._tell(selection, judge)

    def _check_modes(self) -> None:
        if self.gcv_mode not in GCV_METHODS:
            known = ", ".join(repr(mode) for mode in GCV_METHODS)
            raise ValueError(f"gcv_mode={self.gcv_mode!r} is unknown: choose from {known}")
        validation.check_flag("alpha_per_target", self.alpha_per_target)
        if validation.check_flag("store_cv_results", self.store_cv_results) and self.cv is not None:
            raise ValueError(
                f"store_cv_results=True goes with leave-one-out alone, and cv={self.cv!r}: leave "
                "cv at None, or look at cv_scores_, which is always kept"
            )

    def _centred(self) -> bool:
        return validation.check_flag("fit_intercept", self.fit_intercept)

    def _lams(self, alphas: Array, total_weight: float) -> Array:
        return to_lam(alphas, self.alpha_scale, total_weight)

    def _like_this(self, estimator: Any) -> Any:
        """An estimator that expects the same features."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(estimator, name, getattr(self, name))
        return estimator

    # -- fitting -------------------------------------------------------------------------------

    def _refit(
        self,
        data: inputs.Data,
        judge: Judge,
        selection: Selection,
        controls: Controls,
        notes: list[str],
    ) -> None:
        """Fit all rows with the best alphas, from what the search knows of the solution."""
        every = np.arange(judge.Y.shape[1])
        lams = self._lams(check_alpha(self.alpha_, every.size), data.total_weight)
        start = None
        if selection.start is not None:
            start = np.ascontiguousarray(selection.start[selection.best(), every].T)
        problem = RidgeProblem(data.X, judge.Y, float(lams[0]), data.weights, self._centred())
        notes = [*notes, f"{selection.note}, in {selection.passes:.0f} passes"]
        fit = fit_targets(problem, lams, controls, start, notes, data.dtype)
        self.sum_of_weights_ = data.total_weight
        self._keep(fit, self._target_shape(judge), data.dtype)

    def _target_shape(self, judge: Judge) -> tuple[int, ...]:
        return judge.Y.shape if is_classifier(self) else judge.y.shape

    def _tell(self, selection: Selection, judge: Judge) -> None:
        """Keep the scores, and none of an earlier fit."""
        for name in ("cv_scores_", "cv_results_"):
            self.__dict__.pop(name, None)
        best, every = selection.best(), np.arange(judge.Y.shape[1])
        chosen = selection.scores[best, every] if judge.per_target else selection.scores[best]
        self.best_score_ = chosen if judge.per_target else float(chosen)
        self.alpha_scores_ = selection.scores
        self.alpha_score_errors_ = selection.errors
        self.cv_relative_gap_ = selection.worst_gap
        if selection.parts is not None:
            self.cv_scores_ = selection.parts
        if selection.results is not None:
            flat = len(self._target_shape(judge)) == 1
            self.cv_results_ = selection.results[:, 0] if flat else selection.results
        if not np.all(np.isfinite(selection.scores)):
            warnings.warn(
                f"{type(self).__name__} could not score every alpha: alpha_scores_ has values "
                "that are not finite, and such alphas are not chosen; without any score the first "
                "is taken. Give larger folds, or another scoring.",
                UserWarning,
                stacklevel=4,
            )
        if selection.worst_gap > self.tol:
            warnings.warn(
                f"{type(self).__name__} compared alphas by fits that did not all reach "
                f"tol={self.tol:g}: the largest certified relative gap is "
                f"{selection.worst_gap:.2g}. Raise tol, the budget or the smallest alpha.",
                ConvergenceWarning,
                stacklevel=4,
            )

    # -- metadata ------------------------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """What goes where: the scorer's and the splitter's parameters come with fit."""
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                scorer=self._scorer(),
                method_mapping=MethodMapping().add(caller="fit", callee="score"),
            )
            .add(
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    def _scorer(self) -> Any:
        """The scorer; without one that of scikit-learn, which takes weights if they are routed."""
        if self.scoring is None and _routing():
            default = "accuracy" if is_classifier(self) else "r2"
            return get_scorer(default).set_score_request(sample_weight=True)
        return check_scoring(self, scoring=self.scoring)

    def _routed(
        self, sample_weight: Any, params: dict[str, Any]
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """The scorer if there is one, its parameters, and the splitter's."""
        given = {} if sample_weight is None else {"sample_weight": sample_weight}
        routing = _routing()
        by_default = self.scoring is None and (self.cv is None or not routing)
        scorer = None if by_default else self._scorer()
        if routing:
            routed = process_routing(self, "fit", **given, **params)
            return scorer, routed.scorer.score, routed.splitter.split
        if params:
            raise ValueError(
                f"fit does not take {', '.join(params)}: to pass them on to the scorer or the "
                "splitter, use sklearn.set_config(enable_metadata_routing=True)"
            )
        return scorer, {}, {}

    def _weights_for(self, scorer: Any, data: inputs.Data) -> dict[str, Any]:
        """The weights as a parameter of the scorer, if there are any and it takes them."""
        if scorer is None or data.weights is None or _routing():
            return {}
        if takes_weights(scorer):
            return {"sample_weight": data.weights}
        warnings.warn(
            f"scoring={self.scoring!r} does not take sample_weight: the rows are fitted with "
            "their weights, and scored without them",
            UserWarning,
            stacklevel=3,
        )
        return {}


def _routing() -> bool:
    return bool(sklearn.get_config()["enable_metadata_routing"])


class RidgeCV(MultiOutputMixin, RegressorMixin, CrossValidated):
    """Ridge regression with its penalty chosen by cross-validation.

    It takes the place of `sklearn.linear_model.RidgeCV`.

    Parameters
    ----------
    alphas : float or array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        The penalties to choose from: > 0, or ≥ 0 with `cv`. They mean what `Ridge`'s does.
    fit_intercept : bool, default=True
        Fit an unpenalised intercept.
    scoring : str or callable, default=None
        scikit-learn's. None is minus the mean squared error for leave-one-out, and R² for folds.
    cv : int, splitter or iterable of splits, default=None
        None is leave-one-out, by a formula, not by as many fits.
    gcv_mode : {None, "auto", "svd", "eigen", "stochastic"}, default=None
        How leave-one-out finds the leverages: "svd" and "eigen" (scikit-learn's names) exactly, by
        a decomposition of the smaller side of X; "stochastic" by fits to random signs; None and
        "auto" exactly where that side is at most 2000 and no iterative solver, preconditioner or
        rank is asked for, or where the solver is "direct".
    store_cv_results : bool, default=False
        Keep `cv_results_`; with leave-one-out only.
    alpha_per_target : bool, default=False
        Choose a penalty for every target by itself; with folds too.
    solver, preconditioner, rank, tol, max_passes, max_seconds, max_memory
        As for `Ridge`. With "auto" all alphas share one decomposition or one Krylov space; a
        solver that is asked for solves one alpha after another, from its neighbour's solution.
    alpha_scale, random_state, verbose, callback, max_iter
        As for `Ridge`.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_targets,)
        The penalty that was chosen.
    best_score_ : float or ndarray of shape (n_targets,)
        Its score; the mean over the folds, or over all rows.
    alpha_scores_ : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
        The scores of all alphas, in the order given.
    alpha_score_errors_ : ndarray of the same shape
        A bound of their standard errors where leverages were estimated, else 0.
    cv_scores_ : ndarray of shape (n_folds, n_alphas, n_targets if there is one a target)
        The scores fold by fold, with `cv`.
    cv_results_ : ndarray of shape (n_samples, n_alphas) or (n_samples, n_targets, n_alphas)
        With `store_cv_results`: the weighted squared errors of rows left out, or, with `scoring`,
        their predictions.
    cv_relative_gap_ : float
        The largest certified relative gap of all fits that were compared.
    coef_, intercept_, gap_, relative_gap_, coef_error_bound_, lam_, solver_, plan_, history_
        Of the model that was kept, fitted to all rows with `alpha_`; as `Ridge` has them.

    See Also
    --------
    Ridge : The same with a given penalty.
    ridge_path : The coefficients for many penalties.

    Notes
    -----
    In leave-one-out a weight is not a number of repetitions: a row is left out with all of its
    weight s_i, and the score is −(1/n) Σ s_i e_i². With folds the weights are repetitions, and the
    default scores take them too.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge import RidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 10))
    >>> y = X @ np.ones(10) + rng.standard_normal(200)
    >>> model = RidgeCV(np.logspace(-2, 3, 6), cv=5).fit(X, y)
    >>> model.alpha_ in model.alphas, model.cv_scores_.shape
    (True, (5, 6))
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> RidgeCV:
        """Choose the penalty and fit the coefficients.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            The rows, as for `Ridge`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The targets, or labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights ≥ 0.
        **params
            For the scorer and the splitter (groups), with scikit-learn's metadata routing enabled.

        Returns
        -------
        self
        """
        scorer, scoring, splitting = self._routed(sample_weight, params)
        data = inputs.read_data(self, X, sample_weight)
        targets = inputs.read_targets(self, data.X, y)
        Y, _ = validation.check_targets(targets, data.X.shape[0])
        per_target = bool(self.alpha_per_target) and Y.shape[1] > 1
        scoring = {**scoring, **self._weights_for(scorer, data)}
        template = self._like_this(Ridge())
        judge = Judge(template, X, targets, Y, _weights(data), scorer, per_target, scoring)
        self._choose_and_fit(data, judge, splitting)
        return self

    def predict(self, X: Any) -> Any:
        """Predict the targets, (n,) or (n, t)."""
        return self._decision(X)

    def to_sklearn(self) -> Any:
        """A plain fitted `sklearn.linear_model.Ridge` with the same coefficients."""
        return self._to_sklearn(linear_model.Ridge)


class RidgeClassifierCV(ClassesAsTargets, CrossValidated):
    """Ridge regression on classes, with its penalty chosen by cross-validation.

    It takes the place of `sklearn.linear_model.RidgeClassifierCV`.

    Parameters
    ----------
    alphas : float or array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        The penalties to choose from: > 0, or ≥ 0 with `cv`. They mean what `Ridge`'s does.
    fit_intercept : bool, default=True
        Fit an unpenalised intercept.
    scoring : str or callable, default=None
        scikit-learn's. None is minus the mean squared error for leave-one-out, and the accuracy
        for folds.
    cv : int, splitter or iterable of splits, default=None
        None is leave-one-out, by a formula, not by as many fits.
    class_weight : dict or "balanced", default=None
        Weights of the classes, which multiply those of the rows.
    gcv_mode : {None, "auto", "svd", "eigen", "stochastic"}, default=None
        How leave-one-out finds the leverages: "svd" and "eigen" (scikit-learn's names) exactly, by
        a decomposition of the smaller side of X; "stochastic" by fits to random signs; None and
        "auto" exactly where that side is at most 2000 and no iterative solver, preconditioner or
        rank is asked for, or where the solver is "direct".
    store_cv_results : bool, default=False
        Keep `cv_results_`; with leave-one-out only.
    solver, preconditioner, rank, tol, max_passes, max_seconds, max_memory
        As for `Ridge`. With "auto" all alphas share one decomposition or one Krylov space; a
        solver that is asked for solves one alpha after another, from its neighbour's solution.
    alpha_scale, random_state, verbose, callback, max_iter
        As for `Ridge`.

    Attributes
    ----------
    alpha_ : float
        The penalty that was chosen.
    best_score_ : float
        Its score; the mean over the folds, or over all rows.
    alpha_scores_ : ndarray of shape (n_alphas,)
        The scores of all alphas, in the order given.
    alpha_score_errors_ : ndarray of the same shape
        A bound of their standard errors where leverages were estimated, else 0.
    cv_scores_ : ndarray of shape (n_folds, n_alphas)
        The scores fold by fold, with `cv`.
    cv_results_ : ndarray of shape (n_samples, n_targets, n_alphas)
        With `store_cv_results`: the weighted squared errors of rows left out, or, with `scoring`,
        their predictions.
    cv_relative_gap_ : float
        The largest certified relative gap of all fits that were compared.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    coef_, intercept_, gap_, relative_gap_, coef_error_bound_, lam_, solver_, plan_, history_
        Of the model that was kept, fitted to all rows with `alpha_`; as `RidgeClassifier` has them.

    See Also
    --------
    RidgeClassifier : The same with a given penalty.
    RidgeCV : For targets that are numbers, and what is meant by weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge import RidgeClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 10))
    >>> model = RidgeClassifierCV(np.logspace(-2, 3, 6), cv=5).fit(X, X[:, 0] > 0)
    >>> bool(model.best_score_ > 0.9)
    True
    """

    alpha_per_target = False

    def __init__(
        self,
        alphas: Any = (0.1, 1.0, 10.0),
        *,
        fit_intercept: bool = True,
        scoring: Any = None,
        cv: Any = None,
        class_weight: Any = None,
        gcv_mode: str | None = None,
        store_cv_results: bool = False,
        solver: Any = "auto",
        preconditioner: Any = "auto",
        rank: Any = "auto",
        tol: float = 1e-6,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        max_memory: float | None = None,
        alpha_scale: str = "sum",
        random_state: Any = None,
        verbose: int = 0,
        callback: Callback | None = None,
        max_iter: float | None = None,
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.class_weight = class_weight
        self.gcv_mode = gcv_mode
        self.store_cv_results = store_cv_results
        self.solver = solver
        self.preconditioner = preconditioner
        self.rank = rank
        self.tol = tol
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.max_memory = max_memory
        self.alpha_scale = alpha_scale
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> RidgeClassifierCV:
        """Choose the penalty and fit the coefficients.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            The rows, as for `Ridge`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The targets, or labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights ≥ 0.
        **params
            For the scorer and the splitter (groups), with scikit-learn's metadata routing enabled.

        Returns
        -------
        self
        """
        scorer, scoring, splitting = self._routed(sample_weight, params)
        data = inputs.read_data(self, X, sample_weight)
        labels, Y = self._read_classes(data.X, y)
        if self.class_weight is not None:
            data = data.reweighted(compute_sample_weight(self.class_weight, labels))
        scoring = {**scoring, **self._weights_for(scorer, data)}
        template = self._like_this(RidgeClassifier())
        template._label_binarizer, template.classes_ = self._label_binarizer, self.classes_
        judge = ClassJudge(template, X, labels, Y, _weights(data), scorer, False, scoring)
        self._choose_and_fit(data, judge, splitting)
        return self

    def to_sklearn(self) -> Any:
        """A plain fitted `sklearn.linear_model.RidgeClassifier` with the same coefficients."""
        plain = self._to_sklearn(linear_model.RidgeClassifier, class_weight=self.class_weight)
        plain.classes_ = self.classes_
        plain._label_binarizer = self._label_binarizer
        return plain


def _weights(data: inputs.Data) -> Array:
    return np.ones(data.X.shape[0]) if data.weights is None else data.weights
