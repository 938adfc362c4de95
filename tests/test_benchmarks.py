"""The benchmark's own parts: what it tries next, who goes on, and what its tables say."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "ridge"
sys.path.insert(0, str(FOLDER))  # as its scripts and benchopt see it

import board  # noqa: E402
import figures  # noqa: E402
import rounds  # noqa: E402
from benchmark_utils import analysis  # noqa: E402
from benchmark_utils.lateness import Look, crossing  # noqa: E402
from benchmark_utils.runs import Problem, Run, times_to  # noqa: E402
from benchmark_utils.sweep import Trial, next_effort  # noqa: E402

EASY, HARD = Problem("published[data=mnist]", "1e-08"), Problem("published[data=imdb]", "1/n")
CG = "sketchridge-candidate[preconditioner=nystrom,solver=cg]"
SVRG = "sketchridge-candidate[preconditioner=lanczos,solver=svrg]"


def run(solver, seconds, suboptimality, number=1, setting=1.0, problem=EASY, board="peers", **more):
    return Run(board, problem, solver, (number, 0), setting, seconds, suboptimality, **more)


# -- the sweep -----------------------------------------------------------------------------------


def sweep(suboptimality, levels=(1e-2, 1e-6), seconds_each=1.0, limit=math.inf):
    """Let the sweep try a solver that is known in closed form."""
    trials = []
    while True:
        spent = sum(trial.seconds for trial in trials)
        effort = next_effort(trials, levels, limit - spent)
        if effort is None:
            return trials
        trials.append(Trial(effort, seconds_each * effort, suboptimality(effort)))
        assert len(trials) < 100


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99, 0.999])
def test_the_sweep_finds_the_least_effort_to_every_level_within_a_tenth(rate):
    trials = sweep(lambda effort: rate**effort)
    for level in (1e-2, 1e-6):
        least = math.ceil(math.log(level) / math.log(rate))
        found = min(trial.effort for trial in trials if trial.suboptimality <= level)
        assert least <= found <= max(least + 1, 1.1 * least)


def test_the_sweep_tries_no_effort_twice():
    efforts = [trial.effort for trial in sweep(lambda effort: 0.97**effort)]
    assert len(efforts) == len(set(efforts))


def test_the_sweep_gives_up_on_a_solver_that_stalls():
    trials = sweep(lambda effort: max(0.5**effort, 4e-4))
    assert max(trial.effort for trial in trials) <= 16 * 16


def test_the_sweep_survives_a_solver_that_breaks_down():
    assert sweep(lambda effort: math.nan)[-1].effort <= 32


def test_the_sweep_keeps_to_its_time():
    trials = sweep(lambda effort: 0.9999**effort, limit=100.0)
    assert sum(trial.seconds for trial in trials) <= 100.0


def test_the_sweep_narrows_a_coarse_level_with_the_little_time_that_the_fine_one_left():
    trials = sweep(lambda effort: 0.9**effort, limit=340.0)  # 1 to 128 take 255 s, 256 is too long
    assert not any(trial.suboptimality <= 1e-6 for trial in trials)
    assert min(trial.effort for trial in trials if trial.suboptimality <= 1e-2) <= 1.1 * 44


def test_a_long_preparation_does_not_stop_the_sweep_early():
    trials, spent = [], 0.0
    while (effort := next_effort(trials, [1e-6], 60.0 - spent)) is not None:
        trials.append(Trial(effort, 2.0 + 0.01 * effort, 0.5**effort))
        spent += trials[-1].seconds
    assert min(trial.effort for trial in trials if trial.suboptimality <= 1e-6) == 20


# -- times ---------------------------------------------------------------------------------------


def test_a_time_is_the_median_over_rounds_of_the_fastest_run_that_got_there():
    runs = [
        run("glum", 9.0, 1e-7, number=1),
        run("glum", 2.0, 1e-7, number=1),
        run("glum", 1.0, 1e-3, number=1),
        run("glum", 3.0, 1e-7, number=2),
        run("glum", 4.0, 1e-7, number=3),
    ]
    assert times_to(runs, 1e-6) == {(EASY, "glum"): (3.0, 2.0, 4.0, 3)}


def test_a_round_that_missed_the_level_counts_as_never():
    runs = [run("glum", 1.0, 1e-7, 1), run("glum", 1.0, 1e-5, 2), run("glum", 1.0, 1e-5, 3)]
    assert math.isinf(times_to(runs, 1e-6)[EASY, "glum"].median)


def test_our_own_time_is_of_the_run_that_was_asked_for_the_level():
    runs = [
        run("sketchridge", 1.0, 1e-9, setting=1e-2),
        run("sketchridge", 5.0, 1e-9, setting=1e-6),
    ]
    assert times_to(runs, 1e-6)[EASY, "sketchridge"].median == 5.0


# -- who goes on ---------------------------------------------------------------------------------


def test_the_contenders_are_the_close_ones_of_each_group_and_ourselves():
    runs = [
        run("sketchridge", 1.0, 1e-7, setting=1e-6),
        run("scipy[method=lsmr]", 4.0, 1e-7, setting=40),
        run("glum", 11.0, 1e-12),
        run("sklearn-direct[method=svd]", 13.0, 1e-12),
        run("cyanure[method=auto]", 50.0, 1e-7, setting=9),
        run("lightning[method=saga]", 500.0, 1e-7, setting=9),
    ]
    close = rounds.close_ones(runs, 3.0)
    # Against all peers and all levels: lsmr and glum; among the stochastic ones: cyanure.
    assert close == {
        "sketchridge": {1e-6: 1.0},
        "scipy[method=lsmr]": {40: 4.0},
        "glum": {1.0: 11.0},
        "cyanure[method=auto]": {9: 50.0},
    }


def test_short_runs_are_repeated_within_a_round():
    assert rounds.repeated({8: 0.05, 4: 0.01, 16: 2.0}) == [4] * 5 + [8] * 5 + [16]


def test_the_search_is_limited_by_our_own_time():
    runs = [run("sketchridge", 2.0, 1e-7, setting=1e-6)]
    assert rounds.search_seconds(runs, most=300.0) == 80.0
    assert rounds.search_seconds(runs, most=60.0) == 60.0
    assert rounds.search_seconds(runs, most=60.0, search=5) == 10.0
    assert rounds.search_seconds([], most=60.0) == 3.0


# -- tables --------------------------------------------------------------------------------------


def three_rounds(solver, seconds, suboptimality=1e-7, **more):
    return [run(solver, s, suboptimality, number=i, **more) for i, s in enumerate(seconds)]


def test_a_duel_is_with_the_best_peer_and_tells_the_spread():
    runs = [
        *three_rounds("sketchridge", [1.0, 2.0, 4.0], setting=1e-6),
        *three_rounds("glum", [6.0, 8.0, 9.0]),
        *three_rounds("scipy[method=lsmr]", [10.0, 10.0, 10.0]),
        *three_rounds(CG, [0.1, 0.1, 0.1], setting=1e-6),
    ]
    (duel,) = analysis.duels(runs, 1e-6)
    assert (duel.peer, duel.ratio, duel.ratio_range) == ("glum", 4.0, (1.5, 9.0))


def test_a_duel_that_we_did_not_finish_is_lost_and_one_that_no_peer_did_is_won():
    lost = [run("sketchridge", 1.0, 1e-3, setting=1e-6), run("glum", 9.0, 1e-7)]
    won = [run("sketchridge", 1.0, 1e-7, setting=1e-6), run("glum", 9.0, 1e-3)]
    assert analysis.duels(lost, 1e-6)[0].ratio == 0.0
    assert math.isinf(analysis.duels(won, 1e-6)[0].ratio)


def test_the_peers_table_says_what_is_missed():
    runs = [
        *three_rounds("sketchridge", [1.0, 1.0, 1.0], setting=1e-6),
        *three_rounds("glum", [2.0, 2.0, 2.0]),
        *three_rounds("sketchridge", [1.0, 1.0, 1.0], setting=1e-6, problem=HARD),
        *three_rounds("glum", [2.0, 2.0, 2.0], problem=HARD),
    ]
    lines = board.peers_section(runs).splitlines()
    mnist = next(line for line in lines if line.startswith("| MNIST 4v7 | 1e-8 | glum"))
    imdb = next(line for line in lines if line.startswith("| IMDB | 1/n | glum"))
    assert "**2 ×** [2, 2] | ≥ 3 × | MISSED |" in mnist
    assert "**2 ×** [2, 2] | ≥ 2 × | ok |" in imdb


def test_the_regret_is_the_planner_over_the_best_candidate():
    runs = [
        *three_rounds("sketchridge", [1.2, 1.5, 1.6], setting=1e-6),
        *three_rounds(CG, [1.0, 1.0, 1.1], setting=1e-6),
        *three_rounds(SVRG, [2.0, 2.0, 2.0], setting=1e-6),
        *three_rounds("glum", [0.1, 0.1, 0.1]),
    ]
    (regret,) = analysis.regrets(runs, 1e-6)
    assert (regret.solver, regret.ratio) == (CG, 1.5)
    assert "median 1.5 ×" in board.regret_section(runs)
    assert board.regret_section([run for run in runs if run.solver == "sketchridge"]) == ""


def test_the_stochastic_board_leaves_out_who_is_not():
    runs = [
        *three_rounds("sketchridge-stochastic[rank=50]", [1.0, 1.0, 1.0], setting=7),
        *three_rounds(SVRG, [0.1, 0.1, 0.1], setting=1e-3),
        *three_rounds(CG, [0.1, 0.1, 0.1], setting=1e-3),
        *three_rounds("glum", [0.1, 0.1, 0.1]),
        *three_rounds("cyanure[method=auto]", [6.0, 6.0, 6.0]),
    ]
    assert "**6 ×** [6, 6] | ≥ 5 × | ok |" in board.stochastic_section(runs)


def test_the_lateness_is_of_gradual_solves_that_converged():
    def solve(passes, crossing_passes, **more):
        facts = {"method": "cg+nystrom", "status": "converged", "setting": 1e-6, **more}
        facts |= {"passes": passes, "crossing_passes": crossing_passes}
        facts |= {"solve_seconds": 2 * passes, "crossing_seconds": crossing_passes}
        return run("sketchridge", 1.0, 1e-7, **facts)

    runs = [
        solve(12.0, 10.0),
        solve(9.0, 3.0, problem=HARD),
        solve(5.0, 5.0, problem=HARD, setting=1e-2, method="direct+none"),
        solve(50.0, 1.0, setting=1e-4, status="max_passes"),
    ]
    assert analysis.lateness(runs, "passes") == {(EASY, 1e-6): 1.2, (HARD, 1e-6): 3.0}
    assert analysis.lateness(runs, "seconds") == {(EASY, 1e-6): 2.4, (HARD, 1e-6): 6.0}
    assert "worst 3 × (must be ≤ 2: MISSED) on IMDB" in board.lateness_section(runs)


def test_growth_is_by_the_non_zero():
    def solve(rows, seconds):
        sizes = {"rows": rows, "columns": 500, "nonzeros": 500 * rows}
        return run("sketchridge", seconds, 1e-7, setting=1e-6, **sizes)

    runs = [solve(10_000, 0.1), solve(100_000, 1.5), solve(1_000_000, 25.0)]
    text = board.growth_section(runs)
    assert (
        "flat within 2.5 × (must be ≤ 2: MISSED)" in text
        and "| 100000×500 | 30 ns | 1.5 × |" in text
    )


def test_memory_is_the_median_peak_of_the_runs_that_got_there():
    peaks = [5e6, 7e6, 6e6]
    runs = [run("glum", 1.0, 1e-7, i, memory=peak) for i, peak in enumerate(peaks)]
    runs.append(run("glum", 1.0, 1e-3, 9, memory=9e9))
    assert analysis.peak_memory(runs, "glum", EASY, 1e-6) == 6e6


def test_the_profile_is_relative_to_the_best_solver():
    runs = [run("a", 1.0, 1e-7), run("b", 3.0, 1e-7), run("a", 1.0, 1e-2, problem=HARD)]
    runs.append(run("b", 4.0, 1e-7, problem=HARD))
    assert analysis.performance_profile(runs, 1e-6) == {"a": [1.0, math.inf], "b": [3.0, 1.0]}


def test_a_small_fit_is_measured_against_scikit_learns():
    small = {"sketchridge": 3e-3, "sklearn": 1e-3, "rows": 200, "columns": 10, "repeats": 9}
    text = board.small_section({**small, "numba": False})
    assert "| sketchridge | 3000 µs | 3 × | MISSED |" in text and "not imported: ok" in text


def test_every_problem_and_solver_is_in_the_full_tables():
    text = board.everything([run("glum", 1.0, 1e-7), run("himalaya", 2.0, 1e-3, problem=HARD)])
    assert "## MNIST 4v7, λ = 1e-8" in text
    # To 1e-2, 1e-3, 1e-4 and 1e-6.
    assert "| himalaya | 2 s [2, 2] | 2 s [2, 2] | not reached | not reached | 0.001 |" in text


def others(ours, theirs):
    """Ours in both boards, and one peer in each; the rounds have the same numbers."""
    return [
        *three_rounds("sketchridge", [1.0, 1.0, 1.0], setting=1e-6),
        *three_rounds("glum", [9.0, 9.0, 9.0]),
        *three_rounds("skglm[method=lbfgs]", theirs, board="others"),
        *(
            each
            for level in (1e-2, 1e-4, 1e-6)
            for each in three_rounds("sketchridge", ours, setting=level, board="others")
        ),
    ]


@pytest.mark.parametrize(("theirs", "verdict"), [(8.0, "ok"), (5.0, "MISSED")])
def test_the_other_peers_are_measured_against_ours_beside_them(theirs, verdict):
    section = board.others_section(
        analysis.on_boards(others([2.0] * 3, [theirs] * 3), [analysis.OTHERS])
    )
    assert f"skglm[method=lbfgs] **{theirs / 2:g} ×** | {verdict} |" in section
    assert "glum" not in section


def test_the_full_tables_keep_the_boards_apart():
    text = board.everything(others([2.0] * 3, [8.0] * 3))
    strong, rest = text.split("The other peers, in a board of their own:")
    assert "1 s [1, 1]" in strong and "2 s [2, 2]" not in strong and "glum" in strong
    assert "2 s [2, 2]" in rest and "1 s [1, 1]" not in rest and "glum" not in rest


def test_the_section_replaces_itself_and_leaves_the_rest():
    page = "# Benchmarks\n\nkernels\n"
    once = board.between_markers(page, "first")
    twice = board.between_markers(once + "\nafter\n", "second")
    assert once.startswith(page) and "first" in once
    assert "first" not in twice and "second" in twice and twice.endswith("after\n")
    with pytest.raises(ValueError, match="has no"):
        board.between_markers(board.BEGIN, "third")


# -- the certificate's lateness ------------------------------------------------------------------


def test_the_crossing_is_between_the_looks_of_a_gradual_solver():
    looks = [Look(0, 0.0, 1.0), Look(10, 1.0, 1e-4), Look(30, 3.0, 1e-8)]
    assert crossing(looks, 1e-6, gradual=True) == pytest.approx((20.0, 2.0))
    assert crossing(looks, 1e-4, gradual=True) == pytest.approx((10.0, 1.0))


def test_a_direct_solver_crosses_where_it_ends():
    looks = [Look(1, 0.1, 1.0), Look(3, 2.0, 0.0)]
    assert crossing(looks, 1e-6, gradual=False) == (3, 2.0)


def test_a_solve_that_never_crossed_has_no_crossing():
    assert all(math.isnan(x) for x in crossing([Look(1, 1.0, 0.5)], 1e-6, gradual=True))


# -- figures and wrappers ------------------------------------------------------------------------


def test_the_front_leaves_out_what_is_slower_and_worse():
    points = [(3.0, 1e-3), (1.0, 1e-2), (2.0, 1e-1), (4.0, 1e-6)]
    assert figures.pareto(points) == [(1.0, 1e-2), (3.0, 1e-3), (4.0, 1e-6)]


def test_figures_are_drawn(tmp_path):
    runs = [run("sketchridge", 1.0, 1e-7, setting=1e-6), run("glum", 2.0, 1e-9)]
    for _, path in (figures.draw_times(runs, tmp_path), figures.draw_profile(runs, tmp_path)):
        assert path.stat().st_size > 1000


def test_every_wrapper_minimises_the_objective():
    pytest.importorskip("benchopt", reason="the wrappers need benchopt: make bench-env")
    done = subprocess.run(
        [sys.executable, str(FOLDER / "check.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
