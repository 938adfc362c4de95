"""Every product of the data matrix against numpy on the same numbers, dense and in float64."""

import tracemalloc
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit
from scipy import sparse
from threadpoolctl import threadpool_limits

from sketchridge import gram, kernels, products, row_sums, sparse_products, threads
from sketchridge.gram import add_gram, mirrored
from sketchridge.products import ColumnProducts, DenseProducts, SampledProducts
from sketchridge.row_sums import gathered_sums
from sketchridge.sparse_products import SparseProducts
from sketchridge.threads import run_shared
from tests.problems import dense_of

SHAPES = [(37, 11), (11, 37), (1, 6), (6, 1)]
TINY_BLOCK = 200  # bytes: a few rows at most


def numbers(n, d):
    """Values of mixed size with an empty row and an empty column where there is room."""
    rng = np.random.default_rng(n + 100 * d)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -1.0
    X[rng.random((n, d)) < 0.6] = 0.0
    if min(n, d) > 2:
        X[n // 2], X[:, d // 2] = 0.0, 0.0
        X[-1], X[:, 0] = 0.0, 0.0
    return X


def read_only(X):
    X = X.copy(order="K")
    X.setflags(write=False)
    return X


def memory_map(X, path):
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


def csr(X, index):
    X = sparse.csr_array(X)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def read_only_csr(X, index):
    X = csr(X, index)
    for array in (X.data, X.indices, X.indptr):
        array.setflags(write=False)
    return X


DENSE = {
    "C": lambda X, path: X,
    "F": lambda X, path: np.asfortranarray(X),
    "C float32": lambda X, path: X.astype(np.float32),
    "F float32": lambda X, path: np.asfortranarray(X, dtype=np.float32),
    "read-only": lambda X, path: read_only(X),
    "read-only float32": lambda X, path: read_only(X.astype(np.float32)),
    "memory map": lambda X, path: memory_map(X, path),
    "float32 memory map": lambda X, path: np.asarray(memory_map(X.astype(np.float32), path)),
}
CSR = {
    "int32": lambda X, path: csr(X, np.int32),
    "int64": lambda X, path: csr(X, np.int64),
    "float32": lambda X, path: csr(X.astype(np.float32), np.int32),
    "float32 int64": lambda X, path: csr(X.astype(np.float32), np.int64),
    "read-only": lambda X, path: read_only_csr(X, np.int32),
    "matrix": lambda X, path: sparse.csr_matrix(X),
}
FORMS = [*((DenseProducts, form) for form in DENSE), *((SparseProducts, form) for form in CSR)]


def made(kind, form, shape, path):
    """The products of a matrix in some form, and the same numbers for numpy."""
    makers = DENSE if kind is DenseProducts else CSR
    X = makers[form](numbers(*shape), path)
    return kind(X), dense_of(X).astype(np.float64)


def assert_same(computed, expected, size=1.0):
    """Equal to rounding, relative to the size of the numbers that were added up."""
    assert computed.dtype == np.float64
    assert computed.shape == expected.shape
    np.testing.assert_allclose(computed, expected, rtol=1e-12, atol=1e-13 * size)


@pytest.fixture
def many_blocks(monkeypatch):
    monkeypatch.setattr(products, "CACHED_BLOCK_BYTES", TINY_BLOCK)
    monkeypatch.setattr(products, "WIDE_BLOCK_BYTES", TINY_BLOCK)
    monkeypatch.setattr(products, "UNPACKED", TINY_BLOCK)
    monkeypatch.setattr(products, "UNPACKED_ROWS", 2)


@pytest.fixture(params=["small", "compiled, 1 thread", "compiled, 2 threads", "more threads"])
def work(request, monkeypatch, many_blocks):
    """Small enough for numpy and scipy, or through the compiled kernels on so many threads."""
    count = {"compiled, 1 thread": 1, "compiled, 2 threads": 2, "more threads": 50}
    if request.param in count:
        monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
        for module in (products, gram, row_sums, sparse_products):
            monkeypatch.setattr(module, "thread_count", lambda: count[request.param])


every_form = pytest.mark.parametrize(("kind", "form"), FORMS)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
compiled = pytest.mark.parametrize(
    ("kind", "form"), [(DenseProducts, "C float32"), (SparseProducts, "int32")]
)
every_width = pytest.mark.parametrize("k", [1, 3, 9])


@every_form
@every_shape
@every_width
def test_products_with_vectors_are_numpys(kind, form, shape, k, work, tmp_path):
    fast, X = made(kind, form, shape, tmp_path)
    rng = np.random.default_rng(k)
    n, d = shape
    V, R, Y = rng.standard_normal((d, k)), rng.standard_normal((n, k)), rng.standard_normal((n, k))
    shift, weights = rng.standard_normal(k), rng.uniform(0.0, 1.0, n)
    weights[0] = 0.0
    size = 1.0 + np.abs(X).sum()

    assert_same(fast.multiply(V), X @ V, size)
    assert_same(fast.adjoint(R), X.T @ R, size)
    residual = X @ V - shift
    product, total = fast.normal(V, shift, weights)
    assert_same(product, X.T @ (weights[:, None] * residual), size**2)
    assert_same(total, weights @ residual, size)
    residual = residual - Y
    fitted, gradient = fast.residual(V, Y, shift, weights)
    assert_same(fitted, residual, size)
    assert_same(gradient, X.T @ (weights[:, None] * residual), size**2)


@every_form
@every_shape
@pytest.mark.parametrize("centring", ["raw", "mean", "any vector"])
def test_square_matrices_are_numpys(kind, form, shape, centring, many_blocks, tmp_path):
    fast, X = made(kind, form, shape, tmp_path)
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.0, 1.0, shape[0])
    weights /= weights.sum()
    mean = {"raw": None, "mean": weights @ X, "any vector": rng.standard_normal(shape[1])}[centring]
    scaled = np.sqrt(weights)[:, None] * (X if mean is None else X - mean)
    assert_same(fast.gram(weights, mean), scaled.T @ scaled, 10.0)
    assert_same(fast.outer(weights, mean), scaled @ scaled.T, 10.0)


