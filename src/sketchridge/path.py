"""`ridge_path`: the whole regularisation path, with a certificate for every λ."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.driver import check_controls, make_problem
from sketchridge.preconditioner import Rank
from sketchridge.problem import RidgeProblem
from sketchridge.run import Callback
from sketchridge.solution import Plan, Status
from sketchridge.tracing import Descending, Tracer, check_lams
from sketchridge.validation import read_rows

Array = NDArray[np.float64]

GRID_SIZE = 25
GRID_DECADES = 6


@dataclass(frozen=True, repr=False, eq=False)
class RidgePath:
    """The answer of `ridge_path`: one entry of everything for every λ, in the order given.

    With y of shape (n, t) there is a second axis for the targets.

    Attributes
    ----------
    lams : ndarray of shape (L,)
        The penalties of the mean loss.
    coef : ndarray of shape (L, d) or (L, t, d)
        The coefficients.
    intercept : ndarray of shape (L,) or (L, t)
        The intercepts.
    objective : ndarray of shape (L,) or (L, t)
        F(coef).
    gap : ndarray of shape (L,) or (L, t)
        Certified: F(coef) − min F is at most this.
    relative_gap : ndarray of shape (L,) or (L, t)
        `gap` / F(0), which `tol` is about.
    converged : ndarray of bool, of shape (L,) or (L, t)
        Whether that is within `tol`.
    degrees_of_freedom_bounds : ndarray of shape (L, 2)
        Bounds of the effective dimension tr(C(C + λI)⁻¹).
    status : Status
        How it ended: the worst of all λ.
    passes, seconds, tol, plan, shape
        As a `Solution` has them.
    """

    lams: Array
    coef: Array
    intercept: Array
    objective: Array
    gap: Array
    relative_gap: Array
    converged: NDArray[np.bool_]
    degrees_of_freedom_bounds: Array
    status: Status
    passes: float
    seconds: float
    tol: float
    plan: Plan
    shape: tuple[int, int]

    @property
    def degrees_of_freedom(self) -> Array:
        """The effective dimension for every λ: exact on small data, else its bounds' middle."""
        middle: Array = self.degrees_of_freedom_bounds.mean(axis=1)
        return middle

    def __len__(self) -> int:
        return self.lams.size

    def __repr__(self) -> str:
        return (
            f"RidgePath({len(self)} λ from {self.lams.max():.3g} to {self.lams.min():.3g}, "
            f"{self.status.name.lower()}, relative gap ≤ {self.relative_gap.max():.2g}, "
            f"{self.plan.solver}, {self.passes:.4g} passes, {self.seconds:.3g} s)"
        )


def ridge_path(
    X: Any,
    y: Any,
    lams: Any = None,
    *,
    solver: Any = "auto",
    preconditioner: Any = "auto",
    rank: Rank = "auto",
    tol: float = 1e-6,
    max_passes: float | None = None,
    max_seconds: float | None = None,
    max_memory: float | None = None,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    scale_rows: bool = False,
    random_state: Any = None,
    callback: Callback | None = None,
) -> RidgePath:
    """Solve ridge regression for many λ, sharing the work, each to a certified accuracy.

    Data with a small side (up to 2000) is decomposed once, and the decomposition serves every λ
    and every target. Larger data is reduced to one Krylov space, which serves every λ too: the
    products that the smallest λ needs are all that are made. Where a solver or a preconditioner
    is asked for, λ is solved after λ, the largest first, with one sketch, each from its
    neighbour's solution.

    Parameters
    ----------
    X, y, sample_weight, fit_intercept, scale_rows
        The data, as in `solve`.
    lams
        The penalties, in any order. None: 25 values, from the trace of C down to 1e-6 of it.
    solver, preconditioner, rank
        As in `solve`.
    tol
        The certified relative gap to reach, for each λ and target.
    max_passes, max_seconds, max_memory
        Budgets for the whole path.
    random_state
        As in `solve`.
    callback
        Called with a `Record` (of the worst λ and target) at every look; a true result stops.

    Returns
    -------
    RidgePath
        Coefficients and certificates, λ by λ.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge import ridge_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 10))
    >>> path = ridge_path(X, X @ np.ones(10), [1.0, 0.1, 0.01])
    >>> path.coef.shape, bool(path.converged.all())
    ((3, 10), True)
    """
    began = time.perf_counter()
    controls = check_controls(
        tol,
        max_passes,
        max_seconds,
        max_memory,
        random_state,
        callback,
        solver,
        preconditioner,
        rank,
    )
    given = None if lams is None else check_lams(lams)
    problem, flat, notes = make_problem(X, y, 1.0, sample_weight, fit_intercept, scale_rows)
    read_rows(problem)
    grid = default_grid(problem) if given is None else given * problem.lam
    descending = Descending(grid)
    unscaled = problem.at(1.0)
    unscaled.scale_rows = False  # the grid is measured against the rows as they are
    tracer = Tracer(unscaled, descending.values, controls, began)
    tracer.trace()
    return _shaped(tracer, grid / problem.lam, descending, flat, notes)


def _shaped(
    tracer: Tracer, lams: Array, descending: Descending, flat: bool, notes: list[str]
) -> RidgePath:
    """The path in the order of the λ as they were given, without the axis of one flat target."""

    def shaped(values: NDArray[Any]) -> Any:
        ordered = descending.given(values)
        return ordered[:, 0] if flat else ordered

    problem = tracer.problem
    return RidgePath(
        lams=lams,
        coef=shaped(tracer.coef),
        intercept=shaped(tracer.intercepts()),
        objective=shaped(tracer.objective),
        gap=shaped(tracer.gap),
        relative_gap=shaped(tracer.relative_gap),
        converged=shaped(tracer.converged),
        degrees_of_freedom_bounds=descending.given(tracer.degrees),
        status=tracer.status,
        passes=problem.passes,
        seconds=time.perf_counter() - tracer.began,
        tol=tracer.controls.limits.tol,
        plan=tracer.plan(notes),
        shape=(problem.n, problem.d),
    )


def default_grid(problem: RidgeProblem) -> Array:
    """From the trace of C, where little is left of the coefficients, down to 1e-6 of it."""
    top = problem.trace or 1.0
    return top * 10.0 ** np.linspace(0.0, -GRID_DECADES, GRID_SIZE)
