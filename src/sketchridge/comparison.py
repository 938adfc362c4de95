"""`compare`: many methods on one problem, each to the same certified gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # its parts load when they are first used

from sketchridge.driver import make_problem, solve
from sketchridge.planner import choose
from sketchridge.preconditioner import PRECONDITIONERS, BuiltPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solution import Record, Solution, Status
from sketchridge.solvers import SOLVERS
from sketchridge.validation import check_matrix, check_number, check_optional, check_rng, read_rows

if TYPE_CHECKING:
    import pandas

Method = tuple[Any, Any]
Progress = Callable[[str, Record], Any]

MAX_PASSES = 300.0
USUAL_METHODS: tuple[Method, ...] = (
    ("direct", "none"),
    ("cg", "none"),
    ("cg", "nystrom"),
    ("agd", "nystrom"),
    ("svrg", "none"),
    ("svrg", "lanczos"),
    ("accelerated_svrg", "lanczos"),
    ("saga", "lanczos"),
)
# Up to this size of the smaller side, the direct solver is among them.
AFFORDABLE_SIDE = 5000
WARM_UP_ROWS, WARM_UP_PASSES = 64, 12
LARGEST_SEED = 2**53  # whoever reads JSON's numbers as floating point gets the same seed


class NotRunError(Exception):
    """The comparison was interrupted before this method had its turn."""


def compare(
    X: Any,
    y: Any,
    lam: float,
    methods: Sequence[Method] | Mapping[str, Method] | None = None,
    *,
    tol: float = 1e-6,
    max_passes: float | None = MAX_PASSES,
    max_seconds: float | None = None,
    max_memory: float | None = None,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    scale_rows: bool = False,
    random_state: Any = None,
    callback: Progress | None = None,
) -> Comparison:
    """Solve one problem by many methods, each to the same certified gap or budget.

    Every method starts from zero with the same seed and pays for its own sketch. One that refuses
    the problem or fails gets a row that says why. The kernels are compiled beforehand, so that no
    method is charged for it.

    Parameters
    ----------
    X, y, lam, fit_intercept, sample_weight, scale_rows
        The problem, as `solve` takes it.
    methods
        Pairs (solver, preconditioner) of names or objects as `solve` takes them, or a dictionary
        of such pairs by the labels that they shall have. None is a set that covers the kinds of
        methods there are, the direct solver where the smaller side of X is at most 5000.
    tol
        The certified relative gap to reach.
    max_passes, max_seconds, max_memory
        The budget of each method; None is as in `solve`.
    random_state
        None, a seed, or a numpy Generator, from which one seed for all methods is drawn.
    callback
        Called with a method's label and a `Record` at every look; a true result stops that
        method.

    Returns
    -------
    Comparison
        The solutions, a table, a pandas frame and a plot of them.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge import compare
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 10))
    >>> y = X @ np.ones(10) + rng.standard_normal(200)
    >>> comparison = compare(X, y, 1e-3, [("direct", "none"), ("cg", "nystrom")], random_state=0)
    >>> [bool(solution.converged) for solution in comparison.solutions.values()]
    [True, True]
    """
    X, notes = check_matrix(X)
    tol = check_number("tol", tol, 0.0, "give a number > 0", strict=True)
    budget = {
        "max_passes": check_optional("max_passes", max_passes, "give a number > 0, or None"),
        "max_seconds": check_optional("max_seconds", max_seconds, "give seconds > 0, or None"),
        "max_memory": check_optional("max_memory", max_memory, "give bytes > 0, or None"),
    }
    seed = int(check_rng(random_state).integers(LARGEST_SEED))
    problem, _, _ = make_problem(X, y, lam, sample_weight, fit_intercept, scale_rows)
    named = check_methods(usual_methods(problem) if methods is None else methods)
    read_rows(problem)
    _warm_up(problem, named.values())
    arguments = {
        "tol": tol,
        **budget,
        "fit_intercept": fit_intercept,
        "sample_weight": sample_weight,
        "scale_rows": scale_rows,
        "random_state": seed,
    }
    solutions, errors = _run(X, y, lam, named, arguments, callback)
    return Comparison(
        tuple(named), solutions, errors, tol, (problem.n, problem.d), problem.lam, seed, (*notes,)
    )


def usual_methods(problem: RidgeProblem) -> tuple[Method, ...]:
    """What `compare` runs by itself."""
    affordable = min(problem.n, problem.d) <= AFFORDABLE_SIDE
    return tuple(pair for pair in USUAL_METHODS if affordable or pair[0] != "direct")


def _run(
    X: Any,
    y: Any,
    lam: float,
    named: Mapping[str, Method],
    arguments: Mapping[str, Any],
    callback: Progress | None,
) -> tuple[dict[str, Solution], dict[str, Exception]]:
    """Solve by one method after another; what failed, by label, beside the solutions."""
    solutions: dict[str, Solution] = {}
    errors: dict[str, Exception] = {}
    for label, (solver, preconditioner) in named.items():
        if any(done.status is Status.INTERRUPTED for done in solutions.values()):
            errors[label] = NotRunError("the comparison was interrupted before its turn")
            continue
        told = _Told(label, callback)
        try:
            solutions[label] = solve(X, y, lam, solver, preconditioner, callback=told, **arguments)
        except Exception as error:  # whatever it is, the other methods' work must not be lost
            if told.failed:
                raise
            errors[label] = error
    return solutions, errors


@dataclass
class _Told:
    """A method's callback, which remembers whether an exception is its own."""

    label: str
    callback: Progress | None
    failed: bool = False

    def __call__(self, record: Record) -> Any:
        if self.callback is None:
            return None
        try:
            return self.callback(self.label, record)
        except Exception:
            self.failed = True
            raise


