"""`sketchridge solvers`: what there is to choose from, out of the registries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from sketchridge.cli.app import command, out


@command(["sketchridge solvers"])
def solvers() -> None:
    """List the solvers and the preconditioners: what they are, what they cost, when to use them."""
    from sketchridge.preconditioner import PRECONDITIONERS
    from sketchridge.solvers import ALLOWED, SOLVERS

    count = len(PRECONDITIONERS)
    out.print(
        _listed(
            "solver",
            (
                (solver, {"goes with": _together(ALLOWED[solver.name], count)})
                for solver in SOLVERS.values()
            ),
        )
    )
    out.print(_listed("preconditioner", ((spec, {}) for spec in PRECONDITIONERS.values())))


def _listed(kind: str, entries: Iterable[tuple[Any, dict[str, str]]]) -> Table:
    """Two columns: a name is never cut, for it is what has to be typed, however narrow it is."""
    table = Table(show_lines=True)
    table.add_column(kind, no_wrap=True)
    table.add_column("what it is, what it costs, when to use it")
    for entry, more in entries:
        facts = {"cost": entry.cost, "when": entry.use_when, **more}
        told = "\n".join(f"{name}: {fact}" for name, fact in facts.items())
        table.add_row(entry.name, f"{entry.summary}\n{told}")
    return table


def _together(allowed: tuple[str, ...], count: int) -> str:
    if len(allowed) == count:
        return "every preconditioner"
    return ", ".join(allowed) if len(allowed) > 1 else "no preconditioner"
