"""Preconditioners against eq. condSketch as dense matrices."""

import numpy as np
import pytest

from sketchridge.preconditioner import Exact, Lanczos, NoPreconditioner, Nystrom
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

SKETCHED = [Exact(rank=4), Lanczos(rank=4, blocks=2), Lanczos(rank=3, keep="all"), Nystrom(rank=7)]
SPECS = [NoPreconditioner(), *SKETCHED]
LAM = 1e-3


def build(spec, X, lam=LAM, seed=0, **options):
    problem = make(X, np.zeros(X.shape[0]), lam, **options)
    return problem, spec.build(problem, np.random.default_rng(seed))


def data(kind):
    rng = np.random.default_rng(0)
    return {
        "tall": lambda: decaying(rng, 50, 24),
        "wide": lambda: decaying(rng, 24, 50),
        "sparse": lambda: sparse_rows(rng, 50, 24),
    }[kind]()


def norm(M):
    return np.linalg.norm(M, 2)


def dense_matrix(preconditioner):
    """P by eq. condSketch, from the pairs of its sketch."""
    spectrum = preconditioner.spectrum
    if spectrum is None:
        return np.eye(preconditioner.basis.shape[0])
    P, _, _ = literal.preconditioner_matrices(spectrum.basis, spectrum.values, preconditioner.lam)
    return P


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@pytest.mark.parametrize("kind", ["tall", "wide", "sparse"])
def test_the_inverse_is_that_of_the_papers_matrix(spec, kind):
    problem, preconditioner = build(spec, data(kind))
    inverse = np.linalg.inv(dense_matrix(preconditioner))
    G = np.random.default_rng(1).standard_normal((problem.d, 3))
    assert norm(preconditioner.power(np.eye(problem.d), -1.0) - inverse) < 1e-11 * norm(inverse)
    assert np.allclose(preconditioner.apply(G), inverse @ G, rtol=1e-9)
    assert np.allclose(preconditioner.inverse_diagonal(), np.diag(inverse), rtol=1e-11)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_the_roots_are_inverse_to_one_another(spec):
    problem, preconditioner = build(spec, data("tall"))
    eye = np.eye(problem.d)
    root, inverse_root = preconditioner.power(eye, 0.5), preconditioner.power(eye, -0.5)
    assert np.allclose(root @ inverse_root, eye, atol=1e-12)
    assert np.allclose(root @ root, dense_matrix(preconditioner), atol=1e-13)
    assert np.allclose(root, root.T, atol=1e-14)
    assert np.allclose(preconditioner.power(eye, 0.0), eye, atol=1e-14)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@pytest.mark.parametrize("kind", ["tall", "wide", "sparse"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_quadratic_forms_are_those_of_the_dense_inverse(spec, kind, fit_intercept):
    X = data(kind)
    problem, preconditioner = build(spec, X, fit_intercept=fit_intercept)
    rows = dense_of(X)
    rows = rows - rows.mean(axis=0) if fit_intercept else rows
    inverse = np.linalg.inv(dense_matrix(preconditioner))
    coordinates = problem.multiply(preconditioner.basis)
    forms = preconditioner.quadratic_forms(problem.squared_norms, coordinates)
    assert np.allclose(forms, np.einsum("ij,jk,ik->i", rows, inverse, rows), rtol=1e-10)


def test_a_quadratic_form_that_cancels_stays_positive():
    X = with_spectrum(np.random.default_rng(2), 40, 20, np.logspace(0, -5, 20))
    X[0] = 0.0
    problem, preconditioner = build(Exact(rank=19), X, lam=1e-14)
    coordinates = problem.multiply(preconditioner.basis)
    forms = preconditioner.quadratic_forms(problem.squared_norms, coordinates)
    assert forms[0] == 0.0
    assert np.all(forms[1:] > 0)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_moving_to_another_lambda_is_building_there(spec):
    X = data("tall")
    _, first = build(spec, X, lam=1e-2)
    for lam in (1e-6, 10.0):
        _, there = build(spec, X, lam=lam)
        moved = first.at(lam)
        assert moved.lam == lam
        assert moved.notes == there.notes
        assert np.array_equal(moved.basis, there.basis)
        assert np.array_equal(moved.inside, there.inside)
        assert moved.outside == there.outside
    assert first.at(1e-2) is first


# Rank -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [Exact, Lanczos, Nystrom])
@pytest.mark.parametrize("rank", [-1, 0, 25, 1000])
@pytest.mark.parametrize("kind", ["tall", "wide"])
def test_a_rank_out_of_range_is_refused_by_name(spec, rank, kind):
    with pytest.raises(ValueError, match=rf"rank={rank} .* min\(n, d\)"):
        build(spec(rank=rank), data(kind))


@pytest.mark.parametrize("spec", [Exact, Lanczos, Nystrom])
def test_an_automatic_rank_fits_small_data(spec):
    _, preconditioner = build(spec(), data("wide"))
    assert preconditioner.rank == 24


@pytest.mark.parametrize("spec", [Exact(rank=16), Lanczos(rank=16, blocks=2)], ids=repr)
def test_directions_too_weak_for_float64_are_left_out_with_a_note(spec):
    n, d, lam = 40, 30, 1e-15
    X = with_spectrum(np.random.default_rng(3), n, d, np.logspace(0, -12, d))
    _, preconditioner = build(spec, X, lam=lam)
    rank = preconditioner.rank
    assert 1 <= rank < 16
    assert f"rank lowered from 16 to {rank}" in preconditioner.notes[0]
    values = preconditioner.spectrum.values
    assert (values[0] + lam) / (values[rank - 1] + lam) <= 1e12
    assert (values[0] + lam) / (values[rank] + lam) > 1e12
    # Beyond them P is as weak as float64 can bear, not as strong as the last that is kept.
    U = preconditioner.basis
    P = U @ np.diag(values[:rank] + lam) @ U.T
    P += (values[0] + lam) / 1e12 * (np.eye(d) - U @ U.T)
    assert np.allclose(preconditioner.power(np.eye(d), 1.0), P, rtol=1e-8)
    assert preconditioner.at(1e-6).rank == 16
    assert preconditioner.at(1e-6).notes == ()


@pytest.mark.parametrize("rank", [5, 8])
def test_a_lowered_rank_conditions_better_than_that_rank_does(rank):
    d, lam = 10, 1e-10
    sigma = np.array([1e3, 1e2, 10, 1.0, 1e-4, 1e-4, 1e-5, 1e-5, 0, 0])
    X = with_spectrum(np.random.default_rng(4), 40, d, sigma)
    problem, preconditioner = build(Exact(rank=rank), X, lam=lam)
    assert preconditioner.rank == 4
    values = sigma**2
    weakest = values[0] / 1e12
    expected = (4 * weakest + values[4:].sum() + d * lam) / lam
    assert expected < (4 * values[3] + values[4:].sum() + d * lam) / lam / 1e5
    kappa = average_condition_number(
        correlation_factor(X, problem.weights), lam, preconditioner.power(np.eye(d), -0.5)
    )
    assert kappa == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("lam", [1e-5, 1e-2, 1e3])
@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
@pytest.mark.parametrize(
    "spec",
    [Exact(rank=8), Lanczos(rank=8, blocks=1), Lanczos(rank=4, keep="all"), Nystrom(rank=8)],
    ids=repr,
)
def test_more_rank_than_the_data_has_conditions_perfectly(spec, shape, lam):
    X = with_spectrum(np.random.default_rng(5), *shape, np.logspace(0, -1, 5))
    H = literal.correlation(X) + lam * np.eye(shape[1])
    for seed in range(12):
        problem, preconditioner = build(spec, X, lam=lam, seed=seed)
        powers = [preconditioner.power(np.eye(problem.d), exponent) for exponent in (1.0, -0.5)]
        assert norm(powers[0] - H) < 1e-12 * norm(H)
        X_bar = correlation_factor(X, problem.weights)
        kappa = average_condition_number(X_bar, lam, powers[1])
        assert kappa == pytest.approx(problem.d, rel=1e-6)


@pytest.mark.parametrize("spec", SKETCHED, ids=repr)
@pytest.mark.parametrize("shape", [(30, 12), (12, 30)])
def test_data_of_zeros_leaves_lambda_alone(spec, shape):
    problem, preconditioner = build(spec, np.zeros(shape))
    eye = np.eye(problem.d)
    assert np.allclose(preconditioner.power(eye, 1.0), LAM * eye, atol=1e-15)
    assert np.allclose(preconditioner.at(2.0).power(eye, 1.0), 2 * eye, atol=1e-14)


@pytest.mark.parametrize("spec", SKETCHED, ids=repr)
def test_the_same_seed_gives_the_same_preconditioner(spec):
    X = data("tall")
    (_, a), (_, b) = build(spec, X, seed=3), build(spec, X, seed=3)
    assert np.array_equal(a.basis, b.basis)
    assert np.array_equal(a.inside, b.inside)
