"""Preconditioners that are not low rank plus identity, against dense matrices and exact truth."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from sketchridge import (
    Diagonal,
    Embedding,
    Lanczos,
    Nystrom,
    RowSampling,
    gram,
    products,
    row_sums,
    solve,
)
from sketchridge.certificate import certified_gap
from sketchridge.columns import scaled_copy
from sketchridge.preconditioner import base, embedding, flattening, narrow
from sketchridge.preconditioner.diagonal import Columns
from sketchridge.preconditioner.embedding import THROWS, RowEmbedding, even_buckets
from sketchridge.preconditioner.factor import factorise
from sketchridge.preconditioner.flattening import Flattening
from sketchridge.preconditioner.narrow_rows import NarrowRows
from sketchridge.preconditioner.row_sampling import RowSample, counted_dimension, leverage
from sketchridge.preconditioner.sketched import probe_vector
from sketchridge.preconditioner.sketched_rows import SketchedRows
from sketchridge.problem import RidgeProblem
from sketchridge.threads import single_threaded_blas
from tests import literal
from tests.exact import ExactRidge, degrees_of_freedom, rationals, solve_exactly
from tests.problems import centred, dense_of, make, sparse_rows, with_spectrum
from tests.test_certificate import FAMILIES, Audit, Case, points, random_rank

LAM = 1e-2
SHAPES = {"tall": (60, 14), "wide": (16, 40)}
KINDS = ["C", "F", "float32", "csr", "csr float32"]
SCALED = [Nystrom(6, scaling=1), Lanczos(4, scaling=0.5), Lanczos(3, keep="all", scaling=1)]
SAMPLED = [
    RowSampling(),
    RowSampling(rows=5),
    RowSampling(method="leverage"),
    Embedding(),
    Embedding(rows=9),
    Embedding(kind="countsketch"),
]
NARROW = Embedding(rows=16, storage="float32")
NARROW_FEW = Embedding(rows=5, storage="float32")
SHIFTED = [Embedding(rows=9, shift=0.3), Embedding(rows=5, storage="float32", shift=0.3)]
GROUPED = [
    Embedding(rows=9, groups=3),
    Embedding(rows=16, kind="countsketch", groups=2),
    Embedding(rows=16, storage="float32", groups=4),
    Embedding(rows=16, groups=16, shift=0.3),
]
SPECIAL = [NARROW, NARROW_FEW, *SHIFTED, *GROUPED]
SPECS = [Diagonal(), Diagonal(0.5), Diagonal(0), *SCALED, *SAMPLED]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_shape = pytest.mark.parametrize("shape", SHAPES)
every_variant = pytest.mark.parametrize("intercept", [False, True])


@pytest.fixture(autouse=True)
def one_thread():
    """On problems this small the threads of BLAS only wait for one another."""
    with single_threaded_blas():
        yield


def matrix(kind, shape, seed=0):
    """Rows and columns of different size, not centred; a zero row, a zero column, duplicates."""
    rng = np.random.default_rng(seed)
    n, d = SHAPES[shape]
    if "csr" in kind:
        X = sparse_rows(rng, n, d, 0.4).toarray()
    else:
        X = (rng.standard_normal((n, d)) + 0.5) * 10.0 ** rng.uniform(-1.5, 0.5, d)
    X[2], X[:, 3] = 0.0, 0.0
    X[4], X[:, 6] = X[5], X[:, 7]
    if "float32" in kind:
        X = X.astype(np.float32)
    if "csr" in kind:
        return sparse.csr_array(X)
    return np.asarray(X, order="F" if kind == "F" else "C")


def problem_of(kind, shape, intercept, lam=LAM):
    X = matrix(kind, shape)
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.2, 3.0, X.shape[0])
    weights[8] = 0.0
    return make(X, rng.standard_normal(X.shape[0]), lam, weights, intercept)


def dense_parts(problem):
    """The centred rows (n, d) and C, dense."""
    rows = dense_of(problem.X)
    if problem.fit_intercept:
        rows, _ = centred(rows, np.zeros(problem.n), problem.weights)
    return rows, literal.correlation(rows, problem.weights)


def build(spec, problem, seed=0):
    return spec.build(problem, np.random.default_rng(seed))


def inverse_of(preconditioner):
    return preconditioner.apply(np.eye(preconditioner.columns))


def assert_inverse(preconditioner, P):
    expected = np.linalg.inv(P)
    scale = np.linalg.norm(expected, 2)
    assert np.linalg.norm(inverse_of(preconditioner) - expected, 2) <= 1e-9 * scale


# -- P⁻¹ as a dense matrix ---------------------------------------------------------------------


@every_kind
@every_shape
@every_variant
@pytest.mark.parametrize("exponent", [0, 0.5, 1])
def test_the_diagonal_is_that_of_C(kind, shape, intercept, exponent):
    problem = problem_of(kind, shape, intercept)
    _, C = dense_parts(problem)
    preconditioner = build(Diagonal(exponent), problem)
    assert_inverse(preconditioner, np.diag((np.diag(C) + LAM) ** exponent))
    raw = problem.weights @ dense_of(problem.X).astype(float) ** 2
    np.testing.assert_allclose(Columns.of(problem).raw, raw, rtol=1e-12)


def test_a_constant_column_of_sparse_data_has_no_variance():
    X = sparse.csr_array(np.column_stack([np.full(50, 1e3 / 3), np.arange(50.0)]))
    problem = make(X, np.ones(50), LAM, fit_intercept=True)
    assert 0 <= Columns.of(problem).centred[0] <= 1e-9


@pytest.mark.parametrize("constant", ["CACHED_BLOCK_BYTES", "SMALL_WORK", "LARGE_MATRIX"])
def test_blocks_and_compiled_loops_sum_the_same_squares(monkeypatch, constant):
    monkeypatch.setattr(f"sketchridge.columns.{constant}", 10)  # as if the data were large
    for kind in KINDS:
        problem = problem_of(kind, "tall", True)
        np.testing.assert_allclose(
            Columns.of(problem).centred, np.diag(dense_parts(problem)[1]), rtol=1e-10, atol=1e-15
        )


@pytest.mark.parametrize("small", [0, 10**9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_kind
def test_scaled_columns_are_those_of_numpy(monkeypatch, kind, dtype, small):
    monkeypatch.setattr("sketchridge.columns.SMALL_WORK", small)
    monkeypatch.setattr("sketchridge.columns.LARGE_MATRIX", small)
    X = problem_of(kind, "tall", False).X
    factors = np.random.default_rng(0).uniform(0.5, 2.0, X.shape[1])
    scaled, norms = scaled_copy(X, factors, dtype)
    expected = dense_of(X).astype(float) * factors
    np.testing.assert_array_equal(dense_of(scaled), expected.astype(dtype))
    np.testing.assert_allclose(norms, np.sum(expected**2, axis=1), rtol=1e-5)


def sketched_parts(built, problem):
    """The rows A and the targets z that the sketch is of, dense."""
    if built.name == "embedding":
        S = built.source.weighted(problem).toarray()
    else:
        S = np.zeros((built.source.indices.size, problem.n))
        S[np.arange(len(S)), built.source.indices] = built.source.scales
    return S @ dense_parts(problem)[0], S @ problem.Y


@every_kind
@every_shape
@every_variant
@pytest.mark.parametrize("spec", SAMPLED, ids=str)
def test_sketched_rows_start_where_their_own_problem_has_its_minimum(
    kind, shape, intercept, spec, monkeypatch
):
    monkeypatch.setattr(embedding, "LARGE_MATRIX", 0)  # by the compiled loop where it can be
    X = matrix(kind, shape)
    rng = np.random.default_rng(1)
    y = X @ rng.standard_normal(X.shape[1]) + 0.01 * rng.standard_normal(X.shape[0])
    problem = make(X, y, 1e-4, rng.uniform(0.2, 3.0, X.shape[0]), intercept)
    built = build(spec, problem)
    A, z = sketched_parts(built, problem)
    inverse = np.linalg.inv(A.T @ A + 1e-4 * np.eye(problem.d))
    expected = inverse @ A.T @ z
    if np.trace(inverse @ A.T @ A) > 0.75 * len(A):  # the noise is fitted with the rest
        expected = np.zeros_like(expected)
    np.testing.assert_allclose(built.start, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("noise", [10.0, 30.0, 100.0, 1000.0])
@pytest.mark.parametrize("rows", [80, 240])
def test_the_start_is_hardly_ever_worse_than_zero(noise, rows):
    """Where the noise is most of the targets, the sketch's minimum is; then it is not taken."""
    rng = np.random.default_rng(0)
    X = with_spectrum(rng, 800, 40, np.ones(40))
    Y = 5 * X @ rng.standard_normal((40, 30)) + noise * rng.standard_normal((800, 30))
    problem = make(X, Y, 1e-6)
    draws = [np.random.default_rng(seed) for seed in range(30)]
    start = np.stack([Embedding(rows=rows).build(problem, draw).start for draw in draws])
    objectives = [problem.evaluate(point).objective for point in start]
    gained = 1 - np.array(objectives) / problem.null_objective
    assert np.mean(gained < 0) <= 0.1 and np.quantile(gained, 0.02) >= -0.3
    if noise in (10.0, 1000.0):  # in between it depends on the target
        assert np.all(start.any(axis=1) == (noise == 10.0))


