"""The stochastic solvers where they could break: odd data, odd scales, odd forms.

The answers are checked against a dense least-squares solve.
"""

from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from scipy import sparse

from sketchridge import solve
from sketchridge.preconditioner import Exact, Lanczos, NoPreconditioner, Nystrom
from sketchridge.solution import Status
from sketchridge.solvers import ALLOWED, SOLVERS, AcceleratedSVRG
from sketchridge.solvers.components import Components
from sketchridge.solvers.dual import STARTS_FROM_ZERO
from sketchridge.solvers.svrg import svrg_moves
from tests import literal
from tests.exact import rationals, solve_exactly
from tests.problems import centred, dense_of, make, with_spectrum

FAMILY = {
    "svrg": SOLVERS["svrg"](),
    "conjugate": AcceleratedSVRG("conjugate"),
    "katyusha": AcceleratedSVRG("katyusha"),
    "catalyst": AcceleratedSVRG("catalyst"),
    "saga": SOLVERS["saga"](),
    "sag": SOLVERS["sag"](),
    "sdca": SOLVERS["sdca"](),
    "kaczmarz": SOLVERS["kaczmarz"](),
}
DUAL = ("sdca", "kaczmarz")
METHODS = [
    pytest.param(solver, name, id=f"{label}-{name}")
    for label, solver in FAMILY.items()
    for name in ("none", "lanczos")
    if name in ALLOWED[solver.name]
]
TOL = 1e-8
methods = pytest.mark.parametrize(("solver", "preconditioner"), METHODS)
forms = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])


