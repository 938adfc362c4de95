"""`solve` as its users meet it: budgets, stopping, history, checkpoints, notes, side effects."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, repeat

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from sketchridge import (
    CG,
    SVRG,
    Exact,
    Lanczos,
    Nystrom,
    Record,
    Status,
    driver,
    solve,
    sparse_products,
    threads,
)
from sketchridge.certificate import certified_gap
from sketchridge.preconditioner import Embedding, FactorCurvature, low_rank
from sketchridge.problem import RidgeProblem
from sketchridge.solvers import ALLOWED, direct
from sketchridge.solvers.base import Iterate
from tests import literal
from tests.problems import CONVERGING as SOLVERS
from tests.problems import decaying, dense_of, sparse_rows, with_spectrum

LAM = 1e-5
ITERATIVE = [name for name in SOLVERS if name != "direct"]
DUAL = ("sdca", "kaczmarz")
# Those that take the preconditioners of low rank.
SKETCHED = [name for name in ITERATIVE if "nystrom" in ALLOWED[name]]
every_solver = pytest.mark.parametrize("solver", SOLVERS)
iterative = pytest.mark.parametrize("solver", ITERATIVE)
plain_and_sketched = pytest.mark.parametrize(
    ("solver", "preconditioner"),
    [(s, p) for s in ITERATIVE for p in ("none", "nystrom") if p in ALLOWED[s]],
)
sketched_solver = pytest.mark.parametrize("solver", SKETCHED)
every_kind = pytest.mark.parametrize("kind", ["dense", "csr"])


def data(kind="dense", n=200, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = decaying(rng, n, d, 1.0) if kind == "dense" else sparse_rows(rng, n, d)
    X = X if kind == "dense" else canonical(X)
    return X, X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)


def canonical(X):
    X.sum_duplicates()
    return X


def excess(X, y, lam, coef):
    """F(w) − F*, by the normal equations."""
    X = dense_of(X)
    H = literal.correlation(X) + lam * np.eye(X.shape[1])
    error = coef - literal.ridge_solution(X, y, lam)
    return 0.5 * error @ H @ error


def null(y):
    return 0.5 * np.mean(y**2)


# -- when it stops -------------------------------------------------------------------------


@every_solver
@every_kind
@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-12])
def test_tol_is_the_certified_relative_gap(solver, kind, tol):
    X, y = data(kind)
    solution = solve(X, y, 1e-3, solver, tol=tol, random_state=0)
    assert solution.status is Status.CONVERGED and solution.converged is True
    assert solution.relative_gap <= tol == solution.tol
    assert solution.relative_gap == pytest.approx(solution.gap / null(y), rel=1e-12)
    assert excess(X, y, 1e-3, solution.coef) <= solution.gap + 1e-20 * null(y)


@plain_and_sketched
@every_kind
@pytest.mark.parametrize("budget", [1, 5, 12.5, 20])
def test_the_budget_of_passes_is_kept_within_an_iterate(solver, kind, preconditioner, budget):
    X, y = data(kind)
    rank = {"rank": 3} if preconditioner == "nystrom" else {}
    solution = solve(
        X, y, 1e-9, solver, preconditioner, tol=1e-15, max_passes=budget, random_state=0, **rank
    )
    assert solution.status is Status.MAX_PASSES and not solution.converged
    setting_up = 4  # norms, sketch, first evaluation, the stochastic solvers' coordinates
    an_iterate = 3  # an epoch over sparse rows
    certifying = 2  # a fresh gradient, and a sketch where there was none
    assert solution.passes <= max(budget, setting_up) + an_iterate + certifying
    assert excess(X, y, 1e-9, solution.coef) <= solution.gap
    assert solution.objective <= null(y) * (1 + 1e-12)
    assert "max_passes" in solution.status.value


@iterative
def test_the_budget_of_seconds_is_kept(solver):
    X, y = data()
    solution = solve(X, y, 1e-9, solver, "none", tol=1e-15, max_seconds=1e-6)
    assert solution.status is Status.MAX_SECONDS and not solution.converged
    assert solution.passes < 10
    slow = {"max_seconds": 0.2, "callback": lambda record: time.sleep(0.05)}
    solution = solve(X, y, 1e-9, solver, "none", tol=1e-15, **slow)
    assert solution.status is Status.MAX_SECONDS and 0.2 <= solution.seconds < 2.0


class TestFarGuess:
    """An embedding's guess, far from the goal: a certificate of it would be in vain."""

    @pytest.fixture
    def solved(self, monkeypatch):
        """A solve by an embedding, and how many energies its certificates took."""
        rng = np.random.default_rng(0)
        X = decaying(rng, 600, 60, 2.0)
        y = X @ rng.standard_normal(60) + rng.standard_normal(600)
        energies = []
        energy = FactorCurvature.energy

        def counted(self, G):
            energies.append(G)
            return energy(self, G)

        monkeypatch.setattr(FactorCurvature, "energy", counted)

        def solve_it(**more):
            energies.clear()
            solution = solve(
                X, y, LAM, solver="cg", preconditioner=Embedding(300), random_state=0, **more
            )
            return solution, len(energies), excess(X, y, LAM, solution.coef)

        return solve_it

    def test_costs_no_certificate(self, solved):
        solution, energies, true_gap = solved(tol=1e-9)
        assert solution.converged and true_gap <= solution.gap and energies == 1
        first = solution.history[0]
        assert first.certified and first.gap == pytest.approx(first.objective, rel=1e-9)

    def test_is_certified_where_the_solve_stops(self, solved):
        stopped, energies, true_gap = solved(tol=1e-9, callback=lambda record: True)
        spent, _, _ = solved(tol=1e-9, max_passes=1)
        assert energies == 1 and true_gap <= stopped.gap < 0.7 * stopped.history[0].gap
        assert (stopped.gap, stopped.passes) == (spent.gap, spent.passes)

    def test_is_the_answer_where_it_is_good_enough(self, solved):
        solution, energies, true_gap = solved(tol=0.4)
        assert solution.converged and true_gap <= solution.gap and energies == 1
        assert len(solution.history) == 1

    def test_is_the_answer_where_its_objective_alone_is_small_enough(self):
        """y is hardly more than X w, and a hundred rows make one of the embedding's."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((6000, 20))
        y, seen = X @ rng.standard_normal(20) + 0.01 * rng.standard_normal(6000), []
        how = {"solver": "cg", "preconditioner": Embedding(60, kind="countsketch")}
        loose = solve(X, y, 1e-9, tol=1e-9, random_state=0, callback=lambda record: True, **how)
        assert loose.gap == pytest.approx(loose.objective)  # the embedding tells less
        tol = 1.1 * loose.objective / null(y)
        solution = solve(X, y, 1e-9, tol=tol, random_state=0, callback=seen.append, **how)
        assert solution.status is Status.CONVERGED
        assert len(solution.history) == len(seen) == 1 and solution.passes == loose.passes

    def test_of_several_targets_waits_for_the_farthest(self):
        """One has nothing to fit, the guess of another is far."""
        rng = np.random.default_rng(0)
        X = decaying(rng, 600, 60, 2.0)
        Y = np.stack([X @ rng.standard_normal(60) + rng.standard_normal(600), np.ones(600)], axis=1)
        how = {"solver": "cg", "preconditioner": Embedding(300), "fit_intercept": True}
        solution = solve(X, Y, LAM, tol=1e-9, random_state=0, **how)
        assert solution.converged.all() and solution.history[0].relative_gap < 1

    def test_is_certified_where_the_start_was_given(self, solved):
        coef = solved(tol=1e-3)[0].coef
        solution, _, _ = solved(tol=1e-9, coef_init=coef)
        first = solution.history[0]
        assert first.gap < 0.5 * first.objective


def test_slow_progress_is_not_stagnation():
    """Nothing here is near the accuracy of float64."""
    X, y = data()
    solution = solve(X, y, 1e-9, SVRG(step=1e-6), "none", max_passes=60, random_state=0)
    objectives = [record.objective for record in solution.history]
    assert np.all(np.diff(objectives) < 0)
    assert solution.status is Status.MAX_PASSES


@every_solver
@every_kind
def test_an_unreachable_tol_stagnates(solver, kind):
    X, y = data(kind)
    solution = solve(X, y, 1e-2, solver, tol=1e-300, random_state=0)
    assert solution.status is Status.STAGNATED and not solution.converged
    assert solution.relative_gap < 1e-20
    assert excess(X, y, 1e-2, solution.coef) <= solution.gap


@dataclass(frozen=True)
class Settled(CG):
    """A point of a small gradient, and then for ever one of a smaller objective."""

    points: tuple[tuple[float, ...], ...] = ()

    def iterates(self, problem, preconditioner, start, rng):
        for point in chain(self.points[:1], repeat(self.points[1])):
            yield Iterate(np.array(point)[:, None], problem.evaluate(np.array(point)[:, None]))


def test_a_point_below_the_best_certified_one_is_no_progress_for_ever():
    """H is diag(1, 1e-2, 1e-6): what is certified beyond a sketch of rank one is ‖g‖²/2λ."""
    curvatures, lam = np.array([1.0, 1e-2, 1e-6]), 1e-9
    X = np.vstack([np.diag(np.sqrt(4 * (curvatures - lam))), np.zeros(3)])
    y = X @ np.ones(3) + [0.0, 0.0, 0.0, 1.0]  # the last is not to be fitted: F itself is no bound
    best = (curvatures - lam) / curvatures
    offsets = np.array([[0.0, 0.0, 1e-2], [0.0, 1e-5, 0.0]])
    points = tuple(map(tuple, best + offsets))
    solution = solve(X, y, lam, Settled(points=points), Nystrom(1), tol=1e-12, random_state=0)
    assert solution.status is Status.STAGNATED
    assert solution.passes < 30
    np.testing.assert_array_equal(solution.coef, points[0])
    assert solution.history[0].objective > solution.history[-1].objective


@every_solver
def test_nothing_to_fit_is_solved_by_zero(solver):
    X, _ = data()
    solution = solve(X, np.zeros(200), 1e-3, solver, coef_init=np.ones(40))
    assert solution.converged and solution.gap == 0 and not solution.coef.any()


@pytest.mark.parametrize("seed", [0, 1, 68, 116, 150])
def test_a_convergence_is_that_of_the_coefficients_returned(seed):
    """Also where the objective wavers, at a fixed step that is nearly too large."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((20, 3)), rng.standard_normal((20, 3)) * [1, 30, 1000]
    solution = solve(X, Y, 1e-2, SVRG(step=2.0), "nystrom", tol=1e-3, random_state=seed)
    assert solution.status is Status.CONVERGED
    assert solution.converged.all() and solution.relative_gap.max() <= 1e-3


