"""Each slip of the paper: the printed form fails numerically, the corrected one holds.

A test states what it measured through `measured`, and docs/errata.md must say the same.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from tests import literal

ERRATA = Path(__file__).parent.parent / "docs" / "errata.md"


def prose(text):
    return " ".join(text.split())


@pytest.fixture
def measured(request):
    """Print a sentence of numbers and require the errata to say it under this test's name."""

    def state(sentence):
        line = f"`{request.node.name}`: {sentence}"
        print(f"\n{line}")
        assert line in prose(ERRATA.read_text(encoding="utf-8"))

    return state


def test_every_check_is_described_and_every_description_checked():
    described = set(re.findall(r"`(test_\w+)`: ", prose(ERRATA.read_text(encoding="utf-8"))))
    checks = {name for name in globals() if name.startswith("test_")}
    assert described == checks - {"test_every_check_is_described_and_every_description_checked"}


def spectral(M):
    return np.linalg.norm(M, 2)


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def gaussian_rows(rng, n, d, decay):
    """Rows whose j-th coordinate is of size j^-decay."""
    return rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -decay


def regression(n=40, d=6, decay=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = gaussian_rows(rng, n, d, decay)
    return X, X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)


def hessian(X, lam):
    return literal.correlation(X) + lam * np.eye(X.shape[1])


def sketch(X, k, q=3, seed=1):
    """Algorithm 2 on X̄ = Xᵀ/√n."""
    n = X.shape[0]
    Pi = np.random.default_rng(seed).standard_normal((n, k))
    return literal.block_lanczos(X.T / np.sqrt(n), k, q, Pi)


def preconditioner(X, lam, k):
    """P, P^{-1/2} and P^{1/2} of Algorithm 3."""
    U, sigma, _ = sketch(X, k)
    return literal.preconditioner_matrices(U, sigma**2, lam)


def average_condition_number(H):
    return np.trace(H) / np.linalg.eigvalsh(H)[0]


# Algorithm 1 ------------------------------------------------------------------------------------


def test_the_correction_is_divided_by_n_times_its_probability(measured):
    X, y = regression(n=60)
    lam, N = 0.01, 66
    loss = literal.sampled_sum(X, y, lam, np.eye(6))
    q, beta_hat = loss.probabilities(), loss.smoothness().mean()
    w, w_bar = np.random.default_rng(2).standard_normal((2, 6))
    corrections = np.array(
        [loss.component_gradient(i, w) - loss.component_gradient(i, w_bar) for i in range(N)]
    )
    right = loss.mean_gradient(w) - loss.mean_gradient(w_bar)
    printed = q @ (corrections / q[:, None])
    assert np.allclose(q @ (corrections / (N * q[:, None])), right, rtol=1e-12)
    assert np.allclose(printed, N * right, rtol=1e-12)

    # E[w_t] is affine in w_{t−1}, of slope I − ηH, and I − ηNH as printed.
    factors = [spectral(np.eye(6) - 0.1 / beta_hat * scale * hessian(X, lam)) for scale in (N, 1)]
    assert factors[1] < 1 < factors[0]
    ratio = np.linalg.norm(printed) / np.linalg.norm(right)
    measured(
        f"N = {N}, the printed correction's mean is {ratio:.1f} times the right one; at "
        f"η = 0.1/β̂ the mean step is a linear map of norm {factors[0]:.2f} as printed, "
        f"{factors[1]:.3f} as corrected."
    )


def test_the_input_is_all_n_components(measured):
    X, y = regression()
    lam, (n, d) = 0.3, (40, 6)
    loss = literal.sampled_sum(X, y, lam, np.eye(d))

    def minimiser(count):
        rows, scale = loss.rows[:count], loss.scale[:count]
        return np.linalg.solve(rows.T * scale @ rows, rows.T * scale @ loss.targets[:count])

    solution = literal.ridge_solution(X, y, lam)
    assert np.allclose(minimiser(n + d), solution, rtol=1e-12)
    printed = relative(minimiser(n), solution)
    assert printed > 0.1
    measured(
        f"the minimiser of f_1 … f_n, n = {n}, is {printed:.2f} away from the ridge solution "
        f"(relative), that of f_1 … f_N, N = {n + d}, less than 1e-12."
    )


# The theorem on SVRG ----------------------------------------------------------------------------


