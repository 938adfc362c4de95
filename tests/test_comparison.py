"""`compare`: a table of methods on one problem."""

import json
import sys

import numpy as np
import pytest
from scipy import sparse

from sketchridge import CG, SVRG, Comparison, Lanczos, Nystrom, compare, solve
from sketchridge.comparison import MAX_PASSES, USUAL_METHODS, _few_rows, usual_methods
from sketchridge.comparison_plot import _styles
from sketchridge.solution import Status
from sketchridge.solvers import ALLOWED, AcceleratedSVRG
from tests.problems import decaying, make

LAM = 1e-3
FEW = [("direct", "none"), ("cg", "nystrom"), ("svrg", "lanczos")]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = decaying(rng, 120, 20)
    return X, X @ rng.standard_normal(20) + 0.1 * rng.standard_normal(120)


def test_a_comparison_is_as_many_solves_with_one_seed(data):
    comparison = compare(*data, LAM, [*FEW, ("saga", "none")], tol=1e-7, random_state=3)
    assert comparison.methods == ("direct", "cg+nystrom", "svrg+lanczos", "saga+none")
    assert tuple(comparison.solutions) == comparison.methods and not comparison.errors
    for label, solution in comparison.solutions.items():
        solver, _, name = label.partition("+")
        alone = solve(*data, LAM, solver, name or "none", tol=1e-7, random_state=comparison.seed)
        assert np.array_equal(solution.coef, alone.coef)
        assert solution.passes == alone.passes  # and nothing was paid by another method


@pytest.mark.parametrize("seed", [None, 5, np.random.default_rng(5)])
def test_a_seed_is_drawn_for_all_methods(data, seed):
    comparison = compare(*data, LAM, [("svrg", "none")], random_state=seed)
    again = solve(*data, LAM, "svrg", "none", random_state=comparison.seed)
    assert np.array_equal(comparison.solutions["svrg+none"].coef, again.coef)


def test_every_option_of_the_problem_reaches_the_methods(data):
    X, y = data
    options = {
        "fit_intercept": True,
        "sample_weight": np.arange(120.0),
        "scale_rows": True,
        "max_seconds": 100.0,
    }
    comparison = compare(X, y + 5, LAM, FEW, tol=1e-9, random_state=0, **options)
    reference = solve(X, y + 5, LAM, "direct", tol=1e-9, **options)
    for solution in comparison.solutions.values():
        assert solution.objective - reference.objective <= solution.gap + 1e-14
        assert solution.intercept == pytest.approx(reference.intercept, rel=1e-2)
        assert solution.tol == 1e-9


def test_the_usual_methods_all_run_and_cover_both_kinds(data):
    comparison = compare(*data, LAM, random_state=0)
    assert len(comparison.solutions) == len(USUAL_METHODS) and not comparison.errors
    assert comparison.solutions["cg+nystrom"].status is Status.CONVERGED
    assert all(name in ALLOWED[solver] for solver, name in USUAL_METHODS)


def test_a_direct_solve_is_left_out_where_it_is_long():
    problem = make(sparse.csr_array((6000, 7000)), np.ones(6000), LAM)
    assert "direct" not in dict(usual_methods(problem))
    assert "direct" in dict(usual_methods(make(np.ones((6000, 5)), np.ones(6000), LAM)))


# -- what goes wrong -----------------------------------------------------------------------------


def test_a_method_that_refuses_gets_a_row_that_says_why(data):
    comparison = compare(
        *data, LAM, [("svrg", "embedding"), ("svrg", Lanczos(rank=50)), *FEW], random_state=0
    )
    wrong, rank, *right = comparison.rows()
    assert wrong["status"] == "refused" and "does not go with" in wrong["note"]
    assert rank["status"] == "refused" and "rank=50 is out of range" in rank["note"]
    assert [row["status"] for row in right] == ["converged"] * 3
    assert isinstance(comparison.errors["svrg+embedding"], ValueError)
    assert "svrg+embedding: preconditioner='embedding' does not go" in comparison.table()


def test_too_little_memory_is_a_row(data):
    comparison = compare(*data, LAM, FEW, max_memory=30_000, random_state=0)
    assert "max_memory" in comparison.errors["svrg+lanczos"].args[0]
    assert comparison.solutions["direct"].converged


def test_no_penalty_leaves_the_direct_solver_alone(data):
    comparison = compare(*data, 0.0, FEW)
    assert tuple(comparison.solutions) == ("direct",)
    assert {row["status"] for row in comparison.rows()[1:]} == {"refused"}