def test_a_solve_starts_there_unless_a_start_is_given():
    X = with_spectrum(np.random.default_rng(0), 600, 30, np.ones(30))
    y = X @ np.ones(30) + 0.1 * np.random.default_rng(1).standard_normal(600)
    how = {"solver": "cg", "preconditioner": Embedding(rows=90), "random_state": 0}
    from_sketch = solve(X, y, 1e-6, **how)
    first = from_sketch.preconditioner.start
    problem = make(X, y, 1e-6)
    assert from_sketch.history[0].objective == pytest.approx(problem.evaluate(first).objective[0])
    elsewhere = solve(X, y, 1e-6, coef_init=np.full(30, 5.0), **how)
    there = problem.evaluate(np.full((30, 1), 5.0)).objective[0]
    assert elsewhere.history[0].objective == pytest.approx(there)
    # Another solve with the same sketch has targets of its own, and starts from zero.
    again = solve(X, -y, 1e-6, solver="cg", preconditioner=from_sketch.preconditioner)
    assert again.history[0].objective == pytest.approx(problem.null_objective[0])


@every_kind
@every_shape
@every_variant
@pytest.mark.parametrize("spec", SCALED, ids=str)
def test_a_scaled_sketch_is_condsketch_in_scaled_columns(kind, shape, intercept, spec):
    problem = problem_of(kind, shape, intercept)
    _, C = dense_parts(problem)
    preconditioner = build(spec, problem)
    scale = (np.diag(C) + LAM) ** spec.scaling
    spectrum, roots = preconditioner.spectrum, np.diag(np.sqrt(scale))
    # The sketch is of C̃: its Ritz or Nyström values are below C̃'s own, and not far at the top.
    eigenvalues = np.linalg.eigvalsh(C / np.sqrt(np.outer(scale, scale)))[::-1]
    assert np.all(spectrum.values <= eigenvalues[: spectrum.values.size] * (1 + 1e-9) + 1e-12)
    assert spectrum.values[0] >= 0.5 * eigenvalues[0]
    sketch, _, _ = literal.preconditioner_matrices(spectrum.basis, spectrum.values, 0.0)
    assert_inverse(preconditioner, roots @ sketch @ roots + LAM * np.eye(problem.d))


@every_shape
@pytest.mark.parametrize("scaling", [0.5, 1])
def test_a_scaled_sketch_of_every_direction_is_H(shape, scaling):
    problem = problem_of("C", shape, True)
    _, C = dense_parts(problem)
    spec = Lanczos(min(SHAPES[shape]), blocks=2, scaling=scaling)
    assert_inverse(build(spec, problem), C + LAM * np.eye(problem.d))