def expected_epoch(loss, eta, m):
    """The exact maps from E[ūūᵀ] (as a vector) to that of the next w̄: its average and its last.

    On a quadratic a step is linear in z = (u, Σu, ū), u = w − w*, so E[zzᵀ] follows Σ p_i M_i⊗M_i.
    """
    d, N, p = loss.rows.shape[1], len(loss.targets), loss.probabilities()
    H = loss.rows.T * loss.scale @ loss.rows / N
    eye, zero = np.eye(d), np.zeros((d, d))
    step = np.zeros((9 * d * d, 9 * d * d))
    for i in range(N):
        G = eta * loss.scale[i] * np.outer(loss.rows[i], loss.rows[i]) / (N * p[i])
        M = np.block([[eye - G, zero, G - eta * H], [eye - G, eye, G - eta * H], [zero, zero, eye]])
        step += p[i] * np.kron(M, M)
    start = np.vstack([eye, zero, eye])
    epoch = np.linalg.matrix_power(step, m) @ np.kron(start, start)
    average, last = np.hstack([zero, eye / m, zero]), np.hstack([eye, zero, zero])
    return {"average": np.kron(average, average) @ epoch, "last": np.kron(last, last) @ epoch}


class SmallProblem:
    """12 rows, 3 columns; SVRG starts at w* + u, u the eigenvector of the smallest eigenvalue."""

    def __init__(self, seed, lam=0.1):
        self.X, self.y = regression(n=12, d=3, seed=seed)
        self.lam, self.H = lam, hessian(self.X, lam)
        self.loss = literal.sampled_sum(self.X, self.y, lam, np.eye(3))
        values, vectors = np.linalg.eigh(self.H)
        self.u, self.beta_hat = vectors[:, 0], self.loss.smoothness().mean()
        self.kappa, self.eta = self.beta_hat / values[0], 0.1 / self.beta_hat

    def epoch_length(self, multiple):
        return int(np.ceil(multiple * self.kappa))

    def expected_contraction(self, m):
        """E[F(w̄_1) − F*] / (F(w̄_0) − F*), exactly, for either snapshot."""
        before = self.u @ self.H @ self.u
        maps = expected_epoch(self.loss, self.eta, m)
        return {
            name: self.H.ravel() @ G @ np.kron(self.u, self.u) / before for name, G in maps.items()
        }

    def sampled_contractions(self, m, seeds, snapshot):
        """The same ratio, one run of the oracle for each seed."""
        solution = literal.ridge_solution(self.X, self.y, self.lam)
        p, ratios = self.loss.probabilities(), []
        for seed in range(seeds):
            order = np.random.default_rng(seed).choice(len(p), size=m, p=p)
            w = literal.svrg_epoch_sampled(
                self.X, self.y, self.lam, np.eye(3), solution + self.u, order, self.eta, snapshot
            )
            after = w - solution
            ratios.append(after @ self.H @ after / (self.u @ self.H @ self.u))
        return np.array(ratios)


def mean_contraction(m, kappa):
    """((1/m) Σ_{t≤m} (1 − 0.1/κ̂)^t)²: what the mean average iterate keeps of u, squared."""
    return np.mean((1 - 0.1 / kappa) ** np.arange(1, m + 1)) ** 2


def test_one_function_contracts_by_0_81(measured):
    X, y = np.ones((1, 1)), np.ones(1)
    after = literal.svrg_epoch_exact(X, y, 0.0, np.eye(1), np.zeros(1), [0], 0.1, "average")
    ratio = literal.objective(X, y, 0.0, after) / literal.objective(X, y, 0.0, np.zeros(1))
    assert ratio > 2 / np.e
    measured(
        f"F(w) = ½(w − 1)², N = β̂ = κ̂ = m = 1, η = 0.1, w_0 = 0: an epoch multiplies F by "
        f"{ratio:.2f}."
    )


def test_an_epoch_of_kappa_steps_does_not_contract_by_e(measured):
    problems = [SmallProblem(seed) for seed in range(8)]

    def contractions(multiple):
        found = [p.expected_contraction(p.epoch_length(multiple)) for p in problems]
        return {name: np.array([f[name] for f in found]) for name in ("average", "last")}

    one, ten, hundred = (contractions(multiple) for multiple in (1, 10, 100))
    assert min(one["average"].min(), one["last"].min()) > 2 / np.e
    assert ten["average"].min() > 1 / np.e > ten["last"].max()
    assert max(hundred["average"].max(), hundred["last"].max()) < 0.1
    rows = "; ".join(
        f"m = {label}: average {c['average'].min():.3f} to {c['average'].max():.3f}, "
        f"last {c['last'].min():.3f} to {c['last'].max():.3f}"
        for label, c in (("⌈κ̂⌉", one), ("⌈10κ̂⌉", ten), ("⌈100κ̂⌉", hundred))
    )
    kappas = [p.kappa for p in problems]
    measured(
        f"exact expectations on 8 problems, κ̂ from {min(kappas):.1f} to {max(kappas):.1f}: {rows}."
    )


