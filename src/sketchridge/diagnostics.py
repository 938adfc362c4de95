"""What the method would do for a user's data, before any solve.

From one sketch of C = XᵀX/n: its spectrum with bars that hold, the average condition number
before and after preconditioning for every rank k (eq. exactCondSketchCond with its equality),

    κ̂ = (tr C + dλ) / (λ_d + λ)        κ̃ = (kλ_k + Σ_{i>k} λ_i + dλ) / (λ_d + λ),

the paper's ratio (eq. ratioRidge), the effective dimension, advice on rank and solver, and the
smallest λ that each method affords for a budget of passes (eqs. decay and decaySVRG).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sketchridge import validation
from sketchridge.advice import Advice, advise
from sketchridge.driver import make_problem
from sketchridge.eigenvalues import (
    PROBE_PASSES,
    Bounds,
    Eigenvalues,
    exact_eigenvalues,
    largest_rank,
    sketch_shape,
    sketched_eigenvalues,
)
from sketchridge.problem import RidgeProblem
from sketchridge.threads import single_threaded_blas
from sketchridge.validation import read_rows

Array = NDArray[np.float64]
Method = Literal["auto", "exact", "sketch"]
Progress = Callable[[str], Any]

# Up to this size of the smaller side, all eigenvalues take less time than a sketch of 300.
EXACT_SIZE = 2000
LARGEST_RANK = 300
BUDGETS = (10.0, 30.0, 100.0, 300.0)
DECADES = (1e-8, 1e-6, 1e-4, 1e-2)


@dataclass(frozen=True)
class DataFacts:
    """The data as it lies in memory."""

    rows: int
    columns: int
    stored: int  # values that are stored; of dense data all
    sparse: bool
    dtype: str
    bytes: int
    average_norm: float  # of a row; the paper divides all rows by it
    largest_norm: float
    smallest_norm: float

    @property
    def density(self) -> float:
        """The share of values that are stored."""
        return self.stored / (self.rows * self.columns)


@dataclass(frozen=True, eq=False)
class PenaltyDiagnosis:
    """What one λ means; the arrays have an entry for each rank k = 1, 2 and so on."""

    lam: float
    condition: Bounds  # κ̂
    preconditioned: tuple[Array, Array]  # κ̃ for each k, from below and above
    speed_up: tuple[Array, Array]  # (n + κ̂) / (n + κ̃) for each k
    effective_dimension: Bounds
    explained: Bounds | None  # the share of F(0) that the ridge solution explains
    advice: Advice


@dataclass(frozen=True)
class Trade:
    """Section 2.2: the smallest λ for a budget of passes, up to constants and logarithms."""

    passes: float
    rank: int  # of the preconditioner: as many as the budget has passes, as in the paper
    svrg: Bounds  # eq. decaySVRG
    sketched_svrg: Bounds  # eq. decay
    accelerated_svrg: Bounds
    sketched_accelerated_svrg: Bounds
    cg: Bounds  # λ_k / k²


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """The answer of `diagnose`."""

    data: DataFacts
    eigenvalues: Eigenvalues
    ratio: Array  # eq. ratioRidge for each rank k = 1, 2, …, with the sketch's own eigenvalues
    ratio_bounds: tuple[Array, Array]  # from below and above
    penalties: tuple[PenaltyDiagnosis, ...]
    trades: tuple[Trade, ...]
    fit_intercept: bool
    scale_rows: bool
    notes: tuple[str, ...]
    passes: float
    seconds: float

    @property
    def ranks(self) -> NDArray[np.int64]:
        """The ranks k of the sweep."""
        return np.arange(1, self.ratio.size + 1)

    @property
    def bars(self) -> str:
        """What the error bars mean, in words."""
        if self.eigenvalues.exact:
            return "every eigenvalue was computed: the bars are rounding"
        return (
            "bars: from the Nyström approximation below to a bound above; all of them hold at "
            f"once with probability {1 - self.eigenvalues.failure:.6f}"
        )

    def __repr__(self) -> str:
        last = f"{self.ratio.size}: {self.ratio[-1]:.3g}"
        return (
            f"Diagnosis({self.data.rows} × {self.data.columns}, ratio at rank {last}, "
            f"{len(self.penalties)} penalties, {self.passes:g} passes, {self.seconds:.3g} s)"
        )

    def summary(self) -> str:
        """A page about the data, for people."""
        return "\n\n".join(
            "\n".join(lines)
            for lines in (
                self._about_data(),
                self._about_spectrum(),
                self._about_penalties(),
                self._about_trades(),
                [f"note: {note}" for note in self.notes],
            )
            if lines
        )

    def _about_data(self) -> list[str]:
        data = self.data
        kind = f"sparse, {100 * data.density:.3g} % stored" if data.sparse else "dense"
        return [
            f"data       {data.rows} rows × {data.columns} columns, {data.dtype}, {kind}, "
            f"{data.bytes / 1e6:.1f} MB",
            f"rows       norm {data.average_norm:.4g} on average, from {data.smallest_norm:.4g} "
            f"to {data.largest_norm:.4g}",
            f"work       {self.passes:g} passes over the data, {self.seconds:.3g} s",
        ]

    def _about_spectrum(self) -> list[str]:
        known = self.eigenvalues
        lines = [f"spectrum   trace {known.trace[1]:.6g}; {self.bars}"]
        lines.append("      k    eigenvalue                  ratio of the paper (speed-up)")
        for k in some_ranks(self.ranks.size):
            value = spread((known.lower[k - 1], known.upper[k - 1]))
            ratio = spread((self.ratio_bounds[0][k - 1], self.ratio_bounds[1][k - 1]))
            lines.append(f"  {k:5d}    {value:26}  {ratio}")
        return lines

    def _about_penalties(self) -> list[str]:
        lines = []
        for penalty in self.penalties:
            rank = penalty.advice.rank
            lines += [
                f"lam {penalty.lam:.4g}",
                f"  condition            {spread(penalty.condition)} on average",
                f"  effective dimension  {spread(penalty.effective_dimension)}",
            ]
            if penalty.explained is not None:
                lines.append(f"  share explained      {spread(penalty.explained)} of F(0)")
            if rank:
                after = penalty.preconditioned
                at = spread((after[0][rank - 1], after[1][rank - 1]))
                lines.append(f"  with rank {rank:<10d} {at} on average")
            advice = penalty.advice
            lines.append(f"  advice               {advice.best}, in about {advice.best.time}")
            lines.append(f"  instead of           {advice.others}")
        return lines

    def _about_trades(self) -> list[str]:
        lines = ["smallest lam for a budget of passes, up to constants and logarithms"]
        lines.append("  passes  svrg        sketched    accelerated  both        cg")
        for trade in self.trades:
            figures = (
                trade.svrg,
                trade.sketched_svrg,
                trade.accelerated_svrg,
                trade.sketched_accelerated_svrg,
                trade.cg,
            )
            lines.append(f"  {trade.passes:6g}  " + "  ".join(f"{f[1]:<10.2e}" for f in figures))
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it: numbers, strings, lists and dictionaries."""
        known = self.eigenvalues
        return {
            "data": asdict(self.data) | {"density": self.data.density},
            "fit_intercept": self.fit_intercept,
            "scale_rows": self.scale_rows,
            "spectrum": {
                "trace": list(known.trace),
                "lower": known.lower.tolist(),
                "upper": known.upper.tolist(),
                "later_eigenvalues_at_most": known.rest,
                "smallest_eigenvalue": list(known.smallest),
                "rank_at_most": known.rank,
                "exact": known.exact,
                "failure_probability": known.failure,
            },
            "ratio": _pair(self.ratio_bounds) | {"estimate": self.ratio.tolist()},
            "penalties": [_penalty_dict(penalty) for penalty in self.penalties],
            "budgets": [asdict(trade) for trade in self.trades],
            "notes": list(self.notes),
            "passes": self.passes,
            "seconds": self.seconds,
        }


