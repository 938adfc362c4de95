"""Which solver and preconditioner: by name, by object, or by a rule from the shape of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sketchridge.preconditioner import (
    PRECONDITIONERS,
    BuiltPreconditioner,
    NoPreconditioner,
    PreconditionerSpec,
    Rank,
)
from sketchridge.problem import RidgeProblem
from sketchridge.solvers import SOLVERS, Solver, check_allowed
from sketchridge.validation import check_rank

# Up to this size of the smaller side, a factorisation takes less time than to think about it.
DIRECT_SIZE = 2000


@dataclass(frozen=True)
class Choice:
    """A solver, what preconditions it, and the reason in words."""

    solver: Solver
    preconditioner: PreconditionerSpec | BuiltPreconditioner
    reason: str


def choose(problem: RidgeProblem, solver: Any, preconditioner: Any, rank: Any) -> Choice:
    """Resolve names, objects and "auto" into a solver and a preconditioner; X is not read."""
    reason = "as asked"
    rank = check_rank(rank)
    if _is(preconditioner, "none") or _is_built_identity(preconditioner):
        preconditioner = NoPreconditioner()
    if _is(solver, "auto"):
        solver, reason = _rule(problem, preconditioner, rank)
    solver = _resolve(solver, SOLVERS, "solver")
    if problem.given_lam == 0 and solver.name != "direct":
        raise ValueError(
            f"lam=0 cannot be solved by {solver.name!r}: give lam > 0, or solver='direct', which "
            "finds the minimum-norm solution"
        )
    if _is(preconditioner, "auto"):
        preconditioner = solver.default_preconditioner
    return Choice(solver, _with_rank(preconditioner, rank, solver, problem), reason)


def _is(given: Any, name: str) -> bool:
    return isinstance(given, str) and given == name


def _is_built_identity(given: Any) -> bool:
    return isinstance(given, BuiltPreconditioner) and given.name == NoPreconditioner.name


def _rule(problem: RidgeProblem, preconditioner: Any, rank: Rank) -> tuple[str, str]:
    size = min(problem.n, problem.d)
    asked = not _is(preconditioner, "auto") and not isinstance(preconditioner, NoPreconditioner)
    if asked or rank != "auto":
        return "cg", "conjugate gradients, for a preconditioner or its rank was given"
    if problem.given_lam == 0:
        return "direct", "λ = 0, which only the direct solver can do"
    if size <= DIRECT_SIZE:
        return "direct", f"the smaller side is {size}, small enough to factorise"
    return "cg", f"the smaller side is {size}: too large to factorise, so conjugate gradients"


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
    numbers += choice.solver.memory(problem, choice.preconditioner.directions(problem))
    return 8 * (vectors + numbers)