def test_the_sampled_contraction_agrees_with_the_exact_one(measured):
    problem, lines = SmallProblem(0), []
    for multiple, seeds in ((1, 200), (10, 100), (100, 20)):
        m = problem.epoch_length(multiple)
        for snapshot, exact in problem.expected_contraction(m).items():
            ratios = problem.sampled_contractions(m, seeds, snapshot)
            error = ratios.std(ddof=1) / np.sqrt(seeds)
            assert abs(ratios.mean() - exact) < 4 * error
            lines.append(f"m = {m}, {snapshot}, {seeds} seeds: {ratios.mean():.3f} ± {error:.3f}")
    measured("; ".join(lines) + ".")


def test_no_quadratic_contracts_by_e_in_kappa_steps(measured):
    for seed in range(8):
        problem = SmallProblem(seed)
        for multiple in (1, 10, 100):
            m = problem.epoch_length(multiple)
            exact = problem.expected_contraction(m)["average"]
            assert exact >= mean_contraction(m, problem.kappa) * (1 - 1e-9)
    floors = [mean_contraction(int(np.ceil(k)), k) for k in np.geomspace(1, 1e4, 400)]
    assert min(floors) > 2 / np.e
    needed = next(
        c for c in np.arange(1, 20, 0.1) if mean_contraction(int(c * 1e4), 1e4) < 1 / np.e
    )
    assert needed > 10
    measured(
        f"for κ̂ from 1 to 10⁴ and m = ⌈κ̂⌉ the floor is {min(floors):.2f} to {max(floors):.3f}; "
        f"at κ̂ = 10⁴ it falls below 1/e from m = {needed:.1f}κ̂ on."
    )


def test_a_hundred_kappa_steps_keep_what_xiao_and_zhang_promise(measured):
    def promise(m, kappa, theta=0.1):
        decay = kappa / (theta * (1 - 4 * theta) * m)
        return decay + 4 * theta * (m + 1) / ((1 - 4 * theta) * m)

    worst = 0.0
    for seed in range(8):
        problem = SmallProblem(seed)
        m = problem.epoch_length(100)
        worst = max(worst, problem.expected_contraction(m)["average"])
        assert worst < promise(m, problem.kappa) < 0.84
    assert promise(1e4, 1e4) > 17
    measured(
        f"their bound is {promise(1e4, 1e4):.1f} at m = κ̂ = 10⁴, which promises nothing, and "
        f"{promise(1e6, 1e4):.3f} at m = 100κ̂; measured at most {worst:.3f} there."
    )


# Algorithm 2 and the theorem on block Lanczos ---------------------------------------------------


def slow_decay(rng, n=100, d=60):
    """X̄ with singular values i^-½ and random singular vectors."""
    left, _ = np.linalg.qr(rng.standard_normal((d, d)))
    right, _ = np.linalg.qr(rng.standard_normal((n, d)))
    return left * np.arange(1, d + 1.0) ** -0.5 @ right.T


def test_the_number_of_blocks_comes_from_epsilon_prime(measured):
    rng, n, d, k = np.random.default_rng(0), 100, 60, 3

    def blocks(epsilon):
        return int(np.ceil(np.log(n) / np.sqrt(epsilon)))

    def worst_error(q):
        errors = []
        for _ in range(50):
            A = slow_decay(rng, n, d)
            _, sigma, _ = literal.block_lanczos(A, k, q, rng.standard_normal((n, k)))
            exact = np.linalg.svd(A, compute_uv=False)
            errors.append(np.max(np.abs(sigma**2 - exact[:k] ** 2)) / exact[k] ** 2)
        return max(errors)

    right, too_few = worst_error(blocks(0.5)), worst_error(1)
    assert right < 1e-6
    assert too_few > 0.5
    assert blocks(0.5) * k < d < blocks(1e-8) * k
    measured(
        f"n = {n}, d = {d}, k = {k}: ε' = ½ asks for q = {blocks(0.5)}, and in 50 runs "
        f"|σ̃_i² − σ_i²| is below 1e-6 σ_(k+1)² (with q = 1: {too_few:.1f}); the accuracy "
        f"ε = 1e-8 of Algorithm 3 would ask for q = {blocks(1e-8)}."
    )


def test_the_basis_has_at_most_d_columns(measured):
    rng, d, n, k, q = np.random.default_rng(0), 6, 20, 2, 5
    A, Pi = rng.standard_normal((d, n)), rng.standard_normal((n, k))
    K = literal.krylov_matrix(A, q, Pi)
    Q, _ = np.linalg.qr(K)
    assert K.shape == (d, q * k)
    assert Q.shape == (d, d)
    rank = np.linalg.matrix_rank(K)
    assert rank == d < q * k
    measured(f"d = {d}, qk = {q * k}: K has rank {rank} and Q is {Q.shape[0]}×{Q.shape[1]}.")


