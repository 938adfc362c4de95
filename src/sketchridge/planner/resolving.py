"""What is decided before the data is read: names and objects, and "auto" by the shapes."""

from __future__ import annotations

from typing import Any

from sketchridge.planner.choice import Choice
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

# A normal matrix of so many multiplications is factorised in less time than it takes to plan.
SMALL_DIRECT = 2e8
# With preconditioner='none' nothing is measured: up to this side X is factorised.
DIRECT_SIZE = 2000


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
