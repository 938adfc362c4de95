"""What every solver promises, over the registry; then what is particular to each."""

import itertools

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from sketchridge import CG, SVRG, Direct, Lanczos, Status, solve
from sketchridge.driver import make_problem
from sketchridge.preconditioner import PRECONDITIONERS
from sketchridge.solvers import ALLOWED, direct, svrg
from tests import literal
from tests.problems import CONVERGING as SOLVERS
from tests.problems import (
    average_condition_number,
    centred,
    correlation_factor,
    decaying,
    dense_of,
    sparse_rows,
    with_spectrum,
)

RANK = 10
COMBINATIONS = [
    (solver, preconditioner)
    for solver, preconditioner in itertools.product(SOLVERS, ALLOWED["svrg"])
    if preconditioner in ALLOWED[solver]
]
SHAPES = {"tall": (120, 25), "wide": (25, 120)}
combinations = pytest.mark.parametrize(("solver", "preconditioner"), COMBINATIONS)
every_kind = pytest.mark.parametrize("kind", ["dense", "csr"])
every_shape = pytest.mark.parametrize("shape", SHAPES)


def data(kind, shape, seed=0):
    """X with columns that are not centred, and y that is partly explained."""
    rng = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    X = decaying(rng, n, d, 1.5) + 0.1 if kind == "dense" else sparse_rows(rng, n, d)
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) + 1.0
    return X, y


def options(variant, n):
    weights = np.random.default_rng(7).uniform(0.5, 2.0, n)
    return {
        "plain": {},
        "weighted": {"sample_weight": weights},
        "intercept": {"fit_intercept": True},
        "weighted intercept": {"sample_weight": weights, "fit_intercept": True},
    }[variant]


class Truth:
    """The minimum by the normal equations, and how far above it a point is."""

    def __init__(self, X, y, lam, sample_weight=None, fit_intercept=False):
        weights = np.ones(len(y)) if sample_weight is None else sample_weight
        self.lam, self.omega = lam, weights / weights.sum()
        self.X, self.y = centred(X, y, self.omega) if fit_intercept else (dense_of(X), y)
        self.H = literal.correlation(self.X, self.omega) + lam * np.eye(self.X.shape[1])
        self.coef = literal.ridge_solution(self.X, self.y, lam, self.omega)
        self.null = literal.objective(self.X, self.y, lam, 0 * self.coef, self.omega)

    def excess(self, coef):
        """F(w) − F*, without the cancellation of a difference."""
        return 0.5 * (coef - self.coef) @ self.H @ (coef - self.coef)

    def check(self, solution, tol):
        """The certificate holds, the accuracy is reached, and the coefficients are near."""
        floor = 1e-20 * self.null  # the oracle's own accuracy
        excess = self.excess(solution.coef)
        assert solution.status is Status.CONVERGED and solution.converged
        assert solution.relative_gap <= tol
        assert excess <= solution.gap + floor
        assert excess <= tol * self.null + floor
        distance = np.linalg.norm(solution.coef - self.coef)
        assert distance <= np.sqrt(2 * (solution.gap + floor) / self.lam)


def penalty(solver, preconditioner, X):
    """λ that leaves the spectrum's tail to the preconditioner; without one, well-conditioned."""
    trace = np.mean((dense_of(X) ** 2).sum(axis=1))
    stochastic = solver not in ("direct", "cg")
    return trace * (3e-2 if preconditioner == "none" and stochastic else 1e-3)


@combinations
@every_kind
@every_shape
@pytest.mark.parametrize("variant", ["plain", "weighted", "intercept", "weighted intercept"])
def test_every_solver_reaches_the_minimum(solver, preconditioner, kind, shape, variant):
    X, y = data(kind, shape)
    lam = penalty(solver, preconditioner, X)
    extra = options(variant, len(y))
    rank = {} if preconditioner == "none" else {"rank": RANK}
    solution = solve(
        X,
        y,
        lam,
        solver=solver,
        preconditioner=preconditioner,
        tol=1e-10,
        max_passes=3000,
        random_state=1,
        **rank,
        **extra,
    )
    truth = Truth(X, y, lam, **extra)
    truth.check(solution, 1e-10)
    mean = truth.omega @ (y - dense_of(X) @ solution.coef)
    expected = mean if "fit_intercept" in extra else 0.0
    assert solution.intercept == pytest.approx(expected, abs=1e-12)
    value = literal.objective(truth.X, truth.y, lam, solution.coef, truth.omega)
    assert solution.objective == pytest.approx(value, rel=1e-12)
    if preconditioner != "none":  # a sketch that leaves κ̃ large would be a broken one
        half = solution.preconditioner.power(np.eye(X.shape[1]), -0.5)
        X_bar = correlation_factor(X, truth.omega, "fit_intercept" in extra)
        assert average_condition_number(X_bar, lam, half) <= 10 * max(SHAPES[shape])


