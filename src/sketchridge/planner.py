"""Which solver and preconditioner: by name, by object, or the cheapest of those that fit.

"auto" is decided in two steps. From the shapes alone, before anything is read: small problems are
factorised at once, without a thought. For the rest a small sketch tells of the spectrum, the
machine's speeds turn work into seconds, and the cheapest candidate that fits the memory is taken;
the sketch is used again. If the solver then contracts more slowly than a sure method would take
from the beginning, the plan changes to that one, and goes on from the point that was reached.
Predictions decide, never the clock: the same input, seed and machine file give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.costs import (
    STARTS_AT,
    Costs,
    SpectrumGuess,
    embedded_iterations,
    sampled_iterations,
    shared_epochs,
    shuffled_epochs,
)
from sketchridge.machine import Machine, this_machine
from sketchridge.preconditioner import (
    PRECONDITIONERS,
    BuiltPreconditioner,
    Diagonal,
    Embedding,
    NoPreconditioner,
    Nystrom,
    PreconditionerSpec,
    Rank,
    RowSampling,
    ScaledPreconditioner,
    counted_dimension,
    counting_memory,
)
from sketchridge.preconditioner.embedding import Storage, even_buckets
from sketchridge.preconditioner.narrow import SHIFT
from sketchridge.preconditioner.sketched import FITTED
from sketchridge.problem import ROWS_LOOKED_AT, RidgeProblem
from sketchridge.solution import Forecast
from sketchridge.solvers import (
    CG,
    SDCA,
    SOLVERS,
    SVRG,
    AcceleratedSVRG,
    Direct,
    Solver,
    check_allowed,
)
from sketchridge.solvers.weighed import threads_for
from sketchridge.validation import check_rank, read_rows

Array = NDArray[np.float64]

# A normal matrix of so many multiplications is factorised in less time than it takes to plan.
SMALL_DIRECT = 2e8
# Where nothing is measured, because the preconditioner is given, the old rule of thumb decides.
DIRECT_SIZE = 2000
PROBE_RANK = 50
# One in so many of its eigenvalues, the first ones, are near those of C.
RELIABLE = 5
RANKS = (100, 200, 400, 800)
# Rows of a sketch, at least: so many times its rank, and so many. More than half are all.
ROWS_A_DIRECTION, LEAST_ROWS = 6, 2000
# Rows of a sample or an embedding, in units of d; and no more of them than this share of all. The
# many are for tall data, where a pass costs more than their Gram matrix.
SAMPLED = (1.5, 2.0, 3.0, 4.0, 6.0, 12.0, 25.0, 50.0, 100.0)
LARGEST_SAMPLE = 0.6
# Where λ leaves few degrees of freedom fewer rows do. A sample of so many counts them, where that
# costs at most this share of a sure method and d is not small. They decide the rows where they are
# fewer than this share of d.
COUNTED_ROWS, COUNTED_SHARE = 250, 0.02
FEW = 0.25
FEW_ROWS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 30.0, 50.0)
# And so many groups of them, each with at least so many rows a degree of freedom, and so many: one
# that has too few, because the count was too small, costs many passes. They are taken where that is
# clearly cheaper than the same rows together.
GROUPS, ROWS_OF_A_GROUP, LEAST_GROUP, CHEAPER = (2, 4, 8), 1.9, 150, 0.93
# Rows of an embedding whose P has a shift, in units of the smaller side.
SHIFTED = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
# A copy in bytes, where the data allows it, is made if it is at most this share of the memory, and
# if a direct solve takes longer than so many passes: else there will be few.
SHARE_OF_CODES, FEW_PASSES = 0.5, 8.0
# Passes besides the iterations: the norms, the sketch, the start and the end, less what is counted.
BESIDES = 2.0
# A copy in float32 serves where its rounding is small beside λ, and where tol is not below it.
NARROWEST_LAM, NARROWEST_TOL = 1e-11, 1e-9
# A factor in float32 serves where λ is at least this share of what its rounding is made up for by.
NARROWEST_FACTOR = 0.3 * SHIFT
# Columns whose mean squares differ by more than this are scaled before the sketch.
UNEVEN_COLUMNS = 1e4
# The exponent of the columns' scaling, of sparse data (docs/decisions/09).
TEXT_SCALING = 0.8
# A prediction from the spectrum must be so much better than a sure one to be preferred.
UNSURE = 1.5
# What the spectrum alone cannot tell is found out by trying: a sketch and so many passes, where
# that costs no more than this share of a method whose cost is sure.
TRIAL_PASSES = 8.0
TRIAL_SHARE = 0.4
# CG without a sketch is tried first where λ is at least this share of the trace, and as many
# iterations are at most this share of anything else.
HOPEFUL = 1e-5
FIRST_SHARE = 0.28
# From this share on its columns need no scaling, and from this one on it nearly always does.
UNSCALED = 3e-5
SURELY_ENOUGH = 2e-3
SURE_SHARE = 0.9
FIRST_LIMIT = 1.25
# Dual coordinate ascent takes sparse data of one target where no row's squared norm, times its
# weight, is more than so many λ. At 5 conjugate gradients were faster on one of two texts.
EASY = 2.5
# Nor where there are more than so many rows a column; and it is given up when it will take about
# twice what was expected (`FIRST_LIMIT` times this).
TALL = 4.0
SLOWER = 1.6


@dataclass(frozen=True)
class Choice:
    """A solver, what preconditions it, and the reason in words."""

    solver: Solver
    preconditioner: PreconditionerSpec | BuiltPreconditioner
    reason: str
    is_open: bool = False  # whether `plan` is to decide, once the data has been read
    forecasts: tuple[Forecast, ...] = ()
    fallback: Candidate | None = None  # a sure method, for when this one is slower than expected
    seconds_a_pass: float = 0.0  # of this method, as predicted
    probe: Any = None  # the sketch that the plan was made with, for the certificate
    otherwise: float | None = None  # of what may be planned anew: the seconds that it should take
    tried: bool = False  # whether that was tried before


@dataclass(frozen=True)
class Candidate:
    """A method with its predicted cost."""

    solver: Solver
    preconditioner: PreconditionerSpec | BuiltPreconditioner
    passes: float
    seconds: float  # all of it
    memory: int  # bytes beyond X
    sure: bool = False  # whether the prediction does not depend on the spectrum

    @property
    def label(self) -> str:
        """The method in a few words."""
        name = self.preconditioner.name
        if name == NoPreconditioner.name:
            return self._solver
        size = getattr(self.preconditioner, "rank", getattr(self.preconditioner, "rows", None))
        narrow = getattr(self.preconditioner, "storage", None) == "float32"
        groups = getattr(self.preconditioner, "groups", 1)
        rows = (f" {size}" if size else "") + (f" in {groups} groups" if groups > 1 else "")
        return f"{self._solver} with {name}{rows}" + " (32 bits)" * narrow

    @property
    def _solver(self) -> str:
        narrow = isinstance(self.solver, CG) and self.solver.storage == "float32"
        return self.solver.name + (" in float32" if narrow else "")

    def forecast(self) -> Forecast:
        """For the plan."""
        return Forecast(self.label, self.passes, self.seconds, self.memory)


def choose(problem: RidgeProblem, solver: Any, preconditioner: Any, rank: Any) -> Choice:
    """Resolve names, objects and "auto" into a solver and a preconditioner; X is not read."""
    reason = "as asked"
    rank = check_rank(rank)
    if _is(preconditioner, "none") or _is_built_identity(preconditioner):
        preconditioner = NoPreconditioner()
    is_open = False
    if _is(solver, "auto"):
        solver, reason, is_open = _rule(problem, preconditioner, rank)
    solver = _resolve(solver, SOLVERS, "solver")
    if problem.given_lam == 0 and solver.name != "direct":
        raise ValueError(
            f"lam=0 cannot be solved by {solver.name!r}: give lam > 0, or solver='direct', which "
            "finds the minimum-norm solution"
        )
    if _is(preconditioner, "auto"):
        preconditioner = solver.default_preconditioner
    return Choice(solver, _with_rank(preconditioner, rank, solver, problem), reason, is_open)


def _is(given: Any, name: str) -> bool:
    return isinstance(given, str) and given == name


def _is_built_identity(given: Any) -> bool:
    return isinstance(given, BuiltPreconditioner) and given.name == NoPreconditioner.name


def _rule(problem: RidgeProblem, preconditioner: Any, rank: Rank) -> tuple[str, str, bool]:
    """A solver from the shapes, the reason, and whether the data is to be asked."""
    size = min(problem.n, problem.d)
    plain = isinstance(preconditioner, NoPreconditioner)
    if rank != "auto" or not (plain or _is(preconditioner, "auto")):
        return "cg", "conjugate gradients, for a preconditioner or its rank was given", False
    if problem.given_lam == 0:
        return "direct", "λ = 0, which only the direct solver can do", False
    if float(problem.n) * problem.d * size <= SMALL_DIRECT:
        return "direct", f"{problem.n} × {problem.d} is small enough to factorise", False
    if not plain:
        return "cg", "", True
    if size <= DIRECT_SIZE:
        return "direct", f"the smaller side is {size}, small enough to factorise", False
    return (
        "cg",
        f"the smaller side is {size}: too large to factorise, so conjugate gradients",
        False,
    )


def _resolve(given: Any, registry: dict[str, type[Any]], argument: str) -> Any:
    if not isinstance(given, str):
        if isinstance(given, tuple(registry.values())):
            return given
        raise TypeError(
            f"{argument}={given!r} is not a {argument}: give a name ({', '.join(registry)}) or "
            "an object of its class"
        )
    if given not in registry:
        raise ValueError(f"{argument}={given!r} is unknown: choose auto, {', '.join(registry)}")
    return registry[given]()


def _with_rank(
    preconditioner: Any, rank: Rank, solver: Solver, problem: RidgeProblem
) -> PreconditionerSpec | BuiltPreconditioner:
    """The preconditioner as a recipe of the given rank, or as it was built."""
    named = isinstance(preconditioner, str)
    built = isinstance(preconditioner, BuiltPreconditioner)
    spec: Any = (
        preconditioner if built else _resolve(preconditioner, PRECONDITIONERS, "preconditioner")
    )
    check_allowed(solver, spec)
    if built:
        _check_built(spec, rank, problem)
    elif rank != "auto":
        if not hasattr(spec, "rank"):
            raise ValueError(
                f"rank={rank} has no meaning for solver={solver.name!r} with "
                f"preconditioner={spec.name!r}: leave it at 'auto'"
            )
        if not named:
            raise ValueError(
                f"rank={rank} and a preconditioner object: give the rank to the object"
            )
        spec = type(spec)(rank=rank)
    spec.directions(problem)
    recipe: PreconditionerSpec | BuiltPreconditioner = spec
    return recipe


def _check_built(built: BuiltPreconditioner, rank: Any, problem: RidgeProblem) -> None:
    if rank != "auto":
        raise ValueError(f"rank={rank} cannot change a preconditioner that is built already")
    if built.columns != problem.d:
        raise ValueError(
            f"preconditioner was built for {built.columns} columns and X has {problem.d}: "
            "build one for this data"
        )


def memory_needed(problem: RidgeProblem, choice: Choice) -> int:
    """Bytes beyond X that the choice will hold at its peak, about."""
    vectors = (6 * problem.d + 4 * problem.n) * problem.targets
    numbers = choice.preconditioner.memory(problem)
    rank = choice.preconditioner.directions(problem)
    if isinstance(choice.solver, AcceleratedSVRG) and not choice.preconditioner.low_rank:
        numbers += choice.solver.memory_by_columns(problem, rank)
    else:
        numbers += choice.solver.memory(problem, rank)
    return 8 * (vectors + numbers) + problem.code_bytes


# ----------------------------------------------------------------------------------------
# Planning with the data at hand
# ----------------------------------------------------------------------------------------


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
    squares = None if costs.sparse else _column_squares(problem)
    sure = _fitting(_sure_candidates(problem, costs, tol, squares), limit)
    trial = TRIAL_PASSES * costs.cg_iteration(0)
    if squares is None:
        cheap = bool(sure) and trial > TRIAL_SHARE * sure[0].seconds
        if cheap:
            return _decided(problem, sure, limit)
        easy = None if warm else _easy(problem, costs, sure, tol, limit)
        return easy or _for_sparse(problem, costs, sure, tol, limit)
    scaling = _scaling(squares)
    probe = _nystrom(problem, min(PROBE_RANK, problem.n, problem.d), scaling)
    with_sketch = costs.nystrom(PROBE_RANK, _rows(probe), scaled=scaling > 0) + trial
    if not tried:
        otherwise = min([with_sketch, *(candidate.seconds for candidate in sure)])
        first = _first_try(problem, costs, squares, scaling, trial, otherwise)
        if first is not None and memory_needed(problem, first) <= limit:
            return first
    dimension = _dimension(problem, costs, sure, limit, rng)
    few = _fitting(_few_rows_candidates(problem, costs, tol, dimension), limit)
    known = _in_order([*few, *sure])
    affordable = 8 * probe.memory(problem) <= limit
    # Few rows are as good as any sketch, where they serve: none is made to compare.
    if few or (sure and (not affordable or with_sketch > TRIAL_SHARE * sure[0].seconds)):
        return _decided(problem, known, limit)
    if not affordable:
        return _least(problem, costs, scaling, limit)
    read_rows(problem)
    sketch = probe.build(problem, rng)
    sketched = _sketched_candidates(problem, costs, tol, sketch, scaling)
    found = [*sure, *_fitting(sketched, limit)]
    return _decided(problem, _in_order(found), limit, sketch)


def _with_codes(problem: RidgeProblem, machine: Machine, limit: float) -> Costs:
    """The costs, once passes read bytes where the data and the memory allow it, and they matter."""
    costs = Costs.of(problem, machine)
    if costs.sparse or costs.direct() <= FEW_PASSES * costs.a_pass:
        return costs
    least = _candidate(problem, CG(), NoPreconditioner(), np.nan, np.nan).memory
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
    method = _candidate(problem, CG(), _unsketched(scaling), np.nan, np.nan)
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


def _unsketched(scaling: float) -> Any:
    return Diagonal(scaling) if scaling else NoPreconditioner()


def _fitting(candidates: Iterator[Candidate], limit: float) -> list[Candidate]:
    """Those that fit, in order; where only the factor's storage differs, the cheaper one."""
    cheapest: dict[Any, Candidate] = {}
    for candidate in _in_order([each for each in candidates if each.memory <= limit]):
        cheapest.setdefault((candidate.solver, _but_for_storage(candidate)), candidate)
    return list(cheapest.values())


