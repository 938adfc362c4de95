"""Points made of dual variables: their certificate, and when the plan takes them."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from sketchridge import SDCA, Kaczmarz, Ridge, kernels, solve
from sketchridge.certificate import RidgeCurvature, certified_gap
from sketchridge.costs import Costs, shared_epochs
from sketchridge.evaluation import DualPoint
from sketchridge.machine import Machine
from sketchridge.planner import plan
from sketchridge.preconditioner import NoPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solution import Status
from sketchridge.solvers import weighed
from sketchridge.solvers.components import Shuffler

WEIGHED = SDCA("shuffled", "weighed")
FORMS = {"dense": np.asarray, "csr": sparse.csr_array}
forms = pytest.mark.parametrize("form", FORMS)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True])
weights = pytest.mark.parametrize("weighted", [False, True])


def texts(n=300, d=80, seed=0):
    """Rows of norm 1, a tenth of them filled, with targets of two kinds, sorted."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.1)
    X[:, 0] += 0.1
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, np.sort(np.sign(X @ rng.standard_normal(d))), rng


def minimum(X, y, lam, omega, fit_intercept):
    """F*, by a dense solve on rows centred explicitly."""
    if fit_intercept:
        X, y = X - omega @ X, y - omega @ y
    best = np.linalg.solve(X.T @ (omega[:, None] * X) + lam * np.eye(X.shape[1]), X.T @ (omega * y))
    return 0.5 * omega @ (X @ best - y) ** 2 + 0.5 * lam * best @ best


@forms
@intercepts
@weights
@pytest.mark.parametrize(
    "solver", [SDCA("shuffled"), SDCA("uniform"), Kaczmarz(), WEIGHED], ids=repr
)
@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-11])
def test_the_gap_is_bounded_and_reached(form, fit_intercept, weighted, solver, tol):
    X, y, rng = texts()
    given = rng.uniform(0.2, 2.0, y.size) if weighted else None
    omega = np.full(y.size, 1 / y.size) if given is None else given / given.sum()
    lam = 1 / y.size
    solution = solve(
        FORMS[form](X),
        y,
        lam,
        solver=solver,
        preconditioner="none",
        tol=tol,
        fit_intercept=fit_intercept,
        sample_weight=given,
        random_state=0,
    )
    assert solution.status is Status.CONVERGED and solution.relative_gap <= tol
    residuals = X @ solution.coef + solution.intercept - y
    objective = 0.5 * omega @ residuals**2 + 0.5 * lam * solution.coef @ solution.coef
    true_gap = objective - minimum(X, y, lam, omega, fit_intercept)
    assert true_gap <= solution.gap * (1 + 1e-9) + 1e-16


@intercepts
def test_any_dual_variables_give_a_bound(fit_intercept):
    """F(w) less the dual objective of α, whatever α is, where w is made of it."""
    X, y, rng = texts()
    lam, omega = 0.3 / y.size, np.full(y.size, 1 / y.size)
    problem = RidgeProblem(X, y[:, None].astype(float), lam, None, fit_intercept)
    centred = X - omega @ X if fit_intercept else X
    targets = y - omega @ y if fit_intercept else y
    for _ in range(5):
        alpha = rng.standard_normal(y.size)
        w = centred.T @ (omega * alpha) / lam
        dual = omega @ (alpha * targets - alpha**2 / 2) - lam / 2 * w @ w
        evaluation = problem.evaluate(w[:, None], DualPoint(alpha[:, None], np.zeros(1)))
        bound = 0.5 * evaluation.dual_distance**2
        np.testing.assert_allclose(bound, evaluation.objective - dual, rtol=1e-10)
        certified = certified_gap(problem, RidgeCurvature(lam), evaluation)
        assert certified >= evaluation.objective - minimum(X, y, lam, omega, fit_intercept)


