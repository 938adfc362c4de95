"""Ridge against scikit-learn's: the same answer, with a proof."""

import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import sklearn.linear_model
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sketchridge import Nystrom, Ridge, Status
from tests.exact import ExactRidge
from tests.problems import decaying

SHAPES = {"tall": (60, 12), "wide": (15, 40)}


def draw(rng, shape, storage, targets, dtype=np.float64):
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.6) + 0.3 * rng.random(shape[1])
    y = rng.standard_normal((shape[0], targets)) + 2.0
    X = X.astype(dtype)
    y = y.astype(dtype)
    return sparse.csr_array(X) if storage == "csr" else X, y[:, 0] if targets == 1 else y


def oracle(X, y, alpha, weights, intercept):
    """scikit-learn's singular values of the dense data, in float64."""
    dense = X.toarray() if sparse.issparse(X) else X
    model = sklearn.linear_model.Ridge(alpha, fit_intercept=intercept, solver="svd")
    return model.fit(dense.astype(np.float64), y.astype(np.float64), weights)


def relative(coef, expected):
    return np.linalg.norm(coef - expected) / np.linalg.norm(expected)


# The same answer ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("targets", [1, 5])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("storage", ["dense", "csr"])
class TestAgreement:
    def problem(self, storage, weighted, targets, shape, dtype=np.float64):
        rng = np.random.default_rng(7)
        X, y = draw(rng, SHAPES[shape], storage, targets, dtype)
        return X, y, rng.uniform(0.1, 3, X.shape[0]) if weighted else None

    def test_small_data_is_solved_directly_to_1e_8(
        self, storage, weighted, intercept, targets, shape
    ):
        X, y, weights = self.problem(storage, weighted, targets, shape)
        model = Ridge(0.5, fit_intercept=intercept).fit(X, y, weights)
        expected = oracle(X, y, 0.5, weights, intercept)
        assert model.solver_ == "cholesky"
        assert relative(model.coef_, expected.coef_) < 1e-8
        np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-8)

    def test_one_penalty_a_target(self, storage, weighted, intercept, targets, shape):
        X, y, weights = self.problem(storage, weighted, targets, shape)
        alpha = np.geomspace(1e-2, 1e2, targets)
        model = Ridge(alpha, fit_intercept=intercept).fit(X, y, weights)
        expected = oracle(X, y, alpha, weights, intercept)
        assert relative(model.coef_, expected.coef_) < 1e-8

    @pytest.mark.parametrize("solver", ["cg", "svrg", "saga", "agd"])
    def test_an_iterative_solver_is_within_the_error_bound_that_it_states(
        self, storage, weighted, intercept, targets, shape, solver
    ):
        X, y, weights = self.problem(storage, weighted, targets, shape)
        model = Ridge(5.0, fit_intercept=intercept, solver=solver, tol=1e-14, random_state=0)
        model.fit(X, y, weights)
        expected = oracle(X, y, 5.0, weights, intercept)
        error = np.linalg.norm(model.coef_ - expected.coef_, axis=-1)
        assert np.all(model.relative_gap_ <= 1e-14)
        assert np.all(error <= model.coef_error_bound_)
        assert relative(model.coef_, expected.coef_) < 1e-5

    def test_float32_is_kept_and_right_to_1e_4(self, storage, weighted, intercept, targets, shape):
        X, y, weights = self.problem(storage, weighted, targets, shape, np.float32)
        model = Ridge(0.5, fit_intercept=intercept).fit(X, y, weights)
        expected = oracle(X, y, 0.5, weights, intercept)
        assert model.coef_.dtype == np.float32
        assert model.predict(X).dtype == np.float32
        assert relative(model.coef_, expected.coef_) < 1e-4

    def test_shapes_are_scikit_learns(self, storage, weighted, intercept, targets, shape):
        X, y, weights = self.problem(storage, weighted, targets, shape)
        for given in (y, y.reshape(len(y), -1)):
            model = Ridge(fit_intercept=intercept).fit(X, given, weights)
            expected = oracle(X, given, 1.0, weights, intercept)
            assert model.coef_.shape == expected.coef_.shape
            assert np.shape(model.intercept_) == np.shape(expected.intercept_)
            assert model.predict(X).shape == expected.predict(X).shape
            assert model.n_iter_.shape == (targets,)
            per_target = () if given.ndim == 1 else (targets,)
            for value in (model.gap_, model.relative_gap_, model.coef_error_bound_, model.lam_):
                assert np.shape(value) == per_target


