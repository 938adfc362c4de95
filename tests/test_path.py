"""The path: every λ against `solve`, exact arithmetic and what it should cost."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import sketchridge.cli
import sketchridge.tracing
from sketchridge import Status, path_plot, ridge_path, solve
from sketchridge.crossvalidation import held_out_errors
from sketchridge.krylov import KrylovSpace
from sketchridge.path import GRID_SIZE
from sketchridge.threads import single_threaded_blas
from tests.exact import ExactRidge
from tests.problems import decaying, make, sparse_rows, with_spectrum
from tests.test_certificate import FAMILIES, Audit, Case

LAMS = [1e-3, 1.0, 1e-2, 1e-1]


@pytest.fixture(autouse=True)
def one_thread():
    """On problems this small the threads of BLAS only wait for one another."""
    with single_threaded_blas():
        yield


@pytest.fixture
def no_decompositions(monkeypatch):
    """Let small data be treated as large data is."""
    monkeypatch.setattr(sketchridge.tracing, "DIRECT_SIZE", 0)


def a_problem(kind, shape, seed=0, targets=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) * np.arange(1, shape[1] + 1) ** -0.5 + 0.5
    if kind == "sparse":
        X = sparse.csr_array(X * (rng.random(shape) < 0.4))
    elif kind == "float32":
        X = X.astype(np.float32)
    Y = rng.standard_normal((shape[0], targets)) + (X @ np.eye(shape[1], 1)) + 2.0
    weights = rng.uniform(0.0, 2.0, shape[0])
    weights[:2] = 0.0
    return X, Y, weights


# Every point is the solution ------------------------------------------------------------------


@pytest.mark.parametrize("method", ["decomposition", "krylov", "cg"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("shape", [(60, 12), (20, 45)])
def test_every_point_is_what_solve_finds(shape, kind, fit_intercept, method, monkeypatch):
    X, Y, weights = a_problem(kind, shape)
    options = {"sample_weight": weights, "fit_intercept": fit_intercept}
    tol = {"decomposition": 1e-15, "krylov": 1e-14, "cg": 1e-14}[method]
    if method == "krylov":
        monkeypatch.setattr(sketchridge.tracing, "DIRECT_SIZE", 0)
    solver = "cg" if method == "cg" else "auto"
    path = ridge_path(X, Y, LAMS, solver=solver, tol=tol, random_state=0, **options)
    assert path.converged.all() and path.status is Status.CONVERGED
    assert path.coef.shape == (4, 2, shape[1]) and path.intercept.shape == (4, 2)
    for index, lam in enumerate(LAMS):
        truth = solve(X, Y, lam, solver="direct", tol=1e-18, **options)
        distance = np.linalg.norm(path.coef[index] - truth.coef, axis=1)
        assert np.all(distance <= np.sqrt(2 * path.gap[index] / lam) + 1e-9)
        assert np.all(path.objective[index] >= truth.objective * (1 - 1e-13))
        assert np.allclose(path.intercept[index], truth.intercept, atol=10 * np.sqrt(tol))
        low, high = path.degrees_of_freedom_bounds[index]
        assert low - 1e-8 <= truth.degrees_of_freedom <= high + 1e-8


def test_a_flat_target_has_no_axis():
    X, Y, _ = a_problem("dense", (30, 5))
    path = ridge_path(X, Y[:, 0], LAMS)
    assert path.coef.shape == (4, 5)
    assert path.gap.shape == path.intercept.shape == path.converged.shape == (4,)
    assert np.array_equal(path.coef, ridge_path(X, Y[:, [0]], LAMS).coef[:, 0])
    assert np.allclose(path.coef[0], solve(X, Y[:, 0], LAMS[0]).coef, rtol=1e-12)


@pytest.mark.parametrize("method", ["auto", "krylov", "cg"])
def test_the_order_of_the_penalties_is_kept(method, request):
    if method == "krylov":
        request.getfixturevalue("no_decompositions")
    solver = "cg" if method == "cg" else "auto"
    X, Y, _ = a_problem("dense", (40, 8))
    path = ridge_path(X, Y, LAMS, solver=solver, tol=1e-14, random_state=0)
    backwards = ridge_path(X, Y, LAMS[::-1], solver=solver, tol=1e-14, random_state=0)
    assert np.array_equal(path.lams, LAMS)
    assert np.allclose(path.coef, backwards.coef[::-1], rtol=1e-12)


def test_rows_are_scaled_as_in_solve():
    X, Y, _ = a_problem("dense", (40, 8))
    path = ridge_path(3.0 * X, Y, LAMS, scale_rows=True)
    for index, lam in enumerate(LAMS):
        assert path.lams[index] == lam
        expected = solve(3.0 * X, Y, lam, scale_rows=True).coef
        assert np.allclose(path.coef[index], expected, rtol=1e-10)


def test_without_penalties_there_is_a_grid_from_the_trace_down():
    X, Y, _ = a_problem("dense", (40, 8))
    path = ridge_path(X, Y, fit_intercept=True)
    trace = np.sum(np.var(X, axis=0))
    assert len(path) == GRID_SIZE and np.isclose(path.lams[0], trace)
    assert np.isclose(path.lams[-1], 1e-6 * trace) and path.converged.all()


def test_no_penalty_is_left_to_the_direct_solver():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 9)), rng.standard_normal(6)
    path = ridge_path(X, y, [1.0, 0.0])
    assert np.allclose(path.coef[1], np.linalg.pinv(X) @ y, rtol=1e-10)


def test_no_penalty_on_large_data_too(no_decompositions):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 9)), rng.standard_normal(30)
    path = ridge_path(X, y, [1.0, 0.0])
    assert np.allclose(path.coef[1], np.linalg.lstsq(X, y)[0], rtol=1e-8)


def test_where_nothing_is_to_be_fitted_all_is_zero(no_decompositions):
    X, Y, _ = a_problem("dense", (30, 5))
    Y[:, 1] = 7.0
    path = ridge_path(X, Y, LAMS, fit_intercept=True)
    assert not path.coef[:, 1].any() and np.all(path.intercept[:, 1] == 7.0)
    assert np.all(path.gap[:, 1] == 0) and path.converged.all()


# Certificates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_certified_gap_is_never_below_the_true_gap(family, monkeypatch):
    """In exact arithmetic; by a decomposition, and by Krylov spaces cut short at random."""
    rng = np.random.default_rng([7, list(FAMILIES).index(family)])
    audit = Audit()
    for _ in range(25):
        case = Case.draw(family, rng)
        lams = case.lam * 10.0 ** rng.uniform(-3, 3, 2)
        for size, tol in ((10, 1e-6), (0, 10.0 ** rng.uniform(-12, -1))):
            monkeypatch.setattr(sketchridge.tracing, "DIRECT_SIZE", size)
            path = ridge_path(
                case.X,
                case.Y,
                lams,
                tol=tol,
                sample_weight=case.sample_weight,
                fit_intercept=case.fit_intercept,
                max_passes=100,
                random_state=0,
            )
            for index, lam in enumerate(lams):
                exact = ExactRidge(
                    case.X, case.Y, float(lam), case.sample_weight, case.fit_intercept
                )
                truth = exact.gap(path.coef[index].T, path.intercept[index])
                audit.check(case, f"size {size}", "path", path.gap[index], truth)
    assert min(audit.checks.values()) >= 50
    audit.verdict()


def test_the_krylov_certificate_is_close_to_the_truth(no_decompositions):
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 400, 200, np.arange(1, 201.0) ** -1.0)
    y = X @ rng.standard_normal(200) + rng.standard_normal(400)
    lams = 10.0 ** np.arange(-5.0, 0.0)
    path = ridge_path(X, y, lams, tol=1e-6)
    truth = [
        path.objective[i] - solve(X, y, lam, tol=1e-16).objective for i, lam in enumerate(lams)
    ]
    hardest = path.gap[0] / truth[0]
    assert 1.0 <= hardest < 30.0


# What it costs --------------------------------------------------------------------------------


def test_twenty_penalties_cost_the_products_of_the_smallest(no_decompositions):
    rng = np.random.default_rng(0)
    X = sparse_rows(rng, 600, 300, density=0.1)
    y = X @ rng.standard_normal(300) + rng.standard_normal(600)
    lams = np.logspace(-6, 0, 20)
    many = ridge_path(X, y, lams, fit_intercept=True)
    one = ridge_path(X, y, lams[:1], fit_intercept=True)
    assert many.converged.all()
    assert many.passes <= one.passes + 5  # two blocks of columns are certified instead of one


def test_the_basis_stays_orthonormal_and_its_points_are_the_best():
    rng = np.random.default_rng(0)
    problem = make(decaying(rng, 300, 120, power=1.5), rng.standard_normal((300, 2)), 1.0)
    space = KrylovSpace(problem, -problem.null_gradient(), 100)
    for _ in range(30):
        space.grow()
    basis = space.basis[: space.filled]
    assert np.abs(basis @ basis.T - np.eye(space.filled)).max() < 1e-13
    Q = basis[: space.expanded]
    image = problem.gram(Q.T.copy())
    assert np.allclose(image, basis.T @ space.coefficients[: space.filled, : space.expanded])
    lams = np.array([1e-2, 1e-6])
    points = space.points(lams).reshape(120, 2, 2)
    for index, lam in enumerate(lams):
        inside = np.linalg.solve(Q @ image + lam * np.eye(len(Q)), -Q @ problem.null_gradient())
        assert np.allclose(points[:, index], Q.T @ inside, rtol=1e-6, atol=1e-12)


def test_dependent_targets_do_not_break_the_basis(no_decompositions):
    X, Y, _ = a_problem("dense", (60, 12))
    Y = np.column_stack([Y[:, 0], Y[:, 0], 1e-9 * Y[:, 1], np.zeros(60), Y[:, 0] + Y[:, 1]])
    path = ridge_path(X, Y, LAMS, tol=1e-12)
    assert path.converged.all()
    for index, lam in enumerate(LAMS):
        expected = solve(X, Y, lam, solver="direct", tol=1e-18).coef
        assert np.allclose(path.coef[index], expected, rtol=1e-4, atol=1e-16)


def test_many_targets_are_taken_in_groups(no_decompositions, monkeypatch):
    monkeypatch.setattr(sketchridge.tracing, "TARGETS_TOGETHER", 3)
    X, Y, _ = a_problem("sparse", (60, 12), targets=8)
    path = ridge_path(X, Y, LAMS, tol=1e-12, fit_intercept=True)
    assert path.converged.all() and "+" in path.plan.reason
    expected = solve(X, Y, LAMS[0], fit_intercept=True).coef
    assert np.allclose(path.coef[0], expected, atol=1e-4)


@pytest.mark.parametrize("limit", ["room", "max_memory"])
def test_what_a_small_space_does_not_reach_is_solved_singly(limit, no_decompositions, monkeypatch):
    few = 8 * 100 * 20
    monkeypatch.setattr(sketchridge.tracing, "SPACE_BYTES", few)
    max_memory = few if limit == "max_memory" else None
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 200, 100, np.arange(1, 101.0) ** -1.0)
    y = rng.standard_normal(200)
    path = ridge_path(X, y, [1e-1, 1e-7], max_memory=max_memory, random_state=0)
    assert path.converged.all()
    assert any("solved one after another" in note for note in path.plan.notes)
    assert np.allclose(path.coef[1], solve(X, y, 1e-7).coef, atol=1e-2)


def test_one_sketch_serves_a_path_that_is_followed():
    X, Y, _ = a_problem("dense", (80, 30))
    path = ridge_path(X, Y, LAMS, preconditioner="nystrom", rank=10, random_state=0)
    alone = sum(
        solve(X, Y, lam, preconditioner="nystrom", rank=10, random_state=0).passes for lam in LAMS
    )
    assert path.converged.all() and path.passes < alone
    assert path.plan.preconditioner == "nystrom" and path.plan.rank == 10


# Budgets and refusals -------------------------------------------------------------------------


def test_a_budget_ends_with_what_is_known(no_decompositions):
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 200, 100, np.arange(1, 101.0) ** -1.0)
    y = rng.standard_normal(200)
    path = ridge_path(X, y, [1.0, 1e-6], max_passes=10, tol=1e-10)
    assert path.status is Status.MAX_PASSES and not path.converged[1]
    assert path.gap[1] >= path.objective[1] - solve(X, y, 1e-6).objective > 0
    late = ridge_path(X, y, [1.0, 1e-6], max_seconds=1e-9)
    assert late.status is Status.MAX_SECONDS and np.all(np.isfinite(late.gap))


def test_the_callback_sees_the_worst_and_may_stop(no_decompositions):
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 200, 100, np.arange(1, 101.0) ** -1.0)
    records = []
    path = ridge_path(
        X, rng.standard_normal(200), [1.0, 1e-6], callback=lambda r: records.append(r) or True
    )
    assert path.status is Status.STOPPED and len(records) == 1
    assert records[0].relative_gap > path.tol and not records[0].certified


def test_an_interrupt_returns_what_is_known(no_decompositions, monkeypatch):
    grow = KrylovSpace.grow

    def interrupted(space):
        if space.expanded >= 5:
            raise KeyboardInterrupt
        grow(space)

    monkeypatch.setattr(KrylovSpace, "grow", interrupted)
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 200, 100, np.arange(1, 101.0) ** -1.0)
    path = ridge_path(X, rng.standard_normal(200), [10.0, 1e-6])
    assert path.status is Status.INTERRUPTED and path.converged[0] and not path.converged[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lams": []}, "lams has shape"),
        ({"lams": [[1.0]]}, "lams has shape"),
        ({"lams": [1.0, -1.0]}, "lam=-1.0 is out of range"),
        ({"lams": ["a"]}, "lam='a' is not a number"),
        ({"lams": [1.0], "solver": "sgd"}, "solver='sgd' is unknown"),
        ({"lams": [1.0], "tol": 0.0}, "tol=0"),
    ],
)
def test_refusals_name_the_argument(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("[", r"\[")):
        ridge_path(np.eye(3), np.ones(3), **arguments)


def test_bad_values_are_refused_before_any_work():
    X = np.eye(3)
    X[1, 1] = np.nan
    with pytest.raises(ValueError, match="X has NaN"):
        ridge_path(X, np.ones(3), [1.0])


def test_the_answer_describes_itself():
    X, Y, _ = a_problem("dense", (40, 8))
    path = ridge_path(X, Y, LAMS)
    assert "4 λ from 1 to 0.001, converged" in repr(path)
    assert "one decomposition serves every λ" in str(path.plan)


# The command and the picture ------------------------------------------------------------------


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """`sketchridge path …` within this process, in a folder of its own: code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    X, Y, weights = a_problem("dense", (60, 4))
    table = np.column_stack([X, Y[:, 0]])
    np.savetxt("t.csv", table, delimiter=",", header="a,b,c,d,price", comments="", fmt="%.17g")
    np.savetxt("weights.txt", weights)

    def inside(*arguments):
        monkeypatch.setattr(sys, "argv", ["sketchridge", "path", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            sketchridge.cli.main()
        written = capsys.readouterr()
        assert "Traceback" not in written.err
        return ended.value.code or 0, written.out, written.err

    return inside, X, Y[:, 0], weights


def test_the_command_writes_what_ridge_path_finds(call):
    inside, X, y, weights = call
    given = ["--lam", "1e-2", "--lam", "1/n", "--weights", "weights.txt", "--intercept"]
    code, out, _ = inside("t.csv", "--target", "price", *given, "--out", "p.npz", "--json")
    document = json.loads(out)
    path = ridge_path(X, y, [1e-2, 1 / 60], sample_weight=weights, fit_intercept=True)
    assert code == 0 and document["status"] == "converged"
    assert [line["lam"] for line in document["path"]] == [1e-2, 1 / 60]
    with np.load("p.npz") as file:
        np.testing.assert_allclose(file["coef"], path.coef, rtol=1e-10)
        assert list(file["feature_names"]) == ["a", "b", "c", "d"]


def test_the_command_draws_and_tells_the_least_error(call):
    inside, *_ = call
    code, out, err = inside("t.csv", "--target", "price", "--folds", "4", "--plot", "p.png")
    assert code == 0 and "← least" in out and "one decomposition serves every λ" in out
    assert "holding out rows, in 4 folds" in err
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    code, _, err = inside("t.csv", "--target", "price", "--plot", "p.png")
    assert code == 1 and "exists: add --force" in err


def test_the_command_says_when_it_did_not_converge(call):
    inside, *_ = call
    arguments = ["--solver", "cg", "--preconditioner", "none", "--max-passes", "2"]
    code, _, err = inside("t.csv", "--target", "price", "--lam", "1e-6", *arguments)
    assert code == 3 and "not converged" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["t.csv"], 1, "holds no target"),
        (["t.csv", "--target", "price", "--lam", "-1"], 2, "is no penalty"),
        (["t.csv", "--target", "price", "--solver", "sgd"], 1, "solver='sgd' is unknown"),
        (["t.csv", "--target", "price", "--folds", "99"], 1, "folds=99 is more than X has rows"),
    ],
)
def test_the_command_refuses_in_sentences(call, arguments, code, message):
    ended, _, err = call[0](*arguments)
    assert ended == code and message in err