def test_u_is_on_the_left(measured):
    A = np.random.default_rng(0).standard_normal((4, 4))
    U, sigma, Vt = np.linalg.svd(A)
    assert np.allclose(sum(s * np.outer(u, v) for s, u, v in zip(sigma, U.T, Vt, strict=True)), A)
    printed = sum(s * np.outer(v, u) for s, u, v in zip(sigma, U.T, Vt, strict=True))
    values = np.array([v @ A @ A.T @ v for v in Vt])  # u_i as the right vectors of Σσ v uᵀ
    assert np.allclose([u @ A @ A.T @ u for u in U.T], sigma**2)
    assert relative(printed, A) > 0.1
    assert relative(values, sigma**2) > 0.1
    measured(
        f"for a random 4×4 matrix Σσ_i v_i u_iᵀ is {relative(printed, A):.2f} away from A, and the "
        f"u_iᵀAAᵀu_i that go with it {relative(values, sigma**2):.2f} away from σ_i² (relative)."
    )


def test_z_is_the_left_ritz_vector(measured):
    rng, k, q = np.random.default_rng(0), 3, 2
    A, Pi = slow_decay(rng), rng.standard_normal((100, 3))
    U, sigma, _ = literal.block_lanczos(A, k, q, Pi)
    Q, _ = np.linalg.qr(literal.krylov_matrix(A, q, Pi))

    def values(Z):
        return np.array([z @ A @ A.T @ z for z in Z.T])

    assert np.allclose(values(U), sigma**2, rtol=1e-12)
    other = relative(values(Q[:, :k]), sigma**2)
    assert other > 0.1
    measured(
        f"with z_i = ũ_i the equality holds to 1e-12; with z_i the first columns of Q it is "
        f"{other:.2f} off (relative)."
    )


def test_v_is_transposed(measured):
    rng, k = np.random.default_rng(0), 3
    A, Pi = rng.standard_normal((8, k)), rng.standard_normal((k, k))
    U, sigma, V = literal.block_lanczos(A, k, 2, Pi)
    projected = U @ U.T @ A
    assert np.allclose(U * sigma @ V.T, projected, atol=1e-12)
    printed = relative(U * sigma @ V, projected)
    assert printed > 0.1
    wide = literal.block_lanczos(rng.standard_normal((8, 20)), k, 2, rng.standard_normal((20, k)))
    with pytest.raises(ValueError, match="mismatch"):
        wide[0] * wide[1] @ wide[2]
    measured(
        f"for n = k = 3, where ŨΣ̃Ṽ exists at all, it is {printed:.2f} away from ŨŨᵀA, and ŨΣ̃Ṽᵀ "
        f"less than 1e-12; for n = 20 the shapes do not fit."
    )


# Algorithm 3 ------------------------------------------------------------------------------------


def test_the_data_matrix_is_divided_by_the_root_of_n(measured):
    X, _ = regression(n=1000, d=20, decay=2.0)
    n, d, k, lam = 1000, 20, 5, 1e-3
    C, H = literal.correlation(X), hessian(X, lam)
    eigenvalues = np.linalg.eigvalsh(C)[::-1]
    Pi = np.random.default_rng(1).standard_normal((n, k))

    def condition(A):
        U, sigma, _ = literal.block_lanczos(A, k, 6, Pi)
        _, P_inv_sqrt, _ = literal.preconditioner_matrices(U, sigma**2, lam)
        return average_condition_number(P_inv_sqrt @ H @ P_inv_sqrt)

    printed, right = X.T / n, X.T / np.sqrt(n)
    assert np.allclose(right @ right.T, C, rtol=1e-12)
    assert np.allclose(printed @ printed.T, C / n, rtol=1e-12)
    bound = (k * eigenvalues[k - 1] + eigenvalues[k:].sum()) / lam + d
    assert condition(right) < bound < condition(printed) / 3
    measured(
        f"n = {n}, d = {d}, k = {k}: X̄X̄ᵀ is C/n as printed and C with √n; the average condition "
        f"number is {condition(printed):.0f} as printed and {condition(right):.0f} as corrected, "
        f"where the exact sketch's bound is {bound:.0f} and no preconditioning has "
        f"{average_condition_number(H):.0f}."
    )


def test_the_regulariser_carries_a_half(measured):
    X, y = regression()
    lam, (n, d) = 0.3, (40, 6)
    _, P_inv_sqrt, _ = preconditioner(X, lam, 2)
    right = literal.sampled_sum(X, y, lam, P_inv_sqrt)
    doubled = np.concatenate([np.ones(n), np.full(d, 2.0)])  # no ½: twice the curvature
    printed = right._replace(scale=right.scale * doubled)

    def minimiser(loss):
        rows = loss.rows.T * loss.scale
        return P_inv_sqrt @ np.linalg.solve(rows @ loss.rows, rows @ loss.targets)

    solution = literal.ridge_solution(X, y, lam)
    assert np.allclose(minimiser(right), solution, rtol=1e-10)
    assert np.allclose(minimiser(printed), literal.ridge_solution(X, y, 2 * lam), rtol=1e-10)
    distance = relative(minimiser(printed), solution)
    assert distance > 0.1
    measured(
        f"the printed components are minimised by the ridge solution of 2λ to 1e-10, which is "
        f"{distance:.2f} away from that of λ = {lam} (relative)."
    )


