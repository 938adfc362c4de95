"""Conjugate gradients' smoothed points, gradient descent, Nesterov's method, sketch and solve."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from sketchridge import (
    AGD,
    CG,
    GD,
    Diagonal,
    Embedding,
    Exact,
    Lanczos,
    NoPreconditioner,
    Nystrom,
    RowSampling,
    SketchAndSolve,
    Status,
    solve,
)
from sketchridge.preconditioner import PRECONDITIONERS, RowEmbedding
from tests import literal
from tests.exact import rationals
from tests.problems import decaying, dense_of, make, sparse_rows, with_spectrum
from tests.test_solvers import Truth

SPECS = {
    "none": NoPreconditioner(),
    "diagonal": Diagonal(),
    "diagonal half": Diagonal(exponent=0.5),
    "exact": Exact(10),
    "lanczos": Lanczos(10),
    "lanczos scaled": Lanczos(10, scaling=1),
    "nystrom": Nystrom(15),
    "nystrom half scaled": Nystrom(15, scaling=0.5),
    "embedding": Embedding(),
    "countsketch": Embedding(kind="countsketch"),
    "row_sampling": RowSampling(),
    "leverage": RowSampling(method="leverage"),
}
SOLVERS = {"cg": CG(), "gd": GD(), "agd": AGD()}
SHAPES = {"tall": (150, 20), "wide": (30, 80)}


def data(kind, shape, seed=0):
    """X of moderate conditioning with columns that are not centred, a zero row and a zero column,
    and y that is partly explained.
    """
    rng = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    X = decaying(rng, n, d, 0.5) + 0.1 if kind == "dense" else sparse_rows(rng, n, d)
    mask = np.ones((n, d))
    mask[3], mask[:, 5] = 0.0, 0.0
    X = X * mask if kind == "dense" else X.multiply(mask).tocsr()
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) + 1.0
    return X, y


def penalty(X):
    return 1e-2 * np.mean((dense_of(X) ** 2).sum(axis=1))


def test_every_preconditioner_is_in_the_table():
    assert {spec.name for spec in SPECS.values()} == set(PRECONDITIONERS)


# -- one contract ------------------------------------------------------------------------------


@pytest.mark.parametrize(("solver", "spec"), list(itertools.product(SOLVERS, SPECS)))
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("intercept", [False, True])
def test_every_pair_reaches_the_minimum(solver, spec, kind, shape, intercept):
    X, y = data(kind, shape)
    lam = penalty(X)
    settings = {"tol": 1e-8, "max_passes": 2000, "random_state": 1, "fit_intercept": intercept}
    solution = solve(X, y, lam, SOLVERS[solver], SPECS[spec], **settings)
    Truth(X, y, lam, fit_intercept=intercept).check(solution, 1e-8)


@pytest.mark.parametrize(("solver", "spec"), list(itertools.product(SOLVERS, SPECS)))
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_weights_are_repeated_rows(solver, spec, kind):
    X, y = data(kind, "tall")
    weights = np.random.default_rng(2).integers(0, 4, len(y)).astype(float)
    settings = {"tol": 1e-8, "random_state": 1, "fit_intercept": True}
    lam = penalty(X)
    given = SOLVERS[solver], SPECS[spec]
    solution = solve(X, y, lam, *given, sample_weight=weights, **settings)
    repeated = np.repeat(np.arange(len(y)), weights.astype(int))
    truth = Truth(dense_of(X)[repeated], y[repeated], lam, fit_intercept=True)
    truth.check(solution, 1e-8)


@pytest.mark.parametrize(("solver", "spec"), list(itertools.product(SOLVERS, SPECS)))
def test_several_targets_are_each_target_by_itself(solver, spec):
    X, y = data("dense", "tall")
    rng = np.random.default_rng(5)
    Y = np.column_stack([y, 1e3 * rng.standard_normal(len(y)), np.zeros(len(y))])
    lam = penalty(X)
    together = solve(X, Y, lam, SOLVERS[solver], SPECS[spec], tol=1e-8, random_state=3)
    assert together.converged.all()
    assert not together.coef[2].any() and together.gap[2] == 0
    for t in range(2):
        truth = Truth(X, Y[:, t], lam)
        assert truth.excess(together.coef[t]) <= together.gap[t] <= 1e-8 * truth.null


@pytest.mark.parametrize(("solver", "spec"), list(itertools.product(["gd", "agd"], SPECS)))
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_float32_data_is_solved_in_float64(solver, spec, kind):
    X, y = data(kind, "tall")
    X = X.astype(np.float32)
    lam = penalty(X)
    solution = solve(X, y, lam, SOLVERS[solver], SPECS[spec], tol=1e-8, random_state=2)
    Truth(dense_of(X).astype(float), y, lam).check(solution, 1e-8)


# -- the literal algorithms --------------------------------------------------------------------


def dense_inverse(preconditioner):
    return preconditioner.apply(np.eye(preconditioner.columns))


def run(solver, problem, preconditioner, steps):
    start = np.zeros((problem.d, problem.targets))
    iterates = solver.iterates(problem, preconditioner, start, None)
    return [next(iterates) for _ in range(steps + 1)]


def literal_problem(spec):
    X, y = data("dense", "tall")
    problem = make(X, y, penalty(X))
    preconditioner = SPECS[spec].build(problem, np.random.default_rng(0))
    H = literal.correlation(X) + problem.lam * np.eye(problem.d)
    return problem, preconditioner, H, X.T @ y / len(y)


@pytest.mark.parametrize("spec", ["none", "diagonal", "lanczos", "row_sampling"])
def test_cg_gives_the_points_of_the_least_gradient_in_the_krylov_space(spec):
    """Found afresh for every k: least squares over span{P⁻¹b, …, (P⁻¹H)^{k−1}P⁻¹b}."""
    problem, preconditioner, H, b = literal_problem(spec)
    inverse, krylov = dense_inverse(preconditioner), np.zeros((problem.d, 0))
    root = np.linalg.cholesky(inverse).T
    for iterate in run(CG(), problem, preconditioner, 8)[1:]:
        last = inverse @ (H @ krylov[:, -1] if krylov.size else b)
        krylov = np.linalg.qr(np.column_stack([krylov, last]))[0]
        weights = np.linalg.lstsq(root @ H @ krylov, root @ b, rcond=None)[0]
        np.testing.assert_allclose(iterate.coef[:, 0], krylov @ weights, rtol=1e-7, atol=1e-9)
        evaluation = problem.evaluate(iterate.coef)
        np.testing.assert_allclose(iterate.objective, evaluation.objective, rtol=1e-10)
        np.testing.assert_allclose(iterate.gradient, evaluation.gradient, atol=1e-10)
        np.testing.assert_allclose(iterate.energy[0], d_energy(inverse, evaluation), rtol=1e-6)


def test_cgs_targets_do_not_see_each_other_and_a_solved_one_stays():
    """One is zero, one an eigenvector (solved by one step), two are any."""
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 60, 10, np.linspace(1, 0.3, 10))
    left = np.linalg.svd(X, full_matrices=False)[0]
    Y = np.column_stack([np.zeros(60), left[:, 2], *rng.standard_normal((2, 60))])
    problem, spec = make(X, Y, 1e-3), NoPreconditioner()
    together = run(CG(), problem, spec.build(problem, rng), 9)
    assert all(np.isfinite(iterate.coef).all() for iterate in together)
    for target in range(4):
        one = make(X, Y[:, target], 1e-3)
        for mine, iterate in zip(run(CG(), one, spec.build(one, rng), 9), together, strict=True):
            np.testing.assert_allclose(iterate.coef[:, target], mine.coef[:, 0], atol=1e-10)
    best = np.linalg.solve(X.T @ X / 60 + 1e-3 * np.eye(10), X.T @ Y / 60)
    np.testing.assert_allclose(together[2].coef[:, :2], best[:, :2], atol=1e-12)
    np.testing.assert_allclose(together[9].coef[:, :2], best[:, :2], atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("lam", [1e-12, 1e-4])
def test_what_is_known_of_cgs_points_without_a_pass_is_certain(kind, intercept, offset, lam):
    """In rational arithmetic: the gradient is off by less than is said, and the objective by what
    that makes on the way.
    """
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 30, 6, 10.0 ** -np.arange(6.0)) + offset * (kind == "dense")
    y = rng.standard_normal(30) + 1.0
    X = X if kind == "dense" else sparse.csr_array(X * (np.abs(X) > 0.05 * np.abs(X).max(axis=0)))
    weights = rng.uniform(0.5, 2.0, 30)
    problem = make(X, y, lam, weights, intercept)
    preconditioner = Diagonal().build(problem, rng)
    rows, target, share = rationals(dense_of(X)), rationals(y), rationals(problem.weights)
    share = share / share.sum()
    if intercept:
        rows, target = rows - share @ rows, target - share @ target
    start = np.full((6, 1), 0.0 if offset else 1.0)
    points = itertools.islice(CG().iterates(problem, preconditioner, start, rng), 1, 25)
    for iterate in points:
        known = iterate.known()
        assert known is not None and np.array_equal(known.coef, iterate.coef)
        coef = rationals(known.coef[:, 0])
        residual = rows @ coef - target
        exact = (share * residual) @ rows + rationals(np.array(lam)) * coef
        off = np.linalg.norm((rationals(known.gradient[:, 0]) - exact).astype(float))
        assert off <= problem.rounding(known)[0]
        objective = float((share @ residual**2 + rationals(np.array(lam)) * coef @ coef) / 2)
        moved = np.linalg.norm(known.coef - start)  # the slope on the way was off by as much
        allowed = 1e-13 * objective + problem.rounding(known)[0] * moved
        assert abs(known.objective[0] - objective) <= min(allowed, 1e-8 * objective)


def test_cg_needs_no_last_pass_where_what_it_knows_certifies():
    X, y = data("dense", "tall")
    lam = penalty(X)
    solution = solve(X, y, lam, "cg", "none", tol=1e-6, random_state=0)
    Truth(X, y, lam).check(solution, 1e-6)
    assert solution.history[-1].certified
    narrow = solve(X, y, lam, CG(storage="float32"), "none", tol=1e-6, random_state=0)
    assert narrow.passes == solution.passes + 1  # float32 products say nothing for certain


def test_cg_makes_a_last_pass_where_nearly_everything_is_explained():
    """The objective is then a small difference of large numbers."""
    X, y = data("dense", "tall")
    for targets, start in [(X @ np.ones(20), 0.0), (y, 1e3)]:
        problem = make(X, targets, 1e-9)
        identity = NoPreconditioner().build(problem, np.random.default_rng(0))
        points = CG().iterates(problem, identity, np.full((20, 1), start), np.random.default_rng(0))
        known = [iterate.known() for iterate in itertools.islice(points, 1, 40)]
        assert known[0] is not None and known[-1] is None


def test_cg_starts_again_from_a_fresh_evaluation():
    problem, preconditioner, _, _ = literal_problem("diagonal")
    iterates = CG().iterates(problem, preconditioner, np.zeros((problem.d, 1)), None)
    for _ in range(4):
        next(iterates)
    elsewhere = problem.evaluate(np.ones((problem.d, 1)))
    again = iterates.send(elsewhere)
    _, anew = itertools.islice(CG().iterates(problem, preconditioner, elsewhere.coef, None), 2)
    np.testing.assert_array_equal(again.coef, anew.coef)
    np.testing.assert_array_equal(again.energy, anew.energy)


@pytest.mark.parametrize("spec", ["none", "diagonal", "lanczos", "row_sampling"])
def test_gd_is_steepest_descent_in_the_metric_of_P(spec):
    problem, preconditioner, H, b = literal_problem(spec)
    inverse, w = dense_inverse(preconditioner), np.zeros(problem.d)
    for iterate in run(GD(), problem, preconditioner, 12)[1:]:
        g = H @ w - b
        d = inverse @ g
        w = w - (g @ d) / (d @ H @ d) * d
        np.testing.assert_allclose(iterate.coef[:, 0], w, rtol=1e-9, atol=1e-12)
        evaluation = problem.evaluate(w[:, None])
        np.testing.assert_allclose(iterate.objective, evaluation.objective, rtol=1e-10)
        np.testing.assert_allclose(iterate.gradient, evaluation.gradient, atol=1e-10)
        np.testing.assert_allclose(iterate.energy[0], d_energy(inverse, evaluation), rtol=1e-6)


def d_energy(inverse, evaluation):
    gradient = evaluation.gradient[:, 0]
    return gradient @ inverse @ gradient


def literal_nesterov(H, b, inverse, mu, steps):
    """Nesterov's general scheme with a known μ, L by the largest Rayleigh quotient seen, and a
    restart where F has grown; every gradient is computed anew.
    """

    def objective(w):
        return 0.5 * w @ H @ w - b @ w

    x = v = np.zeros(len(b))
    alpha, L, restarts = 1.0, 0.0, 0
    for _ in range(steps):
        g = H @ v - b
        d = inverse @ g
        L = max(L, (d @ H @ d) / (g @ d))
        following = v - d / L
        grew = objective(following) > objective(x)
        q = min(1.0, mu / L)
        root = np.roots([1.0, alpha**2 - q, -(alpha**2)]).max()
        beta = 0.0 if grew else alpha * (1 - alpha) / (alpha**2 + root)
        alpha = 1.0 if grew else root
        restarts += grew
        x, v = following, following + beta * (following - x)
        yield x, restarts


@pytest.mark.parametrize("spec", ["none", "diagonal", "lanczos", "row_sampling"])
def test_agd_is_nesterovs_method_in_the_metric_of_P(spec):
    problem, preconditioner, H, b = literal_problem(spec)
    steps = 40 if spec in ("none", "diagonal") else 12
    mu = preconditioner.least_curvature
    expected = literal_nesterov(H, b, dense_inverse(preconditioner), mu, steps)
    found = run(AGD(), problem, preconditioner, steps)[1:]
    for iterate, (w, _) in zip(found, expected, strict=True):
        np.testing.assert_allclose(iterate.coef[:, 0], w, rtol=1e-8, atol=1e-11)
        evaluation = problem.evaluate(iterate.coef)
        np.testing.assert_allclose(iterate.objective, evaluation.objective, rtol=1e-10)
        np.testing.assert_allclose(iterate.gradient, evaluation.gradient, atol=1e-9)


def test_agd_starts_its_momentum_anew_where_the_objective_grows():
    """With λ far below the spectrum μ is far too small, and momentum too much."""
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 60, 10, np.linspace(1, 0.3, 10))
    problem = make(X, X @ np.ones(10), 1e-8)
    H, b = literal.correlation(X) + 1e-8 * np.eye(10), X.T @ (X @ np.ones(10)) / 60
    *_, (w, restarts) = literal_nesterov(H, b, np.eye(10), 1e-8, 60)
    assert restarts >= 2
    found = run(AGD(), problem, NoPreconditioner().build(problem, rng), 60)[-1]
    np.testing.assert_allclose(found.coef[:, 0], w, rtol=1e-6)
    np.testing.assert_allclose(w, np.ones(10), rtol=1e-4)


@pytest.mark.parametrize("solver", [GD(), AGD()], ids=["gd", "agd"])
def test_a_fresh_evaluation_is_gone_on_from(solver):
    problem, preconditioner, _, _ = literal_problem("diagonal")
    iterates = solver.iterates(problem, preconditioner, np.zeros((problem.d, 1)), None)
    next(iterates)
    point = next(iterates)
    sent = problem.evaluate(point.coef + 1.0)  # a gradient that cannot be its own
    after = iterates.send(sent)
    moved = (
        sent.gradient
        - (problem.gram(point.coef - after.coef))
        - problem.lam * (point.coef - after.coef)
    )
    np.testing.assert_allclose(after.gradient, moved, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("solver", "power"), [("gd", 1.0), ("agd", 0.5), ("cg", 0.5)])
def test_iterations_grow_with_the_condition_number_as_they_should(solver, power):
    """On log-uniform spectra with equal energy in every direction."""
    passes = []
    conditions = np.array([30.0, 1000.0])
    d = 400 if solver == "cg" else 60  # else conjugate gradients end early
    for condition in conditions:
        values = np.logspace(0, -0.5 * np.log10(condition), d)
        X = with_spectrum(np.random.default_rng(0), d + 10, d, values)
        y = np.linalg.svd(X, full_matrices=False)[0].sum(axis=1)
        settings = {"tol": 1e-6, "max_passes": 1e5, "random_state": 0}
        solution = solve(X, y, 1e-3 / condition, solver, "none", **settings)
        assert solution.converged
        passes.append(solution.passes)
    slope = np.log(passes[1] / passes[0]) / np.log(conditions[1] / conditions[0])
    assert slope == pytest.approx(power, abs=0.2)


# -- sketch and solve --------------------------------------------------------------------------


@pytest.mark.parametrize("sketch", ["sparse_sign", "countsketch"])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("intercept", [False, True])
def test_sketch_and_solve_solves_the_sketched_problem(sketch, kind, shape, intercept):
    X, y = data(kind, shape)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, len(y))
    weights[7] = 0.0
    lam, rows = penalty(X), 13 if shape == "wide" else 70
    solver = SketchAndSolve(rows=rows, kind=sketch)
    solution = solve(
        X, y, lam, solver, sample_weight=weights, fit_intercept=intercept, random_state=4
    )
    truth = Truth(X, y, lam, weights, intercept)
    # The seed is drawn as the solver draws it; S is used as a dense matrix.
    rng = np.random.default_rng(4)
    rng.integers(2**63)  # the certificate's own
    S = RowEmbedding.draw(sketch, rows, len(y), rng).matrix().toarray()
    A = S @ (np.sqrt(truth.omega)[:, None] * truth.X)
    b = S @ (np.sqrt(truth.omega) * truth.y)
    expected = np.linalg.solve(A.T @ A + lam * np.eye(A.shape[1]), A.T @ b)
    np.testing.assert_allclose(solution.coef, expected, rtol=1e-8, atol=1e-10)
    assert solution.status is Status.ENDED and not solution.converged
    assert truth.excess(solution.coef) <= solution.gap
    assert "coef_init" in solution.status.value
    assert any(f"{len(y)} rows embedded into {rows}" in note for note in solution.plan.notes)


def test_sketch_and_solve_has_converged_where_its_gap_says_so():
    X, y = data("dense", "tall")
    every_row = solve(X, y, penalty(X), SketchAndSolve(rows=150), tol=1e-10, random_state=0)
    assert every_row.status is Status.CONVERGED and every_row.converged
    rough = solve(X, y, penalty(X), SketchAndSolve(rows=140), tol=0.9, random_state=0)
    assert rough.status is Status.CONVERGED and rough.relative_gap > 1e-4


def test_sketch_and_solve_is_a_start_for_others():
    X, y = data("dense", "tall")
    first = solve(X, y, penalty(X), "sketch_and_solve", random_state=0)
    second = solve(X, y, penalty(X), "cg", "embedding", coef_init=first.coef, random_state=0)
    assert second.converged and second.history[0].gap <= 2 * first.gap


def test_sketch_and_solve_serves_several_targets():
    X, y = data("dense", "tall")
    Y = np.column_stack([y, -2 * y])
    solution = solve(X, Y, penalty(X), "sketch_and_solve", random_state=0)
    np.testing.assert_allclose(solution.coef[1], -2 * solution.coef[0], rtol=1e-10)
    assert solution.gap.shape == (2,) and solution.status is Status.ENDED


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"rows": 0}, ValueError, "rows=0"),
        ({"rows": 1.5}, TypeError, "rows=1.5"),
        ({"kind": "gauss"}, ValueError, "kind='gauss'"),
    ],
)
def test_sketch_and_solve_refuses_parameters_without_meaning(wrong, error, said):
    with pytest.raises(error, match=said):
        SketchAndSolve(**wrong)


def test_sketch_and_solve_refuses_more_rows_than_there_are():
    X, y = data("dense", "tall")
    with pytest.raises(ValueError, match=r"rows=151 .*150"):
        solve(X, y, 1.0, SketchAndSolve(rows=151))
