"""Many λ of one problem, sharing the work: by one decomposition, one Krylov space, or one sketch.

This is what the regularisation path and cross-validation have in common. λ runs downwards: the
largest is the easiest, and its solution is where its neighbour starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import SketchCurvature, certified_gap
from sketchridge.decomposition import Decomposition, decompose, is_singular
from sketchridge.driver import Controls, solve_problem
from sketchridge.evaluation import Evaluation
from sketchridge.krylov import KrylovSpace
from sketchridge.planner import DIRECT_SIZE
from sketchridge.problem import RidgeProblem
from sketchridge.solution import Plan, Record, Status
from sketchridge.threads import single_threaded_blas
from sketchridge.validation import check_lam

Array = NDArray[np.float64]

# Below this size of X BLAS's threads cost more than they give.
SMALL_MATRIX = 200_000

# So many columns are evaluated together: a read of X serves them all, and memory stays bounded.
COLUMNS = 16
# Targets that share a Krylov space: more would spend more on orthogonality than on products.
TARGETS_TOGETHER = 16
LARGEST_SPACE = 1500
SPACE_BYTES = 1 << 30
REFINEMENTS = 3
# Where an estimate leaves this much room, the fresh gradient will confirm it, rounding and all.
CAUTION = 0.8
FIRST_LOOK = 4


def check_lams(lams: Any) -> Array:
    """The penalties as float64 (L,), each one that `solve` takes."""
    values = np.atleast_1d(np.asarray(lams))
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"lams has shape {values.shape}: give at least one λ, in one dimension")
    return np.array([check_lam(lam) for lam in values.tolist()])


class Descending:
    """Values in descending order, as the engine wants them, and the way back."""

    def __init__(self, values: Array) -> None:
        self.order = np.argsort(-values, kind="stable")
        self.values = values[self.order]
        self.places = np.argsort(self.order, kind="stable")

    def given(self, results: NDArray[Any], axis: int = 0) -> NDArray[Any]:
        """What belongs to the values, in the order in which they were given."""
        return np.take(results, self.places, axis=axis)


def stacked(problem: RidgeProblem, lams: Array) -> RidgeProblem:
    """The problem with every target once for every λ: (targets of the first λ, of the next, …).

    λ is then an array with an entry for every column: all that uses it broadcasts.
    """
    each: Any = np.repeat(lams, problem.targets)
    return problem.at(each, np.tile(np.arange(problem.targets), lams.size))


def threads_for(problem: RidgeProblem, columns: int) -> AbstractContextManager[None]:
    """Keep BLAS to one thread where it would spin beside ours, or where there is little to do."""
    small = problem.n * problem.d <= SMALL_MATRIX
    own = problem.products.own_threads(columns)
    return single_threaded_blas() if small or own else nullcontext()


def smaller_side(problem: RidgeProblem) -> int:
    """The smaller of the numbers of columns and of rows that count."""
    return min(problem.d, int(np.count_nonzero(problem.weights)))


def choose_method(problem: RidgeProblem, controls: Controls) -> tuple[str, str]:
    """How the λ share their work, and why: "direct", "cg" or "follow"."""
    side = smaller_side(problem)
    asked = (controls.solver, controls.preconditioner, controls.rank)
    if any(not isinstance(choice, str) or choice not in ("auto", "direct") for choice in asked):
        return "follow", "as asked, one λ after another from the largest"
    if controls.solver == "direct" or side <= DIRECT_SIZE:
        return "direct", f"the smaller side is {side}: one decomposition serves every λ"
    return "cg", f"the smaller side is {side}: one Krylov space serves every λ"


def relative(gap: Array, null_objective: Array) -> Array:
    """gap / F(0), and 0 where both are 0."""
    unlimited = np.where(gap > 0, np.inf, 0.0)
    return np.divide(gap, null_objective, out=unlimited, where=null_objective > 0)


@dataclass
class Tracer:
    """The solutions of one problem for all λ, and how they are found.

    `lams` descend. A decomposition of the problem, where there is one already, is used; starts,
    (L, t, d), are where the λ start that are solved one after another.
    """

    problem: RidgeProblem
    lams: Array
    controls: Controls
    began: float
    decomposition: Decomposition | None = None
    starts: Array | None = None
    asked: str | None = None  # "direct", "cg" or "follow"; None to choose by the size
    keep_coef: bool = True
    status: Status = Status.CONVERGED
    notes: list[str] = field(default_factory=list)
    single: Plan | None = None  # of the last λ that was solved by itself

    def __post_init__(self) -> None:
        count, targets = self.lams.size, self.problem.targets
        # Until a λ is reached its answer is w = 0, with the gap that F(0) ≥ 0 certifies.
        self.coef = np.zeros((count, targets, self.problem.d if self.keep_coef else 0))
        self.objective = np.tile(self.problem.null_objective, (count, 1))
        self.gap = self.objective.copy()
        self.degrees = np.tile([0.0, float(smaller_side(self.problem))], (count, 1))
        self.method, self.reason = choose_method(self.problem, self.controls)
        if self.asked not in (None, self.method):
            self.method, self.reason = str(self.asked), "as asked, for all λ together"
        self.shared_controls = self.controls

    @property
    def relative_gap(self) -> Array:
        """The certified relative gaps, (L, t)."""
        return relative(self.gap, self.problem.null_objective)

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Where the certified relative gap is within tol, (L, t)."""
        return self.relative_gap <= self.controls.limits.tol

    def intercepts(self) -> Array:
        """The best intercepts, (L, t)."""
        with threads_for(self.problem, self.problem.targets):
            return np.array([self.problem.intercept(coef.T) for coef in self.coef])

    def plan(self, notes: list[str]) -> Plan:
        """What was done, and why."""
        told = (*notes, *self.problem.notes, *self.notes)
        if self.method != "follow":
            return Plan(self.method, "none", 0, self.reason, told)
        assert self.single is not None
        return replace(self.single, notes=(*told, *self.single.notes), reason=self.reason)

    def trace(self) -> None:
        """Find all solutions."""
        if self.method == "direct":
            self._decompose()
        elif self.method == "cg":
            self._expand()
        else:
            self._follow(np.arange(self.lams.size), self.controls)
        if not self.converged.all() and self.status is Status.CONVERGED:
            self.status = Status.STAGNATED

    # -- by a decomposition ------------------------------------------------------------------

    def _decompose(self) -> None:
        """Decompose once; a λ that drowns in rounding is left to the direct solver.

        A decomposition that was made from another's matrix may have lost digits to it: what it
        does not certify is left to the direct solver too.
        """
        shared = self.decomposition is not None
        left = np.array([is_singular(self.problem, lam) for lam in self.lams])
        with np.errstate(over="ignore", invalid="ignore"), threads_for(self.problem, COLUMNS):
            if not shared and not left.all():
                self.decomposition = decompose(self.problem)
            for part in _parts(np.flatnonzero(~left), self.problem.targets):
                self._settle_decomposed(part)
        if shared:
            left |= ~self.converged.all(axis=1)
        self._follow(np.flatnonzero(left), replace(self.controls, solver="direct"))

    def _settle_decomposed(self, part: NDArray[np.intp]) -> None:
        """Take the solutions of some λ from the decomposition, and refine them where it pays."""
        decomposition, lams = self.decomposition, self.lams[part]
        assert decomposition is not None
        stack, passes = stacked(self.problem, lams), self.problem.passes
        each = np.repeat(lams, self.problem.targets)
        metric = decomposition.metric(each)
        best = stack.evaluate(decomposition.points(lams))
        gap = certified_gap(stack, metric, best)
        for _ in range(REFINEMENTS):
            if np.all(gap <= self.controls.limits.tol * stack.null_objective):
                break
            correction = decomposition.refine(best.gradient, each)
            fresh = stack.evaluate(best.coef - correction)
            better = (fresh_gap := certified_gap(stack, metric, fresh)) < gap
            best, gap = best.replaced(fresh, better), np.where(better, fresh_gap, gap)
            if not better.any():
                break
        self.problem.passes += stack.passes - passes
        self.degrees[part] = [[decomposition.degrees_of_freedom(lam)] * 2 for lam in lams]
        self._keep(part, slice(None), best, gap)

    # -- by a Krylov space -------------------------------------------------------------------

    def _expand(self) -> None:
        """Grow Krylov spaces until they serve all λ; what they do not reach is solved singly."""
        dimensions, reachable = [], np.flatnonzero(self.lams > 0)
        for first in range(0, self.problem.targets if reachable.size else 0, TARGETS_TOGETHER):
            targets = slice(first, first + TARGETS_TOGETHER)
            part = self.problem.at(self.problem.lam, targets)
            with np.errstate(over="ignore", invalid="ignore"), threads_for(part, part.targets):
                capacity = space_capacity(part, part.targets, self.controls)
                space = KrylovSpace(part, -part.null_gradient(), capacity)
                self._grow(space, part, self.lams[reachable])
            dimensions.append(space.expanded)
            self._settle_expanded(space, part, targets, reachable)
            self.problem.passes = part.passes
        self.reason += f" ({' + '.join(map(str, dimensions))} directions)"
        left = np.flatnonzero(~self.converged.all(axis=1))
        if left.size and self.status is Status.CONVERGED:
            self.notes.append(f"{left.size} λ out of its reach were solved one after another")
            lean = replace(self.controls, solver="cg", preconditioner="none")
            self._follow(left, self.controls if self.controls.max_memory is None else lean)

    def _grow(self, space: KrylovSpace, problem: RidgeProblem, lams: Array) -> None:
        """Grow the space until it promises success, or the budget is spent."""
        goal = self.controls.limits.tol * problem.null_objective
        try:
            grow_until(
                space,
                lams,
                goal,
                stopped=lambda: self._out_of_budget(problem),
                tell=lambda gap: self._tell(problem, gap),
            )
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED

    def _out_of_budget(self, problem: RidgeProblem) -> bool:
        limits = self.controls.limits
        if problem.passes >= limits.passes:
            self.status = Status.MAX_PASSES
        elif time.perf_counter() - self.began >= limits.seconds:
            self.status = Status.MAX_SECONDS
        return self.status is not Status.CONVERGED

    def _tell(self, problem: RidgeProblem, gap: Array) -> None:
        """Call back with the worst of the estimates."""
        callback, seconds = self.controls.callback, time.perf_counter() - self.began
        if callback is None:
            return
        worst = float(relative(gap, problem.null_objective).max())
        record = Record(problem.passes, seconds, np.nan, float(gap.max()), worst, False)
        if callback(record):
            self.status = Status.STOPPED

    def _settle_expanded(
        self,
        space: KrylovSpace,
        problem: RidgeProblem,
        targets: slice,
        reachable: NDArray[np.intp],
    ) -> None:
        """Certify the best points of a space, with fresh gradients."""
        lower = space.sketch().nystrom()
        for part in _parts(reachable, problem.targets):
            stack = stacked(problem, self.lams[part])
            with threads_for(problem, stack.targets):
                best = stack.evaluate(space.points(self.lams[part]))
                gap = certified_gap(stack, SketchCurvature(lower, stack.lam), best)
            problem.passes = stack.passes
            self._keep(part, targets, best, gap)
            self.degrees[part] = [
                SketchCurvature(lower, float(lam)).degrees_of_freedom(
                    problem.trace_bounds, smaller_side(problem)
                )
                for lam in self.lams[part]
            ]

    # -- one after another -------------------------------------------------------------------

    def _follow(self, indices: NDArray[np.intp], controls: Controls) -> None:
        """Solve for one λ after another, each from its neighbour, with one sketch for all."""
        before: Array | None = None
        for index in indices:
            solution = solve_problem(
                self.problem.at(float(self.lams[index])),
                controls,
                flat=False,
                start=self._start(index, before),
                began=self.began,
            )
            self.problem.passes = solution.passes
            self.coef[index] = solution.coef if self.keep_coef else 0.0
            self.gap[index], self.objective[index] = solution.gap, solution.objective
            self.degrees[index] = solution.degrees_of_freedom_bounds
            self.status = max(self.status, solution.status, key=list(Status).index)
            before, self.single = solution.coef, solution.plan
            if solution.preconditioner.name != "none":
                controls = replace(controls, preconditioner=solution.preconditioner, rank="auto")
        if self.method == "follow":
            self.shared_controls = controls

    def _start(self, index: int, before: Array | None) -> Array | None:
        """What is known already, or the same λ of another fold, or the neighbour; (d, t)."""
        known: Array | None = self.coef[index]
        if not np.any(known):
            known = before if self.starts is None else self.starts[index]
        return None if known is None else np.ascontiguousarray(known.T)

    # -- keeping -----------------------------------------------------------------------------

    def _keep(self, part: NDArray[np.intp], targets: slice, best: Evaluation, gap: Array) -> None:
        """Keep the evaluated points of some λ and targets."""
        shape = (part.size, -1)
        if self.keep_coef:
            self.coef[part, targets] = best.coef.T.reshape(*shape, self.problem.d)
        self.objective[part, targets] = best.objective.reshape(shape)
        self.gap[part, targets] = gap.reshape(shape)