def plain(n=40, d=12, seed=1):
    """Columns of decaying size and targets that are mostly explained, far from centred."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -0.5
    return X, X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) + 1.0


def objective(X, y, lam, coef, intercept, omega):
    return 0.5 * omega @ (X @ coef + intercept - y) ** 2 + 0.5 * lam * coef @ coef


def true_gap(X, y, lam, solution, fit_intercept=False, weights=None):
    """(F − F*) / F(0), F* by the singular values of [diag(ω)^½ X; √λ I]."""
    X = dense_of(X)
    n, d = X.shape
    omega = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    A, b = centred(X, y, omega * fit_intercept)
    root = np.sqrt(omega)
    stacked = np.vstack([root[:, None] * A, np.sqrt(lam) * np.eye(d)])
    best = np.linalg.lstsq(stacked, np.concatenate([root * b, np.zeros(d)]), rcond=None)[0]
    least = objective(A, b, lam, best, 0.0, omega)
    null = 0.5 * omega @ b**2
    reached = objective(X, y, lam, solution.coef, solution.intercept, omega)
    return (reached - least) / null if null > 0 else reached - least


def check(X, y, lam, solver, preconditioner, fit_intercept=False, weights=None, **more):
    """Solve, and hold the solution to the truth."""
    solution = solve(
        X,
        y,
        lam,
        solver=solver,
        preconditioner=preconditioner,
        fit_intercept=fit_intercept,
        sample_weight=weights,
        **{"tol": TOL, "max_passes": 500, "random_state": 0} | more,
    )
    gap = true_gap(X, y, lam, solution, fit_intercept, weights)
    assert solution.status is Status.CONVERGED
    assert gap <= solution.tol + 1e-13  # the last figures are those of F itself
    return solution


# -- data ------------------------------------------------------------------------------------


def zero_rows():
    X, y = plain()
    X[::3] = 0.0
    return X, y


def repeated_rows():
    X, y = plain(10)
    return np.repeat(X, 4, axis=0), np.repeat(y, 4)


def one_row_again_and_again():
    X, y = plain(20)
    return np.repeat(X[:1], 20, axis=0), y


def constant_column():
    X, y = plain()
    X[:, 3] = 1.0
    return X, y


def repeated_columns():
    X, y = plain(d=6)
    return np.hstack([X, X, X]), y


def rank_three():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 12))
    return 0.3 * X, rng.standard_normal(40)


ODD = {
    "zero rows": zero_rows,
    "repeated rows": repeated_rows,
    "one row again and again": one_row_again_and_again,
    "one row": lambda: plain(1),
    "two rows": lambda: plain(2),
    "one column": lambda: plain(d=1),
    "one number": lambda: plain(1, 1),
    "constant column": constant_column,
    "constant columns alone": lambda: (np.ones((20, 4)), plain(20)[1]),
    "repeated columns": repeated_columns,
    "rank three": rank_three,
    "identity": lambda: (np.eye(30), np.random.default_rng(3).standard_normal(30)),
    "nothing but zeros": lambda: (np.zeros((20, 4)), plain(20)[1]),
}


@methods
@pytest.mark.parametrize(
    ("form", "fit_intercept"),
    [(np.asarray, False), (sparse.csr_array, True)],
    ids=["dense", "csr-intercept"],
)
@pytest.mark.parametrize("odd", ODD)
def test_odd_data_is_solved(odd, fit_intercept, form, solver, preconditioner):
    X, y = ODD[odd]()
    check(form(X), y, 1e-2, solver, preconditioner, fit_intercept)


@methods
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_nothing_to_fit_is_solved_by_zero(fit_intercept, solver, preconditioner):
    X, _ = plain()
    y = np.full(40, 3.0 if fit_intercept else 0.0)
    solution = check(X, y, 1e-2, solver, preconditioner, fit_intercept)
    assert not solution.coef.any() and solution.gap == 0


@pytest.mark.parametrize("spec", [Lanczos, Nystrom, Exact])
@pytest.mark.parametrize("rank", [1, 12])
@pytest.mark.parametrize("solver", [s for s in FAMILY.values() if s.name != "kaczmarz"], ids=repr)
def test_a_sketch_of_one_direction_or_of_all_serves(solver, rank, spec):
    for X, y in (plain(), rank_three()):  # of rank three, all means three
        check(X, y, 1e-2, solver, spec(rank=rank), True)


# -- scales ----------------------------------------------------------------------------------


@methods
@forms
@pytest.mark.parametrize("scale", [2.0**20, 2.0**-20])
def test_a_change_of_units_changes_nothing_else(scale, form, solver, preconditioner):
    X, y = plain()
    one = check(form(X), y, 1e-2, solver, preconditioner, True)
    other = check(form(scale * X), y, 1e-2 * scale**2, solver, preconditioner, True)
    assert other.passes == one.passes
    assert np.allclose(scale * other.coef, one.coef, rtol=1e-9, atol=0)


@methods
@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_targets_of_any_size_are_fitted(scale, solver, preconditioner):
    X, y = plain()
    check(X, scale * y, 1e-2, solver, preconditioner, True)


@methods
def test_targets_and_columns_far_from_zero_are_fitted(solver, preconditioner):
    X, y = plain()
    check(X + 1e3, y + 1e6, 1e-2, solver, preconditioner, True)


@methods
@forms
@pytest.mark.parametrize("factor", [1e2, 1e8])
def test_a_large_penalty_is_no_harder(factor, form, solver, preconditioner):
    """λ far above ‖C‖: steps that shrink to nothing, and little to explain."""
    X, y = plain()
    lam = factor * np.mean(np.sum(X**2, axis=1))
    assert check(form(X), y, lam, solver, preconditioner, True, max_passes=100).passes < 100


@methods
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_hardly_any_penalty_is_hard_for_dual_methods_alone(fit_intercept, solver, preconditioner):
    X, y = plain()
    if solver.name not in DUAL:
        check(X, y, 1e-12, solver, preconditioner, fit_intercept)
        return
    solution = solve(
        X,
        y,
        1e-12,
        solver=solver,
        preconditioner=preconditioner,
        fit_intercept=fit_intercept,
        max_passes=100,
        random_state=0,
    )
    gap = true_gap(X, y, 1e-12, solution, fit_intercept)
    assert not solution.converged and gap <= solution.relative_gap < 1


@methods
def test_one_enormous_row_leaves_the_certificate_honest(solver, preconditioner):
    X, y = plain()
    X[0] *= 1e6
    solution = solve(
        X, y, 0.1, solver=solver, preconditioner=preconditioner, max_passes=100, random_state=0
    )
    assert true_gap(X, y, 0.1, solution) <= solution.relative_gap
    if preconditioner == "lanczos":  # rounding keeps the certificate from tol, and that is seen
        assert solution.relative_gap < 1e-5 and solution.passes < 100


# -- forms -----------------------------------------------------------------------------------


def long_indices(X):
    matrix = sparse.csr_array(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def read_only(X):
    matrix = X.copy()
    parts = (matrix.data, matrix.indices, matrix.indptr) if sparse.issparse(X) else (matrix,)
    for part in parts:
        part.flags.writeable = False
    return matrix


FORMS = {
    "fortran": (np.asfortranarray, np.asarray),
    "read-only": (read_only, np.asarray),
    "long indices": (long_indices, sparse.csr_array),
    "read-only csr": (lambda X: read_only(sparse.csr_array(X)), sparse.csr_array),
    "not contiguous": (lambda X: np.repeat(X, 2, axis=0)[::2], np.asarray),
}


@methods
@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_data_does_not_matter(form, solver, preconditioner):
    X, y = plain()
    given, usual = FORMS[form]
    one = check(given(X), y, 1e-2, solver, preconditioner, True)
    other = check(usual(X), y, 1e-2, solver, preconditioner, True)
    assert np.allclose(one.coef, other.coef, rtol=1e-9, atol=0)
    copied = "copied" in "".join(one.plan.notes)
    assert copied == (form in ("fortran", "not contiguous"))


@methods
@forms
def test_single_precision_data_is_solved_in_double(form, solver, preconditioner):
    X, y = plain()
    check(form(X.astype(np.float32)), y, 1e-2, solver, preconditioner, True)


# -- weights, targets, starts, seeds ----------------------------------------------------------


@methods
@forms
def test_weights_are_repetitions(form, solver, preconditioner):
    X, y = plain()
    counts = np.arange(40) % 4
    weighted = check(form(X), y, 1e-2, solver, preconditioner, True, counts.astype(float))
    repeated = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    assert true_gap(*repeated, 1e-2, weighted, True) <= TOL


@methods
@pytest.mark.parametrize("rest", [0.0, 1e-12])
def test_one_row_may_carry_all_the_weight(rest, solver, preconditioner):
    X, y = plain()
    weights = np.full(40, rest)
    weights[7] = 2.0
    check(X, y, 1e-2, solver, preconditioner, False, weights)


@methods
@forms
def test_several_targets_are_each_target_by_itself(form, solver, preconditioner):
    X, y = plain()
    Y = np.stack([y, 100 * np.sin(np.arange(40.0)), np.zeros(40)], axis=1)
    spec = Lanczos(4) if preconditioner == "lanczos" else NoPreconditioner()

    def epochs(targets):
        problem = make(form(X), targets, 1e-2, fit_intercept=True)
        built = spec.build(problem, np.random.default_rng(1))
        start = np.zeros((12, targets.shape[1]))
        iterates = solver.iterates(problem, built, start, np.random.default_rng(2))
        return np.array([iterate.coef for iterate in islice(iterates, 8)])

    together = epochs(Y)
    for target in range(3):
        alone = epochs(Y[:, target : target + 1])
        assert np.allclose(together[:, :, target : target + 1], alone, rtol=1e-9, atol=1e-12)


@methods
@forms
def test_the_same_seed_gives_the_same_answer_to_the_bit(form, solver, preconditioner):
    X, y = plain()
    one, again, other = (
        check(form(X), y, 1e-2, solver, preconditioner, random_state=seed) for seed in (5, 5, 6)
    )
    assert np.array_equal(one.coef, again.coef) and one.passes == again.passes
    assert not np.array_equal(one.coef, other.coef)


@methods
def test_a_start_at_the_solution_is_recognised(solver, preconditioner):
    X, y = plain()
    known = solve(X, y, 1e-2, solver="direct", tol=1e-12)
    warm = check(X, y, 1e-2, solver, preconditioner, coef_init=known.coef)
    cold = check(X, y, 1e-2, solver, preconditioner)
    assert warm.passes < 10 < cold.passes
    assert np.array_equal(warm.coef, known.coef)


@methods
def test_a_start_elsewhere_is_left_behind(solver, preconditioner):
    X, y = plain()
    start = np.random.default_rng(4).standard_normal(12)
    solution = check(X, y, 1e-2, solver, preconditioner, coef_init=start)
    assert (STARTS_FROM_ZERO in solution.plan.notes) == (solver.name in DUAL)


# -- Catalyst ---------------------------------------------------------------------------------


def proximal_epoch(X, y, lam, P_inv_sqrt, kappa, w_bar, order, eta):
    """SVRG on F(w) + κ/2 ‖w − w̄‖²_P from w̄, written out: the average of the iterates."""
    finite_sum = literal.exact_sum(X, y, lam, P_inv_sqrt)
    start = np.linalg.solve(P_inv_sqrt, w_bar)
    v_bar, q = finite_sum.mean_gradient(start), finite_sum.probabilities()
    w, iterates = start, []
    for i in order:
        slope = finite_sum.stochastic_gradient(i, w, start, v_bar, q[i]) + kappa * (w - start)
        w = w - eta * slope
        iterates.append(w)
    return P_inv_sqrt @ np.mean(iterates, axis=0)


@forms
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("spec", [NoPreconditioner(), Lanczos(rank=3), Exact(rank=3)], ids=repr)
@pytest.mark.parametrize("kappa", [0.01, 1.0, 30.0])
def test_catalysts_inner_epoch_is_svrg_on_the_proximal_objective(kappa, spec, fit_intercept, form):
    rng = np.random.default_rng(0)
    X, y = with_spectrum(rng, 30, 8, np.arange(1, 9.0) ** -1.5), rng.standard_normal(30) + 1
    problem = make(form(X), y, 1e-2, fit_intercept=fit_intercept)
    built = spec.build(problem, rng)
    components = Components.of(problem, built)
    order, start = components.draw(rng, 70), rng.standard_normal((8, 1))
    eta = 0.7 / (components.smoothness + kappa)
    gradient = problem.evaluate(start).gradient
    moves = svrg_moves(
        problem, components, gradient, order, np.array([eta]), "average", proximity=kappa
    )
    data = centred(X, y, problem.weights * fit_intercept)
    end = proximal_epoch(*data, 1e-2, built.power(np.eye(8), -0.5), kappa, start[:, 0], order, eta)
    assert np.allclose((start + moves)[:, 0], end, rtol=0, atol=1e-10 * np.linalg.norm(end))


def test_catalyst_without_room_for_a_proximity_is_svrg_at_rest():
    """Where κ̃ < n there is nothing to accelerate: κ = 0, no momentum, SVRG's own epochs."""
    X, y = plain()
    catalyst, svrg = (
        check(X, y, 1.0, solver, "none") for solver in (FAMILY["catalyst"], FAMILY["svrg"])
    )
    assert np.array_equal(catalyst.coef, svrg.coef) and catalyst.passes == svrg.passes


