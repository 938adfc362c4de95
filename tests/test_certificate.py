"""The certificate against the truth, which is computed in rational arithmetic."""

import collections
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from sketchridge import Exact, Lanczos, Nystrom, solve
from sketchridge.certificate import RidgeCurvature, certified_gap
from sketchridge.sketch import block_lanczos, random_range
from sketchridge.solvers.direct import SINGULAR, DualCholesky, PrimalCholesky, SingularValues
from sketchridge.threads import single_threaded_blas
from tests.exact import ExactRidge, degrees_of_freedom
from tests.problems import correlation_factor, decaying, dense_of, make, with_spectrum


@pytest.fixture(autouse=True)
def one_thread():
    """On problems this small the threads of BLAS only wait for one another."""
    with single_threaded_blas():
        yield


# Random problems ------------------------------------------------------------------------------


def normal(rng, rows=(1, 6), columns=(1, 6)):
    return rng.standard_normal(
        (rng.integers(*rows, endpoint=True), rng.integers(*columns, endpoint=True))
    )


def duplicate_columns(rng):
    X = normal(rng, columns=(2, 6))
    X[:, -1] = X[:, 0]
    return X


def low_rank(rng):
    X = normal(rng)
    rank = rng.integers(1, min(X.shape), endpoint=True)
    return X[:, :rank] @ rng.standard_normal((rank, X.shape[1]))


def zero_columns(rng):
    X = normal(rng)
    X[:, rng.random(X.shape[1]) < 0.5] = 0.0
    return X


def steep(rng):
    X = normal(rng)
    return X * 10.0 ** rng.uniform(-6, 0, X.shape[1])


def outlying_row(rng):
    X = normal(rng)
    X[0] *= 10.0 ** rng.uniform(0, 6)
    return X


def sparse_matrix(rng):
    X = normal(rng)
    return sparse.csr_array(X * (rng.random(X.shape) < 0.4))


FAMILIES = {
    "dense": normal,
    "sparse": sparse_matrix,
    "wide": lambda rng: normal(rng, rows=(1, 3), columns=(4, 6)),
    "tall": lambda rng: normal(rng, rows=(4, 8), columns=(1, 3)),
    "steep": steep,
    "outlying row": outlying_row,
    "duplicate columns": duplicate_columns,
    "low rank": low_rank,
    "zero columns": zero_columns,
    "small": lambda rng: 1e-6 * normal(rng),
    "large": lambda rng: 1e6 * normal(rng),
    "far from zero": lambda rng: normal(rng) + 10.0 ** rng.uniform(0, 8),
}
PROBLEMS = 180  # of each family


@dataclass
class Case:
    """A random problem; the exact one is made from the very same numbers."""

    X: object
    Y: np.ndarray
    lam: float
    sample_weight: np.ndarray | None
    fit_intercept: bool

    @classmethod
    def draw(cls, family, rng, narrow=0.3):
        X = FAMILIES[family](rng)
        n, d = X.shape
        if family not in ("small", "large") and rng.random() < 0.3:
            X = 10.0 ** rng.choice([-6, 6]) * X
        if family != "sparse" and rng.random() < 0.2:
            X = sparse.csr_array(X)
        if rng.random() < narrow:
            X = X.astype(np.float32)
        Y = rng.standard_normal((n, rng.choice([1, 1, 2])))
        if rng.random() < 0.3:  # a target that can be fitted, so that nothing is left but rounding
            Y = dense_of(X) @ rng.standard_normal((d, Y.shape[1]))
        if rng.random() < 0.2:
            Y = Y + 10.0 ** rng.uniform(0, 6)
        weights = 10.0 ** rng.uniform(-4, 4, n) if rng.random() < 0.3 else None
        if weights is not None and n > 1 and rng.random() < 0.3:
            weights[0] = 0.0
        intercept = bool(rng.integers(2))
        omega = np.full(n, 1 / n) if weights is None else weights / weights.sum()
        norm = np.linalg.norm(correlation_factor(X, omega, intercept), 2) ** 2
        lam = float((norm or 1.0) * 10.0 ** rng.uniform(-10, 1))
        return cls(X, Y, lam, weights, intercept)

    def problem(self):
        return make(self.X, self.Y, self.lam, self.sample_weight, self.fit_intercept)

    def exact(self):
        return ExactRidge(self.X, self.Y, self.lam, self.sample_weight, self.fit_intercept)

    def solve(self, **options):
        given = {"sample_weight": self.sample_weight, "fit_intercept": self.fit_intercept}
        return solve(self.X, self.Y, self.lam, **given, **options)

    def key(self):
        return dense_of(self.X).tobytes() + self.Y.tobytes() + np.float64(self.lam).tobytes()


