"""`solve`: check what is given, plan, run, and return the solution."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sketchridge import validation
from sketchridge.certificate import Metric, certified_gap
from sketchridge.checkpoint import Checkpoint
from sketchridge.evaluation import Evaluation
from sketchridge.machine import this_machine
from sketchridge.planner import Choice, choose, memory_needed
from sketchridge.preconditioner import Rank
from sketchridge.problem import RidgeProblem
from sketchridge.run import Best, Callback, Limits, Run
from sketchridge.solution import Solution
from sketchridge.threads import single_threaded_blas
from sketchridge.validation import read_rows

Array = NDArray[np.float64]
DEFAULT_MAX_PASSES = 10_000.0


@dataclass(frozen=True, eq=False)
class Controls:
    """How to solve, whatever the problem is: checked before the data is looked at."""

    limits: Limits
    max_memory: float | None
    rng: np.random.Generator
    callback: Callback | None
    solver: Any = "auto"
    preconditioner: Any = "auto"
    rank: Rank = "auto"


def solve(
    X: Any,
    y: Any,
    lam: float,
    solver: Any = "auto",
    preconditioner: Any = "auto",
    rank: Rank = "auto",
    tol: float = 1e-6,
    max_passes: float | None = None,
    max_seconds: float | None = None,
    max_memory: float | None = None,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    coef_init: Any = None,
    scale_rows: bool = False,
    checkpoint: str | PathLike[str] | None = None,
    random_state: Any = None,
    callback: Callback | None = None,
) -> Solution:
    """Solve ridge regression to a certified accuracy.

    Minimises F(w) = 1/(2n) ‖Xw − y‖² + lam/2 ‖w‖² and stops when a proved bound of
    (F(w) − min F) / F(0) is at most `tol`, whatever the solver.

    Parameters
    ----------
    X
        (n, d): a dense array in either order (a read-only memory map too) or a scipy sparse
        matrix, float32 or float64. It is not copied; where a solver needs it otherwise, the
        plan's notes say so.
    y
        (n,), or (n, t) for t targets that are solved together.
    lam
        The penalty λ ≥ 0, per mean loss: scikit-learn's alpha is n·lam. With 0 the direct
        solver finds the minimum-norm solution, and the others refuse.
    solver, preconditioner
        "auto", a name or an object (`sketchridge solvers` lists them), such as "cg" or
        SVRG(step=…), and "nystrom" or Lanczos(rank=…); or the `preconditioner` of another
        solution (one sketch serves many solves). The paper's Algorithm 3 is "svrg" with
        "lanczos".
    rank
        The number of directions that the preconditioner treats one by one.
    tol
        The certified relative gap to reach.
    max_passes, max_seconds
        Budgets, looked at between iterates; None is 10000 passes and any time.
    max_memory
        Bytes beyond X that may be used; a plan that needs more is refused before it starts.
    fit_intercept
        Fit an unpenalised intercept, by implicit centring: sparse data stays sparse.
    sample_weight
        (n,) weights ≥ 0, with the meaning of repeated rows.
    coef_init
        Where to start, of the shape of `coef`.
    scale_rows
        Measure lam against rows divided by their average norm, as the paper does. The
        coefficients returned are for X as given.
    checkpoint
        A file that keeps the best point (at most every 30 s, and at the end). If it exists
        and belongs to this problem, the solve goes on from it.
    random_state
        None, a seed, or a numpy Generator. The same input and seed give the same answer.
    callback
        Called with a `Record` at every look; a true result stops the solve.

    Returns
    -------
    Solution
        Coefficients, certificate, status, history and plan.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge import solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 10))
    >>> solution = solve(X, X @ np.ones(10), lam=1e-6)
    >>> bool(solution.converged), solution.coef.shape
    (True, (10,))
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
    problem, flat, notes = make_problem(X, y, lam, sample_weight, fit_intercept, scale_rows)
    start = validation.check_start(coef_init, problem.d, problem.targets, flat)
    return solve_problem(problem, controls, flat, start, notes, checkpoint, began)


def solve_problem(
    problem: RidgeProblem,
    controls: Controls,
    flat: bool,
    start: Array | None = None,
    notes: Sequence[str] = (),
    checkpoint: str | PathLike[str] | None = None,
    began: float | None = None,
    dtype: DTypeLike = np.float64,
) -> Solution:
    """Solve a problem that is made: what `solve` does once its arguments are checked.

    The clock runs from `began`, and passes count on from the problem's. The coefficients are
    rounded to `dtype`; the certificate is that of the rounded ones.
    """
    choice = choose(problem, controls.solver, controls.preconditioner, controls.rank)
    if choice.is_open:
        this_machine()  # measured, where it must be, with all threads
    # Products run on threads of our own, and BLAS's would spin beside them.
    with single_threaded_blas():
        if not (choice.is_open and problem.can_wait):  # else they may be read on the way
            read_rows(problem)
        if not choice.is_open:  # else the plan takes what fits
            _check_memory(problem, choice, controls.max_memory)
        file = None if checkpoint is None else Checkpoint(checkpoint, problem)
        if file is not None and (saved := file.read()) is not None:
            start, notes = saved, [*notes, f"went on from the checkpoint {file.path}"]
        clock = time.perf_counter() if began is None else began
        run = Run(
            problem,
            choice,
            controls.limits,
            controls.rng,
            controls.callback,
            file,
            clock,
            controls.max_memory,
        )
        run.go(np.zeros((problem.d, problem.targets)) if start is None else start)
        if np.dtype(dtype) != np.float64:
            _round_best(run, np.dtype(dtype))
        return run.solution(flat, list(notes))


