"""Fit many targets, each with its own λ: those of equal λ together, all with one sketch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.driver import Controls, solve_problem
from sketchridge.estimators.fit import Fit, join
from sketchridge.estimators.many_penalties import share_a_decomposition, solve_together
from sketchridge.feature_penalty import ImplicitColumns
from sketchridge.planner import DIRECT_SIZE, choose
from sketchridge.preconditioner import BuiltPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solution import Solution
from sketchridge.solvers.direct import CholeskyCounter, SingularValuesCounter

Array = NDArray[np.float64]

# Solvers that know X by its products alone, and never read single rows.
BY_PRODUCTS = ("direct", "cg", "gd", "agd")


def fit_targets(
    problem: RidgeProblem,
    lams: Array,
    controls: Controls,
    start: Array | None = None,
    notes: list[str] | None = None,
    dtype: Any = np.float64,
) -> Fit:
    """Solve the problem's t targets with penalties `lams` (t,), from `start` (d, t)."""
    began, told = time.perf_counter(), list(notes or ())
    if isinstance(problem, ImplicitColumns):
        problem, controls = _with_products(problem, lams, controls)
    fits: list[Fit] = []
    members: list[NDArray[np.intp]] = []
    together = share_a_decomposition(problem, lams, controls)
    if together.any():
        members.append(np.flatnonzero(together))
        part = problem.at(problem.given_lam, members[0])
        fits.append(solve_together(part, lams[members[0]], controls, told, began, dtype))
        problem.passes = part.passes
    for lam, targets in _groups(lams, np.flatnonzero(~together)):
        part, passes = problem.at(lam, targets), problem.passes
        point = None if start is None else part.start(start[:, targets])
        solution = solve_problem(part, controls, False, point, told, began=began, dtype=dtype)
        problem.passes = part.passes
        controls = _as_before(controls, solution)
        members.append(targets)
        fits.append(_fit_of(part, solution, part.passes - passes))
    return join(fits, members)


def _groups(lams: Array, targets: NDArray[np.intp]) -> Iterator[tuple[float, NDArray[np.intp]]]:
    """Every λ of these targets with those that have it, from the largest on."""
    if targets.size == 1:
        yield float(lams[targets[0]]), targets
        return
    values, members = np.unique(lams[targets], return_inverse=True)
    for index in reversed(range(values.size)):
        yield float(values[index]), targets[members == index]


def _as_before(controls: Controls, solution: Solution) -> Controls:
    """The next solve takes the sketch of the last one over, and its solver.

    Where there was none it is planned by itself: what does without one at a large λ may not at a
    small one.
    """
    if solution.preconditioner.name == "none":
        return controls
    if isinstance(controls.solver, str) and controls.solver == "auto":
        controls = replace(controls, solver=solution.plan.solver)
    return replace(controls, preconditioner=solution.preconditioner, rank="auto")


def _fit_of(problem: RidgeProblem, solution: Solution, passes: float) -> Fit:
    """A solution in terms of the data's own columns."""
    gap = problem.loosened(solution.gap)
    return Fit(
        coef=np.ascontiguousarray(problem.original(solution.coef.T).T),
        intercept=solution.intercept,
        lam=np.full(gap.shape, problem.lam),
        gap=gap,
        relative_gap=problem.loosened(solution.relative_gap),
        coef_error_bound=problem.distance(gap),
        passes=np.full(gap.shape, passes),
        solver=_true_name(solution),
        status=solution.status,
        tol=solution.tol,
        plan=solution.plan,
        history=solution.history,
    )


def _true_name(solution: Solution) -> str:
    """The method that gave the answer: a direct solve says which factorisation it came to."""
    if isinstance(solution._counter, SingularValuesCounter):
        return "svd"
    if isinstance(solution._counter, CholeskyCounter):
        return "cholesky"
    return solution.plan.solver


# ----------------------------------------------------------------------------------------
# A penalty for every feature
# ----------------------------------------------------------------------------------------


def _with_products(
    problem: ImplicitColumns, lams: Array, controls: Controls
) -> tuple[RidgeProblem, Controls]:
    """Keep to what knows X by products alone; where rows must be read, make a problem with rows.

    The planner reads rows, and its choice is narrowed to what does not.
    """
    solver, preconditioner = controls.solver, controls.preconditioner
    automatic = isinstance(preconditioner, str) and preconditioner == "auto"
    if isinstance(solver, str) and solver == "auto":
        small = min(problem.n, problem.d) <= DIRECT_SIZE or not lams.all()
        solver = "direct" if small and automatic and controls.rank == "auto" else "cg"
        problem.notes.append(
            f"feature_penalty: {solver} takes X as it is, with a penalty for every feature"
        )
    name = solver if isinstance(solver, str) else getattr(solver, "name", None)
    if automatic and name in BY_PRODUCTS and name != "direct":
        preconditioner = "nystrom"
    controls = replace(controls, solver=solver, preconditioner=preconditioner)
    choice = choose(problem, solver, preconditioner, controls.rank)
    made = isinstance(choice.preconditioner, BuiltPreconditioner)
    whole = getattr(choice.preconditioner, "rows", "all") == "all"  # a sample reads single rows
    sketched = choice.preconditioner.low_rank and whole
    by_products = choice.solver.name in BY_PRODUCTS and (made or sketched)
    return problem if by_products else problem.with_rows(), controls
