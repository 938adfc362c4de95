"""Bad input is refused at once, by an exception that names the argument, the value and a remedy."""

import re
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import sparse

from sketchridge import CG, SVRG, Direct, Exact, Lanczos, NoPreconditioner, Nystrom, driver, solve
from sketchridge.preconditioner import PRECONDITIONERS
from sketchridge.products import DenseProducts
from sketchridge.solvers import ALLOWED, SOLVERS
from sketchridge.validation import check_matrix
from tests import literal
from tests.problems import CONVERGING, decaying


class Unknown:
    def __repr__(self):
        return "unknown"  # the same in every process, as the name of a test must be


NOTHING_KNOWN = Unknown()

N, D = 30, 6
rng = np.random.default_rng(0)
X = decaying(rng, N, D) + 0.1
Y = X @ rng.standard_normal(D) + 0.1 * rng.standard_normal(N)
LAM = 0.1


def with_value(array, position, value):
    array = np.array(array, dtype=float)
    array[position] = value
    return array


def csr(data, indices, indptr, shape):
    """A CSR matrix whose arrays are not checked by scipy."""
    matrix = sparse.csr_array(shape)
    matrix.data, matrix.indices, matrix.indptr = (
        np.array(data, dtype=float),
        np.array(indices, dtype=np.int32),
        np.array(indptr, dtype=np.int32),
    )
    return matrix


@contextmanager
def refusing(error, *words):
    """Before any work begins the error is raised, its message having all the words."""

    def go(self, start):
        raise AssertionError("the work began")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(error) as caught:
        patch.setattr(driver.Run, "go", go)
        yield
    message = str(caught.value)
    for word in words:
        assert re.search(word, message), f"{word!r} is not in {message!r}"


def refused(error, *words, **arguments):
    with refusing(error, *words):
        solve(**{"X": X, "y": Y, "lam": LAM, **arguments})


def built(columns=D):
    """A preconditioner made for the first columns."""
    problem, _, _ = driver.make_problem(X[:, :columns], Y, LAM)
    return Nystrom(3).build(problem, np.random.default_rng(0))


BAD_X = {
    "NaN": (with_value(X, (3, 1), np.nan), ["NaN", "row 3", "clean"]),
    "infinity": (with_value(X, (4, 1), -np.inf), ["infinite", "row 4", "clean"]),
    "overflow": (with_value(X, (5, 1), 1e200), ["overflow", "row 5", "rescale"]),
    "sparse NaN": (sparse.csr_array(with_value(X, (3, 1), np.nan)), ["NaN", "row 3"]),
    "sparse infinity": (sparse.csr_array(with_value(X, (3, 1), np.inf)), ["infinite", "row 3"]),
    "sparse overflow": (sparse.csc_array(with_value(X, (3, 1), 1e200)), ["overflow", "row 3"]),
    "float32 NaN": (with_value(X, (3, 1), np.nan).astype(np.float32), ["NaN", "row 3"]),
    "no rows": (np.zeros((0, 4)), ["empty", "0 × 4"]),
    "no columns": (np.zeros((N, 0)), ["empty", "30 × 0"]),
    "sparse without rows": (sparse.csr_array((0, 4)), ["empty", "0 × 4"]),
    "a vector": (X[:, 0], ["1 dimension", r"\(30,\)", "reshape"]),
    "a cube": (X.reshape(N, 2, 3), ["3 dimension", r"\(30, 2, 3\)"]),
    "a number": (3.0, ["dimension"]),
    "a sparse vector": (sparse.coo_array(X[:, 0]), [r"\(30,\)", "two dimensions"]),
    "broken: index too large": (csr([1, 1], [0, 9], [0, 1, 2], (2, 3)), ["broken", "9"]),
    "broken: negative index": (csr([1, 1], [0, -1], [0, 1, 2], (2, 3)), ["broken", "-1"]),
    "broken: pointers fall": (csr([1, 1], [0, 1], [0, 2, 1], (2, 3)), ["broken", "indptr"]),
    "broken: pointers too far": (csr([1, 1], [0, 1], [0, 1, 9], (2, 3)), ["broken", "indptr"]),
    "broken: too few pointers": (csr([1, 1], [0, 1], [0, 2], (2, 3)), ["broken", "indptr"]),
    "broken: first pointer": (csr([1, 1], [0, 1], [1, 1, 2], (2, 3)), ["broken", "indptr"]),
    "broken: few values": (csr([1], [0, 1], [0, 1, 2], (2, 3)), ["broken", "indptr"]),
}
BAD_X_TYPE = {
    "objects": X.astype(object),
    "complex": X.astype(complex),
    "strings": X.astype(str),
    "dates": np.zeros((N, D), "datetime64[s]"),
    "masked": np.ma.masked_array(X, X > 1),
    "sparse complex": sparse.csr_array(X.astype(complex)),
    "None": None,
    "text": "data.csv",
    "ragged lists": [[1.0, 2.0], [3.0]],
}