@pytest.mark.parametrize("error", [MemoryError("8 TB"), RuntimeError("broken")])
def test_a_method_that_fails_does_not_lose_the_table(data, error, monkeypatch):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(CG, "iterates", fail)
    comparison = compare(*data, LAM, FEW, random_state=0)
    row = comparison.rows()[1]
    assert row["status"] == "failed"
    assert row["note"] == f"{type(error).__name__}: {error}"
    assert len(comparison.solutions) == 2


WRONG = [
    ({"methods": []}, ValueError, "methods is empty"),
    ({"methods": "svrg"}, TypeError, "no sequence of pairs"),
    ({"methods": ["svrg"]}, TypeError, r"'svrg' is no method: give a pair"),
    ({"methods": [("svrg",)]}, TypeError, "is no method: give a pair"),
    ({"methods": [("newton", "none")]}, ValueError, "solver='newton' is unknown: choose auto"),
    ({"methods": [("cg", "ilu")]}, ValueError, "preconditioner='ilu' is unknown"),
    ({"methods": [(3, "none")]}, ValueError, "solver=3 is unknown"),
    ({"methods": [(CG(), "none"), ("cg", "none")]}, ValueError, "named alike"),
    ({"tol": 0.0}, ValueError, "tol=0.0 is out of range"),
    ({"max_passes": -1}, ValueError, "max_passes=-1 is out of range"),
    ({"lam": -1.0}, ValueError, "lam=-1.0 is out of range"),
    ({"X": np.full((120, 20), np.nan)}, ValueError, "NaN"),
    ({"y": np.ones(3)}, ValueError, "y has 3 rows"),
    ({"random_state": "x"}, TypeError, "random_state='x' is no seed"),
]


@pytest.mark.parametrize(("wrong", "kind", "said"), WRONG)
def test_what_is_wrong_for_all_methods_is_refused_before_the_work(data, wrong, kind, said):
    X, y = data
    with pytest.raises(kind, match=said):
        compare(**{"X": X, "y": y, "lam": LAM, "methods": FEW} | wrong)


# -- labels --------------------------------------------------------------------------------------


def test_labels_are_given_or_tell_what_differs_from_the_defaults(data):
    built = solve(*data, LAM, "cg", Nystrom(5), random_state=0).preconditioner
    methods = [(SVRG(step=0.5), Lanczos(rank=3)), (AcceleratedSVRG("catalyst"), built)]
    assert compare(*data, LAM, methods, random_state=0).methods == (
        "svrg(step=0.5)+lanczos(rank=3)",
        "accelerated_svrg(method=catalyst)+nystrom (built, rank 5)",
    )
    named = compare(*data, LAM, {"mine": ("cg", "auto"), "his": ("auto", "auto")}, random_state=0)
    assert named.methods == ("mine", "his")
    assert [row["solver"] for row in named.rows()] == ["cg", "direct"]


# -- callbacks -----------------------------------------------------------------------------------


def test_the_callback_hears_every_record_with_its_label(data):
    told = []
    comparison = compare(*data, LAM, FEW, random_state=0, callback=lambda *said: told.append(said))
    expected = [
        (label, record)
        for label, solution in comparison.solutions.items()
        for record in solution.history
    ]
    assert told == expected


def test_a_true_callback_stops_its_own_method(data):
    comparison = compare(
        *data, LAM, FEW, random_state=0, callback=lambda label, record: label == "svrg+lanczos"
    )
    statuses = [solution.status for solution in comparison.solutions.values()]
    assert statuses == [Status.CONVERGED, Status.CONVERGED, Status.STOPPED]


def test_an_error_of_the_callback_comes_through(data):
    def callback(label, record):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        compare(*data, LAM, FEW, random_state=0, callback=callback)


def test_an_interrupt_keeps_what_there_is(data):
    def callback(label, record):
        if label == "cg+nystrom":
            raise KeyboardInterrupt

    comparison = compare(*data, LAM, FEW, random_state=0, callback=callback)
    assert [row["status"] for row in comparison.rows()] == ["converged", "interrupted", "not_run"]
    assert "svrg+lanczos: the comparison was interrupted" in comparison.table()


# -- the result ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def comparison(data):
    return compare(
        *data, LAM, [*FEW, ("svrg", "none"), ("svrg", "diagonal")], max_passes=20, random_state=0
    )


def test_the_frame_is_indexed_by_method(comparison):
    frame = comparison.frame
    assert tuple(frame.index) == comparison.methods
    assert frame.loc["svrg+lanczos", "passes"] == comparison.solutions["svrg+lanczos"].passes
    assert frame.loc["svrg+none", "status"] == "max_passes"
    assert not frame.loc["svrg+diagonal", "converged"]
    assert frame["relative_gap"].isna().sum() == 1