@pytest.mark.parametrize("solver", ["auto", "cg"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_the_gap_is_that_of_the_float32_coefficients_and_intercept_returned(storage, solver):
    rng = np.random.default_rng(3)
    for _ in range(5):
        X, y = draw(rng, (7, 4), storage, 1, np.float32)
        model = Ridge(0.1, solver=solver, tol=1e-3, random_state=0).fit(X, y)
        exact = ExactRidge(X, y[:, None], model.lam_, fit_intercept=True)
        gap = exact.gap(model.coef_[:, None], np.array([model.intercept_]))
        assert 0 <= gap[0] <= model.gap_


def test_float32_that_cannot_hold_the_accuracy_says_so():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (60, 10), "dense", 1, np.float32)
    with pytest.warns(ConvergenceWarning, match="As float32 the coefficients are no better"):
        narrow = Ridge(tol=1e-17).fit(X, y)
    assert narrow.relative_gap_ > 1e-17
    assert Ridge(tol=1e-17).fit(X.astype(np.float64), y).relative_gap_ <= 1e-17


# Penalties ------------------------------------------------------------------------------------


def test_alpha_scale_mean_is_the_papers_lambda():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (50, 6), "dense", 1)
    weights = rng.uniform(0.5, 2, 50)
    mean = Ridge(0.01, alpha_scale="mean").fit(X, y, weights)
    total = Ridge(0.01 * weights.sum()).fit(X, y, weights)
    np.testing.assert_allclose(mean.coef_, total.coef_, rtol=1e-12)
    assert mean.lam_ == 0.01
    assert mean.sum_of_weights_ == pytest.approx(weights.sum())


@pytest.mark.parametrize("shape", SHAPES)
def test_many_penalties_share_one_decomposition(shape):
    rng = np.random.default_rng(0)
    X, y = draw(rng, SHAPES[shape], "dense", 80)
    alpha = 10.0 ** rng.uniform(-6, 4, 80)
    model = Ridge(alpha).fit(X, y)
    expected = oracle(X, y, alpha, None, True)
    errors = np.linalg.norm(model.coef_ - expected.coef_, axis=1)
    assert model.solver_ == "eigh"
    assert np.all(errors <= 1e-8 * np.linalg.norm(expected.coef_, axis=1))
    assert np.all(errors <= model.coef_error_bound_)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shared_decomposition_certifies_truthfully(shape):
    rng = np.random.default_rng(5)
    n, d = (9, 3) if shape == "tall" else (3, 9)
    X, y = draw(rng, (n, d), "dense", 40)
    alpha = 10.0 ** rng.uniform(-3, 3, 40)
    model = Ridge(alpha).fit(X, y)
    assert model.solver_ == "eigh"
    for target in range(0, 40, 7):
        exact = ExactRidge(X, y[:, [target]], model.lam_[target], fit_intercept=True)
        gap = exact.gap(model.coef_[[target]].T, model.intercept_[[target]])
        assert 0 <= gap[0] <= model.gap_[target]


def test_targets_of_different_penalties_share_one_sketch():
    rng = np.random.default_rng(0)
    X, y = decaying(rng, 300, 80), rng.standard_normal((300, 4))
    options = {"solver": "cg", "preconditioner": "lanczos", "tol": 1e-10, "random_state": 0}
    model = Ridge([1e-3, 1e-2, 1e-3, 1e-1], **options).fit(X, y)
    alone = Ridge(1e-2, **options).fit(X, y[:, [1]])
    assert "3 groups of targets by their penalties, each solved together" in model.plan_.notes
    assert np.all(model.n_iter_[1] < alone.n_iter_)
    assert relative(model.coef_[1], alone.coef_) < 1e-4


def test_a_zero_penalty_is_the_minimum_norm_solution_and_solver_says_svd():
    rng = np.random.default_rng(0)
    X, y = draw(rng, SHAPES["wide"], "dense", 1)
    model = Ridge(0.0, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-8)
    assert model.solver_ == "svd"
    assert model.coef_error_bound_ == np.inf