# -- callback, history, interrupts -----------------------------------------------------------


@every_solver
@every_kind
def test_the_callback_gets_the_records_of_the_history(solver, kind):
    X, y = data(kind)
    seen = []
    solution = solve(X, y, 1e-3, solver, tol=1e-10, random_state=0, callback=seen.append)
    assert tuple(seen) == solution.history
    assert all(isinstance(record, Record) for record in seen)


@every_solver
@every_kind
def test_the_history_runs_forward_and_ends_at_the_answer(solver, kind):
    X, y = data(kind)
    solution = solve(X, y, LAM, solver, tol=1e-10, max_passes=500, random_state=0)
    passes = np.array([record.passes for record in solution.history])
    seconds = np.array([record.seconds for record in solution.history])
    assert np.all(np.diff(passes) >= 0) and np.all(np.diff(seconds) >= 0)
    last = solution.history[-1]
    assert last.certified and last.passes == solution.passes and last.seconds <= solution.seconds
    # The dual methods' points waver: the best of them is the answer, and it need not be the last.
    certified = [record for record in solution.history if record.certified]
    answer = min(certified, key=lambda record: record.gap)
    assert answer is last or solver in DUAL
    assert answer.gap == solution.gap and answer.objective == solution.objective
    assert answer.relative_gap == solution.relative_gap


