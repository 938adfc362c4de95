"""What "auto" takes, what it says of it, and when it changes its mind."""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from sketchridge import Direct, Embedding, NoPreconditioner, machine, solve
from sketchridge.costs import (
    HELD_BY_ROWS,
    STARTS_AT,
    Costs,
    SpectrumGuess,
    embedded_iterations,
    sampled_iterations,
)
from sketchridge.driver import make_problem
from sketchridge.machine import Machine
from sketchridge.planner import Pace, candidates, looks, plan, planning
from sketchridge.planner.choice import Candidate
from sketchridge.run import Run
from tests.problems import with_spectrum

FAST = Machine(2e10, 5e10, 1e11, 3e10, 1e9)
# Arithmetic costs nothing beside reading, or the other way round.
ARITHMETIC_IS_FREE = Machine(1e6, 1e16, 1e16, 1e16, 1e6)
READING_IS_FREE = Machine(1e16, 1e6, 1e6, 1e6, 1e16)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A machine of known speeds, in a folder of the test's own."""
    monkeypatch.setenv("SKETCHRIDGE_CACHE", str(tmp_path))
    machine.this_machine.cache_clear()
    yield
    machine.this_machine.cache_clear()


def pretend(monkeypatch, speeds):
    monkeypatch.setattr(machine, "measure", lambda: speeds)


def problem_of(n, d, power, lam, seed=0, sparse=False):
    rng = np.random.default_rng(seed)
    X = with_spectrum(rng, n, d, np.arange(1.0, min(n, d) + 1) ** -power)
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)
    if sparse:
        X = sp.csr_matrix(np.where(np.abs(X) > np.quantile(np.abs(X), 0.9), X, 0.0))
    return X, y, lam * float((X.multiply(X) if sparse else X**2).sum()) / n


# The machine -------------------------------------------------------------------------------------


def test_speeds_are_measured_once_and_read_from_the_file_after(monkeypatch):
    calls = []
    monkeypatch.setattr(machine, "measure", lambda: calls.append(1) or FAST)
    assert machine.this_machine() == FAST
    machine.this_machine.cache_clear()
    assert machine.this_machine() == FAST
    assert len(calls) == 1
    assert json.loads(machine.cache_file().read_text())["flops"] == FAST.flops


@pytest.mark.parametrize(
    ("ask", "place", "told", "known"),
    [
        (machine.is_intels, "PROCESSOR", "vendor_id\t: GenuineIntel\n", True),
        (machine.is_intels, "PROCESSOR", "vendor_id\t: AuthenticAMD\n", False),
        (machine.is_intels, "PROCESSOR", None, False),
        (machine.second_cache_bytes, "SECOND_CACHE", "1280K\n", 1280 << 10),
        (machine.second_cache_bytes, "SECOND_CACHE", "2M", 0),
        (machine.second_cache_bytes, "SECOND_CACHE", "", 0),
        (machine.second_cache_bytes, "SECOND_CACHE", None, 0),
    ],
)
def test_the_processor_is_what_the_system_tells(ask, place, told, known, tmp_path, monkeypatch):
    if told is not None:
        (tmp_path / "told").write_text(told)
    monkeypatch.setattr(machine, place, tmp_path / "told")
    ask.cache_clear()
    try:
        assert ask() == known
    finally:
        ask.cache_clear()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"flops": 1}', '{"flops": -1}', "\x00"])
def test_a_broken_file_is_measured_anew(monkeypatch, content):
    pretend(monkeypatch, FAST)
    machine.cache_file().write_text(content)
    assert machine.this_machine() == FAST
    assert json.loads(machine.cache_file().read_text())["bandwidth"] == FAST.bandwidth


def test_where_nothing_can_be_written_it_is_measured_all_the_same(monkeypatch, tmp_path):
    pretend(monkeypatch, FAST)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SKETCHRIDGE_CACHE", str(tmp_path / "file" / "folder"))
    assert machine.this_machine() == FAST


def test_measuring_takes_positive_finite_speeds():
    speeds = machine.measure()
    assert all(np.isfinite(v) and v > 0 for v in vars(speeds).values())


# What is taken -----------------------------------------------------------------------------------