# scikit-learn's arguments ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("svd", "direct"),
        ("cholesky", "direct"),
        ("lsqr", "cg"),
        ("sparse_cg", "cg"),
        ("lbfgs", "cg"),
        ("sag", "sag"),
        ("saga", "saga"),
    ],
)
def test_scikit_learns_solver_names_work(name, ours):
    rng = np.random.default_rng(0)
    X, y = draw(rng, (60, 5), "dense", 1)
    model = Ridge(1.0, solver=name, copy_X=False, tol=1e-10, random_state=0).fit(X, y)
    assert model.plan_.solver == ours
    told = any(f"solver={name!r}" in note for note in model.plan_.notes)
    assert told == (name != ours)
    assert relative(model.coef_, oracle(X, y, 1.0, None, True).coef_) < 1e-3


def test_max_iter_is_a_budget_of_passes():
    rng = np.random.default_rng(0)
    X, y = decaying(rng, 200, 100), rng.standard_normal(200)
    with pytest.warns(ConvergenceWarning, match="budget of passes is spent"):
        model = Ridge(1e-8, solver="sag", max_iter=3, random_state=0).fit(X, y)
    assert "max_iter=3 is a budget of passes over the data" in model.plan_.notes
    with pytest.raises(ValueError, match="max_iter=3 and max_passes=4 mean the same"):
        Ridge(max_iter=3, max_passes=4).fit(X, y)


def test_positive_is_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"sklearn\.linear_model\.Ridge\(positive=True\)"):
        Ridge(positive=True).fit(np.eye(3), np.ones(3))


def test_X_and_y_are_left_as_they_are():
    rng = np.random.default_rng(0)
    X, y = draw(rng, (30, 4), "dense", 1)
    before = X.copy(), y.copy()
    Ridge(copy_X=False).fit(X, y)
    assert np.array_equal(X, before[0]) and np.array_equal(y, before[1])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": -1.0}, ValueError, "alpha=-1.0 is out of range: give a number ≥ 0"),
        ({"alpha": "a"}, TypeError, "alpha='a' is not a number"),
        ({"alpha": [1.0, 2.0]}, ValueError, r"alpha has shape \(2,\) and y has 1 target"),
        ({"alpha_scale": "n"}, ValueError, "alpha_scale='n' is unknown: give 'sum'"),
        ({"solver": "magic"}, ValueError, "solver='magic' is unknown"),
        ({"tol": 0.0}, ValueError, "tol=0.0 is out of range"),
        ({"fit_intercept": "yes"}, TypeError, "fit_intercept='yes' is neither True nor False"),
        ({"max_iter": 0}, ValueError, "max_iter=0 is out of range"),
        ({"callback": 3}, TypeError, "callback=3 cannot be called"),
        ({"random_state": -1}, ValueError, "random_state=-1 is no seed"),
    ],
)
def test_a_bad_parameter_is_refused_by_name_and_with_a_remedy(options, error, message):
    with pytest.raises(error, match=message):
        Ridge(**options).fit(np.eye(3), np.ones(3))


# How a fit goes -------------------------------------------------------------------------------


def test_a_fit_that_stops_short_says_how_far_it_came_and_what_to_do():
    rng = np.random.default_rng(0)
    X, y = decaying(rng, 300, 200), rng.standard_normal((300, 3))
    with pytest.warns(ConvergenceWarning) as caught:
        model = Ridge(1e-9, solver="cg", preconditioner="none", max_passes=8).fit(X, y)
    message = str(caught[0].message)
    assert message.startswith("Ridge did not reach tol=1e-06 for 3 of 3 targets")
    assert f"the certified relative gap is {model.relative_gap_.max():.2g}" in message
    assert "raise max_passes" in message
    assert caught[0].filename == __file__


def test_a_warm_start_goes_on_from_the_last_fit():
    rng = np.random.default_rng(0)
    X, y = decaying(rng, 400, 150), rng.standard_normal(400)
    model = Ridge(1e-4, solver="cg", preconditioner="none", warm_start=True, random_state=0)
    cold = int(model.fit(X, y).n_iter_[0])
    warm = int(model.set_params(alpha=1.1e-4).fit(X, y).n_iter_[0])
    fresh = int(clone(model).fit(X, y).n_iter_[0])
    assert warm < min(cold, fresh)
    assert model.fit(X[:, :50], y).coef_.shape == (50,)


def test_verbose_prints_a_line_a_look(capsys):
    rng = np.random.default_rng(0)
    X, y = draw(rng, (30, 4), "dense", 1)
    Ridge(solver="cg", verbose=1, random_state=0).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines and "relative gap" in lines[-1] and "certified" in lines[-1]