def test_the_regularisers_smoothness_has_a_square(measured):
    X, y = regression(decay=2.0)
    lam, (n, d) = 1e-4, (40, 6)
    _, P_inv_sqrt, _ = preconditioner(X, lam, 3)
    loss = literal.sampled_sum(X, y, lam, P_inv_sqrt)
    norms = np.linalg.norm(P_inv_sqrt, axis=0)
    true = np.array([spectral(lam * (n + d) * np.outer(b, b)) for b in P_inv_sqrt.T])
    assert np.allclose(loss.smoothness()[n:], true, rtol=1e-12)
    assert np.allclose(lam * (n + d) * norms**2, true, rtol=1e-12)
    printed = lam * (n + d) * norms / true
    assert printed.min() < 0.2
    measured(
        f"‖b_j‖ is {norms.min():.2f} to {norms.max():.1f}, so the printed constant is "
        f"{printed.max():.2f} to {printed.min():.3f} times the Hessian's norm, no bound on it."
    )


def test_the_average_smoothness_is_a_mean_over_all_components(measured):
    X, y = regression(n=10, d=30)
    lam = 0.01
    _, P_inv_sqrt, _ = preconditioner(X, lam, 2)
    beta = literal.sampled_sum(X, y, lam, P_inv_sqrt).smoothness()
    trace = np.trace(P_inv_sqrt @ hessian(X, lam) @ P_inv_sqrt)
    assert beta.sum() / 40 == pytest.approx(trace, rel=1e-12)
    assert beta.sum() / 10 == pytest.approx(4 * trace, rel=1e-12)
    measured(
        f"n = 10, d = 30: tr(P^{{-1/2}}(C+λI)P^{{-1/2}}) = {trace:.2f}; printed "
        f"β̂ = {beta.sum() / 10:.2f}, corrected β̂ = {beta.sum() / 40:.2f}."
    )


def test_the_result_is_mapped_back_by_the_inverse_root(measured):
    X, y = regression()
    lam = 0.01
    _, P_inv_sqrt, P_sqrt = preconditioner(X, lam, 2)
    loss = literal.sampled_sum(X, y, lam, P_inv_sqrt)
    rows = loss.rows.T * loss.scale
    w = np.linalg.solve(rows @ loss.rows, rows @ loss.targets)  # the minimiser of L̃
    best = literal.objective(X, y, lam, literal.ridge_solution(X, y, lam))
    start = literal.objective(X, y, lam, np.zeros(6))
    right, printed = (
        (literal.objective(X, y, lam, root @ w) - best) / start for root in (P_inv_sqrt, P_sqrt)
    )
    assert abs(right) < 1e-12
    assert printed > 0.01
    measured(f"(F(w) − F*)/F(0) is {printed:.2f} at P^{{1/2}}w̃ and less than 1e-12 at P^{{-1/2}}w̃.")


# The proofs -------------------------------------------------------------------------------------


def test_the_inequality_on_a_root_of_a_sum_points_the_other_way(measured):
    sigma, lam = np.meshgrid(np.geomspace(1e-3, 1e3, 25), np.geomspace(1e-3, 1e3, 25))
    left, right = sigma / np.sqrt(sigma**2 + lam), sigma / (sigma + np.sqrt(lam))
    assert np.all(left > right)
    assert np.all(left <= 1)
    measured(
        f"σ̃ and λ from 1e-3 to 1e3, {left.size} pairs: the left side is larger in "
        f"{np.sum(left > right)}, by up to a factor {np.max(left / right):.3f}, and at most 1 in "
        f"all; at σ̃ = λ = 1 it is {1 / np.sqrt(2):.3f} against {1 / 2:.3f}."
    )


def test_the_smallest_eigenvalue_is_that_of_c_plus_lambda(measured):
    X, _ = regression(n=5, d=8)
    lam, k = 0.1, 2
    _, P_inv_sqrt, _ = preconditioner(X, lam, k)
    kth = np.linalg.eigvalsh(literal.correlation(X))[-k]
    bound = lam / (19 * (kth + lam))
    printed, right = (
        np.linalg.eigvalsh(P_inv_sqrt @ M @ P_inv_sqrt)[0]
        for M in (literal.correlation(X), hessian(X, lam))
    )
    assert abs(printed) < 1e-12 < bound < right
    measured(
        f"n = 5, d = 8: the smallest eigenvalue is below 1e-12 with C and {right:.3f} with C + λI; "
        f"the lemma's bound is {bound:.4f}."
    )