def test_small_problems_are_factorised_without_planning_or_the_compiler(tmp_path):
    script = (
        "import sys, numpy as np; from sketchridge import solve; "
        "X = np.random.default_rng(0).standard_normal((200, 10)); s = solve(X, X[:, 0], 1e-3); "
        "print(s.plan.solver, 'numba' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["direct", "False"]
    assert list(tmp_path.iterdir()) == []


def test_when_arithmetic_is_free_everything_is_factorised():
    X, y, lam = problem_of(1500, 1000, 0.5, 1e-6)
    choice = plan(
        make_problem(X, y, lam)[0], 1e-6, None, np.random.default_rng(0), ARITHMETIC_IS_FREE
    )
    assert choice.solver.name == "direct" and choice.fallback is None


def test_when_reading_is_free_nothing_is_factorised():
    X, y, lam = problem_of(3000, 1500, 2.0, 1e-4)
    problem, rng = make_problem(X, y, lam)[0], np.random.default_rng(0)
    first = plan(problem, 1e-6, None, rng, READING_IS_FREE)
    assert (first.solver.name, first.preconditioner.name) == ("cg", "none")
    choice = plan(problem, 1e-6, None, rng, READING_IS_FREE, tried=True)
    assert choice.solver.name == "cg" and choice.fallback is not None


@pytest.mark.parametrize(("lam", "enough"), [(1e-2, True), (2.5e-5, False)])
def test_plain_cg_is_tried_first_and_given_up_by_its_pace(monkeypatch, lam, enough):
    pretend(monkeypatch, Machine(6e10, 2e10, 4e10, 1e10, 2e9))
    X, y, lam = problem_of(4000, 1000, 1.0, lam)
    solution = solve(X, y, lam, random_state=0)
    assert solution.converged
    planned_anew = [note for note in solution.plan.notes if "planned anew" in note]
    assert bool(planned_anew) == (not enough)
    assert (solution.plan.solver, solution.plan.preconditioner) == ("cg", "none") or not enough
    assert any(not record.certified for record in solution.history)  # CG's
    again = solve(X, y, lam, random_state=0)
    assert np.array_equal(solution.coef, again.coef)


def few_degrees(lam):
    """Columns that shrink like 1/q²: 1e-8 of the trace leaves about 110 of them, 1e-14 all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 1200)) * np.arange(1.0, 1201.0) ** -2
    return make_problem(X, X[:, 0], lam * float((X**2).sum()) / 4000)[0]


def test_where_few_degrees_of_freedom_are_left_few_rows_are_embedded(monkeypatch):
    monkeypatch.setattr(looks, "COUNTED_SHARE", 0.1)  # the problem is small for counting them
    for lam, few in [(1e-8, True), (1e-14, False)]:
        choice = plan(few_degrees(lam), 1e-6, None, np.random.default_rng(0), FAST)
        spec = choice.preconditioner
        assert (spec.name == "embedding" and spec.rows < 1200) == few
        if few:
            assert choice.fallback is not None
            again = plan(few_degrees(lam), 1e-6, None, np.random.default_rng(0), FAST)
            assert again.preconditioner == spec


def test_the_degrees_of_freedom_are_counted_once_plain_cg_will_not_do(monkeypatch):
    monkeypatch.setattr(looks, "COUNTED_SHARE", 0.1)
    problem, rng = few_degrees(1e-5), np.random.default_rng(0)
    first = plan(problem, 1e-6, None, rng, READING_IS_FREE)
    assert first.otherwise is not None and problem.passes == 0
    plan(problem, 1e-6, None, rng, FAST, tried=True)
    assert problem.passes == looks.COUNTED_ROWS / problem.n


def test_next_to_no_degrees_of_freedom_are_held_by_few_rows_too():
    problem = few_degrees(1e-5)
    costs = Costs.of(problem, FAST)
    for dimension, few in [(0.02, True), (0.4, True), (20.0, True), (0.3 * problem.d, False)]:
        found = list(candidates.few_rows_candidates(problem, costs, 1e-6, dimension))
        assert bool(found) == few
        assert all(dimension < _rows_of(each) < problem.d and each.passes > 0 for each in found)


def test_rows_in_groups_cost_less_and_take_more_passes():
    problem, dimension = few_degrees(1e-8), 60.0
    costs = Costs.of(problem, READING_IS_FREE)
    found = list(candidates.few_rows_candidates(problem, costs, 1e-6, dimension))
    by_rows = {}
    for each in found:
        recipe = each.preconditioner
        by_rows.setdefault((recipe.rows, recipe.storage), {})[recipe.groups] = each
        assert recipe.groups == 1 or recipe.rows / recipe.groups >= max(1.9 * dimension, 150)
        assert (f"in {recipe.groups} groups" in each.label) is (recipe.groups > 1)
    assert any(4 in each for each in by_rows.values())
    for each in by_rows.values():
        together = each.pop(1)
        for parted in each.values():
            assert parted.seconds <= 0.93 * together.seconds and parted.passes > together.passes


def test_a_pass_with_several_targets_takes_longer():
    """More than two reads, for there are two products; then in proportion to the targets."""
    X = np.ones((3000, 900))
    one, two, eight = (make_problem(X, np.ones((3000, t)), 1e-3)[0] for t in (1, 2, 8))

    def seconds(problem, machine):
        return Costs.of(problem, machine).a_pass

    assert seconds(two, ARITHMETIC_IS_FREE) > 2 * seconds(one, ARITHMETIC_IS_FREE)
    assert seconds(eight, ARITHMETIC_IS_FREE) == seconds(two, ARITHMETIC_IS_FREE)
    assert seconds(eight, READING_IS_FREE) == pytest.approx(4 * seconds(two, READING_IS_FREE))
    multiplied = 2 * 2 * X.size * 8 / READING_IS_FREE.flops  # at the speed of large matrices
    assert seconds(eight, READING_IS_FREE) > multiplied


def test_several_targets_on_a_slow_spectrum_are_factorised():
    """By iterations they took 0.8 to 1.4 s here, and 0.5 by one factor (docs/decisions/26)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2500)) * np.arange(1.0, 2501.0) ** -0.5
    problem = make_problem(X, X[:, :8], 1e-6 * float((X**2).sum()) / 4000)[0]
    choice = plan(problem, 1e-6, None, np.random.default_rng(0), FAST)
    assert choice.solver.name == "direct"


