"""`sketchridge solvers`: what there is to choose from, out of the registries."""

from __future__ import annotations

from rich.table import Table

from sketchridge.cli.app import command, out


@command(["sketchridge solvers"])
def solvers() -> None:
    """List the solvers and the preconditioners."""
    from sketchridge.preconditioner import PRECONDITIONERS
    from sketchridge.solvers import SOLVERS

    table = Table("solver", "what it is")
    for solver in SOLVERS.values():
        table.add_row(solver.name, solver.summary)
    out.print(table)
    table = Table("preconditioner", "what it is")
    for spec in PRECONDITIONERS.values():
        table.add_row(spec.name, spec.summary)
    out.print(table)