@dataclass
class Audit:
    """What was certified, against the truth."""

    checks: collections.Counter = field(default_factory=collections.Counter)
    problems: set = field(default_factory=set)
    below: list = field(default_factory=list)

    def check(self, case, form, point, certified, truth):
        self.problems.add(case.key())
        for bound, gap in zip(np.atleast_1d(certified).tolist(), truth, strict=True):
            self.checks[form] += 1
            if not gap <= bound:  # exact: a Fraction and a float; and not if the bound is no number
                ratio = float(Fraction(bound) / gap) if np.isfinite(bound) else bound
                self.below.append((ratio, form, point, float(gap), case))

    def verdict(self):
        worst = min(self.below, key=lambda entry: entry[0], default=None)
        total = self.checks.total()
        assert not self.below, f"{len(self.below)} of {total} below the truth; worst: {worst}"


def random_rank(case, rng):
    return int(rng.integers(1, min(case.X.shape), endpoint=True))


def curvatures(case, problem, rng):
    """Every form of certificate that the problem allows."""
    n, d = case.X.shape
    specs = {f"lanczos {q}": Lanczos(random_rank(case, rng), blocks=q) for q in (1, 2, 3)}
    specs["nystrom"] = Nystrom(random_rank(case, rng))
    specs["exact"] = Exact(random_rank(case, rng))
    forms = {name: spec.build(problem, rng).curvature() for name, spec in specs.items()}
    forms["ridge"] = RidgeCurvature(case.lam)
    forms["singular values"] = SingularValues.of(problem)
    if case.lam > SINGULAR * min(n, d) * problem.raw_trace:
        factor = PrimalCholesky if d <= n else DualCholesky
        forms[factor.__name__] = factor.of(problem)
    return forms


def points(exact, rng):
    """Points (d, t) far from the solution, near it, and as near as floats come to it."""
    solution = exact.coef.astype(float)
    size = np.abs(solution).max() or 1.0
    noise = rng.standard_normal(solution.shape)
    yield "far", size * noise
    yield "near", solution + size * 10.0 ** rng.uniform(-12, -4) * noise
    yield "at", solution


# 1. Never below the truth ---------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_certified_gap_is_never_below_the_true_gap(family):
    rng = np.random.default_rng(list(FAMILIES).index(family))
    audit = Audit()
    for _ in range(PROBLEMS):
        case = Case.draw(family, rng)
        problem, exact = case.problem(), case.exact()
        forms = curvatures(case, problem, rng)
        for point, W in points(exact, rng):
            evaluation = problem.evaluate(W)
            truth = exact.gap(W, problem.intercept(W))
            for form, curvature in forms.items():
                certified = certified_gap(problem, curvature, evaluation)
                audit.check(case, form, point, certified, truth)
    assert len(audit.problems) == PROBLEMS >= 2000 / len(FAMILIES)
    assert min(audit.checks[f] for f in ("ridge", "lanczos 3", "nystrom", "exact")) >= 3 * PROBLEMS
    audit.verdict()


METHODS = {
    "direct": (150, {"solver": "direct"}),
    "cg with lanczos": (150, {"solver": "cg", "preconditioner": "lanczos"}),
    "cg with nystrom": (150, {"solver": "cg", "preconditioner": "nystrom"}),
    "cg alone": (150, {"solver": "cg", "preconditioner": "none"}),
    "svrg with lanczos": (60, {"solver": "svrg", "preconditioner": "lanczos"}),
}


@pytest.mark.parametrize("method", METHODS)
def test_the_gap_of_a_solution_is_never_below_the_true_gap(method):
    rng = np.random.default_rng(list(METHODS).index(method))
    count, options = METHODS[method]
    audit = Audit()
    for seed in range(count):
        # Stochastic kernels are compiled for every type of X: one is enough here.
        case = Case.draw(rng.choice(list(FAMILIES)), rng, narrow=0 if "svrg" in method else 0.3)
        if "with" in method:
            options = options | {"rank": random_rank(case, rng)}
        solution = case.solve(
            **options, tol=10.0 ** rng.uniform(-15, -1), max_passes=50, random_state=seed
        )
        truth = case.exact().gap(solution.coef.T, solution.intercept)
        audit.check(case, method, solution.status.name, solution.gap, truth)
    assert len(audit.problems) == count
    audit.verdict()


