"""Rows in groups, against the literal mean of the groups' inverses."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from sketchridge import Embedding, solve
from sketchridge.costs import Costs, embedded_iterations
from sketchridge.machine import Machine
from sketchridge.preconditioner import embedding, grouped, narrow
from sketchridge.preconditioner.narrow_rows import NarrowRows
from sketchridge.preconditioner.sketched_rows import SketchedRows
from sketchridge.threads import single_threaded_blas
from tests import literal
from tests.problems import make, with_spectrum
from tests.test_preconditioners_general import peak_of


@pytest.fixture(autouse=True)
def one_thread():
    """On problems this small the threads of BLAS only wait for one another."""
    with single_threaded_blas():
        yield


def mean_inverse(A, mu, groups):
    """1/q Σ (q A_iᵀA_i + μI)⁻¹, as it is written."""
    parts = [A[start:stop] for start, stop in embedding_ranges(len(A), groups)]
    eye = mu * np.eye(A.shape[1])
    return sum(np.linalg.inv(groups * part.T @ part + eye) for part in parts) / groups


def embedding_ranges(count, groups):
    cuts = np.linspace(0, count, groups + 1).astype(int)
    return list(pairwise(cuts))


def parted(rows, mu, groups):
    return grouped.grouped(rows, rows.split(groups), mu)


def steep_rows(rng, shape, empty=0):
    rows = rng.standard_normal(shape) * np.arange(1.0, shape[1] + 1) ** -1.5
    rows[:, shape[1] - empty :] = 0.0
    return rows


@pytest.mark.parametrize("groups", [2, 3, 7])
@pytest.mark.parametrize("shape", [(60, 8), (21, 30), (40, 15)])
def test_the_inverse_is_the_mean_of_the_groups_inverses(shape, groups):
    rng = np.random.default_rng(0)
    A, mu = steep_rows(rng, shape), 1e-3
    factor, notes = parted(SketchedRows(A), mu, groups)
    expected, G = mean_inverse(A, mu, groups), rng.standard_normal((shape[1], 3))
    assert notes == () and factor.mu == pytest.approx(mu) and factor.columns == shape[1]
    np.testing.assert_allclose(factor.solve(G), expected @ G, atol=1e-9 / mu)
    truth = np.sum(G * (expected @ G), axis=0)
    assert np.all(truth * (1 - 1e-10) <= factor.energy(G))
    np.testing.assert_allclose(factor.energy(G), truth, rtol=1e-6)


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("empty", [0, 30])
@pytest.mark.parametrize(("shape", "groups"), [((400, 150), 4), ((240, 150), 3), ((600, 150), 2)])
def test_groups_in_float32_are_near_it_and_bound_it(shape, groups, empty, targets):
    rng = np.random.default_rng(1)
    A, mu = steep_rows(rng, shape, empty), 1e-2
    rows = NarrowRows.of(A)
    factor, _ = parted(rows, mu, groups)
    few = shape[0] / groups < shape[1] - empty
    assert isinstance(factor, grouped.NarrowGroups) is few
    expected, G = mean_inverse(A, mu, groups), rng.standard_normal((shape[1], targets))
    inverse = np.column_stack([factor.solve(e[:, None])[:, 0] for e in np.eye(shape[1])])
    ratios = np.linalg.eigvals(np.linalg.solve(expected, inverse)).real
    assert ratios.min() > 0.8 and ratios.max() < 1.05  # flattened directions have more than μ
    truth = np.sum(G * (expected @ G), axis=0)
    assert np.all(truth * (1 - 1e-6) <= factor.energy(G))
    np.testing.assert_allclose(factor.energy(G), truth, rtol=narrow.LOOSE)


def test_one_column_and_several_are_solved_alike():
    """The compiled loops over all groups, and the groups one by one."""
    rng = np.random.default_rng(2)
    rows = NarrowRows.of(steep_rows(rng, (60, 50), 12))
    factor, _ = parted(rows, 1e-4, 4)
    G = rng.standard_normal((50, 3))
    apart = np.column_stack([factor.solve(G[:, [j]])[:, 0] for j in range(3)])
    np.testing.assert_allclose(apart, factor.solve(G), rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 2, 5, 30])
def test_the_mean_of_inverses_is_above_the_inverse_of_all_rows(groups):
    """Operator convexity, which the certificate rests on: P ⪯ AᵀA + μI."""
    rng = np.random.default_rng(3)
    A, mu = steep_rows(rng, (30, 12)), 1e-3
    P = np.linalg.inv(mean_inverse(A, mu, groups))
    difference = np.linalg.eigvalsh(A.T @ A + mu * np.eye(12) - P)
    assert difference[0] >= -1e-10 and (groups == 1 or difference[-1] > 1e-6)


@pytest.mark.parametrize("storage", ["float64", "float32"])
def test_another_lam_is_as_if_it_had_been_built_for_it(storage):
    rng = np.random.default_rng(4)
    problem = make(steep_rows(rng, (300, 40)), rng.standard_normal(300), 1e-3)
    spec = Embedding(60, "countsketch", storage, groups=3)
    moved = spec.build(problem, np.random.default_rng(0)).at(1e-2)
    fresh = spec.build(problem.at(1e-2), np.random.default_rng(0))
    G = rng.standard_normal((40, 1))
    np.testing.assert_allclose(moved.apply(G), fresh.apply(G), rtol=1e-6, atol=1e-6)
    assert moved.describes(problem) and len(moved.factor.groups) == 3


def test_groups_that_float32_does_not_bear_are_factorised_together_and_told(monkeypatch):
    rng = np.random.default_rng(5)
    problem = make(steep_rows(rng, (300, 40)), rng.standard_normal(300), 1e-3)
    built = Embedding(30, "countsketch", "float32", groups=3).build(problem, rng)
    assert "in 3 groups" in built.notes[0] and not any("together" in note for note in built.notes)

    def breaks_down(*arguments):
        raise np.linalg.LinAlgError("as it may")

    monkeypatch.setattr(grouped, "factorise_checked", breaks_down)
    moved = built.at(1e-5)
    assert not isinstance(moved.factor, grouped.GroupedFactor) and moved.factor.exact
    for lam, other in [(1e-5, moved), (1e-3, moved.at(1e-3))]:
        told = f"for λ = {lam:.3g} all rows were factorised together, in float64"
        assert other.notes[-1] == told


def test_a_group_whose_mu_is_raised_is_told():
    rng = np.random.default_rng(9)
    A = steep_rows(rng, (40, 12))
    A[3] *= 1e9  # its group needs more than the others
    _, notes = parted(SketchedRows(A), 1.0, 4)
    assert len(notes) == 1 and "raised from 1 to" in notes[0]
    problem = make(A, rng.standard_normal(40), 1e6)
    built = Embedding(40, groups=4).build(problem, rng)
    assert not any("raised" in note for note in built.notes)
    moved = built.at(1.0)
    assert moved.notes[-1].startswith(
        f"the preconditioner's λ is raised from 1 to {moved.factor.mu:.3g},"
    )


@pytest.mark.parametrize("storage", ["float64", "float32"])
def test_a_group_of_zero_rows_is_one_like_others(storage):
    rng = np.random.default_rng(10)
    X = np.zeros((400, 30))
    X[:6] = rng.standard_normal((6, 30))
    problem = make(X, rng.standard_normal(400), 1e-3)
    built = Embedding(100, "countsketch", storage, groups=40).build(problem, rng)
    assert len(built.factor.groups) == 40 and not any("again" in note for note in built.notes)
    solution = solve(X, problem.Y[:, 0], 1e-3, "cg", Embedding(100, storage=storage, groups=40))
    assert solution.converged


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize(
    ("shape", "rows", "groups"),
    [((8000, 300), 4000, 8), ((4000, 600), 400, 8), ((3000, 900), 800, 2)],
)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_the_memory_for_another_lam_is_predicted(kind, shape, rows, groups, storage):
    rng = np.random.default_rng(11)
    X = rng.standard_normal(shape)
    X = sparse.random_array(shape, density=0.1, rng=rng, format="csr") if kind == "csr" else X
    problem = make(X, np.ones(shape[0]), 1e-3)
    built = Embedding(rows, "countsketch", storage, groups=groups).build(problem, rng)
    other = problem.at(1e-2)
    built.at(2e-2)  # what is loaded and compiled at first is not meant
    assert peak_of(lambda: built.at(1e-2)) <= 8 * built.memory(other) + 80 * sum(shape)


@pytest.mark.parametrize("storage", ["float64", "float32"])
def test_the_memory_of_several_targets_is_predicted(storage):
    rng = np.random.default_rng(12)
    problem = make(rng.standard_normal((2000, 600)), rng.standard_normal((2000, 300)), 1e-3)
    spec = Embedding(400, "countsketch", storage, groups=20)
    predicted = 8 * spec.memory(problem)
    spec.build(problem, np.random.default_rng(0))
    assert peak_of(lambda: spec.build(problem, np.random.default_rng(0))) <= 1.1 * predicted


@pytest.mark.parametrize("kind", ["sparse_sign", "countsketch"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_start_is_the_mean_of_the_groups_minima(
    kind, order, storage, fit_intercept, monkeypatch
):
    monkeypatch.setattr(embedding, "LARGE_MATRIX", 0)
    rng = np.random.default_rng(6)
    X = np.asarray(steep_rows(rng, (400, 12)) + 0.3, order=order)
    y = X @ rng.standard_normal(12) + 0.01 * rng.standard_normal(400)
    lam, groups = 1e-3, 2
    problem = make(X, y, lam, rng.uniform(0.2, 3.0, 400), fit_intercept)
    spec = Embedding(90, kind, storage, groups=groups)
    built = spec.build(problem, np.random.default_rng(0))
    S = built.source.weighted(problem).toarray()
    mean = problem.weights @ X if fit_intercept else 0.0
    A, z = S @ (X - mean), S @ problem.Y
    minima = [
        np.linalg.solve(A[a:b].T @ A[a:b] + lam / groups * np.eye(12), A[a:b].T @ z[a:b])
        for a, b in embedding_ranges(len(A), groups)
    ]
    np.testing.assert_allclose(built.start, sum(minima) / groups, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("storage", ["float64", "float32"])
def test_groups_need_about_the_passes_that_are_foretold(storage):
    """On a spectrum with few degrees of freedom, nearly those of one factor."""
    rng = np.random.default_rng(7)
    n, d, lam = 4000, 600, 1e-6
    values = np.arange(1.0, d + 1) ** -2
    X = with_spectrum(rng, n, d, values)
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)
    dimension = float(np.sum(values**2 / (values**2 + lam)))
    passes = {}
    for groups in (1, 4):
        spec = Embedding(500, "countsketch", storage, groups=groups)
        solution = solve(X, y, lam, "cg", spec, random_state=0)
        assert solution.converged
        truth = literal.ridge_solution(X, y, lam)
        assert solution.gap >= solution.objective - literal.objective(X, y, lam, truth)
        passes[groups] = solution.passes
    told = embedded_iterations(500, n, dimension, 1e-6, 0.1, 4)
    assert passes[4] <= passes[1] + 3 and 0.6 * told <= passes[4] - 2 <= 1.5 * told + 1


def test_more_groups_than_rows_are_refused():
    with pytest.raises(ValueError, match="groups=9 is more than the 8 rows"):
        solve(np.ones((40, 4)), np.ones(40), 1e-3, "cg", Embedding(8, groups=9))


def test_the_plan_tells_of_groups():
    rng = np.random.default_rng(8)
    X, y = steep_rows(rng, (300, 40)), rng.standard_normal(300)
    solution = solve(X, y, 1e-3, "cg", Embedding(60, groups=3), random_state=0)
    assert any("300 rows embedded into 60, in 3 groups" in note for note in solution.plan.notes)
    assert solution.plan.rank == 40


def test_a_factor_for_every_group_costs_a_part_of_one():
    machine = Machine(1e10, 1e10, 1e10, 1e10, 1e10)
    costs = Costs(machine, 20000, 5000, 10**8, 8 * 10**8, False, 1)
    one, four = (costs.sampled_rows(2000, False, groups) for groups in (1, 4))
    assert 3.9 < one / four < 8.0