def test_what_is_between_the_point_and_its_dual_variables_counts():
    X, y, _ = texts()
    problem = RidgeProblem(X, y[:, None].astype(float), 1 / y.size)
    w, alpha = np.zeros((problem.d, 1)), np.zeros((y.size, 1))
    near = problem.evaluate(w, DualPoint(alpha, np.zeros(1)))
    far = problem.evaluate(w, DualPoint(alpha, np.ones(1)))
    np.testing.assert_allclose(far.dual_distance - near.dual_distance, np.sqrt(problem.lam))


@forms
@intercepts
@pytest.mark.parametrize("solver", [SDCA("shuffled"), WEIGHED], ids=repr)
def test_rounding_keeps_within_the_drift(form, fit_intercept, solver, monkeypatch):
    """The point against the sum that its dual variables make, in exact arithmetic."""
    monkeypatch.setattr(weighed, "LEAST_ROWS", 10)
    X, y, _ = texts(n=40, d=12)
    lam = 1 / y.size
    problem = RidgeProblem(FORMS[form](X), y[:, None].astype(float), lam, None, fit_intercept)
    preconditioner = NoPreconditioner().build(problem, np.random.default_rng(0))
    iterates = solver.iterates(
        problem, preconditioner, np.zeros((problem.d, 1)), np.random.default_rng(0)
    )
    for _ in range(60):
        iterate = next(iterates)
    mean = np.zeros(problem.d) if problem.mean is None else problem.mean
    exact = [Fraction(0)] * problem.d
    for row, alpha, weight in zip(X, iterate.duals.values[:, 0], problem.weights, strict=True):
        multiple = Fraction(alpha) * Fraction(weight) / Fraction(lam)
        exact = [
            total + multiple * (Fraction(x) - Fraction(m))
            for total, x, m in zip(exact, row, mean, strict=True)
        ]
    off = [float(Fraction(w) - e) for w, e in zip(iterate.coef[:, 0], exact, strict=True)]
    drift = float(iterate.duals.drift[0])
    assert 0 < np.linalg.norm(off) <= drift
    assert drift <= 1e-9 * np.linalg.norm(iterate.coef)


def test_shuffled_rows_all_come_once():
    for n in (1, 15, 16, 17, 1000, 4096, 4101):
        order = Shuffler(n).draw(np.random.default_rng(0), n)
        np.testing.assert_array_equal(np.sort(order), np.arange(n))


@pytest.mark.parametrize("solver", [SDCA("shuffled"), WEIGHED], ids=repr)
def test_estimates_promise_no_more_than_is_certified(solver):
    """An evaluation a solve, or two: the estimate is right to a factor of two."""
    X, y, _ = texts(n=2000, d=400)
    solution = solve(sparse.csr_array(X), y, 1 / y.size, solver=solver, preconditioner="none")
    assert sum(record.certified for record in solution.history) <= 2


LARGE = {"n": 6000, "d": 4000}


MACHINE = Machine(2e10, 5e10, 1e11, 3e10, 2e9)  # the plan should not depend on this one


def planned(lam_times_n, targets=1, warm=False, max_memory=None):
    rng = np.random.default_rng(0)
    X = sparse.random_array((LARGE["n"], LARGE["d"]), density=0.02, format="csr", rng=rng)
    norms = np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())
    X = sparse.csr_array(sparse.diags_array(1 / norms) @ X)
    Y = rng.standard_normal((LARGE["n"], targets))
    problem = RidgeProblem(X, Y, lam_times_n / LARGE["n"])
    return plan(problem, 1e-6, max_memory, rng, MACHINE, warm=warm)


def test_rows_that_lam_makes_easy_are_for_dual_ascent():
    choice = planned(1.0)
    assert choice.solver == SDCA(sampling="shuffled")
    assert choice.forecasts[0].passes < 20 and "dual coordinate ascent" in choice.reason