def test_a_callback_sees_every_look_and_stops_without_a_warning():
    rng = np.random.default_rng(0)
    X, y = decaying(rng, 300, 200), rng.standard_normal(300)
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) == 3

    model = Ridge(1e-9, solver="cg", preconditioner="none", callback=stop).fit(X, y)
    assert len(seen) == 3
    assert model.relative_gap_ > 1e-6


def test_the_history_and_the_plan_tell_how_it_went():
    rng = np.random.default_rng(0)
    X, y = decaying(rng, 200, 60), rng.standard_normal(200)
    model = Ridge(1e-3, solver="cg", preconditioner=Nystrom(rank=20), random_state=0).fit(X, y)
    assert (model.plan_.solver, model.plan_.preconditioner, model.plan_.rank) == (
        "cg",
        "nystrom",
        20,
    )
    assert model.history_[-1].certified
    assert model.history_[-1].relative_gap == model.relative_gap_
    assert model.n_iter_[0] == np.ceil(model.history_[-1].passes)


def test_the_same_seed_gives_the_same_coefficients():
    rng = np.random.default_rng(0)
    X, y = decaying(rng, 200, 60), rng.standard_normal(200)
    model = Ridge(1e-3, solver="svrg", random_state=5)
    first = model.fit(X, y).coef_
    assert np.array_equal(first, model.fit(X, y).coef_)
    assert not np.array_equal(first, model.set_params(random_state=6).fit(X, y).coef_)


def test_an_interrupted_fit_keeps_the_best_point_and_says_so():
    rng = np.random.default_rng(0)
    X, y = decaying(rng, 300, 200), rng.standard_normal(300)

    def interrupt(record):
        if record.passes > 5:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="Interrupted: the best point so far is returned"):
        model = Ridge(1e-9, solver="cg", preconditioner="none", callback=interrupt).fit(X, y)
    assert np.all(np.isfinite(model.coef_)) and Status.INTERRUPTED.value.startswith("interrupted")


# Data as users have it ------------------------------------------------------------------------


def sparse_forms(X):
    csr = sparse.csr_array(X)
    long = sparse.csr_array(X)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    backwards = csr.copy()
    for row in range(csr.shape[0]):
        part = slice(csr.indptr[row], csr.indptr[row + 1])
        backwards.indices[part] = csr.indices[part][::-1]
        backwards.data[part] = csr.data[part][::-1]
    backwards.has_sorted_indices = False
    return {
        "csr": csr,
        "int64 indices": long,
        "unsorted": backwards,
        "csc": csr.tocsc(),
        "coo": csr.tocoo(),
        "csr_matrix": sparse.csr_matrix(X),
        "lil": csr.tolil(),
    }


@pytest.mark.parametrize("form", sparse_forms(np.eye(2)))
@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_every_sparse_form_is_taken_and_copies_are_told(form, solver):
    rng = np.random.default_rng(1)
    dense, y = draw(rng, (40, 8), "dense", 1)
    X = sparse_forms(dense)[form]
    indices = getattr(X, "indices", None)
    before = None if indices is None else indices.copy()
    model = Ridge(1.0, solver=solver, tol=1e-10, random_state=0).fit(X, y)
    assert relative(model.coef_, oracle(dense, y, 1.0, None, True).coef_) < 1e-4
    np.testing.assert_allclose(model.predict(X), model.predict(dense), rtol=1e-10)
    told = any("copied" in note for note in model.plan_.notes)
    assert told == (form in ("unsorted", "csc", "coo", "lil"))
    assert before is None or np.array_equal(X.indices, before)


def test_sparse_data_is_never_made_dense(monkeypatch):
    rng = np.random.default_rng(1)
    X = sparse.random_array((3000, 2500), density=0.002, rng=rng, format="csr")
    y = rng.standard_normal(3000)

    def refuse(*args, **kwargs):
        raise AssertionError("densified")

    for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array):
        monkeypatch.setattr(kind, "toarray", refuse)
    model = Ridge(1.0, random_state=0).fit(X, y, rng.uniform(0.5, 1, 3000))
    assert model.solver_ == "cg"
    assert model.relative_gap_ <= 1e-6


def test_fortran_order_and_strided_data_are_taken():
    rng = np.random.default_rng(1)
    X, y = draw(rng, (40, 8), "dense", 1)
    expected = Ridge().fit(X, y)
    fortran = Ridge().fit(np.asfortranarray(X), y)
    strided = Ridge().fit(np.repeat(X, 2, axis=1)[:, ::2], y)
    np.testing.assert_allclose(fortran.coef_, expected.coef_, rtol=1e-10)
    np.testing.assert_allclose(strided.coef_, expected.coef_, rtol=1e-10)
    assert fortran.plan_.notes == ()
    assert any("not contiguous: copied" in note for note in strided.plan_.notes)