@pytest.mark.parametrize("solver", ["direct", "cg"])
def test_the_rounding_of_the_intercept_is_certified_where_lam_dwarfs_the_data(solver):
    rng = np.random.default_rng(0)
    audit = Audit()
    for seed in range(40):
        X, Y = rng.standard_normal((5, 2)), 1e3 * rng.standard_normal((5, 1))
        case = Case(X, Y, 10.0 ** rng.uniform(4, 8), None, True)
        solution = case.solve(solver=solver, tol=1e-15, random_state=seed)
        truth = case.exact().gap(solution.coef.T, solution.intercept)
        audit.check(case, solver, "at", solution.gap, truth)
    audit.verdict()


def test_the_rounding_of_a_long_sum_of_equal_terms_is_certified():
    """Summed one by one, equal terms round alike, and the errors add up in proportion to n."""
    n, x, y, lam = 100_000, 1 / 3, 0.7, 0.568035793718842
    solution = solve(sparse.csr_array(np.full((n, 1), x)), np.full(n, y), lam, solver="direct")
    one_row = ExactRidge(np.array([[x]]), np.array([[y]]), lam)
    gap = one_row.gap(solution.coef[:, None], [0.0])[0]
    assert solution.gap >= gap, f"{float(solution.gap / gap):.2g} of the truth"


@pytest.mark.parametrize("storage", [sparse.csr_array, np.asfortranarray, np.ascontiguousarray])
def test_the_rounding_of_a_long_row_of_equal_terms_is_certified(storage):
    """The sum over columns runs on where the sum over rows is split."""
    d = 100_000
    for x, y in ((1 / 3, 0.7), (0.1, 0.3), (np.pi, 1.1)):
        X = np.full((2, d), x)
        solution = solve(storage(X), np.full(2, y), 0.5 * d * x**2, solver="direct")
        # w is the same in every column: the problem is that of one column of norm x√d.
        w = Fraction(float(solution.coef[0]))
        assert np.all(solution.coef == solution.coef[0])
        lam, entry, target = Fraction(0.5 * d * x**2), Fraction(x), Fraction(y)
        best = d * entry * target / (d * d * entry**2 + d * lam)
        truth = (d * d * entry**2 + d * lam) * (w - best) ** 2 / 2
        assert solution.gap >= truth, f"{float(solution.gap / truth):.2g} of the truth"


def test_a_sketch_of_data_that_centring_makes_zero_still_certifies():
    X, y = np.ones((2, 5)), np.array([1.0, 2.0])
    for spec in (Exact(rank=1), Lanczos(rank=1), Nystrom(rank=1)):
        solution = solve(
            X, y, 0.1, solver="cg", preconditioner=spec, fit_intercept=True, random_state=0
        )
        assert solution.converged and np.all(solution.coef == 0)


# 2. Not far above it --------------------------------------------------------------------------


def true_gap_of(X, y, lam):
    """F(w) − F* by the singular value decomposition: fit for gaps far above rounding."""
    X = dense_of(X)
    left, values, right = np.linalg.svd(X, full_matrices=False)
    best = right.T @ (values / (values**2 + len(y) * lam) * (left.T @ y))
    return lambda w: 0.5 * np.mean((X @ (w - best)) ** 2) + 0.5 * lam * np.sum((w - best) ** 2)


def decaying_problem(kind, rng):
    """Singular values 1/q² or nearly so; λ is that of about the 30th direction."""
    n, d = 400, 150
    if kind == "dense":
        X = decaying(rng, n, d, 2.0)
    else:
        X = sparse.random_array((n, d), density=0.1, rng=rng, format="csr")
        X = sparse.csr_array(X @ sparse.diags_array(np.arange(1, d + 1.0) ** -2))
    norm = np.linalg.norm(dense_of(X), 2) ** 2 / n
    return X, dense_of(X) @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n), 1e-6 * norm


@pytest.mark.parametrize("spec", [Lanczos(rank=20), Nystrom(rank=60)], ids=lambda spec: spec.name)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_median_certificate_is_at_most_three_times_the_truth(kind, spec):
    ratios = []
    for seed in range(6):
        X, y, lam = decaying_problem(kind, np.random.default_rng(seed))
        true_gap = true_gap_of(X, y, lam)
        for tol in 10.0 ** np.arange(-8.0, 0.0):
            options = {"solver": "cg", "preconditioner": spec, "random_state": seed}
            solution = solve(X, y, lam, tol=tol, **options)
            if solution.relative_gap > 1e-11:
                ratios.append(solution.gap / true_gap(solution.coef))
    median = np.median(ratios)
    assert len(ratios) >= 20
    assert min(ratios) >= 1 and median <= 3, f"median {median:.3g}, least {min(ratios):.3g}"