@plain_and_sketched
def test_a_true_callback_stops_at_the_best_point_so_far(solver, preconditioner):
    X, y = data()
    seen = []

    def stop(record):
        seen.append(record)
        return record.passes > 15

    rank = {"rank": 3} if preconditioner == "nystrom" else {}
    how = {"tol": 1e-14, "callback": stop, "random_state": 0, **rank}
    solution = solve(X, y, LAM, solver, preconditioner, **how)
    assert solution.status is Status.STOPPED
    # What SAGA and SAG tell in between are estimates, from residuals of earlier points.
    estimates = solver in ("saga", "sag")
    lowest = min(record.objective for record in seen if record.certified or not estimates)
    assert solution.objective <= lowest * (1 + 1e-9)
    assert solution.objective < 0.5 * null(y)  # there was progress to keep
    assert excess(X, y, LAM, solution.coef) <= solution.gap


def test_a_callback_that_is_satisfied_by_a_solved_problem_does_not_spoil_it():
    X, y = data()
    solution = solve(X, y, 1e-3, callback=lambda record: True)
    assert solution.status is Status.CONVERGED


@iterative
def test_an_interrupt_returns_the_best_point_so_far(solver):
    X, y = data()
    seen = []

    def interrupt(record):
        seen.append(record)
        if record.passes > 15:
            raise KeyboardInterrupt

    solution = solve(X, y, LAM, solver, "none", tol=1e-14, callback=interrupt, random_state=0)
    assert solution.status is Status.INTERRUPTED
    # The best is what is certified best: a stochastic method's objective may have been lower.
    before = min(record.gap for record in seen if record.certified)
    assert solution.gap <= before * (1 + 1e-9)
    assert excess(X, y, LAM, solution.coef) <= solution.gap


@pytest.mark.parametrize("spec", [Nystrom(5), Lanczos(5), Exact(5)])
@sketched_solver
def test_an_interrupt_of_the_sketch_returns_the_start(spec, solver, monkeypatch):
    X, y = data()

    def interrupt(*arguments):
        raise KeyboardInterrupt

    for sketch in ("random_range", "block_lanczos", "exact_pairs"):
        monkeypatch.setattr(low_rank, sketch, interrupt)
    start = np.full(40, 0.1)
    solution = solve(X, y, LAM, solver, spec, coef_init=start)
    assert solution.status is Status.INTERRUPTED
    assert np.array_equal(solution.coef, start)
    assert excess(X, y, LAM, start) <= solution.gap


def test_an_interrupt_within_a_product_returns_the_start(monkeypatch):
    X, y = data()
    calls = []
    plain = RidgeProblem.gram

    def gram(self, V):
        calls.append(V)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(self, V)

    monkeypatch.setattr(RidgeProblem, "gram", gram)
    assert solve(X, y, LAM, "svrg", "lanczos").status is Status.INTERRUPTED


