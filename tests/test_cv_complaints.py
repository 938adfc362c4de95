"""What users of scikit-learn have asked for around paths and cross-validation, by issue number."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.model_selection import KFold

import sketchridge.tracing
from sketchridge import Ridge, RidgeCV, ridge_path
from sketchridge.problem import RidgeProblem
from sketchridge.threads import single_threaded_blas
from tests.problems import sparse_rows


@pytest.fixture(autouse=True)
def one_thread():
    """On problems this small the threads of BLAS only wait for one another."""
    with single_threaded_blas():
        yield


def peak_growth(prepare, work):
    """Megabytes of resident memory that `work` adds at its peak, in a process of its own.

    `prepare` makes the data and runs the work on a small part, so that all code is loaded.
    """
    code = f"""
import resource
import numpy as np
from scipy import sparse
from sketchridge import RidgeCV

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

{textwrap.dedent(prepare)}
before = peak()
{textwrap.dedent(work)}
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])


def test_582_there_is_a_ridge_path():
    """'ridge path': the coefficients of many penalties, as lasso_path gives them."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 10)), rng.standard_normal(50)
    alphas = np.logspace(-3, 3, 7)
    path = ridge_path(X, y, alphas / 50, fit_intercept=True)
    for alpha, coef, intercept in zip(alphas, path.coef, path.intercept, strict=True):
        plain = linear_model.Ridge(alpha).fit(X, y)
        np.testing.assert_allclose(coef, plain.coef_, rtol=1e-9)
        np.testing.assert_allclose(intercept, plain.intercept_, rtol=1e-9, atol=1e-12)


def test_14886_a_search_does_not_start_anew_for_every_penalty(monkeypatch):
    """Twenty penalties need the products with X that the smallest alone needs."""
    monkeypatch.setattr(sketchridge.tracing, "DIRECT_SIZE", 0)
    rng = np.random.default_rng(0)
    X = sparse_rows(rng, 400, 200, density=0.1)
    y = X @ rng.standard_normal(200) + rng.standard_normal(400)
    products = []
    gram = RidgeProblem.gram

    def counted(problem, V):
        products.append(V.shape[1])
        return gram(problem, V)

    monkeypatch.setattr(RidgeProblem, "gram", counted)
    alphas = np.logspace(-3, 3, 20)
    for number, alphas_tried in ((1, alphas[:1]), (20, alphas)):
        products.clear()
        RidgeCV(alphas_tried, cv=KFold(5)).fit(X, y)
        if number == 1:
            alone = len(products)
    assert len(products) <= alone + 5


def test_2354_leave_one_out_of_a_tall_sparse_matrix_needs_little_memory():
    """50000 × 10 with 0.1 % of the values took an n × n matrix: 20 GB."""
    growth = peak_growth(
        """
        X = sparse.random(50000, 10, density=0.001, format="csr", random_state=0)
        y = np.random.default_rng(0).random(50000)
        RidgeCV().fit(X[:500], y[:500])
        """,
        "RidgeCV().fit(X, y)",
    )
    assert growth < 60


def test_2354_leave_one_out_of_a_large_sparse_matrix_forms_no_square_one():
    """6000 × 6000: a p × p or n × n matrix, or X made dense, would take 288 MB."""
    growth = peak_growth(
        """
        def rows(n):
            X = sparse.random(n, 6000, density=0.002, format="csr", random_state=0)
            return X, np.random.default_rng(0).random(n)

        X, y = rows(6000)
        RidgeCV([10.0]).fit(*rows(3000))
        """,
        """
        model = RidgeCV([1.0, 10.0], random_state=0).fit(X, y)
        assert np.all(model.alpha_score_errors_ > 0)
        """,
    )
    assert growth < 200


def test_13322_leave_one_out_copies_neither_x_nor_all_errors():
    """X was copied several times, and an n × t × alphas array was made though not asked for."""
    n, d, targets, alphas = 20000, 100, 30, 40
    growth = peak_growth(
        f"""
        rng = np.random.default_rng(0)
        X = rng.standard_normal(({n}, {d})).astype(np.float32)
        Y = rng.standard_normal(({n}, {targets}))
        alphas = np.logspace(-3, 3, {alphas})
        RidgeCV(alphas).fit(X[:500], Y[:500])
        """,
        "RidgeCV(alphas).fit(X, Y)",
    )
    everything = 8 * n * targets * alphas / 2**20  # 183 MB
    assert growth < 0.6 * everything


def test_13322_folds_do_not_copy_x_either():
    n, d = 80000, 400
    growth = peak_growth(
        f"""
        rng = np.random.default_rng(0)
        X = rng.standard_normal(({n}, {d}), dtype=np.float32)
        y = rng.standard_normal({n})
        RidgeCV(np.logspace(-2, 2, 5), cv=5).fit(X[:1000], y[:1000])
        """,
        "RidgeCV(np.logspace(-2, 2, 5), cv=5).fit(X, y)",
    )
    widened = 8 * n * d / 2**20  # 244 MB in float64: what one cast would take
    assert growth < 0.75 * widened


def test_17574_every_target_may_have_its_own_penalty_with_folds():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 20))
    Y = np.column_stack([X[:, 0], 0.05 * X[:, 1] + rng.standard_normal(80)])
    alphas = np.logspace(-3, 3, 7)
    model = RidgeCV(alphas, cv=5, alpha_per_target=True).fit(X, Y)
    assert model.alpha_.shape == (2,) and model.alpha_[0] < model.alpha_[1]
    for target in range(2):
        alone = linear_model.RidgeCV(alphas, cv=5).fit(X, Y[:, target])
        assert model.alpha_[target] == alone.alpha_
        np.testing.assert_allclose(model.coef_[target], alone.coef_, rtol=1e-7)


def test_26848_one_penalty_gives_what_ridge_gives_whatever_the_weights():
    """Weights of up to 1e11 made RidgeCV's coefficients differ from Ridge's."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2))
    y = X @ [3.0, -2.0] + 0.1 * rng.standard_normal(100)
    weights = rng.uniform(2e5, 2e11, 100)
    chosen = RidgeCV([0.001]).fit(X, y, sample_weight=weights)
    ridge = Ridge(0.001).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(chosen.coef_, ridge.coef_)
    alone = np.linalg.lstsq(
        np.sqrt(weights)[:, None] * np.column_stack([X, np.ones(100)]), np.sqrt(weights) * y
    )[0]
    np.testing.assert_allclose(chosen.coef_, alone[:2], rtol=1e-9)


def test_sparse_data_stays_sparse(monkeypatch):
    """No matrix of the shape of X is ever made dense, intercept and weights included."""
    dense = sparse.csr_array.toarray

    def watched(matrix, *arguments, **options):
        assert matrix.shape not in ((300, 100), (240, 100))
        return dense(matrix, *arguments, **options)

    monkeypatch.setattr(sparse.csr_array, "toarray", watched)
    rng = np.random.default_rng(0)
    X = sparse_rows(rng, 300, 100)
    y, weights = rng.standard_normal(300), rng.uniform(0.5, 2.0, 300)
    for cv in (None, 5):
        RidgeCV(cv=cv).fit(X, y, sample_weight=weights)