@pytest.mark.parametrize("case", BAD_X)
def test_bad_values_or_shapes_of_X_are_refused(case):
    matrix, words = BAD_X[case]
    y = np.ones(matrix.shape[0] if np.ndim(matrix) or sparse.issparse(matrix) else 1)
    refused(ValueError, r"\bX\b", *words, X=matrix, y=y)


@pytest.mark.parametrize("case", BAD_X_TYPE)
def test_matrices_of_no_real_numbers_are_refused(case):
    refused((TypeError, ValueError), r"\bX\b", X=BAD_X_TYPE[case])


BAD_Y = {
    "NaN": (with_value(Y, 7, np.nan), ["NaN", "row 7", "clean"]),
    "infinity": (with_value(Y, 7, np.inf), ["infinite", "row 7"]),
    "overflow": (with_value(Y, 7, 1e200), ["overflow", "rescale"]),
    "too short": (Y[:-1], ["29", "30"]),
    "too long": (np.append(Y, 1.0), ["31", "30"]),
    "empty": (Y[:0], ["0 rows", "30"]),
    "a number": (1.0, ["0 dimensions"]),
    "a cube": (np.ones((N, 2, 2)), ["3 dimensions"]),
    "no targets": (np.ones((N, 0)), [r"\(30, 0\)"]),
    "a row": (Y[None, :], ["1 rows", "30"]),
    "None": (None, []),
}
BAD_Y_TYPE = {
    "strings": np.full(N, "a"),
    "objects": np.full(N, None),
    "complex": Y.astype(complex),
    "sparse": sparse.csr_array(Y[:, None]),
    "masked": np.ma.masked_array(Y, Y > 0),
}


@pytest.mark.parametrize("case", BAD_Y)
def test_bad_values_or_shapes_of_y_are_refused(case):
    y, words = BAD_Y[case]
    refused(ValueError, r"\by\b", *words, y=y)


@pytest.mark.parametrize("case", BAD_Y_TYPE)
def test_targets_of_no_real_numbers_are_refused(case):
    refused(TypeError, r"\by\b", y=BAD_Y_TYPE[case])


BAD_WEIGHTS = {
    "NaN": (ValueError, with_value(np.ones(N), 2, np.nan), ["NaN", "row 2"]),
    "infinity": (ValueError, with_value(np.ones(N), 2, np.inf), ["infinite", "row 2"]),
    "negative": (ValueError, with_value(np.ones(N), 2, -1), [r"\[2\]", "-1", "≥ 0"]),
    "all zero": (ValueError, np.zeros(N), ["all zero", "positive"]),
    "too short": (ValueError, np.ones(3), [r"\(3,\)", "30"]),
    "a column": (ValueError, np.ones((N, 1)), [r"\(30, 1\)", "30"]),
    "zero for all": (ValueError, 0.0, ["all zero"]),
    "strings": (TypeError, "balanced", []),
    "complex": (TypeError, np.ones(N) + 0j, ["complex"]),
    "sparse": (TypeError, sparse.csr_array(np.ones((1, N))), []),
    "masked": (TypeError, np.ma.masked_array(np.ones(N), Y > 0), ["masked"]),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights_are_refused(case):
    error, weights, words = BAD_WEIGHTS[case]
    refused(error, "sample_weight", *words, sample_weight=weights)


BAD_NUMBERS = [
    ("lam", -1e-9, ValueError, "≥ 0"),
    ("lam", np.nan, ValueError, "≥ 0"),
    ("lam", np.inf, ValueError, "≥ 0"),
    ("lam", "0.1", TypeError, "≥ 0"),
    ("lam", True, TypeError, "≥ 0"),
    ("lam", None, TypeError, "≥ 0"),
    ("lam", 1j, TypeError, "≥ 0"),
    ("lam", np.array([0.1, 0.2]), TypeError, "≥ 0"),
    ("tol", 0, ValueError, "> 0"),
    ("tol", -1e-6, ValueError, "> 0"),
    ("tol", np.nan, ValueError, "> 0"),
    ("tol", "small", TypeError, "> 0"),
    ("tol", None, TypeError, "> 0"),
    ("max_passes", 0, ValueError, "> 0"),
    ("max_passes", -3, ValueError, "> 0"),
    ("max_passes", np.nan, ValueError, "> 0"),
    ("max_passes", "many", TypeError, "> 0"),
    ("max_seconds", 0.0, ValueError, "> 0"),
    ("max_seconds", [1], TypeError, "> 0"),
    ("max_memory", -1, ValueError, "> 0"),
    ("max_memory", "1GB", TypeError, "> 0"),
]


@pytest.mark.parametrize(("name", "value", "error", "remedy"), BAD_NUMBERS, ids=str)
def test_numbers_out_of_range_are_refused(name, value, error, remedy):
    refused(error, f"{name}=", remedy, **{name: value})


def test_a_penalty_too_large_for_a_float_is_refused():
    refused(ValueError, "lam=", "≥ 0", lam=10**400)


@pytest.mark.parametrize("name", ["fit_intercept", "scale_rows"])
@pytest.mark.parametrize("value", ["False", 0.5, None, [True]])
def test_a_switch_is_true_or_false(name, value):
    refused(TypeError, name, **{name: value})


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_, 0, 1])
def test_switches_take_what_means_true_or_false(value):
    assert (solve(X, Y, LAM, fit_intercept=value).intercept != 0) == bool(value)


