"""How components are sampled: the probabilities, the alias table, and the mean of a step."""

import numpy as np
import pytest

from sketchridge import kernels
from sketchridge.preconditioner import Exact, Lanczos, NoPreconditioner
from sketchridge.solvers.components import Components
from sketchridge.solvers.svrg import svrg_moves
from tests import literal
from tests.problems import centred, decaying, make, sparse_rows, with_spectrum

SPECS = [NoPreconditioner(), Lanczos(rank=4, blocks=2), Exact(rank=5)]
LAM = 1e-2


def weighted_problem(kind, fit_intercept, seed=0, n=30, d=14, lam=LAM):
    """A problem with some weights zero, and its rows and targets as the literal form has them."""
    rng = np.random.default_rng(seed)
    X = decaying(rng, n, d) if kind == "dense" else sparse_rows(rng, n, d)
    y, weights = rng.standard_normal(n), rng.uniform(0.0, 2.0, n)
    weights[:3] = 0.0
    problem = make(X, y, lam, weights, fit_intercept)
    return problem, *centred(X, y, problem.weights * fit_intercept)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_every_sampled_component_is_as_smooth_as_the_mean_per_probability(
    spec, kind, fit_intercept
):
    problem, X, _ = weighted_problem(kind, fit_intercept)
    preconditioner = spec.build(problem, np.random.default_rng(1))
    components = Components.of(problem, preconditioner, "sampled")
    inverse = np.linalg.inv(preconditioner.power(np.eye(problem.d), 1.0))
    N = problem.n + problem.d
    forms = np.einsum("ij,jk,ik->i", X, inverse, X)
    beta = np.concatenate([N * problem.weights * forms, LAM * N * np.diag(inverse)])
    assert components.probabilities.sum() == pytest.approx(1.0, rel=1e-14)
    assert components.smoothness == pytest.approx(beta.mean(), rel=1e-10)
    assert np.allclose(beta, N * components.probabilities * beta.mean(), rtol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("spec", SPECS, ids=repr)
@pytest.mark.parametrize("regularization", ["exact", "sampled"])
def test_probabilities_and_smoothness_are_those_of_the_paper(
    regularization, spec, kind, fit_intercept
):
    problem, X, _ = weighted_problem(kind, fit_intercept)
    preconditioner = spec.build(problem, np.random.default_rng(1))
    components = Components.of(problem, preconditioner, regularization)
    inverse = np.linalg.inv(preconditioner.power(np.eye(problem.d), 1.0))
    p, smoothness = literal.sampling(X, LAM, inverse, regularization, problem.weights)
    assert np.allclose(components.probabilities, p, rtol=1e-10)
    assert components.smoothness == pytest.approx(smoothness, rel=1e-10)


# The mean of a step -----------------------------------------------------------------------------


@pytest.mark.parametrize("earlier", [1, 3])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@pytest.mark.parametrize("spec", SPECS[:2], ids=repr)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_the_mean_of_a_step_is_the_step_along_the_gradient(
    kind, spec, regularization, fit_intercept, earlier
):
    problem, X, y = weighted_problem(kind, fit_intercept)
    rng = np.random.default_rng(2)
    preconditioner = spec.build(problem, rng)
    components = Components.of(problem, preconditioner, regularization)
    eta = 0.8 / components.smoothness
    snapshot = rng.standard_normal((problem.d, 1))
    gradient = problem.evaluate(snapshot).gradient
    first = components.draw(rng, earlier)

    def after(order):
        order = np.asarray(order)
        moves = svrg_moves(problem, components, gradient, order, np.array([eta]), "last")
        return snapshot[:, 0] + moves[:, 0]

    p = components.probabilities
    mean = sum(p[i] * after([*first, i]) for i in np.flatnonzero(p))
    w = after(first)
    slope = literal.gradient(X, y, LAM, w, problem.weights)
    P = preconditioner.power(np.eye(problem.d), 1.0)
    assert np.allclose(mean - w, -eta * np.linalg.solve(P, slope), rtol=1e-9, atol=1e-12)


def test_a_row_that_is_never_drawn_has_nothing_to_say():
    problem, X, _ = weighted_problem("csr", False)
    components = Components.of(problem, SPECS[1].build(problem, np.random.default_rng(0)), "exact")
    silent = (problem.weights == 0) | ~X.any(axis=1)
    assert silent.any()
    assert np.array_equal(components.probabilities == 0, silent)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_a_row_far_weaker_than_the_others_can_be_drawn(spec):
    X = with_spectrum(np.random.default_rng(3), 30, 10, np.logspace(0, -3, 10))
    X[4] *= 1e-9
    problem = make(X, np.zeros(30), 1e-8)
    components = Components.of(problem, spec.build(problem, np.random.default_rng(0)), "exact")
    assert np.all(components.probabilities > 0)
    assert np.all(np.isfinite(components.scales))


@pytest.mark.parametrize("offset", [1.0, 1e3, 1e6])
def test_a_row_near_the_mean_of_distant_rows_can_be_drawn(offset):
    X = offset + np.random.default_rng(4).standard_normal((30, 10))
    problem = make(X, np.zeros(30), 1e-2, fit_intercept=True)
    components = Components.of(
        problem, NoPreconditioner().build(problem, np.random.default_rng(0)), "exact"
    )
    assert np.all(components.probabilities > 0)


def test_data_of_zeros_can_be_sampled():
    problem = make(np.zeros((6, 3)), np.ones(6), 1e-2)
    preconditioner = NoPreconditioner().build(problem, np.random.default_rng(0))
    for regularization in ("exact", "sampled"):
        components = Components.of(problem, preconditioner, regularization)
        assert components.probabilities.sum() == pytest.approx(1.0)
        assert np.isfinite(components.smoothness)
        assert components.smoothness > 0


# The alias table --------------------------------------------------------------------------------


def implied_probabilities(threshold, alias):
    """What drawing an index evenly, and its alias with probability 1 − threshold, amounts to."""
    implied = threshold.copy()
    np.add.at(implied, alias, 1.0 - threshold)
    return implied / threshold.size


def skewed(kind, rng):
    if kind == "even":
        return np.full(7, 1 / 7)
    if kind == "one":
        return np.ones(1)
    if kind == "random":
        return rng.random(1000)
    if kind == "zeros":
        return np.where(rng.random(500) < 0.5, 0.0, rng.random(500))
    if kind == "all but one zero":
        return np.eye(400)[17]
    if kind == "three hundred decades":
        return 10.0 ** rng.uniform(-300, 0, 200)
    if kind == "one heavy":
        return np.concatenate([np.full(300, 1e-300), [1.0], np.zeros(20), np.full(300, 1e-18)])
    return rng.pareto(0.3, 5000)


KINDS = [
    "even", "one", "random", "zeros", "all but one zero", "three hundred decades", "one heavy",
    "heavy tail",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_alias_table_has_the_probabilities_that_it_was_given(kind):
    weights = skewed(kind, np.random.default_rng(5))
    p = weights / weights.sum()
    threshold, alias = kernels.alias_table(p)
    assert np.all((threshold >= 0) & (threshold <= 1))
    implied = implied_probabilities(threshold, alias)
    assert np.allclose(implied, p, rtol=1e-12, atol=1e-15)
    assert np.array_equal(implied > 0, p > 0)
    light = p < 0.5 / p.size  # never the alias of another
    assert np.allclose(implied[light], p[light], rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_probability_zero_is_the_alias_of_anything(kind):
    p = skewed(kind, np.random.default_rng(6))
    p = p / p.sum()
    threshold, alias = kernels.alias_table(p)
    assert np.all(p[alias[threshold < 1]] > 0)
    assert np.all(threshold[p == 0] == 0)


def test_draws_follow_the_probabilities_and_avoid_zero():
    problem, _, _ = weighted_problem("csr", False, n=200)
    components = Components.of(problem, SPECS[0].build(problem, np.random.default_rng(0)), "exact")
    p, count = components.probabilities, 400_000
    frequencies = np.bincount(components.draw(np.random.default_rng(7), count), minlength=p.size)
    assert np.all(frequencies[p == 0] == 0)
    deviation = (frequencies - count * p)[p > 0] / np.sqrt(count * p * (1 - p))[p > 0]
    assert np.abs(deviation).max() < 5


def test_the_same_seed_gives_the_same_draws():
    problem, _, _ = weighted_problem("dense", False)
    components = Components.of(
        problem, SPECS[0].build(problem, np.random.default_rng(0)), "sampled"
    )
    a, b, c = (components.draw(np.random.default_rng(seed), 100) for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert a.min() >= 0
    assert a.max() < problem.n + problem.d