@pytest.mark.parametrize("lam", [0.0, 1e-3])
def test_an_interrupt_of_the_factorisation_returns_what_there_is(lam, monkeypatch):
    X, y = data()

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(direct, "factorise", interrupt)
    solution = solve(X, y, lam, "direct")
    assert solution.status is Status.INTERRUPTED and not solution.converged
    assert np.isfinite(solution.coef).all()


def test_other_errors_of_a_callback_come_through():
    X, y = data()

    def fail(record):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        solve(X, y, LAM, callback=fail)


# -- randomness and threads --------------------------------------------------------------------


@every_solver
@every_kind
def test_the_same_seed_gives_the_same_answer_to_the_bit(solver, kind):
    preconditioned = SOLVERS[solver].uses_preconditioner
    for spec in (Lanczos(5), Nystrom(5), Exact(5)) if preconditioned else ("auto",):
        assert_repeatable(solver, kind, spec)


def assert_repeatable(solver, kind, spec):
    X, y = data(kind)
    settings = {"solver": solver, "preconditioner": spec, "fit_intercept": True}
    a, b = (solve(X, y, 1e-3, **settings, random_state=11) for _ in range(2))
    assert np.array_equal(a.coef, b.coef) and a.gap == b.gap and a.passes == b.passes


@every_kind
def test_another_seed_gives_another_path(kind):
    X, y = data(kind)
    a, b = (solve(X, y, 1e-3, "svrg", random_state=seed) for seed in (0, 1))
    assert not np.array_equal(a.coef, b.coef)


def test_a_generator_is_used_as_it_is():
    X, y = data()
    rng = np.random.default_rng(3)
    first, second = (solve(X, y, 1e-3, "svrg", random_state=rng) for _ in range(2))
    assert not np.array_equal(first.coef, second.coef)
    again = solve(X, y, 1e-3, "svrg", random_state=np.random.default_rng(3))
    assert np.array_equal(first.coef, again.coef)


def test_a_legacy_random_state_is_a_seed_too():
    X, y = data()
    a, b = (solve(X, y, 1e-3, "cg", random_state=np.random.RandomState(0)) for _ in range(2))
    assert np.array_equal(a.coef, b.coef)


@every_solver
@every_kind
def test_one_thread_and_all_give_the_same_answer_to_the_certified_gap(solver, kind, monkeypatch):
    monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
    X, y = data(kind)
    with threadpool_limits(1):
        alone = solve(X, y, 1e-3, solver, tol=1e-12, random_state=0)
    together = solve(X, y, 1e-3, solver, tol=1e-12, random_state=0)
    reach = np.sqrt(2 * alone.gap / 1e-3) + np.sqrt(2 * together.gap / 1e-3)
    assert np.linalg.norm(alone.coef - together.coef) <= reach


def test_sparse_products_keep_their_threads_inside_a_solve(monkeypatch):
    """BLAS is held to one thread beside them; that must not hold them too."""
    monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
    outside, counts = threads.thread_count(), []
    monkeypatch.setattr(
        sparse_products, "thread_count", lambda: counts.append(threads.thread_count()) or counts[-1]
    )
    X, y = data("csr")
    solve(X, y, 1e-3, "cg", "nystrom", random_state=0)
    assert set(counts) == {outside}


def test_solves_at_the_same_time_leave_the_threads_as_they_were():
    X, y = data("csr", 1000, 100)
    lams = np.geomspace(1e-4, 1e-2, 12)
    with threadpool_limits(None), ThreadPoolExecutor(4) as pool:  # restores what they may leave
        before = threads.thread_count()
        found = list(pool.map(lambda lam: solve(X, y, float(lam), "cg", tol=1e-8), lams))
        after = threads.thread_count()
    assert all(solution.converged for solution in found)
    assert after == before
    for lam, solution in zip(lams, found, strict=True):
        assert excess(X, y, lam, solution.coef) <= solution.gap


# -- warm starts, checkpoints, sketches of other solves -------------------------------------------


@sketched_solver
def test_a_warm_start_takes_fewer_passes(solver):
    X, y = data()
    cold = solve(X, y, LAM, solver, tol=1e-8, rank=5, random_state=0)
    warm = solve(X, y, LAM, solver, tol=1e-8, rank=5, random_state=0, coef_init=cold.coef)
    near = solve(X, y, 2 * LAM, solver, tol=1e-8, rank=5, random_state=0, coef_init=cold.coef)
    assert warm.converged and warm.passes < near.passes < cold.passes
    Y = np.column_stack([y, y])
    both = np.vstack([cold.coef, cold.coef])
    twice = solve(X, Y, LAM, solver, tol=1e-8, rank=5, random_state=0, coef_init=both)
    assert twice.converged.all() and twice.passes < cold.passes


@every_solver
def test_a_checkpoint_is_written_whole(solver, tmp_path):
    X, y = data()
    file = tmp_path / "solve.npz"
    solution = solve(X, y, 1e-3, solver, checkpoint=file, random_state=0)
    assert [path.name for path in tmp_path.iterdir()] == ["solve.npz"]
    with np.load(file) as saved:
        assert np.array_equal(saved["coef"][:, 0], solution.coef)


