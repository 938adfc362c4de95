"""The sketches against the literal Algorithm 2, dense decompositions and the paper's identities."""

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse

from sketchridge import sketch
from sketchridge.preconditioner import Exact, Lanczos, Nystrom
from sketchridge.sketch import block_lanczos, exact_pairs, paper_blocks, random_range
from tests import literal
from tests.problems import (
    average_condition_number,
    correlation_factor,
    decaying,
    dense_of,
    make,
    sparse_rows,
    with_spectrum,
)

SPECS = [Lanczos(rank=4), Nystrom(rank=6), Exact(rank=4)]


def problem_of(X, sample_weight=None, fit_intercept=False):
    return make(X, np.zeros(X.shape[0]), 1e-3, sample_weight, fit_intercept)


def factor_of(problem):
    return correlation_factor(problem.X, problem.weights, problem.mean is not None)


def norm(M):
    return np.linalg.norm(M, 2) if M.size else 0.0


def projector(U):
    return U @ U.T


def assert_is_a_krylov_space(krylov, C):
    """The frame is orthonormal, and C Q = Q̂ T̂ to rounding."""
    Q, T = krylov.frame, krylov.coefficients
    assert norm(Q.T @ Q - np.eye(Q.shape[1])) < 1e-12
    assert norm(C @ Q[:, : krylov.expanded] - Q @ T) <= 1e-14 * len(C) * norm(C)


def assert_is_algorithm_2(problem, k, q, seed):
    krylov = block_lanczos(problem, k, q, np.random.default_rng(seed))
    X_bar = factor_of(problem)
    Pi = np.random.default_rng(seed).standard_normal((problem.n, k))
    U, sigma, _ = literal.block_lanczos(X_bar, k, q, Pi)
    basis, values = krylov.ritz(k)
    assert np.allclose(values, sigma**2, rtol=1e-9, atol=1e-13 * sigma[0] ** 2)
    assert norm(projector(basis) - projector(U)) < 1e-7
    whole = scipy.linalg.orth(literal.krylov_matrix(X_bar, q, Pi))
    assert krylov.expanded == whole.shape[1]
    assert norm(projector(krylov.frame[:, : krylov.expanded]) - projector(whole)) < 1e-6
    assert_is_a_krylov_space(krylov, X_bar @ X_bar.T)


# Block Lanczos ----------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("kind", ["tall", "wide", "sparse"])
def test_block_lanczos_is_algorithm_2(kind, q):
    rng = np.random.default_rng(0)
    data = {
        "tall": decaying(rng, 60, 30),
        "wide": decaying(rng, 25, 50),
        "sparse": sparse_rows(rng, 60, 30),
    }
    assert_is_algorithm_2(problem_of(data[kind]), 4, q, seed=7)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_block_lanczos_is_algorithm_2_on_weighted_and_centred_rows(kind, fit_intercept):
    rng = np.random.default_rng(1)
    X = decaying(rng, 50, 24) + 1.0 if kind == "dense" else sparse_rows(rng, 50, 24)
    weights = rng.uniform(0.0, 2.0, 50)
    weights[:4] = 0.0
    assert_is_algorithm_2(problem_of(X, weights, fit_intercept), 3, 2, seed=8)


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize(
    "n, d, k", [(12, 30, 12), (30, 12, 12), (12, 12, 12), (30, 12, 1), (12, 30, 1), (1, 8, 1)]
)
def test_any_rank_up_to_the_smaller_side_works(n, d, k, q):
    X = decaying(np.random.default_rng(2), n, d)
    problem = problem_of(X)
    krylov = block_lanczos(problem, k, q, np.random.default_rng(0))
    C = literal.correlation(X)
    assert_is_a_krylov_space(krylov, C)
    basis, values = krylov.ritz(k)
    assert basis.shape == (d, k)
    if k == min(n, d):  # the space is the whole range of C
        assert np.allclose(values, np.linalg.eigvalsh(C)[::-1][:k], rtol=1e-10)
        assert krylov.exhausted