def test_columns_that_do_not_count_are_not_counted():
    """Of 800 columns 200 are large, 200 are nothing beside λ = 1e-3, and the others are nothing."""
    scales = np.repeat([1.0, 1e-4, 0.0, 0.0], 200)
    X = np.random.default_rng(0).standard_normal((9000, 800)) * scales
    squares = looks.column_squares(make_problem(X, X[:, 0], 1e-3)[0])
    assert looks.columns_that_count(squares, 1e-3) == pytest.approx(200, abs=1)


def test_the_diagonal_counts_at_least_the_effective_dimension():
    X = np.random.default_rng(0).standard_normal((300, 40)) @ np.diag(np.arange(1.0, 41.0) ** -2)
    X = X @ np.linalg.qr(np.random.default_rng(1).standard_normal((40, 40)))[0]
    C = X.T @ X / len(X)
    eigenvalues = np.linalg.eigvalsh(C)
    for lam in (1e-1, 1e-3, 1e-5):
        counted = looks.columns_that_count(np.diag(C).copy(), lam)
        assert np.sum(eigenvalues / (eigenvalues + lam)) < counted < 40


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_diagonal_is_guessed_with_the_weights(fit_intercept):
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((250, 30)) + 1.0, rng.exponential(size=250)
    problem = make_problem(X, X[:, 0], 1e-3, weights, fit_intercept)[0]
    shares = weights / weights.sum()
    centred = X - shares @ X if fit_intercept else X
    assert looks.column_squares(problem) == pytest.approx(shares @ centred**2)


def test_rows_without_weight_tell_nothing_of_the_columns():
    X, weights = np.ones((5000, 30)), np.zeros(5000)
    weights[1] = 1.0
    squares = looks.column_squares(make_problem(X, X[:, 0], 1e-3, sample_weight=weights)[0])
    assert looks.columns_that_count(squares, 1e-3) == 30 and looks.scaling_exponent(squares) == 0


