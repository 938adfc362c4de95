"""The stochastic family as the papers write it: dense, slow, numpy alone.

All run in the preconditioned coordinates w̃ = P^{1/2} w on explicit rows x̃_i = P^{-1/2} x_i, and
return w = P^{-1/2} w̃. `omega` are the rows' weights and sum to one.
"""

import numpy as np


def table_method(X, y, lam, P_inv_sqrt, omega, weights_of_change, w0, order, eta):
    """SAGA (weights_of_change = ω_i/p_i) and SAG (ω_i): the points after every step, a row each.

    The table remembers whole gradients, as for a general loss.
    """
    rows = X @ P_inv_sqrt
    ridge = lam * P_inv_sqrt @ P_inv_sqrt
    w = np.linalg.solve(P_inv_sqrt, w0)
    table = np.array([(x @ w - t) * x for x, t in zip(rows, y, strict=True)])
    points = []
    for i in order:
        fresh = (rows[i] @ w - y[i]) * rows[i]
        mean = omega @ table
        w = w - eta * (weights_of_change[i] * (fresh - table[i]) + mean + ridge @ w)
        table[i] = fresh
        points.append(P_inv_sqrt @ w)
    return np.array(points)


def sdca(X, y, lam, omega, order):
    """Exact dual coordinate ascent on D(α) = Σ ω_i (α_i y_i − α_i²/2) − ‖Σ ω_i α_i x_i‖²/(2λ)."""
    alpha = np.zeros(len(y))
    points = []
    for i in order:
        w = X.T @ (omega * alpha) / lam
        # dD/dα_i = ω_i (y_i − α_i − x_iᵀw), and the second derivative −ω_i (1 + ω_i‖x_i‖²/λ)
        alpha[i] += (y[i] - alpha[i] - X[i] @ w) / (1 + omega[i] * X[i] @ X[i] / lam)
        points.append(X.T @ (omega * alpha) / lam)
    return np.array(points)


def weighed_sdca(X, y, lam, omega, epochs):
    """Parts of the rows by `sdca` from the same α, and the best sum of their moves and the last.

    `epochs` are lists of orders, one a thread. The dual is maximised over the span by least squares
    on its dense Hessian diag(ω) + diag(ω) X Xᵀ diag(ω) / λ.
    """
    hessian = np.diag(omega) + (omega[:, None] * X) @ (omega[:, None] * X).T / lam
    alpha, last, points = np.zeros(len(y)), np.zeros(len(y)), []
    for orders in epochs:
        moves = [last]
        for order in orders:
            part = alpha.copy()
            for i in order:
                fitted = X[i] @ (X.T @ (omega * part)) / lam
                part[i] += (y[i] - part[i] - fitted) / (1 + omega[i] * X[i] @ X[i] / lam)
            moves.append(part - alpha)
        span = np.array(moves)
        slope = span @ (omega * y - hessian @ alpha)
        last = np.linalg.lstsq(span @ hessian @ span.T, slope, rcond=1e-13)[0] @ span
        alpha = alpha + last
        points.append(X.T @ (omega * alpha) / lam)
    return np.array(points)


def dual_free_sdca(X, y, lam, P_inv_sqrt, omega, order, rates):
    """Shalev-Shwartz's dual-free SDCA with vectors α_i, on Σ ω_i f_i(w̃) + μ/2 ‖w̃‖².

    f_i(w̃) = ½(x̃_iᵀw̃ − y_i)² + ½ w̃ᵀ(λP⁻¹ − μI)w̃ with μ = λ times the largest eigenvalue of P⁻¹.
    """
    rows = X @ P_inv_sqrt
    P_inv = P_inv_sqrt @ P_inv_sqrt
    mu = lam * np.linalg.eigvalsh(P_inv)[-1]
    shift = lam * P_inv - mu * np.eye(X.shape[1])
    alpha = np.zeros_like(rows)
    w = np.zeros(X.shape[1])
    points = []
    for i in order:
        v = (rows[i] @ w - y[i]) * rows[i] + shift @ w + alpha[i]
        alpha[i] = alpha[i] - rates[i] * mu * v
        w = w - rates[i] * omega[i] * v
        np.testing.assert_allclose(w, omega @ alpha / mu, rtol=1e-6, atol=1e-9)
        points.append(P_inv_sqrt @ w)
    return np.array(points)


def kaczmarz(X, y, lam, order):
    """Projections onto the rows of [X, √(nλ) I] (w, z) = y, from zero."""
    n, d = X.shape
    augmented = np.hstack([X, np.sqrt(n * lam) * np.eye(n)])
    point = np.zeros(n + d)
    points = []
    for i in order:
        row = augmented[i]
        point = point + (y[i] - row @ point) / (row @ row) * row
        points.append(point[:d])
    return np.array(points)


def katyusha(X, y, lam, P_inv_sqrt, omega, p, w_bar, z, order, tau, eta):
    """Loopless Katyusha between two snapshots: y and z after the steps, as w's.

    The snapshot's share is ½. The strong convexity is μ = λ times the largest eigenvalue of P⁻¹.
    """
    rows = X @ P_inv_sqrt
    ridge = lam * P_inv_sqrt @ P_inv_sqrt
    mu = np.linalg.eigvalsh(ridge)[-1]
    to_w = P_inv_sqrt
    snapshot, ahead = np.linalg.solve(to_w, w_bar), np.linalg.solve(to_w, z)
    full = rows.T @ (omega * (rows @ snapshot - y)) + ridge @ snapshot
    point = snapshot
    for i in order:
        x = tau * ahead + 0.5 * snapshot + (1 - tau - 0.5) * point
        change = omega[i] / p[i] * (rows[i] @ (x - snapshot)) * rows[i] + ridge @ (x - snapshot)
        after = (ahead + eta * mu * x - eta * (change + full)) / (1 + eta * mu)
        point = x + tau * (after - ahead)
        ahead = after
    return to_w @ point, to_w @ ahead


def svrg_move(X, lam, P_inv, omega, probabilities, gradient, order, eta):
    """Where an epoch of SVRG goes from a snapshot with this gradient: the average of its points."""
    point, points = np.zeros(X.shape[1]), []
    for i in order:
        row = omega[i] / probabilities[i] * X[i] * (X[i] @ point)
        point = point - eta * P_inv @ (row + gradient + lam * point)
        points.append(point)
    return np.mean(points, axis=0)


def conjugate_svrg(X, y, lam, omega, w, moves, window):
    """The points after every epoch; each goes to the least F in the span of the last directions.

    `moves` are functions of the gradient, one an epoch. The minimum over the span is found by
    least squares, so that nothing is assumed of the directions.
    """
    d = X.shape[1]
    root = np.sqrt(omega)[:, None]
    stacked = np.vstack([root * X, np.sqrt(lam) * np.eye(d)])
    targets = np.concatenate([root[:, 0] * y, np.zeros(d)])
    points, steps = [], []
    for move in moves:
        gradient = stacked.T @ (stacked @ w - targets)
        span = np.stack([move(gradient), *steps[:window]], axis=1)
        span = span / np.linalg.norm(span, axis=0)
        step = span @ np.linalg.lstsq(stacked @ span, targets - stacked @ w, rcond=None)[0]
        w, steps = w + step, [step, *steps]
        points.append(w)
    return np.array(points)
