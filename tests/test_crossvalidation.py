"""Folds: what each certifies against exact arithmetic, and its fits against fits of its rows."""

import numpy as np
import pytest
from scipy import sparse

import sketchridge.tracing
from sketchridge import Status, solve
from sketchridge.certificate import certified_gap
from sketchridge.crossvalidation import Samples, SharedGram, trace_folds
from sketchridge.decomposition import is_singular
from sketchridge.driver import check_controls
from sketchridge.rows import predict_rows, row_blocks, second_moment
from sketchridge.threads import single_threaded_blas
from sketchridge.tracing import stacked
from tests.exact import ExactRidge
from tests.problems import dense_of, sparse_rows
from tests.test_certificate import FAMILIES, Audit, Case, points

LAMS = np.array([1.0, 1e-1, 1e-3])


@pytest.fixture(autouse=True)
def one_thread():
    """On problems this small the threads of BLAS only wait for one another."""
    with single_threaded_blas():
        yield


def samples_of(kind, shape, fit_intercept, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) + 0.5
    X = sparse.csr_array(X * (rng.random(shape) < 0.5)) if kind == "sparse" else X
    weights = rng.uniform(0.1, 2.0, shape[0])
    weights[3] = 0.0
    return Samples(X, rng.standard_normal((shape[0], 2)) + 1.0, weights, fit_intercept)


def splits_of(n, seed=0):
    """Four folds, a bootstrap sample with its repetitions, and a split that trains on little."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    parts = np.array_split(order, 4)
    folds = [(np.concatenate(parts[:i] + parts[i + 1 :]), parts[i]) for i in range(4)]
    drawn = rng.integers(0, n, n)
    rest = np.setdiff1d(np.arange(n), drawn)
    return [*folds, (drawn, rest), (order[: n // 4], order[n // 4 :])]


def run(samples, splits, lams=LAMS, **options):
    controls = check_controls(**{"tol": 1e-14, "random_state": 0, **options})
    return list(trace_folds(samples, lambda weight: lams, splits, controls))


# The fits of a fold ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["direct", "krylov", "cg"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("shape", [(60, 9), (24, 40)])
def test_a_fold_is_the_fit_of_its_rows(shape, kind, fit_intercept, method, monkeypatch):
    if method == "krylov":
        monkeypatch.setattr(sketchridge.tracing, "DIRECT_SIZE", 0)
    samples = samples_of(kind, shape, fit_intercept)
    solver = "cg" if method == "cg" else "auto"
    folds = run(samples, splits_of(shape[0]), solver=solver)
    assert len(folds) == 6
    for fold in folds:
        assert fold.tracer.status is Status.CONVERGED and fold.tracer.converged.all()
        predictions = fold.predictions()
        assert predictions.shape == (fold.test.size, LAMS.size, 2)
        for index, lam in enumerate(LAMS):
            alone = solve(
                samples.X[fold.train],
                samples.Y[fold.train],
                lam,
                solver="direct",
                tol=1e-18,
                sample_weight=samples.sample_weight[fold.train],
                fit_intercept=fit_intercept,
            )
            expected = dense_of(samples.X)[fold.test] @ alone.coef.T + alone.intercept
            np.testing.assert_allclose(predictions[:, index], expected, rtol=1e-5, atol=1e-5)
            assert np.all(fold.tracer.objective[index] >= alone.objective * (1 - 1e-12))


def test_decomposed_folds_agree_to_many_digits():
    samples = samples_of("dense", (60, 9), True)
    for fold in run(samples, splits_of(60)):
        alone = solve(
            samples.X[fold.train],
            samples.Y[fold.train],
            LAMS[1],
            sample_weight=samples.sample_weight[fold.train],
            fit_intercept=True,
        )
        np.testing.assert_allclose(fold.tracer.coef[1], alone.coef, rtol=1e-10)


def test_a_penalty_may_depend_on_the_weight_of_the_fold():
    samples = samples_of("dense", (40, 6), False)
    seen = []
    controls = check_controls()

    def lams_for(weight):
        seen.append(weight)
        return LAMS / weight

    for fold in trace_folds(samples, lams_for, splits_of(40), controls):
        assert np.allclose(fold.tracer.lams, LAMS / seen[-1])
        assert np.isclose(seen[-1], samples.sample_weight[fold.train].sum())


def test_an_outlier_that_is_held_out_leaves_no_trace():
    """Subtracting its part of the Gram matrix loses all digits: the direct solver steps in."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    X[0] *= 1e9
    samples = Samples(X, rng.standard_normal((30, 1)), np.ones(30), True)
    (fold,) = run(samples, [(np.arange(1, 30), np.arange(1))], tol=1e-12)
    alone = solve(X[1:], samples.Y[1:], LAMS[2], fit_intercept=True)
    assert fold.tracer.converged.all()
    np.testing.assert_allclose(fold.tracer.coef[2], alone.coef, rtol=1e-6)


def test_folds_that_are_followed_share_their_sketch():
    samples = samples_of("dense", (80, 30), True)
    splits = splits_of(80)[:4]
    together = run(samples, splits, solver="cg", preconditioner="nystrom", rank=10, tol=1e-8)
    alone = [
        run(samples, [split], solver="cg", preconditioner="nystrom", rank=10, tol=1e-8)[0]
        for split in splits
    ]
    passes = [fold.tracer.problem.passes for fold in together]
    assert np.all(np.diff(passes) > 0)  # they count on from fold to fold
    for fold in [*together, *alone]:
        assert fold.tracer.converged.all()
    notes = together[1].tracer.plan([]).notes
    assert any("sketch of other data" in note for note in notes)