def test_threads_share_the_rows_where_that_is_less():
    costs = Costs(MACHINE, 50_000, 20_000, 4_000_000, 0, True, 1)
    one, two = shared_epochs(10.0, 1), shared_epochs(10.0, 2)
    assert one == 10.0 < two < 20.0
    shared = two * costs.weighed_epoch(2)
    assert shared < 10.0 * costs.dual_epoch() < one * costs.weighed_epoch(1)
    small = replace(costs, stored=400_000)
    assert 10.0 * small.dual_epoch() < two * small.weighed_epoch(2)


def test_unknown_moves_are_refused():
    with pytest.raises(ValueError, match="moves='none'"):
        SDCA(moves="none")


@pytest.mark.parametrize(
    ("solver", "preconditioner"), [(WEIGHED, "lanczos"), (SDCA("uniform", "weighed"), "none")]
)
def test_moves_that_cannot_be_weighed_are_plain_and_said_so(solver, preconditioner):
    X, y, _ = texts()
    solution = solve(X, y, 1 / y.size, solver=solver, preconditioner=preconditioner, random_state=0)
    assert solution.converged and "here they are plain" in str(solution.plan)


@pytest.mark.parametrize("n", [7, 2000])
@pytest.mark.parametrize("tol", [1e-8, 1e-16])
def test_weighed_moves_leave_alone_what_is_solved(n, tol):
    """One epoch solves it, and the slopes of the next are nothing but rounding."""
    rng = np.random.default_rng(0)
    X, y = sparse.diags_array(rng.uniform(1, 2, n)).tocsr(), rng.standard_normal(n)
    how = {"preconditioner": "none", "tol": tol, "max_passes": 60, "random_state": 0}
    assert solve(X, y, 1 / n, solver=WEIGHED, **how).converged


def test_weighed_moves_need_fewer_epochs_where_rows_are_hard():
    X, y, _ = texts(n=2000, d=400)
    how = {"preconditioner": "none", "random_state": 0}
    plain, better = (
        solve(sparse.csr_array(X), y, 0.05 / y.size, solver=solver, **how)
        for solver in (SDCA("shuffled"), WEIGHED)
    )
    assert better.passes < 0.7 * plain.passes


def test_others_are_not():
    for choice in (planned(0.1), planned(1.0, targets=2), planned(1.0, warm=True)):
        assert choice.solver.name != "sdca"


