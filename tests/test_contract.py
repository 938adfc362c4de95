"""What every solver owes its user, with everything that preconditions it; from the registries.

Every pair of the table ALLOWED, on dense and sparse, tall and wide data, with and without an
intercept, finds the minimum: not by its own certificate, but by a dense least-squares solve.
A new solver or preconditioner is held to this as soon as it is registered.
"""

from dataclasses import fields
from functools import cache
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from scipy import sparse

from sketchridge import Status, solve
from sketchridge.preconditioner import PRECONDITIONERS
from sketchridge.solvers import ALLOWED, SOLVERS

TOL = 1e-8
RANK = 4  # of 12 columns or more: no sketch is the whole matrix
SHAPES = {"tall": (60, 12), "wide": (16, 40)}
# Passes; the condition number is about 100. Gradient descent is allowed to be slow.
BUDGET = {"gd": 1000}
USUAL_BUDGET = 200
APPROXIMATE = ("sketch_and_solve",)

PAIRS = [(solver, name) for solver, names in ALLOWED.items() for name in names]


@cache
def data(shape):
    """Columns of decaying size, a third of the entries zero, and targets far from centred."""
    n, d = SHAPES[shape]
    rng = np.random.default_rng(7)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -0.5
    X[rng.random((n, d)) < 1 / 3] = 0.0
    y = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) + 2.0
    return X, y, 1e-2 * float(np.sum(X**2)) / n


def objective(X, y, lam, coef, intercept):
    return 0.5 * np.mean((X @ coef + intercept - y) ** 2) + 0.5 * lam * coef @ coef


def minimum(X, y, lam, fit_intercept):
    """The least value of F, by the singular values of [X; √(nλ) I], and F(0)."""
    n, d = X.shape
    mean, offset = (X.mean(axis=0), y.mean()) if fit_intercept else (np.zeros(d), 0.0)
    stacked = np.vstack([X - mean, np.sqrt(n * lam) * np.eye(d)])
    coef = np.linalg.lstsq(stacked, np.concatenate([y - offset, np.zeros(d)]), rcond=None)[0]
    least = objective(X, y, lam, coef, offset - mean @ coef)
    return least, 0.5 * np.mean((y - offset) ** 2)


def recipe(name):
    kind = PRECONDITIONERS[name]
    return kind(rank=RANK) if "rank" in {field.name for field in fields(kind)} else kind()


def solved(solver, preconditioner, form, shape, fit_intercept):
    """The solution, and its true relative gap."""
    X, y, lam = data(shape)
    given = sparse.csr_array(X) if form == "csr" else X
    solution = solve(
        given,
        y,
        lam,
        solver=solver,
        preconditioner=preconditioner,
        tol=TOL,
        max_passes=BUDGET.get(solver.name, USUAL_BUDGET),
        fit_intercept=fit_intercept,
        random_state=0,
    )
    least, null = minimum(X, y, lam, fit_intercept)
    reached = objective(X, y, lam, solution.coef, solution.intercept)
    return solution, (reached - least) / null


def check(solution, gap):
    rounding = 1e-14  # of the two values of F whose difference this is
    assert gap <= solution.relative_gap + rounding  # the certificate is honest
    if solution.plan.solver in APPROXIMATE:
        assert solution.status in (Status.ENDED, Status.CONVERGED)
        assert solution.relative_gap < 1  # and says more than that w = 0 would do as well
        return
    assert solution.status is Status.CONVERGED
    assert gap <= TOL


forms = pytest.mark.parametrize("form", ["dense", "csr"])
shapes = pytest.mark.parametrize("shape", SHAPES)
intercepts = pytest.mark.parametrize("fit_intercept", [False, True])


@forms
@shapes
@intercepts
@pytest.mark.parametrize(("solver", "preconditioner"), PAIRS)
def test_every_allowed_pair_finds_the_minimum(solver, preconditioner, form, shape, fit_intercept):
    check(*solved(SOLVERS[solver](), recipe(preconditioner), form, shape, fit_intercept))


def variants():
    """Every solver with every other choice of a parameter that has named choices."""
    for solver in SOLVERS.values():
        for name, hint in get_type_hints(solver).items():
            if get_origin(hint) is Literal:
                default = getattr(solver(), name)
                for choice in get_args(hint):
                    if choice != default:
                        yield solver(**{name: choice})


def partners(solver):
    """The preconditioners to try: leaving columns out goes with those that do not mix them."""
    by_columns = getattr(solver, "rare_columns", "given") == "eliminated"
    return ("none", "diagonal") if by_columns else ("none", "lanczos")


VARIANTS = [
    pytest.param(solver, name, id=f"{solver}-{name}")
    for solver in variants()
    for name in partners(solver)
    if name in ALLOWED[solver.name]
]


@forms
@shapes
@intercepts
@pytest.mark.parametrize(("solver", "preconditioner"), VARIANTS)
def test_every_choice_of_a_parameter_finds_the_minimum(
    solver, preconditioner, form, shape, fit_intercept
):
    check(*solved(solver, recipe(preconditioner), form, shape, fit_intercept))


def test_the_table_names_every_solver_and_known_preconditioners_alone():
    assert set(ALLOWED) == set(SOLVERS)
    assert {name for names in ALLOWED.values() for name in names} == set(PRECONDITIONERS)


REFUSED = [
    (solver, name)
    for solver in SOLVERS
    for name in PRECONDITIONERS
    if name not in ALLOWED.get(solver, ())
]


@pytest.mark.parametrize(("solver", "preconditioner"), REFUSED)
def test_a_pair_that_is_not_allowed_is_refused_with_what_to_use(solver, preconditioner):
    X, y, lam = data("tall")
    with pytest.raises(ValueError, match=r"does not go with solver=.*(use|leave it at)"):
        solve(X, y, lam, solver=solver, preconditioner=preconditioner)