def test_without_pandas_the_frame_says_what_to_install(comparison, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'sketchridge\[frame\]', or use .rows"):
        _ = comparison.frame
    assert len(comparison.rows()) == 5


def test_the_table_is_aligned_and_whole(comparison):
    title, blank, heads, rule, *lines = comparison.table().splitlines()
    assert title == "120 rows × 20 columns, λ = 0.001, to a relative gap of 1e-06" and not blank
    assert heads.split("  ")[0] == "method" and set(rule) == {"─"}
    gaps = [line[: len(heads)].rstrip() for line in lines[:4]]
    column = heads.index("passes") + len("passes")
    assert all(line[column - 1].isdigit() and line[column] == " " for line in gaps)
    assert lines[4].split() == ["svrg+diagonal", "refused"]
    assert str(comparison) == comparison.table()


def test_the_repr_names_the_best(comparison):
    said = repr(comparison)
    assert said.startswith("Comparison(5 methods, 2 converged; fewest passes direct: ")
    nothing = Comparison((), {}, {}, 1e-6, (3, 2), 1.0, 0)
    assert repr(nothing) == "Comparison(0 methods, 0 converged)"


def test_the_plot_is_a_picture_of_every_solution(comparison, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with pyplot.rc_context({"svg.fonttype": "none"}):
        path = comparison.plot(tmp_path / "new" / "picture.svg", title="my title")
    text = path.read_text()
    assert "my title" in text and "passes over the data" in text
    assert all(label in text for label in comparison.solutions)
    assert "svrg+diagonal" not in text


def test_there_is_no_picture_of_nothing(data, tmp_path):
    nothing = compare(*data, LAM, [("svrg", "diagonal")])
    with pytest.raises(ValueError, match="no method ran"):
        nothing.plot(tmp_path / "picture.png")


def test_no_limit_of_passes_is_that_of_solve(data):
    comparison = compare(*data, LAM, [("gd", "none")], max_passes=None, random_state=0)
    assert comparison.solutions["gd+none"].converged
    assert comparison.solutions["gd+none"].passes > MAX_PASSES


def test_the_seed_survives_json(data):
    comparison = compare(*data, LAM, [("svrg", "none")], random_state=0)
    read = json.loads(json.dumps(comparison.as_dict()), parse_int=float)
    assert int(read["seed"]) == comparison.seed


def test_many_methods_look_different(data):
    solutions = compare(
        *data,
        LAM,
        [
            (solver, name)
            for solver in ("cg", "gd", "svrg", "saga", "sag")
            for name in ("none", "nystrom")
        ],
        max_passes=10,
        random_state=0,
    ).solutions
    assert len({str(look) for look in _styles(solutions).values()}) == 10
    twins = {f"step {number}": solutions["svrg+none"] for number in range(15)}
    assert len({str(look) for look in _styles(twins).values()}) == 15


def test_several_targets_are_compared_by_the_worst(data):
    X, y = data
    comparison = compare(X, np.stack([y, y**2], axis=1), LAM, FEW, random_state=0)
    for row, solution in zip(comparison.rows(), comparison.solutions.values(), strict=True):
        assert row["relative_gap"] == solution.relative_gap.max()
        assert row["converged"]


# -- compiling beforehand ------------------------------------------------------------------------


def long_indices(X):
    X = sparse.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    X.data.flags.writeable = False
    return X


def test_the_rows_to_compile_for_are_of_the_same_type(data):
    numba = pytest.importorskip("numba")
    X, _ = data
    for dense in (X, np.asfortranarray(X), X.astype(np.float32)):
        few = _few_rows(dense)
        assert few.shape == (64, 20) and np.array_equal(few, dense[:64])
        assert numba.typeof(few) == numba.typeof(dense)
    for given in (sparse.csr_array(X), long_indices(X)):
        few = _few_rows(given)
        assert few.shape == (64, 20) and np.array_equal(few.toarray(), X[:64])
        for part in ("data", "indices", "indptr"):
            assert numba.typeof(getattr(few, part)) == numba.typeof(getattr(given, part))


def test_an_interrupt_of_the_compilation_ends_it(data, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(CG, "iterates", interrupt)
    with pytest.raises(KeyboardInterrupt):
        compare(*data, LAM, FEW, random_state=0)


def test_copies_are_told_once(data):
    X, y = data
    comparison = compare(sparse.coo_array(X), y, LAM, FEW, random_state=0)
    assert any("copied to CSR" in note for note in comparison.notes)
    assert not any("CSR" in row["note"] for row in comparison.rows())
