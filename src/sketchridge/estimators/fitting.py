"""Fit many targets, each with its own λ: those of equal λ together, all with one sketch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.driver import Controls, solve_problem
from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solution import Plan, Record, Solution, Status
from sketchridge.solvers.direct import CholeskyCounter, SingularValuesCounter

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fit:
    """The coefficients of t targets with their certificates."""

    coef: Array  # (t, d)
    intercept: Array  # (t,)
    lam: Array  # (t,)
    gap: Array  # (t,) certified
    relative_gap: Array  # (t,)
    passes: Array  # (t,)
    solver: str  # what really solved it
    status: Status  # the worst
    tol: float
    plan: Plan
    history: tuple[Record, ...]
    preconditioner: LowRankPreconditioner

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Whether each target's certified relative gap is within tol."""
        return self.relative_gap <= self.tol

    @property
    def coef_error_bound(self) -> Array:
        """‖w − w*‖ is at most this, (t,): λ/2 ‖w − w*‖² ≤ F(w) − F*."""
        known = self.lam > 0
        return np.where(known, np.sqrt(2 * self.gap / np.where(known, self.lam, 1.0)), np.inf)


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
    solutions: list[Solution] = []
    groups = list(_groups(lams))
    for lam, targets in groups:
        part = problem.at(lam, targets)
        first = None if start is None else start[:, targets]
        solution = solve_problem(
            part, controls, False, first, notes or (), began=began, dtype=dtype
        )
        problem.passes = part.passes
        solutions.append(solution)
        controls = _with_sketch(controls, solution)
    return _joined(groups, solutions, lams)


def _groups(lams: Array) -> Iterator[tuple[float, NDArray[np.intp]]]:
    """Every λ with its targets, from the largest on."""
    values, members = np.unique(lams, return_inverse=True)
    for index in reversed(range(values.size)):
        yield float(values[index]), np.flatnonzero(members == index)


def _with_sketch(controls: Controls, solution: Solution) -> Controls:
    """The next solve takes over the sketch of the last one."""
    if solution.preconditioner.spectrum is None:
        return controls
    return replace(controls, preconditioner=solution.preconditioner, rank="auto")


def _joined(
    groups: list[tuple[float, NDArray[np.intp]]], solutions: list[Solution], lams: Array
) -> Fit:
    order = np.argsort(np.concatenate([targets for _, targets in groups]))

    def together(attribute: str) -> Array:
        values: Array = np.concatenate([getattr(s, attribute) for s in solutions])[order]
        return values

    sizes = [targets.size for _, targets in groups]
    passes = np.repeat(np.diff([0.0, *(s.passes for s in solutions)]), sizes)[order]
    severity = list(Status)
    return Fit(
        coef=together("coef"),
        intercept=together("intercept"),
        lam=lams,
        gap=together("gap"),
        relative_gap=together("relative_gap"),
        passes=passes,
        solver=_true_name(solutions[-1]),
        status=max((s.status for s in solutions), key=severity.index),
        tol=solutions[0].tol,
        plan=_joined_plan(solutions),
        history=tuple(record for s in solutions for record in s.history),
        preconditioner=solutions[-1].preconditioner,
    )


def _joined_plan(solutions: list[Solution]) -> Plan:
    notes = list(dict.fromkeys(note for s in solutions for note in s.plan.notes))
    if len(solutions) > 1:
        notes.append(f"{len(solutions)} different penalties: those of one penalty solved together")
    return replace(solutions[0].plan, notes=tuple(notes))


def _true_name(solution: Solution) -> str:
    """The method that gave the answer: a direct solve says which factorisation it came to."""
    if isinstance(solution._counter, SingularValuesCounter):
        return "svd"
    if isinstance(solution._counter, CholeskyCounter):
        return "cholesky"
    return solution.plan.solver