def test_where_a_budget_ends_a_sketch_is_made_to_tighten_the_certificate():
    gains, ratios = [], []
    for seed in range(5):
        X, y, lam = decaying_problem("dense", np.random.default_rng(seed))
        budget = {"max_passes": 8, "tol": 1e-12, "random_state": 0}
        solution = solve(X, y, lam, solver="cg", preconditioner="none", **budget)
        gradient = make(X, y, lam).evaluate(solution.coef[:, None]).gradient
        gains.append(np.sum(gradient**2) / (2 * lam) / solution.gap)
        ratios.append(solution.gap / true_gap_of(X, y, lam)(solution.coef))
    message = f"median gain {np.median(gains):.3g}, median ratio {np.median(ratios):.3g}"
    assert np.median(gains) >= 10 and np.median(ratios) <= 3 and min(ratios) >= 1, message


# 3. What lies below C -------------------------------------------------------------------------


def smallest_difference(C, basis, values):
    """The smallest eigenvalue of C − B diag(values) Bᵀ, relative to C's largest."""
    difference = C - (basis * values) @ basis.T
    return np.linalg.eigvalsh(difference)[0] / np.linalg.norm(C, 2)


def sketch(problem, name, rng, rank=12):
    if name == "nystrom":
        return random_range(problem, rank, rng)
    return block_lanczos(problem, rank // 2, int(name.removeprefix("lanczos ")), rng)


SKETCHES = ["lanczos 1", "lanczos 2", "lanczos 3", "nystrom"]


@pytest.mark.parametrize("name", SKETCHES)
def test_ritz_pairs_exceed_C_and_the_nystrom_bound_does_not(name):
    rng = np.random.default_rng(1)
    X = decaying(rng, 80, 60, 1.0)
    krylov = sketch(make(X, np.ones(80), 1e-3), name, rng)
    lower, C = krylov.nystrom(), X.T @ X / 80
    if name != "nystrom":
        assert smallest_difference(C, *krylov.ritz(krylov.expanded)) < -1e-3
    assert smallest_difference(C, lower.frame @ lower.rotation, lower.values) > -1e-13


@pytest.mark.parametrize("shape", [(300, 80), (300, 400), (60, 90)])
@pytest.mark.parametrize("name", SKETCHES)
def test_the_nystrom_bound_of_a_steep_spectrum_does_not_exceed_C(name, shape):
    worst = 0.0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = decaying(rng, *shape, 4.0)
        lower = sketch(make(X, np.ones(len(X)), 1e-3), name, rng, rank=50).nystrom()
        C = X.T @ X / len(X)
        worst = min(worst, smallest_difference(C, lower.frame @ lower.rotation, lower.values))
    assert worst > -1e-13


def test_the_nystrom_bound_does_not_exceed_C_on_any_scale():
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 3, 3, np.array([1.0, 1e-7, 1e-7]))
    worst = 0.0
    for scale in 1.02 ** np.arange(1000):
        krylov = block_lanczos(make(scale * X, np.ones(3), 1.0), 1, 2, np.random.default_rng(0))
        lower, C = krylov.nystrom(), scale**2 * X.T @ X / 3
        worst = min(worst, smallest_difference(C, lower.frame @ lower.rotation, lower.values))
    assert worst > -1e-13


# 4. What is certified is what is returned -----------------------------------------------------


