"""The plan for data that has been looked at: the cheapest candidate that fits, or a try."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.costs import Costs, shared_epochs, shuffled_epochs
from sketchridge.machine import Machine, this_machine
from sketchridge.planner.candidates import (
    by_seconds,
    few_rows_candidates,
    narrow_copy_serves,
    rows_of,
    sized_nystrom,
    sketched_candidates,
    sure_candidates,
    those_that_fit,
    unsketched,
)
from sketchridge.planner.choice import Candidate, Choice, memory_needed
from sketchridge.planner.looks import column_squares, dimension_if_cheap, scaling_exponent
from sketchridge.planner.pace import TRIAL_PASSES
from sketchridge.preconditioner import Diagonal, NoPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers import CG, SDCA
from sketchridge.solvers.weighed import threads_for
from sketchridge.validation import read_rows

Array = NDArray[np.float64]

# The rank of the first sketch, which tells of the spectrum; it and TRIAL_PASSES passes are tried
# where that costs at most this share of a sure method.
PROBE_RANK, TRIAL_SHARE = 50, 0.4
# A copy in bytes, where the data allows it, is made if it is at most this share of the memory, and
# if a direct solve takes longer than so many passes: else there will be few.
SHARE_OF_CODES, FEW_PASSES = 0.5, 8.0
# The exponent of the columns' scaling, of sparse data (docs/decisions/09).
TEXT_SCALING = 0.8
# A prediction from the spectrum must be so much better than a sure one to be preferred.
UNSURE = 1.5
# CG without a sketch is tried first where λ is at least this share of the trace, and TRIAL_PASSES
# iterations cost at most this share of anything else.
HOPEFUL, FIRST_SHARE = 1e-5, 0.28
# From this share of the trace on its columns need no scaling.
UNSCALED = 3e-5
# From this one on CG without a sketch nearly always serves, and may cost this share.
SURELY_ENOUGH, SURE_SHARE = 2e-3, 0.9
# Dual coordinate ascent takes sparse data of one target where no row's squared norm, times its
# weight, is more than so many λ. At 5 conjugate gradients were faster on one of two texts.
EASY = 2.5
# Nor where there are more than so many rows a column; and it is given up when it will take about
# twice what was expected (`pace.FIRST_LIMIT` times this).
TALL, SLOWER = 4.0, 1.6


def plan(
    problem: RidgeProblem,
    tol: float,
    max_memory: float | None,
    rng: np.random.Generator,
    machine: Machine | None = None,
    tried: bool = False,
    warm: bool = False,
) -> Choice:
    """The cheapest candidate that fits; sketches the data where that may pay.

    Unless that was tried, CG without a sketch comes first where a few passes of it cost next to
    nothing; the effective dimension is counted after that, where it may pay. A start that is not
    zero (`warm`) is worth something to most methods, but nothing to dual ones.
    """
    limit = np.inf if max_memory is None else max_memory
    costs = _with_codes(problem, machine or this_machine(), limit)
    squares = None if costs.sparse else column_squares(problem)
    sure = those_that_fit(sure_candidates(problem, costs, tol, squares), limit)
    trial = TRIAL_PASSES * costs.cg_iteration(0)
    if squares is None:
        cheap = bool(sure) and trial > TRIAL_SHARE * sure[0].seconds
        if cheap:
            return _decided(problem, sure, limit)
        easy = None if warm else _easy(problem, costs, sure, tol, limit)
        return easy or _for_sparse(problem, costs, sure, tol, limit)
    scaling = scaling_exponent(squares)
    probe = sized_nystrom(problem, min(PROBE_RANK, problem.n, problem.d), scaling)
    with_sketch = costs.nystrom(PROBE_RANK, rows_of(probe), scaled=scaling > 0) + trial
    if not tried:
        otherwise = min([with_sketch, *(candidate.seconds for candidate in sure)])
        first = _first_try(problem, costs, squares, scaling, trial, otherwise)
        if first is not None and memory_needed(problem, first) <= limit:
            return first
    dimension = dimension_if_cheap(problem, costs, sure, limit, rng)
    few = those_that_fit(few_rows_candidates(problem, costs, tol, dimension), limit)
    known = by_seconds([*few, *sure])
    affordable = 8 * probe.memory(problem) <= limit
    # Few rows are as good as any sketch, where they serve: none is made to compare.
    if few or (sure and (not affordable or with_sketch > TRIAL_SHARE * sure[0].seconds)):
        return _decided(problem, known, limit)
    if not affordable:
        return _least(problem, costs, scaling, limit)
    read_rows(problem)
    sketch = probe.build(problem, rng)
    sketched = sketched_candidates(problem, costs, tol, sketch, scaling)
    found = [*sure, *those_that_fit(sketched, limit)]
    return _decided(problem, by_seconds(found), limit, sketch)


def _with_codes(problem: RidgeProblem, machine: Machine, limit: float) -> Costs:
    """The costs, once passes read bytes where the data and the memory allow it, and they matter."""
    costs = Costs.of(problem, machine)
    if costs.sparse or costs.direct() <= FEW_PASSES * costs.a_pass:
        return costs
    least = Candidate.of(problem, CG(), NoPreconditioner(), np.nan, np.nan).memory
    problem.encode(min(SHARE_OF_CODES * limit, limit - least))
    if problem.knows_norms:
        read_rows(problem)
    return Costs.of(problem, machine)


def _first_try(
    problem: RidgeProblem,
    costs: Costs,
    squares: Array,
    scaling: float,
    trial: float,
    otherwise: float,
) -> Choice | None:
    """CG without a sketch, until its pace says that planning (and what follows) takes less.

    Nothing is counted or sketched before it. The columns have mean squares (d,); they are scaled
    where they differ and λ is not large. A trial takes so many seconds, and `otherwise` the
    cheapest of what is known without counting.
    """
    if problem.lam >= UNSCALED * problem.guessed_trace:
        scaling = 0.0
    if trial > _first_share(problem, squares, scaling) * otherwise:
        return None
    method = Candidate.of(problem, CG(), unsketched(scaling), np.nan, np.nan)
    return Choice(
        method.solver,
        method.preconditioner,
        "a few passes of conjugate gradients without a sketch, which might do",
        forecasts=(method.forecast(),),
        seconds_a_pass=costs.cg_iteration(0),
        otherwise=otherwise,
    )


def _first_share(problem: RidgeProblem, squares: Array, scaling: float) -> float:
    """The share of anything else that a first try may cost; the columns' mean squares are (d,)."""
    lam, trace = problem.lam, problem.guessed_trace
    if lam < HOPEFUL * trace:
        return 0.0
    if scaling:  # what CG will see: λ and the trace on scaled columns
        shares = lam / (squares + lam)
        lam, trace = float(shares.mean()), float(np.sum(1.0 - shares))
    return FIRST_SHARE if lam < SURELY_ENOUGH * trace else SURE_SHARE