@sketched_solver
def test_a_solve_goes_on_from_its_checkpoint(solver, tmp_path):
    X, y = data()
    settings = {"solver": solver, "rank": 3, "tol": 1e-9, "random_state": 0}
    whole = solve(X, y, LAM, **settings)
    file = tmp_path / "solve.npz"
    part = solve(X, y, LAM, **settings, checkpoint=file, max_passes=whole.passes * 0.6)
    assert part.status is Status.MAX_PASSES
    rest = solve(X, y, LAM, **settings, checkpoint=str(file))
    assert rest.converged and rest.history[0].objective == pytest.approx(part.objective, rel=1e-9)
    assert any("checkpoint" in note for note in rest.plan.notes)
    again = solve(X, y, LAM, **settings, checkpoint=file)
    # A dual method starts anew, and has looked at the checkpoint's point besides.
    assert again.converged and again.passes < rest.passes <= whole.passes + (solver in DUAL)


@pytest.mark.parametrize("change", ["X", "y", "sign of y", "lam", "small lam", "weights"])
def test_a_checkpoint_of_another_problem_is_refused(change, tmp_path):
    X, y = data()
    lam = 1e-9 if change == "small lam" else 1e-3
    file = tmp_path / "solve.npz"
    solve(X, y, lam, checkpoint=file)
    other = {
        "X": (X + 1e-6, y, lam),
        "y": (X, y + 1e-6, lam),
        "sign of y": (X, -y, lam),
        "lam": (X, y, 1.1 * lam),
        "small lam": (X, y, 10 * lam),
        "weights": (X, y, lam),
    }[change]
    weights = {"sample_weight": np.arange(1.0, 201.0)} if change == "weights" else {}
    with pytest.raises(ValueError, match=r"solve\.npz.*another problem.*remove it or name another"):
        solve(*other, **weights, checkpoint=file)


def break_file(how, file):
    whole = file.read_bytes()
    if how == "empty":
        file.write_bytes(b"")
    elif how == "text":
        file.write_text("not a checkpoint")
    elif how == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif how == "flipped":
        middle = len(whole) // 2
        file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
    elif how == "other arrays":
        np.savez(file, a=np.ones(3))
    elif how == "one array":
        with file.open("wb") as stream:
            np.save(stream, np.ones(3))
    elif how == "objects":
        np.savez(file, fingerprint=np.array([None, {}], dtype=object), coef=np.ones(3))
    elif how == "wrong shape":
        with np.load(file) as saved:
            fingerprint = saved["fingerprint"]
        np.savez(file, fingerprint=fingerprint, coef=np.ones((3, 1)))
    elif how == "not finite":
        with np.load(file) as saved:
            fingerprint, coef = saved["fingerprint"], saved["coef"]
        np.savez(file, fingerprint=fingerprint, coef=coef * np.nan)


BREAKS = ["empty", "text", "cut", "flipped", "other arrays", "one array", "objects"]
BREAKS += ["wrong shape", "not finite"]


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_checkpoint_is_refused_and_kept(how, tmp_path):
    X, y = data()
    file = tmp_path / "solve.npz"
    solve(X, y, 1e-3, "cg", checkpoint=file)
    break_file(how, file)
    broken = file.read_bytes()
    with pytest.raises(ValueError, match=r"solve\.npz.*remove it or name another"):
        solve(X, y, 1e-3, "cg", checkpoint=file)
    assert file.read_bytes() == broken


def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    X, y = data()
    seen = []
    with pytest.raises((OSError, ValueError), match="checkpoint"):
        solve(X, y, 1e-3, checkpoint=tmp_path / "nowhere" / "solve.npz", callback=seen.append)
    assert seen == []


