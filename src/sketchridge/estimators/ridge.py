"""Ridge: scikit-learn's, with a certificate."""

from __future__ import annotations

from typing import Any

from sklearn import linear_model
from sklearn.base import MultiOutputMixin, RegressorMixin

from sketchridge.estimators import inputs
from sketchridge.estimators.base import RidgeEstimator


class Ridge(MultiOutputMixin, RegressorMixin, RidgeEstimator):
    """Ridge regression to a certified accuracy, in place of `sklearn.linear_model.Ridge`.

    Minimises ‖y − Xw − b‖² + alpha ‖w‖², with weights s as Σ s_i (y_i − x_iᵀw − b)² + alpha ‖w‖².
    With W the sum of the weights (n without any) that is 2W times the engine's

        F(w) = 1/(2W) Σ s_i (y_i − x_iᵀw − b)² + λ/2 ‖w‖²,   λ = alpha / W.

    X is read as it is: dense in either order, a read-only memory map, sparse in any format; an
    intercept does not make it dense. Whatever has to be copied or cast is told in `plan_`.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        The penalty ≥ 0, for all targets or one for each. With 0 the minimum-norm solution is
        found, which only the direct solver can do.
    fit_intercept : bool, default=True
        Fit an unpenalised intercept.
    solver : str or solver object, default="auto"
        A name (`sketchridge solvers` lists them) or an object such as `SVRG(step=0.5)`. Of
        scikit-learn's names, svd and cholesky mean "direct", lsqr, sparse_cg and lbfgs "cg";
        sag and saga are ours too.
    preconditioner : str, recipe or built preconditioner, default="auto"
        A name such as "nystrom", an object such as `Lanczos(rank=30)`, or the preconditioner of
        another solution.
    rank : int or "auto", default="auto"
        The number of directions that the preconditioner treats one by one.
    tol : float, default=1e-6
        The certified relative gap to reach: (F(w) − min F) / F(0) is at most this. It means
        the same for every solver.
    max_passes : float, default=None
        A budget of passes over the data; None is 10000.
    max_seconds : float, default=None
        A budget of seconds; None is any time.
    max_memory : float, default=None
        Bytes beyond X that may be used; a plan that needs more is refused before it starts.
    alpha_scale : {"sum", "mean"}, default="sum"
        "sum" is scikit-learn's alpha, a penalty of the sum of squares. "mean" says that alpha
        is λ, the penalty of half their mean.
    feature_penalty : array-like of shape (n_features,), default=None
        Multipliers γ ≥ 0 of the penalty: it becomes alpha Σ γ_j w_j². Columns with γ_j = 0 are
        not penalised at all. Groups of columns with multipliers of their own are banded ridge.
    warm_start : bool, default=False
        Start from the coefficients of the last fit, where their shape fits.
    random_state : int, Generator or RandomState, default=None
        For sketches and stochastic solvers. The same data and seed give the same answer.
    verbose : int, default=0
        Not 0: print a line at every look at the accuracy.
    callback : callable, default=None
        Called with a `Record` at every look; a true result stops the solve.
    copy_X : bool, default=True
        Accepted, as scikit-learn has it. X is never changed, and copied only where `plan_` says so.
    max_iter : float, default=None
        scikit-learn's name for `max_passes`.
    positive : bool, default=False
        Only False: non-negative coefficients are not offered.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        The coefficients; float32 if X is.
    intercept_ : float or ndarray of shape (n_targets,)
        The intercepts; 0.0 with `fit_intercept=False`.
    gap_ : float or ndarray of shape (n_targets,)
        Certified: F(w) − min F is at most this, for the coefficients as they are, after any
        rounding to float32. Times 2W it is the gap of scikit-learn's objective.
    relative_gap_ : float or ndarray of shape (n_targets,)
        `gap_` / F(0), where F(0) is F without coefficients, but with the best intercept.
    coef_error_bound_ : float or ndarray of shape (n_targets,)
        The distance of `coef_` from the exact solution is at most this, √(2 `gap_` / λ).
    lam_ : float or ndarray of shape (n_targets,)
        λ = alpha / W.
    sum_of_weights_ : float
        W.
    n_iter_ : ndarray of shape (n_targets,)
        Passes over the data, rounded up, sketches and certificates included.
    solver_ : str
        What gave the answer: "cholesky", "svd" or "eigh" for a direct solve, else the solver.
    plan_ : Plan
        What was chosen and why, and what had to be copied or cast.
    history_ : tuple of Record
        How the accuracy grew with passes and seconds.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X was a frame with names.
    n_samples_seen_ : int
        The number of rows so far, with `partial_fit`.

    See Also
    --------
    RidgeClassifier : The same for classes.
    sketchridge.solve : The engine, in terms of λ.

    Notes
    -----
    A fit that does not reach `tol` warns with scikit-learn's ConvergenceWarning, which says how
    far it came and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 10))
    >>> model = Ridge(alpha=0.1).fit(X, X @ np.ones(10) + 3.0)
    >>> model.coef_.shape, bool(model.relative_gap_ < 1e-6)
    ((10,), True)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Fit the coefficients.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows; float32 and float64 are taken as they are.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The targets; all of one penalty are solved together.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights ≥ 0, with the meaning of repeated rows.

        Returns
        -------
        Ridge
            The estimator itself.
        """
        data = inputs.read_data(self, X, sample_weight)
        self._fit(data, inputs.read_targets(self, data.X, y))
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Add rows, and fit all that were given so far.

        The result is that of `fit` on all rows at once: kept are their second moments, exact to
        rounding, and every call solves with them. That is offered up to 5000 columns.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            More rows, of the same columns in every call.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Their weights.

        Returns
        -------
        Ridge
            The estimator itself.
        """
        data = inputs.read_data(self, X, sample_weight, reset=self._is_first_chunk())
        self._partial_fit(data, inputs.read_targets(self, data.X, y))
        return self

    def predict(self, X: Any) -> Any:
        """Predict the targets.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows to predict.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            The predictions.
        """
        return self._decision(X)

    def to_sklearn(self) -> Any:
        """Make a plain fitted `sklearn.linear_model.Ridge` of the same coefficients.

        Returns
        -------
        sklearn.linear_model.Ridge
            It predicts the same, and goes wherever scikit-learn's own does (ONNX, say). It knows
            no `feature_penalty`: fitted again, it penalises all columns alike.
        """
        return self._to_sklearn(linear_model.Ridge)
