"""The command line, as a user runs it."""

import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).with_name("sketchridge")


def run(*arguments, **options):
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def test_without_arguments_it_tells_what_there_is():
    result = run()
    assert "demo" in result.stdout + result.stderr
    assert "solvers" in result.stdout + result.stderr


def test_the_version_is_the_packages():
    import sketchridge

    assert run("--version").stdout.split() == ["sketchridge", sketchridge.__version__]


def test_every_solver_and_preconditioner_is_listed():
    from sketchridge.preconditioner import PRECONDITIONERS
    from sketchridge.solvers import SOLVERS

    listed = run("solvers").stdout
    for name in (*SOLVERS, *PRECONDITIONERS):
        assert f" {name} " in listed


def test_the_demo_ends_in_certified_gaps_and_a_picture(tmp_path):
    picture = tmp_path / "folder" / "demo.png"
    result = run("demo", "--rows", 400, "--columns", 60, "--passes", 60, "--out", picture)
    assert result.returncode == 0, result.stderr
    assert "certified" in result.stdout and "picture:" in result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture.resolve()) in result.stdout.replace("\n", "")


def test_an_error_is_a_sentence_and_no_traceback(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = run("demo", "--rows", 200, "--columns", 50, "--out", blocked / "x.png")
    assert result.returncode == 1
    assert result.stderr.startswith("error: ") and "Traceback" not in result.stderr


def test_a_wrong_option_is_refused():
    assert run("demo", "--rows", 3).returncode == 2
