"""The oracle itself: checked by enumeration, by differences and by what it converges to."""

import numpy as np
import pytest

from tests import literal

FORMS = {"sampled": literal.sampled_sum, "exact": literal.exact_sum}
OMEGAS = ["uniform", "weighted"]


def problem(seed=0, n=30, d=5):
    """A small ill-conditioned problem, with weights of which one is zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -1.0
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)
    s = rng.uniform(0.2, 3.0, n)
    s[0] = 0.0
    return X, y, {"uniform": None, "weighted": s / s.sum()}


def sketched(X, lam, omega, k=2):
    """P^{-1/2} from block Lanczos with two blocks: a preconditioner that is not exact."""
    A = (X * np.sqrt(literal.row_weights(X, omega))[:, None]).T
    Pi = np.random.default_rng(9).standard_normal((A.shape[1], k))
    U, sigma, _ = literal.block_lanczos(A, k, 2, Pi)
    return literal.preconditioner_matrices(U, sigma**2, lam)


@pytest.mark.parametrize("weighting", OMEGAS)
def test_gradient_is_the_derivative_and_vanishes_at_the_solution(weighting):
    X, y, omegas = problem()
    omega, lam = omegas[weighting], 0.03
    w, h = np.linspace(-1, 1, 5), 1e-5
    differences = [
        literal.objective(X, y, lam, w + h * e, omega)
        - literal.objective(X, y, lam, w - h * e, omega)
        for e in np.eye(5)
    ]
    assert np.allclose(
        literal.gradient(X, y, lam, w, omega), np.array(differences) / (2 * h), rtol=1e-7
    )
    solution = literal.ridge_solution(X, y, lam, omega)
    assert np.linalg.norm(literal.gradient(X, y, lam, solution, omega)) < 1e-14


def test_a_weight_is_a_repeated_row():
    X, y, _ = problem()
    counts = np.arange(30) % 4
    repeated = np.repeat(np.arange(30), counts)
    weighted = literal.ridge_solution(X, y, 0.1, counts / counts.sum())
    assert np.allclose(weighted, literal.ridge_solution(X[repeated], y[repeated], 0.1), rtol=1e-12)


def test_preconditioner_matrices_are_powers_of_one_matrix():
    X, _, _ = problem()
    P, P_inv_sqrt, P_sqrt = sketched(X, 0.01, None)
    assert np.allclose(P_sqrt @ P_sqrt, P, rtol=1e-12)
    assert np.allclose(P_sqrt @ P_inv_sqrt, np.eye(5), atol=1e-12)
    U, values = np.eye(5)[:, :2], np.array([4.0, 2.0])
    diagonal, _, _ = literal.preconditioner_matrices(U, values, 0.5)
    assert np.allclose(diagonal, np.diag([4.5, 2.5, 2.5, 2.5, 2.5]), atol=1e-15)
    full_rank, _, _ = literal.preconditioner_matrices(
        *exact_eigenvectors(literal.correlation(X)), 0.01
    )
    assert np.allclose(full_rank, literal.correlation(X) + 0.01 * np.eye(5), atol=1e-13)


def exact_eigenvectors(C):
    values, U = np.linalg.eigh(C)
    return U[:, ::-1], values[::-1]


@pytest.mark.parametrize("n, d", [(30, 8), (5, 8)])
def test_block_lanczos_that_fills_the_space_is_the_svd(n, d):
    rng = np.random.default_rng(1)
    A, k = rng.standard_normal((d, n)), 3
    U, sigma, V = literal.block_lanczos(A, k, 3, rng.standard_normal((n, k)))
    left, values, right = np.linalg.svd(A, full_matrices=False)
    assert np.allclose(sigma, values[:k], rtol=1e-12)
    assert np.allclose(U * sigma @ V.T, left[:, :k] * values[:k] @ right[:k], atol=1e-10)
    assert np.allclose(U.T @ U, np.eye(k), atol=1e-12)


def test_block_lanczos_is_no_svd_when_the_space_is_small():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((8, 30))
    _, sigma, _ = literal.block_lanczos(A, 2, 2, rng.standard_normal((30, 2)))
    assert np.all(sigma < np.linalg.svd(A, compute_uv=False)[:2] - 1e-3)


@pytest.mark.parametrize("weighting", OMEGAS)
@pytest.mark.parametrize("form", FORMS)
def test_stochastic_gradient_is_unbiased(form, weighting):
    X, y, omegas = problem()
    omega, lam = omegas[weighting], 0.03
    _, P_inv_sqrt, P_sqrt = sketched(X, lam, omega)
    finite_sum = FORMS[form](X, y, lam, P_inv_sqrt, omega)
    w, w_bar = np.random.default_rng(2).standard_normal((2, 5))
    v_bar = finite_sum.mean_gradient(P_sqrt @ w_bar)
    p = finite_sum.probabilities()
    mean = sum(
        p[i] * finite_sum.stochastic_gradient(i, P_sqrt @ w, P_sqrt @ w_bar, v_bar, p[i])
        for i in np.flatnonzero(p)
    )
    gradient = P_inv_sqrt @ literal.gradient(X, y, lam, w, omega)
    assert np.allclose(mean, gradient, rtol=1e-12)


@pytest.mark.parametrize("weighting", OMEGAS)
@pytest.mark.parametrize("form", FORMS)
def test_sampling_agrees_with_the_components(form, weighting):
    X, y, omegas = problem()
    omega, lam = omegas[weighting], 0.03
    _, P_inv_sqrt, _ = sketched(X, lam, omega)
    finite_sum = FORMS[form](X, y, lam, P_inv_sqrt, omega)
    p, beta_hat = literal.sampling(X, lam, P_inv_sqrt @ P_inv_sqrt, form, omega)
    assert np.allclose(p, finite_sum.probabilities(), rtol=1e-12)
    assert p.sum() == pytest.approx(1.0)
    whole = np.linalg.norm(finite_sum.ridge, 2)
    assert beta_hat == pytest.approx(finite_sum.smoothness().mean() + whole)


@pytest.mark.parametrize("weighting", OMEGAS)
@pytest.mark.parametrize("snapshot, step", [("average", 0.5), ("last", 0.3)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("preconditioned", [False, True])
def test_svrg_converges_to_the_solution(form, snapshot, step, weighting, preconditioned):
    X, y, omegas = problem()
    omega, lam = omegas[weighting], 0.03
    P_inv_sqrt = sketched(X, lam, omega)[1] if preconditioned else None
    snapshots = literal.svrg(
        X, y, lam, P_inv_sqrt, form, step, 300, 25, snapshot, omega, np.ones(5)
    )
    best = literal.objective(X, y, lam, literal.ridge_solution(X, y, lam, omega), omega)
    gaps = [literal.objective(X, y, lam, w, omega) - best for w in snapshots]
    assert gaps[-1] < 1e-8 * gaps[0]


@pytest.mark.parametrize("epoch", [literal.svrg_epoch_sampled, literal.svrg_epoch_exact])
def test_the_solution_is_a_fixed_point_of_an_epoch(epoch):
    X, y, _ = problem()
    _, P_inv_sqrt, _ = sketched(X, 0.03, None)
    solution = literal.ridge_solution(X, y, 0.03)
    after = epoch(X, y, 0.03, P_inv_sqrt, solution, [3, 1, 4, 1, 5], 0.5, "last")
    assert np.allclose(after, solution, rtol=1e-12)


def test_an_epoch_in_the_original_coordinates_multiplies_each_step_by_p_inverse():
    X, y, _ = problem()
    lam, eta, order = 0.03, 0.4, [2, 7, 7, 0]
    P, P_inv_sqrt, _ = sketched(X, lam, None)
    w_bar = np.ones(5)
    p, _ = literal.sampling(X, lam, np.linalg.inv(P), "exact")
    w, v_bar, total = w_bar, X.T @ (X @ w_bar - y) / 30, np.zeros(5)
    for i in order:
        delta = X[i] @ (w - w_bar) / (30 * p[i])
        w = w - eta * np.linalg.solve(P, delta * X[i] + v_bar + lam * w)
        total += w
    result = literal.svrg_epoch_exact(X, y, lam, P_inv_sqrt, w_bar, order, eta, "average")
    assert np.allclose(result, total / 4, rtol=1e-11)