def test_columns_that_are_no_numbers_are_left_for_the_reading_to_tell():
    squares = np.array([np.nan, np.inf, 0.0, 1.0])
    assert looks.columns_that_count(squares, 1e-9) == pytest.approx(3.0)
    assert looks.columns_that_count(np.zeros(5), 1e-9) == 1.0


def test_the_degrees_of_freedom_are_not_counted_beyond_the_memory():
    problem = few_degrees(1e-8)
    costs = Costs.of(problem, FAST)
    sure = [Candidate.of(problem, Direct(), NoPreconditioner(), 4, 1.0, sure=True)]
    counted = {
        limit: looks.dimension_if_cheap(problem, costs, sure, limit, np.random.default_rng(0))
        for limit in (1e6, np.inf)
    }
    assert counted[1e6] == problem.d and counted[np.inf] < 300


def test_what_can_certify_no_more_gives_way_to_the_sure_method(monkeypatch):
    """Rounding hides more or less of the gap, as the preconditioner is."""
    pretend(monkeypatch, FAST)
    monkeypatch.setattr(looks, "COUNTED_SHARE", 0.1)
    monkeypatch.setattr("sketchridge.run.FAR", np.inf)  # the guess is judged
    first = []
    truly_stuck = Run._is_stuck

    def stuck(self, before, evaluation, advances):
        if not first and self.choice.fallback is not None:
            first.append(self.choice.preconditioner)
            return True
        return truly_stuck(self, before, evaluation, advances)

    monkeypatch.setattr(Run, "_is_stuck", stuck)
    problem = few_degrees(1e-8)
    y = problem.Y[:, 0] + np.random.default_rng(1).standard_normal(4000)
    solution = solve(problem.X, y, problem.lam, random_state=0)
    assert solution.converged and first[0].name == "embedding"
    assert any(
        "can certify no more, so the plan changed to" in note for note in solution.plan.notes
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_the_plan_tells_what_was_weighed_and_the_answer_is_right(monkeypatch, sparse):
    pretend(monkeypatch, READING_IS_FREE)
    monkeypatch.setattr(planning, "FIRST_SHARE", 0.0)
    X, y, lam = problem_of(3000, 1500, 1.0, 1e-4, sparse=sparse)
    solution = solve(X, y, lam, tol=1e-8, random_state=0)
    assert solution.converged
    truth = solve(X, y, lam, solver="direct", tol=1e-12)
    assert 0 <= (solution.objective - truth.objective) / np.mean(y**2) * 2 <= 1e-8
    seconds = [forecast.seconds for forecast in solution.plan.forecasts]
    if sparse:  # nothing is known of the spectrum, and nothing is foretold
        assert np.isnan(seconds[0]) and len(seconds) >= 2
        assert "?" in str(solution.plan) and solution.plan.preconditioner == "diagonal"
    else:
        assert len(seconds) >= 3 and seconds == sorted(seconds)
    assert "expected" in str(solution.plan) and "direct" in str(solution.plan)
    again = solve(X, y, lam, tol=1e-8, random_state=0)
    assert np.array_equal(solution.coef, again.coef)


def test_sparse_data_is_factorised_once_the_pace_shows_that_it_is_faster(monkeypatch):
    X, y, lam = problem_of(1050, 1000, 1.0, 1e-10, sparse=True)
    pretend(monkeypatch, Machine(5e8, 2e10, 2e10, 2e8, 3e8))
    solution = solve(X, y, lam, tol=1e-6, random_state=0)
    assert solution.converged
    assert (solution.plan.solver, solution.plan.preconditioner) == ("direct", "none")
    assert any("the plan changed to direct" in note for note in solution.plan.notes)
    assert any(not record.certified for record in solution.history)  # CG's


def test_a_plan_never_exceeds_the_memory_and_says_when_nothing_fits(monkeypatch):
    pretend(monkeypatch, ARITHMETIC_IS_FREE)
    X, y, lam = problem_of(1500, 1000, 2.0, 1e-3)
    roomy = solve(X, y, lam, random_state=0)
    assert roomy.plan.solver == "direct"
    tight = solve(X, y, lam, random_state=0, max_memory=4e6)
    assert tight.converged and tight.plan.solver == "cg"
    assert all(forecast.memory <= 4e6 for forecast in tight.plan.forecasts)
    with pytest.raises(ValueError, match=r"max_memory=1000 bytes is too little for any"):
        solve(X, y, lam, max_memory=1000)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("decay", [0.0, 2.0])
def test_no_sketch_is_made_to_plan_with_that_the_memory_does_not_allow(decay, order):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal((6000, 800)) * np.arange(1.0, 801.0) ** -decay, order=order)
    y = X @ np.ones(800)
    limit = 3e6
    for _ in range(2):  # the first time compiles
        tracemalloc.start()
        solution = solve(X, y, 1e-4, tol=1e-3, random_state=0, max_memory=limit)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert solution.converged and peak <= limit
    assert "no room" in str(solution.plan) or solution.plan.preconditioner == "none"


