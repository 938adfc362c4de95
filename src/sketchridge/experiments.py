"""The paper's experiments: the ratio of Figure 1 and the runs of Figure 2 on one problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sketchridge.data import PROBLEMS, Dataset, MissingData, load, synthetic
from sketchridge.data.paper import paper_curves
from sketchridge.data.synthetic import noisy_targets
from sketchridge.diagnostics import diagnose
from sketchridge.driver import solve
from sketchridge.preconditioner import Lanczos
from sketchridge.problem import RidgeProblem
from sketchridge.sketch import exact_pairs
from sketchridge.solution import Record, Solution, Status
from sketchridge.solvers import SOLVERS, SVRG, AcceleratedSVRG

Array = NDArray[np.float64]
Tell = Callable[[str], object]
Snapshot = Literal["average", "last"]
Regularization = Literal["exact", "sampled"]
Method = Literal["svrg", "scsvrg"]

# In the order of the paper's figures.
PAPER_PROBLEMS = ("synthetic-linear", "synthetic-quadratic", "mnist", "cifar10", "rcv1", "real-sim")
LAM = 1e-8
RANK = 30
LARGEST_RANK = 300
# The paper tunes the step for each method and does not tell its grid; in units of 1/β̂.
STEPS = (0.5, 0.7, 1.0, 1.4, 1.7)
FEW_STEPS = (0.5, 1.0, 1.7)
# More sketch and longer epochs for the same passes: rank, and m/n.
BOLDER = ((100, 1.0), (100, 2.0), (300, 2.0))
BOLDER_STEP = 1.4
# The paper's N(0, 0.1), read as a standard deviation: its curves say so.
FITTING_NOISE, PRINTED_NOISE = 0.01, 0.1
# The rest of the family, where it has landed, each with its own default step.
RELATIVES = ("accelerated_svrg", "saga")
# Up to this smaller side, all eigenvalues and a direct solve take a minute at most.
EXACT_SIDE = 6000
SEED = 0
QUICK_ROWS, QUICK_COLUMNS, QUICK_EPOCHS = 1000, 200, 5


@dataclass(frozen=True)
class Setting:
    """One run: the method and its choices."""

    solver: str = "svrg"
    rank: int = 0  # of the block Lanczos sketch; 0 is none
    step: float | None = None  # in units of 1/β̂; None is the solver's own
    length: float = 1.0  # of an epoch, m/n
    snapshot: Snapshot = "average"
    regularization: Regularization = "exact"

    def build(self, n: int) -> Any:
        """The solver as `solve` takes it."""
        if self.solver == "accelerated_svrg":
            return AcceleratedSVRG(method="katyusha")  # whose rate the paper's theorem has
        if self.solver != "svrg":
            return self.solver
        return SVRG(
            step=self.step,
            epoch_length=max(1, round(self.length * n)),
            snapshot=self.snapshot,
            regularization=self.regularization,
        )

    @property
    def preconditioner(self) -> Any:
        """The preconditioner as `solve` takes it."""
        return Lanczos(rank=self.rank) if self.rank else "none"

    def __str__(self) -> str:
        choices = [] if self.step is None else [f"step {self.step:g}/β̂"]
        if self.rank:
            choices.append(f"rank {self.rank}")
        if self.length != 1:
            choices.append(f"m = {self.length:g}n")
        if self.snapshot != "average":
            choices.append(f"{self.snapshot} iterate")
        if self.regularization != "exact":
            choices.append(f"{self.regularization} regulariser")
        return ", ".join([self.solver.replace("_", " "), *choices])


@dataclass(frozen=True)
class Curve:
    """F(w) − F* along a run: entry e is after e epochs, entry 0 the start."""

    setting: Setting
    suboptimality: tuple[float, ...]
    passes: tuple[float, ...]  # the sketch included
    seconds: tuple[float, ...]  # the sketch included, as measured on that run
    status: str

    @property
    def last(self) -> float:
        """F − F* at the end."""
        return self.suboptimality[-1]

    @property
    def epochs(self) -> int:
        """How many epochs it has."""
        return len(self.suboptimality) - 1

    def until(self, passes: float) -> Curve:
        """The part within a budget of passes."""
        count = sum(spent <= passes for spent in self.passes)
        return replace(
            self,
            suboptimality=self.suboptimality[:count],
            passes=self.passes[:count],
            seconds=self.seconds[:count],
        )


@dataclass(frozen=True)
class Alternative:
    """Runs with another reading of what the paper leaves open."""

    choice: str
    method: Method  # whose curve it might explain
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Ratio:
    """Figure 1: the ratio for k = 1, 2, … from the sketch, and exact where that is affordable."""

    sketched: tuple[float, ...]
    low: tuple[float, ...]  # bounds that hold with high probability
    high: tuple[float, ...]
    exact: tuple[float, ...] | None
    passes: float

    @property
    def error(self) -> float | None:
        """The largest relative difference of the two."""
        if self.exact is None:
            return None
        return float(np.max(np.abs(np.array(self.sketched) / np.array(self.exact) - 1)))


@dataclass(frozen=True)
class Outcome:
    """Everything that was measured on one problem."""

    name: str  # the paper's name of the problem
    title: str
    data: str  # the name of the data that it ran on: the same, or a stand-in
    shape: tuple[int, int]
    notes: tuple[str, ...]
    cut: bool  # quick: not the paper's size
    minimum: float  # F*
    minimum_gap: float  # certified: F* is at most this much too high
    minimum_solver: str
    ratio: Ratio
    svrg: tuple[Curve, ...]  # a curve for each step that did not fail
    scsvrg: tuple[Curve, ...]
    alternatives: tuple[Alternative, ...]
    bolder: tuple[Curve, ...]
    relatives: tuple[Curve, ...]

    @property
    def stands_in(self) -> bool:
        """Whether the data is not the paper's."""
        return self.data != self.name

    @property
    def label(self) -> str:
        """The title, with a word where the data is not the paper's."""
        return f"{self.title} (stand-in data)" if self.stands_in else self.title