def _easy(
    problem: RidgeProblem, costs: Costs, sure: list[Candidate], tol: float, limit: float
) -> Choice | None:
    """Dual coordinate ascent, where λ makes every row easy; planned anew if it is slower than that.

    Rows that are nearly alike make it slow: where they are many for their columns, or have a
    direction in common that no intercept takes away.
    """
    if problem.targets > 1 or problem.n > TALL * problem.d or not problem.products.own_threads(1):
        return None
    hardest = float(np.max(problem.weights * problem.squared_norms)) / problem.lam
    if hardest > EASY:
        return None
    solver, epochs, epoch = _dual_solver(problem, costs, shuffled_epochs(hardest, tol))
    method = Candidate.of(problem, solver, NoPreconditioner(), epochs + 2, epochs * epoch)
    if method.memory > limit or (sure and sure[0].seconds < method.seconds):
        return None
    others = Candidate.of(problem, CG(), Diagonal(TEXT_SCALING), np.nan, np.nan), *sure
    return Choice(
        method.solver,
        method.preconditioner,
        f"sparse data whose rows are easy at this λ (ω‖x‖² is at most {hardest:.2g} λ): dual "
        f"coordinate ascent, about {method.seconds:.2g} s expected",
        forecasts=tuple(candidate.forecast() for candidate in (method, *others)),
        seconds_a_pass=epoch,
        otherwise=SLOWER * method.seconds,
    )


