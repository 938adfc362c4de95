"""The command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sketchridge import __version__

if TYPE_CHECKING:
    from sketchridge.solution import Record

try:
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
    from rich.table import Table
except ImportError:
    sys.exit("sketchridge: the command line needs typer and rich: pip install 'sketchridge[cli]'")

app = typer.Typer(
    help="Ridge regression at scale, by sketching, with a certified accuracy on every answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
console = Console(highlight=False)


def _version(asked: bool) -> None:
    if asked:
        console.print(f"sketchridge {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that come before a command."""


class DemoProgress:
    """A bar a method on a terminal; plain lines elsewhere."""

    def __init__(self, max_passes: float) -> None:
        self.max_passes = max_passes
        self.bars: dict[str, TaskID] = {}
        self.last_line: dict[str, float] = {}
        self.progress = Progress(
            TextColumn("{task.description:<30}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __call__(self, name: str, record: Record | None) -> None:
        """Show a record of a method, or the beginning of a step."""
        if record is None:
            console.print(name)
        elif console.is_terminal:
            self._move_bar(name, record)
        elif record.seconds - self.last_line.get(name, -1.0) >= 1.0:
            self.last_line[name] = record.seconds
            console.print(f"{name}: {_figures(record)}")

    def _move_bar(self, name: str, record: Record) -> None:
        if name not in self.bars:
            self.bars[name] = self.progress.add_task(name, total=self.max_passes, text="")
        self.progress.update(
            self.bars[name], completed=record.passes, text=_figures(record), refresh=True
        )


def _figures(record: Record) -> str:
    return f"{record.passes:6.1f} passes, certified relative gap {record.relative_gap:.1e}"


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to put the picture.")] = Path("out/demo.png"),
    rows: Annotated[int, typer.Option(min=100, help="Rows of the synthetic data.")] = 8000,
    columns: Annotated[int, typer.Option(min=40, help="Columns of the synthetic data.")] = 2000,
    passes: Annotated[float, typer.Option(min=10, help="Passes over the data at most.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and solvers.")] = 0,
) -> None:
    """Run SVRG beside sketched preconditioned SVRG on the paper's synthetic problem.

    Example: sketchridge demo --out picture.png
    """
    from sketchridge import plots
    from sketchridge.demo import demonstrate

    progress = DemoProgress(passes)
    with progress.progress:
        result = demonstrate(rows, columns, passes, seed, progress)
    table = Table("method", "status", "certified relative gap", "true", "passes", "seconds")
    for name, solution in result.solutions.items():
        truth = (solution.objective - result.reference.objective) / result.null_objective
        table.add_row(
            name,
            solution.status.name.lower().replace("_", " "),
            f"≤ {solution.relative_gap:.2e}",
            f"{truth:.2e}",
            f"{solution.passes:.0f}",
            f"{solution.seconds:.1f}",
        )
    console.print(table)
    picture = plots.convergence(
        result.solutions, result.reference.objective, result.null_objective, out, result.title
    )
    console.print(f"picture: {picture.resolve()}", soft_wrap=True)


@app.command()
def solvers() -> None:
    """List the solvers and the preconditioners.

    Example: sketchridge solvers
    """
    from sketchridge.preconditioner import PRECONDITIONERS
    from sketchridge.solvers import SOLVERS

    table = Table("solver", "what it is")
    for solver in SOLVERS.values():
        table.add_row(solver.name, solver.summary)
    console.print(table)
    table = Table("preconditioner", "what it is")
    for spec in PRECONDITIONERS.values():
        table.add_row(spec.name, spec.summary)
    console.print(table)


def main() -> None:
    """Run the command line; an error is a sentence, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        if os.environ.get("SKETCHRIDGE_DEBUG"):
            raise
        Console(stderr=True, highlight=False).print(f"error: {error}", style="bold red")
        sys.exit(1)
