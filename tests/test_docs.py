"""The examples run, and the reference has every public name."""

import re
import runpy
import sys
from pathlib import Path

import pytest

import sketchridge

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws_its_picture(example, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "folder" / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(example), "--out", str(picture)])
    runpy.run_path(str(example), run_name="__main__")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture.resolve()) in capsys.readouterr().out


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_guide_that_shows_its_picture(example):
    guide = ROOT / "docs" / "guides" / f"{example.stem.replace('_', '-')}.md"
    text = guide.read_text()
    assert f"python examples/{example.name}" in text
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert pictures and all((guide.parent / name).is_file() for name in pictures)


def test_the_reference_lists_every_public_name():
    page = (ROOT / "docs" / "api" / "index.md").read_text()
    listed = {line.strip() for line in page.splitlines() if line.startswith("   ")}
    public = {name for name in sketchridge.__all__ if not name.startswith("_")}
    assert public <= listed
