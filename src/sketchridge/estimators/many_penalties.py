"""Targets with penalties of their own, solved directly: one decomposition of X serves them all."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import certified_gap
from sketchridge.decomposition import decompose, is_singular
from sketchridge.driver import Controls, certify_rounded
from sketchridge.estimators.fit import Fit
from sketchridge.evaluation import Evaluation
from sketchridge.problem import RidgeProblem
from sketchridge.solution import Plan, Record, Status
from sketchridge.tracing import REFINEMENTS, choose_method, relative, threads_for
from sketchridge.validation import read_rows

Array = NDArray[np.float64]

# Of a matrix of side s: s³/3 for a Cholesky factorisation, and about this for all eigenpairs.
EIGEN_COST = 9.0


def share_a_decomposition(
    problem: RidgeProblem, lams: Array, controls: Controls
) -> NDArray[np.bool_]:
    """The targets, of penalties `lams` (t,), that one decomposition should serve.

    Their solutions must not drown in its rounding, and it must take less time than a
    factorisation for every penalty.
    """
    none = np.zeros(lams.size, dtype=bool)
    if lams.size == 1 or np.all(lams == lams[0]):
        return none
    if choose_method(problem, controls)[0] != "direct":
        return none
    able = np.array([not is_singular(problem, float(lam)) for lam in lams])
    side, other = float(min(problem.n, problem.d)), float(max(problem.n, problem.d))
    one_by_one = np.unique(lams[able]).size * (other + side / 3)
    return able if one_by_one > other + EIGEN_COST * side else none


def solve_together(
    problem: RidgeProblem,
    lams: Array,
    controls: Controls,
    notes: list[str],
    began: float,
    dtype: Any,
) -> Fit:
    """Solve every target with its own λ, `lams` (t,), and refine where that is needed."""
    read_rows(problem)
    each: Any = lams  # all that uses λ broadcasts
    whole = problem.at(each)
    with np.errstate(over="ignore", invalid="ignore"), threads_for(problem, whole.targets):
        best, gap = _refined(whole, lams, controls.limits.tol, np.dtype(dtype))
    passes, problem.passes = whole.passes - problem.passes, whole.passes
    relative_gap = relative(gap, whole.null_objective)
    record = Record(
        whole.passes,
        time.perf_counter() - began,
        float(best.objective.mean()),
        float(gap.max()),
        float(relative_gap.max()),
        certified=True,
    )
    if controls.callback is not None:
        controls.callback(record)
    done = bool(np.all(relative_gap <= controls.limits.tol))
    reason = choose_method(problem, controls)[1]
    return Fit(
        coef=np.ascontiguousarray(whole.original(best.coef).T),
        intercept=whole.intercept(best.coef),
        lam=lams,
        gap=gap,
        relative_gap=relative_gap,
        coef_error_bound=whole.distance(gap),
        passes=np.full(lams.size, passes),
        solver="eigh",
        status=Status.CONVERGED if done else Status.STAGNATED,
        tol=controls.limits.tol,
        plan=Plan("direct", "none", 0, reason, (*notes, *problem.notes)),
        history=(record,),
    )


def _refined(
    problem: RidgeProblem, lams: Array, tol: float, dtype: np.dtype[Any]
) -> tuple[Evaluation, Array]:
    """The solutions in the given type, and their certified gaps (t,)."""
    decomposition = decompose(problem)
    metric = decomposition.metric(lams)
    best = problem.evaluate(decomposition.own_points(lams))
    gap = certified_gap(problem, metric, best)
    for _ in range(REFINEMENTS):
        if np.all(gap <= tol * problem.null_objective):
            break
        fresh = problem.evaluate(best.coef - decomposition.refine(best.gradient, lams))
        fresh_gap = certified_gap(problem, metric, fresh)
        best, gap = best.replaced(fresh, fresh_gap < gap), np.minimum(gap, fresh_gap)
    if dtype != np.float64:
        best, gap = certify_rounded(problem, metric, best, dtype)
    return best, problem.loosened(gap)