BAD_RANKS = [
    (0, ValueError, "min"),
    (-2, ValueError, "min"),
    (D + 1, ValueError, r"min\(n, d\) = 6"),
    (2.0, TypeError, "integer"),
    ("many", TypeError, "integer"),
    (True, TypeError, "integer"),
    (None, TypeError, "integer"),
]


@pytest.mark.parametrize(("rank", "error", "word"), BAD_RANKS)
@pytest.mark.parametrize("name", ["exact", "lanczos", "nystrom"])
def test_ranks_out_of_range_are_refused(rank, error, word, name):
    refused(error, f"rank={rank!r}", word, solver="cg", preconditioner=name, rank=rank)


@pytest.mark.parametrize(("rank", "error", "word"), BAD_RANKS)
@pytest.mark.parametrize("kind", [Lanczos, Nystrom, Exact])
def test_ranks_of_objects_are_refused_alike(rank, error, word, kind):
    with refusing(error, re.escape(f"rank={rank!r}"), word):
        solve(X, Y, LAM, "cg", kind(rank=rank))


def test_a_rank_may_be_a_numpy_integer():
    solution = solve(X, Y, LAM, "cg", "nystrom", rank=np.int64(3), random_state=0)
    assert solution.preconditioner.rank == 3


def test_a_rank_without_a_meaning_is_refused():
    refused(ValueError, "rank=3", solver="cg", preconditioner="none", rank=3)
    refused(ValueError, "rank=3", "object", solver="cg", preconditioner=Lanczos(2), rank=3)
    refused(ValueError, "rank=3", "built", solver="cg", preconditioner=built(), rank=3)


@pytest.mark.parametrize(
    "wrong", [{"blocks": 0}, {"epsilon": 0.0}, {"epsilon": 2.0}, {"keep": "x"}]
)
def test_a_sketch_refuses_parameters_without_meaning(wrong):
    [(name, value)] = wrong.items()
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        Lanczos(**wrong)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SVRG(step="large"), "step="),
        (lambda: SVRG(epoch_length=2.5), "epoch_length="),
        (lambda: Lanczos(blocks=2.5), "blocks="),
        (lambda: Lanczos(epsilon="x"), "epsilon="),
    ],
)
def test_parameters_of_a_wrong_type_are_refused_by_name(make, said):
    with pytest.raises(TypeError, match=said):
        make()


@pytest.mark.parametrize(
    ("argument", "known"), [("solver", SOLVERS), ("preconditioner", PRECONDITIONERS)]
)
def test_an_unknown_name_is_refused_with_the_known_ones(argument, known):
    chosen = {"solver": "cg", argument: "newton"}
    refused(ValueError, f"{argument}='newton'", "auto", *known, **chosen)


