"""One solve under way: the outer loop. Tolerance, budgets, divergence, history, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import (
    Curvature,
    RidgeCurvature,
    SketchCurvature,
    certified_gap,
    rounding_floor,
)
from sketchridge.checkpoint import Checkpoint
from sketchridge.evaluation import Evaluation
from sketchridge.planner import Choice, Pace, changed, fallen_back, memory_needed, plan
from sketchridge.preconditioner import (
    BuiltPreconditioner,
    Embedding,
    FactorCurvature,
    NoPreconditioner,
    Preconditioner,
)
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.sketch import random_range
from sketchridge.solution import Plan, Record, Solution, Status
from sketchridge.solvers import Iterate
from sketchridge.validation import read_rows

Array = NDArray[np.float64]
Callback = Callable[[Record], Any]

# A running (not fresh) gradient is looked at this often, or when it promises success.
LOOK_EVERY = 10
DIVERGED_FACTOR = 1e4
STAGNATION_PATIENCE = 10
# A running gradient that is off by more than this share of the fresh one has drifted.
DRIFT = 0.1
CERTIFICATE_RANK = 50
# What a sketch of that rank takes, in passes: not more than was spent before it.
DENSE_SKETCH, SPARSE_SKETCH = 12.0, 80.0
CHECKPOINT_SECONDS = 30.0
# A guess whose gap seems to be so many times the goal is not certified.
FAR = 10.0


@dataclass(frozen=True)
class Limits:
    """When to stop."""

    tol: float
    passes: float
    seconds: float


@dataclass(frozen=True)
class Best:
    """The best point so far, target by target, with what its certificates rest on."""

    evaluation: Evaluation
    gap: Array  # (t,)
    curvature: Curvature | None  # None: F* ≥ 0 alone


@dataclass
class Run:
    """One solve: the only mutable thing in it."""

    problem: RidgeProblem
    choice: Choice
    limits: Limits
    rng: np.random.Generator
    callback: Callback | None
    checkpoint: Checkpoint | None
    began: float
    max_memory: float | None = None
    history: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    status: Status | None = None
    best: Best | None = None
    certified: tuple[Evaluation, Curvature | None, Array] | None = None  # the last one's gap
    latest: Iterate | None = None  # a point that has not been evaluated afresh
    stalled: int = 0
    lowest_objective: float | Array = np.inf  # of the points that were evaluated afresh
    looks: int = 0
    gap_per_energy: float | Array = np.inf
    shortfall: float | Array = 0.0  # what a certificate had above its running gradient
    lowest_estimate: float = np.inf  # of the gap, from running gradients
    idle_looks: int = 0  # since it went lower
    tries_objective: bool = True  # whether a point of small enough objective is worth a pass
    pace: Pace = field(default_factory=Pace)
    guess: Array | None = None  # a point that comes with the preconditioner, better than zero
    metric: FactorCurvature | None = None  # that of the preconditioner, where it is P or near it
    next_choice: Choice | None = None  # the plan to change to
    saved_at: float = field(default_factory=time.perf_counter)

    def go(self, start: Array) -> None:
        """Sketch, iterate and look, until there is a status."""
        # Where there is nothing to fit, the answer is w = 0.
        start = np.where(self.problem.null_objective == 0, 0.0, start)
        self.latest = Iterate(start)
        self.preconditioner: Preconditioner = NoPreconditioner().build(self.problem, self.rng)
        self.curvature: Curvature | None = (
            self.preconditioner.curvature() if self.problem.lam > 0 else None
        )
        self.certificate_rng = np.random.default_rng(self.rng.integers(2**63))
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                self._follow_plan(start)
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED
            self._catch_up_after_interrupt()
        else:
            self._catch_up()
        self._save(force=True)

    def _follow_plan(self, start: Array) -> None:
        """Prepare and iterate; again from where it got to, each time that the plan changes."""
        while self.status is None:
            warm = bool(start.any())
            self._prepare(warm)
            self._iterate(start if warm or self.guess is None else self.guess)
            if self.next_choice is not None:
                self.choice, self.next_choice = self.next_choice, None
                self.pace, self.looks, self.gap_per_energy = Pace(), 0, np.inf
                self.lowest_estimate, self.idle_looks, self.shortfall = np.inf, 0, 0.0
                self.stalled = 0
                self.notes.append(self.choice.reason)
                start = self._where()

    def _where(self) -> Array:
        """The point that was reached."""
        if self.latest is not None:
            return self.latest.point()
        assert self.best is not None
        return self.best.evaluation.coef

    def _prepare(self, warm: bool) -> None:
        """Build the preconditioner, or take the one that is given, and what it knows of H."""
        self.metric = None  # the energies of another plan's iterates were in another norm
        self.guess = None
        if self.choice.is_open:
            self.choice = plan(
                self.problem,
                self.limits.tol,
                self.max_memory,
                self.rng,
                tried=self.choice.tried,
                warm=warm,
            )
        if self.max_memory is not None:
            self.problem.leave_room(self.max_memory - memory_needed(self.problem, self.choice))
        given = self.choice.preconditioner
        if not (isinstance(given, Embedding) and given.reads_once):
            read_rows(self.problem)
        if not isinstance(given, BuiltPreconditioner):
            if self.choice.solver.uses_preconditioner:
                self.preconditioner = given.build(self.problem, self.rng)
                self.guess = getattr(self.preconditioner, "start", None)
                curvature = self.preconditioner.curvature()
                self.metric = curvature if isinstance(curvature, FactorCurvature) else None
                self._learn(curvature)
            if self.choice.probe is not None and isinstance(self.curvature, RidgeCurvature):
                self._learn(self.choice.probe.curvature())  # the smaller sketch, but a sketch
            return
        self.preconditioner = given.at(self.problem.lam)
        if given is self.choice.probe or given.describes(self.problem):
            self._learn(self.preconditioner.curvature())
        else:
            self.notes.append(
                "the preconditioner is a sketch of other data: it serves as it is, and the "
                "certificate does not rely on it"
            )

    def _learn(self, curvature: Curvature) -> None:
        """Rest certificates on this, unless it knows λ alone and something better is at hand."""
        if isinstance(self.curvature, RidgeCurvature) or not isinstance(curvature, RidgeCurvature):
            self.curvature = curvature

    def _iterate(self, start: Array) -> None:
        iterates = self.choice.solver.iterates(self.problem, self.preconditioner, start, self.rng)
        fresh: Evaluation | None = None
        try:
            while self.status is None and self.next_choice is None:
                fresh = self._look(iterates.send(fresh))
        except StopIteration:
            self.status = Status.ENDED

    def _catch_up_after_interrupt(self) -> None:
        """Evaluate the latest point, if that is possible: Ctrl-C may have broken an import."""
        try:
            self._catch_up()
        except (AttributeError, ImportError):
            raise KeyboardInterrupt from None

    def _catch_up(self) -> None:
        """Evaluate the latest point, if the solve was stopped before that."""
        if self.latest is None:
            self._prove_the_guess()
            return
        known = None if self.latest.known is None else self.latest.known()
        evaluation = known or self._evaluated(self.latest)
        if np.all(np.isfinite(evaluation.objective)):
            gap = self._certify(evaluation)
            self._keep(evaluation, gap)
            self.callback = None  # it has had its say
            self._record(evaluation.objective, gap, True, None)

    def _prove_the_guess(self) -> None:
        """Certify a guess that was passed by, if nothing came after it."""
        if self.best is None or self.best.curvature is not None or self.curvature is None:
            return
        guess = self.best.evaluation
        self.best = Best(guess, self._certify(guess), self.curvature)
        self.callback = None
        self._record(guess.objective, self.best.gap, True, None)

    # -- looking at an iterate ---------------------------------------------------------------

    def _look(self, iterate: Iterate) -> Evaluation | None:
        """Judge an iterate; returns a fresh evaluation if the solver should go on from it."""
        if iterate.curvature is not None:
            self.curvature = iterate.curvature
        if iterate.evaluation is not None:
            if self._is_far(iterate):
                self._pass_by(iterate, iterate.evaluation)
            else:
                self._judge(iterate.evaluation, iterate.event, iterate.advances)
            return None
        self.latest = iterate
        if iterate.estimate is not None:
            self._look_at_estimate(iterate, iterate.estimate)
            return None
        if self._is_low_enough(iterate):
            self.tries_objective = False  # once: rounding may stand between
            self._judge(self.problem.evaluate(iterate.lower_point()), iterate.event)
            if self.status is not None:
                return None
            self.latest = iterate
        fresh = self._look_at_running(iterate)
        if fresh is None and self._out_of_budget():
            fresh = self.problem.evaluate(iterate.point())
        if fresh is None:
            return None
        self._judge(fresh, iterate.event)
        return fresh if self.status is None and self._has_drifted(iterate, fresh) else None

    def _is_far(self, iterate: Iterate) -> bool:
        """Whether the preconditioner's guess is far from the goal: a certificate is two solves.

        The solver's own gᵀP⁻¹g tells.
        """
        if iterate.coef is not self.guess or iterate.energy is None or self.best is not None:
            return False
        if self.metric is None or self.curvature is not self.metric:
            return False
        estimate = 0.5 * self.metric.constant * iterate.energy
        goal = self.limits.tol * self.problem.null_objective
        return bool(np.any(estimate > FAR * goal)) and not self._out_of_budget()

    def _pass_by(self, iterate: Iterate, evaluation: Evaluation) -> None:
        """Keep a point for what is certain of it without work: F* is not negative."""
        gap = certified_gap(self.problem, None, evaluation)
        if not np.all(np.isfinite(gap)) or np.all(self._relative(gap) <= self.limits.tol):
            self._judge(evaluation, iterate.event)
            return
        self.latest, self.best = None, Best(evaluation, gap, None)
        self._reconsider(gap)
        self._record(evaluation.objective, gap, True, iterate.event)
        self._save()

    def _is_low_enough(self, iterate: Iterate) -> bool:
        """Whether F itself promises success: it is above F* by no more than its value."""
        if iterate.lower is None or not self.tries_objective:
            return False
        goal = self.limits.tol * self.problem.null_objective
        return bool(np.all(iterate.lower.objective <= goal))

    def _has_drifted(self, iterate: Iterate, fresh: Evaluation) -> bool:
        """Whether the solver should go on from the fresh gradient; learns the certificate's excess.

        A solver that starts again loses what it has built up: a certificate that is missed by a
        little, rounding included, is no reason for that.
        """
        assert self.curvature is not None
        slope = iterate.slope()
        size = np.sqrt(self.curvature.energy(fresh.gradient))
        off = np.sqrt(self.curvature.energy(fresh.gradient - slope))
        drifted = not bool(np.all(off <= DRIFT * size))
        running = size if drifted else self._running_size(iterate)
        self._learn_shortfall(self._certify(fresh), running)
        return drifted

    def _look_at_running(self, iterate: Iterate) -> Evaluation | None:
        """Look at a running gradient, if it is time; what is certain, if it promises success."""
        assert iterate.objective is not None and iterate.energy is not None
        self.looks += 1
        goal = self.limits.tol * self.problem.null_objective
        promising = bool(np.all(self.gap_per_energy * iterate.energy <= goal))
        young = self.looks & (self.looks - 1) == 0  # 1, 2, 4, 8: learn the ratio early
        first_try = self.choice.otherwise is not None  # which should not go on for long in vain
        due = promising or young or iterate.look or first_try
        if not due and self.looks % LOOK_EVERY:
            return None
        if not np.all(np.isfinite(iterate.energy)):
            return self.problem.evaluate(iterate.point())
        assert self.curvature is not None
        size = self._running_size(iterate)
        estimate = 0.5 * self.curvature.constant * (size + self.shortfall) ** 2
        self.gap_per_energy = estimate / np.maximum(iterate.energy, 1e-300)
        self._note_progress(float(np.max(estimate)))
        # Below a tenth of what rounding adds there is nothing more to gain.
        done = (estimate <= goal) | (size < 0.1 * self.shortfall)
        idle = self.idle_looks >= STAGNATION_PATIENCE
        if np.all(done) or idle:
            settled = self._settled(iterate, last=idle)
            if settled is not None:
                return settled
        self._reconsider(estimate)
        self._record(iterate.objective, estimate, False, iterate.event)
        self._save()
        return None

    def _running_size(self, iterate: Iterate) -> Array:
        """The root of gᵀP⁻¹g of a running gradient (t,), for the P of the certificate.

        Where that is the preconditioner, or near it, the solver has done the work.
        """
        assert self.curvature is not None and iterate.energy is not None
        known = self.curvature is self.metric
        return np.sqrt(iterate.energy if known else self.curvature.energy(iterate.slope()))

    def _settled(self, iterate: Iterate, last: bool) -> Evaluation | None:
        """An evaluation of the point: without a pass if that certifies it, else a fresh one.

        None where the preconditioner is only near the P of the certificate, and what it promised
        is not there yet: unless this is to be the last look.
        """
        known = None if iterate.known is None else iterate.known()
        if known is not None:
            gap = self._certify(known)
            if np.all(self._relative(gap) <= self.limits.tol):
                return known
            near = self.metric is not None and not self.metric.exact
            if near and self.curvature is self.metric and not last:
                self._learn_shortfall(gap, self._running_size(iterate))
                return None
        return self.problem.evaluate(iterate.point())

    def _learn_shortfall(self, gap: Array, running: Array) -> None:
        """Remember what a certificate had above its running gradient."""
        assert self.curvature is not None
        certified = np.sqrt(2 * gap / self.curvature.constant)
        self.shortfall = np.maximum(certified - running, 0.0)

    def _look_at_estimate(self, iterate: Iterate, estimate: Array) -> None:
        """Evaluate a point whose gap the solver reckons, if that promises success."""
        assert iterate.objective is not None
        self._note_progress(float(np.max(estimate)))
        idle = self.idle_looks >= STAGNATION_PATIENCE
        goal = self.limits.tol * self.problem.null_objective
        if np.all(estimate <= goal) or idle or self._out_of_budget():
            self._judge(self._evaluated(iterate), iterate.event, advances=not idle)
            return
        self._reconsider(estimate)
        self._record(iterate.objective, estimate, False, iterate.event)
        self._save()

    def _evaluated(self, iterate: Iterate) -> Evaluation:
        """A fresh evaluation of the point, with its dual variables if there are."""
        return self.problem.evaluate(iterate.point(), iterate.duals)

    def _note_progress(self, worst: float) -> None:
        """Count the looks since the estimate went lower; slow progress adds up."""
        if worst < 0.999 * self.lowest_estimate:
            self.lowest_estimate, self.idle_looks = worst, 0
        else:
            self.idle_looks += 1

    def _judge(self, evaluation: Evaluation, event: str | None, advances: bool = False) -> None:
        """Certify an evaluation, keep the best, and decide whether to stop."""
        self.latest = None
        if self._has_diverged(evaluation, advances):
            # A direct solve takes no steps: what grows when it is refined is rounding.
            direct = self.choice.solver.name == "direct"
            self.status = Status.STAGNATED if direct else Status.DIVERGED
            self._record(evaluation.objective, np.full(self.problem.targets, np.inf), True, event)
            return
        gap = self._certify(evaluation)
        if self._should_tighten(evaluation, gap):
            self._tight_curvature()
            gap = self._certify(evaluation)
        before = self.best
        self._keep(evaluation, gap)
        self.status = self._verdict(before, evaluation, advances)
        if self.status is Status.STAGNATED and self.choice.fallback is not None:
            # How much rounding may hide depends on P: another one may certify more.
            self.status, self.next_choice = None, fallen_back(self.choice, "can certify no more")
        self._reconsider(gap)
        self._record(evaluation.objective, gap, True, event)
        self._save()

    def _reconsider(self, gap: Array) -> None:
        """Change the plan if the solver is slower than a method whose cost is sure."""
        worst = float(np.max(self._relative(gap)))
        left = self.pace.remaining(self.problem.passes, worst, self.limits.tol)
        if self.status is None and self.next_choice is None:
            self.next_choice = changed(self.choice, self.problem.passes, left)

    def _verdict(
        self, before: Best | None, evaluation: Evaluation, advances: bool
    ) -> Status | None:
        """Whether to stop, and why."""
        assert self.best is not None
        if np.all(self._relative(self.best.gap) <= self.limits.tol):
            return Status.CONVERGED
        if self.problem.passes >= self.limits.passes:
            return Status.MAX_PASSES
        if self._out_of_budget():
            return Status.MAX_SECONDS
        if self._is_stuck(before, evaluation, advances):
            return Status.STAGNATED
        return None

    def _has_diverged(self, evaluation: Evaluation, advances: bool) -> bool:
        if not np.all(np.isfinite(evaluation.objective)):
            return True
        if self.best is None or advances:
            return False
        largest = np.maximum(self.best.evaluation.objective, self.problem.null_objective)
        return bool(np.any(evaluation.objective > DIVERGED_FACTOR * largest))

    def _is_stuck(self, before: Best | None, evaluation: Evaluation, advances: bool) -> bool:
        """No progress for a while, or nothing left to certify but rounding."""
        assert self.best is not None
        goal = self.limits.tol * self.problem.null_objective
        floor = rounding_floor(self.problem, self.curvature, self.best.evaluation)
        at_floor = (self.best.gap <= goal) | ((self.best.gap <= 2 * floor) & (floor > goal))
        if np.all(at_floor):
            return True
        # Below the lowest F: the best point has the smallest certificate, and perhaps a larger F.
        descent = self.lowest_objective - evaluation.objective
        self.lowest_objective = np.minimum(self.lowest_objective, evaluation.objective)
        if before is None or advances:
            return False
        descending = descent > 16 * EPSILON * self.problem.null_objective
        tightening = self.best.gap < 0.999 * before.gap
        self.stalled = 0 if np.any(descending | tightening) else self.stalled + 1
        return self.stalled >= STAGNATION_PATIENCE

    def _out_of_budget(self) -> bool:
        spent = time.perf_counter() - self.began
        return self.problem.passes >= self.limits.passes or spent >= self.limits.seconds

    # -- certifying --------------------------------------------------------------------------

    def _certify(self, evaluation: Evaluation) -> Array:
        """The certified gap (t,): of the last evaluation it is kept, for it may cost two solves."""
        last = self.certified
        if last is None or last[0] is not evaluation or last[1] is not self.curvature:
            gap = certified_gap(self.problem, self.curvature, evaluation)
            last = self.certified = (evaluation, self.curvature, gap)
        return last[2]

    def _should_tighten(self, evaluation: Evaluation, gap: Array) -> bool:
        """Whether a sketch for the certificate alone would pay.

        Without a sketch the certificate is ‖g‖² / 2λ, often a million times the truth at a small
        λ. A sketch buys a better one, when the objective's progress says that the end is near and
        as much as it costs has been spent: at a large λ ‖g‖² / 2λ may do, a little later.
        Conjugate gradients do without: their smoothed points make ‖g‖² small as soon.
        """
        if not isinstance(self.curvature, RidgeCurvature):
            return False
        if np.all(self._relative(gap) <= self.limits.tol):
            return False
        if evaluation.duals is not None and np.all(gap < self._certify(evaluation.without_duals())):
            return False  # the dual variables tell more
        if self._out_of_budget():
            return True
        dense = isinstance(self.problem.X, np.ndarray)
        if self.best is None or self.problem.passes < (DENSE_SKETCH if dense else SPARSE_SKETCH):
            return False
        progress = self.best.evaluation.objective - evaluation.objective
        return bool(np.all(progress <= self.limits.tol * self.problem.null_objective))

    def _tight_curvature(self) -> Curvature:
        """The curvature, sketched now if nothing is known of H but λ."""
        if isinstance(self.curvature, RidgeCurvature):
            rank = min(CERTIFICATE_RANK, self.problem.n, self.problem.d)
            krylov = random_range(self.problem, rank, self.certificate_rng)
            self.curvature = SketchCurvature(krylov.nystrom(), self.problem.lam)
            self.shortfall = 0.0
            self.notes.append(f"a Nyström sketch of rank {rank} was made for the certificate")
            if self.best is not None:
                best = self.best.evaluation
                self.best = Best(best, self._certify(best), self.curvature)
        assert self.curvature is not None
        return self.curvature

    def _keep(self, evaluation: Evaluation, gap: Array) -> None:
        """Keep, target by target, the point with the smallest certified gap."""
        if self.best is None:
            self.best = Best(evaluation, gap, self.curvature)
            return
        better = gap < self.best.gap
        self.best = Best(
            self.best.evaluation.replaced(by=evaluation, where=better),
            np.where(better, gap, self.best.gap),
            self.curvature,
        )

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
        """Write the checkpoint: the running point, or the best of those evaluated."""
        if self.checkpoint is None:
            return
        if not force and time.perf_counter() - self.saved_at < CHECKPOINT_SECONDS:
            return
        if self.latest is not None and not force:
            coef: Array | None = self.latest.point()
        else:
            coef = self.best.evaluation.coef if self.best is not None else None
        if coef is not None and np.all(np.isfinite(coef)):
            self.checkpoint.write(coef)
            self.saved_at = time.perf_counter()

    def solution(self, flat: bool, notes: list[str]) -> Solution:
        """The best point with everything that is known of it."""
        assert self.best is not None and self.status is not None
        best, gap = self.best.evaluation, self.best.gap
        relative = self._relative(gap)
        explained = np.maximum(self.problem.null_objective - best.objective, 0.0)
        explained_gap = np.divide(
            gap, explained, out=np.where(gap > 0, np.inf, 0.0), where=explained > 0
        )

        def shaped(values: NDArray[Any]) -> Any:
            return values[0].item() if flat else values

        counter = self.best.curvature or RidgeCurvature(np.finfo(np.float64).tiny)
        return Solution(
            coef=best.coef[:, 0].copy() if flat else np.ascontiguousarray(best.coef.T),
            intercept=shaped(self.problem.intercept(best.coef)),
            objective=shaped(best.objective),
            gap=shaped(gap),
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
            trace_bounds=self.problem.trace_bounds,
            _counter=counter.counter(),
        )

    def _plan(self, notes: list[str]) -> Plan:
        events = [record.event for record in self.history if record.event]
        used = self.choice.solver.uses_preconditioner  # a plan before this one may have had one
        return Plan(
            self.choice.solver.name,
            self.preconditioner.name if used else NoPreconditioner.name,
            self.preconditioner.rank if used else 0,
            self.choice.reason,
            (*notes, *self.problem.notes, *self.preconditioner.notes, *self.notes, *events[:1]),
            self.choice.forecasts,
        )
