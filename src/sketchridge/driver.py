"""`solve`: the one outer loop. Tolerance, budgets, divergence, history, callback, checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge import validation
from sketchridge.certificate import (
    Curvature,
    RidgeCurvature,
    SketchCurvature,
    certified_gap,
    rounding_floor,
)
from sketchridge.checkpoint import read_checkpoint, write_checkpoint
from sketchridge.planner import Choice, choose, memory_needed
from sketchridge.preconditioner import LowRankPreconditioner, NoPreconditioner, Rank
from sketchridge.problem import EPSILON, Evaluation, RidgeProblem
from sketchridge.sketch import random_range
from sketchridge.solution import Plan, Record, Solution, Status
from sketchridge.solvers import Iterate
from sketchridge.threads import single_threaded_blas

Array = NDArray[np.float64]
Callback = Callable[[Record], Any]

DEFAULT_MAX_PASSES = 10_000.0
# A running (not fresh) gradient is looked at this often, or when it promises success.
LOOK_EVERY = 10
DIVERGED_FACTOR = 1e4
STAGNATION_PATIENCE = 10
CERTIFICATE_RANK = 50
CHECKPOINT_SECONDS = 30.0


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
    checkpoint: str | Path | None = None,
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
        A name or an object: "direct", "cg", "svrg", or SVRG(step=…); "none", "exact",
        "lanczos", "nystrom", or Lanczos(rank=…), or the `preconditioner` of another solution
        (one sketch serves many solves). The paper's Algorithm 3 is "svrg" with "lanczos".
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
    tol = validation.check_number("tol", tol, 0.0, "give a number > 0", strict=True)
    limits = Limits(
        tol,
        validation.check_optional("max_passes", max_passes, "give a number > 0, or None")
        or DEFAULT_MAX_PASSES,
        validation.check_optional("max_seconds", max_seconds, "give seconds > 0, or None")
        or np.inf,
    )
    memory = validation.check_optional("max_memory", max_memory, "give bytes > 0, or None")
    rng = validation.check_rng(random_state)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} cannot be called: give a function of a Record")
    problem, flat, notes = make_problem(X, y, lam, sample_weight, fit_intercept, scale_rows)
    start = validation.check_start(coef_init, problem.d, problem.targets, flat)
    choice = choose(problem, solver, preconditioner, rank)
    _check_memory(problem, choice, memory)
    file = None if checkpoint is None else Path(checkpoint)
    if file is not None:
        saved = read_checkpoint(file, problem)
        if saved is not None:
            start, notes = saved, [*notes, f"went on from the checkpoint {file}"]
    run = Run(problem, choice, limits, rng, callback, file, began)
    # Sparse products run on our own threads: BLAS's would spin beside them.
    dense = isinstance(problem.X, np.ndarray)
    with nullcontext() if dense else single_threaded_blas():
        run.go(np.zeros((problem.d, problem.targets)) if start is None else start)
        return run.solution(flat, notes)


def make_problem(
    X: Any,
    y: Any,
    lam: float,
    sample_weight: Any = None,
    fit_intercept: bool = False,
    scale_rows: bool = False,
) -> tuple[RidgeProblem, bool, list[str]]:
    """Check the data and make the problem; also whether y is flat, and notes on copies."""
    X, notes = validation.check_matrix(X)
    Y, flat = validation.check_targets(y, X.shape[0])
    lam = validation.check_number("lam", lam, 0.0, "give a number ≥ 0")
    weights = validation.check_weights(sample_weight, X.shape[0])
    with np.errstate(over="ignore", invalid="ignore"):
        problem = RidgeProblem(X, Y, lam, weights, bool(fit_intercept), bool(scale_rows))
    validation.check_finite_norms(problem.raw_squared_norms)
    return problem, flat, notes


def _check_memory(problem: RidgeProblem, choice: Choice, limit: float | None) -> None:
    needed = memory_needed(problem, choice)
    if limit is not None and needed > limit:
        raise ValueError(
            f"max_memory={limit:g} bytes is too little for {choice.solver.name} with "
            f"{choice.preconditioner.name}, which needs about {needed:.3g}: allow more, or "
            "choose a smaller rank or another solver"
        )


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    tol: float
    passes: float
    seconds: float


@dataclass
class Run:
    """One solve under way: the only mutable thing in it."""

    problem: RidgeProblem
    choice: Choice
    limits: Limits
    rng: np.random.Generator
    callback: Callback | None
    checkpoint: Path | None
    began: float
    history: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    status: Status | None = None
    best: Evaluation | None = None
    best_gap: Array | None = None
    best_curvature: Curvature | None = None
    stalled: int = 0
    looks_at: int = 0
    gap_per_energy: float = np.inf
    saved_at: float = 0.0

    def go(self, start: Array) -> None:
        """Sketch, iterate and look, until there is a status."""
        # Where there is nothing to fit, the answer is w = 0.
        start = np.where(self.problem.null_objective == 0, 0.0, start)
        self.preconditioner = NoPreconditioner().build(self.problem, self.rng)
        self.curvature = self.preconditioner.curvature() if self.problem.lam > 0 else None
        certificate_rng = self.rng.spawn(1)[0]
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                self._prepare(certificate_rng)
                self._iterate(start)
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED
        if self.best is None:
            self._keep(self.problem.evaluate(start), self._cheapest_curvature())
        self._save(force=True)

    def _prepare(self, certificate_rng: np.random.Generator) -> None:
        """Build the preconditioner, or take the one that is given, and what it knows of H."""
        given = self.choice.preconditioner
        self.certificate_rng = certificate_rng
        if isinstance(given, LowRankPreconditioner):
            self.preconditioner = given.at(self.problem.lam)
            if given.spectrum is not None and given.spectrum.describes(self.problem):
                self.curvature = self.preconditioner.curvature()
            elif given.spectrum is not None:
                self.notes.append(
                    "the preconditioner is a sketch of other data: it serves as it is, and the "
                    "certificate does not rely on it"
                )
        elif self.choice.solver.uses_preconditioner:
            self.preconditioner = given.build(self.problem, self.rng)
            self.curvature = self.preconditioner.curvature()

    def _iterate(self, start: Array) -> None:
        iterates = self.choice.solver.iterates(self.problem, self.preconditioner, start, self.rng)
        fresh: Evaluation | None = None
        while self.status is None:
            fresh = self._look(iterates.send(fresh))

    # -- looking at an iterate -----------------------------------------------------------

    def _look(self, iterate: Iterate) -> Evaluation | None:
        """Judge an iterate; returns a fresh evaluation if the solver should go on from it."""
        if iterate.curvature is not None:
            self.curvature = iterate.curvature
        if iterate.evaluation is not None:
            self._judge(iterate.evaluation, iterate.event)
            return None
        fresh = self._look_at_running(iterate)
        if fresh is not None:
            self._judge(fresh, iterate.event)
        elif self._out_of_budget():
            self._judge(self.problem.evaluate(iterate.coef), iterate.event)
        return fresh

    def _look_at_running(self, iterate: Iterate) -> Evaluation | None:
        """Look at a running gradient, if it is time; evaluate afresh if it promises success."""
        assert iterate.gradient is not None and iterate.objective is not None
        assert iterate.energy is not None
        self.looks_at += 1
        goal = self.limits.tol * self.problem.null_objective
        worst_energy = float(np.max(iterate.energy))
        promising = self.gap_per_energy * worst_energy <= float(np.min(goal))
        young = self.looks_at & (self.looks_at - 1) == 0  # 1, 2, 4, 8: learn the ratio early
        if not promising and not young and self.looks_at % LOOK_EVERY:
            return None
        if not np.all(np.isfinite(iterate.energy)):
            return self.problem.evaluate(iterate.coef)
        curvature = self._tight_curvature()
        estimate = 0.5 * curvature.constant * curvature.energy(iterate.gradient)
        self.gap_per_energy = float(np.max(estimate)) / max(worst_energy, 1e-300)
        if np.all(estimate <= goal):
            return self.problem.evaluate(iterate.coef)
        self._record(iterate.objective, estimate, False, iterate.event)
        return None

    def _judge(self, evaluation: Evaluation, event: str | None) -> None:
        """Certify a fresh evaluation, keep the best, and decide whether to stop."""
        if self._has_diverged(evaluation):
            self.status = Status.DIVERGED
            self._record(evaluation.objective, np.full(self.problem.targets, np.inf), True, event)
            return
        curvature = self._cheapest_curvature()
        gap = certified_gap(self.problem, curvature, evaluation)
        if self._should_tighten(evaluation, gap):
            curvature = self._tight_curvature()
            gap = certified_gap(self.problem, curvature, evaluation)
        previous = self.best_gap
        improved = self._keep(evaluation, curvature, gap)
        self._record(evaluation.objective, gap, True, event)
        if np.all(self._relative(gap) <= self.limits.tol):
            self.status = Status.CONVERGED
        elif self._out_of_budget() and self.status is None:
            self.status = (
                Status.MAX_PASSES
                if self.problem.passes >= self.limits.passes
                else Status.MAX_SECONDS
            )
        elif self.status is None:
            self._watch_for_stagnation(evaluation, curvature, gap, previous, improved)
        self._save()

    def _has_diverged(self, evaluation: Evaluation) -> bool:
        if not np.all(np.isfinite(evaluation.objective)):
            return True
        if self.best is None:
            return False
        largest = np.maximum(self.best.objective, self.problem.null_objective)
        return bool(np.any(evaluation.objective > DIVERGED_FACTOR * largest))

    def _should_tighten(self, evaluation: Evaluation, gap: Array) -> bool:
        """Whether a sketch for the certificate alone would pay.

        Without a sketch the certificate is ‖g‖² / 2λ, often a million times the truth. One pass
        buys a better one; it is spent when the objective's progress says that the end is near.
        """
        if not isinstance(self.curvature, RidgeCurvature):
            return False
        if np.all(self._relative(gap) <= self.limits.tol):
            return False
        if self._out_of_budget():
            return True
        if self.best is None:
            return False
        progress = self.best.objective - evaluation.objective
        return bool(np.all(progress <= self.limits.tol * self.problem.null_objective))

    def _tight_curvature(self) -> Curvature:
        """The curvature, sketched now if nothing is known of H but λ."""
        if isinstance(self.curvature, RidgeCurvature):
            rank = min(CERTIFICATE_RANK, self.problem.n, self.problem.d)
            krylov = random_range(self.problem, rank, self.certificate_rng)
            self.curvature = SketchCurvature(krylov.nystrom(), self.problem.lam)
            self.notes.append(f"a Nyström sketch of rank {rank} was made for the certificate")
        return self._cheapest_curvature()

    def _cheapest_curvature(self) -> Curvature:
        if self.curvature is None:
            raise ValueError("lam=0 has no certificate without a factorisation")
        return self.curvature

    def _keep(self, evaluation: Evaluation, curvature: Curvature, gap: Array | None = None) -> bool:
        """Keep the best point by its objective; say whether this one is better."""
        if gap is None:
            gap = certified_gap(self.problem, curvature, evaluation)
        total = float(evaluation.objective.sum())
        if self.best is not None and self.best_gap is not None:
            before = float(self.best.objective.sum())
            same = abs(total - before) <= 64 * EPSILON * abs(before)
            worse = gap.max() > self.best_gap.max() if same else total > before
            if worse:
                return False
        self.best, self.best_gap, self.best_curvature = evaluation, gap, curvature
        return True

    def _watch_for_stagnation(
        self,
        evaluation: Evaluation,
        curvature: Curvature,
        gap: Array,
        previous: Array | None,
        improved: bool,
    ) -> None:
        """No progress for a while, or nothing left to certify but rounding."""
        goal = self.limits.tol * self.problem.null_objective
        floor = rounding_floor(self.problem, curvature, evaluation)
        at_floor = (gap <= goal) | ((gap <= 2 * floor) & (floor > goal))
        if np.all(at_floor):
            self.status = Status.STAGNATED
            return
        progress = improved and (previous is None or np.any(gap < 0.999 * previous))
        self.stalled = 0 if progress else self.stalled + 1
        if self.stalled >= STAGNATION_PATIENCE:
            self.status = Status.STAGNATED

    def _out_of_budget(self) -> bool:
        spent = time.perf_counter() - self.began
        return self.problem.passes >= self.limits.passes or spent >= self.limits.seconds

    # -- telling and keeping -----------------------------------------------------------------

    def _relative(self, gap: Array) -> Array:
        """gap / F(0), and 0 where both are 0."""
        null = self.problem.null_objective
        return np.divide(gap, null, out=np.where(gap > 0, np.inf, 0.0), where=null > 0)

    def _record(self, objective: Array, gap: Array, certified: bool, event: str | None) -> None:
        record = Record(
            self.problem.passes,
            time.perf_counter() - self.began,
            float(objective.mean()),
            float(gap.max()),
            float(self._relative(gap).max()),
            certified,
            event,
        )
        self.history.append(record)
        if self.callback is not None and self.callback(record) and self.status is None:
            self.status = Status.STOPPED

    def _save(self, force: bool = False) -> None:
        now = time.perf_counter()
        if self.checkpoint is None or self.best is None:
            return
        if force or now - self.saved_at >= CHECKPOINT_SECONDS:
            write_checkpoint(self.checkpoint, self.problem, self.best.coef)
            self.saved_at = now

    def solution(self, flat: bool, notes: list[str]) -> Solution:
        """The best point with everything that is known of it."""
        assert self.best is not None and self.best_gap is not None
        assert self.status is not None and self.best_curvature is not None
        relative = self._relative(self.best_gap)
        explained = np.maximum(self.problem.null_objective - self.best.objective, 0.0)
        explained_gap = np.divide(
            self.best_gap,
            explained,
            out=np.where(self.best_gap > 0, np.inf, 0.0),
            where=explained > 0,
        )

        def shaped(values: NDArray[Any]) -> Any:
            return values[0].item() if flat else values

        return Solution(
            coef=self.best.coef[:, 0].copy() if flat else np.ascontiguousarray(self.best.coef.T),
            intercept=shaped(self.problem.intercept(self.best.coef)),
            objective=shaped(self.best.objective),
            gap=shaped(self.best_gap),
            relative_gap=shaped(relative),
            explained_gap=shaped(explained_gap),
            converged=shaped(relative <= self.limits.tol),
            status=self.status,
            passes=self.problem.passes,
            seconds=time.perf_counter() - self.began,
            tol=self.limits.tol,
            history=tuple(self.history),
            plan=self._plan(notes),
            preconditioner=self.preconditioner,
            shape=(self.problem.n, self.problem.d),
            trace=self.problem.trace,
            _curvature=self.best_curvature,
        )

    def _plan(self, notes: list[str]) -> Plan:
        events = [record.event for record in self.history if record.event]
        return Plan(
            self.choice.solver.name,
            self.preconditioner.name,
            self.preconditioner.rank,
            self.choice.reason,
            (*notes, *self.problem.notes, *self.preconditioner.notes, *self.notes, *events[:1]),
        )