def _round_best(run: Run, dtype: np.dtype[Any]) -> None:
    """Round the best point to a narrower type, and certify it as it will be returned."""
    assert run.best is not None
    problem, best = run.problem, run.best
    coef, off = problem.rounded(best.evaluation.coef, dtype)
    near = problem.moved(best.evaluation, best.gap, coef)
    if near is not None:
        gap = _with_intercept(problem, *near, off)
        if np.all(gap <= run.limits.tol * problem.null_objective):
            run.best = Best(near[0], gap, best.curvature)
            return
    rounded = certify_rounded(problem, best.curvature, best.evaluation, dtype)
    run.best = Best(*rounded, best.curvature)


def certify_rounded(
    problem: RidgeProblem, metric: Metric | None, best: Evaluation, dtype: np.dtype[Any]
) -> tuple[Evaluation, Array]:
    """Evaluate the point that the best one is in a narrower type, and certify it; one pass."""
    coef, off = problem.rounded(best.coef, dtype)
    duals = None if best.duals is None else best.duals.after(coef - best.coef)
    evaluation = problem.evaluate(coef, duals)
    gap = certified_gap(problem, metric, evaluation)
    return evaluation, _with_intercept(problem, evaluation, gap, off)


def _with_intercept(problem: RidgeProblem, point: Evaluation, gap: Array, off: Array) -> Array:
    """The gap (t,) with that of the intercept: one that is `off` its best value by δ has δ²/2."""
    if not problem.fit_intercept:
        return gap
    slip = np.abs(point.residual_mean) + problem.residual_rounding(point)
    nothing = (gap == 0) & (off == 0)  # a constant that the narrower type holds too
    return np.where(nothing, 0.0, gap + 0.5 * (off + slip) ** 2)


def check_controls(
    tol: Any = 1e-6,
    max_passes: Any = None,
    max_seconds: Any = None,
    max_memory: Any = None,
    random_state: Any = None,
    callback: Any = None,
    solver: Any = "auto",
    preconditioner: Any = "auto",
    rank: Any = "auto",
) -> Controls:
    """The arguments of `solve` that are not about the data, checked."""
    limits = _check_limits(tol, max_passes, max_seconds)
    memory = validation.check_optional("max_memory", max_memory, "give bytes > 0, or None")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} cannot be called: give a function of a Record")
    rng = validation.check_rng(random_state)
    return Controls(limits, memory, rng, callback, solver, preconditioner, rank)


def _check_limits(tol: Any, max_passes: Any, max_seconds: Any) -> Limits:
    return Limits(
        validation.check_number("tol", tol, 0.0, "give a number > 0", strict=True),
        validation.check_optional("max_passes", max_passes, "give a number > 0, or None")
        or DEFAULT_MAX_PASSES,
        validation.check_optional("max_seconds", max_seconds, "give seconds > 0, or None")
        or np.inf,
    )


def make_problem(
    X: Any,
    y: Any,
    lam: Any,
    sample_weight: Any = None,
    fit_intercept: Any = False,
    scale_rows: Any = False,
) -> tuple[RidgeProblem, bool, list[str]]:
    """Check the arguments and make the problem; also whether y is flat, and notes on copies."""
    lam = validation.check_lam(lam)
    fit_intercept = validation.check_flag("fit_intercept", fit_intercept)
    scale_rows = validation.check_flag("scale_rows", scale_rows)
    X, notes = validation.check_matrix(X)
    Y, flat = validation.check_targets(y, X.shape[0])
    weights = validation.check_weights(sample_weight, X.shape[0])
    return RidgeProblem(X, Y, lam, weights, fit_intercept, scale_rows), flat, notes


def _check_memory(problem: RidgeProblem, choice: Choice, limit: float | None) -> None:
    needed = memory_needed(problem, choice)
    if limit is not None and needed > limit:
        raise ValueError(
            f"max_memory={limit:g} bytes is too little for {choice.solver.name} with "
            f"{choice.preconditioner.name}, which needs about {needed:.3g}: allow more, or "
            "choose a smaller rank or another solver"
        )