@every_form
@every_shape
def test_squared_norms_are_numpys(kind, form, shape, work, tmp_path):
    fast, X = made(kind, form, shape, tmp_path)
    assert_same(fast.squared_norms(), (X**2).sum(axis=1))
    if kind is DenseProducts and fast.X.flags.c_contiguous:
        factors = np.random.default_rng(4).standard_normal((shape[0], 2))
        norms, sums = fast.compiled_first_sums(factors)
        assert_same(norms, (X**2).sum(axis=1))
        assert_same(sums, X.T @ factors, 1.0 + np.abs(X).sum())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1300, 7), (512, 4), (5, 9), (700, 1), (1, 3)], ids=str)
def test_columns_are_multiplied_where_they_lie(shape, threads, dtype, monkeypatch):
    monkeypatch.setattr(products, "LARGE_MATRIX", 0)
    monkeypatch.setattr(products, "thread_count", lambda: threads)
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.standard_normal(shape), dtype=dtype)
    fast, wide = ColumnProducts(X), X.astype(np.float64)
    assert fast.own_threads(1) and not fast.own_threads(2)
    V, Y, weights = (
        rng.standard_normal((shape[1], 1)),
        rng.standard_normal((shape[0], 1)),
        rng.random(shape[0]),
    )
    size, shift = 1.0 + np.abs(wide).sum(), rng.standard_normal(1)
    R = wide @ V - shift
    product, total = fast.normal(V, shift, weights)
    assert_same(product, wide.T @ (weights[:, None] * R), size**2)
    assert_same(total, weights @ R, size)
    fitted, gradient = fast.residual(V, Y, shift, weights)
    assert_same(fitted, R - Y, size)
    assert_same(gradient, wide.T @ (weights[:, None] * (R - Y)), size**2)
    factors = rng.standard_normal((shape[0], 2))
    norms, sums = fast.compiled_first_sums(factors)
    assert_same(norms, (wide**2).sum(axis=1), size)
    assert_same(sums, wide.T @ factors, size)