def test_the_first_summand_is_lambda_i_over_lambda_i_plus_lambda(measured):
    X, _ = regression()
    lam = 0.5
    largest = np.linalg.eigvalsh(literal.correlation(X))[-1]
    Xbar = X.T / np.sqrt(40)
    norm = spectral(Xbar.T @ np.linalg.solve(hessian(X, lam), Xbar))
    right, printed = largest / (largest + lam), largest**2 / (largest**2 + lam)
    assert norm == pytest.approx(right, rel=1e-12)
    assert abs(printed - norm) > 0.01
    measured(
        f"‖X̄ᵀ(C+λI)⁻¹X̄‖ = {norm:.4f}; λ_1/(λ_1+λ) = {right:.4f}, λ_1²/(λ_1²+λ) = {printed:.4f}."
    )


def energy(H, M):
    """‖MᵀH⁻¹M‖ = ‖H^{-1/2}M‖²."""
    return spectral(M.T @ np.linalg.solve(H, M))


def padded_with_zeros(Xbar):
    """X̄ with as many zero columns as make it at least square."""
    d, n = Xbar.shape
    return np.hstack([Xbar, np.zeros((d, max(0, d - n)))])


def completed(rng, M, columns):
    """M's orthonormal columns and as many more at random."""
    more = rng.standard_normal((len(M), columns - M.shape[1]))
    basis, _ = np.linalg.qr(np.hstack([M, more]))
    return np.hstack([M, basis[:, M.shape[1] :]])


def root_of_p(rng, Xbar, lam, U, sigma, V, columns=None):
    """Z̃ = Ũ(Σ̃² + λI)^{1/2}Ṽᵀ, X̄ padded unless the number of Ṽ's columns is given."""
    d, k = U.shape
    if columns is None:
        columns, V = d, np.vstack([V, np.zeros((max(0, d - len(V)), k))])
    levels = np.sqrt(np.append(sigma, np.full(columns - k, sigma[-1])) ** 2 + lam)
    return completed(rng, U, columns) * levels @ completed(rng, V, columns).T


def musco_bounds_hold(Xbar, k, U, sigma, V):
    """What the lemmas use of the theorem on block Lanczos, at ε' = ½."""
    exact = np.append(np.linalg.svd(Xbar, compute_uv=False), 0.0)
    rounding = 1e-12 * exact[0] ** 2
    near = spectral(Xbar - U * sigma @ V.T) <= 1.5 * exact[k - 1]
    return near and np.all(np.abs(sigma**2 - exact[:k] ** 2) <= 0.5 * exact[k] ** 2 + rounding)


def near_svd(rng, Xbar, k):
    """An SVD of rank k disturbed at random, about as far as the bounds allow."""
    left, values, right = np.linalg.svd(Xbar, full_matrices=False)
    size = 10 ** rng.uniform(-2, 0)
    U, _ = np.linalg.qr(left[:, :k] + size * rng.standard_normal((len(left), k)))
    V, _ = np.linalg.qr(right[:k].T + size * rng.standard_normal((right.shape[1], k)))
    signs = np.sign(np.sum(U * left[:, :k], axis=0)), np.sign(np.sum(V * right[:k].T, axis=0))
    following = values[k] if k < len(values) else 0.0
    disturbed = values[:k] ** 2 + rng.uniform(-0.5, 0.5, k) * following**2
    return U * signs[0], np.sort(np.sqrt(disturbed))[::-1], V * signs[1]


def sketched_problems(count):
    """Random X̄ (n < d among them), λ, k and a sketch for which the theorem's bounds hold."""
    rng = np.random.default_rng(0)
    while count:
        n, d = (int(size) for size in rng.integers(3, 16, 2))
        k = int(rng.integers(1, min(n, d) + 1))
        Xbar = gaussian_rows(rng, n, d, rng.uniform(0, 2)).T / np.sqrt(n)
        lam = 10 ** rng.uniform(-6, 1)
        if rng.random() < 0.5:
            q = int(rng.integers(1, 4))
            found = literal.block_lanczos(Xbar, k, q, rng.standard_normal((n, k)))
        else:
            found = near_svd(rng, Xbar, k)
        if musco_bounds_hold(Xbar, k, *found):
            count -= 1
            yield Xbar, lam, k, *found