@pytest.mark.parametrize("options", [{"tol": 1e-3}, {"tol": 1e-12, "max_passes": 6}])
@pytest.mark.parametrize("solver", ["cg", "svrg"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_certificate_is_of_the_coefficients_and_intercept_returned(kind, solver, options):
    """With a sketch of all directions it is nearly an equality: no other point would fit it."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((30, 6)) * np.arange(1, 7.0) ** -2 + 3.0
    X = sparse.csr_array(X * (rng.random(X.shape) < 0.6)) if kind == "sparse" else X
    Y = rng.standard_normal((30, 2)) + 5.0
    case = Case(X, Y, 1e-3, rng.uniform(0.0, 2.0, 30), True)
    spec = Lanczos(rank=2, blocks=3) if solver == "svrg" else Nystrom(rank=6)
    solution = case.solve(solver=solver, preconditioner=spec, random_state=0, **options)
    exact = case.exact()
    truth = exact.gap(solution.coef.T, solution.intercept)
    objective = exact.objective(solution.coef.T, solution.intercept)
    assert np.allclose(solution.objective, objective.astype(float), rtol=1e-13)
    assert np.all(solution.gap >= truth)
    assert np.allclose(solution.gap, truth.astype(float), rtol=1e-2)


# 5. Nothing to fit ----------------------------------------------------------------------------

EVERY_METHOD = [options for _, options in METHODS.values()]


@pytest.mark.parametrize("options", EVERY_METHOD, ids=METHODS)
@pytest.mark.parametrize(("value", "intercept"), [(0.0, False), (0.0, True), (0.1, True)])
def test_where_nothing_is_to_be_fitted_the_gap_is_zero(options, value, intercept):
    X = np.random.default_rng(0).standard_normal((7, 3))
    solution = solve(X, np.full(7, value), 0.1, fit_intercept=intercept, **options)
    assert np.all(solution.coef == 0) and solution.converged
    assert solution.gap == 0 and solution.relative_gap == 0


@pytest.mark.parametrize("value", [0.1, 1e10 / 3])
def test_a_constant_target_is_fitted_exactly(value):
    """For its certified gap is zero, and an intercept that is off by one bit has a gap."""
    rng = np.random.default_rng(0)
    for n in range(1, 30):
        X, y, weights = rng.standard_normal((n, 2)), np.full(n, value), rng.uniform(0.5, 2.0, n)
        for sample_weight in (None, weights):
            solution = solve(X, y, 0.1, fit_intercept=True, sample_weight=sample_weight)
            assert solution.intercept == value


def test_a_target_that_varies_by_rounding_has_no_certificate_of_zero():
    X, y = np.array([[0.0], [1.0]]), np.array([1.0, 1.0 + 4 * np.finfo(float).eps])
    solution = solve(X, y, 1e-3, fit_intercept=True)
    truth = ExactRidge(X, y[:, None], 1e-3, fit_intercept=True)
    assert solution.gap >= truth.gap(solution.coef[:, None], [solution.intercept])[0]


# 6. Degrees of freedom ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
@pytest.mark.parametrize("lam", [1e-8, 1e-3, 1.0])
def test_the_degrees_of_freedom_of_a_direct_solve_are_exact(shape, lam):
    rng = np.random.default_rng(0)
    values = np.arange(1, 13.0) ** -1.0
    solution = solve(with_spectrum(rng, *shape, values), rng.standard_normal(shape[0]), lam)
    expected = np.sum(values**2 / (values**2 + lam))
    assert np.allclose(solution.degrees_of_freedom_bounds, expected, rtol=1e-6)
    assert np.isclose(solution.degrees_of_freedom, expected, rtol=1e-6)


@pytest.mark.parametrize("spec", [Lanczos(3), Lanczos(3, blocks=1), Nystrom(8), Exact(5), "none"])
@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test_the_bounds_of_a_sketch_contain_the_degrees_of_freedom(spec, shape):
    rng = np.random.default_rng(0)
    values = np.arange(1, 21.0) ** -1.5
    X, y = with_spectrum(rng, *shape, values), rng.standard_normal(shape[0])
    for lam in 10.0 ** np.arange(-6.0, 2.0):
        solution = solve(X, y, lam, solver="cg", preconditioner=spec, random_state=0)
        low, high = solution.degrees_of_freedom_bounds
        expected = np.sum(values**2 / (values**2 + lam))
        assert low <= expected * (1 + 1e-9) and expected <= high * (1 + 1e-9)
        assert low <= solution.degrees_of_freedom <= high


@pytest.mark.parametrize("lam", [0.1, 2.0])
@pytest.mark.parametrize("spec", [Lanczos(2), Nystrom(2), Exact(2), "none"])
def test_the_bounds_hold_for_columns_far_from_zero(spec, lam):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, 3)) + 1e8 / 3, rng.standard_normal(8)
    options = {"solver": "cg", "preconditioner": spec, "random_state": 0}
    solution = solve(X, y, lam, tol=0.1, fit_intercept=True, **options)
    low, high = solution.degrees_of_freedom_bounds
    assert low - 1e-6 <= degrees_of_freedom(X, lam, fit_intercept=True) <= high + 1e-6