def test_the_order_of_dense_data_decides_which_products_it_gets():
    X = np.ones((4, 3))
    assert type(products.products_of_dense(X)) is DenseProducts
    assert type(products.products_of_dense(np.asfortranarray(X))) is ColumnProducts
    assert type(products.products_of_dense(np.ones((4, 1), order="F"))) is DenseProducts  # both


@pytest.mark.parametrize("k", [1, 2, 3, 8, 24, 30])
@pytest.mark.parametrize("shape", [(400, 4000), (3000, 60), (64, 15600), (40000, 50)], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_of_like_terms_keep_within_the_rounding_that_is_counted(shape, k, order):
    """All terms are 0.7 · 0.1, which round the same way: the worst for a long sum."""
    n, d = shape
    fast = products.products_of_dense(np.full(shape, 0.7, order=order))
    unit = 4 * np.finfo(float).eps * fast.rounding_factor
    exact = Fraction(0.7) * Fraction(0.1)
    along = float(fast.multiply(np.full((d, k), 0.1)).max() - float(d * exact))
    assert abs(along) <= 0.5 * unit * float(d * exact)
    down = float(fast.adjoint(np.full((n, k), 0.1)).max() - float(n * exact))
    assert abs(down) <= 0.5 * unit * float(n * exact)
    both = fast.normal(np.full((d, k), 0.1), np.zeros(k), np.ones(n))[0].max()
    expected = float(n * d * exact * Fraction(0.7))
    assert abs(both - expected) <= unit * expected


def test_a_gram_matrix_is_made_of_large_blocks(monkeypatch):
    fast, seen = DenseProducts(np.ones((900, 300))), []
    monkeypatch.setattr(products, "gram_by_rows", lambda n, d: False)
    monkeypatch.setattr(products, "add_gram", lambda A, total: seen.append(len(A)))
    fast.gram(np.ones(900), None)
    assert max(seen) == products.longest_sum(900)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sample_is_gathered_in_the_memory_that_is_foreseen(order, dtype):
    X, rng = np.ones((600, 5000), dtype=dtype, order=order), np.random.default_rng(0)
    sample = products.SampledProducts(X, np.arange(0, 600, 2))
    V, weights = rng.standard_normal((5000, 9)), np.ones(300)
    tracemalloc.start()
    product, _ = sample.normal(V, np.zeros(9), weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(product, np.full((5000, 9), 300.0) * V.sum(axis=0), rtol=1e-10)
    gathered = products.gathered_rows(300, 5000, 9)
    assert gathered >= products.SAMPLED_BLOCK_ROWS
    threads, wide = products.thread_count(), 8 if dtype == np.float64 else 12
    assert peak <= threads * (wide * gathered * 5000 + 4 * 8 * V.size) + 8 * V.size


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sampled_rows_are_those_rows_in_either_order(dtype, many_blocks):
    rng = np.random.default_rng(0)
    X, indices, V = rng.standard_normal((50, 7)).astype(dtype), np.arange(1, 50, 3), np.eye(7)
    expected = X[indices].astype(float).T @ X[indices].astype(float)
    for order in "CF":
        sample = SampledProducts(np.asarray(X, order=order), indices)
        assert_same(sample.normal(V, np.zeros(7), np.ones(17))[0], expected, 50.0)


@pytest.mark.parametrize("order", ["C", "F"])
def test_many_small_terms_beside_a_large_one_are_not_lost_one_by_one(order, monkeypatch):
    """Each is less than half a unit of the sum so far: in a chain of its own none would count."""
    monkeypatch.setattr(products, "LARGE_MATRIX", 0)
    d, small = 20000, np.sqrt(0.49 * np.finfo(float).eps)
    x = np.append(1.0, np.full(d - 1, small))
    fast = products.products_of_dense(np.asarray(np.stack([x, x]), order=order))
    R, _ = fast.residual(x[:, None], np.zeros((2, 1)), np.zeros(1), np.ones(2))
    exact = 1 + (d - 1) * Fraction(small) ** 2
    unit = 4 * np.finfo(float).eps * fast.rounding_factor
    assert abs(float(Fraction(R[0, 0]) - exact)) <= 0.5 * unit
    norms, _ = fast.compiled_first_sums(np.ones((2, 1)))
    assert abs(float(Fraction(norms[0]) - exact)) <= 0.5 * unit


def test_a_few_columns_are_multiplied_with_so_many_rows_that_blas_makes_no_copy():
    X = np.ones((300, 200))
    rows = {columns: DenseProducts(X)._block_rows(columns) for columns in (1, 2, 24, 25)}
    for columns in (2, 24):
        assert rows[columns] * 200 * columns <= products.UNPACKED
        assert (rows[columns] + 1) * 200 * columns > products.UNPACKED
    assert rows[1] == products.CACHED_BLOCK_BYTES // 1600
    assert rows[25] == products.WIDE_BLOCK_BYTES // 1600
    assert DenseProducts(np.asfortranarray(X))._block_rows(2) == rows[1]  # rows do not lie together
    wide = DenseProducts(np.ones((40, 20_000)))._block_rows(2)
    assert wide == products.CACHED_BLOCK_BYTES // 160_000  # for too few rows it does not pay


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [kernels.LONG_ROW - 1, kernels.LONG_ROW + 1])
def test_short_and_long_rows_are_read_to_the_same_end(d, dtype, ahead):
    rng = np.random.default_rng(0)
    X, v, r = rng.standard_normal((23, d)).astype(dtype), rng.standard_normal(d), np.ones(23)
    wide, weights, some = X.astype(float), rng.uniform(size=23), slice(3, 22)
    residual, product, image, squares = np.zeros(23), np.zeros(d), np.zeros(23), np.zeros(d)
    kernels.dense_normal_vector(X, ahead, v, r, weights, 3, 22, residual, product)
    kernels.dense_multiply_vector(X, v, 3, 22, image)
    kernels.dense_column_squares(X, weights, v, 3, 22, squares)
    assert_same(image[some], wide[some] @ v, 100.0)
    assert_same(residual[some], wide[some] @ v - 1.0, 100.0)
    assert_same(product, wide[some].T @ (weights[some] * residual[some]), 100.0)
    assert_same(squares, weights[some] @ (wide[some] - v) ** 2, 100.0)
    product[:] = 0.0
    kernels.dense_adjoint_vector(X, weights, 3, 22, product)
    assert_same(product, wide[some].T @ weights[some], 100.0)
    assert not residual[:3].any() and not residual[22] and not image[22]


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 11])
def test_however_few_rows_are_read_ahead_each_is_added_once(count):
    rng = np.random.default_rng(count)
    X, v, weights = rng.standard_normal((count, 70)), rng.standard_normal(70), rng.random(count)
    residual, product = np.zeros(count), np.ones(70)
    kernels.dense_normal_vector(X, True, v, np.ones(count), weights, 0, count, residual, product)
    assert_same(residual, X @ v - 1.0, 100.0)
    assert_same(product, 1.0 + X.T @ (weights * (X @ v - 1.0)), 100.0)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("d", [500, 512, 2000, 20000])