def eigenvalues_against_the_lemmas(Xbar, lam, k, U, sigma):
    """λ_1, max_{i>k} λ_i(λ_k+λ)/(λ_i(C)+λ) and λ/((λ_k+λ) λ_d), of P^{-1/2}(C+λI)P^{-1/2}."""
    C = Xbar @ Xbar.T
    exact = np.clip(np.linalg.eigvalsh(C)[::-1], 0, None)
    _, P_inv_sqrt, _ = literal.preconditioner_matrices(U, sigma**2, lam)
    H = P_inv_sqrt @ (C + lam * np.eye(len(C))) @ P_inv_sqrt
    values = np.linalg.eigvalsh(H)[::-1]
    tail = values[k:] * (exact[k - 1] + lam) / (exact[k:] + lam)
    return values[0], tail.max(initial=0.0), lam / ((exact[k - 1] + lam) * values[-1])


def test_the_square_of_a_sum_is_not_bounded_by_the_sum_of_squares(measured):
    def step(Xbar, lam, Z):
        """Both sides of eq. digging15 and the triangle inequality's bound."""
        H = Xbar @ Xbar.T + lam * np.eye(len(Xbar))
        whole, data, rest = (energy(H, M) for M in (Z, Xbar, Z - Xbar))
        loose = data + spectral(Z - Xbar) ** 2 * spectral(np.linalg.inv(H))
        return whole, data + rest, loose, (np.sqrt(data) + np.sqrt(rest)) ** 2

    one, rng, failures = np.ones((1, 1)), np.random.default_rng(1), np.zeros(2, dtype=int)
    whole, tight, loose, triangle = step(one, 3.0, root_of_p(rng, one, 3.0, *sketch(one, k=1)))
    assert whole > 1.5 * tight
    assert whole > 1.5 * loose
    for Xbar, lam, _, *found in sketched_problems(300):
        padded = padded_with_zeros(Xbar)
        values = step(padded, lam, root_of_p(rng, Xbar, lam, *found))
        failures += np.array(values[:1]) > np.array(values[1:3]) * (1 + 1e-9)
        assert values[0] <= values[3] * (1 + 1e-9)
    assert np.all(failures > 10)
    measured(
        f"n = d = k = 1, x = 1, λ = 3, the exact sketch: the left side is {whole:.2f}, the right "
        f"sides {tight:.2f} and {loose:.2f}, the square of the sum {triangle:.2f}; of 300 random "
        f"sketches the first step fails in {failures[0]}, the second in {failures[1]}, the "
        f"triangle inequality in none."
    )


def test_the_constants_of_the_three_lemmas_survive(measured):
    worst, wide = np.zeros(3), 0
    for Xbar, lam, k, U, sigma, _ in sketched_problems(600):
        worst = np.maximum(worst, eigenvalues_against_the_lemmas(Xbar, lam, k, U, sigma))
        wide += Xbar.shape[1] < Xbar.shape[0]
    assert np.all(worst < (17, 2, 13))
    assert np.all(worst > 1)
    s = np.linspace(0, 10, 1001)  # s = √(λ_k/λ): 1 + (3σ_k + √λ)/√λ = 2 + 3s
    ratio = (2 + 3 * s) ** 2 / (1 + s**2)
    assert ratio.max() == pytest.approx(13, abs=1e-9)
    measured(
        f"600 sketches, {wide} of them with n < d: at most {worst[0]:.2f} where 17 is claimed, "
        f"{worst[1]:.2f} where 2 is, {worst[2]:.2f} where 19 is and 13 holds; "
        f"(2+3s)²/(1+s²) is at most {ratio.max():.2f}, at s = {s[ratio.argmax()]:.2f}."
    )


def test_v_is_completed_after_padding_with_zero_columns(measured):
    rng, n, d, k, lam = np.random.default_rng(3), 4, 9, 4, 1e-3
    Xbar = rng.standard_normal((d, n)) / np.sqrt(n)
    found = literal.block_lanczos(Xbar, k, 2, rng.standard_normal((n, k)))
    assert musco_bounds_hold(Xbar, k, *found)
    H = Xbar @ Xbar.T + lam * np.eye(d)
    _, _, P_sqrt = literal.preconditioner_matrices(found[0], found[1] ** 2, lam)
    norm = energy(H, P_sqrt)

    printed = energy(H, root_of_p(rng, Xbar, lam, *found, columns=n))  # ℝⁿ has room for no more
    Z = root_of_p(rng, Xbar, lam, *found)
    assert energy(H, Z) == pytest.approx(norm, rel=1e-9)
    assert printed < 0.1 * norm
    allowed = 3 * np.linalg.svd(Xbar, compute_uv=False)[k - 1] + np.sqrt(lam)
    distance = spectral(Z - padded_with_zeros(Xbar)) / allowed
    assert distance < 1
    measured(
        f"n = k = {n}, d = {d}: ‖P^{{1/2}}(C+λI)⁻¹P^{{1/2}}‖ = {norm:.0f}, ‖Z̃ᵀ(C+λI)⁻¹Z̃‖ = "
        f"{energy(H, Z):.0f} padded and {printed:.0f} with the n columns that exist; ‖Z̃ − X̄‖ is "
        f"{distance:.2f} of 3σ_k + √λ."
    )