def test_a_plan_that_turns_out_slow_is_changed_and_the_work_is_kept(monkeypatch):
    """A prediction that is far too rosy: the direct solve is soon the better choice."""
    monkeypatch.setattr(SpectrumGuess, "cg_iterations", lambda *arguments: 5.0)
    speeds = Machine(5e8, 2e9, 2e9, 2e8, 1e9)
    pretend(monkeypatch, speeds)
    X, y, lam = problem_of(1300, 1000, 1.0, 1e-10)
    solution = solve(X, y, lam, tol=1e-6, random_state=0)
    assert solution.converged
    assert any("the plan changed to" in note for note in solution.plan.notes)
    assert solution.plan.solver == "direct" or solution.plan.preconditioner == "embedding"
    assert any(not record.certified for record in solution.history)  # the first plan's
    again = solve(X, y, lam, tol=1e-6, random_state=0)
    assert np.array_equal(solution.coef, again.coef)


# What is expected --------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1.0, 2.0, 4.0])
def test_a_guessed_spectrum_goes_on_as_the_law_that_it_began_with(power):
    values = np.arange(1.0, 2001.0) ** -power
    guess = SpectrumGuess(values[:30], float(values[30:].sum()), 2000)
    assert guess.exponent == pytest.approx(power, rel=0.05)
    assert guess.at(300) == pytest.approx(values[299], rel=0.25)
    assert np.all(np.diff(guess.tail) <= 0)


@pytest.mark.parametrize("power", [1.5, 2.0, 4.0])
def test_a_guessed_spectrum_counts_degrees_of_freedom_and_shifts_by_them(power):
    values = np.arange(1.0, 2001.0) ** -power
    guess = SpectrumGuess(values[:10], float(values[10:].sum()), 2000)
    for mu in 10.0 ** np.arange(-8.0, 0.0):
        expected = np.sum(values / (values + mu))
        assert guess.dimension(mu) == pytest.approx(expected, rel=0.15, abs=1.0)
    for rows in (100, 400):
        shift = guess.shift(rows, 1e-12)
        assert guess.dimension(shift) == pytest.approx(HELD_BY_ROWS * rows, rel=1e-6)
    assert guess.shift(400, 0.5) == guess.shift(400, 2.0) == 0.0  # λ itself leaves fewer
    by_rows = [guess.shifted_iterations(rows, 1e-8, 1e-6) for rows in (100, 200, 400, 800)]
    assert np.all(np.diff(by_rows) < 0)


def test_few_columns_have_rows_with_a_shift_too():
    problem = make_problem(np.random.default_rng(0).standard_normal((50, 6)), np.ones(50), 1e-6)[0]
    guess = SpectrumGuess(np.ones(1), 5.0, 6)
    found = candidates.shifted_candidates(problem, Costs.of(problem, FAST), 1e-6, guess)
    assert all(candidate.preconditioner.rows >= 1 for candidate in found)