def test_a_write_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    X, y = data()
    file = tmp_path / "solve.npz"
    solve(X, y, 1e-3, "cg", checkpoint=file, tol=1e-2)
    before = file.read_bytes()

    def full(stream, **arrays):
        stream.write(b"half of it")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space"):
        solve(X, y, 1e-3, "cg", checkpoint=file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("spec", [Lanczos(8), Nystrom(8), Exact(8)])
@sketched_solver
@every_kind
def test_one_sketch_serves_many_solves(spec, solver, kind):
    X, y = data(kind)
    first = solve(X, y, 1e-3, solver, spec, random_state=0)
    other = np.roll(y, 1)
    sketched = solve(X, other, 1e-4, solver, spec, tol=1e-8, random_state=0)
    reused = solve(X, other, 1e-4, solver, first.preconditioner, tol=1e-8, random_state=0)
    assert reused.converged
    # Both may have had to back off, by the luck of their draws; else the same is said of both.
    said, said_before = (
        [note for note in solution.plan.notes if "objective grew" not in note]
        for solution in (reused, sketched)
    )
    assert said == said_before
    assert excess(X, other, 1e-4, reused.coef) <= reused.gap
    assert reused.preconditioner.lam == 1e-4
    # The others take one pass, as it takes to know the data again; svrg's passes are random.
    if isinstance(spec, Lanczos) and solver == "cg":
        assert reused.passes < sketched.passes


@sketched_solver
@pytest.mark.parametrize("spec", [Lanczos(8), Nystrom(8), Exact(8)])
def test_a_sketch_of_other_data_serves_is_noted_and_certifies_nothing(solver, spec):
    X, y = data()
    other, _ = data(seed=1)
    foreign = solve(other, y, 1e-3, solver, spec, random_state=0).preconditioner
    solution = solve(X, y, 1e-3, solver, foreign, tol=1e-6, max_passes=2000, random_state=0)
    assert any("other data" in note for note in solution.plan.notes)
    assert excess(X, y, 1e-3, solution.coef) <= solution.gap


@pytest.mark.parametrize("spec", [Lanczos(2), Nystrom(10), Exact(2)])
def test_a_sketch_of_nearly_the_same_data_does_not_break_the_certificate(spec):
    """They differ in a direction too weak to notice, and far stronger than λ in one of them."""

    def matrix(second):
        return with_spectrum(np.random.default_rng(0), 200, 40, [1.0, second, *[1e-9] * 38])

    strong, weak, lam = matrix(1e-4), matrix(1e-9), 1e-13
    left, _, right = np.linalg.svd(strong)
    y, start = 1e-3 * left[:, 1], 1e3 * right[1]
    sketch = solve(strong, y, lam, "cg", spec, random_state=0).preconditioner
    solution = solve(weak, y, lam, "cg", sketch, tol=0.1, coef_init=start, max_passes=4)
    assert excess(weak, y, lam, solution.coef) <= solution.gap


@sketched_solver
@pytest.mark.parametrize("preconditioner", ["none", "nystrom", "lanczos", "exact"])
@pytest.mark.parametrize(("n", "d", "power", "lam"), [(200, 150, 4.0, 1e-6), (20, 40, 6.0, 1e-6)])
def test_the_certificate_covers_the_truth_on_steep_spectra(
    solver, preconditioner, n, d, power, lam
):
    """Whatever the budget: a bound that fails on the way is no bound."""
    for seed, budget in enumerate([1, 4, 6, 8, 12]):
        rng = np.random.default_rng(seed)
        X, y = decaying(rng, n, d, power), rng.standard_normal(n)
        solution = solve(
            X, y, lam, solver, preconditioner, tol=1e-14, max_passes=budget, random_state=seed
        )
        truth = excess(X, y, lam, solution.coef)
        assert truth <= solution.gap * (1 + 1e-6) + 1e-16 * null(y), (seed, budget, solution)


# -- the plan, and what is said ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "chosen"),
    [((200, 40), "direct"), ((2100, 2050), "cg")],
)
def test_auto_is_direct_when_small_and_cg_when_large_and_sparse(size, chosen):
    rng = np.random.default_rng(0)
    X = sparse.random_array(size, density=0.01, rng=rng, format="csr")
    solution = solve(X, rng.standard_normal(size[0]), 1e-4, tol=1e-3, random_state=0)
    assert solution.plan.solver == chosen
    assert bool(solution.plan.forecasts) == (chosen == "cg")


def unsorted(X):
    """The same matrix with the indices of every row reversed."""
    order = np.concatenate(
        [np.arange(a, b)[::-1] for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    )
    return sparse.csr_array((X.data[order], X.indices[order], X.indptr), shape=X.shape)


def duplicated(X):
    """The same matrix with every value in two halves."""
    return sparse.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )


NOTED = {
    "csc": ("csr", lambda X: X.tocsc(), "not in CSR"),
    "coo": ("csr", lambda X: X.tocoo(), "not in CSR"),
    "unsorted": ("csr", unsorted, "unsorted or duplicate"),
    "duplicated": ("csr", duplicated, "unsorted or duplicate"),
    "integers": ("dense", lambda X: np.rint(9 * X).astype(int), "int64: copied to float64"),
    "bytes": ("dense", lambda X: np.rint(9 * X).astype(np.int8), "int8: copied to float32"),
    "booleans": ("dense", lambda X: X > 0, "bool: copied to float32"),
    "half precision": ("dense", lambda X: X.astype(np.float16), "float16: copied to float32"),
    "big-endian": ("dense", lambda X: X.astype(">f8"), "copied to float64"),
    "not contiguous": ("dense", lambda X: X[::2, ::2], "not contiguous"),
    "reversed": ("dense", lambda X: X[::-1], "not contiguous"),
    "sparse integers": ("csr", lambda X: (X * 9).astype(int), "int64: copied to float64"),
}


@pytest.mark.parametrize("form", NOTED)
@every_solver
def test_copies_and_casts_are_noted_and_change_nothing(form, solver):
    kind, change, said = NOTED[form]
    X, y = data(kind)
    X = change(X)
    y = y[: X.shape[0]]
    solution = solve(X, y, 1e-2, solver, tol=1e-9, random_state=0)
    assert any(said in note and "MB" in note for note in solution.plan.notes)
    assert excess(X, y, 1e-2, solution.coef) <= solution.gap + 1e-20 * null(y)
    assert solution.converged