def test_errors_of_rows_held_out_are_those_of_fits_without_them():
    X, Y, weights = a_problem("sparse", (40, 6))
    lams = np.array([1e-2, 1.0])
    options = {"fit_intercept": True, "sample_weight": weights}
    errors = held_out_errors(X, Y, lams, 4, random_state=0, tol=1e-14, **options)
    assert errors.shape == (4, 2)
    order = np.random.default_rng(0).permutation(40)
    for fold, test in enumerate(np.array_split(order, 4)):
        train = np.setdiff1d(order, test)
        for index, lam in enumerate(lams):
            fit = solve(X[train], Y[train], lam, fit_intercept=True, sample_weight=weights[train])
            missed = (X[test] @ fit.coef.T + fit.intercept - Y[test]) ** 2
            expected = np.average(missed.mean(axis=1), weights=weights[test])
            assert np.isclose(errors[fold, index], expected, rtol=1e-8)
    scaled = held_out_errors(X, Y, lams, 4, random_state=0, scale_rows=True, **options)
    unit = np.average(np.sqrt(X.power(2).sum(axis=1)), weights=weights) ** 2
    same = held_out_errors(X, Y, lams * unit, 4, random_state=0, **options)
    np.testing.assert_allclose(scaled, same, rtol=1e-10)