@every_kind
@every_shape
@every_variant
@pytest.mark.parametrize("count", ["auto", 5, 11])
def test_uniform_sampling_takes_rows_as_they_are(kind, shape, intercept, count):
    problem = problem_of(kind, shape, intercept)
    rows, C = dense_parts(problem)
    preconditioner = build(RowSampling(rows=count), problem)
    sample = preconditioner.source.indices
    n, d = SHAPES[shape]
    assert sample.size == (min(2 * d, n // 2) if count == "auto" else count)
    assert np.all(np.diff(sample) > 0) and 8 not in sample
    part = rows[sample].T @ np.diag(problem.weights[sample]) @ rows[sample]
    assert_inverse(preconditioner, part + LAM * np.eye(d))
    assert np.linalg.eigvalsh(C - part)[0] >= -1e-12 * np.linalg.norm(C, 2)


def test_every_row_makes_H():
    for kind in KINDS:
        for shape in SHAPES:
            problem = problem_of(kind, shape, True)
            H = dense_parts(problem)[1] + LAM * np.eye(problem.d)
            for spec in (RowSampling(rows=problem.n), Embedding(rows=problem.n)):
                assert_inverse(build(spec, problem), H)


@every_kind
@every_shape
@every_variant
@pytest.mark.parametrize("count", ["auto", 9])
@pytest.mark.parametrize("sketch", THROWS)
def test_an_embedding_is_S_times_the_rows(kind, shape, intercept, count, sketch):
    problem = problem_of(kind, shape, intercept)
    rows, C = dense_parts(problem)
    preconditioner = build(Embedding(count, sketch), problem)
    S = preconditioner.source.matrix().toarray()
    A = S @ (np.sqrt(problem.weights)[:, None] * rows)
    assert_inverse(preconditioner, A.T @ A + LAM * np.eye(problem.d))
    excess = preconditioner.source.excess
    assert np.linalg.eigvalsh(excess * C - A.T @ A)[0] >= -1e-12 * excess * np.linalg.norm(C, 2)


@pytest.mark.parametrize("sketch", THROWS)
@pytest.mark.parametrize(
    ("count", "n"), [(1, 30), (3, 30), (7, 30), (8, 31), (40, 500), (48, 4101)]
)
def test_an_embedding_throws_every_row_into_even_buckets(sketch, count, n):
    embedding = RowEmbedding.draw(sketch, count, n, np.random.default_rng(0))
    S = embedding.matrix().toarray()
    throws = min(THROWS[sketch], count)
    assert S.shape == (count, n)
    assert np.all(np.count_nonzero(S, axis=0) == throws)
    np.testing.assert_allclose(np.abs(S[S != 0]), 1 / np.sqrt(throws))
    sizes = np.count_nonzero(S, axis=1)
    assert sizes.max() <= embedding.fullest and sizes.min() >= 1
    assert np.linalg.norm(S, 2) ** 2 <= embedding.excess * (1 + 1e-12)
    assert np.array_equal(embedding.matrix().toarray(), S)  # made again from its seed


@pytest.mark.parametrize("count", [512, 4096])
def test_rows_at_regular_distances_share_their_buckets_with_as_few_as_others(count):
    """Where every sixteenth row is all that counts, the embedding is as good as of any rows."""
    S = RowEmbedding("countsketch", count, 8192, 0).matrix().toarray()
    for first in range(16):
        used = np.count_nonzero(S[:, first::16].any(axis=1))
        assert used >= 0.6 * min(count, 512)  # the rows are 512; at random 0.63 of 512


@pytest.mark.parametrize("spec", [RowSampling(40, "leverage"), Embedding(40)], ids=str)
def test_the_sketched_gram_matrix_is_C_on_average(spec):
    problem = problem_of("C", "tall", True)
    _, C = dense_parts(problem)
    rng = np.random.default_rng(0)
    total = np.zeros_like(C)
    for _ in range(300):
        P = np.linalg.inv(inverse_of(spec.build(problem, rng)))
        total += P - LAM * np.eye(problem.d)
    assert np.linalg.norm(total / 300 - C, 2) <= 0.1 * np.linalg.norm(C, 2)


@every_variant
def test_leverage_probabilities_follow_the_ridge_leverage_scores(intercept):
    problem = problem_of("C", "tall", intercept)
    rows, C = dense_parts(problem)
    H = C + LAM * np.eye(problem.d)
    scores = problem.weights * np.einsum("ij,ij->i", rows @ np.linalg.inv(H), rows)
    uniform = (problem.weights > 0) / np.count_nonzero(problem.weights)
    expected = 0.9 * scores / scores.sum() + 0.1 * uniform
    found = leverage(problem, np.random.default_rng(0))  # its sketch holds every direction
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-15)


def test_leverage_finds_the_rows_that_matter():
    rng = np.random.default_rng(0)
    X = np.vstack([100 * np.eye(10), rng.standard_normal((2000, 10)) * 1e-3])
    problem = make(X, np.zeros(2010), 1e-6)
    sample = build(RowSampling(60, "leverage"), problem).source.indices
    assert set(range(10)) <= set(sample.tolist())


# -- conditioning ------------------------------------------------------------------------------


def condition(problem, preconditioner):
    H = dense_parts(problem)[1] + problem.lam * np.eye(problem.d)
    values = np.abs(np.linalg.eigvals(inverse_of(preconditioner) @ H))
    return values.max() / values.min()


@pytest.mark.parametrize("spec", SAMPLED[:1] + SAMPLED[2:4], ids=str)
def test_sketched_rows_condition_what_no_low_rank_can(spec):
    """A spectrum that does not decay, in columns of very different size."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 40)) @ np.diag(10.0 ** rng.uniform(-3, 0, 40))
    problem = make(X, np.zeros(2000), 1e-9)
    assert condition(problem, build(spec, problem)) <= 60
    assert condition(problem, build(Nystrom(10), problem)) >= 1e3


def test_a_row_thrown_once_may_hide_another_and_thrown_often_may_not():
    rng = np.random.default_rng(0)
    X = np.vstack([30 * np.eye(60), 1e-3 * rng.standard_normal((3000, 60))])
    problem = make(X, np.zeros(len(X)), 1e-8)
    assert condition(problem, build(Embedding(kind="sparse_sign"), problem)) <= 200
    assert condition(problem, build(Embedding(kind="countsketch"), problem)) >= 1e4


@pytest.mark.parametrize("spec", [*SPECS, *SPECIAL], ids=str)
@every_shape
def test_the_least_curvature_is_about_the_smallest_eigenvalue_or_below(spec, shape):
    problem = problem_of("C", shape, True)
    H = dense_parts(problem)[1] + LAM * np.eye(problem.d)
    preconditioner = build(spec, problem)
    smallest = np.linalg.eigvals(inverse_of(preconditioner) @ H).real.min()
    assert 0 < preconditioner.least_curvature <= 1.5 * smallest


# -- many λ, many problems ---------------------------------------------------------------------


@pytest.mark.parametrize("spec", [Diagonal(), Diagonal(0.5), *SAMPLED], ids=str)
@every_shape
def test_moving_to_another_lambda_is_building_there(spec, shape):
    first = build(spec, problem_of("csr", shape, True))
    for lam in (1e-5, 10.0):
        # Leverage scores depend on λ: the rows are those of the first.
        moved = first.at(lam)
        P = np.linalg.inv(inverse_of(first)) + (lam - LAM) * np.eye(first.columns)
        if isinstance(spec, Diagonal):
            P = np.linalg.inv(inverse_of(build(spec, problem_of("csr", shape, True, lam))))
        np.testing.assert_allclose(np.linalg.inv(inverse_of(moved)), P, rtol=1e-6, atol=1e-9)
        assert moved.lam == lam and first.lam == LAM
        np.testing.assert_allclose(inverse_of(moved.at(LAM)), inverse_of(first), rtol=1e-12)


@pytest.mark.parametrize("spec", SCALED, ids=str)
def test_a_scaled_sketch_keeps_its_scaling_at_another_lambda(spec):
    problem = problem_of("C", "tall", True)
    first = build(spec, problem)
    scale = (np.diag(dense_parts(problem)[1]) + LAM) ** spec.scaling
    for lam in (1e-5, 10.0):
        spectrum, roots = first.spectrum, np.diag(np.sqrt(scale))
        sketch, _, _ = literal.preconditioner_matrices(spectrum.basis, spectrum.values, 0.0)
        assert_inverse(first.at(lam), roots @ sketch @ roots + lam * np.eye(problem.d))


@pytest.mark.parametrize("spec", [*SPECS, *SPECIAL], ids=str)
@pytest.mark.parametrize("kind", ["C", "csr"])
@every_variant
def test_it_knows_its_data_again(spec, kind, intercept):
    preconditioner = build(spec, problem_of(kind, "tall", intercept))
    assert preconditioner.describes(problem_of(kind, "tall", intercept))
    other = problem_of(kind, "tall", intercept)
    other.X = other.X.copy()
    other.X[10, 0] += 1e-3
    assert not preconditioner.describes(make(other.X, np.ones(60), LAM, other.weights, intercept))
    assert not preconditioner.describes(problem_of(kind, "tall", not intercept))


@pytest.mark.parametrize("spec", [*SCALED, *SAMPLED, *SPECIAL], ids=str)
def test_permuted_columns_are_other_data(spec):
    """They leave the norms of the rows as they are."""
    problem = problem_of("C", "tall", False)
    X = np.ascontiguousarray(problem.X[:, ::-1])
    assert not build(spec, problem).describes(make(X, np.ones(60), LAM, problem.weights))


@pytest.mark.parametrize("spec", [*SCALED, *SAMPLED, *SPECIAL], ids=str)
@pytest.mark.parametrize("solver", ["cg", "agd"])
def test_one_sketch_serves_many_solves_and_is_not_relied_on_for_others(spec, solver):
    X, rng = matrix("C", "tall"), np.random.default_rng(0)
    y = rng.standard_normal(60)
    first = solve(X, y, 0.1, solver, spec, random_state=0)
    again = solve(X, 2 * y, 0.2, solver, first.preconditioner, random_state=0)
    assert again.converged and again.preconditioner.lam == 0.2
    assert not any("other data" in note for note in again.plan.notes)
    foreign = solve(X[::-1].copy(), y, 0.1, solver, first.preconditioner, random_state=0)
    assert foreign.converged
    assert any("other data" in note for note in foreign.plan.notes)


@pytest.mark.parametrize("spec", [*SPECS, *SPECIAL], ids=str)
def test_the_same_seed_gives_the_same_preconditioner(spec):
    problem = problem_of("csr", "tall", True)
    a, b, c = (inverse_of(build(spec, problem, seed)) for seed in (3, 3, 4))
    assert np.array_equal(a, b)
    assert spec not in SAMPLED or not np.allclose(a, c, rtol=1e-3)


# -- passes, memory, refusals ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "passes"),
    [
        (Diagonal(), 1),
        (RowSampling(rows=15), 15 / 60),
        (Embedding(), 1),
        (Nystrom(3, scaling=1), 2),
        (Lanczos(3, blocks=2, scaling=1), 4),
    ],
    ids=str,
)
def test_passes_are_counted(spec, passes):
    problem = problem_of("C", "tall", False)
    assert problem.raw_trace > 0  # read, as the driver has read it
    before = problem.passes
    build(spec, problem)
    assert problem.passes - before == pytest.approx(passes)


def peak_of(work):
    """The bytes that some work takes at once."""
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    "spec",
    [
        Diagonal(),
        Nystrom(30, scaling=1),
        Lanczos(20, scaling=1),
        RowSampling(),
        RowSampling(method="leverage"),
        Embedding(),
        Embedding(storage="float32"),
        Embedding(kind="countsketch", storage="float32"),
        Embedding(kind="countsketch"),
        Embedding(kind="countsketch", groups=3),
        Embedding(kind="countsketch", storage="float32", groups=3),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(3000, 200), (300, 1500), (60000, 40)])
@pytest.mark.parametrize("kind", ["dense", "columns", "csr"])
def test_memory_is_predicted(spec, shape, kind, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    if kind == "columns":
        X = np.asfortranarray(X)
        monkeypatch.setattr(embedding, "LARGE_MATRIX", 0)
    X = sparse.random_array(shape, density=0.1, rng=rng, format="csr") if kind == "csr" else X
    problem = make(X, np.ones(shape[0]), LAM)
    assert problem.raw_trace > 0
    predicted = 8 * spec.memory(problem)
    build(spec, problem)  # what is loaded and compiled at first is not meant
    peak = peak_of(lambda: build(spec, problem))
    few_vectors = 8 * 10 * sum(shape)
    assert peak <= 1.1 * predicted + few_vectors, f"{peak / predicted:.2f} of the prediction"


@pytest.mark.parametrize("empty", [0, 100], ids=["full", "columns of zeros"])
@pytest.mark.parametrize("rows", [2600, 1800])
def test_the_memory_of_flattened_rows_is_predicted(monkeypatch, empty, rows):
    for module in (narrow, flattening, gram, products, row_sums):
        monkeypatch.setattr(module, "thread_count", lambda: 2)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 500)) * np.arange(1.0, 501) ** -2
    X[:, 500 - empty :] = 0.0
    problem = make(X, X @ np.ones(500), 1e-8)
    assert problem.raw_trace > 0
    spec = Embedding(rows=rows, kind="countsketch", storage="float32")
    predicted = 8 * spec.memory(problem)
    assert "factorised in float32" in build(spec, problem).notes
    peak = peak_of(lambda: build(spec, problem))
    assert 0.6 * predicted <= peak <= 1.02 * predicted, f"{peak / predicted:.2f} of the prediction"


@pytest.mark.parametrize(
    ("make_spec", "error", "said"),
    [
        (lambda: Diagonal(exponent=2), ValueError, "exponent=2"),
        (lambda: Diagonal(exponent=-1), ValueError, "exponent=-1"),
        (lambda: Diagonal(exponent="x"), TypeError, "exponent='x'"),
        (lambda: Nystrom(scaling=1.5), ValueError, "scaling=1.5"),
        (lambda: Lanczos(scaling=None), TypeError, "scaling=None"),
        (lambda: RowSampling(rows=0), ValueError, "rows=0"),
        (lambda: RowSampling(rows="all"), TypeError, "rows='all'"),
        (lambda: RowSampling(method="best"), ValueError, "method='best'"),
        (lambda: Embedding(rows=True), TypeError, "rows=True"),
        (lambda: Embedding(kind="gauss"), ValueError, "kind='gauss'"),
        (lambda: Embedding(storage="half"), ValueError, "storage='half'"),
        (lambda: Embedding(groups=0), ValueError, "groups=0"),
        (lambda: Embedding(groups=1.5), TypeError, "groups=1.5"),
    ],
)
def test_parameters_without_meaning_are_refused_by_name(make_spec, error, said):
    with pytest.raises(error, match=said):
        make_spec()


@pytest.mark.parametrize("spec", [RowSampling(rows=61), Embedding(rows=61)], ids=str)
def test_more_rows_than_there_are_are_refused(spec):
    with pytest.raises(ValueError, match=r"rows=61 .*X has 60"):
        solve(matrix("C", "tall"), np.ones(60), LAM, "cg", spec)


@pytest.mark.parametrize("spec", [RowSampling(), Embedding()], ids=lambda spec: spec.name)
def test_a_factor_that_memory_cannot_hold_is_refused_in_numbers(spec, monkeypatch):
    monkeypatch.setattr(base, "machine_memory", lambda: 1000.0)
    with pytest.raises(ValueError, match=r"14 × 14 matrix.*rows=7 or fewer, or use 'nystrom'"):
        solve(matrix("C", "tall"), np.ones(60), LAM, "cg", spec)
    fewer = solve(matrix("C", "tall"), np.ones(60), LAM, "cg", type(spec)(rows=7))
    assert fewer.converged


def test_the_machine_tells_its_memory():
    assert base.machine_memory() > 1e8


# -- the certificate ---------------------------------------------------------------------------


def random_specs(case, rng):
    """Every form of certificate that is not low rank plus identity."""
    count = int(rng.integers(1, case.X.shape[0], endpoint=True))
    rank, scaling = random_rank(case, rng), float(rng.choice([0.5, 1.0]))
    groups = int(rng.integers(1, count, endpoint=True))
    return {
        "uniform": RowSampling(count),
        "leverage": RowSampling(count, "leverage"),
        "sparse sign": Embedding(count),
        "countsketch": Embedding(count, "countsketch"),
        "narrow": Embedding(max(count, min(case.X.shape)), storage="float32"),
        "groups": Embedding(count, "countsketch", groups=groups),
        "narrow groups": Embedding(count, "countsketch", "float32", groups=groups),
        "scaled nystrom": Nystrom(rank, scaling=scaling),
        "scaled lanczos": Lanczos(rank, blocks=2, scaling=scaling),
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_a_certified_gap_is_never_below_the_true_gap(family):
    rng = np.random.default_rng(list(FAMILIES).index(family) + 100)
    audit = Audit()
    for _ in range(40):
        case = Case.draw(family, rng)
        problem, exact = case.problem(), case.exact()
        forms = {name: spec.build(problem, rng) for name, spec in random_specs(case, rng).items()}
        other = case.lam * 10.0 ** rng.uniform(-3, 3)
        forms |= {
            f"{n} moved": forms[n].at(other).at(case.lam)
            for n in ("uniform", "sparse sign", "narrow", "groups", "narrow groups")
        }
        for point, W in points(exact, rng):
            evaluation = problem.evaluate(W)
            truth = exact.gap(W, problem.intercept(W))
            for form, built in forms.items():
                certified = certified_gap(problem, built.curvature(), evaluation)
                audit.check(case, form, point, certified, truth)
    assert min(audit.checks.values()) >= 120
    audit.verdict()


@pytest.mark.parametrize("method", ["cg", "gd", "agd", "sketch_and_solve"])
def test_the_gap_of_a_solution_is_never_below_the_true_gap(method):
    rng = np.random.default_rng(7)
    audit = Audit()
    for seed in range(120):
        case = Case.draw(rng.choice(list(FAMILIES)), rng)
        specs = {**random_specs(case, rng), "diagonal": Diagonal()}
        name = rng.choice(list(specs)) if method != "sketch_and_solve" else "none"
        solution = case.solve(
            solver=method,
            preconditioner=specs.get(name, "none"),
            tol=10.0 ** rng.uniform(-15, -1),
            max_passes=50,
            random_state=seed,
        )
        truth = case.exact().gap(solution.coef.T, solution.intercept)
        audit.check(case, name, solution.status.name, solution.gap, truth)
    audit.verdict()


@pytest.mark.parametrize("spec", [*SCALED, *SAMPLED, *SPECIAL], ids=str)
@every_shape
def test_what_a_certificate_rests_on_is_below_H(spec, shape):
    """c·gᵀP⁻¹g ≥ gᵀH⁻¹g for every g: in double precision, on larger problems than the exact."""
    problem = problem_of("csr", shape, True)
    H = dense_parts(problem)[1] + LAM * np.eye(problem.d)
    curvature = build(spec, problem).curvature()
    G = np.random.default_rng(0).standard_normal((problem.d, 50))
    truth = np.sum(G * np.linalg.solve(H, G), axis=0)
    assert np.all(curvature.constant * curvature.energy(G) >= truth * (1 - 1e-9))


def test_the_certificate_of_sampled_rows_is_tight_where_rows_are_alike():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 30)) * 10.0 ** rng.uniform(-2, 0, 30)
    y = rng.standard_normal(4000)
    truth = literal.ridge_solution(X, y, 1e-8)
    H = literal.correlation(X) + 1e-8 * np.eye(30)
    for spec, most in [(RowSampling(1000), 8), (Embedding(1000), 30)]:
        solution = solve(X, y, 1e-8, "cg", spec, tol=1e-6, random_state=0)
        excess = 0.5 * (solution.coef - truth) @ H @ (solution.coef - truth)
        assert 1 <= solution.gap / excess <= most


def test_a_lambda_below_the_accuracy_of_float64_is_raised_in_P_and_said_so():
    rng = np.random.default_rng(0)
    X, y = with_spectrum(rng, 40, 6, np.logspace(0, -6, 6)), rng.standard_normal(40)
    case = Case(X, y[:, None], 1e-17, None, False)
    for spec in (RowSampling(30), Embedding(30), RowSampling(3), Embedding(3)):
        solution = case.solve(solver="cg", preconditioner=spec, random_state=0, max_passes=100)
        assert any("raised from 1e-17" in note for note in solution.plan.notes)
        truth = case.exact().gap(solution.coef.T, solution.intercept)
        assert solution.gap >= truth


def test_the_degrees_of_freedom_are_bounded():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 5)) * 10.0 ** rng.uniform(-2, 0, 5), rng.standard_normal(12)
    for lam in 10.0 ** np.arange(-6.0, 2.0):
        expected = degrees_of_freedom(X, lam, fit_intercept=True)
        for spec in [
            *SAMPLED[1:4],
            Embedding(12, storage="float32"),
            Embedding(12, storage="float32", groups=3),
            Embedding(9, groups=2),
            Embedding(3),
            Embedding(kind="countsketch"),
            Diagonal(),
        ]:
            settings = {"fit_intercept": True, "random_state": 0, "tol": 0.1}
            solution = solve(X, y, lam, "cg", spec, **settings)
            low, high = solution.degrees_of_freedom_bounds
            assert low <= expected * (1 + 1e-9) and expected <= high * (1 + 1e-9)


# -- the factor --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_sketched_rows_multiply_as_their_dense_matrix(shape, sparse_rows):
    rng = np.random.default_rng(0)
    B, mean, shift = rng.standard_normal(shape), rng.standard_normal(shape[1]), np.arange(shape[0])
    A = B - np.outer(shift, mean)
    given = sparse.csr_array(B) if sparse_rows else B.copy()
    rows = SketchedRows.of(given, mean, shift.astype(float))
    V, R = rng.standard_normal((shape[1], 2)), rng.standard_normal((shape[0], 2))
    np.testing.assert_allclose(rows.multiply(V), A @ V, atol=1e-12)
    np.testing.assert_allclose(rows.adjoint(R), A.T @ R, atol=1e-12)
    np.testing.assert_allclose(rows.gram(), A.T @ A, atol=1e-11)
    np.testing.assert_allclose(rows.outer(), A @ A.T, atol=1e-11)
    factor, notes = factorise(rows, 0.5)
    P = A.T @ A + 0.5 * np.eye(shape[1])
    np.testing.assert_allclose(factor.solve(V), np.linalg.solve(P, V), atol=1e-12)
    energy = np.sum(V * np.linalg.solve(P, V), axis=0)
    np.testing.assert_allclose(factor.energy(V), energy, rtol=1e-9)
    np.testing.assert_allclose(
        factor.cholesky.inverse_trace,
        np.trace(np.linalg.inv((A.T @ A if shape[0] > 4 else A @ A.T) + 0.5 * np.eye(4))),
    )
    assert notes == ()
    assert factor.cholesky.array.flags.f_contiguous  # else LAPACK copies it with every use


@pytest.mark.parametrize("mu", [1e-2, 1e-6, 1e-9, 1e-11])
@pytest.mark.parametrize("seed", range(3))
def test_the_energy_by_few_rows_is_an_upper_bound_and_a_close_one(mu, seed):
    """In rational arithmetic: a gradient that lies along the rows, but for a little of it."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((5, 12)) * 10.0 ** rng.uniform(-1, 0, 12)
    g = A.T @ rng.standard_normal((5, 1)) + 1e-6 * rng.standard_normal((12, 1))
    exact, right = rationals(A), rationals(g)
    P = exact.T @ exact
    P[np.arange(12), np.arange(12)] += rationals(np.array(mu))
    truth = (right.T @ solve_exactly(P, right))[0, 0]
    energy = factorise(SketchedRows(A), mu)[0].energy(g)[0]
    assert truth <= energy
    if mu >= 1e-9:
        assert energy <= 1.001 * truth


@pytest.mark.parametrize("mu", [1e-8, 1e-5, 1e-2])
def test_a_large_factor_guesses_its_degrees_of_freedom(mu):
    A = with_spectrum(np.random.default_rng(0), 300, 400, np.arange(1.0, 301.0) ** -1.5)
    values = np.linalg.svd(A, compute_uv=False) ** 2
    cholesky = factorise(SketchedRows(A), mu)[0].cholesky
    expected = np.sum(values / (values + mu))
    assert cholesky.effective_dimension == pytest.approx(expected, rel=1e-6)
    assert cholesky.guessed_dimension == pytest.approx(expected, abs=0.05 * 300)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("lam", [1e-7, 1e-5, 1e-3])
def test_a_sample_counts_the_degrees_of_freedom_from_above(power, lam):
    X = with_spectrum(np.random.default_rng(0), 3000, 400, np.arange(1.0, 401.0) ** -power)
    X *= np.sqrt(len(X))
    values = np.linalg.eigvalsh(literal.correlation(X))
    expected = np.sum(values / (values + lam))
    counted = counted_dimension(make(X, np.zeros(3000), lam), 200, np.random.default_rng(1))
    assert counted >= 0.9 * expected
    if expected <= 50:
        assert counted <= 1.6 * expected + 2


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_outer_product_of_a_sample_is_that_of_its_rows(fit_intercept):
    rng = np.random.default_rng(4)
    X, weights = rng.standard_normal((200, 90)) + 1.0, rng.random(200)
    problem = RidgeProblem(X, np.zeros((200, 1)), 1e-3, weights, fit_intercept)
    sample = RowSample.uniform(problem, 40, rng)
    rows = sample.rows(problem).matrix
    assert sample.outer(problem) == pytest.approx(rows @ rows.T, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
@pytest.mark.filterwarnings("error")
def test_a_sample_of_rows_that_are_no_numbers_counts_nothing(value):
    X = np.random.default_rng(5).standard_normal((60, 80))
    X[:, 7] = value  # rows are checked later, by whoever reads all
    assert counted_dimension(make(X, np.zeros(60), 1e-3), 20, np.random.default_rng(0)) == np.inf


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["countsketch", "sparse_sign"])
def test_rows_embedded_block_by_block_make_the_same_preconditioner(
    kind, fit_intercept, monkeypatch
):
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((300, 20)) + 1.0, rng.standard_normal((300, 1))
    weights = rng.random(300)
    problem = RidgeProblem(X, Y, 1e-3, weights, fit_intercept)
    whole = Embedding(rows=70, kind=kind).build(problem, np.random.default_rng(0))
    monkeypatch.setattr(embedding, "LARGE_MATRIX", 0)
    monkeypatch.setattr(embedding, "_block", lambda d: 16)  # 70 rows make four blocks and a rest
    parts = Embedding(rows=70, kind=kind).build(problem, np.random.default_rng(0))
    assert parts.factor.cholesky.array == pytest.approx(whole.factor.cholesky.array, abs=1e-11)
    assert parts.factor.cholesky.size == pytest.approx(whole.factor.cholesky.size)
    assert parts.describes(problem)
    # The embedded rows themselves, from a dense S.
    S = parts.source.weighted(problem).toarray()
    A = S @ (X if problem.mean is None else X - problem.mean)
    G = rng.standard_normal((20, 1))
    assert parts.apply(G) == pytest.approx(np.linalg.solve(A.T @ A + 1e-3 * np.eye(20), G))


# -- a factor in float32 -----------------------------------------------------------------------


def narrow_problem(seed, lam=1e-8, offset=0.0):
    """Decaying spectrum, trace one, a zero column, as few rows as a rational check bears."""
    rng = np.random.default_rng(seed)
    X = with_spectrum(rng, 90, 12, 0.5 ** np.arange(12.0)) + offset
    X[:, 4] = 0.0
    X /= np.sqrt(np.mean(np.sum(X**2, axis=1)))
    return make(X, X @ rng.standard_normal(12) + rng.standard_normal(90), lam)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lam", [1e-9, 1e-8, 1e-4])
@pytest.mark.parametrize("rows", [40, 10])
def test_the_energy_by_a_narrow_factor_is_an_upper_bound_and_a_close_one(seed, lam, rows):
    problem = narrow_problem(seed, lam, offset=0.3)
    factor = build(Embedding(rows=rows, storage="float32"), problem).factor
    assert not factor.exact and factor.rows.matrix.dtype == np.float32
    assert factor.side == (11 if rows == 40 else 10)  # what is zero is not factorised
    A = rationals(factor.rows.widened())
    P = A.T @ A + rationals(lam * np.eye(12))
    G = np.random.default_rng(seed).standard_normal((12, 3)) * 10.0 ** np.array([-6.0, 0.0, 3.0])
    exact = np.sum(rationals(G) * solve_exactly(P, rationals(G)), axis=0)
    bound = factor.energy(G)
    assert all(truth <= float(given) for truth, given in zip(exact, bound, strict=True))
    if rows == 40 or lam >= 1e-8:  # few rows in float32 are not taken for less
        assert np.all(bound <= 1.2 * exact.astype(float))


@pytest.mark.parametrize("rows", [60, 10])
def test_a_narrow_factor_preconditions_as_the_wide_one_does(rows):
    problem = narrow_problem(0)
    H = dense_parts(problem)[1] + problem.lam * np.eye(12)
    wide, narrow = (build(Embedding(rows=rows, storage=s), problem) for s in ("float64", "float32"))
    conditions = []
    for built in (wide, narrow):
        values = np.linalg.eigvals(inverse_of(built) @ H).real
        conditions.append(values.max() / values.min())
    assert conditions[1] <= 4 * conditions[0]
    np.testing.assert_allclose(inverse_of(narrow), inverse_of(narrow).T, rtol=1e-6)


def test_what_float32_cannot_hold_is_factorised_in_float64_and_said_so():
    rng = np.random.default_rng(0)
    X, y = 1e25 * rng.standard_normal((80, 6)), rng.standard_normal(80)
    spec = Embedding(rows=30, storage="float32")
    solution = solve(X, y, 1e40, solver="cg", preconditioner=spec, random_state=0)
    assert solution.converged and solution.preconditioner.factor.exact
    assert "embedded again, in float64" in str(solution.plan)
    thin = solve(sparse.csr_array(X / 1e25), y, 1e-8, "cg", spec, random_state=0)
    assert "kept in float64" in str(thin.plan)


@pytest.mark.parametrize("power", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("share", [1e-7, 1e-8, 1e-9])
def test_a_narrow_factor_of_few_rows_is_positive(power, share):
    """It is made by a difference, and what float32 rounds must not make it negative."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 250)) * np.arange(1.0, 251.0) ** -power
    lam = share * float(np.sum(X**2)) / 900
    built = build(Embedding(rows=150, storage="float32"), make(X, np.zeros(900), lam))
    assert not built.factor.exact
    inverse = inverse_of(built)
    values = np.linalg.eigvalsh((inverse + inverse.T) / 2)
    assert values.min() > 0 and values.max() < 2 / lam


@pytest.mark.parametrize("density, share", [(0.95, 1.5e-7), (0.5, 1e-8)])
@pytest.mark.parametrize("n", [200, 333])
def test_a_narrow_factor_of_few_rows_of_zeros_and_ones_is_positive(n, density, share):
    """Products that are all alike are all rounded the same way, and the errors add up."""
    rng = np.random.default_rng(0)
    X = (rng.random((n, 1500)) < density).astype(float)
    problem = make(X, rng.standard_normal(n), share * float(np.sum(X**2)) / n)
    built = build(Embedding(rows=n, kind="countsketch", storage="float32"), problem)
    leading = np.linalg.svd(X, full_matrices=False)[2][:20].T
    energies = np.sum(leading * built.apply(leading), axis=0)
    assert not built.factor.exact and energies.min() > 0


def flattened_directions(X, share):
    """How many directions are flattened for a λ of this share of the trace."""
    problem = make(X, np.zeros(len(X)), share * float(np.sum(X**2)) / len(X))
    spec = Embedding(rows=len(X) // 2, kind="countsketch", storage="float32")
    return build(spec, problem).factor.flattening.shares.size


def test_rows_are_flattened_where_that_makes_up_for_rounding():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((400, 60))
    steep = noise * np.arange(1.0, 61.0) ** -2.0
    assert flattened_directions(steep, 1e-8) == 8
    assert flattened_directions(steep, 1e-6) == 0  # what float32 rounds is less than λ
    assert flattened_directions(noise, 1e-8) == 0  # all directions are alike


def test_rows_of_zeros_to_learn_from_are_flattened_by_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1200, 40)), rng.standard_normal(1200)
    weight = np.arange(1200.0) % 2  # of the 1200 rows every other one is learnt from
    spec = Embedding(rows=1200, kind="countsketch", storage="float32")
    solution = solve(X, y, 4e-8, "cg", spec, sample_weight=weight, random_state=0)
    assert solution.converged


def breaks_down(rows, mu):
    raise np.linalg.LinAlgError("as float32 may")


def test_the_memory_for_another_lambda_counts_what_is_widened(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.zeros((1500, 1000))
    X[:, :40] = rng.standard_normal((1500, 40))
    built = build(Embedding(rows=900, storage="float32"), make(X, np.ones(1500), 1e-3))
    monkeypatch.setattr(narrow, "factorise_narrow", breaks_down)
    assert built.at(1e-20).factor.exact  # in float64
    peak = peak_of(lambda: built.at(1e-20))
    assert peak <= 8 * built.memory(make(X, np.ones(1500), 1e-20))


@pytest.mark.parametrize("n", [10, 97, 12107])
def test_even_buckets_are_about_as_many_and_as_full_as_one_another(n):
    for rows in range(1, n + 1, max(1, n // 50)):
        even = even_buckets(rows, n)
        assert 0.65 * rows <= even <= 1.5 * rows + 1 and even <= n
        fullest = RowEmbedding("countsketch", even, n, 0).fullest
        assert fullest <= round(n / rows) and fullest * (even - 1) < n


def test_a_shift_counts_in_the_curvature_at_every_lambda():
    problem = narrow_problem(0, lam=1.0)
    spec = Embedding(rows=30, shift=1.0)
    for lam in (1e-3, 10.0):
        moved = build(spec, problem).at(lam)
        fresh = build(spec, narrow_problem(0, lam=lam))
        assert moved.least_curvature == pytest.approx(fresh.least_curvature)


@pytest.mark.parametrize("rows", [70, 12])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_rows_that_are_rounded_as_they_are_embedded_are_the_same(rows, fit_intercept, monkeypatch):
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((300, 20)) + 1.0, rng.standard_normal((300, 2))
    X[:, 7] = 0.0
    problem = RidgeProblem(X, Y, 1e-3, rng.random(300), fit_intercept)
    spec = Embedding(rows=rows, storage="float32")
    whole = build(spec, problem)
    monkeypatch.setattr(embedding, "LARGE_MATRIX", 0)
    fused = build(spec, problem)
    S = fused.source.weighted(problem).toarray()
    A = S @ (X if problem.mean is None else X - problem.mean)
    for rows_of in (fused.factor.rows, whole.factor.rows):
        assert rows_of.matrix.shape == (rows, 19)  # without the column of zeros
        np.testing.assert_allclose(rows_of.widened(), A, rtol=1e-6, atol=1e-8)
        assert rows_of.size == pytest.approx(np.sum(A**2))
    np.testing.assert_allclose(fused.probe, A @ probe_vector(20), atol=1e-12)
    np.testing.assert_allclose(fused.start, whole.start, rtol=1e-3, atol=1e-6)
    assert fused.describes(problem)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("rows", [70, 12, 300])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("d", [20, 21, 3])
def test_columns_are_embedded_where_they_lie(d, rows, fit_intercept, storage, dtype, monkeypatch):
    rng = np.random.default_rng(3)
    X = np.asfortranarray(rng.standard_normal((300, d)) + 1.0, dtype=dtype)
    X[:, 1] = 0.0
    problem = RidgeProblem(X, rng.standard_normal((300, 2)), 1e-3, rng.random(300), fit_intercept)
    spec = Embedding(rows=rows, kind="countsketch", storage=storage)
    whole = build(spec, problem)
    monkeypatch.setattr(embedding, "LARGE_MATRIX", 0)
    monkeypatch.setattr(embedding, "_product", None)  # nothing is copied to rows first
    made = build(spec, problem)
    np.testing.assert_allclose(made.probe, whole.probe, atol=1e-12)
    np.testing.assert_allclose(made.start, whole.start, rtol=1e-3, atol=1e-6)
    G = rng.standard_normal((d, 1))
    np.testing.assert_allclose(made.apply(G), whole.apply(G), rtol=1e-4, atol=1e-4)
    assert made.describes(problem)
    if storage == "float32":
        A = made.source.weighted(problem).toarray() @ X
        A -= 0.0 if problem.mean is None else np.outer(shift_of(made, problem), problem.mean)
        np.testing.assert_allclose(made.factor.rows.widened(), A, rtol=1e-5, atol=1e-7)
        assert made.factor.rows.size == pytest.approx(np.sum(A**2))


def shift_of(built, problem):
    """What of the mean each embedded row has, (s,)."""
    return built.source.weighted(problem) @ np.ones(problem.n)


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("rows", [30, 9])
def test_a_shift_takes_the_place_of_a_smaller_lambda(rows, storage):
    problem = narrow_problem(0, lam=1e-6)
    built = build(Embedding(rows=rows, storage=storage, shift=1e-3), problem)
    A = built.source.weighted(problem).toarray() @ problem.X
    expected = np.linalg.inv(A.T @ A + 1e-3 * np.eye(12))
    np.testing.assert_allclose(inverse_of(built), expected, rtol=1e-2, atol=1e-2)
    assert built.factor.mu == 1e-3 and built.at(1e-4).factor.mu == 1e-3
    assert built.at(1.0).factor.mu == 1.0
    assert built.curvature().constant >= 1e3


@pytest.mark.parametrize("shift", [-1.0, np.nan, np.inf])
def test_a_shift_out_of_range_is_refused(shift):
    with pytest.raises(ValueError, match="shift"):
        Embedding(shift=shift)


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("spec", [NARROW, NARROW_FEW])
def test_a_solve_with_a_narrow_factor_is_certified_on_the_data_as_given(tol, spec):
    problem = narrow_problem(1)
    solution = solve(
        problem.X,
        problem.Y[:, 0],
        1e-8,
        solver="cg",
        preconditioner=spec,
        tol=tol,
        random_state=0,
    )
    best = solve(problem.X, problem.Y[:, 0], 1e-8, solver="direct").objective
    assert solution.converged and "float32" in str(solution.plan)
    assert solution.objective - best <= solution.gap <= tol * problem.null_objective[0]


@pytest.mark.parametrize("storage", ["float64", "float32"])
def test_a_change_that_the_probe_does_not_see_makes_other_data(storage):
    """Both are known for alike by A times the probe; the rows' norms differ by 1e-8 of them."""
    rng = np.random.default_rng(0)
    X, y, probe = rng.standard_normal((60, 8)), rng.standard_normal(60), probe_vector(8)[:, 0]
    u = np.zeros(8)
    u[0], u[1] = probe[1], -probe[0]
    u /= np.linalg.norm(u)
    flat = X - np.outer(X @ u, u)
    spec = Embedding(rows=30, storage=storage)
    built = build(spec, make(flat + 1e-4 * np.outer(rng.standard_normal(60), u), y, 1e-12))
    assert not built.describes(make(flat, y, 1e-12))
    assert build(spec, make(flat, y, 1e-12)).describes(make(flat, y, 1e-12))


@pytest.mark.parametrize("lam", [1e-17, 1e-9, 1e3, 1e39])
@pytest.mark.parametrize("spec", [NARROW, NARROW_FEW])
def test_narrow_rows_serve_at_any_lambda(lam, spec):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 6)), rng.standard_normal(80)
    first = solve(X, y, 1e-6, "cg", spec, random_state=0)
    assert not first.preconditioner.factor.exact
    problem = make(X, y, lam)
    moved = first.preconditioner.at(lam)
    assert moved.factor.inflation > 1.0  # whatever it is factorised in, the rows are rounded
    evaluation = problem.evaluate(np.ones((6, 1)))
    exact = ExactRidge(X, y[:, None], lam).gap(np.ones((6, 1)), np.zeros(1))
    assert exact[0] <= float(certified_gap(problem, moved.curvature(), evaluation)[0])
    again = solve(X, y, lam, "cg", first.preconditioner, tol=1e-3)
    assert again.converged