def _dual_solver(problem: RidgeProblem, costs: Costs, epochs: float) -> tuple[SDCA, float, float]:
    """Dual ascent row by row, which takes so many epochs, or shared by threads where that is less.

    Also its epochs, and the seconds of one.
    """
    threads = threads_for(problem)
    alone, shared = costs.dual_epoch(), costs.weighed_epoch(threads)
    more = shared_epochs(epochs, threads)
    if epochs * alone <= more * shared:
        return SDCA(sampling="shuffled"), epochs, alone
    return SDCA(sampling="shuffled", moves="weighed"), more, shared


def _for_sparse(
    problem: RidgeProblem, costs: Costs, sure: list[Candidate], tol: float, limit: float
) -> Choice:
    """CG on scaled columns, unsketched, or the sure method once the pace shows that it is faster.

    A sketch of sparse data costs as much as a hundred passes, and where the columns are scaled it
    hardly ever saves them: the spectrum of text is flat. So the passes are not foreseen.
    """
    narrow = narrow_copy_serves(problem, tol)
    best = CG("float32" if narrow else "given", rare_columns="eliminated")
    for solver in (best, CG()):
        method = Candidate.of(problem, solver, Diagonal(TEXT_SCALING), np.nan, np.nan)
        if method.memory <= limit:
            break
    else:
        return _decided(problem, sure, limit)
    return Choice(
        method.solver,
        method.preconditioner,
        "sparse data: conjugate gradients on scaled columns, as many passes as it takes"
        + (f"; or {sure[0].label}, {sure[0].seconds:.2g} s, if that is less" if sure else ""),
        forecasts=tuple(candidate.forecast() for candidate in (method, *sure)),
        fallback=sure[0] if sure else None,
        seconds_a_pass=costs.cg_iteration(0, narrow and method.solver is best),
    )


def _least(problem: RidgeProblem, costs: Costs, scaling: float, limit: float) -> Choice:
    """What takes the least memory, where nothing else fits and no sketch does."""
    recipes = unsketched(scaling), NoPreconditioner()
    methods = [Candidate.of(problem, CG(), recipe, np.nan, np.nan) for recipe in recipes]
    method = next((method for method in methods if method.memory <= limit), None)
    if method is None:
        return _decided(problem, [], limit)
    return Choice(
        method.solver,
        method.preconditioner,
        "conjugate gradients without a sketch: max_memory leaves no room for one",
        forecasts=(method.forecast(),),
        seconds_a_pass=costs.cg_iteration(0),
    )


def _decided(
    problem: RidgeProblem, candidates: list[Candidate], limit: float, probe: Any = None
) -> Choice:
    """The cheapest, with the reason, and the cheapest sure one to fall back on."""
    if not candidates:
        least = Candidate.of(problem, CG(), NoPreconditioner(), 0, 0)
        raise ValueError(
            f"max_memory={limit:g} bytes is too little for any solver: conjugate gradients "
            f"without a preconditioner need about {least.memory:.3g}; allow more"
        )
    best = min(candidates, key=lambda each: each.seconds * (1.0 if each.sure else UNSURE))
    others = [other for other in candidates if other.label != best.label]
    reason = f"the cheapest of {len(candidates)} that fit, about {best.seconds:.2g} s expected"
    if best is not candidates[0]:
        reason = f"the cheapest whose cost is sure, about {best.seconds:.2g} s expected"
    if others:
        where = "next" if best is candidates[0] else "with luck"
        reason += f"; {where} {others[0].label}, {others[0].seconds:.2g} s"
    sure = next((other for other in candidates if other.sure), None)
    return Choice(
        best.solver,
        best.preconditioner,
        reason,
        forecasts=tuple(candidate.forecast() for candidate in candidates),
        fallback=None if best.sure else sure,
        seconds_a_pass=best.seconds / best.passes,
        probe=probe,
    )