def diagnose(
    X: Any,
    lam: Any = None,
    y: Any = None,
    *,
    rank: int = LARGEST_RANK,
    budget: Any = BUDGETS,
    tol: float = 1e-6,
    fit_intercept: bool = False,
    sample_weight: Any = None,
    scale_rows: bool = False,
    method: Method = "auto",
    max_memory: float = 2e9,
    random_state: Any = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Tell what sketched preconditioning would do for the data, without solving.

    Parameters
    ----------
    X
        (n, d): as `solve` takes it.
    lam
        A penalty, several, or None for 1/n and decades of the trace.
    y
        If given, the share of F(0) that each λ's solution explains is bounded, for two passes.
    rank
        The sweep is over ranks 1 to this, or to the rank that X can have.
    budget
        Numbers of passes over the data for Section 2.2's trade.
    tol
        The certified relative gap that the advice is for.
    fit_intercept, sample_weight, scale_rows
        As for `solve`. With `scale_rows` the spectrum is that of rows divided by their average
        norm.
    method
        "exact" computes every eigenvalue, "sketch" bounds the leading ones from about 15 passes;
        "auto" is exact where the smaller side of X is at most 2000.
    max_memory
        Bytes that the sketch may hold; the rank is lowered to fit, with a note.
    random_state
        None, a seed, or a numpy Generator.
    progress
        Called with a sentence when the long part begins.

    Returns
    -------
    Diagnosis
        With `summary()` for people and `as_dict()` for JSON.

    Examples
    --------
    >>> import numpy as np
    >>> from sketchridge import diagnose
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 40)) / np.arange(1, 41) ** 2
    >>> diagnosis = diagnose(X, lam=1e-6)
    >>> bool(diagnosis.ratio[9] > 10)  # a preconditioner of rank 10 gains more than tenfold
    True
    """
    began = time.perf_counter()
    settings = _Settings.checked(rank, budget, tol, method, max_memory)
    lams = None if lam is None else _check_numbers("lam", lam, "λ > 0, or several")
    rng = validation.check_rng(random_state)
    X, copies = validation.check_matrix(X)
    targets = np.zeros(X.shape[0]) if y is None else y
    problem, _, _ = make_problem(X, targets, 1.0, sample_weight, fit_intercept, scale_rows)
    read_rows(problem)
    known, notes = _spectrum(problem, settings, rng, progress or _say_nothing)
    ranks = min(settings.rank, known.certain)
    if ranks == 0:
        raise ValueError("X is constant or zero: it has no spectrum to diagnose; check the data")
    # With scaled rows λ is measured against rows of average norm 1, and so is the spectrum.
    unit = problem.lam
    known = known.scaled(1 / unit)
    facts = _facts(problem)
    return Diagnosis(
        data=facts,
        eigenvalues=known,
        ratio=known.trace[1] / known.capped_sum_estimates[:ranks],
        ratio_bounds=_ratio_bounds(known, ranks),
        penalties=tuple(
            _penalty(known, facts, value, value * unit, settings.tol, ranks)
            for value in (lams or default_lams(known, problem.n))
        ),
        trades=tuple(_trade(known, problem.n, passes, ranks) for passes in settings.budgets),
        fit_intercept=problem.fit_intercept,
        scale_rows=problem.scale_rows,
        notes=(*copies, *problem.notes, *notes),
        passes=problem.passes,
        seconds=time.perf_counter() - began,
    )


def default_lams(known: Eigenvalues, n: int) -> tuple[float, ...]:
    """1/n, and decades of the trace."""
    return tuple(sorted({1.0 / n, *(decade * known.trace[1] for decade in DECADES)}))


def some_ranks(largest: int) -> list[int]:
    """A few ranks to show of a sweep: 1, 2, 5, 10, 20, 50, … and the largest."""
    steps = [a * 10**power for power in range(8) for a in (1, 2, 5)]
    return [*(k for k in steps if k < largest), largest]


@dataclass(frozen=True)
class _Settings:
    rank: int
    budgets: tuple[float, ...]
    tol: float
    method: Method
    max_memory: float

    @classmethod
    def checked(cls, rank: Any, budget: Any, tol: Any, method: Any, max_memory: Any) -> _Settings:
        if method not in ("auto", "exact", "sketch"):
            raise ValueError(f"method={method!r} is unknown: choose 'auto', 'exact' or 'sketch'")
        tol = validation.check_number("tol", tol, 0.0, "give a number in (0, 1)", strict=True)
        if tol >= 1:
            raise ValueError(f"tol={tol} is out of range: give a number in (0, 1)")
        return cls(
            validation.check_integer("rank", rank, 1, "give the largest rank to look at"),
            _check_numbers("budget", budget, "numbers of passes > 0"),
            tol,
            method,
            validation.check_number("max_memory", max_memory, 0.0, "give bytes > 0", strict=True),
        )


def _check_numbers(name: str, given: Any, remedy: str) -> tuple[float, ...]:
    values = [given] if np.ndim(given) == 0 else list(given)
    if not values:
        raise ValueError(f"{name} is empty: give {remedy}")
    return tuple(
        validation.check_number(name, value, 0.0, f"give {remedy}", strict=True) for value in values
    )


def _spectrum(
    problem: RidgeProblem, settings: _Settings, rng: np.random.Generator, progress: Progress
) -> tuple[Eigenvalues, list[str]]:
    side = min(problem.n, problem.d)
    method: Method = settings.method
    notes: list[str] = []
    if method == "auto":
        fits = 3 * 8.0 * side**2 <= settings.max_memory
        method = "exact" if side <= EXACT_SIZE and fits else "sketch"
    if method == "exact":
        progress(f"computing all eigenvalues of a {side} × {side} matrix")
        return exact_eigenvalues(problem), []
    count = rank = min(settings.rank, largest_rank(problem))
    while count > 1 and _sketch_bytes(problem, count) > settings.max_memory:
        count = count * 3 // 4
    if count < rank:
        notes = [
            f"the sketch is for rank {count}, not {rank}, to hold at most "
            f"{settings.max_memory:g} bytes (max_memory): the bars beyond are wide"
        ]
    width, blocks = sketch_shape(problem, count)
    progress(
        f"sketching: {blocks + 1} passes with {width} vectors, {PROBE_PASSES} to bound the rest"
    )
    with _threads(problem, count):
        return sketched_eigenvalues(problem, count, rng), notes


def _say_nothing(sentence: str) -> None:
    """Where nobody asked for progress."""


def _sketch_bytes(problem: RidgeProblem, count: int) -> float:
    width, blocks = sketch_shape(problem, count)
    return 8.0 * (problem.d * (blocks + 4) * width + problem.n * width + 4 * (blocks * width) ** 2)


def _threads(problem: RidgeProblem, columns: int) -> AbstractContextManager[None]:
    """Keep BLAS to one thread where the products run on threads of our own."""
    return single_threaded_blas() if problem.products.own_threads(columns) else nullcontext()


def _facts(problem: RidgeProblem) -> DataFacts:
    X, norms = problem.X, np.sqrt(problem.raw_squared_norms)
    sparse = not isinstance(X, np.ndarray)
    indices = X.indices.nbytes + X.indptr.nbytes if sparse else 0
    return DataFacts(
        rows=problem.n,
        columns=problem.d,
        stored=int(X.data.size if sparse else X.size),
        sparse=sparse,
        dtype=str(X.dtype),
        bytes=int((X.data.nbytes if sparse else X.nbytes) + indices),
        average_norm=float(problem.weights @ norms),
        largest_norm=float(norms.max()),
        smallest_norm=float(norms.min()),
    )


def _ratio_bounds(known: Eigenvalues, ranks: int) -> tuple[Array, Array]:
    low, high = (sums[:ranks] for sums in known.capped_sums)
    return known.trace[0] / high, known.trace[1] / low


def _penalty(
    known: Eigenvalues, facts: DataFacts, lam: float, raw_lam: float, tol: float, ranks: int
) -> PenaltyDiagnosis:
    """`raw_lam` is λ for the rows as given, `lam` for the rows that `known` is about."""
    n, d = facts.rows, facts.columns
    low, high = (sums[:ranks] + d * lam for sums in known.capped_sums)
    trace = known.trace[0] + d * lam, known.trace[1] + d * lam
    floor = known.smallest[0] + lam, known.smallest[1] + lam
    return PenaltyDiagnosis(
        lam=lam,
        condition=(trace[0] / floor[1], trace[1] / floor[0]),
        preconditioned=(low / floor[1], high / floor[0]),
        speed_up=(
            (trace[0] + n * floor[1]) / (high + n * floor[1]),
            (trace[1] + n * floor[0]) / (low + n * floor[0]),
        ),
        effective_dimension=known.effective_dimension(lam),
        explained=None if known.energies is None else known.energies.explained(raw_lam),
        advice=advise(known, lam, tol, n, facts.stored, ranks),
    )


def _trade(known: Eigenvalues, n: int, passes: float, ranks: int) -> Trade:
    """The λ at which κ/n (or its root, with acceleration) is the number of passes."""
    rank = max(1, min(int(passes), ranks))
    left = known.capped_sums[0][rank - 1], known.capped_sums[1][rank - 1]
    value = known.lower[rank - 1], known.upper[rank - 1]

    def over(bounds: Bounds, divisor: float) -> Bounds:
        return float(bounds[0]) / divisor, float(bounds[1]) / divisor

    return Trade(
        passes=passes,
        rank=rank,
        svrg=over(known.trace, n * passes),
        sketched_svrg=over(left, n * passes),
        accelerated_svrg=over(known.trace, n * passes**2),
        sketched_accelerated_svrg=over(left, n * passes**2),
        cg=over(value, passes**2),
    )


def _penalty_dict(penalty: PenaltyDiagnosis) -> dict[str, Any]:
    advice = penalty.advice
    return {
        "lam": penalty.lam,
        "condition": list(penalty.condition),
        "preconditioned": _pair(penalty.preconditioned),
        "speed_up": _pair(penalty.speed_up),
        "effective_dimension": list(penalty.effective_dimension),
        "explained": None if penalty.explained is None else list(penalty.explained),
        "advice": asdict(advice.best) | {"reason": advice.reason},
        "candidates": [asdict(candidate) for candidate in advice.candidates],
    }


def _pair(arrays: tuple[Array, Array]) -> dict[str, list[float]]:
    return {"lower": arrays[0].tolist(), "upper": arrays[1].tolist()}


def spread(bounds: tuple[Any, Any]) -> str:
    """One number where the bounds agree to three figures, else both."""
    low, high = (f"{float(bound):.3g}" for bound in bounds)
    return low if low == high else f"{low} to {high}"