def test_a_lambda_that_float32_cannot_certify_is_factorised_in_float64():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 8)), rng.standard_normal(60)
    solution = solve(X, y, 1e-16, "cg", Embedding(rows=30, storage="float32"), random_state=0)
    assert solution.converged and "embedded again, in float64" in str(solution.plan)


@pytest.mark.parametrize("rows", [30, 8])
def test_what_certifies_a_narrow_factor_is_no_later_and_below(rows):
    """μ is raised as far as the constant allows, and not beyond what was factorised."""
    problem = narrow_problem(0, lam=1e-8)
    built = build(Embedding(rows=rows, kind="countsketch", storage="float32"), problem)
    curvature = built.curvature()
    excess = built.factor.inflation * built.source.excess
    assert built.factor.mu == problem.lam < curvature.factor.mu <= excess * problem.lam
    assert curvature.factor.mu <= built.factor.raised
    assert curvature.constant == pytest.approx(excess, rel=1e-3)
    A, (_, C) = built.factor.rows.widened(), dense_parts(problem)
    P = A.T @ A + curvature.factor.mu * np.eye(problem.d)
    room = curvature.constant * (C + problem.lam * np.eye(problem.d)) - P
    assert np.linalg.eigvalsh(room)[0] >= -1e-12
    G = np.random.default_rng(0).standard_normal((problem.d, 4))
    assert np.all(curvature.energy(G) <= built.factor.energy(G) * (1 + 1e-9))


