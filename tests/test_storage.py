"""How CG keeps its data and its vectors: cheaper, and no answer less exact."""

import numpy as np
import pytest
import scipy.sparse as sp

from sketchridge import CG, Diagonal, solve
from sketchridge.feature_penalty import ImplicitColumns
from sketchridge.planner import Choice, memory_needed
from sketchridge.problem import RidgeProblem
from sketchridge.solvers import cg
from sketchridge.sparse_products import SparseProducts
from tests.problems import frequent_words, with_spectrum


def problem(n=1500, d=1400, power=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = with_spectrum(rng, n, d, np.arange(1.0, d + 1) ** -power)
    return X, X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def data():
    return problem()


@pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_answer_is_certified_on_the_data_as_given(data, tol, fit_intercept):
    X, y = data
    X = X + 0.01 * fit_intercept
    lam = 1e-7 * float(np.sum(X**2)) / len(X)
    arguments = {"tol": tol, "fit_intercept": fit_intercept, "random_state": 0}
    solution = solve(X, y, lam, solver=CG(storage="float32"), **arguments)
    truth = solve(X, y, lam, solver="direct", tol=1e-14, fit_intercept=fit_intercept)
    assert solution.converged
    gap = solution.objective - truth.objective
    assert gap <= solution.gap <= tol * 0.5 * np.mean((y - fit_intercept * y.mean()) ** 2) * 1.0001


def test_the_copy_is_told_and_counted(data):
    X, y = data
    given = solve(X, y, 1e-6, solver="cg", random_state=0)
    narrow = solve(X, y, 1e-6, solver=CG(storage="float32"), random_state=0)
    told = [note for note in narrow.plan.notes if "float32" in note]
    assert told == [f"X is copied to float32 ({X.nbytes / 2e6:.1f} MB), for faster passes"]
    assert narrow.passes == pytest.approx(given.passes, abs=2)
    enough = 1.1 * X.nbytes
    solve(X, y, 1e-6, solver=CG(storage="float32"), random_state=0, max_memory=enough)
    with pytest.raises(ValueError, match="max_memory"):
        solve(X, y, 1e-6, solver=CG(storage="float32"), max_memory=0.4 * X.nbytes)


@pytest.mark.parametrize("kind", [np.float32, sp.csr_matrix])
def test_data_that_cannot_be_narrowed_is_taken_as_it_is(kind):
    X, y = problem(300, 50)
    X = X.astype(kind) if kind is np.float32 else kind(X)
    given = solve(X, y, 1e-3, solver="cg", random_state=0)
    narrow = solve(X, y, 1e-3, solver=CG(storage="float32"), random_state=0)
    assert np.array_equal(given.coef, narrow.coef)
    assert not any("copied to float32" in note for note in narrow.plan.notes)


@pytest.fixture(scope="module")
def words():
    """Sparse rows, most of whose entries are in the first of many columns; none is rare."""
    rng = np.random.default_rng(3)
    return frequent_words(rng, 4000, 9000, 90, 3), rng.standard_normal(4000)


def compact_size(X):
    """Megabytes of six bytes an entry, in rows of whole numbers of four entries."""
    return f"({6 * sum(-(-count // 4) * 4 for count in np.diff(X.indptr)) / 1e6:.1f} MB)"


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-12])
def test_sparse_data_is_certified_as_given(words, tol, fit_intercept):
    X, y = words
    before, lam = X.copy(), 1e-4 * float((X.data**2).sum()) / len(y)
    arguments = {"preconditioner": "diagonal", "fit_intercept": fit_intercept}
    narrow = solve(X, y, lam, CG(storage="float32"), tol=tol, **arguments)
    truth = solve(X, y, lam, "cg", tol=1e-14, **arguments)
    assert narrow.converged
    assert narrow.objective - truth.objective <= narrow.gap + truth.gap
    told = [note for note in narrow.plan.notes if "float32" in note]
    assert len(told) == 1 and f"X is copied to float32 {compact_size(X)}" in told[0]
    assert np.array_equal(X.data, before.data) and np.array_equal(X.indices, before.indices)


def test_few_columns_are_copied_and_several_targets_are_not(words, monkeypatch):
    X, y = words
    monkeypatch.setattr("sketchridge.sparse_products.SMALL_WORK", 0)
    few = X[:, :4000].tocsr()
    lam = 1e-4 * float((X.data**2).sum()) / len(y)
    narrow = solve(few, y, lam, CG(storage="float32"), "diagonal")
    assert narrow.converged
    assert any(f"float32 {compact_size(few)}" in note for note in narrow.plan.notes)
    Y = np.column_stack([y, y[::-1]])
    both = [solve(X, Y, lam, CG(storage=kind), "diagonal") for kind in ("given", "float32")]
    assert np.array_equal(both[0].coef, both[1].coef) and both[0].passes == both[1].passes
    assert not any("float32" in note for note in both[1].plan.notes)