def test_four_rows_together_do_not_lose_small_terms_beside_a_large_one(d, ahead):
    small = np.sqrt(0.49 * np.finfo(float).eps)
    x = np.append(1.0, np.full(d - 1, small))
    X, residual, product = np.stack([x] * 9), np.zeros(9), np.zeros(d)
    kernels.dense_normal_vector(X, ahead, x, np.zeros(9), np.ones(9), 0, 9, residual, product)
    exact = 1 + (d - 1) * Fraction(small) ** 2
    smallest = np.empty((-(-products.LARGE_MATRIX // d), d))  # that gets this loop
    unit = 4 * np.finfo(float).eps * DenseProducts(smallest).rounding_factor
    assert max(abs(float(Fraction(r) - exact)) for r in residual) <= 0.5 * unit


def test_rows_are_read_ahead_where_a_large_cache_holds_eight(monkeypatch):
    rows = np.ones((4, 1000))
    monkeypatch.setattr(products, "is_intels", lambda: True)
    sizes = {0: False, 512 << 10: False, 1 << 20: True}
    for size, ahead in sizes.items():
        monkeypatch.setattr(products, "second_cache_bytes", lambda size=size: size)
        assert products.reads_ahead(rows) is ahead
    assert products.reads_ahead(np.ones((4, 8192)))  # 8 rows of 64 KB: half of it
    assert not products.reads_ahead(np.ones((4, 8193)))
    assert products.reads_ahead(np.ones((4, 16384), dtype=np.float32))
    assert not products.reads_ahead(rows.astype(np.uint8))
    monkeypatch.setattr(products, "is_intels", lambda: False)
    assert not products.reads_ahead(rows)


@pytest.mark.parametrize("ahead", [False, True])
def test_products_are_the_same_whether_rows_are_read_ahead_or_not(ahead, monkeypatch):
    monkeypatch.setattr(products, "LARGE_MATRIX", 0)
    monkeypatch.setattr(products, "reads_ahead", lambda rows: ahead)
    rng = np.random.default_rng(0)
    X, V, weights = rng.standard_normal((203, 31)), rng.standard_normal((31, 1)), rng.random(203)
    product, _ = DenseProducts(X).normal(V, np.ones(1), weights)
    assert_same(product, X.T @ (weights[:, None] * (X @ V - 1.0)), 1000.0)


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(
    ("dtype", "kind", "gaps"),
    [
        (np.float32, np.uint16, False),
        (np.float64, np.int32, False),
        (np.float64, np.int64, False),
        (np.float64, np.int32, True),
    ],
)
def test_entries_are_taken_four_at_a_time_as_without_the_compiler(dtype, kind, pair, gaps):
    rng = np.random.default_rng(0)
    data = rng.standard_normal(23).astype(dtype)
    indices = rng.integers(0, 9, size=23).astype(kind)
    indices[12:15] = 0  # as where zeros fill a row up: the same place several times
    if gaps:
        data, indices = np.repeat(data, 2)[::2], np.repeat(indices, 2)[::2]
    v = rng.standard_normal((9, 2) if pair else 9)
    others = np.delete(np.arange(9), indices[3:19])

    @njit
    def both(data, indices, v):
        inner = kernels.dot_fours(data, indices, 3, 19, v)
        kernels.add_fours(data, indices, 3, 19, 0.3, v)
        return inner

    expected = v.copy()
    inner = kernels.dot_fours(data, indices, 3, 19, expected)
    kernels.add_fours(data, indices, 3, 19, 0.3, expected)
    before = v.copy()
    assert both(data, indices, v) == pytest.approx(inner, rel=1e-14)
    np.testing.assert_allclose(v, expected, rtol=1e-14)
    np.testing.assert_array_equal(v[others], before[others])
    if pair:
        np.testing.assert_array_equal(v[:, 0], before[:, 0])


@pytest.mark.parametrize("compact", [False, True])
def test_sparse_arrays_with_gaps_are_read_as_they_lie(compact, work):
    X = sparse.csr_array(numbers(60, 40).astype(np.float32).astype(float))  # compact or not
    gaps = sparse.csr_array(X.shape)
    gaps.data, gaps.indices = np.repeat(X.data, 2)[::2], np.repeat(X.indices, 2)[::2]
    gaps.indptr = X.indptr
    V, weights = np.random.default_rng(0).standard_normal((40, 1)), np.ones(60)
    product, _ = SparseProducts(gaps, compact=compact).normal(V, np.zeros(1), weights)
    assert_same(product, X.T @ (X @ V), 100.0)


@pytest.mark.parametrize("gaps", [False, True])
def test_small_entries_of_a_long_sparse_row_are_not_lost_beside_a_large_one(gaps, monkeypatch):
    monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
    d, small = 20000, np.sqrt(0.49 * np.finfo(float).eps)
    X = sparse.csr_array(np.append(1.0, np.full(d - 1, small))[None])
    v = X.data.copy()
    if gaps:
        X.data = np.repeat(X.data, 2)[::2]
    fast = SparseProducts(X)
    exact = 1 + (d - 1) * Fraction(small) ** 2
    unit = 4 * np.finfo(float).eps * fast.rounding_factor
    R, _ = fast.residual(v[:, None], np.zeros((1, 1)), np.zeros(1), np.ones(1))
    for product in (R, fast.multiply(v[:, None])):
        assert abs(float(Fraction(product[0, 0]) - exact)) <= 0.5 * unit


@pytest.mark.parametrize(("kind", "form"), [(DenseProducts, "C"), (SparseProducts, "int32")])
def test_vectors_in_any_memory_order_will_do(kind, form, work, tmp_path):
    fast, X = made(kind, form, (37, 11), tmp_path)
    rng = np.random.default_rng(0)
    V = np.asfortranarray(rng.standard_normal((11, 4)))[:, ::2]
    R = np.asfortranarray(rng.standard_normal((37, 4)))[:, ::2]
    assert_same(fast.multiply(V), X @ V, 10.0)
    assert_same(fast.adjoint(R), X.T @ R, 10.0)
    assert_same(fast.normal(V, np.zeros(2), np.ones(37))[0], X.T @ (X @ V), 100.0)


@compiled
@pytest.mark.parametrize("k", [1, 4])
def test_real_sizes_reach_the_compiled_kernels(kind, form, k, tmp_path):
    """Above the threshold as it ships, with the block sizes as they ship."""
    n, d = 6000, 1000
    fast, X = made(kind, form, (n, d), tmp_path)
    rng = np.random.default_rng(1)
    V, weights = rng.standard_normal((d, k)), np.full(n, 1 / n)
    assert np.count_nonzero(X) >= sparse_products.SMALL_WORK
    product, _ = fast.normal(V, np.zeros(k), weights)
    assert_same(product, X.T @ (weights[:, None] * (X @ V)), 10.0)
    assert_same(fast.multiply(V), X @ V, 10.0)


@pytest.mark.parametrize("k", [1, 3])
def test_a_sparse_matrix_without_any_value_gives_zeros(k, work):
    fast = SparseProducts(sparse.csr_array((7, 5)))
    assert not fast.squared_norms().any()
    assert not fast.multiply(np.ones((5, k))).any()
    assert not fast.adjoint(np.ones((7, k))).any()
    product, total = fast.normal(np.ones((5, k)), np.ones(k), np.ones(7))
    assert not product.any()
    assert_same(total, np.full(k, -7.0))
    assert not fast.gram(np.ones(7), None).any()
    assert not fast.outer(np.ones(7), None).any()


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("values", [np.float64, np.float32])
def test_ordered_columns_give_the_same_products_and_are_told(index, values, monkeypatch):
    """After a few products with vectors the columns are renumbered; nothing else may change."""
    monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
    monkeypatch.setattr(sparse_products, "FIRST_CACHE_BYTES", 0)
    n, d = 900, 60  # some columns are longer than one sum, some shorter, some empty
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((n, d)) * (rng.random((n, d)) < np.linspace(0.0, 1.0, d))
    X = csr(dense, index).astype(values)
    indices, told = X.indices.copy(), []
    fast = SparseProducts(X, told.append)
    weights, targets = rng.random(n) / n, rng.standard_normal((n, 1))
    for _ in range(sparse_products.BEFORE_ORDERING + 2):
        V, shift = rng.standard_normal((d, 1)), rng.standard_normal(1)
        expected = X.toarray().astype(np.float64) @ V - shift
        product, total = fast.normal(V, shift, weights)
        assert_same(product, X.toarray().T.astype(np.float64) @ (weights[:, None] * expected), 10.0)
        assert_same(total, weights @ expected, 10.0)
        R, gradient = fast.residual(V, targets, shift, weights)
        assert_same(R, expected - targets, 10.0)
        assert_same(gradient, X.toarray().T.astype(np.float64) @ (weights[:, None] * R), 10.0)
    assert len(told) == 1 and "copied" in told[0]
    assert 0 < fast._ordered.long < d
    assert np.array_equal(X.indices, indices)


@pytest.mark.parametrize("columns", [60, 70_000], ids=["16 bits", "32 bits"])
def test_compact_rows_give_products_of_rounded_values_and_are_told(columns, monkeypatch):
    """Those with single vectors; those with more are of X itself."""
    monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
    monkeypatch.setattr(sparse_products, "FIRST_CACHE_BYTES", 0)
    n, rng = 900, np.random.default_rng(0)
    dense = rng.standard_normal((n, 60)) * (rng.random((n, 60)) < np.linspace(0.0, 1.0, 60))
    X = sparse.csr_array(dense)
    X.resize((n, columns))
    told = []
    fast = SparseProducts(X, told.append, compact=True)
    weights, shift = rng.random(n) / n, rng.standard_normal(1)
    rounded = X.astype(np.float32).astype(np.float64)
    for _ in range(2):
        V = rng.standard_normal((columns, 1))
        expected = rounded.T @ (weights[:, None] * (rounded @ V - shift))
        assert_same(fast.normal(V, shift, weights)[0], expected, 10.0)
    V = rng.standard_normal((columns, 3))
    assert_same(fast.multiply(V), X @ V, 10.0)
    kind = np.uint16 if columns == 60 else np.uint32
    assert fast._ordered.rows.indices.dtype == kind
    size = (4 + kind().itemsize) * X.nnz / 1e6
    assert len(told) == 1 and f"X is copied to float32 ({size:.1f} MB)" in told[0]


@compiled
def test_one_thread_and_two_agree_to_rounding(kind, form, monkeypatch, tmp_path):
    monkeypatch.setattr(sparse_products, "SMALL_WORK", 0)
    fast, _ = made(kind, form, (300, 40), tmp_path)
    V = np.random.default_rng(0).standard_normal((40, 1))
    answers = []
    for count in (1, 2):
        with threadpool_limits(count):
            answers.append(fast.normal(V, np.zeros(1), np.ones(300))[0])
    assert_same(*answers, 100.0)


def test_a_limit_of_threads_set_outside_binds():
    with threadpool_limits(1, user_api="blas"):
        assert threads.thread_count() == 1


def test_the_threads_results_come_in_order_and_their_errors_come_through():
    assert threads.run_all([lambda i=i: i for i in range(20)]) == list(range(20))
    with pytest.raises(ZeroDivisionError):
        threads.run_all([lambda: 1, lambda: 1 // 0])


# On all threads ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_added_up_where_they_lie(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 37)).astype(dtype)
    S = sparse.random_array((50, 300), density=0.02, rng=rng, format="csr")  # with empty rows
    norms = np.zeros(300)
    sums = gathered_sums(S, DenseProducts(X), np.empty((50, 37)), norms)
    assert sums == pytest.approx(S.toarray() @ X.astype(float), abs=1e-12)
    read = (S.toarray() != 0).any(axis=0)
    assert norms == pytest.approx(read * np.sum(X.astype(float) ** 2, axis=1), rel=1e-12)


@pytest.mark.parametrize("shape", [(700, 300), (40, 1500), (300, 7), (5, 1)])
def test_a_gram_matrix_is_made_in_parts(shape):
    rng = np.random.default_rng(1)
    A = rng.standard_normal(shape)
    before = rng.standard_normal((shape[1], shape[1]))
    total = before.copy()
    add_gram(A, total)
    lower = np.tril(before + A.T @ A)
    assert np.tril(total) == pytest.approx(lower, abs=1e-10)
    assert mirrored(total) == pytest.approx(lower + np.tril(lower, -1).T, abs=1e-10)


def test_products_of_some_rows_are_those_of_a_copy_of_them():
    rng = np.random.default_rng(2)
    X, V = rng.standard_normal((3000, 90)), rng.standard_normal((90, 20))
    indices = np.sort(rng.choice(3000, 1100, replace=False))
    weights, shift = rng.random(1100), rng.standard_normal(20)
    some, copied = SampledProducts(X, indices), DenseProducts(X[indices])
    for one, other in zip(
        some.normal(V, shift, weights), copied.normal(V, shift, weights), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-12)
    R = rng.standard_normal((1100, 3))
    assert some.adjoint(R) == pytest.approx(copied.adjoint(R), rel=1e-10)


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("kind", ["even", "weighed", "centred"])
@pytest.mark.parametrize("sampled", [False, True])
def test_a_gram_matrix_is_the_same_by_rows_and_by_columns(by_rows, kind, sampled, monkeypatch):
    # Whatever the number of threads is.
    monkeypatch.setattr("sketchridge.products.gram_by_rows", lambda n, d: by_rows)
    rng = np.random.default_rng(6)
    X, indices = rng.standard_normal((3000, 70)), np.arange(0, 3000, 2)
    rows = X[indices] if sampled else X
    weights = np.full(len(rows), 0.3) if kind == "even" else rng.random(len(rows))
    mean = rng.standard_normal(70) if kind == "centred" else None
    centred = rows - (0.0 if mean is None else mean)
    products = SampledProducts(X, indices) if sampled else DenseProducts(X)
    gram = products.gram(weights, mean)
    assert gram == pytest.approx(centred.T @ (weights[:, None] * centred), rel=1e-11, abs=1e-10)
    assert np.array_equal(gram, gram.T)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_the_outer_product_of_some_rows_is_that_of_a_copy_of_them(dtype, order, scaled, centred):
    rng = np.random.default_rng(3)
    X = np.array(rng.standard_normal((300, 5000)), dtype=dtype, order=order)
    before, indices = X.copy(), np.sort(rng.choice(300, 120, replace=False))
    weights = rng.random(120)
    mean = rng.standard_normal(5000) if centred else None
    factors = rng.random(5000) if scaled else None
    rows = X[indices].astype(np.float64) - (0.0 if mean is None else mean)
    rows *= 1.0 if factors is None else factors
    outer = SampledProducts(X, indices).outer(weights, mean, factors)
    expected = np.sqrt(np.outer(weights, weights)) * (rows @ rows.T)
    assert outer == pytest.approx(expected, rel=1e-12, abs=1e-9)
    assert np.array_equal(X, before)


def test_shared_tasks_give_their_results_in_order():
    tasks = [partial(lambda i: i, i) for i in range(100)]
    assert run_shared(tasks) == list(range(100))
    with pytest.raises(ZeroDivisionError):
        run_shared([lambda: 1, lambda: 1 // 0, lambda: 2])


@pytest.mark.parametrize(("counts", "expected"), [([2, 1], 2), ([1, 1], 1), ([64], 4), ([], 1)])
def test_a_library_that_is_built_for_one_thread_does_not_bind_us(monkeypatch, counts, expected):
    libraries = SimpleNamespace(lib_controllers=[SimpleNamespace(num_threads=c) for c in counts])
    monkeypatch.setattr(threads, "_blas", lambda: libraries)
    monkeypatch.setattr(threads, "_cores", lambda: 4)
    assert threads.thread_count() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gram_matrix_of_rows_that_weigh_the_same(dtype):
    X = numbers(37, 11).astype(dtype)
    weighed = DenseProducts(X).gram(np.full(37, 0.3), None)
    assert weighed == pytest.approx(0.3 * X.astype(float).T @ X.astype(float), rel=1e-12)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("cores", [1, 2, 3, 7])
@pytest.mark.parametrize("filled", [0, 1, 400])
def test_threads_share_sparse_rows_by_their_entries(index, cores, filled, monkeypatch):
    monkeypatch.setattr(sparse_products, "thread_count", lambda: cores)
    lengths = np.zeros(50, dtype=int)
    lengths[10:40] = np.random.default_rng(0).multinomial(filled, np.full(30, 1 / 30))
    pointers = np.append(0, np.cumsum(lengths)).astype(index)
    X = SimpleNamespace(indptr=pointers, nnz=filled, shape=(50, 9))
    ranges = SparseProducts(X).row_ranges()
    assert [row for ends in ranges for row in range(*ends)] == list(range(50))
    assert len(ranges) <= cores
    most = max(pointers[stop] - pointers[start] for start, stop in ranges)
    assert most <= filled / cores + lengths.max()
