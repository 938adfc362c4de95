"""`sketchridge reproduce`: the paper's figures out of this code, beside its own curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sketchridge.cli.app import ExitCode, command, err, out, print_json
from sketchridge.cli.options import Folder, Force, Json, Report

if TYPE_CHECKING:
    from sketchridge.reproduce import Reproduction

EXAMPLES = (
    "sketchridge reproduce",
    "sketchridge reproduce mnist cifar10 --data ~/datasets",
    "sketchridge reproduce --quick",
    "sketchridge reproduce --redraw --report reproduction.html",
)


@command(EXAMPLES)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="synthetic-linear, synthetic-quadratic, mnist, cifar10, rcv1 or real-sim; none is "
            "all.",
            metavar="[NAME…]",
        ),
    ] = None,
    folder: Folder = None,
    destination: Annotated[
        Path,
        typer.Option("--out", help="Where to put page, figures and numbers.", metavar="FOLDER"),
    ] = Path("out/reproduction"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A rehearsal in seconds, on cut data and few epochs.")
    ] = False,
    redraw: Annotated[
        bool,
        typer.Option("--redraw", help="Only draw and write again from the last run's numbers."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted run with this --out ended.")
    ] = False,
    report: Report = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Run the paper's experiments and write its figures and table, ours beside the paper's.

    All six problems take about half an hour on two cores. Data that is not at hand is skipped with
    a sentence on where to get it; nothing is downloaded. Where the paper's RCV1 or real-sim is
    missing, other text stands in, and the page says so.
    """
    from sketchridge import plots
    from sketchridge import report as report_page
    from sketchridge.files import check_destination
    from sketchridge.paper_comparison import checks
    from sketchridge.reproduce import RESULTS, read_results, save_results, write
    from sketchridge.reproduce import reproduce as run

    plots.check_available()
    if report is not None:
        check_destination("--report", report, force)
        report_page.check_available()
    if (destination / RESULTS).exists() and not (redraw or resume or force):
        raise ValueError(
            f"--out {destination} holds the numbers of an earlier run: add --force to replace them,"
            " --resume to go on from them, --redraw to draw them again, or name another folder"
        )
    if redraw:
        found = read_results(destination)
    else:
        kept: list[Reproduction] = []

        def keep(so_far: Reproduction) -> None:
            save_results(so_far, destination)
            kept.append(so_far)

        earlier = read_results(destination) if resume else None
        try:
            found = run(
                names or (),
                folder,
                quick,
                lambda line: err.print(line, markup=False),
                earlier,
                keep,
            )
        except KeyboardInterrupt:
            if not kept:
                raise
            err.print(
                f"interrupted: {len(kept[-1].outcomes)} problem(s) are in {destination}; add "
                "--resume to go on from them",
                markup=False,
            )
            raise typer.Exit(ExitCode.INTERRUPTED) from None
    written = [write(found, destination)]
    if report is not None:
        report_page.write(found.page(), report)
        written.append(report)
    rows, broken = found.rows, [check for check in checks(found.rows) if not check.kept]
    if json:
        print_json(found.as_dict())
    else:
        table = Table("problem", "the paper's gain", "our gain", "spread of the fit", "c")
        for row in rows:
            table.add_row(
                row.outcome.label,
                f"{row.paper_gain:.3g}",
                f"{row.gain:.3g}",
                f"{row.fit.spread:.3f}",
                f"{row.fit.offset:.1e}",
            )
        out.print(table)
        for path in written:
            out.print(f"written: {path}", markup=False)
    for check in broken:
        err.print(f"not kept: {check.sentence}", style="bold red", markup=False)
    if broken:
        raise typer.Exit(ExitCode.ERROR)