def deficient(kind):
    """A matrix, its rank and a width k to sketch it with."""
    rng = np.random.default_rng(3)
    if kind == "rank below k":
        return with_spectrum(rng, 30, 20, [1.0, 0.5, 0.1]), 3, 5
    if kind == "rank below qk":
        return with_spectrum(rng, 30, 40, np.linspace(1.0, 0.1, 8)), 8, 5
    if kind == "repeated columns":
        return np.repeat(decaying(rng, 30, 7), 3, axis=1), 7, 5
    if kind == "repeated rows":
        return np.repeat(decaying(rng, 4, 20), 9, axis=0), 4, 6
    X = np.zeros((30, 20))
    if kind == "one row":
        X[7] = rng.standard_normal(20)
    return X, int(kind == "one row"), 5


DEFICIENT = [
    "rank below k",
    "rank below qk",
    "repeated columns",
    "repeated rows",
    "one row",
    "zero",
]


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kind", DEFICIENT)
def test_rank_deficient_data_gives_its_own_rank(kind, storage, q):
    X, rank, k = deficient(kind)
    problem = problem_of(storage(X))
    krylov = block_lanczos(problem, k, q, np.random.default_rng(0))
    C = literal.correlation(X)
    assert_is_a_krylov_space(krylov, C)
    assert krylov.expanded == min(rank, q * k)
    if krylov.expanded == rank:
        assert krylov.exhausted
        _, values = krylov.ritz(rank)
        assert np.allclose(values, np.linalg.eigvalsh(C)[::-1][:rank], rtol=1e-10)


@pytest.mark.parametrize("decades", [4, 8, 12])
@pytest.mark.parametrize("k, q", [(3, 3), (13, 3), (10, 2), (20, 1), (30, 1)])
def test_singular_values_of_any_size_keep_the_space_exact(k, q, decades):
    X = with_spectrum(np.random.default_rng(4), 60, 40, np.logspace(0, -decades, 40))
    problem, C = problem_of(X), literal.correlation(X)
    eigenvalues = np.linalg.eigvalsh(C)[::-1]
    krylov = block_lanczos(problem, k, q, np.random.default_rng(0))
    assert krylov.expanded == k * q or eigenvalues[krylov.expanded] < 1e-15
    assert_is_a_krylov_space(krylov, C)
    one = random_range(problem, k, np.random.default_rng(0))
    assert norm(one.frame.T @ one.frame - np.eye(k)) < 1e-12
    assert np.allclose(one.image, C @ one.frame, atol=1e-14)
    _, values = krylov.ritz(k)
    assert np.all(values <= eigenvalues[:k] + 40 * np.finfo(float).eps)
    assert values[0] == pytest.approx(eigenvalues[0], rel=0.1)


def test_float32_data_is_sketched_in_float64():
    X = decaying(np.random.default_rng(5), 50, 30).astype(np.float32)
    for narrow in (X, sparse.csr_array(X)):
        krylov = block_lanczos(problem_of(narrow), 5, 3, np.random.default_rng(0))
        wide = block_lanczos(problem_of(X.astype(float)), 5, 3, np.random.default_rng(0))
        assert krylov.frame.dtype == np.float64
        assert_is_a_krylov_space(krylov, literal.correlation(X.astype(float)))
        assert np.allclose(krylov.ritz(5)[1], wide.ritz(5)[1], rtol=1e-12)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sparse_and_dense_data_give_the_same_sketch(fit_intercept):
    X = sparse_rows(np.random.default_rng(6), 60, 30)
    bases, values = zip(
        *(
            block_lanczos(
                problem_of(data, None, fit_intercept), 5, 3, np.random.default_rng(0)
            ).ritz(5)
            for data in (X, X.toarray())
        ),
        strict=True,
    )
    assert np.allclose(*values, rtol=1e-12)
    assert norm(projector(bases[0]) - projector(bases[1])) < 1e-10


@pytest.mark.parametrize("q", [1, 2, 3, 5])
def test_block_lanczos_counts_a_pass_for_every_block_and_one_more(q):
    problem = problem_of(decaying(np.random.default_rng(7), 60, 50))
    _ = problem.trace
    before = problem.passes
    block_lanczos(problem, 4, q, np.random.default_rng(0))
    assert problem.passes - before == q + 1