def test_dual_ascent_keeps_to_the_memory():
    choice = planned(1.0)
    needed = choice.forecasts[0].memory
    assert planned(1.0, max_memory=needed).solver.name == "sdca"
    with pytest.raises(ValueError, match="max_memory"):
        planned(1.0, max_memory=needed // 2)


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_coefficients_rounded_to_float32_keep_the_certificate(tol):
    X, y, _ = texts(n=2000, d=400)
    X, y = X.astype(np.float32), y.astype(np.float32)
    model = Ridge(alpha=1.0, solver=SDCA("shuffled"), preconditioner="none", tol=tol)
    model.fit(sparse.csr_array(X), y)
    assert model.coef_.dtype == np.float32 and model.relative_gap_ <= tol
    lam, omega = 1 / y.size, np.full(y.size, 1 / y.size)
    coef = model.coef_.astype(float)
    residuals = X.astype(float) @ coef + float(model.intercept_) - y
    objective = 0.5 * omega @ residuals**2 + 0.5 * lam * coef @ coef
    assert objective - minimum(X.astype(float), y.astype(float), lam, omega, True) <= model.gap_


def test_a_point_that_is_moved_drifts():
    duals = DualPoint(np.ones((5, 2)), np.array([0.5, 0.0]))
    move = np.array([[3.0, 0.0], [4.0, 1.0]])
    np.testing.assert_allclose(duals.after(move).drift, [5.5, 1.0])


def test_targets_that_are_replaced_keep_their_dual_variables():
    X, y, _ = texts(n=60, d=20)
    problem = RidgeProblem(X, np.stack([y, -y], axis=1).astype(float), 1 / y.size)
    w, alpha = np.zeros((20, 2)), np.ones((60, 2))
    plain = problem.evaluate(w)
    made = problem.evaluate(w, DualPoint(alpha, np.array([1.0, 2.0])))
    where = np.array([True, False])
    joined = plain.replaced(by=made, where=where)
    np.testing.assert_array_equal(joined.duals.values[:, 0], alpha[:, 0])
    np.testing.assert_array_equal(joined.duals.drift, [1.0, np.inf])
    assert np.isfinite(joined.dual_distance[0]) and np.isinf(joined.dual_distance[1])
    assert plain.replaced(by=plain, where=where).duals is None
    assert made.without_duals().duals is None


def test_rounding_is_no_reason_to_stop_where_the_dual_knows_more():
    X, y, _ = texts(n=2000, d=400)
    solution = solve(
        sparse.csr_array(X),
        y + 1e7,
        1 / y.size,
        solver=SDCA("uniform"),
        preconditioner="none",
        fit_intercept=True,
        tol=1e-11,
        random_state=0,
    )
    assert solution.status is Status.CONVERGED


def test_a_budget_that_ends_makes_no_sketch_where_the_dual_knows_more():
    X, y, _ = texts(n=2000, d=400)
    how = {"solver": SDCA("shuffled"), "preconditioner": "none", "max_passes": 5}
    solution = solve(sparse.csr_array(X), y, 1 / y.size, tol=1e-9, **how)
    assert solution.status is Status.MAX_PASSES
    assert not any("sketch" in note for note in solution.plan.notes)


def test_rows_that_are_alike_are_given_up():
    """A direction that all rows have in common makes dual ascent slow, and the plan changes."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((6000, 4000), density=0.02, format="lil", rng=rng)
    X = 0.3 * X.tocsr()
    X = sparse.csr_array(
        X + sparse.csr_array((np.ones(6000), (np.arange(6000), [0] * 6000)), X.shape)
    )
    norms = np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())
    X = sparse.csr_array(sparse.diags_array(1 / norms) @ X)
    y = np.sort(np.sign(rng.standard_normal(6000)))
    solution = solve(X, y, 0.41 / 6000, random_state=0)
    assert solution.converged and solution.plan.solver == "cg"
    assert any("planned anew" in note for note in solution.plan.notes)
    assert solution.passes < 60


def test_small_sparse_problems_do_without():
    X, y, _ = texts(n=1000, d=400)
    assert solve(sparse.csr_array(X), y, 1 / y.size).plan.solver != "sdca"


def test_several_penalties_are_planned_one_by_one():
    rng = np.random.default_rng(0)
    X = sparse.random_array((6000, 4000), density=0.01, format="csr", rng=rng)
    norms = np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())
    X = sparse.csr_array(sparse.diags_array(1 / norms) @ X)
    y = np.sign(rng.standard_normal(6000))
    model = Ridge(alpha=[10, 0.01], random_state=0).fit(X, np.stack([y, -y[::-1]], axis=1))
    assert model.n_iter_.max() < 200


def test_an_epoch_tells_what_weighing_its_move_needs():
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 25), density=0.3, format="csr", rng=rng)
    weights = rng.random(60) / 60
    weights[::7] = 0.0
    targets, duals, last = rng.standard_normal((3, 60))
    rates, order, lam = rng.random(60), rng.permutation(60), 0.1
    before, nothing = duals.copy(), np.empty(0)
    sums = kernels.dual_epoch(
        kernels.CSR(X.data, X.indices, X.indptr),
        order,
        weights,
        rates,
        targets,
        duals,
        np.empty((60, 0)),
        np.empty((60, 0)),
        kernels.Centre(nothing, nothing, 0.0),
        kernels.DualMetric(1.0, nothing, nothing, lam),
        last,
        rng.standard_normal(25),
        np.empty((2, 0)),
    )
    steps, left = duals - before, targets - before
    expected = [
        weights @ steps**2,
        weights @ (steps * last),
        weights @ (steps * left),
        weights @ np.abs(steps * left),
        weights @ np.abs(before * left),
    ]
    assert sums[2:] == pytest.approx(expected, rel=1e-12)
