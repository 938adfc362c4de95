"""`reproduce`: the paper's figures and tables from one call, as pictures and a page."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sketchridge import __version__
from sketchridge.data import MissingData
from sketchridge.experiments import (
    PAPER_PROBLEMS,
    Alternative,
    Curve,
    Outcome,
    Ratio,
    Setting,
    Tell,
    investigate,
)
from sketchridge.figures import draw_all
from sketchridge.files import atomic_write
from sketchridge.paper_comparison import Row, compare
from sketchridge.report import Page
from sketchridge.reproduction_page import as_markdown, reproduction_page

PAGE, RESULTS, PICTURES = "reproduction.md", "reproduction.json", "figures"
DIGITS = 6


@dataclass(frozen=True)
class Reproduction:
    """What a run has found."""

    outcomes: tuple[Outcome, ...]
    skipped: tuple[str, ...]  # sentences on where to get what is missing
    seconds: float
    machine: str

    @property
    def rows(self) -> list[Row]:
        """The table, a line for each problem."""
        return [compare(outcome) for outcome in self.outcomes]

    def page(self) -> Page:
        """The page about it, for `report.write` or as Markdown."""
        return reproduction_page(self.rows, self.skipped, self.seconds, self.machine)

    def as_dict(self) -> dict[str, Any]:
        """Everything that was measured, as JSON takes it."""
        document: dict[str, Any] = _rounded(asdict(self))
        return document

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Reproduction:
        """The reproduction that `as_dict` came from, to six digits."""
        outcomes = tuple(_outcome(entry) for entry in document["outcomes"])
        return cls(outcomes, tuple(document["skipped"]), document["seconds"], document["machine"])


def reproduce(
    names: Iterable[str] = (),
    folder: str | os.PathLike[str] | None = None,
    quick: bool = False,
    tell: Tell = lambda line: None,
    earlier: Reproduction | None = None,
    keep: Callable[[Reproduction], object] = lambda found: None,
) -> Reproduction:
    """Run the paper's experiments on the problems whose data is at hand.

    Parameters
    ----------
    names
        Problems of the paper; none is all six.
    folder
        Where the data is; by default the folder that SKETCHRIDGE_DATA names.
    quick
        Cut the problems and the epochs: a rehearsal in seconds, which says nothing of the paper.
    tell
        Called with a line of text as things get done.
    earlier
        A run that was interrupted: its problems are not run again.
    keep
        Called with what is found so far after every problem, so that it can be saved.

    Returns
    -------
    Reproduction
        To be written with `write`.

    Examples
    --------
    >>> from sketchridge.reproduce import reproduce
    >>> found = reproduce(["synthetic-quadratic"], quick=True)
    >>> found.rows[0].gain > 1
    True
    """
    chosen = check_names(names)
    began, spent = time.perf_counter(), 0.0 if earlier is None else earlier.seconds
    done = {} if earlier is None else {outcome.name: outcome for outcome in earlier.outcomes}
    found = {name: done[name] for name in chosen if name in done and done[name].cut == quick}
    skipped: list[str] = []

    def so_far() -> Reproduction:
        outcomes = tuple(found[name] for name in PAPER_PROBLEMS if name in found)
        seconds = spent + time.perf_counter() - began
        return Reproduction(outcomes, tuple(skipped), seconds, describe_machine())

    for name in chosen:
        if name not in found:
            try:
                found[name] = investigate(name, folder, quick, tell)
                keep(so_far())
            except MissingData as missing:
                skipped.append(str(missing))
                tell(f"skipped: {missing}")
    if not found:
        raise MissingData(f"there is nothing to run: {' '.join(skipped)}")
    return so_far()


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """The problems asked for, or all of them."""
    chosen = tuple(names) or PAPER_PROBLEMS
    for name in chosen:
        if name not in PAPER_PROBLEMS:
            raise ValueError(
                f"{name!r} is no problem of the paper: choose {', '.join(PAPER_PROBLEMS)}"
            )
    return chosen


def write(found: Reproduction, folder: Path) -> Path:
    """Write the figures, the page and the numbers; returns the page's path."""
    save_results(found, folder)
    pictures = draw_all(found.rows, folder / PICTURES)
    links = {name: f"{PICTURES}/{path.name}" for name, path in pictures.items()}
    with atomic_write(folder / PAGE) as file:
        file.write(as_markdown(found.page(), links).encode())
    return folder / PAGE


def save_results(found: Reproduction, folder: Path) -> None:
    """Write the numbers alone, from which all else can be drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found.as_dict(), ensure_ascii=False, separators=(",", ":")) + "\n"
    with atomic_write(folder / RESULTS) as file:
        file.write(text.encode())


def read_results(folder: Path) -> Reproduction:
    """The results of an earlier run, to be drawn again."""
    path = folder / RESULTS
    try:
        return Reproduction.from_dict(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no results ({error}): run sketchridge reproduce") from error


def describe_machine() -> str:
    """The processor, its cores and the versions, in a line."""
    import numpy

    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{model}, {cores} cores; Python {platform.python_version()}, numpy {numpy.__version__}, "
        f"sketchridge {__version__}"
    )


# -- as JSON -----------------------------------------------------------------------------------


def _rounded(value: Any) -> Any:
    """Floats to six digits, tuples as lists."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    return value


def _outcome(entry: dict[str, Any]) -> Outcome:
    values = _with_tuples(entry)
    for key in ("svrg", "scsvrg", "bolder", "relatives"):
        values[key] = _curves(entry[key])
    values["alternatives"] = tuple(
        Alternative(**alternative | {"curves": _curves(alternative["curves"])})
        for alternative in entry["alternatives"]
    )
    values["ratio"] = Ratio(**_with_tuples(entry["ratio"]))
    return Outcome(**values)


def _curves(entries: list[dict[str, Any]]) -> tuple[Curve, ...]:
    return tuple(
        Curve(**_with_tuples(entry) | {"setting": Setting(**entry["setting"])}) for entry in entries
    )


def _with_tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