def test_few_rows_with_a_shift_need_about_the_passes_that_are_foretold():
    """Singular values 1/q, where λ = 1e-7 of the trace leaves most directions."""
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 3000, 1000, np.arange(1.0, 1001.0) ** -1.0) * np.sqrt(3000)
    X /= np.sqrt(np.mean(np.sum(X**2, axis=1)))
    y = X @ rng.standard_normal(1000) + rng.standard_normal(3000)
    problem = make_problem(X, y, 1e-7)[0]
    values = np.linalg.eigvalsh(X.T @ X / 3000)[::-1]
    guess = SpectrumGuess(values[:10], float(values[10:].sum()), 1000)
    found = candidates.shifted_candidates(problem, Costs.of(problem, FAST), 1e-6, guess)
    shifted = [candidate for candidate in found if candidate.preconditioner.shift > 1e-7]
    assert len(shifted) >= 4
    for candidate in shifted:
        solution = solve(X, y, 1e-7, candidate.solver, candidate.preconditioner, random_state=0)
        assert solution.converged and 0.5 <= solution.passes / candidate.passes <= 1.5


def test_more_rank_and_more_penalty_never_need_more_iterations():
    values = np.arange(1.0, 2001.0) ** -3.0
    guess = SpectrumGuess(values[:30], float(values[30:].sum()), 2000)
    by_rank = [guess.cg_iterations(rank, 1e-8, 1e-6) for rank in (0, 30, 100, 400)]
    by_lam = [guess.cg_iterations(30, lam, 1e-6) for lam in (1e-10, 1e-8, 1e-6, 1e-3)]
    assert by_rank == sorted(by_rank, reverse=True)
    assert by_lam == sorted(by_lam, reverse=True)


@pytest.mark.parametrize("share", [2, 4])
def test_sampled_rows_take_about_the_iterations_that_are_expected(share):
    rng = np.random.default_rng(3)
    d = 60
    X = rng.standard_normal((4000, d)) * np.arange(1.0, d + 1) ** -1.0
    y = X @ rng.standard_normal(d) + rng.standard_normal(4000)
    from sketchridge import RowSampling

    solution = solve(
        X,
        y,
        1e-6,
        solver="cg",
        preconditioner=RowSampling(rows=share * d),
        tol=1e-8,
        random_state=0,
    )
    expected = sampled_iterations(share * d, d, 1e-8)
    assert expected / 3 <= solution.passes <= 2 * expected + 5


def test_costs_grow_with_the_work():
    X, y, lam = problem_of(300, 200, 1.0, 1e-3)
    costs = Costs.of(make_problem(X, y, lam)[0], FAST)
    assert costs.nystrom(10) < costs.nystrom(100)
    assert costs.sampled_rows(100) < costs.sampled_rows(200)
    assert costs.cg_iteration(0) < costs.cg_iteration(50) < costs.factored_iteration(10_000)


def test_the_pace_tells_the_passes_that_remain():
    pace = Pace()
    for passes in range(0, 41, 2):
        remaining = pace.remaining(passes, 10.0 ** (-passes / 10), 1e-10)
    assert remaining == pytest.approx(60, rel=0.01)
    assert pace.remaining(50, 1e-11, 1e-10) == 0.0
    stuck = Pace()
    for passes in range(0, 41, 2):
        remaining = stuck.remaining(passes, 1e-3, 1e-10)
    assert remaining == np.inf


# -- the first read of the rows ------------------------------------------------------------------


def large(n=4000, d=520):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -1.0
    return X, X @ rng.standard_normal(d)