def test_a_path_of_several_targets_can_be_drawn(tmp_path):
    X, Y, _ = a_problem("dense", (60, 12))
    path = ridge_path(X, Y)
    errors = held_out_errors(X, Y, path.lams)
    for name in ("p.svg", "p.pdf"):
        file = path_plot.draw(path, tmp_path / name, "a title", target=1, held_out=errors)
        assert file.stat().st_size > 1000
    with pytest.raises(ValueError, match="no name of a picture"):
        path_plot.draw(path, tmp_path / "p.xyz", "a title")


@pytest.mark.parametrize(("lams", "told"), [((10, 100), True), ((1, 1e-6, 1e6), False)])
def test_the_command_says_when_the_least_error_is_at_the_end(call, lams, told):
    """Eight noisy rows of six columns want a λ between almost none and all."""
    inside, *_ = call
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 6))
    y = x.sum(axis=1) + 2 * rng.standard_normal(8)
    header = ",".join("abcdef") + ",price"
    np.savetxt("e.csv", np.column_stack([x, y]), delimiter=",", header=header, comments="")
    options = [part for lam in lams for part in ("--lam", lam)]
    code, out, _ = inside("e.csv", "--target", "price", "--folds", "4", *options)
    assert code == 0 and ("the least error is at the end of these λ" in out) == told
