"""The paper's algorithms as written there, errata corrected: dense, slow, numpy alone.

The oracle for the fast code. X is n×d with one row per sample; the paper's X̄ is Xᵀ/√n.
`omega` are the rows' weights and sum to one (1/n each by default), so that the objective is

    F(w) = Σ ω_i ½(x_iᵀw − y_i)² + λ/2 ‖w‖².

For an intercept the caller passes X and y already centred by their weighted means.
"""

from typing import NamedTuple

import numpy as np


def row_weights(X, omega=None):
    """ω: the given weights, or 1/n for every row."""
    n = X.shape[0]
    return np.full(n, 1.0 / n) if omega is None else np.asarray(omega, dtype=float)


def correlation(X, omega=None):
    """C = Σ ω_i x_i x_iᵀ (eq. covSpec)."""
    return X.T @ np.diag(row_weights(X, omega)) @ X


def objective(X, y, lam, w, omega=None):
    """F(w) (eq. ridge)."""
    omega = row_weights(X, omega)
    return 0.5 * np.sum(omega * (X @ w - y) ** 2) + 0.5 * lam * w @ w


def gradient(X, y, lam, w, omega=None):
    """∇F(w)."""
    omega = row_weights(X, omega)
    return X.T @ (omega * (X @ w - y)) + lam * w


def ridge_solution(X, y, lam, omega=None):
    """The minimiser of F, by the normal equations (C + λI) w = Σ ω_i y_i x_i."""
    H = correlation(X, omega) + lam * np.eye(X.shape[1])
    return np.linalg.solve(H, X.T @ (row_weights(X, omega) * y))


def preconditioner_matrices(U, values, lam):
    """P, P^{-1/2} and P^{1/2} of eq. condSketch, from Ũ_k (d×k) and σ̃² (descending)."""
    d = U.shape[0]
    rest = np.eye(d) - U @ U.T

    def matrix(power):
        return U @ np.diag((values + lam) ** power) @ U.T + (values[-1] + lam) ** power * rest

    return matrix(1.0), matrix(-0.5), matrix(0.5)


def krylov_matrix(A, q, Pi):
    """K = [AΠ, (AAᵀ)AΠ, …, (AAᵀ)^{q−1}AΠ] (Algorithm 2, line 3)."""
    blocks = [A @ Pi]
    for _ in range(q - 1):
        blocks.append(A @ (A.T @ blocks[-1]))
    return np.hstack(blocks)


def block_lanczos(A, k, q, Pi):
    """Algorithm 2, for A (d×n) and Π (n×k): Ũ_k (d×k), σ̃ (k) and Ṽ_k (n×k).

    The QR of K (d×qk) gives Q min(qk, d) columns.
    """
    Q, _ = np.linalg.qr(krylov_matrix(A, q, Pi))
    W, sigma, Vt = np.linalg.svd(Q.T @ A, full_matrices=False)
    return Q @ W[:, :k], sigma[:k], Vt[:k].T


class FiniteSum(NamedTuple):
    """L̃(w̃) = 1/N Σ ½ scale_i (row_iᵀw̃ − target_i)² + ½ w̃ᵀ ridge w̃ (Sec. 5.1)."""

    rows: np.ndarray
    targets: np.ndarray
    scale: np.ndarray
    ridge: np.ndarray

    def component_gradient(self, i, w):
        """∇ℓ_i(w̃)."""
        return self.scale[i] * (self.rows[i] @ w - self.targets[i]) * self.rows[i]

    def mean_gradient(self, w):
        """1/N Σ ∇ℓ_i(w̃), without the ridge term."""
        N = len(self.targets)
        return sum(self.component_gradient(i, w) for i in range(N)) / N

    def smoothness(self):
        """β_i = scale_i ‖row_i‖²."""
        return self.scale * np.sum(self.rows**2, axis=1)

    def probabilities(self):
        """β_i / Σ β_j (Algorithm 1, line 8)."""
        beta = self.smoothness()
        return beta / beta.sum()

    def stochastic_gradient(self, i, w, w_bar, v_bar, q_i):
        """Algorithm 1, line 9, divided by N·q_i; the ridge term is exact."""
        correction = self.component_gradient(i, w) - self.component_gradient(i, w_bar)
        return correction / (len(self.targets) * q_i) + v_bar + self.ridge @ w


