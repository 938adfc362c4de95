"""What all estimators share: their parameters, how they solve, and what they keep."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sketchridge import validation
from sketchridge.driver import Controls, check_controls
from sketchridge.estimators import inputs
from sketchridge.estimators.fit import Fit
from sketchridge.estimators.fitting import fit_targets
from sketchridge.estimators.moments import Moments, check_affordable, with_intercept
from sketchridge.estimators.names import translate_solver
from sketchridge.estimators.penalty import (
    check_alpha,
    check_feature_penalty,
    check_scale,
    to_lam,
    to_sum_alpha,
)
from sketchridge.feature_penalty import ImplicitColumns
from sketchridge.problem import RidgeProblem
from sketchridge.run import Callback
from sketchridge.solution import Record, Status
from sketchridge.solvers import SOLVERS, Direct

Array = NDArray[np.float64]


class RidgeEstimator(BaseEstimator):
    """The parameters and the machinery of every estimator here; not to be used by itself."""

    _callers_of_keep = 2  # _fit and fit, for a warning to name the line that called fit

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
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
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.preconditioner = preconditioner
        self.rank = rank
        self.tol = tol
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.max_memory = max_memory
        self.alpha_scale = alpha_scale
        self.feature_penalty = feature_penalty
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.positive = positive

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- from parameters to the engine's terms -------------------------------------------------

    def _controls(self) -> tuple[Controls, list[str]]:
        """The parameters that are not about the data, checked, and notes on scikit-learn's."""
        if self.positive:
            raise ValueError(
                f"positive={self.positive!r} is not offered: a constrained fit is another problem; "
                "use sklearn.linear_model.Ridge(positive=True)"
            )
        check_scale(self.alpha_scale)
        solver, notes = translate_solver(self.solver)
        passes = self.max_passes
        if self.max_iter is not None:
            passes = self._passes_of_iterations()
            notes.append(f"max_iter={self.max_iter} is a budget of passes over the data")
        controls = check_controls(
            self.tol,
            passes,
            self.max_seconds,
            self.max_memory,
            self.random_state,
            _speaking(self.callback) if self.verbose else self.callback,
            solver,
            self.preconditioner,
            self.rank,
        )
        return controls, notes

    def _passes_of_iterations(self) -> float:
        if self.max_passes is not None:
            raise ValueError(
                f"max_iter={self.max_iter} and max_passes={self.max_passes} mean the same: "
                "give one of them"
            )
        return validation.check_number(
            "max_iter", self.max_iter, 0.0, "give a number > 0, or None", strict=True
        )

    def _start(self, d: int, targets: int) -> Array | None:
        """The coefficients of the last fit, (d, t), if they fit and a warm start is wanted."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        coef = np.atleast_2d(self.coef_).astype(np.float64)
        fits = coef.shape == (targets, d) and bool(np.isfinite(coef).all())
        return np.ascontiguousarray(coef.T) if fits else None

    # -- fitting -------------------------------------------------------------------------------

    def _fit(self, data: inputs.Data, y: Array) -> Fit:
        """Fit the targets y, (n,) or (n, t), and keep what is found."""
        for name in ("_moments", "n_samples_seen_"):  # what chunks left: this is a fit anew
            self.__dict__.pop(name, None)
        controls, notes = self._controls()
        Y, _ = validation.check_targets(y, data.X.shape[0])
        alpha = check_alpha(self.alpha, Y.shape[1])
        lams = to_lam(alpha, self.alpha_scale, data.total_weight)
        _check_solvable(lams, controls)
        fit_intercept = validation.check_flag("fit_intercept", self.fit_intercept)
        problem = self._problem(data.X, Y, float(lams[0]), data.weights, fit_intercept)
        start = self._start(problem.d, problem.targets)
        fit = fit_targets(problem, lams, controls, start, [*data.notes, *notes], data.dtype)
        self.sum_of_weights_ = data.total_weight
        self._keep(fit, np.shape(y), data.dtype)
        return fit

    def _problem(
        self, X: Any, Y: Array, lam: float, weights: Array | None, fit_intercept: bool
    ) -> RidgeProblem:
        """The problem of the targets Y (n, t), with the features' own penalties if there are."""
        penalty = check_feature_penalty(self.feature_penalty, X.shape[1])
        if penalty is None:
            return RidgeProblem(X, Y, lam, weights, fit_intercept)
        return ImplicitColumns(X, Y, lam, penalty, weights, fit_intercept)

    def _partial_fit(self, data: inputs.Data, y: Array) -> None:
        """Add rows to those of earlier calls, and fit them all."""
        controls, notes = self._controls()
        Y, _ = validation.check_targets(y, data.X.shape[0])
        moments = self._add_rows(data, Y)
        lams = to_lam(check_alpha(self.alpha, Y.shape[1]), self.alpha_scale, moments.weight)
        centred = validation.check_flag("fit_intercept", self.fit_intercept)
        if not lams.all() and lams.any():
            raise ValueError("alpha is 0 for some targets only: partial_fit takes all, or none")
        rows = moments.surrogate(centred, penalised=bool(lams.all()))
        problem = self._problem(*rows, float(lams[0]), None, False)
        problem.stands_for(
            moments.raw_squares,
            moments.summed_squares(centred),
            moments.rounding_factor,
            np.abs(moments.target_mean),
        )
        if not isinstance(controls.solver, Direct):
            if controls.solver not in ("auto", "direct"):
                notes.append(f"solver={self.solver!r} is not used: partial_fit is exact")
            controls = replace(controls, solver="direct", preconditioner="auto", rank="auto")
        notes.append(f"{moments.rows} rows in {moments.chunks} chunks, by their second moments")
        fit = fit_targets(problem, lams, controls, None, [*data.notes, *notes], data.dtype)
        if centred:
            fit = with_intercept(fit, moments, problem.null_objective, data.dtype)
        self._moments = moments
        self.sum_of_weights_ = moments.weight
        self._keep(fit, np.shape(y), data.dtype)
        self.n_samples_seen_ = moments.rows

    def _add_rows(self, data: inputs.Data, Y: Array) -> Moments:
        """The moments of these rows and of all before them."""
        check_affordable(data.X.shape[1])
        added = Moments.of(data.X, Y, data.weights)
        known: Moments | None = getattr(self, "_moments", None)
        if known is None:
            return added
        if known.target_mean.size != Y.shape[1]:
            raise ValueError(
                f"y has {Y.shape[1]} target(s), and the rows before had {known.target_mean.size}: "
                "give the same targets in every call of partial_fit"
            )
        return known.merged(added)

    def _keep(self, fit: Fit, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Set the fitted attributes, in scikit-learn's shapes for y of the given shape."""
        one, flat = fit.gap.size == 1, len(shape) == 1
        coef = fit.coef.astype(dtype)
        self.coef_ = coef[0] if one else coef
        intercept = fit.intercept.astype(dtype)
        self.intercept_ = (intercept[0] if flat else intercept) if self.fit_intercept else 0.0
        self.lam_ = fit.lam[0] if flat else fit.lam
        self.gap_ = fit.gap[0] if flat else fit.gap
        self.relative_gap_ = fit.relative_gap[0] if flat else fit.relative_gap
        self.coef_error_bound_ = fit.coef_error_bound[0] if flat else fit.coef_error_bound
        self.n_iter_ = np.maximum(1, np.ceil(fit.passes)).astype(np.int64)
        self.plan_ = fit.plan
        self.history_ = fit.history
        self.solver_ = fit.solver
        self._warn(fit)

    def _warn(self, fit: Fit) -> None:
        # A gap is infinitely larger than F(0) = 0: there, only a constant was rounded.
        missed = int(np.count_nonzero(~fit.converged & np.isfinite(fit.relative_gap)))
        if not missed or fit.status is Status.STOPPED:
            return
        which = "" if fit.gap.size == 1 else f" for {missed} of {fit.gap.size} targets"
        advice = fit.status.value.replace("raise lam", "raise alpha")
        if fit.status is Status.CONVERGED:  # but for the rounding of the coefficients
            advice = f"as {self.coef_.dtype} the coefficients are no better: give X in float64"
        warnings.warn(
            f"{type(self).__name__} did not reach tol={fit.tol:g}{which}: the certified relative "
            f"gap is {fit.relative_gap.max():.2g}, that is, the objective is within this share of "
            f"its value at 0 from the minimum. {advice[0].upper()}{advice[1:]}.",
            ConvergenceWarning,
            stacklevel=3 + self._callers_of_keep,  # the line that called fit
        )

    def _is_first_chunk(self) -> bool:
        """Whether partial_fit starts here; after fit it starts anew, for fit keeps no moments."""
        first = not hasattr(self, "_moments")
        if first and hasattr(self, "coef_"):
            warnings.warn(
                "partial_fit after fit starts anew: fit keeps nothing of its rows to go on from; "
                "give them to partial_fit too",
                UserWarning,
                stacklevel=3,
            )
        return first

    # -- predicting ----------------------------------------------------------------------------

    def _decision(self, X: Any) -> Any:
        """X coefᵀ + intercept."""
        check_is_fitted(self)
        matrix = inputs.read_new_data(self, X)
        return matrix @ self.coef_.T + self.intercept_

    def _to_sklearn(self, kind: Any, **options: Any) -> Any:
        """A plain scikit-learn estimator of a kind, with this one's coefficients."""
        check_is_fitted(self)
        alpha = self.alpha
        if self.alpha_scale != "sum":
            alpha = to_sum_alpha(self.lam_, self.sum_of_weights_)
        plain = kind(alpha=alpha, fit_intercept=self.fit_intercept, copy_X=self.copy_X, **options)
        names = ("coef_", "intercept_", "n_iter_", "solver_", "n_features_in_", "feature_names_in_")
        for name in names:
            if hasattr(self, name):
                setattr(plain, name, getattr(self, name))
        return plain


def _check_solvable(lams: Array, controls: Controls) -> None:
    solver = controls.solver
    name = solver if isinstance(solver, str) else getattr(solver, "name", None)
    if not lams.all() and name in SOLVERS and name != "direct":
        raise ValueError(
            f"alpha=0 cannot be solved by {name!r}: give alpha > 0, or solver='auto', which finds "
            "the minimum-norm solution"
        )


def _speaking(callback: Callback | None) -> Callback:
    """A callback that prints a line at every look, and then does what the user's does."""

    def speak(record: Record) -> Any:
        proof = "certified" if record.certified else "estimated"
        print(
            f"pass {record.passes:8.1f}  {record.seconds:8.2f} s  "
            f"relative gap {record.relative_gap:.2e} ({proof})"
        )
        return callback(record) if callback is not None else None

    return speak