def _but_for_storage(candidate: Candidate) -> Any:
    recipe = candidate.preconditioner
    if isinstance(recipe, Embedding):
        return recipe.kind, recipe.rows, recipe.shift, recipe.groups
    return recipe


def _in_order(candidates: list[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda candidate: candidate.seconds)


def _dimension(
    problem: RidgeProblem,
    costs: Costs,
    sure: list[Candidate],
    limit: float,
    rng: np.random.Generator,
) -> float:
    """The effective dimension, or d where counting it would cost too much."""
    worth = sure and costs.sampled_rows(COUNTED_ROWS) <= COUNTED_SHARE * sure[0].seconds
    fits = counting_memory(COUNTED_ROWS) <= limit
    if not worth or not fits or min(problem.n, problem.d) < 4 * COUNTED_ROWS:
        return float(problem.d)
    counted = max(1.0, counted_dimension(problem, COUNTED_ROWS, rng))
    return min(counted, float(problem.d))


def _few_rows_candidates(
    problem: RidgeProblem, costs: Costs, tol: float, dimension: float
) -> Iterator[Candidate]:
    """Embeddings into fewer rows than d, where the effective dimension is small beside it."""
    if dimension > FEW * problem.d:
        return
    most = LARGEST_SAMPLE * min(problem.n, problem.d)
    for rows in _even_rows([share * dimension for share in FEW_ROWS], most, problem.n):
        together: list[Candidate] = []
        for groups in (1, *GROUPS):
            if groups > 1 and rows < groups * max(LEAST_GROUP, ROWS_OF_A_GROUP * dimension):
                break
            iterations = embedded_iterations(rows, problem.n, dimension, tol, STARTS_AT, groups)
            found = list(_embedded(problem, costs, tol, rows, iterations, groups=groups))
            together = together or found
            for one, each in zip(together, found, strict=True):
                if groups == 1 or each.seconds <= CHEAPER * one.seconds:
                    yield each


def _even_rows(counts: list[float], most: float, n: int) -> list[int]:
    """Numbers of embedded rows, near those that are not too many, with buckets as full."""
    even = (even_buckets(int(count), n) for count in counts if 1 <= count <= most)
    return list(dict.fromkeys(even))


def _column_squares(problem: RidgeProblem) -> Array:
    """About C's diagonal (d,), of dense data, by a few rows; NaN where none of them counts."""
    places = slice(None, None, max(1, problem.n // ROWS_LOOKED_AT))
    some, weights = problem.X[places], problem.weights[places]
    if not weights.any():
        return np.full(problem.d, np.nan)
    shares = weights / weights.sum()
    if problem.fit_intercept:
        some = some - shares @ some
    squares: Array = np.einsum("i,ij,ij->j", shares, some, some, dtype=np.float64)
    return squares


def _columns_that_count(squares: Array, lam: float) -> float:
    """About the effective dimension, or more: x/(x + λ) is concave, and C's diagonal is at hand.

    What is no number is left for the reading of the rows to tell.
    """
    known = np.isfinite(squares)
    shares = squares[known] / (squares[known] + lam)
    return max(1.0, float(shares.sum() + np.sum(~known)))


def _scaling(squares: Array) -> float:
    """The exponent of the columns' scaling, of dense data: 1 for columns that differ."""
    positive = squares[squares > 0]
    uneven = positive.size > 0 and positive.max() > UNEVEN_COLUMNS * float(np.median(positive))
    return 1.0 if uneven else 0.0


def _nystrom(problem: RidgeProblem, rank: int, scaling: float) -> Nystrom:
    """A sketch of the rank, of as many rows as it needs."""
    rows = max(ROWS_A_DIRECTION * rank, LEAST_ROWS)
    if scaling or 2 * rows > problem.n:
        return Nystrom(rank=rank, scaling=scaling)
    return Nystrom(rank=rank, rows=rows)


def _rows(sketch: Nystrom) -> int | None:
    return None if sketch.rows == "all" else sketch.rows


def _guess(problem: RidgeProblem, sketch: Any) -> tuple[SpectrumGuess, float]:
    """The spectrum that the sketch is of, and the λ that goes with it."""
    trace, lam = problem.trace, problem.lam
    if isinstance(sketch, ScaledPreconditioner):
        shares = lam / sketch.scale
        trace, lam = float(np.sum(1.0 - shares)), float(np.mean(shares))
    # The last values of a Nyström sketch are far too small, and the law begins at the last taken.
    values = sketch.spectrum.values
    values = values[: max(1, values.size // RELIABLE)]
    rest = max(0.0, trace - float(values.sum()))
    return SpectrumGuess(values, rest, min(problem.n, problem.d)), lam


def _candidate(
    problem: RidgeProblem,
    solver: Solver,
    preconditioner: Any,
    passes: float,
    seconds: float,
    sure: bool = False,
) -> Candidate:
    memory = memory_needed(problem, Choice(solver, preconditioner, ""))
    return Candidate(solver, preconditioner, passes, seconds, memory, sure)


def _sure_candidates(
    problem: RidgeProblem, costs: Costs, tol: float, squares: Array | None
) -> Iterator[Candidate]:
    """Methods whose cost follows from the shapes and, of dense data, C's diagonal (d,), about."""
    yield _candidate(problem, Direct(), NoPreconditioner(), 3, costs.direct(), sure=True)
    counts, most = [share * problem.d for share in SAMPLED], LARGEST_SAMPLE * problem.n
    if squares is not None:
        dimension = _columns_that_count(squares, problem.lam)
        for rows in _even_rows(counts, most, problem.n):
            start = STARTS_AT if dimension <= FITTED * rows else 1.0
            iterations = embedded_iterations(rows, problem.n, dimension, tol, start)
            yield from _embedded(problem, costs, tol, rows, iterations, sure=True)
        return
    for rows in (int(count) for count in counts if count <= most):
        iterations, built = sampled_iterations(rows, problem.d, tol), costs.sampled_rows(rows)
        yield from _factored(
            problem, costs, tol, RowSampling(rows=rows), iterations, built, sure=True
        )


def _embedded(
    problem: RidgeProblem,
    costs: Costs,
    tol: float,
    rows: int,
    iterations: float,
    shift: float = 0.0,
    sure: bool = False,
    groups: int = 1,
) -> Iterator[Candidate]:
    """CG with an embedding into so many rows, in either storage."""
    bears = problem.lam >= NARROWEST_FACTOR * problem.guessed_trace
    storages: list[Storage] = ["float64"]
    if bears and problem.targets == 1:
        storages.append("float32")
    for storage in storages:
        recipe = Embedding(rows, "countsketch", storage, shift, groups)
        built = costs.embedded_rows(rows, storage == "float32", groups)
        yield from _factored(problem, costs, tol, recipe, iterations, built, sure)


def _factored(
    problem: RidgeProblem,
    costs: Costs,
    tol: float,
    recipe: RowSampling | Embedding,
    iterations: float,
    built: float,
    sure: bool,
) -> Iterator[Candidate]:
    """CG with the factor of a few rows, which takes so many seconds to build."""
    assert isinstance(recipe.rows, int)
    groups = recipe.groups if isinstance(recipe, Embedding) else 1
    for solver, narrow in _storages(problem, costs, tol, iterations):
        seconds = built + costs.narrow_copy() * narrow
        seconds += (iterations + BESIDES) * costs.factored_iteration(recipe.rows, narrow, groups)
        yield _candidate(problem, solver, recipe, iterations + BESIDES, seconds, sure)


def _storages(
    problem: RidgeProblem, costs: Costs, tol: float, iterations: float
) -> Iterator[tuple[CG, bool]]:
    """CG with the data as given, and with a copy in float32 where that would pay."""
    yield CG(), False
    if not _narrows(problem, tol) or costs.coded:
        return
    if costs.narrow_copy() < 0.5 * iterations * costs.a_pass:
        yield CG(storage="float32"), True


def _narrows(problem: RidgeProblem, tol: float) -> bool:
    """Whether passes over a copy in float32 are good enough, and faster."""
    safe = problem.lam >= NARROWEST_LAM * problem.guessed_trace and tol >= NARROWEST_TOL
    return safe and problem.narrows and problem.products.own_threads(problem.targets)


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
    method = _candidate(problem, solver, NoPreconditioner(), epochs + 2, epochs * epoch)
    if method.memory > limit or (sure and sure[0].seconds < method.seconds):
        return None
    others = _candidate(problem, CG(), Diagonal(TEXT_SCALING), np.nan, np.nan), *sure
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
    narrow = _narrows(problem, tol)
    best = CG("float32" if narrow else "given", rare_columns="eliminated")
    for solver in (best, CG()):
        method = _candidate(problem, solver, Diagonal(TEXT_SCALING), np.nan, np.nan)
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


def _sketched_candidates(
    problem: RidgeProblem, costs: Costs, tol: float, sketch: Any, scaling: float
) -> Iterator[Candidate]:
    """Methods whose cost depends on the spectrum; the sketch that there is costs no more."""
    guess, lam = _guess(problem, sketch)
    recipes = [_unsketched(scaling), sketch]
    largest = min(problem.n, problem.d) // 2
    recipes += [_nystrom(problem, rank, scaling) for rank in RANKS if rank <= largest]
    for recipe in recipes:
        rank, built, late = getattr(recipe, "rank", 0), 0.0, 1.0
        if isinstance(recipe, Nystrom):
            rows = _rows(recipe)
            built = costs.nystrom(rank, rows, scaled=scaling > 0)
            late = problem.n / (rows or problem.n)
        iterations = guess.cg_iterations(rank, lam, tol / late)
        for solver, narrow in _storages(problem, costs, tol, iterations):
            seconds = built + costs.narrow_copy() * narrow
            seconds += (iterations + BESIDES) * costs.cg_iteration(rank, narrow)
            yield _candidate(problem, solver, recipe, iterations + BESIDES, seconds)
    if not scaling:
        yield from _shifted_candidates(problem, costs, tol, guess)
        epochs = guess.svrg_epochs(sketch.rank, lam, tol, problem.n)
        yield _candidate(problem, SVRG(), sketch, 2 * epochs + 3, epochs * costs.epoch())


def _shifted_candidates(
    problem: RidgeProblem, costs: Costs, tol: float, guess: SpectrumGuess
) -> Iterator[Candidate]:
    """Embeddings into fewer rows than λ has degrees of freedom: P has a larger μ in its place."""
    counts = [max(1.0, share * guess.count) for share in SHIFTED]
    for rows in _even_rows(counts, problem.n, problem.n):
        shift = guess.shift(rows, problem.lam)
        late = max(problem.n / rows, shift / problem.lam)
        iterations = guess.shifted_iterations(rows, problem.lam, tol / late)
        yield from _embedded(problem, costs, tol, rows, iterations, shift=shift)


def _least(problem: RidgeProblem, costs: Costs, scaling: float, limit: float) -> Choice:
    """What takes the least memory, where nothing else fits and no sketch does."""
    recipes = _unsketched(scaling), NoPreconditioner()
    methods = [_candidate(problem, CG(), recipe, np.nan, np.nan) for recipe in recipes]
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
        least = _candidate(problem, CG(), NoPreconditioner(), 0, 0)
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


@dataclass
class Pace:
    """How fast the certified gap shrinks with the passes."""

    passes: list[float] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)

    def remaining(self, passes: float, gap: float, goal: float) -> float:
        """The passes that are still needed at the pace since about half of them."""
        self.passes.append(passes)
        self.logs.append(float(np.log(max(gap, 1e-300))))
        if passes - self.passes[0] < TRIAL_PASSES or gap <= goal:
            return 0.0
        middle = int(np.searchsorted(self.passes, (self.passes[0] + passes) / 2))
        gained = self.logs[middle] - self.logs[-1]
        spent = passes - self.passes[middle]
        if spent <= 0:
            return 0.0
        needed = self.logs[-1] - float(np.log(goal))
        return needed * spent / gained if gained > 0 else np.inf


def changed(choice: Choice, spent: float, remaining: float) -> Choice | None:
    """The plan to change to, if the passes that remain would take longer than a sure method.

    A first try must not take longer than a plan, nor dual ascent much longer than was expected, all
    in all: the pace is the best at the beginning.
    """
    if choice.otherwise is not None:
        if (spent + remaining) * choice.seconds_a_pass <= FIRST_LIMIT * choice.otherwise:
            return None
        reason = f"{choice.solver.name} would need {remaining:.0f} passes more: planned anew"
        return replace(choice, is_open=True, otherwise=None, tried=True, reason=reason)
    other = choice.fallback
    if other is None or remaining * choice.seconds_a_pass <= other.seconds:
        return None
    return fallen_back(choice, f"would need {remaining:.0f} passes more")


def fallen_back(choice: Choice, why: str) -> Choice:
    """The choice's sure method instead, with the reason."""
    other = choice.fallback
    assert other is not None
    reason = (
        f"{choice.solver.name} with {choice.preconditioner.name} {why}, so the plan changed to "
        f"{other.label}, {other.seconds:.2g} s expected"
    )
    return replace(
        choice,
        solver=other.solver,
        preconditioner=other.preconditioner,
        reason=reason,
        fallback=None,
    )