def sampled_sum(X, y, lam, P_inv_sqrt, omega=None):
    """Algorithm 3, lines 7–8: N = n + d components, the regulariser's included."""
    n, d = X.shape
    N = n + d
    return FiniteSum(
        rows=np.vstack([X @ P_inv_sqrt, P_inv_sqrt]),  # x̃_i = P^{-1/2} x_i, b_j = P^{-1/2} e_j
        targets=np.concatenate([y, np.zeros(d)]),
        scale=np.concatenate([N * row_weights(X, omega), np.full(d, N * lam)]),
        ridge=np.zeros((d, d)),
    )


def exact_sum(X, y, lam, P_inv_sqrt, omega=None):
    """The same L̃ with N = n components, the regulariser λ/2 w̃ᵀP⁻¹w̃ kept whole."""
    n = X.shape[0]
    return FiniteSum(
        rows=X @ P_inv_sqrt,
        targets=y,
        scale=n * row_weights(X, omega),
        ridge=lam * P_inv_sqrt @ P_inv_sqrt,
    )


def _epoch(finite_sum, P_inv_sqrt, w_bar, order, eta, snapshot):
    """One pass of Algorithm 1's outer loop, in preconditioned coordinates."""
    start = np.linalg.solve(P_inv_sqrt, w_bar)  # w̃ = P^{1/2} w
    v_bar = finite_sum.mean_gradient(start)
    q = finite_sum.probabilities()
    w, iterates = start, []
    for i in order:
        w = w - eta * finite_sum.stochastic_gradient(i, w, start, v_bar, q[i])
        iterates.append(w)
    result = {"average": np.mean(iterates, axis=0), "last": iterates[-1]}[snapshot]
    return P_inv_sqrt @ result


def svrg_epoch_sampled(X, y, lam, P_inv_sqrt, w_bar, order, eta, snapshot, omega=None):
    """An epoch of Algorithm 3 with components `order` in [0, n + d); w in and w out."""
    finite_sum = sampled_sum(X, y, lam, P_inv_sqrt, omega)
    return _epoch(finite_sum, P_inv_sqrt, w_bar, order, eta, snapshot)


def svrg_epoch_exact(X, y, lam, P_inv_sqrt, w_bar, order, eta, snapshot, omega=None):
    """An epoch with rows `order` in [0, n) and the regulariser's exact gradient."""
    finite_sum = exact_sum(X, y, lam, P_inv_sqrt, omega)
    return _epoch(finite_sum, P_inv_sqrt, w_bar, order, eta, snapshot)


def sampling(X, lam, P_inv, regularization, omega=None):
    """The probabilities p and the average smoothness β̂ (Algorithm 3, line 9).

    sampled: n + d probabilities and β̂ = Σ ω_i x_iᵀP⁻¹x_i + λ tr P⁻¹;
    exact:   n probabilities and β̂ = Σ ω_i x_iᵀP⁻¹x_i + λ λ_1(P⁻¹).
    """
    data = row_weights(X, omega) * np.array([x @ P_inv @ x for x in X])
    if regularization == "sampled":
        beta = np.concatenate([data, lam * np.diag(P_inv)])
        return beta / beta.sum(), beta.sum()
    return data / data.sum(), data.sum() + lam * np.linalg.eigvalsh(P_inv)[-1]


EPOCHS = {"sampled": svrg_epoch_sampled, "exact": svrg_epoch_exact}


def svrg(
    X,
    y,
    lam,
    P_inv_sqrt=None,
    regularization="sampled",
    step=0.1,
    epoch_length=None,
    epochs=10,
    snapshot="average",
    omega=None,
    w0=None,
    rng=None,
):
    """Algorithm 1 on L̃ with η = step/β̂: every snapshot w̄_0, …, w̄_S, a row each.

    `epoch_length` is n unless given; `P_inv_sqrt` is I unless given, which is plain SVRG.
    """
    n, d = X.shape
    P_inv_sqrt = np.eye(d) if P_inv_sqrt is None else P_inv_sqrt
    rng = np.random.default_rng(0) if rng is None else rng
    p, beta_hat = sampling(X, lam, P_inv_sqrt @ P_inv_sqrt, regularization, omega)
    snapshots = [np.zeros(d) if w0 is None else w0]
    for _ in range(epochs):
        order = rng.choice(len(p), size=epoch_length or n, p=p)
        w = EPOCHS[regularization](
            X, y, lam, P_inv_sqrt, snapshots[-1], order, step / beta_hat, snapshot, omega
        )
        snapshots.append(w)
    return np.array(snapshots)
