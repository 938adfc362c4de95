"""Cross-validation: every λ on every fold, sharing the work.

A fold is the data with other weights: a row that is held out has weight zero, one that is drawn
twice has weight two. X itself is never split or copied. Each fold has a certificate of its own
problem: its decomposition comes from the Gram matrix of all rows less that of the rows held out,
or it has a Krylov space of its own; a sketch of another fold preconditions, and certifies nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.decomposition import Decomposition, DualEigen, PrimalEigen
from sketchridge.driver import Controls, check_controls, make_problem
from sketchridge.problem import RidgeProblem
from sketchridge.rows import predict_rows, second_moment
from sketchridge.solution import Status
from sketchridge.tracing import Descending, Tracer, check_lams, choose_method, threads_for
from sketchridge.validation import check_integer, check_targets, read_rows

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Split = tuple[Indices, Indices]


@dataclass(frozen=True, eq=False)
class Samples:
    """A regression problem without its λ: what all folds are made from."""

    X: Any
    Y: Array  # (n, t)
    sample_weight: Array  # (n,)
    fit_intercept: bool = False

    def problem(self, sample_weight: Array) -> RidgeProblem:
        """The problem with other weights; its λ is to be set."""
        return RidgeProblem(self.X, self.Y, 1.0, sample_weight, self.fit_intercept)


@dataclass(frozen=True, eq=False)
class Fold:
    """The solutions of one fold for all λ."""

    train: Indices
    test: Indices
    tracer: Tracer

    def predictions(self) -> Array:
        """For the rows that were held out, (rows, L, t)."""
        count, targets, d = self.tracer.coef.shape
        coef = self.tracer.coef.reshape(-1, d).T
        flat = predict_rows(
            self.tracer.problem.X, self.test, coef, self.tracer.intercepts().ravel()
        )
        return flat.reshape(self.test.size, count, targets)


def trace_folds(
    samples: Samples,
    lams_for: Callable[[float], Array],
    splits: Iterable[Split],
    controls: Controls,
) -> Iterator[Fold]:
    """Solve each fold for all λ: those, descending, that belong to its sum of weights.

    The folds come one by one, for their coefficients may take much room.
    """
    began = time.perf_counter()
    whole = samples.problem(samples.sample_weight)
    method, _ = choose_method(whole, controls)
    gram = SharedGram.of(whole) if method == "direct" else None
    starts: Array | None = None
    for train, test in splits:
        counts = np.bincount(train, minlength=whole.n)
        weights = samples.sample_weight * counts
        fold = samples.problem(weights)
        fold.raw_squared_norms, fold.passes = whole.raw_squared_norms, whole.passes
        decomposition = None if gram is None else gram.decompose(fold, counts)
        tracer = Tracer(fold, lams_for(weights.sum()), controls, began, decomposition, starts)
        tracer.trace()
        starts, controls, whole.passes = tracer.coef, tracer.shared_controls, fold.passes
        yield Fold(train, test, tracer)


def held_out_errors(
    X: Any,
    y: Any,
    lams: Any,
    folds: int = 5,
    *,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    scale_rows: bool = False,
    random_state: Any = None,
    **options: Any,
) -> Array:
    """The mean squared error (over targets too) of rows held out at random, (folds, L).

    λ is per mean loss, in a fold as in all of the data; the options are those of `ridge_path`.
    """
    problem, _, _ = make_problem(X, y, 1.0, sample_weight, fit_intercept, scale_rows)
    read_rows(problem)
    folds = check_integer("folds", folds, 2, "give 2 or more")
    if folds > problem.n:
        raise ValueError(f"folds={folds} is more than X has rows ({problem.n}): give fewer")
    descending = Descending(check_lams(lams) * problem.lam)
    controls = check_controls(random_state=random_state, **options)
    parts = np.array_split(controls.rng.permutation(problem.n), folds)
    splits = [(np.concatenate(parts[:i] + parts[i + 1 :]), parts[i]) for i in range(folds)]
    targets, _ = check_targets(y, problem.n)
    samples = Samples(problem.X, targets, problem.weights, fit_intercept)
    errors = [
        _squared_error(fold, samples)
        for fold in trace_folds(samples, lambda weight: descending.values, splits, controls)
    ]
    return descending.given(np.array(errors), axis=1)


def _squared_error(fold: Fold, samples: Samples) -> Array:
    """The weighted mean of the squared errors of a fold's held-out rows, (L,)."""
    if fold.tracer.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # half a fold's error would pass for that of a whole one
    missed = fold.predictions() - samples.Y[fold.test][:, None, :]
    weights = samples.sample_weight[fold.test]
    errors: Array = np.average(np.mean(missed**2, axis=2), axis=0, weights=weights)
    return errors


@dataclass(frozen=True, eq=False)
class SharedGram:
    """The Gram matrix of all rows about their mean m; every fold's is made from it.

    With d ≤ n it is Σ ω_i (x_i − m)(x_i − m)ᵀ, of which the rows held out are taken away, else
    the products (x_i − m)ᵀ(x_j − m), of which a fold takes its rows.
    """

    whole: RidgeProblem
    matrix: Array  # (d, d) or (n, n)

    @classmethod
    def of(cls, whole: RidgeProblem) -> SharedGram:
        """Form the smaller of the two; one pass."""
        whole.passes += 1
        with threads_for(whole, whole.d):
            if whole.d <= whole.n:
                return cls(whole, whole.products.gram(whole.weights, whole.mean))
            return cls(whole, whole.products.outer(np.ones(whole.n), whole.mean))

    def decompose(self, fold: RidgeProblem, counts: NDArray[np.integer]) -> Decomposition:
        """The decomposition of the fold that takes every row so many times."""
        with threads_for(fold, fold.d):
            if self.whole.d <= self.whole.n:
                return self._primal(fold, counts)
            return self._dual(fold)

    def _primal(self, fold: RidgeProblem, counts: NDArray[np.integer]) -> PrimalEigen:
        whole = self.whole
        changed = np.flatnonzero((counts != 1) & (whole.weights > 0))
        if counts.max() > 1 or 2 * changed.size > whole.n:
            rows = np.flatnonzero(fold.weights)
            fold.passes += rows.size / whole.n
            C = second_moment(whole.X, rows, fold.weights, fold.mean)
            return PrimalEigen.of(fold, C, fold.raw_trace)
        fold.passes += changed.size / whole.n
        mass = float(whole.weights @ counts)
        C = self.matrix - second_moment(whole.X, changed, whole.weights, whole.mean)
        C /= mass
        if whole.mean is not None and fold.mean is not None:
            shift = fold.mean - whole.mean
            C -= np.outer(shift, shift)
        # Two sums, their difference and the shift of the centre all round against this.
        return PrimalEigen.of(fold, C, 4 * whole.raw_trace / mass)

    def _dual(self, fold: RidgeProblem) -> DualEigen:
        present = np.flatnonzero(fold.weights)
        K = self.matrix[np.ix_(present, present)]
        weights = fold.weights[present]
        if fold.mean is not None:
            about = K @ weights
            K += float(weights @ about) - about[:, None] - about
        roots = np.sqrt(weights)
        K *= roots[:, None]
        K *= roots
        return DualEigen.of(fold, present, K, 2 * fold.raw_trace)