def two_targets(seed):
    """Targets of different blocks of columns, of which one is solved long before the other."""
    rng = np.random.default_rng(seed)
    X = np.zeros((40, 14))
    X[:10, :2] = rng.standard_normal((10, 2))
    X[10:, 2:] = rng.standard_normal((30, 12)) * np.logspace(0, -2, 12)
    Y = np.zeros((40, 2))
    Y[:10, 0], Y[10:, 1] = rng.standard_normal(10), rng.standard_normal(30)
    return X, Y


def true_gaps(X, Y, lam, coef):
    """F(w) − F* = ½ gᵀH⁻¹g of every target, in exact arithmetic and rounded once, (t,)."""
    X, Y, W = rationals(X), rationals(Y), rationals(coef.T)
    H = X.T @ X / len(X) + Fraction(lam) * rationals(np.eye(X.shape[1]))
    G = X.T @ (X @ W - Y) / len(X) + Fraction(lam) * W
    return np.array([float(gap) / 2 for gap in np.sum(G * solve_exactly(H, G), axis=0)])


@pytest.mark.parametrize("stop", [None, 40])
@pytest.mark.parametrize("seed", [90, 348, *range(8)])
def test_a_solved_target_is_left_alone_while_another_is_not(seed, stop):
    """Its directions would be noise, and its running gradient that of another point."""
    X, Y = two_targets(seed)
    records = []

    def callback(record):
        records.append(record)
        return len(records) == stop

    method = AcceleratedSVRG(epoch_length=4 if stop is None else None)
    solution = solve(
        X, Y, 1e-6, method, "none", max_passes=3000, random_state=seed, callback=callback
    )
    assert solution.status is (Status.CONVERGED if stop is None else solution.status)
    gaps = true_gaps(X, Y, 1e-6, solution.coef)
    assert np.all(gaps <= solution.gap)
    objectives = np.array([record.objective for record in records])
    assert np.all(np.diff(objectives) <= 1e-10 * objectives[0])
