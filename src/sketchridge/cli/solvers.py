"""`sketchridge solvers`: what there is to choose from, out of the registries."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from sketchridge.cli.app import command, out


@command(["sketchridge solvers"])
def solvers() -> None:
    """List the solvers and the preconditioners: what they are, what they cost, when to use them."""
    from sketchridge.preconditioner import PRECONDITIONERS
    from sketchridge.solvers import ALLOWED, SOLVERS

    table = Table("solver", "what it is", "what it costs", "when to use it", "goes with")
    for solver in SOLVERS.values():
        table.add_row(*_columns(solver), _together(ALLOWED[solver.name], len(PRECONDITIONERS)))
    out.print(table)
    table = Table("preconditioner", "what it is", "what it costs", "when to use it")
    for spec in PRECONDITIONERS.values():
        table.add_row(*_columns(spec))
    out.print(table)


def _columns(entry: Any) -> tuple[str, str, str, str]:
    return entry.name, entry.summary, entry.cost, entry.use_when


def _together(allowed: tuple[str, ...], count: int) -> str:
    if len(allowed) == count:
        return "every preconditioner"
    return ", ".join(allowed) if len(allowed) > 1 else "no preconditioner"
