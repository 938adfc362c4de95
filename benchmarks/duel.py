"""`auto` against scikit-learn's fastest solver of each problem, in turn, at lam = 1e-8.

    SKETCHRIDGE_DATA=folder PYTHONPATH=. python benchmarks/duel.py

A short look, where `make bench` takes a night: scikit-learn's solver and its setting are given here
(the one that was its best to 1e-6), both run in turn, and both are scored by the true gap
(F − F*) / F(0), F* from a solve that is certified to 1e-9. The ratio's median and its range.
"""

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.linear_model import Ridge

from sketchridge import solve
from sketchridge.data import synthetic

LAM, REPEATS, SETTLE = 1e-8, 3, 0.3
POSITIVE = {"mnist_4v7": [4], "cifar10": [2, 3, 4, 5, 6, 7]}
SETTINGS = {
    "mnist_4v7": {"solver": "cholesky"},
    "cifar10": {"solver": "cholesky"},
    "rcv1_subsets": {"solver": "lsqr", "max_iter": 1450, "tol": 0},
    "imdb_tfidf": {"solver": "sparse_cg", "tol": 1e-4},
    "synthetic-linear": {"solver": "cholesky"},
    "synthetic-quadratic": {"solver": "cholesky"},
}


def data(name):
    """X with rows of average norm one, and y."""
    if name.startswith("synthetic"):
        return synthetic(20000, 5000, 1 + name.endswith("quadratic"), np.random.default_rng(0))
    file = np.load(Path(os.environ["SKETCHRIDGE_DATA"]) / f"{name}.npz")
    if "indptr" in file:
        arrays = (file["data"].astype(np.float64), file["indices"], file["indptr"])
        X, y = sparse.csr_matrix(arrays, shape=tuple(file["shape"])), file["y"].astype(float)
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return X / norms.mean(), y
    X = file["X"].astype(np.float64)
    X /= np.sqrt(np.einsum("ij,ij->i", X, X)).mean()
    return X, np.where(np.isin(file["y"], POSITIVE[name]), 1.0, -1.0)


def seconds(action):
    time.sleep(SETTLE)  # BLAS's threads go on spinning for some while
    began = time.perf_counter()
    result = action()
    return time.perf_counter() - began, result


def main():
    warnings.simplefilter("ignore")  # scikit-learn's: it was told when to stop
    for name in sys.argv[1:] or SETTINGS:
        X, y = data(name)
        best, null = solve(X, y, LAM, tol=1e-9).objective, 0.5 * np.mean(y**2)

        def gap(coef, X=X, y=y, best=best, null=null):
            return (0.5 * np.mean((X @ coef - y) ** 2) + 0.5 * LAM * coef @ coef - best) / null

        ridge = Ridge(alpha=len(y) * LAM, fit_intercept=False, copy_X=False, **SETTINGS[name])
        pairs = []
        for _ in range(REPEATS):
            ours, solution = seconds(lambda X=X, y=y: solve(X, y, LAM, random_state=0))
            theirs, model = seconds(lambda X=X, y=y, ridge=ridge: ridge.fit(X, y))
            pairs.append((ours, theirs))
        ratios = sorted(theirs / ours for ours, theirs in pairs)
        ours, theirs = np.median(pairs, axis=0)
        print(
            f"{name:<20} {np.median(ratios):5.2f} × [{ratios[0]:.2f}, {ratios[-1]:.2f}]  auto "
            f"{ours:.3f} s, true gap {gap(solution.coef):.1e}, certified "
            f"{solution.relative_gap:.1e}; {SETTINGS[name]['solver']} {theirs:.3f} s, true gap "
            f"{gap(model.coef_):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
