"""Progress: a live line on a terminal, plain lines in a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from sketchridge.solution import Record

# In a log, a line at the beginning and then one every so many seconds.
LOG_SECONDS = 5.0
# The time left is that of the line through the latest records.
LATEST = 12


class SolveProgress:
    """A callback of `solve` that shows passes, the relative gap and the time left."""

    def __init__(self, console: Console, tol: float) -> None:
        self.console, self.tol = console, tol
        self.records: list[Record] = []
        self.last_line = -np.inf
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task("preparing", total=None, figures="", left="")

    def __enter__(self) -> SolveProgress:
        self.bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()
        if self.records and not self.console.is_terminal:
            self._print(self.records[-1], "")

    def __call__(self, record: Record) -> None:
        """Show a record."""
        self.records.append(record)
        figures, left = figures_of(record), time_left(self.records, self.tol)
        if self.console.is_terminal:
            share = share_done(self.records, self.tol)
            self.bar.update(
                self.task,
                description="solving",
                total=1.0,
                completed=share,
                figures=figures,
                left=left,
            )
        elif record.seconds - self.last_line >= LOG_SECONDS:
            self._print(record, left)

    def _print(self, record: Record, left: str) -> None:
        if record.seconds > self.last_line:
            self.last_line = record.seconds
            self.console.print(f"{record.seconds:8.1f} s  {figures_of(record)}  {left}".rstrip())


def figures_of(record: Record) -> str:
    """The passes and the gap of a record, in words."""
    kind = "certified" if record.certified else "estimated"
    return f"{record.passes:7.1f} passes  relative gap {record.relative_gap:.1e} ({kind})"


def share_done(records: Sequence[Record], tol: float) -> float:
    """How far the logarithm of the gap has come on its way to tol."""
    gaps = [record.relative_gap for record in records if 0 < record.relative_gap < np.inf]
    if not gaps:
        return 0.0
    first, now = max(gaps), min(gaps)
    if now <= tol or first <= tol:
        return 1.0
    return float(np.log(first / now) / np.log(first / tol))


def time_left(records: Sequence[Record], tol: float) -> str:
    """The time to tol in words, where it can be told; else nothing."""
    seconds = seconds_left(records, tol)
    if seconds is None:
        return ""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s left"
    if seconds < 5400:
        return f"about {round(seconds / 60)} min left"
    return f"about {seconds / 3600:.1f} h left"


def seconds_left(records: Sequence[Record], tol: float) -> float | None:
    """Extrapolate the logarithm of the gap against time; None where it does not fall."""
    latest = [record for record in records if 0 < record.relative_gap < np.inf][-LATEST:]
    if len(latest) < 3 or latest[-1].relative_gap <= tol:
        return None
    seconds = np.array([record.seconds for record in latest])
    heights = np.log([record.relative_gap for record in latest])
    spread = seconds - seconds.mean()
    if not np.any(spread):
        return None
    slope = float(spread @ heights / (spread @ spread))
    if slope >= 0:
        return None
    return float((np.log(tol) - heights[-1]) / slope)


@contextmanager
def reading(console: Console, name: str) -> Iterator[Callable[[int, int], None]]:
    """Show how much of a file is read; gives what a reader calls with the bytes done and all."""
    bar = Progress(
        TextColumn("reading {task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    task = bar.add_task(name, total=None)

    def tell(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)

    with bar:
        yield tell