@combinations
@every_kind
def test_float32_data_is_solved_to_its_own_accuracy(solver, preconditioner, kind):
    X, y = data(kind, "tall")
    X = X.astype(np.float32)
    lam = penalty(solver, preconditioner, X)
    solution = solve(
        X, y, lam, solver=solver, preconditioner=preconditioner, tol=1e-6, random_state=2
    )
    Truth(dense_of(X).astype(float), y, lam).check(solution, 1e-6)
    assert solution.coef.dtype == np.float64


@pytest.mark.parametrize("solver", SOLVERS)
@every_kind
def test_scikit_learn_agrees(solver, kind):
    """Its alpha is n·λ, or the sum of the weights times λ."""
    X, y = data(kind, "tall")
    lam = penalty(solver, "auto", X)
    weights = options("weighted", len(y))["sample_weight"]
    solution = solve(
        X, y, lam, solver, tol=1e-12, sample_weight=weights, fit_intercept=True, random_state=0
    )
    theirs = Ridge(alpha=weights.sum() * lam, tol=1e-12).fit(dense_of(X), y, weights)
    np.testing.assert_allclose(solution.coef, theirs.coef_, rtol=1e-4, atol=1e-5)
    assert solution.intercept == pytest.approx(theirs.intercept_, rel=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
@every_kind
@pytest.mark.parametrize("lam", [1e3, 1e8])
def test_a_large_penalty_is_no_harder(solver, kind, lam):
    X, y = data(kind, "tall")
    tol = 1e-5 / lam  # F(0) − F* is only 1/lam of F(0): this is what makes it a test
    solution = solve(X, y, lam, solver, tol=tol, random_state=0)
    Truth(X, y, lam).check(solution, tol)
    assert solution.explained_gap <= 1e-3


# -- several targets -----------------------------------------------------------------------


@combinations
@every_kind
@pytest.mark.parametrize("intercept", [False, True])
def test_several_targets_are_each_target_by_itself(solver, preconditioner, kind, intercept):
    X, y = data(kind, "tall")
    lam = penalty(solver, preconditioner, X)
    rng = np.random.default_rng(5)
    Y = np.column_stack([y, 1e3 * rng.standard_normal(len(y)), np.zeros(len(y))])
    settings = {
        "solver": solver,
        "preconditioner": preconditioner,
        "fit_intercept": intercept,
        "tol": 1e-10,
        "random_state": 3,
    }
    together = solve(X, Y, lam, **settings)
    assert together.coef.shape == (3, X.shape[1])
    for figures in (together.gap, together.relative_gap, together.converged, together.intercept):
        assert figures.shape == (3,)
    assert together.converged.all()
    for t in range(3):
        alone = solve(X, Y[:, t], lam, **settings)
        truth = Truth(X, Y[:, t], lam, fit_intercept=intercept)
        reach = np.sqrt(2 * (together.gap[t] + alone.gap) / lam) * 2 + 1e-12
        assert np.linalg.norm(together.coef[t] - alone.coef) <= reach
        assert truth.excess(together.coef[t]) <= together.gap[t] + 1e-20 * truth.null
    assert not together.coef[2].any() and together.gap[2] == 0


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_target_in_two_dimensions_stays_in_two(solver):
    X, y = data("dense", "tall")
    solution = solve(X, y[:, None], 0.1, solver, random_state=0)
    flat = solve(X, y, 0.1, solver, random_state=0)
    assert solution.coef.shape == (1, 25)
    assert solution.gap.shape == solution.intercept.shape == solution.converged.shape == (1,)
    assert flat.coef.shape == (25,) and isinstance(flat.gap, float) and flat.converged is True
    assert np.array_equal(solution.coef[0], flat.coef)


# -- SVRG --------------------------------------------------------------------------------------


@pytest.mark.parametrize("snapshot", ["average", "last"])
@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@every_kind
@every_shape
def test_svrg_converges_in_every_form(snapshot, regularization, kind, shape):
    X, y = data(kind, shape)
    lam = penalty("svrg", "lanczos", X)
    solver = SVRG(snapshot=snapshot, regularization=regularization)
    solution = solve(X, y, lam, solver, Lanczos(RANK), tol=1e-10, max_passes=3000, random_state=0)
    Truth(X, y, lam).check(solution, 1e-10)


@every_kind
def test_svrg_backs_off_from_a_step_that_is_too_bold_and_tells(kind, monkeypatch):
    monkeypatch.setitem(svrg.BOLD_STEPS, "average", 100.0)
    X, y = data(kind, "tall")
    lam = penalty("svrg", "lanczos", X)
    solution = solve(X, y, lam, "svrg", "lanczos", rank=RANK, tol=1e-8, random_state=0)
    Truth(X, y, lam).check(solution, 1e-8)
    events = [record.event for record in solution.history if record.event]
    assert "step 100 → 50" in events[0] and len(events) > 3
    assert any("step 100" in note for note in solution.plan.notes)
    assert "step 100 → 50" in solution.summary()


def test_svrg_backs_off_target_by_target(monkeypatch):
    """A target that diverges does not undo what another has gained."""
    monkeypatch.setitem(svrg.BOLD_STEPS, "average", 100.0)
    X, y = data("dense", "tall")
    Y = np.column_stack([y, np.random.default_rng(0).standard_normal(len(y))])
    solution = solve(X, Y, 0.01, "svrg", "lanczos", rank=RANK, tol=1e-8, random_state=0)
    assert solution.converged.all()


@every_kind
def test_svrg_with_a_fixed_step_too_large_diverges_to_a_finite_best_point(kind):
    X, y = data(kind, "tall")
    solution = solve(X, y, 1e-3, SVRG(step=1e3), "lanczos", rank=RANK, random_state=0)
    truth = Truth(X, y, 1e-3)
    assert solution.status is Status.DIVERGED and not solution.converged
    assert np.isfinite(solution.coef).all() and np.isfinite(solution.gap)
    assert solution.objective <= truth.null
    assert truth.excess(solution.coef) <= solution.gap
    assert "smaller step" in solution.status.value


def test_svrg_takes_an_epoch_length():
    X, y = data("dense", "tall")
    short = solve(X, y, 0.1, SVRG(epoch_length=30), tol=1e-8, random_state=0)
    passes = np.diff([record.passes for record in short.history])
    np.testing.assert_allclose(passes, 1 + 30 / 120)
    Truth(X, y, 0.1).check(short, 1e-8)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"step": 0.0}, "step=0.0"),
        ({"step": -1.0}, "step=-1.0"),
        ({"step": np.nan}, "step=nan"),
        ({"epoch_length": 0}, "epoch_length=0"),
        ({"snapshot": "first"}, "snapshot='first'"),
        ({"regularization": "none"}, "regularization='none'"),
    ],
)
def test_svrg_refuses_parameters_without_meaning(wrong, said):
    with pytest.raises(ValueError, match=said):
        SVRG(**wrong)