@pytest.mark.parametrize("rows", [100, 520, 1500])
@pytest.mark.parametrize("kind", ["countsketch", "sparse_sign"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_embedding_that_reads_first_finds_the_norms(kind, rows, dtype):
    X, y = large()
    problem, _, _ = make_problem(X.astype(dtype), y, 1e-6)
    asked, _, _ = make_problem(X.astype(dtype), y, 1e-6)
    assert problem.can_wait and not problem.knows_norms
    built = Embedding(rows=rows, kind=kind).build(problem, np.random.default_rng(1))
    assert problem.knows_norms and problem.passes == 1
    np.testing.assert_allclose(problem.raw_squared_norms, asked.raw_squared_norms, rtol=1e-13)
    assert built.describes(asked)  # summed in another order they are the same data's


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("row", [0, 1, 1777, 3999])
def test_a_row_that_is_no_number_is_found_whoever_reads_first(row, value):
    X, y = large()
    X[row, 7] = value
    for lam in (1e-8, 1e-1):  # an embedding or a factorisation; a first try of plain CG
        with pytest.raises(ValueError, match=f"(first in row {row} |as large as)"):
            solve(X, y, lam, random_state=0)
    with pytest.raises(ValueError, match=f"(first in row {row} |as large as)"):
        problem, _, _ = make_problem(X, y, 1e-8)
        Embedding(rows=900, kind="countsketch").build(problem, np.random.default_rng(1))


def test_data_too_small_for_squares_is_found_whoever_reads_first():
    X, y = large()
    with pytest.raises(ValueError, match="its squares overflow or vanish"):
        solve(X * 1e-90, y, 1e-8, random_state=0)


def test_the_trace_is_guessed_until_the_rows_are_read():
    X, y = large()
    problem, _, _ = make_problem(X, y, 1e-6)
    guess = problem.guessed_trace
    assert not problem.knows_norms
    assert guess == pytest.approx(problem.trace, rel=0.3)
    centred, _, _ = make_problem(X, y, 1e-6, fit_intercept=True)
    assert not centred.can_wait and centred.guessed_trace == centred.trace


def test_the_trace_is_that_of_all_rows_once_they_are_read():
    X, y = large()
    X[1] *= 1e4  # a row that is not looked at
    problem, _, _ = make_problem(X, y, 1e-6)
    assert problem.guessed_trace < 0.1 * np.sum(X[1] ** 2) / len(y)
    assert problem.trace == problem.guessed_trace  # read now
    weights = np.ones(len(y))
    for row in (1, 0):  # the first row is looked at, and counts for nothing
        weights[row], X[row] = 0.0, 1e4
        without, _, _ = make_problem(X, y, 1e-6, sample_weight=weights)
        assert without.guessed_trace == pytest.approx(without.trace, rel=0.3)


def test_of_two_storages_the_cheaper_one_that_fits_is_planned():
    X, y = large(12000, 520)
    problem, _, _ = make_problem(X, y, 1e-2)
    costs = Costs.of(problem, FAST)
    every = list(_sure(problem, costs))
    recipes = [each.preconditioner for each in every if isinstance(each.preconditioner, Embedding)]
    assert {recipe.storage for recipe in recipes} == {"float32", "float64"}
    for limit in sorted({each.memory for each in every}):
        kept = candidates.those_that_fit(iter(every), limit)
        for each in every:
            alike = [k for k in kept if _rows_of(k) == _rows_of(each) and k.solver == each.solver]
            assert len(alike) <= 1
            if each.memory <= limit:
                assert alike[0].memory <= limit and alike[0].seconds <= each.seconds


def _sure(problem, costs):
    squares = looks.column_squares(problem)
    return candidates.sure_candidates(problem, costs, 1e-6, squares)


def _rows_of(candidate):
    return getattr(candidate.preconditioner, "rows", None)


@pytest.mark.parametrize("n, d", [(6000, 2000), (7000, 1000), (20000, 900)])
def test_forecasts_are_of_the_rows_that_are_taken(n, d):
    problem = make_problem(np.ones((n, d)), np.ones(n), 1e-16)[0]  # every column counts
    costs = Costs.of(problem, Machine(2e10, 5e10, 1e11, 3e10, 2e9))
    found = {}
    for candidate in _sure(problem, costs):
        recipe = candidate.preconditioner
        if isinstance(recipe, Embedding):
            assert recipe.rows > d
            iterations = embedded_iterations(recipe.rows, n, d, 1e-6, STARTS_AT)
            expected = found.setdefault(recipe.rows, iterations + candidates.BESIDES)
            assert candidate.passes == pytest.approx(expected)
    assert found


def test_tall_data_is_embedded_into_many_times_its_columns():
    """There a pass costs more than the Gram matrix of the embedded rows."""
    problem = make_problem(np.ones((200_000, 50)), np.ones(200_000), 1e-2)[0]
    costs = Costs.of(problem, Machine(2e10, 5e10, 1e11, 3e10, 2e9))
    found = [each for each in _sure(problem, costs) if _rows_of(each)]
    best = min(found, key=lambda candidate: candidate.seconds)
    few = min((each for each in found if _rows_of(each) <= 6 * 50), key=lambda each: each.seconds)
    assert _rows_of(best) > 12 * 50 and best.passes < 0.7 * few.passes
