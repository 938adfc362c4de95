"""Ridge regression in rational arithmetic: the numbers exactly as given, no rounding anywhere."""

from fractions import Fraction

import numpy as np

from tests.problems import dense_of

rationals = np.vectorize(Fraction, otypes=[object])


class ExactRidge:
    """F(w, b) − F* of every target, F* over w and, with an intercept, over b too.

    The intercept is the coefficient of a column of ones that is not penalised. A feature
    penalty γ (d,) makes the penalty λ/2 Σ γ_j w_j².
    """

    def __init__(self, X, Y, lam, sample_weight=None, fit_intercept=False, feature_penalty=None):
        n, d = X.shape
        self.rows = rationals(np.column_stack([dense_of(X), np.ones(n)]))
        self.Y = rationals(Y)
        weights = rationals(np.ones(n) if sample_weight is None else sample_weight)
        self.weights = weights / weights.sum()
        factors = np.ones(d) if feature_penalty is None else feature_penalty
        self.penalty = Fraction(lam) * rationals(factors)
        used = self.rows if fit_intercept else self.rows[:, :d]
        weighted = used.T * self.weights
        hessian, right = weighted @ used, weighted @ self.Y
        hessian[np.arange(d), np.arange(d)] += self.penalty
        solution = solve_exactly(hessian, right)
        self.coef = solution[:d]
        self.optimum = (self.weights @ self.Y**2 - np.sum(right * solution, axis=0)) / 2

    def objective(self, coef, intercept):
        """F of the coefficients (d, t) and intercepts (t,)."""
        coef = rationals(coef)
        residual = self.rows @ np.vstack([coef, rationals(intercept)]) - self.Y
        return (self.weights @ residual**2 + self.penalty @ coef**2) / 2

    def gap(self, coef, intercept):
        """F − F* of the coefficients (d, t) and intercepts (t,)."""
        return self.objective(coef, intercept) - self.optimum


def solve_exactly(A, B):
    """A⁻¹B for a positive definite A, by Gaussian elimination."""
    A, B = A.copy(), B.copy()
    for pivot in range(len(A)):
        for row in range(pivot + 1, len(A)):
            factor = A[row, pivot] / A[pivot, pivot]
            A[row, pivot:] -= factor * A[pivot, pivot:]
            B[row] -= factor * B[pivot]
    for row in reversed(range(len(A))):
        B[row] = (B[row] - A[row, row + 1 :] @ B[row + 1 :]) / A[row, row]
    return B


def degrees_of_freedom(X, lam, fit_intercept=False):
    """tr(C (C + λI)⁻¹) with rows of equal weight, rounded once."""
    X = rationals(dense_of(X))
    X = X - X.sum(axis=0) / len(X) if fit_intercept else X
    C, identity = X.T @ X / len(X), rationals(np.eye(X.shape[1]))
    inverse = solve_exactly(C + Fraction(lam) * identity, identity)
    return float(np.trace(C @ inverse))