# -- the methods ------------------------------------------------------------------------------


def check_methods(methods: Any) -> dict[str, Method]:
    """The methods by label; what is no method is refused before any work."""
    if isinstance(methods, Mapping):
        named = {str(label): _pair(method) for label, method in methods.items()}
    else:
        if isinstance(methods, str) or not isinstance(methods, Sequence):
            raise TypeError(f"methods={methods!r} is no sequence of pairs (solver, preconditioner)")
        pairs = [_pair(method) for method in methods]
        named = {_label(*pair): pair for pair in pairs}
        if len(named) < len(pairs):
            raise ValueError(
                "methods holds the same pair twice, or two that are named alike: give a "
                "dictionary of pairs by label"
            )
    if not named:
        raise ValueError("methods is empty: give at least one pair (solver, preconditioner)")
    return named


def _pair(method: Any) -> Method:
    if isinstance(method, str) or not isinstance(method, Sequence) or len(method) != 2:
        raise TypeError(
            f"{method!r} is no method: give a pair (solver, preconditioner), such as "
            "('svrg', 'lanczos')"
        )
    solver, preconditioner = method
    _check_known(solver, SOLVERS, "solver")
    _check_known(preconditioner, PRECONDITIONERS, "preconditioner")
    return solver, preconditioner


def _check_known(given: Any, registry: Mapping[str, type[Any]], argument: str) -> None:
    known = given in ("auto", *registry) if isinstance(given, str) else _is_one(given, registry)
    if not known:
        raise ValueError(
            f"{argument}={given!r} is unknown: choose auto, {', '.join(registry)}, or give an "
            "object of their classes"
        )


def _is_one(given: Any, registry: Mapping[str, type[Any]]) -> bool:
    return isinstance(given, (*registry.values(), BuiltPreconditioner))


def _label(solver: Any, preconditioner: Any) -> str:
    """Such as "svrg+lanczos", with the parameters of an object that are not its defaults."""
    if _name(preconditioner) == "none" and not _uses_preconditioner(solver):
        return _name(solver)
    return f"{_name(solver)}+{_name(preconditioner)}"


def _name(given: Any) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, BuiltPreconditioner):
        return f"{given.name} (built, rank {given.rank})"
    usual = type(given)()
    set_here = {
        field.name: getattr(given, field.name)
        for field in fields(given)
        if getattr(given, field.name) != getattr(usual, field.name)
    }
    listed = ", ".join(f"{name}={value}" for name, value in set_here.items())
    return f"{given.name}({listed})" if listed else str(given.name)


def _uses_preconditioner(solver: Any) -> bool:
    kind = SOLVERS.get(solver) if isinstance(solver, str) else solver
    return kind is None or bool(kind.uses_preconditioner)


# -- compiling beforehand ---------------------------------------------------------------------


def _warm_up(problem: RidgeProblem, methods: Any) -> None:
    """Run every method on a few rows: kernels are compiled, libraries loaded, on no one's time."""
    X = _few_rows(problem.X)
    n = X.shape[0]
    Y = np.cos(np.arange(1.0, n * problem.targets + 1.0)).reshape(n, -1)
    # As centring is, a row's weight is data: neither changes what is compiled.
    lam = float(np.mean(problem.raw_squared_norms[:n])) + problem.given_lam
    if lam == 0:
        return
    for solver, preconditioner in methods:
        with suppress(Exception):  # what fails here will fail in earnest, and be told there
            choice = choose(make_problem(X, Y, lam)[0], solver, _recipe(preconditioner), "auto")
            solution = solve(
                X,
                Y,
                lam,
                choice.solver,
                choice.preconditioner,
                tol=1e-15,
                max_passes=WARM_UP_PASSES,
                random_state=0,
            )
            if solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt


def _recipe(preconditioner: Any) -> Any:
    """The kind of preconditioner with its defaults, which adapt to the few rows."""
    if isinstance(preconditioner, str):
        return preconditioner
    return "none" if isinstance(preconditioner, BuiltPreconditioner) else type(preconditioner)()


