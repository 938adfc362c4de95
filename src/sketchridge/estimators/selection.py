"""Which alpha is best: by leave-one-out, or by the folds of a splitter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchridge.crossvalidation import Fold, Samples, Split, trace_folds
from sketchridge.driver import Controls
from sketchridge.leave_one_out import LeftOut, leave_one_out
from sketchridge.tracing import Descending, Tracer, choose_method
from sketchridge.validation import check_number

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Selection:
    """The scores of all alphas, in the order given, and what was found on the way."""

    scores: Array  # (L,), or (L, t) where every target has its own alpha; more is better
    errors: Array  # of the same shape: standard errors from random signs, 0 where it is exact
    parts: Array | None  # the scores fold by fold, (folds, L) or (folds, L, t)
    results: Array | None  # (n, t, L) what leave-one-out found for every row
    start: Array | None  # (L, t, d) coefficients to start the final fit from
    worst_gap: float  # the largest certified relative gap of all these fits
    passes: float
    note: str

    def best(self) -> NDArray[np.intp]:
        """The first of the best alphas, () or (t,)."""
        known = np.where(np.isnan(self.scores), -np.inf, self.scores)
        return np.argmax(known, axis=0)


def check_alphas(alphas: Any, zero: bool) -> Array:
    """The penalties to choose from, as float64 (L,)."""
    values = np.atleast_1d(np.asarray(alphas, dtype=object))
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"alphas has shape {np.shape(alphas)}: give a number, or several in one dimension"
        )
    remedy = "give a number ≥ 0" if zero else "give a number > 0 (0 only with cv)"
    return np.array(
        [
            check_number(f"alphas[{index}]", value, 0.0, remedy, strict=not zero)
            for index, value in enumerate(values)
        ]
    )


# -- leave-one-out ---------------------------------------------------------------------------


class RowScore(Protocol):
    """A score of all rows, each predicted by a fit without it."""

    def __call__(self, left: LeftOut) -> tuple[Any, Any, Array]:
        """The score and its standard error, () or (t,), and what to keep of every row, (n, t)."""


def select_by_rows(
    samples: Samples,
    lams: Array,
    score: RowScore,
    controls: Controls,
    method: str | None,
    keep: bool,
) -> Selection:
    """Score every λ by leaving out single rows, and keep what is known of them if wanted."""
    sorted_lams = Descending(lams)
    problem = samples.problem(samples.sample_weight)
    # With a decomposition the final fit starts from nothing, and many targets would take room.
    keep_coef = (method or choose_method(problem, controls)[0]) != "direct"
    tracer = Tracer(
        problem,
        sorted_lams.values,
        controls,
        time.perf_counter(),
        asked=method,
        keep_coef=keep_coef,
    )
    tracer.trace()
    scores, errors, kept, shortfall = [], [], [], 0.0
    for left in leave_one_out(tracer, controls.rng):
        value, error, rows = score(left)
        scores.append(value)
        errors.append(error)
        shortfall = max(shortfall, left.shortfall)
        if keep:
            kept.append(rows)
    return Selection(
        scores=sorted_lams.given(np.array(scores)),
        errors=sorted_lams.given(np.array(errors)),
        parts=None,
        results=sorted_lams.given(np.stack(kept, axis=-1), axis=-1) if keep else None,
        start=sorted_lams.given(tracer.coef) if keep_coef else None,
        worst_gap=float(tracer.relative_gap.max()),
        passes=problem.passes,
        note=_leave_one_out_note(lams.size, tracer.method == "direct", shortfall),
    )


def _leave_one_out_note(count: int, exact: bool, shortfall: float) -> str:
    how = "exactly, by one decomposition"
    if not exact:
        how = "with leverages estimated from random signs"
        if shortfall > 1e-3:
            how += f" (their mean may be low by {shortfall:.1g}: raise max_memory)"
    return f"chosen from {count} alphas by leave-one-out, {how}"


# -- folds -----------------------------------------------------------------------------------


def check_splits(splits: Iterable[Any], weights: Array, weigh_test: bool) -> list[Split]:
    """The folds as indices of rows, from indices or masks of any kind.

    Rows to train on need some of the weight (n,), and those to test on if they are scored by it.
    """
    n = weights.size
    checked = [
        (_rows(train, n, "train", fold), _rows(test, n, "test", fold))
        for fold, (train, test) in enumerate(splits)
    ]
    for fold, (train, test) in enumerate(checked):
        for part, rows, weighed in (("train", train, True), ("test", test, weigh_test)):
            if weighed and not weights[rows].any():
                raise ValueError(
                    f"split {fold} of cv has only {part} rows of weight zero: leave such rows out, "
                    "or shuffle them"
                )
    if not checked:
        raise ValueError("cv gives no splits: give at least one pair of rows to train and to test")
    return checked


def _rows(given: Any, n: int, part: str, fold: int) -> NDArray[np.intp]:
    """Indices from 0 to n − 1; as in numpy, negative ones count from the end."""
    asked = np.asarray(given)
    try:
        rows: NDArray[np.intp] = np.arange(n)[asked] if asked.size else np.arange(0)
    except IndexError as error:
        raise ValueError(
            f"split {fold} of cv has {part} rows that X, of {n} rows, does not have ({error}): "
            "give indices of rows, or a mask of them all"
        ) from None
    if rows.ndim != 1 or not rows.size:
        raise ValueError(f"split {fold} of cv has no {part} rows: give at least one")
    return rows


def select_by_folds(
    samples: Samples,
    alphas: Array,
    lams_for: Callable[[Array, float], Array],
    splits: Iterable[Split],
    score: Callable[[Fold], Array],
    controls: Controls,
) -> Selection:
    """Score every alpha on the rows that each fold holds out, by (L,) or (L, t) scores a fold."""
    sorted_alphas = Descending(alphas)
    parts, start, worst, passes = [], np.zeros(1), 0.0, 0.0
    for fold in trace_folds(
        samples, lambda weight: lams_for(sorted_alphas.values, weight), splits, controls
    ):
        parts.append(score(fold))
        start = start + fold.tracer.coef
        worst = max(worst, float(fold.tracer.relative_gap.max()))
        passes = fold.tracer.problem.passes
    scores = sorted_alphas.given(np.array(parts), axis=1)
    return Selection(
        scores=scores.mean(axis=0),
        errors=np.zeros(scores.shape[1:]),
        parts=scores,
        results=None,
        start=sorted_alphas.given(start / len(parts)),
        worst_gap=worst,
        passes=passes,
        note=f"chosen from {alphas.size} alphas by {len(parts)} folds",
    )
