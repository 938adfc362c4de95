"""The methods that may be taken, with what each is predicted to cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.costs import (
    STARTS_AT,
    Costs,
    SpectrumGuess,
    embedded_iterations,
    sampled_iterations,
)
from sketchridge.planner.choice import Candidate
from sketchridge.planner.looks import columns_that_count
from sketchridge.preconditioner import (
    Diagonal,
    Embedding,
    NoPreconditioner,
    Nystrom,
    RowSampling,
    ScaledPreconditioner,
)
from sketchridge.preconditioner.embedding import Storage, even_buckets
from sketchridge.preconditioner.flattening import SHIFT
from sketchridge.preconditioner.sketched import FITTED
from sketchridge.problem import RidgeProblem
from sketchridge.solvers import CG, SVRG, Direct

Array = NDArray[np.float64]

# Of a sketch's eigenvalues one in so many, the first ones, are near those of C.
RELIABLE = 5
RANKS = (100, 200, 400, 800)  # of sketches, besides that of the first look
# Rows of a sketch, at least: so many times its rank, and so many. More than half are all.
ROWS_A_DIRECTION, LEAST_ROWS = 6, 2000
# Rows of a sample or an embedding, in units of d; and no more of them than this share of all. The
# many are for tall data, where a pass costs more than their Gram matrix.
SAMPLED = (1.5, 2.0, 3.0, 4.0, 6.0, 12.0, 25.0, 50.0, 100.0)
LARGEST_SAMPLE = 0.6
# Where λ leaves fewer degrees of freedom than this share of d, embeddings have so many rows for
# each of them.
FEW = 0.25
FEW_ROWS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 30.0, 50.0)
# And so many groups of them, each with at least so many rows a degree of freedom, and so many: one
# that has too few, because the count was too small, costs many passes. They are taken where that is
# clearly cheaper than the same rows together.
GROUPS, ROWS_OF_A_GROUP, LEAST_GROUP, CHEAPER = (2, 4, 8), 1.9, 150, 0.93
# Rows of an embedding whose P has a shift, in units of the smaller side.
SHIFTED = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
# Passes besides the iterations: the norms, the sketch, the start and the end, less what is counted.
BESIDES = 2.0
# A copy in float32 serves where its rounding is small beside λ, and where tol is not below it.
NARROWEST_LAM, NARROWEST_TOL = 1e-11, 1e-9
# A factor in float32 serves where λ is at least this share of what its rounding is made up for by.
NARROWEST_FACTOR = 0.3 * SHIFT


def sure_candidates(
    problem: RidgeProblem, costs: Costs, tol: float, squares: Array | None
) -> Iterator[Candidate]:
    """Methods whose cost follows from the shapes and, of dense data, C's diagonal (d,), about."""
    yield Candidate.of(problem, Direct(), NoPreconditioner(), 3, costs.direct(), sure=True)
    counts, most = [share * problem.d for share in SAMPLED], LARGEST_SAMPLE * problem.n
    if squares is not None:
        dimension = columns_that_count(squares, problem.lam)
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


def few_rows_candidates(
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


def sketched_candidates(
    problem: RidgeProblem, costs: Costs, tol: float, sketch: Any, scaling: float
) -> Iterator[Candidate]:
    """Methods whose cost depends on the spectrum; the sketch that there is costs no more."""
    guess, lam = _guess(problem, sketch)
    recipes = [unsketched(scaling), sketch]
    largest = min(problem.n, problem.d) // 2
    recipes += [sized_nystrom(problem, rank, scaling) for rank in RANKS if rank <= largest]
    for recipe in recipes:
        rank, built, late = getattr(recipe, "rank", 0), 0.0, 1.0
        if isinstance(recipe, Nystrom):
            rows = rows_of(recipe)
            built = costs.nystrom(rank, rows, scaled=scaling > 0)
            late = problem.n / (rows or problem.n)
        iterations = guess.cg_iterations(rank, lam, tol / late)
        for solver, narrow in _storages(problem, costs, tol, iterations):
            seconds = built + costs.narrow_copy() * narrow
            seconds += (iterations + BESIDES) * costs.cg_iteration(rank, narrow)
            yield Candidate.of(problem, solver, recipe, iterations + BESIDES, seconds)
    if not scaling:
        yield from shifted_candidates(problem, costs, tol, guess)
        epochs = guess.svrg_epochs(sketch.rank, lam, tol, problem.n)
        yield Candidate.of(problem, SVRG(), sketch, 2 * epochs + 3, epochs * costs.epoch())


def shifted_candidates(
    problem: RidgeProblem, costs: Costs, tol: float, guess: SpectrumGuess
) -> Iterator[Candidate]:
    """Embeddings into fewer rows than λ has degrees of freedom: P has a larger μ in its place."""
    counts = [max(1.0, share * guess.count) for share in SHIFTED]
    for rows in _even_rows(counts, problem.n, problem.n):
        shift = guess.shift(rows, problem.lam)
        late = max(problem.n / rows, shift / problem.lam)
        iterations = guess.shifted_iterations(rows, problem.lam, tol / late)
        yield from _embedded(problem, costs, tol, rows, iterations, shift=shift)


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
        yield Candidate.of(problem, solver, recipe, iterations + BESIDES, seconds, sure)


def _storages(
    problem: RidgeProblem, costs: Costs, tol: float, iterations: float
) -> Iterator[tuple[CG, bool]]:
    """CG with the data as given, and with a copy in float32 where that would pay."""
    yield CG(), False
    if not narrow_copy_serves(problem, tol) or costs.coded:
        return
    if costs.narrow_copy() < 0.5 * iterations * costs.a_pass:
        yield CG(storage="float32"), True


def narrow_copy_serves(problem: RidgeProblem, tol: float) -> bool:
    """Whether passes over a copy in float32 are good enough, and faster."""
    safe = problem.lam >= NARROWEST_LAM * problem.guessed_trace and tol >= NARROWEST_TOL
    return safe and problem.narrows and problem.products.own_threads(problem.targets)


def unsketched(scaling: float) -> Any:
    """What preconditions without a sketch: the columns' scaling, if they are scaled."""
    return Diagonal(scaling) if scaling else NoPreconditioner()


def sized_nystrom(problem: RidgeProblem, rank: int, scaling: float) -> Nystrom:
    """A sketch of the rank, of as many rows as it needs."""
    rows = max(ROWS_A_DIRECTION * rank, LEAST_ROWS)
    if scaling or 2 * rows > problem.n:
        return Nystrom(rank=rank, scaling=scaling)
    return Nystrom(rank=rank, rows=rows)


def rows_of(sketch: Nystrom) -> int | None:
    """Of how many rows a sketch is; None for all."""
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


def those_that_fit(candidates: Iterator[Candidate], limit: float) -> list[Candidate]:
    """Those that fit, in order; where only the factor's storage differs, the cheaper one."""
    cheapest: dict[Any, Candidate] = {}
    for candidate in by_seconds([each for each in candidates if each.memory <= limit]):
        cheapest.setdefault((candidate.solver, _but_for_storage(candidate)), candidate)
    return list(cheapest.values())


def _but_for_storage(candidate: Candidate) -> Any:
    recipe = candidate.preconditioner
    if isinstance(recipe, Embedding):
        return recipe.kind, recipe.rows, recipe.shift, recipe.groups
    return recipe


def by_seconds(candidates: list[Candidate]) -> list[Candidate]:
    """In order, the cheapest first."""
    return sorted(candidates, key=lambda candidate: candidate.seconds)