def best(curves: Sequence[Curve]) -> Curve:
    """The curve that ends lowest."""
    return min(curves, key=lambda curve: curve.last)


# -- data and minimum --------------------------------------------------------------------------


def load_problem(name: str, folder: Any, quick: bool) -> Dataset:
    """The paper's data, or its stand-in; cut to a small size if quick."""
    problem = PROBLEMS[name]
    if problem.find is None:
        return make_problem(name, quick)
    try:
        dataset = load(name, folder)
    except MissingData as missing:
        if problem.stand_in is None:
            raise
        try:
            dataset = load(problem.stand_in, folder)
        except MissingData:
            raise missing from None
    if quick and dataset.y is not None:
        dataset = replace(dataset, X=dataset.X[:QUICK_ROWS], y=dataset.y[:QUICK_ROWS])
    return dataset


def make_problem(name: str, quick: bool) -> Dataset:
    """A synthetic problem, with the noise that its curves in the paper speak for."""
    n, d = (QUICK_ROWS, QUICK_COLUMNS) if quick else PROBLEMS[name].shape
    power = 1 if name == "synthetic-linear" else 2
    X, y = synthetic(n, d, power, np.random.default_rng(SEED), FITTING_NOISE)
    return Dataset(X, y, name, None, (f"noise of variance {FITTING_NOISE}",))


def find_minimum(X: Any, y: Any) -> Solution:
    """F*, certified: by factorisation where that is affordable, else by conjugate gradients."""
    if min(X.shape) <= EXACT_SIDE:
        return solve(X, y, LAM, solver="direct", scale_rows=True, tol=1e-10)
    return solve(
        X,
        y,
        LAM,
        solver="cg",
        preconditioner="nystrom",
        rank=min(LARGEST_RANK, *X.shape),
        scale_rows=True,
        tol=1e-9,
        random_state=SEED,
    )


# -- Figure 1 ----------------------------------------------------------------------------------


def measure_ratio(X: Any, largest_rank: int = LARGEST_RANK) -> Ratio:
    """The ratio of eq. ratioRidge for every rank, up to 300 in the figure."""
    rank = min(largest_rank, *X.shape)
    found = diagnose(X, LAM, rank=rank, method="sketch", scale_rows=True, random_state=SEED)
    exact = exact_ratio(X, rank)
    count = found.ratio.size if exact is None else min(found.ratio.size, exact.size)
    return Ratio(
        tuple(found.ratio[:count].tolist()),
        tuple(found.ratio_bounds[0][:count].tolist()),
        tuple(found.ratio_bounds[1][:count].tolist()),
        None if exact is None else tuple(exact[:count].tolist()),
        found.passes,
    )


def exact_ratio(X: Any, rank: int) -> Array | None:
    """The ratio from exact eigenvalues: all of a small matrix, the leading ones of a sparse one."""
    if min(X.shape) <= EXACT_SIDE:
        return diagnose(X, LAM, rank=rank, method="exact", scale_rows=True).ratio
    if isinstance(X, np.ndarray):
        return None
    problem = RidgeProblem(X, np.zeros((X.shape[0], 1)), LAM)
    _, values = exact_pairs(problem, rank, np.random.default_rng(SEED))
    ranks = np.arange(1, values.size + 1)
    ratio: Array = problem.trace / (problem.trace - np.cumsum(values) + ranks * values)
    return ratio


# -- Figure 2 ----------------------------------------------------------------------------------


def run(
    dataset: Dataset,
    setting: Setting,
    minimum: Solution,
    epochs: float = np.inf,
    passes: float | None = None,
) -> Curve:
    """One run, for a number of epochs or of passes."""
    looks = 0

    def enough(record: Record) -> bool:
        nonlocal looks
        looks += 1
        return looks > epochs

    solution = solve(
        dataset.X,
        dataset.y,
        LAM,
        solver=setting.build(dataset.X.shape[0]),
        preconditioner=setting.preconditioner,
        scale_rows=True,
        tol=1e-15,
        max_passes=passes,
        random_state=SEED,
        callback=enough,
    )
    # A running estimate of the objective (SAGA's) that is below the minimum tells nothing.
    records = [r for r in solution.history if r.certified or r.objective > minimum.objective]
    # What the minimum's certificate cannot tell apart is as good as it.
    floor = max(float(minimum.gap), 1e-16 * float(minimum.objective))
    return Curve(
        setting,
        tuple(max(record.objective - minimum.objective, floor) for record in records),
        tuple(record.passes for record in records),
        tuple(record.seconds for record in records),
        solution.status.name.lower(),
    )