def space_capacity(problem: RidgeProblem, width: int, controls: Controls) -> int:
    """How many vectors a Krylov space may have, whose blocks are at most so wide."""
    room = SPACE_BYTES if controls.max_memory is None else controls.max_memory
    wanted = min(smaller_side(problem) + width, LARGEST_SPACE)
    return max(2 * width, min(wanted, int(room / (8 * problem.d))))


def grow_until(
    space: KrylovSpace,
    lams: Array,
    goal: Array,
    stopped: Callable[[], bool] = lambda: False,
    tell: Callable[[Array], None] = lambda gap: None,
) -> Array:
    """Grow a space until the gaps promise to be within the goal (t,) for all λ; the gaps (L, t).

    It ends before that if the space is complete or full, or if it is stopped.
    """
    last, due, blocks = (0, 0.0), FIRST_LOOK, 0
    while not (space.exhausted or space.full or stopped()):
        space.grow()
        blocks += 1
        if blocks < due:
            continue
        gap = space.estimated_gaps(lams)
        tell(gap)
        distance = float(np.log(max(relative(gap, goal).max() / CAUTION, 1e-300)))
        if distance <= 0:
            return gap
        due, last = blocks + _steps(last, (blocks, distance)), (blocks, distance)
    return space.estimated_gaps(lams)


def _parts(indices: NDArray[np.intp], targets: int) -> Iterator[NDArray[np.intp]]:
    """As many λ at a time as make a block of columns, at least one."""
    step = max(1, COLUMNS // targets)
    for first in range(0, indices.size, step):
        yield indices[first : first + step]


def _steps(before: tuple[int, float], now: tuple[int, float]) -> int:
    """How many blocks to wait for the next look, from the last two: (blocks, log distance)."""
    (blocks, distance), (earlier_blocks, earlier) = now, before
    longest = max(2, blocks // 3)
    if earlier <= distance:
        return longest
    pace = (earlier - distance) / (blocks - earlier_blocks)
    return int(np.clip(np.ceil(distance / pace), 1, longest))
