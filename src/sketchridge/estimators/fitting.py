"""Fit many targets, each with its own λ: those of equal λ together, all with one sketch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.driver import Controls, solve_problem
from sketchridge.estimators.many_penalties import (
    EigenCounter,
    ManyPenalties,
    decompose,
    decomposition_pays,
)
from sketchridge.feature_penalty import ImplicitColumns
from sketchridge.planner import DIRECT_SIZE, Choice, choose
from sketchridge.preconditioner import BuiltPreconditioner, Preconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solution import Plan, Record, Solution, Status
from sketchridge.solvers import Direct
from sketchridge.solvers.direct import CholeskyCounter, SingularValuesCounter

Array = NDArray[np.float64]

# Solvers that know X by its products alone, and never read single rows.
BY_PRODUCTS = ("direct", "cg", "gd", "agd")


@dataclass(frozen=True, eq=False)
class Fit:
    """The coefficients of t targets with their certificates."""

    coef: Array  # (t, d)
    intercept: Array  # (t,)
    lam: Array  # (t,)
    gap: Array  # (t,) certified
    relative_gap: Array  # (t,)
    coef_error_bound: Array  # (t,) ‖w − w*‖ is at most this
    passes: Array  # (t,)
    solver: str  # what really solved it
    status: Status  # the worst
    tol: float
    plan: Plan
    history: tuple[Record, ...]
    preconditioner: Preconditioner

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Whether each target's certified relative gap is within tol."""
        return self.relative_gap <= self.tol


def fit_targets(
    problem: RidgeProblem,
    lams: Array,
    controls: Controls,
    start: Array | None = None,
    notes: list[str] | None = None,
    dtype: Any = np.float64,
) -> Fit:
    """Solve the problem's t targets with penalties `lams` (t,), from `start` (d, t)."""
    began = time.perf_counter()
    problem, controls, reason = _settled(problem, lams, controls)
    order: list[NDArray[np.intp]] = []
    fits: list[Fit] = []
    for lam, targets in _groups(lams):
        part, passes = problem.at(lam, targets), problem.passes
        point = None if start is None else part.start(start[:, targets])
        solution = solve_problem(
            part, controls, False, point, notes or (), began=began, dtype=dtype
        )
        problem.passes = part.passes
        controls = _with_sketch(controls, solution)
        order.append(targets)
        fits.append(_fit_of(part, solution, part.passes - passes))
    return _joined(fits, np.argsort(np.concatenate(order)), reason)


def _settled(
    problem: RidgeProblem, lams: Array, controls: Controls
) -> tuple[RidgeProblem, Controls, str]:
    """The problem and the solver for all groups, and the reason for it."""
    hardest, known = problem.at(float(lams.min())), None
    if isinstance(problem, ImplicitColumns):
        controls, known = _by_products(hardest, controls)
    choice = choose(hardest, controls.solver, controls.preconditioner, controls.rank)
    solver, reason = choice.solver, known or choice.reason
    if isinstance(problem, ImplicitColumns) and not _reads_no_rows(choice):
        problem = problem.with_rows()
    several = lams.size > 1 and isinstance(solver, Direct)
    if several and decomposition_pays(problem, np.unique(lams).size):
        solver = ManyPenalties(decompose(problem))
        reason += "; one eigendecomposition serves all penalties"
    return problem, replace(controls, solver=solver), reason


def _by_products(problem: RidgeProblem, controls: Controls) -> tuple[Controls, str | None]:
    """Leave nothing to the planner's choice that would have to read the rows of X."""
    solver, preconditioner, reason = controls.solver, controls.preconditioner, None
    automatic = isinstance(preconditioner, str) and preconditioner == "auto"
    if isinstance(solver, str) and solver == "auto":
        small = min(problem.n, problem.d) <= DIRECT_SIZE or problem.given_lam == 0
        solver = "direct" if small and automatic and controls.rank == "auto" else "cg"
        reason = f"{solver} takes X as it is, with a penalty for every feature"
    name = solver if isinstance(solver, str) else solver.name
    if automatic and name in BY_PRODUCTS and name != "direct":
        preconditioner = "nystrom"
    return replace(controls, solver=solver, preconditioner=preconditioner), reason


def _reads_no_rows(choice: Choice) -> bool:
    made = isinstance(choice.preconditioner, BuiltPreconditioner)
    return choice.solver.name in BY_PRODUCTS and (made or choice.preconditioner.low_rank)


def _groups(lams: Array) -> Iterator[tuple[float, NDArray[np.intp]]]:
    """Every λ with its targets, from the largest on."""
    if lams.size == 1:
        yield float(lams[0]), np.zeros(1, np.intp)
        return
    values, members = np.unique(lams, return_inverse=True)
    for index in reversed(range(values.size)):
        yield float(values[index]), np.flatnonzero(members == index)


def _with_sketch(controls: Controls, solution: Solution) -> Controls:
    """The next solve takes over the sketch of the last one."""
    if solution.preconditioner.name == "none":
        return controls
    return replace(controls, preconditioner=solution.preconditioner, rank="auto")


def _fit_of(problem: RidgeProblem, solution: Solution, passes: float) -> Fit:
    """A solution in terms of the data's own columns."""
    coef = problem.original(solution.coef.T)
    # What is known of H holds for other data up to the noise: H ⪯ H' + noise ⪯ (1 + noise/λ) H'.
    loosened = 1.0 + (problem.noise / problem.lam if problem.lam > 0 else 0.0)
    gap, relative_gap = loosened * solution.gap, loosened * solution.relative_gap
    return Fit(
        coef=np.ascontiguousarray(coef.T),
        intercept=solution.intercept,
        lam=np.full(solution.gap.shape, problem.lam),
        gap=gap,
        relative_gap=relative_gap,
        coef_error_bound=problem.distance(gap),
        passes=np.full(solution.gap.shape, passes),
        solver=_true_name(solution),
        status=solution.status,
        tol=solution.tol,
        plan=solution.plan,
        history=solution.history,
        preconditioner=solution.preconditioner,
    )


def _true_name(solution: Solution) -> str:
    """The method that gave the answer: a direct solve says which factorisation it came to."""
    if isinstance(solution._counter, EigenCounter):
        return "eigh"
    if isinstance(solution._counter, SingularValuesCounter):
        return "svd"
    if isinstance(solution._counter, CholeskyCounter):
        return "cholesky"
    return solution.plan.solver


def _joined(fits: list[Fit], order: NDArray[np.intp], reason: str) -> Fit:
    """The fits of several groups of targets as one, the targets in their own order."""
    plan = replace(fits[0].plan, reason=reason)
    if len(fits) == 1:
        return replace(fits[0], plan=plan)

    def together(attribute: str) -> Array:
        values: Array = np.concatenate([getattr(fit, attribute) for fit in fits])[order]
        return values

    notes = list(dict.fromkeys(note for fit in fits for note in fit.plan.notes))
    notes.append(f"{len(fits)} different penalties: the targets of each were solved together")
    severity = list(Status)
    return replace(
        fits[-1],
        coef=together("coef"),
        intercept=together("intercept"),
        lam=together("lam"),
        gap=together("gap"),
        relative_gap=together("relative_gap"),
        coef_error_bound=together("coef_error_bound"),
        passes=together("passes"),
        solver="+".join(dict.fromkeys(fit.solver for fit in fits)),
        status=max((fit.status for fit in fits), key=severity.index),
        plan=replace(plan, notes=tuple(notes)),
        history=tuple(record for fit in fits for record in fit.history),
    )