def _few_rows(X: Any) -> Any:
    """The first rows, with the types and flags that kernels are compiled for."""
    if isinstance(X, np.ndarray):
        return X[:WARM_UP_ROWS] if X.flags.c_contiguous else np.asfortranarray(X[:WARM_UP_ROWS])
    few = scipy.sparse.csr_array(X[:WARM_UP_ROWS])
    end = X.indptr[few.shape[0]]
    few.data, few.indices, few.indptr = X.data[:end], X.indices[:end], X.indptr[: few.shape[0] + 1]
    return few


# -- the result -------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """The answer of `compare`: the same problem solved by several methods."""

    methods: tuple[str, ...]  # the labels, in the order given
    solutions: dict[str, Solution]  # of those that ran
    errors: dict[str, Exception]  # of those that refused or failed
    tol: float
    shape: tuple[int, int]
    lam: float
    seed: int  # solve(..., random_state=seed) repeats a run
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """A dictionary a method: how it ended, its certified gap, its passes and seconds."""
        return [
            _row(label, self.solutions[label])
            if label in self.solutions
            else _empty_row(label, self.errors[label])
            for label in self.methods
        ]

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain numbers and words, for JSON."""
        rows = [
            {name: None if value != value else value for name, value in row.items()}
            for row in self.rows()
        ]
        return {
            "rows": self.shape[0],
            "columns": self.shape[1],
            "lam": self.lam,
            "tol": self.tol,
            "seed": self.seed,
            "notes": list(self.notes),
            "methods": rows,
        }

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return any(one.status is Status.INTERRUPTED for one in self.solutions.values())

    @property
    def frame(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame, indexed by method."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError(
                "a frame needs pandas: install it with pip install 'sketchridge[frame]', or use "
                ".rows()"
            ) from error
        return pandas.DataFrame(self.rows()).set_index("method")

    def table(self) -> str:
        """The rows as text, with the reasons of those that did not run below."""
        heads = ("method", "status", "certified gap", "passes", "seconds")
        lines = [heads, *(_cells(row) for row in self.rows())]
        widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
        texts = [
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        rule = "─" * max(map(len, texts))
        reasons = [f"{label}: {_sentence(error)}" for label, error in self.errors.items()]
        return "\n".join([self.title(), "", texts[0], rule, *texts[1:], *reasons])

    def title(self) -> str:
        """What was solved, in a line."""
        n, d = self.shape
        return f"{n} rows × {d} columns, λ = {self.lam:.3g}, to a relative gap of {self.tol:g}"

    def plot(self, path: str | Path, title: str | None = None) -> Path:
        """Draw the certified relative gap against passes and against seconds, into a file."""
        if not self.solutions:
            raise ValueError("no method ran, so there is nothing to draw: .errors says why")
        from sketchridge.comparison_plot import draw

        return draw(self.solutions, self.tol, Path(path), title or self.title())

    def __repr__(self) -> str:
        converged = [
            label for label, one in self.solutions.items() if one.status is Status.CONVERGED
        ]
        told = f"Comparison({len(self.methods)} methods, {len(converged)} converged"
        if not converged:
            return told + ")"
        passes = min(converged, key=lambda label: self.solutions[label].passes)
        seconds = min(converged, key=lambda label: self.solutions[label].seconds)
        return (
            f"{told}; fewest passes {passes}: {self.solutions[passes].passes:.4g}; least time "
            f"{seconds}: {self.solutions[seconds].seconds:.3g} s)"
        )

    def __str__(self) -> str:
        return self.table()


def _row(label: str, solution: Solution) -> dict[str, Any]:
    return {
        "method": label,
        "solver": solution.plan.solver,
        "preconditioner": solution.plan.preconditioner,
        "rank": solution.plan.rank,
        "status": solution.status.name.lower(),
        "converged": bool(np.all(solution.converged)),
        "relative_gap": float(np.max(solution.relative_gap)),
        "passes": solution.passes,
        "seconds": solution.seconds,
        "objective": float(np.mean(solution.objective)),
        "note": "; ".join(solution.plan.notes),
    }


def _empty_row(label: str, error: Exception) -> dict[str, Any]:
    return {
        "method": label,
        "solver": None,
        "preconditioner": None,
        "rank": None,
        "status": _ending(error),
        "converged": False,
        "relative_gap": np.nan,
        "passes": np.nan,
        "seconds": np.nan,
        "objective": np.nan,
        "note": _sentence(error),
    }


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    figures = (
        ("", "", "")
        if row["solver"] is None
        else (f"{row['relative_gap']:.1e}", f"{row['passes']:.1f}", f"{row['seconds']:.3g}")
    )
    return row["method"], row["status"].replace("_", " "), *figures


def _ending(error: Exception) -> str:
    if isinstance(error, NotRunError):
        return "not_run"
    return "refused" if isinstance(error, ValueError | TypeError) else "failed"


def _sentence(error: Exception) -> str:
    """What an exception says; one that is no refusal says what it is, too."""
    if isinstance(error, ValueError | TypeError | NotRunError):
        return str(error)
    return f"{type(error).__name__}: {error}"