def test_the_same_seed_gives_the_same_sketch():
    problem = problem_of(decaying(np.random.default_rng(8), 40, 30))
    a, b, c = (block_lanczos(problem, 4, 2, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(a.frame, b.frame)
    assert np.array_equal(a.coefficients, b.coefficients)
    assert norm(projector(a.frame) - projector(c.frame)) > 0.1


@pytest.mark.parametrize(
    "n, epsilon, q", [(1, 0.5, 1), (2, 0.5, 1), (1000, 0.5, 10), (20000, 0.5, 15), (10, 0.01, 24)]
)
def test_the_papers_number_of_blocks(n, epsilon, q):
    assert paper_blocks(n, epsilon) == q


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_three_blocks_condition_as_well_as_the_papers_many(power):
    n, d, k, lam = 400, 150, 10, 1e-6
    problem = problem_of(decaying(np.random.default_rng(9), n, d, power))
    numbers = {}
    for q in (3, paper_blocks(n, 0.5)):
        U, values = block_lanczos(problem, k, q, np.random.default_rng(0)).ritz(k)
        _, P_inv_sqrt, _ = literal.preconditioner_matrices(U, values, lam)
        numbers[q] = average_condition_number(factor_of(problem), lam, P_inv_sqrt)
    few, many = numbers.values()
    assert few == pytest.approx(many, rel=0.1)


# The Nyström approximation ----------------------------------------------------------------------


def lower_bounds(X, ranks=(6,), **options):
    """Sketches of every kind of X, with the problem that they are of."""
    problem, rng = problem_of(X, **options), np.random.default_rng(0)
    for rank in ranks:
        yield problem, random_range(problem, rank, rng)
        yield problem, block_lanczos(problem, rank, 1, rng)
        yield problem, block_lanczos(problem, rank, 3, rng)


def assert_never_exceeds_C(problem, krylov):
    X_bar, lower = factor_of(problem), krylov.nystrom()
    C, B = X_bar @ X_bar.T, lower.frame @ lower.rotation
    scale = norm(literal.correlation(dense_of(problem.X)))
    assert norm(B.T @ B - np.eye(B.shape[1])) < 1e-12
    assert 0 < lower.slack <= 1e-13 * scale + 1e-300
    excess = np.linalg.eigvalsh(B * lower.values @ B.T - C)[-1]
    assert excess <= lower.slack + 1e-15 * scale  # the rounding of this check itself


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", *DEFICIENT])
def test_the_nystrom_approximation_never_exceeds_C(kind, fit_intercept):
    rng = np.random.default_rng(10)
    X = {
        "dense": lambda: decaying(rng, 50, 30),
        "sparse": lambda: sparse_rows(rng, 50, 30),
    }.get(kind, lambda: deficient(kind)[0])()
    for problem, krylov in lower_bounds(X, 10 * [6], fit_intercept=fit_intercept):
        assert_never_exceeds_C(problem, krylov)


@pytest.mark.parametrize("decades", [4, 8, 12])
def test_the_nystrom_approximation_never_exceeds_C_whatever_the_spectrum(decades):
    X = with_spectrum(np.random.default_rng(10), 60, 40, np.logspace(0, -decades, 40))
    for problem, krylov in lower_bounds(X, ranks=(10, 20, 30, 40)):
        assert_never_exceeds_C(problem, krylov)


def test_the_slack_covers_rounding_when_the_sketch_is_wider_than_the_data():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        problem = problem_of(with_spectrum(rng, 30, 20, [1.0, 0.5, 0.1]))
        assert_never_exceeds_C(problem, random_range(problem, 6, rng))
        assert_never_exceeds_C(problem, block_lanczos(problem, 5, 3, rng))


def test_the_nystrom_approximation_agrees_with_C_on_the_space():
    for problem, krylov in lower_bounds(decaying(np.random.default_rng(11), 50, 30)):
        X_bar, lower = factor_of(problem), krylov.nystrom()
        Q, B = krylov.frame[:, : krylov.expanded], lower.frame @ lower.rotation
        approximation, C = B * lower.values @ B.T, X_bar @ X_bar.T
        assert np.allclose(approximation @ Q, C @ Q, atol=1e-12)
        textbook = C @ Q @ np.linalg.solve(Q.T @ C @ Q, Q.T @ C)
        assert np.allclose(approximation, textbook, atol=1e-12)


def test_splitting_a_vector_keeps_its_norm():
    G = np.random.default_rng(12).standard_normal((30, 3))
    for _, krylov in lower_bounds(decaying(np.random.default_rng(12), 50, 30)):
        lower = krylov.nystrom()
        coordinates, rest = lower.split(G)
        assert np.allclose(coordinates, (lower.frame @ lower.rotation).T @ G, atol=1e-13)
        assert np.allclose(np.sum(coordinates**2, axis=0) + rest, np.sum(G**2, axis=0), rtol=1e-12)


# Exact pairs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", ["dense", "iterative"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["tall", "wide", "sparse", "sparse and wide", "float32"])
def test_exact_pairs_are_the_singular_value_decomposition(kind, fit_intercept, route, monkeypatch):
    if route == "iterative":
        monkeypatch.setattr(sketch, "DENSE_EIGENPROBLEM", 5)
    rng = np.random.default_rng(13)
    X = {
        "tall": lambda: decaying(rng, 60, 25),
        "wide": lambda: decaying(rng, 25, 60),
        "sparse": lambda: sparse_rows(rng, 60, 25),
        "sparse and wide": lambda: sparse_rows(rng, 25, 60),
        "float32": lambda: decaying(rng, 60, 25).astype(np.float32),
    }[kind]()
    weights = rng.uniform(0.5, 2.0, X.shape[0])
    problem = problem_of(X, weights, fit_intercept)
    basis, values = exact_pairs(problem, 6, rng)
    U, sigma, _ = np.linalg.svd(factor_of(problem))
    assert np.allclose(values, sigma[:6] ** 2, rtol=1e-11)
    assert np.allclose(np.abs(U[:, :6].T @ basis), np.eye(6), atol=1e-7)
    assert norm(basis.T @ basis - np.eye(6)) < 1e-12


@pytest.mark.parametrize("n, d", [(12, 30), (30, 12)])
def test_exact_pairs_can_be_all_of_them(n, d):
    problem = problem_of(decaying(np.random.default_rng(14), n, d))
    basis, values = exact_pairs(problem, 12, np.random.default_rng(0))
    X_bar = factor_of(problem)
    assert np.allclose(basis * values @ basis.T, X_bar @ X_bar.T, atol=1e-14)


@pytest.mark.parametrize("route", ["dense", "iterative"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", DEFICIENT)
def test_exact_pairs_of_rank_deficient_data_make_up_C(kind, transposed, route, monkeypatch):
    if route == "iterative":
        monkeypatch.setattr(sketch, "DENSE_EIGENPROBLEM", 3)
    X, rank, _ = deficient(kind)
    X = X.T if transposed else X
    problem = problem_of(np.ascontiguousarray(X))
    basis, values = exact_pairs(problem, min(rank + 2, 10), np.random.default_rng(0))
    C = literal.correlation(X)
    assert norm(basis.T @ basis - np.eye(basis.shape[1])) < 1e-12
    assert norm(basis * values @ basis.T - C) <= 1e-13 * norm(C)


# Knowing the data again -------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_sketch_knows_its_own_data_again(spec, fit_intercept):
    rng = np.random.default_rng(15)
    X, weights = sparse_rows(rng, 50, 30), rng.uniform(0.5, 2.0, 50)
    spectrum = spec.build(problem_of(X, weights, fit_intercept), rng).spectrum
    assert spectrum.describes(problem_of(X, weights, fit_intercept))
    assert spectrum.describes(problem_of(X.copy(), 4 * weights, fit_intercept))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_sketch_refuses_the_data_of_others(spec):
    rng = np.random.default_rng(16)
    X, weights = decaying(rng, 50, 30), rng.uniform(0.5, 2.0, 50)
    spectrum = spec.build(problem_of(X, weights), rng).spectrum
    others = {
        "another matrix": problem_of(decaying(rng, 50, 30), weights),
        "permuted columns": problem_of(X[:, rng.permutation(30)], weights),
        "scaled": problem_of(X * (1 + 1e-5), weights),
        "other weights": problem_of(X, rng.uniform(0.5, 2.0, 50)),
        "no weights": problem_of(X),
        "centred": problem_of(X, weights, True),
        "zero": problem_of(np.zeros_like(X)),
    }
    assert [name for name, problem in others.items() if spectrum.describes(problem)] == []


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("shape", [(50, 30), (30, 50)])
def test_a_sketch_of_nothing_describes_nothing_else(spec, shape):
    rng = np.random.default_rng(17)
    spectrum = spec.build(problem_of(np.zeros(shape)), rng).spectrum
    assert spectrum.describes(problem_of(np.zeros(shape)))
    assert not spectrum.describes(problem_of(decaying(rng, *shape)))
