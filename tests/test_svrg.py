"""The fast epoch against the paper's algorithm written out, on the same random indices."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sketchridge import threads
from sketchridge.preconditioner import Exact, Lanczos, NoPreconditioner
from sketchridge.solvers import svrg
from sketchridge.solvers.components import Components
from sketchridge.solvers.svrg import SVRG, svrg_moves
from tests import literal
from tests.problems import centred, decaying, dense_of, make, sparse_rows, with_spectrum

EPOCHS = {"exact": literal.svrg_epoch_exact, "sampled": literal.svrg_epoch_sampled}


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def data(kind, n, d, rng):
    if kind == "dense":
        return decaying(rng, n, d, 1.5)
    if kind == "fortran":
        return np.asfortranarray(decaying(rng, n, d, 1.5))
    return sparse_rows(rng, n, d)


class Epoch:
    """One epoch from a random point, by the kernel and by the literal algorithm."""

    def __init__(
        self,
        X,
        lam,
        spec,
        length=90,
        regularization="exact",
        snapshot="average",
        weights=None,
        intercept=False,
        seed=3,
    ):
        rng = np.random.default_rng(seed)
        n, d = X.shape
        y = rng.standard_normal(n)
        self.problem = make(X, y, lam, weights, intercept)
        self.preconditioner = spec.build(self.problem, rng)
        self.components = Components.of(self.problem, self.preconditioner, regularization)
        self.solver = SVRG(snapshot=snapshot, regularization=regularization)
        self.order = self.components.draw(rng, length)
        self.start = rng.standard_normal((d, 1))
        self.data = centred(X, y, self.problem.weights * intercept)

    def shrink(self, step):
        """ρ, the factor that a step of this size (in units of 1/β̂) applies outside the basis."""
        scale = self.preconditioner.outside * self.problem.lam / self.components.smoothness
        return 1.0 - step * scale

    def step_of(self, shrink):
        """The step whose ρ is this."""
        scale = self.preconditioner.outside * self.problem.lam / self.components.smoothness
        return (1.0 - shrink) / scale

    def move(self, step):
        gradient = self.problem.evaluate(self.start).gradient
        eta = np.array([step / self.components.smoothness])
        snapshot = self.solver.snapshot
        moves = svrg_moves(self.problem, self.components, gradient, self.order, eta, snapshot)
        return moves[:, 0]

    def literal_move(self, step):
        end = EPOCHS[self.solver.regularization](
            *self.data,
            self.problem.lam,
            self.preconditioner.power(np.eye(self.problem.d), -0.5),
            self.start[:, 0],
            self.order,
            step / self.components.smoothness,
            self.solver.snapshot,
            self.problem.weights,
        )
        return end - self.start[:, 0]

    def error(self, step=0.7):
        return relative(self.move(step), self.literal_move(step))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("snapshot", ["average", "last"])
@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@pytest.mark.parametrize("spec", [NoPreconditioner(), Lanczos(rank=4, blocks=2), Exact(rank=5)])
@pytest.mark.parametrize("kind", ["dense", "fortran", "csr"])
def test_an_epoch_is_the_papers_epoch(kind, spec, regularization, snapshot, weighted, intercept):
    rng = np.random.default_rng(3)
    X = data(kind, 41, 23, rng)
    weights = rng.uniform(0.0, 2.0, 41) if weighted else None
    if weighted:
        weights[:3] = 0.0
    epoch = Epoch(X, 1e-3, spec, 90, regularization, snapshot, weights, intercept)
    assert epoch.error() < 1e-9


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("snapshot", ["average", "last"])
@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_an_epoch_is_the_papers_however_strong_the_first_direction(
    kind, regularization, snapshot, condition
):
    rng = np.random.default_rng(4)
    if kind == "dense":
        leading = np.geomspace(1, condition**-0.5, 10)
        X = with_spectrum(rng, 40, 20, [*leading, *(leading[-1] * leading)])
    else:
        X = sparse_rows(rng, 40, 20)
        X.data *= np.geomspace(1, condition**-0.5, 20)[X.indices]
    spec = Exact(rank=10 if kind == "dense" else 19)
    epoch = Epoch(X, 1e-9, spec, 90, regularization, snapshot)
    values = epoch.preconditioner.spectrum.values
    assert values[0] / values[-1] > 0.5 * condition
    # The literal P^{-1/2} applied twice is P⁻¹ up to the roundoff of U times the condition; a lazy
    # sum over sparse rows cancels as well. They differ by 1 to 5 of it, and up to 50.
    roundoff = np.finfo(float).eps * condition
    assert epoch.error() < (10 * roundoff if kind == "dense" else min(100 * roundoff, 1e-9))


# λ large and small ------------------------------------------------------------------------------

FORMS = [
    (kind, spec, snapshot, intercept)
    for kind in ("dense", "csr")
    for spec in (NoPreconditioner(), Lanczos(rank=4, blocks=2))
    for snapshot in ("average", "last")
    for intercept in (False, True)
]


@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@pytest.mark.parametrize("factor", [100.0, 1e6, 1e-14])
@pytest.mark.parametrize("kind, spec, snapshot, intercept", FORMS)
def test_an_epoch_is_the_papers_at_any_lambda(
    kind, spec, snapshot, intercept, factor, regularization
):
    X = data(kind, 41, 23, np.random.default_rng(5))
    lam = factor * np.linalg.norm(literal.correlation(dense_of(X)), 2)
    epoch = Epoch(X, lam, spec, 90, regularization, snapshot, intercept=intercept)
    for step in (0.1, 0.7, 1.5):
        assert epoch.error(step) < 1e-9


@pytest.mark.parametrize("shrink", [0.9, 1e-3, 1e-12, 0.0, -1e-12, -0.5, -0.9])
@pytest.mark.parametrize("kind, spec, snapshot, intercept", FORMS)
def test_an_epoch_is_the_papers_whatever_a_step_leaves_of_the_last(
    kind, spec, snapshot, intercept, shrink
):
    lam = 2.0**20
    X = data(kind, 41, 23, np.random.default_rng(6))
    epoch = Epoch(X, lam, spec, 61, snapshot=snapshot, intercept=intercept)
    step = epoch.step_of(shrink)
    assert epoch.shrink(step) == pytest.approx(shrink, rel=1e-3, abs=1e-15)
    assert epoch.error(step) < 1e-9


@pytest.mark.parametrize("snapshot", ["average", "last"])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_a_step_may_forget_everything_before_it(kind, snapshot):
    """ρ = 0 exactly: λ and η are powers of two."""
    X = data(kind, 41, 23, np.random.default_rng(6))
    epoch = Epoch(X, 2.0**20, NoPreconditioner(), 61, snapshot=snapshot, intercept=True)
    step = 2.0**-20 * epoch.components.smoothness
    assert epoch.shrink(step) == 0.0
    assert epoch.error(step) < 1e-9


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("snapshot", ["average", "last"])
@pytest.mark.parametrize("shrink", [0.5, -0.5])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_powers_of_the_shrinking_may_underflow(kind, shrink, snapshot, intercept):
    X = data(kind, 41, 23, np.random.default_rng(7))
    epoch = Epoch(X, 1e3, Lanczos(rank=3), 5000, snapshot=snapshot, intercept=intercept)
    assert abs(shrink) ** 5000 == 0.0
    assert epoch.error(epoch.step_of(shrink)) < 1e-9


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_an_epoch_that_diverges_is_the_papers_too(kind, intercept):
    X = data(kind, 41, 23, np.random.default_rng(8))
    epoch = Epoch(X, 1e6, NoPreconditioner(), 401, snapshot="last", intercept=intercept)
    step = epoch.step_of(-2.0)
    assert np.linalg.norm(epoch.move(step)) > 1e100
    assert epoch.error(step) < 1e-9


# Kinds of data, lengths and targets -------------------------------------------------------------


def narrow(X):
    return X.astype(np.float32)


def long_indices(X):
    X = X.copy()
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "kind, cast",
    [("dense", narrow), ("csr", narrow), ("csr", long_indices)],
    ids=["float32", "float32 CSR", "int64 CSR"],
)
def test_an_epoch_on_narrow_data_or_long_indices_is_the_papers(
    kind, cast, intercept, regularization
):
    X = cast(data(kind, 41, 23, np.random.default_rng(9)))
    epoch = Epoch(X, 1e-3, Lanczos(rank=4), 90, regularization, intercept=intercept)
    assert epoch.error() < 1e-9


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7, 8, 9, 43])
@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@pytest.mark.parametrize("snapshot", ["average", "last"])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_an_epoch_of_any_length_is_the_papers(kind, snapshot, regularization, length):
    X = data(kind, 41, 23, np.random.default_rng(10))
    epoch = Epoch(X, 1e-2, Lanczos(rank=4), length, regularization, snapshot, intercept=True)
    assert epoch.error() < 1e-9


def test_rows_may_repeat_within_an_epoch():
    for kind in ("dense", "csr"):
        epoch = Epoch(data(kind, 41, 23, np.random.default_rng(11)), 1e-2, Lanczos(rank=4), 9)
        epoch.order[:] = epoch.order[0]
        assert epoch.error(0.1) < 1e-9


@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_several_targets_are_as_many_epochs_of_one(kind, regularization):
    rng = np.random.default_rng(12)
    X, Y = data(kind, 41, 23, rng), rng.standard_normal((41, 3))
    start, steps = rng.standard_normal((23, 3)), np.array([0.3, 0.7, 1.1])

    def moves(targets):
        problem = make(X, Y[:, targets], 1e-3, fit_intercept=True)
        preconditioner = Lanczos(rank=4).build(problem, np.random.default_rng(0))
        components = Components.of(problem, preconditioner, regularization)
        order = components.draw(np.random.default_rng(1), 90)
        gradient = problem.evaluate(start[:, targets]).gradient
        eta = steps[targets] / components.smoothness
        return svrg_moves(problem, components, gradient, order, eta, "average")

    together = moves([0, 1, 2])
    for target in range(3):
        assert np.allclose(together[:, target], moves([target])[:, 0], rtol=1e-11, atol=1e-14)


# Without the compiler ---------------------------------------------------------------------------


def tiny_moves():
    """A few epochs' moves, one number each, for the test below and its subprocess."""
    for kind in ("dense", "csr"):
        for regularization in ("exact", "sampled"):
            X = data(kind, 15, 6, np.random.default_rng(13))
            epoch = Epoch(X, 1e-2, Lanczos(rank=2), 11, regularization, intercept=True)
            yield float(np.linalg.norm(epoch.move(0.7)))