def test_fortran_order_is_copied_for_rowwise_solvers_alone():
    X, y = data()
    X = np.asfortranarray(X)
    for solver, copied in [("svrg", True), ("cg", False), ("direct", False)]:
        notes = solve(X, y, 1e-2, solver, random_state=0).plan.notes
        assert any("Fortran" in note for note in notes) == copied


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["direct", *SKETCHED])
def test_data_that_suits_leaves_no_notes(kind, solver):
    X, y = data(kind)
    assert solve(X, y, 1e-2, solver, random_state=0).plan.notes == ()


@pytest.mark.parametrize("solver", ["auto", "cg", "sdca", "svrg", "direct"])
def test_sparse_memory_maps_serve_as_they_are(solver, tmp_path):
    X, y = data("csr")
    parts = []
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
        parts.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    mapped = sparse.csr_array(tuple(parts), shape=X.shape)
    assert np.shares_memory(mapped.data, parts[0])
    here, there = (solve(each, y, 1e-2, solver, random_state=0) for each in (X, mapped))
    assert there.converged and there.plan.notes == here.plan.notes
    np.testing.assert_array_equal(there.coef, here.coef)


def test_too_little_memory_is_refused_in_numbers_before_the_work():
    X, y = data()
    seen = []
    with pytest.raises(ValueError, match=r"max_memory=1000 bytes.*direct.*needs about [\d.e+]+"):
        solve(X, y, 1e-3, max_memory=1000, callback=seen.append)
    assert seen == []
    assert solve(X, y, 1e-3, max_memory=1e9).converged


@pytest.mark.parametrize("lam", [0.0, 1e-20])
def test_the_memory_of_a_dense_copy_counts(lam):
    """Without much of a penalty the direct solver decomposes X, made dense: here 8 MB."""
    X = sparse.random_array((50, 20_000), density=1e-3, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="max_memory"):
        solve(X.tocsr(), np.ones(50), lam, "direct", max_memory=4e6)


def test_the_memory_of_a_copy_in_the_other_order_counts():
    X = np.ones((100_000, 20), order="F")
    with pytest.raises(ValueError, match="max_memory"):
        solve(X, np.ones(100_000), 0.1, SVRG(), "none", max_memory=X.nbytes)


def test_repr_says_how_it_went_in_a_line():
    X, y = data()
    text = repr(solve(X, y, 1e-3, "svrg", rank=5, random_state=0))
    assert text.startswith("Solution(converged, relative gap ≤ ") and "\n" not in text
    assert "svrg+lanczos" in text and "passes" in text and text.endswith(" s)")
    assert len(text) < 100


@pytest.mark.parametrize("targets", [1, 3])
def test_the_summary_tells_the_whole_story(targets):
    X, y = data()
    Y = y if targets == 1 else np.column_stack([y] * targets)
    solution = solve(np.asfortranarray(X), Y, 1e-3, "svrg", rank=5, random_state=0)
    text = solution.summary()
    for part in [
        "200 rows × 40 columns",
        Status.CONVERGED.value,
        "objective",
        "certified gap",
        "(tol 1e-06)",
        f"{solution.passes:.1f} passes",
        "svrg with lanczos (rank 5): as asked",
        "note: X is in Fortran order",
    ]:
        assert part in text
    assert ("3 targets" in text) == (targets == 3)
    assert str(solution.plan) in text.replace("\n" + 15 * " ", "\n")


# -- side effects --------------------------------------------------------------------------


def frozen(X):
    """Read-only all over."""
    for array in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        array.setflags(write=False)
    return X


def contents(X):
    arrays = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    return [array.tobytes() for array in arrays]


@every_solver
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
def test_nothing_that_is_given_is_changed(solver, kind, intercept):
    X, y = data(kind)
    Y = np.column_stack([y, y + 1])
    weights, start = np.linspace(0, 1, 200), np.ones((2, 40))
    given = [frozen(X), *(frozen(array) for array in (Y, weights, start))]
    before = [contents(array) for array in given]
    solution = solve(
        X,
        Y,
        1e-3,
        solver,
        sample_weight=weights,
        coef_init=start,
        fit_intercept=intercept,
        scale_rows=True,
        random_state=0,
    )
    assert solution.converged.all()
    assert [contents(array) for array in given] == before


@every_solver
@pytest.mark.parametrize("change", [unsorted, duplicated])
def test_a_csr_matrix_out_of_order_is_left_so(solver, change):
    X, y = data("csr")
    X = change(X)
    before = contents(X)
    solve(X, y, 1e-3, solver, random_state=0)
    assert contents(X) == before


@every_solver
def test_writable_data_is_not_written_to(solver):
    for order, intercept in [("C", False), ("F", True)]:
        X, y = data()
        X = np.array(X, order=order)
        before = contents(X), contents(y)
        solve(X, y, 1e-3, solver, fit_intercept=intercept, random_state=0)
        solve(X, y, 1e-25, "direct", fit_intercept=intercept)  # by singular values
        assert (contents(X), contents(y)) == before


