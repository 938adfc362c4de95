"""The fast epoch against the paper's algorithm written out, on the same random indices."""

import numpy as np
import pytest

from sketchridge.preconditioner import Exact, Lanczos, NoPreconditioner
from sketchridge.solvers.svrg import SVRG, Components
from tests import literal
from tests.problems import centred, decaying, make, sparse_rows

EPOCHS = {"exact": literal.svrg_epoch_exact, "sampled": literal.svrg_epoch_sampled}


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def data(kind, n, d, rng):
    if kind == "dense":
        return decaying(rng, n, d, 1.5)
    if kind == "fortran":
        return np.asfortranarray(decaying(rng, n, d, 1.5))
    return sparse_rows(rng, n, d)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("snapshot", ["average", "last"])
@pytest.mark.parametrize("regularization", ["exact", "sampled"])
@pytest.mark.parametrize("spec", [NoPreconditioner(), Lanczos(rank=4, blocks=2), Exact(rank=5)])
@pytest.mark.parametrize("kind", ["dense", "fortran", "csr"])
def test_an_epoch_is_the_papers_epoch(kind, spec, regularization, snapshot, weighted, intercept):
    rng = np.random.default_rng(3)
    n, d = 41, 23
    X, y = data(kind, n, d, rng), rng.standard_normal(n)
    weights = rng.uniform(0.0, 2.0, n) if weighted else None
    if weighted:
        weights[:3] = 0.0
    problem = make(X, y, 1e-3, weights, intercept)
    preconditioner = spec.build(problem, rng)
    components = Components.of(problem, preconditioner, regularization)
    solver = SVRG(snapshot=snapshot, regularization=regularization)
    order = components.draw(rng, 90)
    start = rng.standard_normal((d, 1))
    gradient = problem.evaluate(start).gradient
    moves = solver._moves(problem, components, gradient, order, np.array([0.7]))

    omega = problem.weights
    dense, targets = centred(X, y, omega * intercept)
    P_inv_sqrt = preconditioner.power(np.eye(d), -0.5)
    eta = 0.7 / components.smoothness
    expected = EPOCHS[regularization](
        dense, targets, 1e-3, P_inv_sqrt, start[:, 0], order, eta, snapshot, omega
    )
    assert relative(start[:, 0] + moves[:, 0], expected) < 1e-9
    assert relative(moves[:, 0], expected - start[:, 0]) < 1e-9
