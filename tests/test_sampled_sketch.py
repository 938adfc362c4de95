"""A Nyström sketch of some of the rows: a bound for all of them, and nearly as good."""

import numpy as np
import pytest
import scipy.sparse as sp

from sketchridge import Nystrom, solve
from sketchridge.driver import make_problem
from tests.problems import with_spectrum

LAM = 1e-6


def data(n=2000, d=120, power=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = with_spectrum(rng, n, d, np.arange(1.0, d + 1) ** -power)
    return X, X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)


def weights(n, seed=1):
    return np.random.default_rng(seed).integers(0, 3, n).astype(float)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rows", [40, 300, 1999])
def test_the_bound_never_exceeds_c(fit_intercept, weighted, sparse, rows):
    X, y = data()
    weight = weights(len(y)) if weighted else np.ones(len(y))
    given = sp.csr_matrix(X) if sparse else X
    problem = make_problem(given, y, LAM, weight if weighted else None, fit_intercept)[0]
    lower = Nystrom(30, rows=rows).build(problem, np.random.default_rng(2)).spectrum.lower
    share = weight / weight.sum()
    centred = X - fit_intercept * (share @ X)
    C = (centred * share[:, None]).T @ centred
    basis = lower.frame @ lower.rotation
    bound = (basis * lower.values) @ basis.T
    assert np.linalg.eigvalsh(C - bound)[0] >= -lower.slack - 1e-15


def test_its_values_are_of_all_the_rows_and_its_certificate_is_sound():
    X, y = data()
    truth = np.linalg.eigvalsh(X.T @ X / len(X))[::-1]
    problem = make_problem(X, y, LAM)[0]
    built = Nystrom(40, rows=600).build(problem, np.random.default_rng(0))
    assert built.spectrum.values[:10] == pytest.approx(truth[:10], rel=0.3)
    assert built.notes[0] == "600 of 2000 rows were sketched"
    assert built.describes(problem)
    assert not built.describes(make_problem(X[:, ::-1].copy(), y, LAM)[0])
    solution = solve(X, y, LAM, solver="cg", preconditioner=built, random_state=0)
    best = solve(X, y, LAM, solver="direct", tol=1e-14)
    assert solution.converged
    assert -1e-15 <= solution.objective - best.objective <= solution.gap


def test_it_is_known_again_by_the_rows_that_it_saw():
    """Rows that it did not see may change, for its bound is of the others; passes are counted."""
    X, y = data()
    X = np.round(8 * X / np.abs(X).max())  # whole numbers: exchanged entries leave a norm as it is
    problem = make_problem(X, y, LAM)[0]
    spectrum = Nystrom(40, rows=500).build(problem, np.random.default_rng(0)).spectrum
    before = problem.passes
    assert spectrum.describes(problem)
    assert problem.passes - before == pytest.approx(500 / 2000)
    unseen = int(np.setdiff1d(np.arange(2000), spectrum.rows)[0])
    for row, known in ((unseen, True), (int(spectrum.rows[7]), False)):
        changed = X.copy()
        changed[row] = changed[row, ::-1]
        other = make_problem(changed, y, LAM)[0]
        assert other.fingerprint == problem.fingerprint
        assert spectrum.describes(other) == known
        if known:
            basis = spectrum.lower.frame @ spectrum.lower.rotation
            rest = changed.T @ changed / 2000 - (basis * spectrum.lower.values) @ basis.T
            assert np.linalg.eigvalsh(rest)[0] >= -spectrum.lower.slack - 1e-12


def test_few_rows_cost_few_passes_more():
    X, y = data(4000, 400, 1.0)
    passes = {
        rows: solve(
            X, y, LAM, solver="cg", preconditioner=Nystrom(100, rows=rows), random_state=0
        ).passes
        for rows in ("all", 600)
    }
    assert passes[600] <= 1.3 * passes["all"] + 3


def test_as_many_rows_as_there_are_is_all_of_them():
    X, y = data(200, 40)
    problem = make_problem(X, y, LAM)[0]
    one = Nystrom(10, rows=200).build(problem, np.random.default_rng(0))
    other = Nystrom(10).build(problem, np.random.default_rng(0))
    assert np.array_equal(one.spectrum.values, other.spectrum.values)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"rows": 0}, ValueError, "rows=0"),
        ({"rows": 1.5}, TypeError, "rows=1.5"),
        ({"rows": "some"}, TypeError, "rows='some'"),
        ({"rows": 50, "scaling": 1.0}, ValueError, "scaling and rows"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, error, said):
    with pytest.raises(error, match=said):
        Nystrom(10, **arguments)
