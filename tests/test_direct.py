"""The direct solve: what the normal matrix tells of its answer, against rational arithmetic."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from sketchridge import solve
from sketchridge.certificate import certified_gap
from sketchridge.driver import check_controls, make_problem, solve_problem
from sketchridge.solvers.direct import SINGULAR, DualCholesky, PrimalCholesky
from sketchridge.threads import single_threaded_blas
from tests.exact import ExactRidge
from tests.test_certificate import FAMILIES, Audit, Case

PROBLEMS = 60  # of each family and form
FORMS = (PrimalCholesky, DualCholesky)
SHAPES = {"primal": (60, 8), "dual": (8, 60)}


def problem_of(shape, targets=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(SHAPES[shape])
    return X, X @ rng.standard_normal((X.shape[1], targets)) + rng.standard_normal(
        (X.shape[0], targets)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_matrix_certifies_is_never_below_the_true_gap(family, form):
    rng = np.random.default_rng(list(FAMILIES).index(family))
    audit = Audit()
    with single_threaded_blas():
        for _ in range(PROBLEMS):
            case = Case.draw(family, rng)
            problem = case.problem()
            if case.lam <= SINGULAR * min(case.X.shape) * problem.raw_trace:
                continue
            factor = form.of(problem)
            iterate = factor.first()
            known = None if iterate.known is None else iterate.known()
            if known is None:
                continue
            certified = certified_gap(problem, factor, known)
            truth = case.exact().gap(known.coef, problem.intercept(known.coef))
            audit.check(case, form.__name__, "first", certified, truth)
    assert audit.checks.total() >= PROBLEMS / 4
    audit.verdict()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("storage", [np.ascontiguousarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_objective_and_the_gap_are_those_of_the_answer(shape, storage, intercept):
    X, Y = problem_of(shape)
    solution = solve(storage(X), Y, 1e-3, solver="direct", fit_intercept=intercept)
    exact = ExactRidge(X, Y, 1e-3, fit_intercept=intercept)
    coef, b = solution.coef.T, np.broadcast_to(solution.intercept, Y.shape[1])
    objective = exact.objective(coef, b).astype(float)
    np.testing.assert_allclose(solution.objective, objective, rtol=1e-12)
    assert np.all(exact.gap(coef, b) <= solution.gap)
    assert np.all(solution.relative_gap <= 1e-20)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_answer_is_not_read_again(shape):
    X, Y = problem_of(shape)
    # The norms, the normal matrix, and one product with the targets or the dual variables.
    assert solve(X, Y, 1e-3, solver="direct").passes == 3


def test_the_data_is_asked_where_the_matrix_has_too_few_digits():
    """An objective that is next to nothing beside that of w = 0 is no difference of two."""
    X, _ = problem_of("primal")
    Y = X @ np.ones((X.shape[1], 1)) + 1e-6 * np.cos(np.arange(len(X)))[:, None]
    solution = solve(X, Y, 1e-12, solver="direct")
    assert solution.passes == 4
    truth = ExactRidge(X, Y, 1e-12).objective(solution.coef.T, [0.0]).astype(float)
    np.testing.assert_allclose(solution.objective, truth, rtol=1e-9)


def test_an_answer_that_the_matrix_cannot_certify_is_read_again():
    X, Y = problem_of("primal", targets=1)
    by_matrix = solve(X, Y, 1e-5, solver="direct")
    tol = 0.1 * float(by_matrix.relative_gap[0])
    solution = solve(X, Y, 1e-5, solver="direct", tol=tol)
    assert solution.converged and solution.passes >= 4
    assert ExactRidge(X, Y, 1e-5).gap(solution.coef.T, [0.0])[0] <= solution.gap[0]


@pytest.mark.parametrize("intercept", [False, True])
def test_many_targets_are_not_copied_time_and_again(intercept):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20_000, 20)), rng.standard_normal((20_000, 100))
    tracemalloc.start()
    solve(X, Y, 1e-3, solver="direct", fit_intercept=intercept)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Centred targets are a copy; some blocks of rows of them besides.
    assert peak < (0.5 + intercept) * Y.nbytes


def test_targets_that_cannot_be_written_or_are_scattered_are_as_good():
    X, Y = problem_of("primal")
    expected = solve(X, Y, 1e-3).coef
    given = Y.copy()
    frozen, scattered = Y.copy(), np.repeat(Y, 2, axis=1)[:, ::2]
    frozen.setflags(write=False)
    for targets in (given, frozen, scattered, np.asfortranarray(Y), Y.astype(">f8")):
        np.testing.assert_allclose(solve(X, targets, 1e-3).coef, expected, rtol=1e-12)
    assert np.array_equal(given, Y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_target_that_is_no_number_is_refused(value):
    X, Y = problem_of("primal")
    Y[5, 1] = value
    with pytest.raises(ValueError, match="y has a NaN or infinite value at row 5"):
        solve(X, Y, 1e-3)


def test_the_matrix_serves_where_rows_have_weights_of_zero():
    X, Y = problem_of("dual")
    weights = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 1.0, 3.0, 1.0])
    solution = solve(X, Y, 1e-2, solver="direct", sample_weight=weights)
    kept = weights > 0
    alone = solve(X[kept], Y[kept], 1e-2, solver="direct", sample_weight=weights[kept])
    np.testing.assert_allclose(solution.coef, alone.coef, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", ["direct", "cg"])
def test_what_is_rounded_to_float32_is_certified_as_it_is_returned(solver):
    """A short move changes the gap by little, and that is known without a pass."""
    rng = np.random.default_rng(3)
    audit = Audit()
    for seed in range(120):
        case = Case.draw(rng.choice(list(FAMILIES)), rng)
        problem = case.problem()
        controls = check_controls(random_state=seed, solver=solver, tol=10.0 ** rng.uniform(-9, -1))
        solution = solve_problem(problem, controls, flat=False, dtype=np.float32)
        truth = case.exact().gap(
            solution.coef.T.astype(float),
            np.asarray(solution.intercept, dtype=np.float32).astype(float),
        )
        audit.check(case, solver, "rounded", solution.gap, truth)
    audit.verdict()


def test_rounding_takes_no_pass():
    X, Y = problem_of("primal")
    controls = check_controls(solver="direct")
    solution = solve_problem(make_problem(X, Y, 1e-3)[0], controls, flat=False, dtype=np.float32)
    assert solution.passes == 3
    assert 1e-18 < solution.relative_gap.max() < 1e-10