@pytest.mark.parametrize("longest, filled", [(90, True), (3, False)])
def test_rows_that_are_filled_up_with_zeros_have_the_same_products(longest, filled, monkeypatch):
    """Rows of every length, empty ones too; where they are short, zeros would be too many."""
    monkeypatch.setattr("sketchridge.sparse_products.SMALL_WORK", 0)
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, longest + 1, size=400)
    columns = [rng.choice(300, count, replace=False) for count in lengths]
    indptr = np.append(0, np.cumsum(lengths))
    values = rng.standard_normal(indptr[-1])
    X = sp.csr_array((values, np.concatenate(columns), indptr), shape=(400, 300))
    weights = rng.uniform(size=400) * (rng.random(400) > 0.2)
    v, y = rng.standard_normal((300, 1)), rng.standard_normal((400, 1))
    compact = SparseProducts(X).compacted
    R, product = compact.residual(v, y, np.zeros(1), weights)
    rounded = X.astype(np.float32).astype(np.float64)
    assert pytest.approx(rounded @ v - y, rel=1e-12, abs=1e-12) == R
    assert pytest.approx(rounded.T @ (weights[:, None] * (rounded @ v - y)), abs=1e-11) == product
    assert (compact._ordered.rows.data.size > X.nnz) is filled


def test_a_copy_is_made_once_for_several_penalties(words):
    X, y = words
    lam = 1e-4 * float((X.data**2).sum()) / len(y)
    problem = RidgeProblem(X, y[:, None], lam)
    for factor in (1.0, 0.1):
        stored = problem.at(factor * lam).narrowed()
        stored.gram(np.ones((X.shape[1], 1)))
    assert sum("copied to float32" in note for note in problem.notes) == 1


def test_penalties_of_their_own_leave_sparse_data_as_it_is(words):
    X, y = words
    penalty = np.linspace(0.5, 2.0, X.shape[1])
    problem = ImplicitColumns(X, y[:, None], 1e-3, penalty)
    assert not problem.narrows and problem.narrowed() is problem
    assert CG("float32", "eliminated").memory(problem, 0) == CG().memory(problem, 0)
    problem.leave_room(1.0)
    for _ in range(10):
        problem.gram(np.ones((X.shape[1], 1)))
    assert not any("copied" in note for note in problem.notes)


def test_auto_reads_text_from_a_narrow_copy_unless_the_tolerance_is_below_it(words):
    X, y = words
    lam = 1e-6 * float((X.data**2).sum()) / len(y)
    for tol, copied in ((1e-6, True), (1e-10, False)):
        plan = solve(X, y, lam, tol=tol, random_state=0).plan
        assert any("copied to float32" in note for note in plan.notes) is copied
        assert ("cg in float32" in plan.forecasts[0].method) is copied


@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_text_is_copied_only_where_the_memory_allows_it(words, solver):
    X, y = words
    lam = 1e-6 * float((X.data**2).sum()) / len(y)
    arguments = {"preconditioner": "auto" if solver == "auto" else "diagonal", "random_state": 0}
    free = solve(X, y, lam, solver, **arguments)
    assert free.converged and any("copied" in note for note in free.plan.notes)
    problem = RidgeProblem(X, y[:, None], lam)
    needed = memory_needed(problem, Choice(CG(), Diagonal(), ""))
    tight = solve(X, y, lam, solver, max_memory=needed + 0.5 * X.indices.nbytes, **arguments)
    assert tight.converged and not any("copied" in note for note in tight.plan.notes)


@pytest.mark.parametrize("size", [1e-40, 1e40])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_values_that_float32_does_not_hold_are_not_copied(words, size, storage):
    X, y = words if storage == "sparse" else problem(1500, 1400)
    X = size * X
    lam = 1e-4 * float(((X.data if storage == "sparse" else X) ** 2).sum()) / len(y)
    narrow = solve(X, y, lam, CG(storage="float32"), "diagonal", random_state=0)
    assert narrow.converged
    assert any("not copied to float32, whose range it leaves" in note for note in narrow.plan.notes)


def test_an_unknown_storage_is_refused():
    with pytest.raises(ValueError, match="storage='half' must be 'given' or 'float32'"):
        CG(storage="half")


def test_compiled_vectors_do_what_numpy_does():
    rng = np.random.default_rng(0)
    direction, image, W, gradient, steepest = rng.standard_normal((5, 500, 1))
    image = direction + 0.1 * image  # of positive curvature
    results = []
    for vectors in (cg.Vectors(), cg.CompiledVectors()):
        p, q, w, g = (vector.copy() for vector in (direction, image, W, gradient))
        step = vectors.step(p, q, 0.3, np.array([2.0]), w, g)
        vectors.turn(p, np.array([0.7]), steepest)
        old, new = (cg.Smoothed(*pair, step, step) for pair in ((W, gradient), (w, g)))
        results.append([p, q, w, g, step, *vectors.between(np.array([0.4]), old, new)])
    for one, other in zip(*results, strict=True):
        assert other == pytest.approx(one, rel=1e-12, abs=1e-13)
    assert cg.CompiledVectors().step(p, -q, 0.0, step, w, g) == 0  # no curvature, no step


def test_long_vectors_reach_the_compiled_loops(monkeypatch):
    X, y = problem(200, 50)
    used, step = [], cg.CompiledVectors.step
    monkeypatch.setattr(cg.CompiledVectors, "step", lambda *given: used.append(1) or step(*given))
    solve(X, y, 1e-3, solver="cg", preconditioner="none")
    assert not used
    monkeypatch.setattr(cg, "LONG_VECTORS", 50)
    solution = solve(X, y, 1e-3, solver="cg", preconditioner="none", tol=1e-10)
    truth = solve(X, y, 1e-3, solver="direct", tol=1e-14)
    assert used and solution.converged
    assert solution.objective - truth.objective <= solution.gap
