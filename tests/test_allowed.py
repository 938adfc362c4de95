"""Which preconditioner goes with which solver, and what the refusals say."""

import numpy as np
import pytest

from sketchridge import (
    AcceleratedSVRG,
    Diagonal,
    Embedding,
    Lanczos,
    Nystrom,
    RowSampling,
    driver,
    solve,
)
from sketchridge.driver import make_problem
from sketchridge.preconditioner import PRECONDITIONERS
from sketchridge.solvers import ALLOWED, SOLVERS

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 6)), RNG.standard_normal(30)
LAM = 0.1
STOCHASTIC = [name for name in SOLVERS if ALLOWED[name] == ALLOWED["svrg"]]
FULL_GRADIENT = ["cg", "gd", "agd"]
FORBIDDEN = [(s, p) for s in SOLVERS for p in PRECONDITIONERS if p not in ALLOWED[s]]


@pytest.fixture
def unread(monkeypatch):
    """X must not be read."""

    def read(problem):
        raise AssertionError("X was read")

    monkeypatch.setattr(driver, "read_rows", read)


def built(spec):
    return spec.build(make_problem(X, Y, LAM)[0], np.random.default_rng(0))


def test_the_table_speaks_of_known_names():
    assert set(SOLVERS) <= set(ALLOWED)
    for allowed in ALLOWED.values():
        assert allowed[0] == "none" and set(allowed) <= set(PRECONDITIONERS)
    for solver in SOLVERS.values():
        assert solver.default_preconditioner in ALLOWED[solver.name]
        assert solver.uses_preconditioner == (len(ALLOWED[solver.name]) > 1)


def test_full_gradients_take_every_preconditioner():
    for solver in FULL_GRADIENT:
        assert set(ALLOWED[solver]) == set(PRECONDITIONERS)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(("solver", "preconditioner"), FORBIDDEN)
def test_a_pair_that_does_not_go_is_refused_before_x_is_read(solver, preconditioner):
    said = f"preconditioner='{preconditioner}' does not go with solver='{solver}'"
    with pytest.raises(ValueError, match=said):
        solve(X, Y, LAM, solver, preconditioner)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("spec", [Diagonal(), Embedding(), RowSampling()], ids=lambda s: s.name)
@pytest.mark.parametrize("solver", STOCHASTIC)
def test_stochastic_solvers_say_why_and_what_to_use(solver, spec):
    words = "low rank plus identity.*'lanczos' or 'nystrom'.*solver='cg' with"
    for given in (spec.name, spec, built(spec)):
        with pytest.raises(ValueError, match=words):
            solve(X, Y, LAM, solver, given)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("spec", [Lanczos(2, scaling=1), Nystrom(2, scaling=0.5)], ids=str)
@pytest.mark.parametrize("solver", STOCHASTIC)
def test_stochastic_solvers_refuse_scaled_columns(solver, spec):
    for given in (spec, built(spec)):
        with pytest.raises(ValueError, match=r"with scaled columns is not.*scaling=0"):
            solve(X, Y, LAM, solver, given)


SCALED = [Diagonal(0.75), Lanczos(2, scaling=1), Nystrom(2, scaling=0.5)]


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("spec", SCALED, ids=str)
@pytest.mark.parametrize("method", ["katyusha", "catalyst"])
def test_momentum_refuses_scaled_columns_and_says_what_takes_them(method, spec):
    for given in (spec, built(spec)):
        with pytest.raises(ValueError, match=r"or AcceleratedSVRG\(method='conjugate'\)"):
            solve(X, Y, LAM, AcceleratedSVRG(method), given)


@pytest.mark.parametrize("spec", SCALED, ids=str)
def test_conjugate_epochs_take_scaled_columns(spec):
    least = solve(X, Y, LAM, "direct").objective
    for given in (spec, built(spec)):
        solution = solve(X, Y, LAM, "accelerated_svrg", given, random_state=0)
        assert solution.converged and solution.objective <= least * (1 + 1e-5)
        assert any("copied to float32 with its columns scaled" in n for n in solution.plan.notes)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(("solver", "why"), [("direct", "exact"), ("sketch_and_solve", "'cg'")])
def test_solvers_that_work_alone_say_why(solver, why):
    with pytest.raises(ValueError, match=f"{why}.*leave it at 'auto'"):
        solve(X, Y, LAM, solver, "nystrom")


@pytest.mark.parametrize("scaling", [0, 0.0])
def test_a_scaling_of_zero_is_none(scaling):
    assert solve(X, Y, LAM, "svrg", Lanczos(2, scaling=scaling), random_state=0).converged


def test_a_preconditioner_that_is_asked_for_gets_conjugate_gradients():
    for name in ("diagonal", "embedding", "row_sampling"):
        plan = solve(X, Y, LAM, preconditioner=name, random_state=0).plan
        assert (plan.solver, plan.preconditioner) == ("cg", name)


@pytest.mark.parametrize("name", ["diagonal", "embedding", "row_sampling"])
def test_a_rank_without_a_meaning_is_refused(name):
    with pytest.raises(ValueError, match=f"rank=3 has no meaning.*'{name}'"):
        solve(X, Y, LAM, "cg", name, rank=3)


def test_every_entry_tells_its_cost_and_its_use():
    for entry in (*SOLVERS.values(), *PRECONDITIONERS.values()):
        assert entry.summary and entry.cost and entry.use_when
        assert "\n" not in entry.summary + entry.cost + entry.use_when