def test_the_kernels_give_the_same_numbers_without_the_compiler():
    script = "from tests.test_svrg import tiny_moves; print(*map(float.hex, tiny_moves()))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    interpreted = [float.fromhex(number) for number in run.stdout.split()]
    assert np.allclose(interpreted, list(tiny_moves()), rtol=1e-13)


# On several threads -----------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("snapshot", ["average", "last"])
def test_threads_that_share_the_columns_take_the_literal_steps(
    monkeypatch, threads, regularization, intercept, snapshot
):
    monkeypatch.setattr(svrg, "COLUMNS_A_THREAD", 8)
    monkeypatch.setattr(svrg, "thread_count", lambda: threads)
    assert len(svrg.column_bounds(35, threads)) == threads + 1
    X = data("dense", 41, 35, np.random.default_rng(21))
    epoch = Epoch(X, 1e-3, Lanczos(rank=4), 203, regularization, snapshot, None, intercept)
    assert epoch.error(0.7) < 1e-9
    # Together first, alone then: the same to the last bit.
    epoch.components.team.runs = 0
    assert np.array_equal(epoch.move(0.7), epoch.move(0.7))
    assert epoch.components.team.runs == 2


def test_more_epochs_at_once_than_threads_wait_for_each_other_without_end(monkeypatch):
    monkeypatch.setattr(svrg, "COLUMNS_A_THREAD", 8)
    monkeypatch.setattr(svrg, "thread_count", lambda: 2)
    X = data("dense", 41, 35, np.random.default_rng(22))
    epochs = [Epoch(X, 1e-3, Lanczos(rank=4), 400, seed=seed) for seed in range(8)]
    alone = [epoch.move(0.7) for epoch in epochs]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda epoch: epoch.move(0.7), epochs, timeout=60))
    assert all(map(np.array_equal, alone, together))


@pytest.mark.parametrize(("d", "threads"), [(5000, 2), (2047, 2), (10**6, 7), (1, 4), (3000, 1)])
def test_columns_are_parted_on_cache_lines_and_short_rows_are_not(d, threads):
    bounds = svrg.column_bounds(d, threads)
    assert bounds[0] == 0 and bounds[-1] == d and np.all(np.diff(bounds) > 0)
    assert all(bound % 8 == 0 for bound in bounds[:-1])
    assert len(bounds) - 1 <= max(1, min(threads, d // 1024))


def test_a_team_keeps_to_the_faster_way_and_gives_the_other_a_chance(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(threads.time, "perf_counter", lambda: clock[0])
    ways = []

    def work(way, seconds):
        ways.append(way)
        clock[0] += seconds

    team = threads.Team()
    together = [partial(work, "together", 3.0), lambda: None]
    for _ in range(40):
        team.run(together, [partial(work, "alone", 1.0)])
    assert ways[:3] == ["together", "alone", "together"]
    assert ways[3:].count("together") == 2  # the second chances
    team.run([partial(work, "together", 3.0)], [partial(work, "alone", 1.0)])
    assert ways[-1] == "alone"  # a team of one