def test_the_answer_is_the_users_own():
    """Changing it changes neither y nor another solution."""
    X, y = data()
    start = np.ones(40)
    solution = solve(X, y, 1e-3, "cg", coef_init=start, max_passes=1)
    solution.coef[:] = 7.0
    assert np.array_equal(start, np.ones(40))


# -- imports -------------------------------------------------------------------------------


def imported(code):
    """The modules that a fresh interpreter has after running the code."""
    script = f"{code}\nimport sys; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


HEAVY = {"numba", "llvmlite", "matplotlib", "rich", "typer", "sklearn", "pandas"}


def test_importing_the_package_loads_nothing_heavy():
    assert not imported("import sketchridge") & HEAVY


def test_a_small_direct_solve_does_not_load_numba():
    loaded = imported(
        "import numpy as np, scipy.sparse as sp; from sketchridge import solve\n"
        "X = np.ones((50, 3)); y = np.ones(50)\n"
        "for A in (X, X.astype('f4'), sp.csr_array(X)):\n"
        "    solve(A, y, 0.1, fit_intercept=True); solve(A, y, 0.1, 'cg')\n"
        "tall = np.random.default_rng(0).standard_normal((50_000, 40))\n"
        "assert solve(tall, tall[:, :3], 1e-3).plan.solver == 'direct'"
    )
    assert not loaded & HEAVY


def test_the_public_names_are_the_ones_that_are_listed():
    import sketchridge

    assert all(hasattr(sketchridge, name) for name in sketchridge.__all__)
    assert sketchridge.solve is driver.solve and sketchridge.CG is CG


# -- running gradients ---------------------------------------------------------------------------


def hard_for_the_certificate():
    """Rounding adds a few per cent to the certificate at tol = 1e-8."""
    condition, d = 1e9, 100
    X = with_spectrum(np.random.default_rng(0), 110, d, np.geomspace(1, condition**-0.5, d))
    y = np.linalg.svd(X, full_matrices=False)[0].sum(axis=1)
    return X, y, 0.1 / condition


def test_a_certificate_that_is_missed_by_a_little_does_not_start_the_solver_again():
    X, y, lam = hard_for_the_certificate()
    settings = {"rank": 20, "tol": 1e-8, "max_passes": 5000, "random_state": 0}
    solution = solve(X, y, lam, "cg", "nystrom", **settings)
    assert solution.converged
    assert sum(record.certified for record in solution.history) <= 4
    # Literally: every point of one uninterrupted run certified afresh, until one is within tol.
    problem = RidgeProblem(X, y[:, None], lam)
    built = solution.preconditioner
    iterates = CG().iterates(problem, built, np.zeros((100, 1)), None)
    gaps = (
        certified_gap(problem, built.curvature(), problem.evaluate(iterate.coef))[0]
        for iterate in iterates
    )
    goal = 1e-8 * problem.null_objective[0]
    enough = next(iteration for iteration, gap in enumerate(gaps) if gap <= goal)
    assert solution.passes <= enough + 20


@pytest.mark.parametrize("scales", [(1.0, 2.0**-13), (1.0, 0.0), (2.0**20, 1.0, 0.0)])
def test_targets_of_other_sizes_do_not_put_the_end_off(scales):
    """A look that promises success comes as soon as each target's own gradient does.

    Powers of two: every number is scaled without rounding, so that the passes must be the same.
    """
    X = with_spectrum(np.random.default_rng(0), 200, 60, np.logspace(0, -1.5, 60))
    y = np.random.default_rng(1).standard_normal((200, 1))
    settings = {"solver": "cg", "preconditioner": "nystrom", "rank": 5, "tol": 1e-5}
    alike = solve(X, y * np.ones(len(scales)), 1e-4, random_state=0, **settings)
    unlike = solve(X, y * scales, 1e-4, random_state=0, **settings)
    assert unlike.converged.all() and unlike.passes == alike.passes


def test_a_gradient_that_has_drifted_is_replaced(monkeypatch):
    """A solver whose running gradient is not its point's is told, and ends all the same."""
    X, y = data()
    sent = []
    literal_iterates = CG.iterates

    def drifting(self, problem, preconditioner, start, rng):
        inner = literal_iterates(self, problem, preconditioner, start, rng)
        fresh, drift = None, 1e-3
        while True:
            iterate = inner.send(fresh)
            if iterate.gradient is not None:
                iterate = replace(iterate, coef=iterate.coef + drift, known=None)
            fresh = yield iterate
            if fresh is not None:
                sent.append(fresh)
                drift = 0.0

    monkeypatch.setattr(CG, "iterates", drifting)
    solution = solve(X, y, LAM, "cg", "nystrom", tol=1e-10, random_state=0)
    assert solution.converged and len(sent) == 1
    assert excess(X, y, LAM, solution.coef) <= solution.gap
