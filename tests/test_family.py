"""The fast stochastic kernels against the literal algorithms, on the same indices."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from sketchridge.preconditioner import (
    Diagonal,
    Exact,
    Lanczos,
    NoPreconditioner,
    Nystrom,
    by_columns,
)
from sketchridge.problem import RidgeProblem
from sketchridge.solvers import accelerated_svrg
from sketchridge.solvers.accelerated_svrg import Rates
from sketchridge.solvers.components import Components
from sketchridge.solvers.conjugate_svrg import STEP, WINDOW, Epochs, conjugate
from sketchridge.solvers.dual import Duals, dual_steps
from sketchridge.solvers.sag import sag_steps
from sketchridge.solvers.saga import saga_steps
from sketchridge.solvers.table import Table
from sketchridge.solvers.weighed import Weighed
from tests import literal_family as literal

STEPS = 150


class Case:
    """A small problem with its explicit matrices; dense oracles see the rows centred."""

    def __init__(
        self, form, intercept, weighted, spec, lam=1e-2, seed=0, decay=3.0, shape=(40, 12)
    ):
        rng = np.random.default_rng(seed)
        n, d = shape
        X = rng.standard_normal((n, d)) * np.logspace(0, -decay, d)
        X[rng.random((n, d)) < 0.4] = 0.0
        y = rng.standard_normal(n) + 1.0
        weights = rng.uniform(0.2, 2.0, n) if weighted else None
        given = X if form == "dense" else sp.csr_matrix(X)
        self.problem = RidgeProblem(given, y[:, None], lam, weights, intercept)
        self.omega = self.problem.weights
        self.lam = lam
        self.X = X - self.omega @ X if intercept else X
        self.y = y - self.omega @ y if intercept else y
        self.preconditioner = spec.build(self.problem, np.random.default_rng(1))
        if spec.low_rank:
            self.P_inv_sqrt = self.preconditioner.power(np.eye(d), -0.5)
        self.rng = np.random.default_rng(2)


def same(fast, slow, tolerance=1e-9):
    np.testing.assert_allclose(fast, slow, rtol=0, atol=tolerance * np.linalg.norm(slow))


specs = pytest.mark.parametrize("spec", [NoPreconditioner(), Lanczos(rank=4), Exact(rank=3)])
forms = pytest.mark.parametrize("form", ["dense", "sparse"])
intercepts = pytest.mark.parametrize("intercept", [False, True])
weights = pytest.mark.parametrize("weighted", [False, True])


@specs
@forms
@intercepts
@weights
@pytest.mark.parametrize("method", ["saga", "sag"])
def test_table_methods_take_the_literal_steps(method, form, intercept, weighted, spec):
    case = Case(form, intercept, weighted, spec)
    problem = case.problem
    steps = (saga_steps if method == "saga" else sag_steps)(problem, case.preconditioner)
    order = steps.sampler.draw(case.rng, STEPS)
    w0 = case.rng.standard_normal(problem.d)
    residuals = case.X @ w0 - case.y
    table = Table(problem.Y[:, 0].copy(), w0, residuals, np.zeros(problem.d), 0.0)
    table = table.resummed(problem)
    slow = literal.table_method(
        case.X,
        case.y,
        case.lam,
        case.P_inv_sqrt,
        case.omega,
        steps.scales,
        w0,
        order,
        0.5 / steps.smoothness,
    )
    for length in (1, 7, STEPS):
        same(table.after(problem, steps, order[:length], 0.5).coef, slow[length - 1])


@forms
@pytest.mark.parametrize("lam", [1e-12, 1e-3, 1e4])
def test_table_steps_survive_any_lambda(form, lam):
    """At λ = 1e4 the shrinking underflows within an epoch, and the lazy scale must be folded."""
    case = Case(form, True, False, NoPreconditioner(), lam=lam)
    problem = case.problem
    steps = saga_steps(problem, case.preconditioner)
    order = steps.sampler.draw(case.rng, 2000)
    w0 = np.zeros(problem.d)
    table = Table(problem.Y[:, 0].copy(), w0, -case.y, np.zeros(problem.d), 0.0).resummed(problem)
    slow = literal.table_method(
        case.X,
        case.y,
        lam,
        case.P_inv_sqrt,
        case.omega,
        steps.scales,
        w0,
        order,
        0.9 / steps.smoothness,
    )
    same(table.after(problem, steps, order, 0.9).coef, slow[-1])


@forms
@intercepts
@weights
def test_sdca_maximises_the_dual_as_the_literal_one(form, intercept, weighted):
    case = Case(form, intercept, weighted, NoPreconditioner())
    problem = case.problem
    steps = dual_steps(problem, case.preconditioner, "uniform")
    order = steps.sampler.draw(case.rng, STEPS)
    slow = literal.sdca(case.X, case.y, case.lam, case.omega, order)
    for length in (1, 7, STEPS):
        duals = start_of(problem, 0).after(problem, steps, order[:length], 1.0)
        same(duals.coef, slow[length - 1])


@forms
@intercepts
@weights
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_weighed_moves_maximise_the_dual_as_the_literal_ones(form, intercept, weighted, threads):
    case = Case(form, intercept, weighted, NoPreconditioner())
    problem = case.problem
    steps = dual_steps(problem, case.preconditioner, "shuffled")
    epochs = [np.array_split(case.rng.permutation(problem.n), threads) for _ in range(6)]
    slow = literal.weighed_sdca(case.X, case.y, case.lam, case.omega, epochs)
    state = Weighed.first(problem, problem.Y[:, 0].copy())
    objectives = [0.0]
    for orders, point in zip(epochs, slow, strict=True):
        state = state.after(problem, steps, orders)
        np.testing.assert_allclose(state.duals.coef, point, rtol=1e-6, atol=1e-8)
        objectives.append(state.duals.dual_objective(problem))
    assert np.all(np.diff(objectives) > 0)


def start_of(problem, rank):
    return Duals(
        problem.Y[:, 0].copy(),
        np.zeros(problem.d),
        np.zeros(problem.n),
        np.zeros((problem.n, rank)),
    )


@forms
@intercepts
@weights
@pytest.mark.parametrize("spec", [Lanczos(rank=4), Exact(rank=3)])
def test_dual_free_sdca_takes_the_literal_steps(form, intercept, weighted, spec):
    case = Case(form, intercept, weighted, spec)
    problem = case.problem
    steps = dual_steps(problem, case.preconditioner, "importance")
    order = steps.sampler.draw(case.rng, STEPS)
    slow = literal.dual_free_sdca(
        case.X, case.y, case.lam, case.P_inv_sqrt, case.omega, order, steps.rates
    )
    for length in (1, 7, STEPS):
        start = start_of(problem, case.preconditioner.rank)
        same(start.after(problem, steps, order[:length], 1.0).coef, slow[length - 1])


@forms
@intercepts
def test_kaczmarz_projects_as_the_literal_one(form, intercept):
    case = Case(form, intercept, False, NoPreconditioner())
    problem = case.problem
    steps = dual_steps(problem, case.preconditioner, "importance")
    order = steps.sampler.draw(case.rng, STEPS)
    slow = literal.kaczmarz(case.X, case.y, case.lam, order)
    for length in (1, 7, STEPS):
        duals = start_of(problem, 0).after(problem, steps, order[:length], 1.0)
        same(duals.coef, slow[length - 1])


@specs
@forms
@intercepts
@weights
@pytest.mark.parametrize("length", [1, 7, 1000])
def test_accelerated_svrg_takes_the_literal_steps(form, intercept, weighted, spec, length):
    case = Case(form, intercept, weighted, spec, lam=1e-3)
    problem = case.problem
    components = Components.of(problem, case.preconditioner)
    order = components.draw(case.rng, length)
    w_bar, ahead = case.rng.standard_normal((2, problem.d))
    gradient = problem.evaluate(w_bar[:, None]).gradient[:, 0]
    y, z = accelerated_svrg.accelerated_epoch(problem, components, gradient, order, 0.7, ahead)
    convexity = case.lam * case.preconditioner.outside
    rates = Rates.of(components.smoothness / 0.7, convexity, length)
    slow_y, slow_z = literal.katyusha(
        case.X,
        case.y,
        case.lam,
        case.P_inv_sqrt,
        case.omega,
        components.probabilities,
        w_bar,
        w_bar + ahead,
        order,
        rates.coupling,
        rates.step,
    )
    same(w_bar + y, slow_y)
    same(w_bar + z, slow_z)


EPOCHS = 9  # more than the window


def scaled_by_columns(case):
    """What an epoch on scaled columns sees: the rows, the penalty, P̃⁻¹ and the factors."""
    longest = np.sqrt(case.problem.raw_squared_norms.max())
    factors, inner = by_columns(case.preconditioner, longest)
    raw = case.problem.X if isinstance(case.problem.X, np.ndarray) else case.problem.X.toarray()
    rows = (raw * factors).astype(np.float32).astype(float)
    if case.problem.mean is not None:
        rows = rows - factors * case.problem.mean
    return rows, inner.lam, inner.apply(np.eye(rows.shape[1])), factors


@forms
@intercepts
@weights
@pytest.mark.parametrize(
    "spec",
    [
        NoPreconditioner(),
        Lanczos(rank=4),
        Diagonal(0.75),
        Diagonal(1.0),
        Nystrom(rank=3, scaling=0.5),
    ],
    ids=str,
)
def test_conjugate_svrg_finds_the_least_objective_in_the_literal_span(
    form, intercept, weighted, spec
):
    case = Case(form, intercept, weighted, spec, lam=1e-3)
    rows, lam, P_inv, factors = case.X, case.lam, None, np.ones(case.problem.d)
    if spec.low_rank:
        P_inv = case.preconditioner.apply(np.eye(case.problem.d))
    else:
        rows, lam, P_inv, factors = scaled_by_columns(case)
    components = Epochs.of(case.problem, case.preconditioner).components
    rng, length = np.random.default_rng(3), 25
    orders = [components.draw(rng, length) for _ in range(EPOCHS)]

    def move(order, gradient):
        eta, probabilities = STEP / components.smoothness, components.probabilities
        return factors * literal.svrg_move(
            rows, lam, P_inv, case.omega, probabilities, factors * gradient, order, eta
        )

    moves = [partial(move, order) for order in orders]
    start = np.random.default_rng(4).standard_normal(case.problem.d)
    slow = literal.conjugate_svrg(case.X, case.y, case.lam, case.omega, start, moves, WINDOW)
    fast = conjugate(
        case.problem, case.preconditioner, start[:, None], np.random.default_rng(3), length
    )
    next(fast)
    for expected in slow:
        iterate = next(fast)
        same(iterate.coef[:, 0], expected, 1e-8)
        fresh = case.problem.evaluate(iterate.coef)
        same(iterate.objective, fresh.objective)
        assert np.linalg.norm(iterate.gradient - fresh.gradient) <= 1e-12 * np.linalg.norm(case.y)
