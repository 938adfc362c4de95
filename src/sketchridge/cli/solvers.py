"""`sketchridge solvers`: what there is to choose from, out of the registries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from sketchridge.cli.app import command, out

HEADER = ("what it is", "what it costs", "when to use it")
# Below so many characters a line, the table breaks words.
ROOM_FOR_TABLE = 120


@command(["sketchridge solvers"])
def solvers() -> None:
    """List the solvers and the preconditioners: what they are, what they cost, when to use them."""
    from sketchridge.preconditioner import PRECONDITIONERS
    from sketchridge.solvers import ALLOWED, SOLVERS

    solver_rows = [
        (*_columns(solver), _together(ALLOWED[solver.name], len(PRECONDITIONERS)))
        for solver in SOLVERS.values()
    ]
    _show(("solver", *HEADER, "goes with"), solver_rows)
    _show(("preconditioner", *HEADER), [_columns(spec) for spec in PRECONDITIONERS.values()])


def _show(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A table where it has room; else a paragraph each, for narrow cells would cut words off."""
    if out.width >= ROOM_FOR_TABLE:
        table = Table(*header)
        for row in rows:
            table.add_row(*row)
        out.print(table)
        return
    for name, *cells in rows:
        out.print(f"{header[0]} {name} ", style="bold", markup=False)
        for title, cell in zip(header[1:], cells, strict=True):
            out.print(f"  {title}: {cell}", markup=False)
    out.print()


def _columns(entry: Any) -> tuple[str, str, str, str]:
    return entry.name, entry.summary, entry.cost, entry.use_when


def _together(allowed: tuple[str, ...], count: int) -> str:
    if len(allowed) == count:
        return "every preconditioner"
    return ", ".join(allowed) if len(allowed) > 1 else "no preconditioner"