def run_steps(
    dataset: Dataset,
    setting: Setting,
    steps: Iterable[float],
    minimum: Solution,
    epochs: int,
    tell: Tell,
) -> tuple[Curve, ...]:
    """The runs over a grid of steps, without those that diverged or gave up before their time."""
    curves = []
    for step in steps:
        curve = run(dataset, replace(setting, step=step), minimum, epochs)
        failed = curve.epochs < epochs and curve.status != Status.CONVERGED.name.lower()
        how = curve.status if failed else f"F − F* = {curve.last:.2e}"
        tell(f"  {curve.setting}: {curve.epochs} epochs, {curve.seconds[-1]:.1f} s, {how}")
        if not failed:
            curves.append(curve)
    if not curves:
        raise ValueError(f"no step of {tuple(steps)} converges for {setting}")
    return tuple(curves)


def run_within(
    dataset: Dataset, settings: Iterable[Setting], minimum: Solution, passes: float, tell: Tell
) -> tuple[Curve, ...]:
    """Runs with a budget of passes."""
    curves = []
    for setting in settings:
        curve = run(dataset, setting, minimum, passes=passes).until(passes)
        tell(f"  {setting}: {curve.passes[-1]:.0f} passes, F − F* = {curve.last:.2e}")
        curves.append(curve)
    return tuple(curves)


def bolder_settings(shape: tuple[int, int]) -> list[Setting]:
    """Higher ranks and longer epochs, as far as the data has that many directions."""
    return [
        Setting(rank=rank, length=length, step=BOLDER_STEP)
        for rank, length in BOLDER
        if rank < min(shape)
    ]


def try_alternatives(
    name: str, dataset: Dataset, minimum: Solution, epochs: int, tell: Tell
) -> tuple[Alternative, ...]:
    """Other readings of what the paper leaves open, each where it can be told apart."""

    def steps(setting: Setting, data: Dataset = dataset, lowest: Solution = minimum) -> Any:
        return run_steps(data, setting, FEW_STEPS, lowest, epochs, tell)

    found = []
    if name == "mnist":
        found += [
            Alternative("m = 2n", "svrg", steps(Setting(length=2))),
            Alternative("the last iterate", "svrg", steps(Setting(snapshot="last"))),
        ]
    if name == "synthetic-quadratic":
        sampled = Setting(rank=RANK, regularization="sampled")
        found.append(Alternative("a sampled regulariser", "scsvrg", steps(sampled)))
    if name.startswith("synthetic"):
        rng = np.random.default_rng(SEED + 1)
        noisy = replace(dataset, y=noisy_targets(dataset.X, rng, PRINTED_NOISE))
        curves = steps(Setting(), noisy, find_minimum(noisy.X, noisy.y))
        found.append(Alternative(f"noise of variance {PRINTED_NOISE}", "svrg", curves))
    return tuple(found)


def investigate(name: str, folder: Any, quick: bool, tell: Tell) -> Outcome:
    """Run all experiments on one problem; MissingData if neither it nor a stand-in is at hand."""
    problem = PROBLEMS[name]
    dataset = load_problem(name, folder, quick)
    n, d = dataset.X.shape
    tell(f"{problem.title}: {n} × {d}, data {dataset.name}")
    epochs = QUICK_EPOCHS if quick else paper_curves(name).svrg.size
    minimum = find_minimum(dataset.X, dataset.y)
    tell(f"  F* = {minimum.objective:.10g}, at most {minimum.gap:.1e} too high")
    ratio = measure_ratio(dataset.X)
    tell(f"  ratio at k = {RANK}: {ratio.sketched[RANK - 1]:.4g}")
    svrg = run_steps(dataset, Setting(), STEPS, minimum, epochs, tell)
    scsvrg = run_steps(dataset, Setting(rank=RANK), STEPS, minimum, epochs, tell)
    budget = best(scsvrg).passes[-1]
    relatives = [Setting(solver=solver, rank=RANK) for solver in RELATIVES if solver in SOLVERS]
    return Outcome(
        name=name,
        title=problem.title,
        data=dataset.name,
        shape=(n, d),
        notes=dataset.notes,
        cut=quick,
        minimum=float(minimum.objective),
        minimum_gap=float(minimum.gap),
        minimum_solver=minimum.plan.solver,
        ratio=ratio,
        svrg=svrg,
        scsvrg=scsvrg,
        alternatives=try_alternatives(name, dataset, minimum, epochs, tell),
        bolder=run_within(dataset, bolder_settings((n, d)), minimum, budget, tell),
        relatives=run_within(dataset, relatives, minimum, budget, tell),
    )