# Certificates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_certificate_of_a_fold_is_never_below_its_true_gap(family):
    """For weights as drawn, rows held out and rows repeated, in exact arithmetic."""
    rng = np.random.default_rng([3, list(FAMILIES).index(family)])
    audit = Audit()
    for _ in range(40):
        case = Case.draw(family, rng)
        n = case.X.shape[0]
        weights = np.ones(n) if case.sample_weight is None else case.sample_weight
        counts = rng.choice([0, 1, 1, 1], n) if rng.random() < 0.7 else rng.integers(0, 3, n)
        if not np.any(weights * counts):
            continue
        samples = Samples(case.X, case.Y.astype(float), weights, case.fit_intercept)
        whole, fold = samples.problem(weights), samples.problem(weights * counts)
        decomposition = SharedGram.of(whole).decompose(fold, counts)
        lam = float(case.lam * 10.0 ** rng.uniform(-3, 3))
        if is_singular(fold, lam):
            continue
        exact = ExactRidge(case.X, case.Y, lam, weights * counts, case.fit_intercept)
        stack = stacked(fold, np.array([lam]))
        metric = decomposition.metric(np.repeat(lam, stack.targets))
        for point, W in points(exact, rng):
            gap = certified_gap(stack, metric, stack.evaluate(W))
            truth = exact.gap(W, stack.intercept(W))
            audit.check(case, type(decomposition).__name__, point, gap, truth)
    assert audit.checks.total() >= 60
    audit.verdict()


@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_what_large_folds_certify_is_never_below_the_truth(solver, monkeypatch):
    """A sketch of other rows is no lower bound of a fold's C, and must not be taken for one."""
    monkeypatch.setattr(sketchridge.tracing, "DIRECT_SIZE", 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 5)) * 10.0 ** rng.uniform(-2, 1, 5)
    X[0] *= 50.0  # one fold has far less curvature than the others
    samples = Samples(X, rng.standard_normal((12, 2)), rng.uniform(0.5, 2.0, 12), True)
    parts = np.array_split(np.arange(12), 4)
    splits = [(np.setdiff1d(np.arange(12), part), part) for part in parts]
    options = {"rank": 2, "preconditioner": "nystrom"} if solver == "cg" else {}
    for tol in (1e-1, 1e-3, 1e-6, 1e-12):
        for fold in run(samples, splits, solver=solver, tol=tol, **options):
            weights = samples.sample_weight * np.bincount(fold.train, minlength=12)
            for index, lam in enumerate(LAMS):
                exact = ExactRidge(X, samples.Y, float(lam), weights, True)
                truth = exact.gap(fold.tracer.coef[index].T, fold.tracer.intercepts()[index])
                assert np.all(fold.tracer.gap[index] >= truth)


# What it costs --------------------------------------------------------------------------------


def test_the_gram_matrix_is_formed_once():
    """And the rows that are held out are read once more, in all."""
    samples = samples_of("dense", (100, 8), True)
    order = np.random.default_rng(0).permutation(100)
    splits = [(np.setdiff1d(order, part), part) for part in np.array_split(order, 5)]
    folds = run(samples, splits, tol=1e-6)
    fixed = 8.0 * len(splits)  # norms, means, the start and one fresh gradient of each fold
    assert folds[-1].tracer.problem.passes <= 4 + fixed


def test_rows_are_taken_in_blocks(monkeypatch):
    import sketchridge.rows

    monkeypatch.setattr(sketchridge.rows, "BLOCK_BYTES", 8 * 7 * 5)
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.0, 1.0, 50)
    rows = rng.permutation(50)[:33]
    centre = rng.standard_normal(7)
    dense = rng.standard_normal((50, 7))
    for X in (dense, sparse_rows(rng, 50, 7, density=0.4), dense.astype(np.float32)):
        full = dense_of(X)
        blocks = [block for _, block in row_blocks(X, rows)]
        assert len(blocks) >= 2 and all(block.dtype == np.float64 for block in blocks)
        np.testing.assert_allclose(np.vstack([dense_of(b) for b in blocks]), full[rows])
        for about in (None, centre):
            shifted = full if about is None else full - about
            expected = (shifted[rows].T * weights[rows]) @ shifted[rows]
            np.testing.assert_allclose(
                second_moment(X, rows, weights, about), expected, rtol=1e-6, atol=1e-12
            )
        coef, intercept = rng.standard_normal((7, 3)), rng.standard_normal(3)
        np.testing.assert_allclose(
            predict_rows(X, rows, coef, intercept), full[rows] @ coef + intercept, rtol=1e-6
        )
    assert predict_rows(dense, rows[:0], coef, intercept).shape == (0, 3)


def test_neighbouring_rows_are_views():
    X = np.random.default_rng(0).standard_normal((50, 7))
    ((_, block),) = row_blocks(X, np.arange(10, 30))
    assert np.shares_memory(block, X)
    ((_, copied),) = row_blocks(X, np.array([3, 5, 4]))
    assert not np.shares_memory(copied, X)