def test_integers_are_cast_with_a_note():
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 255, (40, 5), dtype=np.uint8), rng.standard_normal(40)
    model = Ridge().fit(X, y)
    assert model.coef_.dtype == np.float64
    assert any("dtype uint8: copied to float32" in note for note in model.plan_.notes)
    assert relative(model.coef_, oracle(X, y, 1.0, None, True).coef_) < 1e-8


MEMORY_MAP = """
import sys, threading, time
import numpy as np
from sketchridge import Ridge

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024

X = np.load(sys.argv[1], mmap_mode="r")
y = np.load(sys.argv[2])
# So many rows that the compiled loops are loaded too: their memory is not what is measured.
Ridge(solver=sys.argv[3], tol=1e-2, random_state=0).fit(X[:6000], y[:6000])
before, peak, done = anonymous(), [0.0], threading.Event()

def watch():
    while not done.is_set():
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.002)

thread = threading.Thread(target=watch)
thread.start()
model = Ridge(solver=sys.argv[3], tol=1e-3, random_state=0).fit(X, y)
done.set()
thread.join()
assert model.coef_.dtype == np.float32 and model.plan_.notes == (), model.plan_
print(peak[0] - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize("solver", ["direct", "cg"])
def test_a_read_only_memory_map_is_not_copied(tmp_path, solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, 400), dtype=np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", X[:, 0] + rng.standard_normal(60_000, dtype=np.float32))
    arguments = [tmp_path / "X.npy", tmp_path / "y.npy", solver]
    result = subprocess.run(
        [sys.executable, "-c", MEMORY_MAP, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 0.8 * X.nbytes / 2**20, "megabytes beyond the page cache"


# Small fits stay instant ----------------------------------------------------------------------


def test_a_small_fit_does_not_load_numba():
    code = (
        "import sys, numpy as np; from sketchridge import Ridge, RidgeClassifier;"
        "X = np.random.default_rng(0).standard_normal((200, 10));"
        "Ridge().fit(X, X[:, 0]).predict(X); RidgeClassifier().fit(X, X[:, 0] > 0).predict(X);"
        "assert 'numba' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_small_fit_takes_less_than_twice_scikit_learns_time():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 10)), rng.standard_normal(200)

    def seconds(model):
        began = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - began

    # The shortest of many: what either takes when nothing else runs.
    runs = [(seconds(Ridge()), seconds(sklearn.linear_model.Ridge())) for _ in range(300)]
    ours, theirs = np.min(runs, axis=0)
    assert ours < 2 * theirs


@pytest.mark.parametrize("value", [0.25, 0.1])
def test_a_constant_target_is_fitted_by_the_intercept_without_a_warning(value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Ridge().fit(np.ones((5, 2), np.float32), np.full(5, value))
    off = float(np.float32(value)) - value
    assert model.intercept_ == np.float32(value) and not model.coef_.any()
    assert 0.5 * off**2 <= model.gap_ <= 1e-15 and (off or model.gap_ == 0.0)


def test_a_warm_start_from_coefficients_that_are_not_finite_starts_anew():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 5)), rng.standard_normal(40)
    model = Ridge(solver="cg", tol=1e-14, warm_start=True, random_state=0).fit(X, y)
    model.coef_ = np.full(5, np.nan)
    expected = sklearn.linear_model.Ridge().fit(X, y)
    np.testing.assert_allclose(model.fit(X, y).coef_, expected.coef_, rtol=1e-6)


def test_a_direct_solve_that_cannot_be_certified_does_not_speak_of_steps():
    """With almost no penalty the refinement of a direct solve grows by rounding alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 7)) + 2
    y = X @ rng.standard_normal(7) + rng.standard_normal(80)
    with pytest.warns(ConvergenceWarning, match="raise alpha or tol") as caught:
        model = Ridge(1e-300).fit(X, y)
    assert "step" not in str(caught[0].message)
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(80)]), y)[0]
    np.testing.assert_allclose(model.coef_, expected[:7], rtol=1e-9)


def test_a_feature_penalty_that_is_no_numbers_is_refused_by_name():
    with pytest.raises(TypeError, match="feature_penalty=heavy is not made of numbers"):
        Ridge(feature_penalty="heavy").fit(np.eye(3), np.ones(3))
