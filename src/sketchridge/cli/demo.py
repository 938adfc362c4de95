"""`sketchridge demo`: the paper's method beside plain SVRG, on its synthetic problem."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from sketchridge.cli.app import command, out

if TYPE_CHECKING:
    from sketchridge.solution import Record


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
            console=out,
            disable=not out.is_terminal,
        )

    def __call__(self, name: str, record: Record | None) -> None:
        """Show a record of a method, or the beginning of a step."""
        if record is None:
            out.print(name)
        elif out.is_terminal:
            self._move_bar(name, record)
        elif record.seconds - self.last_line.get(name, -1.0) >= 1.0:
            self.last_line[name] = record.seconds
            out.print(f"{name}: {_figures(record)}")

    def _move_bar(self, name: str, record: Record) -> None:
        if name not in self.bars:
            self.bars[name] = self.progress.add_task(name, total=self.max_passes, text="")
        self.progress.update(
            self.bars[name], completed=record.passes, text=_figures(record), refresh=True
        )


def _figures(record: Record) -> str:
    return f"{record.passes:6.1f} passes, certified relative gap {record.relative_gap:.1e}"


@command(["sketchridge demo --out picture.png"])
def demo(
    picture: Annotated[
        Path, typer.Option("--out", help="Where to put the picture.", metavar="FILE")
    ] = Path("out/demo.png"),
    rows: Annotated[int, typer.Option(min=100, help="Rows of the synthetic data.")] = 8000,
    columns: Annotated[int, typer.Option(min=40, help="Columns of the synthetic data.")] = 2000,
    passes: Annotated[float, typer.Option(min=10, help="Passes over the data at most.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and solvers.")] = 0,
) -> None:
    """Run SVRG beside sketched preconditioned SVRG on the paper's synthetic problem."""
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
    out.print(table)
    plots.convergence(
        result.solutions, result.reference.objective, result.null_objective, picture, result.title
    )
    out.print(f"picture: {picture.resolve()}", markup=False)
