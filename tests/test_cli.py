"""The command line, as a user runs it."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import Ridge

import sketchridge.cli
from sketchridge.cli.progress import SolveProgress, seconds_left, share_done, time_left
from sketchridge.model import Model
from sketchridge.solution import Record
from tests.problems import decaying

COMMAND = Path(sys.executable).with_name("sketchridge")


def run(*arguments, **options):
    """In a process of its own."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Within this process, in an empty folder: exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def inside(*arguments):
        monkeypatch.setattr(sys, "argv", ["sketchridge", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            sketchridge.cli.main()
        written = capsys.readouterr()
        assert "Traceback" not in written.err
        return ended.value.code or 0, written.out, written.err

    return inside


@pytest.fixture
def houses(tmp_path):
    """houses.csv with a header; X and y of it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4))
    y = X @ np.array([1.0, -2.0, 0.5, 3.0]) + 5 + 0.1 * rng.standard_normal(80)
    np.savetxt(
        tmp_path / "houses.csv",
        np.c_[X, y],
        delimiter=",",
        header="rooms,age,income,sea,price",
        comments="",
        fmt="%.17g",
    )
    return X, y


@pytest.fixture
def hard(tmp_path):
    """hard.npz, which takes CG many passes."""
    rng = np.random.default_rng(1)
    X = decaying(rng, 400, 200, power=2)
    np.savez(tmp_path / "hard.npz", X=X, y=rng.standard_normal(400))


FIT = ("fit", "houses.csv", "--target", "price", "--intercept", "--lam", "1e-3", "--out", "a.model")


# -- what there was before -----------------------------------------------------------------------


def test_without_arguments_it_tells_what_there_is():
    result = run()
    listed = result.stdout + result.stderr
    for name in ("demo", "diagnose", "fit", "predict", "solvers"):
        assert name in listed


def test_the_version_is_the_packages(call):
    assert call("--version")[1].split() == ["sketchridge", sketchridge.__version__]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_every_solver_and_preconditioner_is_listed(monkeypatch, columns):
    """In full, however narrow the terminal (and where there is none, as in a pipe)."""
    from sketchridge.preconditioner import PRECONDITIONERS
    from sketchridge.solvers import SOLVERS

    monkeypatch.setenv("COLUMNS", str(columns))
    listed = run("solvers").stdout  # a process of its own: a console keeps the width that it had
    words = " ".join(listed.replace("│", " ").split())
    assert "…" not in listed and max(map(cell_len, listed.splitlines())) <= columns
    for entry in (*SOLVERS.values(), *PRECONDITIONERS.values()):
        assert f" {entry.name} {entry.summary} cost: {entry.cost} when: {entry.use_when}" in words
    assert "goes with: none, exact, lanczos, nystrom" in words


def test_the_demo_ends_in_certified_gaps_and_a_picture(call, tmp_path):
    picture = tmp_path / "folder" / "demo.png"
    code, written, _ = call(
        "demo", "--rows", 400, "--columns", 60, "--passes", 60, "--out", picture
    )
    assert code == 0
    assert "certified" in written and "picture:" in written
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture.resolve()) in written.replace("\n", "")


def test_a_wrong_option_is_refused(call):
    assert call("demo", "--rows", 3)[0] == 2


@pytest.mark.parametrize("name", ["demo", "diagnose", "fit", "predict", "solvers"])
def test_help_teaches_by_examples(call, name):
    code, text, _ = call(name, "--help")
    assert code == 0 and "Examples:" in text and f"sketchridge {name}" in text
    if name == "fit":
        for exit_code in ("0 converged", "2 wrong usage", "3 not converged", "130 interrupted"):
            assert exit_code in " ".join(text.split())


def test_help_loads_no_numerics():
    """So that it comes at once."""
    code = (
        "import sys; sys.argv = ['sketchridge', 'fit', '--help']\n"
        "from sketchridge.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'numba' not in sys.modules and 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


# -- fit -----------------------------------------------------------------------------------------


def test_fit_writes_the_model_that_sklearn_finds(call, houses):
    X, y = houses
    code, written, errors = call(*FIT)
    assert code == 0, errors
    assert "converged" in written and "a.model" in written and "relative gap" in errors
    model = Model.load(Path("a.model"))
    reference = Ridge(alpha=80 * 1e-3).fit(X, y)
    assert np.allclose(model.coef, reference.coef_)
    assert float(model.intercept) == pytest.approx(reference.intercept_)
    assert model.feature_names == ("rooms", "age", "income", "sea") and model.target == "price"


def test_every_option_of_solve_arrives(call, houses):
    X, y = houses
    weights = np.random.default_rng(2).random(80)
    np.savetxt("weights.txt", weights)
    code, written, _ = call(
        *FIT[:-4], "--lam", "1/n", "--out", "a.model", "--weights", "weights.txt", "--scale-rows",
        "--solver", "cg", "--preconditioner", "lanczos", "--rank", 2, "--tol", "1e-9",
        "--max-passes", 500, "--max-seconds", 100, "--max-memory", "1GB", "--seed", 7,
        "--checkpoint", "run.npz", "--json",
    )  # fmt: skip
    document = json.loads(written)
    assert code == 0 and document["converged"] and document["tol"] == 1e-9
    assert document["plan"]["solver"] == "cg" and document["plan"]["preconditioner"] == "lanczos"
    assert document["plan"]["rank"] == 2 and document["lam"] == 1 / 80
    assert Path("run.npz").exists()
    norm = np.average(np.linalg.norm(X, axis=1), weights=weights)
    alpha = weights.sum() * norm**2 / 80
    reference = Ridge(alpha=alpha).fit(X, y, sample_weight=weights)
    assert np.allclose(Model.load(Path("a.model")).coef, reference.coef_, rtol=1e-3)


def test_json_is_one_document_on_stdout_and_progress_is_elsewhere(call, houses):
    code, written, errors = call(*FIT, "--json")
    document = json.loads(written)
    assert code == 0 and document["model"] == "a.model" and document["status"] == "converged"
    assert document["relative_gap"] <= document["tol"] and document["plan"]["reason"]
    assert document["feature_names"] == ["rooms", "age", "income", "sea"]
    assert "passes" in errors


def test_a_fit_that_does_not_converge_says_so_and_keeps_its_model(call, hard):
    code, written, errors = call(
        "fit", "hard.npz", "--lam", "1e-9", "--solver", "cg", "--max-passes", 5, "--out", "a.model"
    )
    assert code == 3
    assert "not converged" in written and "not converged" in errors and "a.model" in errors
    model = Model.load(Path("a.model"))
    assert not model.converged and model.relative_gap > 1e-6


def test_a_report_comes_with_a_fit(call, houses):
    code, written, _ = call(*FIT, "--report", "a.html")
    assert code == 0 and "a.html" in written
    page = Path("a.html").read_text()
    assert "houses.csv" in page and "It is proved" in page and page.count("<svg") == 2


def test_a_file_is_replaced_only_when_forced_and_this_is_known_at_once(call, houses, monkeypatch):
    Path("a.model").write_text("precious")
    monkeypatch.setattr("sketchridge.driver.solve", lambda *_, **__: pytest.fail("it solved"))
    for extra in ((), ("--json",)):
        code, _, errors = call(*FIT, *extra)
        assert code == 1 and "--force" in errors
    assert Path("a.model").read_text() == "precious"
    monkeypatch.undo()


def test_force_replaces(call, houses):
    Path("a.model").write_text("precious")
    assert call(*FIT, "--force")[0] == 0
    assert Model.load(Path("a.model")).converged
    assert sorted(file.name for file in Path().iterdir()) == ["a.model", "houses.csv"]


def without(arguments, option):
    place = arguments.index(option)
    return (*arguments[:place], *arguments[place + 2 :])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (without(FIT, "--target"), 1, "name one by --target"),
        (without(FIT, "--lam"), 2, "--lam"),
        (without(FIT, "--out"), 2, "--out"),
        ((*without(FIT, "--target"), "--target", "cost"), 1, "cost"),
        ((*without(FIT, "--lam"), "--lam", "x"), 2, "'x' is no penalty"),
        ((*without(FIT, "--lam"), "--lam", "-1"), 2, "'-1' is no penalty"),
        ((*without(FIT, "--lam"), "--lam", "nan"), 2, "'nan' is no penalty"),
        ((*without(FIT, "--out"), "--out", "."), 1, "is a folder"),
        ((*without(FIT, "--out"), "--out", "no/a.model"), 1, "make it first"),
        ((*without(FIT, "--out"), "--out", "houses.csv", "--force"), 1, "same file"),
        ((*without(FIT, "--out"), "--out", "/dev/null", "--force"), 1, "a device or a pipe"),
        ((*FIT, "--report", "a.model", "--force"), 1, "same file"),
        ((*FIT, "--report", "no/a.html"), 1, "--report no/a.html"),
        ((*FIT, "--checkpoint", "no/a.npz"), 1, "--checkpoint no/a.npz"),
        ((*FIT, "--solver", "magic"), 2, "'magic' is unknown"),
        ((*FIT, "--preconditioner", "magic"), 2, "'magic' is unknown"),
        ((*FIT, "--rank", "0"), 2, "--rank"),
        ((*FIT, "--rank", "50", "--solver", "cg"), 1, "rank=50"),
        ((*FIT, "--tol", "0"), 1, "tol=0.0"),
        ((*FIT, "--max-passes", "-3"), 1, "max_passes=-3"),
        ((*FIT, "--max-seconds", "nan"), 1, "max_seconds=nan"),
        ((*FIT, "--max-memory", "lots"), 2, "no amount of memory"),
        ((*FIT, "--max-memory", "10"), 1, "max_memory=10"),
        ((*FIT, "--weights", "none.npy"), 1, "none.npy"),
        ((*FIT, "--weights", "houses.csv"), 1, "not a list of numbers"),
        (("fit", ".", *FIT[2:]), 1, "is a folder"),
        (("fit", "nowhere.csv", *FIT[2:]), 1, "nowhere.csv"),
        (("fit", "mnst", *FIT[2:]), 1, "neither a file nor one of the paper's problems"),
        (("fit", "mnist", "--data", ".", *FIT[4:]), 1, "mnist"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)
def test_wrong_input_ends_in_a_sentence(call, houses, arguments, code, words):
    before = sorted(file.name for file in Path().iterdir())
    found, written, errors = call(*arguments)
    assert found == code, errors
    assert words in " ".join(errors.split()) and written == ""
    if code == 1:
        assert errors.splitlines()[-1].startswith("error: ")
    assert sorted(file.name for file in Path().iterdir()) == before


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "out of memory"),
        (MemoryError("Unable to allocate 9 TiB"), "9 TiB"),
        (OSError(28, "No space left on device", "a.model"), "a.model: No space left on device"),
        (PermissionError(13, "Permission denied", "x.csv"), "x.csv: Permission denied"),
        (ZeroDivisionError("division by zero"), "a fault of sketchridge"),
    ],
)
def test_whatever_happens_there_is_no_traceback(call, houses, monkeypatch, error, words):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("sketchridge.driver.solve", fail)
    code, _, errors = call(*FIT)
    assert code == 1 and words in errors
    monkeypatch.setenv("SKETCHRIDGE_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["sketchridge", *FIT])
    with pytest.raises(type(error)):
        sketchridge.cli.main()


def test_a_name_with_markup_is_printed_as_it_is(call):
    name = "[bold]<script>x.csv"
    assert name in call("fit", name, "--lam", "1", "--out", "a.model")[2]


def test_ctrl_c_while_reading_writes_nothing(call, houses, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("sketchridge.data.read", interrupted)
    code, _, errors = call(*FIT)
    assert code == 130 and "nothing was written" in errors and not Path("a.model").exists()


def test_ctrl_c_keeps_the_best_model_so_far(hard, tmp_path):
    arguments = ("fit", "hard.npz", "--lam", "1e-9", "--tol", "1e-15", "--solver", "cg")
    slow = (
        "import sys, time, sketchridge.cli.progress as progress\n"
        "show = progress.SolveProgress.__call__\n"
        "def slowly(self, record):\n"
        "    show(self, record)\n"
        "    if record.passes > 20: print('now', flush=True); time.sleep(60)\n"
        "progress.SolveProgress.__call__ = slowly\n"
        f"sys.argv = {['sketchridge', *arguments, '--out', 'a.model']!r}\n"
        "from sketchridge.cli import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", slow],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: the best model so far is in a.model" in errors
    assert "Traceback" not in errors
    model = Model.load(tmp_path / "a.model")
    assert not model.converged and np.any(model.coef)


def test_a_reader_that_leaves_is_no_error_to_speak_of(houses, tmp_path):
    process = subprocess.Popen(
        [COMMAND, "diagnose", "houses.csv", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert "Traceback" not in errors and "BrokenPipe" not in errors
    assert process.returncode in (0, 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [("solvers",), ("--help",), ("fit", "--help")])
def test_a_full_disk_behind_stdout_is_a_sentence(arguments):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = subprocess.run(
            [COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 1
    assert "No space left on device" in result.stderr and "Traceback" not in result.stderr


def test_a_terminal_without_greek_gets_its_answer(houses, tmp_path):
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = run("diagnose", "houses.csv", cwd=tmp_path, env=ascii_only)
    assert result.returncode == 0 and "80 rows \\xd7 5 columns" in result.stdout
    result = run(*FIT, "--json", cwd=tmp_path, env=ascii_only)
    assert result.returncode == 0 and "80 × 4" in json.loads(result.stdout)["plan"]["reason"]


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a POSIX shell")
def test_a_closed_stderr_is_no_error(houses, tmp_path):
    command = [COMMAND, *FIT]
    result = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *command], cwd=tmp_path, check=False)
    assert result.returncode == 0 and (tmp_path / "a.model").exists()


def test_a_place_where_nothing_can_be_made_is_refused_before_any_work(call, houses, monkeypatch):
    def refuse(path):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "touch", refuse)
    code, _, errors = call(*FIT)
    assert code == 1 and "Read-only file system" in errors and "rows" not in errors


def test_a_name_as_long_as_the_system_allows_is_written(call, houses):
    name = 250 * "a"
    assert call(*FIT[:-1], name)[0] == 0
    assert Model.load(Path(name)).features == 4


def test_the_columns_of_a_table_can_be_chosen(call, houses):
    X, y = houses
    assert call(*FIT, "--features", "sea, rooms")[0] == 0
    model = Model.load(Path("a.model"))
    reference = Ridge(alpha=80 * 1e-3).fit(X[:, [3, 0]], y)
    assert model.feature_names == ("sea", "rooms")
    assert np.allclose(model.coef, reference.coef_)


def test_more_columns_than_memory_are_refused(call):
    """The system would end the process without a word."""
    Path("wide.svm").write_text("1 1:2\n1 2147483646:4\n")
    code, _, errors = call("fit", "wide.svm", "--lam", "1", "--out", "a.model")
    assert code == 1 and "number the columns anew" in errors


def test_ctrl_c_between_the_folds_keeps_the_path(call, houses, monkeypatch):
    from sketchridge.crossvalidation import Tracer
    from sketchridge.solution import Status

    whole = Tracer.trace

    def interrupted(tracer):
        whole(tracer)
        if np.count_nonzero(tracer.problem.weights) < 80:  # a fold
            tracer.status = Status.INTERRUPTED

    monkeypatch.setattr(Tracer, "trace", interrupted)
    options = ("--target", "price", "--folds", 4, "--out", "path.npz")
    code, _, errors = call("path", "houses.csv", *options)
    assert code == 130 and "best so far" in errors
    with np.load("path.npz") as written:
        assert "coef" in written.files and "held_out_errors" not in written.files


# -- predict -------------------------------------------------------------------------------------


def test_predictions_and_their_score(call, houses):
    X, y = houses
    call(*FIT)
    code, written, errors = call("predict", "a.model", "houses.csv")
    reference = Ridge(alpha=80 * 1e-3).fit(X, y)
    assert code == 0
    assert np.allclose(np.array(written.split(), float), reference.predict(X))
    assert f"r squared: {reference.score(X, y):.6g}" in errors
    code, written, _ = call("predict", "a.model", "houses.csv", "--json")
    document = json.loads(written)
    assert np.allclose(document["predictions"], reference.predict(X))
    assert document["score"]["r_squared"] == pytest.approx(reference.score(X, y))


def test_columns_go_by_their_names(call, houses):
    X, y = houses
    call(*FIT)
    np.savetxt("new.csv", X[:5, ::-1], delimiter=",", header="sea,income,age,rooms", comments="")
    code, written, errors = call("predict", "a.model", "new.csv")
    assert code == 0 and errors == ""  # no truth, no score
    reference = Ridge(alpha=80 * 1e-3).fit(X, y)
    assert np.allclose(np.array(written.split(), float), reference.predict(X[:5]))
    np.savetxt("less.csv", X[:5, :3], delimiter=",", header="rooms,age,income", comments="")
    code, _, errors = call("predict", "a.model", "less.csv")
    assert code == 1 and "sea" in errors


@pytest.mark.parametrize("name", ["bare.csv", "bare.npy", "bare.svm"])
def test_columns_go_by_number_where_the_data_has_no_names(call, houses, name):
    X, y = houses
    call(*FIT)
    if name == "bare.csv":
        np.savetxt(name, X, delimiter=",")
    elif name == "bare.npy":
        np.save(name, X)
    else:
        dump_svmlight_file(X, y, name, zero_based=False)
    code, written, errors = call("predict", "a.model", name)
    reference = Ridge(alpha=80 * 1e-3).fit(X, y)
    assert code == 0 and "go by number" in errors
    assert np.allclose(np.array(written.split(), float), reference.predict(X))


def test_a_target_by_number_is_found_again_by_its_name(call, houses):
    call(*(("-1" if word == "price" else word) for word in FIT))
    assert Model.load(Path("a.model")).target == "price"


def test_columns_are_counted_as_in_the_fit(call):
    """A file without the column 0 looks as if it counted from 1."""
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((40, 5)), rng.standard_normal(40)
    dump_svmlight_file(X, y, "train.svm", zero_based=True)
    call("fit", "train.svm", "--lam", "1e-2", "--out", "a.model")
    X[:, 0] = 0
    dump_svmlight_file(X, y, "test.svm", zero_based=True)
    coef = Model.load(Path("a.model")).coef
    _, written, _ = call("predict", "a.model", "test.svm")
    assert np.allclose(np.array(written.split(), float), X @ coef)
    _, written, _ = call("predict", "a.model", "test.svm", "--one-based")
    assert np.allclose(np.array(written.split(), float), X[:, 1:] @ coef[:4])


def test_predictions_into_a_file(call, houses, tmp_path):
    call(*FIT)
    for name in ("p.npy", "p.txt"):
        code, written, _ = call("predict", "a.model", "houses.csv", "--out", name)
        assert code == 0 and written == ""
    assert np.allclose(np.load("p.npy"), np.loadtxt("p.txt"), rtol=1e-15)
    code, _, errors = call("predict", "a.model", "houses.csv", "--out", "p.npy")
    assert code == 1 and "--force" in errors
    for read in ("a.model", "houses.csv"):
        code, _, errors = call("predict", "a.model", "houses.csv", "--out", read, "--force")
        assert code == 1 and "is read" in errors
    code, written, _ = call(
        "predict", "a.model", "houses.csv", "--out", "p.npy", "--force", "--json"
    )
    assert json.loads(written)["out"] == "p.npy" and "predictions" not in json.loads(written)


def test_a_sparse_file_may_lack_the_last_columns(call):
    rng = np.random.default_rng(3)
    X = sparse.random_array((60, 9), density=0.4, rng=rng, format="csr")
    y = np.sign(rng.standard_normal(60))
    dump_svmlight_file(X, y, "train.svm", zero_based=False)
    assert call("fit", "train.svm", "--lam", "1e-2", "--out", "a.model")[0] == 0
    dump_svmlight_file(X[:, :4], y, "test.svm", zero_based=False)
    code, written, errors = call("predict", "a.model", "test.svm")
    assert code == 0 and "accuracy of the sign" in errors
    coef = Model.load(Path("a.model")).coef
    assert np.allclose(np.array(written.split(), float), X[:, :4] @ coef[:4])


def test_a_memory_map_is_fitted_and_predicted(call, houses):
    X, y = houses
    np.save("X.npy", X)
    np.save("y.npy", y)
    code, _, errors = call("fit", "X.npy", "--target", "y.npy", "--lam", "1", "--out", "a.model")
    assert code == 0, errors
    code, written, errors = call("predict", "a.model", "X.npy", "--target", "y.npy")
    assert code == 0 and "r squared" in errors
    # A file of y belongs to its X: with other data it is not taken for the truth.
    np.save("other.npy", X[::-1])
    code, _, errors = call("predict", "a.model", "other.npy")
    assert code == 0 and errors == ""
    reference = Ridge(alpha=80.0, fit_intercept=False).fit(X, y)
    assert np.allclose(np.array(written.split(), float), reference.predict(X))


@pytest.mark.parametrize("content", [b"", b"no model", b"PK\x03\x04broken"])
def test_a_file_that_is_no_model_is_refused(call, houses, content):
    Path("b.model").write_bytes(content)
    code, _, errors = call("predict", "b.model", "houses.csv")
    assert code == 1 and errors.startswith("error: b.model")


# -- diagnose ------------------------------------------------------------------------------------


def test_a_diagnosis_in_words_json_pictures_and_a_page(call, houses):
    arguments = ("diagnose", "houses.csv", "--target", "price", "--intercept", "--lam", "1e-3")
    code, written, errors = call(
        *arguments, "--lam", "1/n", "--budget", 50, "--plot", "a.png", "--report", "a.html"
    )
    assert code == 0, errors
    assert "80 rows × 4 columns" in written and "lam 0.0125" in written
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a.html").read_text().count("<svg") == 4
    code, written, _ = call(*arguments, "--json", "--method", "sketch", "--rank", 2)
    document = json.loads(written)
    assert code == 0 and document["name"] == "houses.csv"
    assert document["penalties"][0]["lam"] == 1e-3 and len(document["ratio"]["estimate"]) == 2
    assert document["penalties"][0]["explained"][0] > 0.5


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--plot", "a.docx"), 1, ".png"),
        (("--plot", "houses.csv"), 1, "the same file"),
        (("--report", "houses.csv", "--force"), 1, "the same file"),
        (("--report", "a.html", "--plot", "a.html"), 1, "the same file"),
        (("--report", "no/a.html"), 1, "make it first"),
        (("--method", "magic"), 1, "method='magic'"),
        (("--lam", "0"), 1, "lam=0"),
        (("--budget", "-1"), 1, "budget=-1"),
        (("--max-memory", "much"), 2, "no amount of memory"),
    ],
)
def test_wrong_wishes_of_a_diagnosis_are_refused(call, houses, arguments, code, words):
    found, written, errors = call("diagnose", "houses.csv", *arguments)
    assert found == code and words in " ".join(errors.split()) and written == ""


# -- progress ------------------------------------------------------------------------------------


def record(seconds, gap, certified=True):
    return Record(2 * seconds, seconds, 0.5, gap, gap, certified)


def test_the_time_left_is_that_of_a_straight_line():
    falling = [record(t, 10.0**-t) for t in range(5)]  # a decade a second
    assert seconds_left(falling, 1e-6) == pytest.approx(2.0)
    assert time_left(falling, 1e-6) == "about 2 s left"
    assert time_left(falling, 1e-300) == "about 5 min left"
    assert share_done(falling, 1e-8) == pytest.approx(0.5)
    assert seconds_left(falling, 1e-3) is None  # it is there
    assert seconds_left(falling[:2], 1e-6) is None
    assert seconds_left([record(t, 0.1) for t in range(5)], 1e-6) is None  # it does not fall
    assert seconds_left([record(1.0, g) for g in (1, 0.1, 0.01)], 1e-6) is None  # no time passed
    assert seconds_left([record(t, np.inf) for t in range(5)], 1e-6) is None


def shown(records, **options):
    file = io.StringIO()
    with SolveProgress(Console(file=file, width=150, **options), 1e-6) as progress:
        for one in records:
            progress(one)
        time.sleep(0.01)
    return file.getvalue()


def test_a_log_gets_plain_lines_now_and_then():
    lines = shown([record(t, 10.0 ** -(t / 10), t % 2 == 0) for t in range(32)]).splitlines()
    assert len(lines) == 8  # 0, 5, … 30 s, and the last
    assert "relative gap 1.0e+00 (certified)" in lines[0] and "s left" in lines[3]
    assert "62.0 passes" in lines[-1] and "\x1b" not in "".join(lines)


def test_a_terminal_gets_a_live_line():
    text = shown([record(t, 10.0**-t) for t in range(5)], force_terminal=True)
    assert "\x1b[" in text and "relative gap" in text and "about 2 s left" in text


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "sketchridge", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and sketchridge.__version__ in done.stdout