@pytest.mark.parametrize("wrong", [None, 3, NOTHING_KNOWN, Lanczos(3), CG, np.ones(3)], ids=repr)
def test_what_is_no_solver_is_refused(wrong):
    refused(TypeError, "solver=", "give a name", *SOLVERS, solver=wrong)


@pytest.mark.parametrize("wrong", [None, 3, NOTHING_KNOWN, SVRG(), Lanczos, np.ones(3)], ids=repr)
def test_what_is_no_preconditioner_is_refused(wrong):
    refused(TypeError, "preconditioner=", *PRECONDITIONERS, solver="cg", preconditioner=wrong)


@pytest.mark.parametrize("given", ["lanczos", "nystrom", "exact", Lanczos(3), "built"], ids=str)
@pytest.mark.parametrize("solver", ["direct", Direct()], ids=str)
def test_the_direct_solver_refuses_a_preconditioner(given, solver):
    given = built() if given == "built" else given
    refused(ValueError, "preconditioner", "direct", solver=solver, preconditioner=given)


@pytest.mark.parametrize("given", ["none", NoPreconditioner()], ids=str)
def test_no_preconditioner_goes_with_any_solver(given):
    for solver in ("auto", *SOLVERS):
        assert solve(X, Y, LAM, solver, given, random_state=0).plan.preconditioner == "none"
    assert solve(X, Y, LAM, "auto", given).plan.solver == "direct"


def test_a_preconditioner_for_other_columns_is_refused():
    refused(ValueError, "preconditioner", "4 columns", "6", solver="cg", preconditioner=built(4))


BAD_STARTS = {
    "too short": (ValueError, Y, np.ones(D - 1)),
    "two-dimensional": (ValueError, Y, np.ones((1, D))),
    "transposed": (ValueError, np.column_stack([Y, Y]), np.ones((D, 2))),
    "flat for several": (ValueError, np.column_stack([Y, Y]), np.ones(D)),
    "NaN": (ValueError, Y, with_value(np.ones(D), 2, np.nan)),
    "overflow": (ValueError, Y, np.full(D, 1e200)),
    "strings": (TypeError, Y, ["a"] * D),
    "complex": (TypeError, Y, np.ones(D) + 1j),
    "masked": (TypeError, Y, np.ma.masked_array(np.ones(D), np.arange(D) > 2)),
}


@pytest.mark.parametrize("case", BAD_STARTS)
def test_bad_starts_are_refused(case):
    error, y, start = BAD_STARTS[case]
    refused(error, "coef_init", y=y, solver="cg", coef_init=start)


@pytest.mark.parametrize("seed", [-1, "seed", 1.5, NOTHING_KNOWN, [1.5]], ids=str)
def test_what_is_no_seed_is_refused(seed):
    refused((TypeError, ValueError), "random_state=", "Generator", random_state=seed)


@pytest.mark.parametrize("callback", [3, "print", []], ids=str)
def test_what_cannot_be_called_is_refused(callback):
    refused(TypeError, "callback=", "function", callback=callback)


@pytest.mark.parametrize("checkpoint", [3, 1.5, []], ids=str)
def test_what_is_no_path_is_refused(checkpoint):
    refused(TypeError, "checkpoint", checkpoint=checkpoint)


@pytest.mark.parametrize(
    "wrong",
    [
        {"solver": "newton"},
        {"solver": "cg", "preconditioner": "ilu"},
        {"solver": "cg", "preconditioner": "nystrom", "rank": 2.5},
        {"lam": -1.0},
        {"lam": 0.0, "solver": "cg"},
        {"sample_weight": -np.ones(N)},
        {"coef_init": np.ones(D + 1)},
        {"y": Y[:-1]},
    ],
    ids=str,
)
def test_what_needs_no_look_at_the_data_is_refused_before_it_is_read(wrong, monkeypatch):
    def read(self):
        raise AssertionError("X was read")

    monkeypatch.setattr(DenseProducts, "squared_norms", read)
    refused((TypeError, ValueError), **wrong)


def test_rows_of_zeros_cannot_be_scaled_by_their_norm():
    """λ measured against an average norm of 0 would be 0."""
    refused(ValueError, "scale_rows", X=np.zeros((N, D)), solver="cg", scale_rows=True)
    one = np.zeros((N, D))
    one[0] = 1.0  # which has no weight
    weights = np.arange(N) > 0
    refused(
        ValueError, "scale_rows", X=one, solver="cg", scale_rows=True, sample_weight=weights * 1.0
    )