@pytest.mark.parametrize("steep", [False, True], ids=["even", "steep"])
@pytest.mark.parametrize(
    ("shape", "few_columns"),
    [((20, 60), 1000), ((2500, 40), 1000), ((4200, 24), 1), ((30, 24), 1000)],
    ids=["few rows", "a sum for every thread", "blocks of rows", "hardly more rows"],
)
def test_the_matrix_to_factorise_is_that_of_flattened_rows(monkeypatch, shape, few_columns, steep):
    monkeypatch.setattr(gram, "FEW_COLUMNS", few_columns)
    for module in (flattening, gram):
        monkeypatch.setattr(module, "thread_count", lambda: 2)
    # Several blocks of each kind, the last of them shorter.
    for name, value in {"BLOCK": 1000, "CHUNK": 7, "OWN_BLOCK": 100, "BLOCK_BYTES": 2000}.items():
        monkeypatch.setattr(flattening, name, value)
    rng = np.random.default_rng(0)
    sizes = np.arange(1.0, shape[1] + 1) ** (-3.0 if steep else 0.0)
    rows = NarrowRows.of(rng.standard_normal(shape) * sizes)
    flattened = Flattening.of(rows, 1e-9 * rows.size)
    assert bool(flattened.shares.size) is (steep or rows.few)
    found = flattened.smaller_side(rows)
    flat = rows.widened() @ flattened.apply(np.eye(shape[1]))
    expected = flat @ flat.T if rows.few else flat.T @ flat
    np.testing.assert_allclose(
        np.tril(found), np.tril(expected), rtol=0, atol=1e-6 * np.trace(expected)
    )


@pytest.mark.parametrize("filled", ["all", "but one in three", "the last", "none but the first"])
def test_columns_of_zeros_are_left_out_of_narrow_rows(filled):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((7, 9))
    kept = {
        "all": np.arange(9),
        "but one in three": np.array([0, 1, 3, 4, 6, 7]),
        "the last": np.array([8]),
        "none but the first": np.array([0]),
    }[filled]
    rows[:, np.setdiff1d(np.arange(9), kept)] = 0.0
    packed = NarrowRows.of(rows)
    np.testing.assert_array_equal(packed.matrix, rows[:, kept].astype(np.float32))
    np.testing.assert_array_equal(packed.widened(), rows.astype(np.float32))