# -- the direct solver -------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1.0])
def test_primal_and_dual_cholesky_agree(kind, lam):
    X, y = data(kind, "wide")
    problem = make_problem(X, y, lam, fit_intercept=True)[0]
    primal, dual = direct.PrimalCholesky.of(problem), direct.DualCholesky.of(problem)
    # Else LAPACK copies them with every use.
    assert primal.factor.flags.f_contiguous and dual.factor.flags.f_contiguous
    by_columns, by_rows = primal.first().coef, dual.first().coef
    assert np.linalg.norm(by_columns - by_rows) <= 1e-13 / lam * np.linalg.norm(by_rows)
    G = np.random.default_rng(0).standard_normal((120, 2))
    np.testing.assert_allclose(primal.energy(G), dual.energy(G), rtol=1e-6)
    exact = primal.counter().degrees_of_freedom(problem.trace_bounds, 25)[0]
    assert dual.counter().degrees_of_freedom(problem.trace_bounds, 25)[0] == pytest.approx(
        exact, rel=1e-6
    )


@every_kind
@every_shape
def test_degrees_of_freedom_are_the_trace_of_the_hat_matrix(kind, shape):
    X, y = data(kind, shape)
    values = np.linalg.svd(dense_of(X), compute_uv=False) ** 2 / X.shape[0]
    expected = np.sum(values / (values + 1e-2))
    assert solve(X, y, 1e-2).degrees_of_freedom == pytest.approx(expected, rel=1e-10)
    low, high = solve(X, y, 1e-2, "cg", random_state=0).degrees_of_freedom_bounds
    assert low * (1 - 1e-9) <= expected <= high * (1 + 1e-9)