def test_lambda_need_not_exceed_the_smallest_eigenvalue(measured):
    def condition(C, lam, U, squares):
        _, P_inv_sqrt, _ = literal.preconditioner_matrices(U, squares, lam)
        return average_condition_number(P_inv_sqrt @ (C + lam * np.eye(len(C))) @ P_inv_sqrt)

    exact, sketched, lemmas = [], [], []
    for Xbar, _, k, U, sigma, _ in sketched_problems(300):
        C = Xbar @ Xbar.T
        values, vectors = np.linalg.eigh(C)
        if values[0] < 1e-6:  # n < d: every λ exceeds λ_d = 0
            continue
        values, vectors = values[::-1], vectors[:, ::-1]
        for lam in values[-1] * np.array([1e-4, 0.1, 1.0]):
            bound = (k * values[k - 1] + values[k:].sum()) / lam + len(C)
            exact.append(condition(C, lam, vectors[:, :k], values[:k]) / bound)
            sketched.append(condition(C, lam, U, sigma**2) / bound)
            lemmas.append(eigenvalues_against_the_lemmas(Xbar, lam, k, U, sigma))
    assert len(exact) > 300
    assert 0.1 < max(exact) <= 1
    assert max(sketched) < 17 * 13
    assert np.all(np.max(lemmas, axis=0) < (17, 2, 13))
    measured(
        f"{len(exact)} problems with λ = λ_d/10⁴, λ_d/10 and λ_d: the average condition number is "
        f"at most {max(exact):.2f} of the bound with the exact sketch, {max(sketched):.2f} of it "
        f"with an approximate one."
    )


# The appendix -----------------------------------------------------------------------------------


def test_the_appendix_sums_to_n_plus_d(measured):
    X, y = regression()
    lam, (n, d) = 0.3, (40, 6)
    _, P_inv_sqrt, _ = preconditioner(X, lam, 2)
    beta = literal.sampled_sum(X, y, lam, P_inv_sqrt).smoothness()
    trace = np.trace(P_inv_sqrt @ hessian(X, lam) @ P_inv_sqrt)
    printed, right = beta[:n].sum() / (n + d), beta.sum() / (n + d)
    assert right == pytest.approx(trace, rel=1e-12)
    assert printed < 0.9 * trace
    data = np.trace(P_inv_sqrt @ literal.correlation(X) @ P_inv_sqrt)
    assert printed == pytest.approx(data, rel=1e-12)
    measured(f"the trace is {trace:.3f}; the sum to n gives {printed:.3f}, to n + d {right:.3f}.")


def test_the_appendix_runs_over_b_j_and_e_j(measured):
    X, _ = regression(decay=2.0)
    _, P_inv_sqrt, _ = preconditioner(X, 0.01, 2)
    trace = np.trace(P_inv_sqrt @ P_inv_sqrt)
    squares = np.array([b @ b for b in P_inv_sqrt.T])
    assert squares.sum() == pytest.approx(trace, rel=1e-12)
    fixed = 6 * squares  # Σ_j tr(b_i b_iᵀ) with i left free
    assert fixed.min() < 0.9 * trace < 1.1 * trace < fixed.max()
    measured(
        f"tr P⁻¹ = {trace:.2f} = Σ_j ‖b_j‖²; Σ_j ‖b_i‖² is {fixed.min():.2f} to {fixed.max():.2f} "
        f"according to i."
    )


def test_the_appendix_hessian_is_that_of_the_preconditioned_loss(measured):
    X, y = regression()
    lam = 0.01
    _, P_inv_sqrt, _ = preconditioner(X, lam, 2)

    def numerical_hessian(root):
        loss = literal.sampled_sum(X, y, lam, root)
        at_zero = loss.mean_gradient(np.zeros(6))
        return np.array([loss.mean_gradient(e) - at_zero for e in np.eye(6)])

    claimed = P_inv_sqrt @ hessian(X, lam) @ P_inv_sqrt
    of_preconditioned, of_plain = numerical_hessian(P_inv_sqrt), numerical_hessian(np.eye(6))
    assert np.allclose(of_preconditioned, claimed, atol=1e-12)
    assert relative(of_plain, claimed) > 0.1
    measured(
        f"P^{{-1/2}}(C+λI)P^{{-1/2}} is less than 1e-12 away from the Hessian of L̃ and "
        f"{relative(of_plain, claimed):.2f} away from that of L (relative)."
    )