@pytest.mark.parametrize("form", ["csc", "coo", "bsr"])
def test_other_broken_sparse_matrices_raise_and_do_not_crash(form):
    """In a process of its own, for the conversion to CSR could write anywhere."""
    code = f"""
import numpy as np, scipy.sparse as sp
from sketchridge import solve
X = sp.random_array((50, 40), density=0.3, rng=np.random.default_rng(0), format="csr")
X = X.asformat({form!r})
wrong = X.coords[0] if {form!r} == "coo" else X.indices
wrong[5] = 2_000_000_000
try:
    solve(X, np.ones(50), 0.1)
except ValueError as error:
    assert "X" in str(error), error
else:
    raise SystemExit("no exception")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-500:]


# -- what is unusual and works ---------------------------------------------------------------


class Table:
    """A data frame, as far as numpy is concerned."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype)


USUAL = {
    "table": (Table(X), Table(Y)),
    "lists": (X.tolist(), Y.tolist()),
    "np.matrix": (np.asmatrix(X), Y) if hasattr(np, "asmatrix") else (X, Y),
    "csr_matrix": (sparse.csr_matrix(X), Y),
    "csr_array": (sparse.csr_array(X), Y),
    "csc_matrix": (sparse.csc_matrix(X), Y),
    "long double": (X.astype(np.longdouble), Y.astype(np.longdouble)),
    "strided": (np.repeat(X, 2, axis=1)[:, ::2], np.repeat(Y, 2)[::2]),
}


@pytest.mark.parametrize("form", USUAL)
@pytest.mark.parametrize("solver", CONVERGING)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_what_holds_the_same_numbers_gives_the_same_answer(form, solver):
    solution = solve(*USUAL[form], LAM, solver, tol=1e-14, random_state=0)
    expected = literal.ridge_solution(X, Y, LAM)
    np.testing.assert_allclose(solution.coef, expected, rtol=1e-5)


@pytest.mark.parametrize("weight", [1, 2.5, np.float32(3), np.full(N, 1e308), np.full(N, 1e-320)])
def test_one_weight_for_all_is_no_weighting(weight):
    solution = solve(X, Y, LAM, sample_weight=weight)
    np.testing.assert_allclose(solution.coef, literal.ridge_solution(X, Y, LAM), rtol=1e-12)


@pytest.mark.parametrize("lam", [1, np.float32(0.5), np.int64(2)])
def test_lam_may_be_any_real_number(lam):
    solution = solve(X, Y, lam)
    np.testing.assert_allclose(solution.coef, literal.ridge_solution(X, Y, float(lam)), rtol=1e-12)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, ">f8"])
def test_targets_may_be_of_any_real_type(dtype):
    y = np.rint(Y * 10).clip(0).astype(dtype)
    expected = literal.ridge_solution(X, y.astype(float), LAM)
    np.testing.assert_allclose(solve(X, y, LAM).coef, expected, rtol=1e-10)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (4, 4)])
@pytest.mark.parametrize("solver", CONVERGING)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_smallest_problems_are_solved(shape, solver, kind, intercept):
    source = np.random.default_rng(shape)
    A, y = source.standard_normal(shape), source.standard_normal(shape[0])
    solution = solve(kind(A), y, LAM, solver, tol=1e-12, fit_intercept=intercept, random_state=0)
    A0, y0 = (A - A.mean(axis=0), y - y.mean()) if intercept else (A, y)
    assert solution.converged
    expected = literal.ridge_solution(A0, y0, LAM)
    np.testing.assert_allclose(solution.coef, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("solver", "preconditioner"),
    [(solver, preconditioner) for solver in SOLVERS for preconditioner in ALLOWED[solver]],
)
@pytest.mark.parametrize("shape", [(N, D), (D, N)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_matrix_of_zeros_is_solved_by_zero(preconditioner, solver, shape, kind, intercept):
    solution = solve(
        kind(np.zeros(shape)), Y[: shape[0]], LAM, solver, preconditioner, fit_intercept=intercept
    )
    assert solution.converged and not solution.coef.any()


def test_entries_beyond_the_last_row_are_no_entries():
    X = sparse.csr_array(np.eye(3))
    X.data, X.indices = np.append(X.data, 7.0), np.append(X.indices, 1).astype(np.int32)
    checked, notes = check_matrix(X)
    assert np.array_equal(checked.toarray(), np.eye(3)) and notes == []
    assert checked.data.size == checked.indices.size == 3 and X.data.size == 4