def precise_solution(X, y, lam):
    """The normal equations in 60 digits."""
    with mpmath.workdps(60):
        A, b, n = mpmath.matrix(X.tolist()), mpmath.matrix(y.tolist()), len(y)
        H = A.T * A / n + mpmath.mpf(lam) * mpmath.eye(X.shape[1])
        return np.array(mpmath.lu_solve(H, A.T * b / n).tolist(), dtype=float)[:, 0]


@pytest.mark.parametrize("shape", [(30, 8), (8, 12)])
def test_a_numerically_singular_matrix_is_solved_by_singular_values_and_said_so(shape):
    """Cholesky of the normal matrix would have nothing right here: it squares 1e-9."""
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, *shape, 10.0 ** -np.linspace(0, 9, 8))
    y, lam = rng.standard_normal(shape[0]), 1e-18
    solution = solve(X, y, lam, "direct")
    expected = precise_solution(X, y, lam)
    assert np.linalg.norm(solution.coef - expected) <= 1e-5 * np.linalg.norm(expected)
    assert any("numerically singular" in note for note in solution.plan.notes)
    assert any("numerically singular" in (record.event or "") for record in solution.history)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
def test_the_certificate_of_a_singular_matrix_covers_the_truth(shape):
    rng = np.random.default_rng(1)
    X = with_spectrum(rng, *shape, 10.0 ** -np.linspace(0, 8, 8))
    y, lam = rng.standard_normal(shape[0]), 1e-17
    solution = solve(X, y, lam, "direct")
    with mpmath.workdps(60):
        A, n = mpmath.matrix(X.tolist()), shape[0]
        H = A.T * A / n + mpmath.mpf(lam) * mpmath.eye(shape[1])
        b = A.T * mpmath.matrix(y.tolist()) / n
        error = mpmath.matrix(solution.coef.tolist()) - mpmath.lu_solve(H, b)
        excess = float((error.T * H * error)[0] / 2)
    assert 0 <= excess <= solution.gap


@every_kind
@every_shape
@pytest.mark.parametrize("intercept", [False, True])
def test_no_penalty_gives_the_minimum_norm_solution_and_says_so(kind, shape, intercept):
    X, y = data(kind, shape)
    X = X.copy()
    if kind == "dense":
        X[:, 3] = X[:, 4]  # many solutions
    solution = solve(X, y, 0.0, fit_intercept=intercept)
    A, b = (dense_of(X) - dense_of(X).mean(axis=0), y - y.mean()) if intercept else (dense_of(X), y)
    expected = np.linalg.lstsq(A, b, rcond=1e-12)[0]
    np.testing.assert_allclose(solution.coef, expected, rtol=1e-6, atol=1e-9)
    assert any("minimum-norm" in note for note in solution.plan.notes)
    assert solution.plan.solver == "direct"


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "direct"])
def test_iterative_solvers_refuse_no_penalty(solver):
    X, y = data("dense", "tall")
    with pytest.raises(ValueError, match=r"lam=0 .*solver='direct'"):
        solve(X, y, 0.0, solver)


def test_solver_objects_are_as_good_as_names():
    X, y = data("dense", "tall")
    for name, solver in [("direct", Direct()), ("cg", CG()), ("svrg", SVRG())]:
        by_name = solve(X, y, 0.1, name, random_state=0)
        assert np.array_equal(solve(X, y, 0.1, solver, random_state=0).coef, by_name.coef)


def test_the_registries_name_what_they_hold():
    for registry in (SOLVERS, PRECONDITIONERS):
        for name, entry in registry.items():
            assert entry.name == name and entry.summary
