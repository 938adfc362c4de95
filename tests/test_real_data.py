"""Real data, from the folder named by SKETCHRIDGE_DATA."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge

from sketchridge import solve


def load(name):
    folder = os.environ.get("SKETCHRIDGE_DATA")
    if folder is None or not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not at hand: set SKETCHRIDGE_DATA to the folder that holds it")
    return np.load(Path(folder) / name)


@pytest.mark.parametrize("lam", [1e-8, 1e-4, 1.0])
def test_columns_of_very_different_scale_are_certified(lam):
    file = load("cal_housing.npz")
    solution = solve(file["X"], file["y"], lam, fit_intercept=True, tol=1e-10)
    reference = Ridge(alpha=lam * len(file["y"]), solver="svd").fit(file["X"], file["y"])
    assert solution.converged
    assert np.allclose(solution.coef, reference.coef_, rtol=1e-6)
    assert solution.intercept == pytest.approx(reference.intercept_, rel=1e-6)


def test_text_is_solved_alike_by_every_iterative_solver():
    file = load("rcv1_subsets.npz")
    arrays = (file["data"].astype(np.float64), file["indices"], file["indptr"])
    X, y = sparse.csr_matrix(arrays, shape=file["shape"]), file["y"].astype(np.float64)
    objectives = [
        solve(X, y, 1e-4, solver=solver, preconditioner=name, rank=10, tol=1e-8, random_state=0)
        for solver, name in (("cg", "nystrom"), ("cg", "lanczos"), ("svrg", "lanczos"))
    ]
    assert all(solution.converged for solution in objectives)
    values = [solution.objective for solution in objectives]
    assert max(values) - min(values) <= max(solution.gap for solution in objectives)
