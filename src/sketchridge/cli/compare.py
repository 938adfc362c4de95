"""`sketchridge compare`: many methods on the same data, to the same certified gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchridge.cli.app import ExitCode, command, err, out, print_json
from sketchridge.cli.options import (
    Data,
    Features,
    Folder,
    Force,
    Format,
    Intercept,
    Json,
    Lam,
    ScaleRows,
    Seed,
    Target,
    Weights,
    ZeroBased,
    parse_bytes,
    read_data,
    read_weights,
    split_names,
)
from sketchridge.cli.progress import figures_of

if TYPE_CHECKING:
    from sketchridge.solution import Record

EXAMPLES = (
    "sketchridge compare houses.csv --target price --intercept --lam 1e-4 --plot houses.png",
    "sketchridge compare news.svm.bz2 --lam 1/n --method cg+nystrom --method saga+lanczos",
    "sketchridge compare mnist --scale-rows --lam 1e-8 --tol 1e-4 --max-passes 100 --json",
)


@command(EXAMPLES)
def compare(
    data: Data,
    lam: Annotated[str, typer.Option(help="The penalty λ per mean loss, or 1/n.")],
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="SOLVER+PRECONDITIONER, or SOLVER for none, of those that `solvers` lists; may "
            "be given several times. Else a set of each kind."
        ),
    ] = None,
    target: Target = None,
    features: Features = None,
    intercept: Intercept = False,
    tol: Annotated[float, typer.Option(help="The certified relative gap to reach.")] = 1e-6,
    max_passes: Annotated[float, typer.Option(help="Passes over the data for each method.")] = 300,
    max_seconds: Annotated[float | None, typer.Option(help="Seconds for each method.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Memory to use beyond the data, as in 800M or 2GB.")
    ] = None,
    weights: Weights = None,
    scale_rows: ScaleRows = False,
    seed: Seed = 0,
    format: Format = None,
    zero_based: ZeroBased = None,
    folder: Folder = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw it: .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Run a table of methods on the data, each to the same certified gap or budget.

    Every method pays for its own sketch, and one that refuses the problem gets a row that says
    why. The picture shows the certified gap against passes and against seconds.
    """
    from sketchridge.comparison import check_methods
    from sketchridge.comparison import compare as run

    _check_file(data, plot, force)
    penalty, memory = Lam(lam), parse_bytes(max_memory)
    methods = check_methods([_pair(text) for text in method]) if method else None
    sample_weight = read_weights(weights)
    dataset = read_data(data, target, format, folder, split_names(features), zero_based)
    if dataset.y is None:
        raise ValueError(f"{data} holds no target: name one by --target")
    with _progress() as tell:
        found = run(
            dataset.X,
            dataset.y,
            penalty.value(dataset.X.shape[0]),
            methods,
            tol=tol,
            max_passes=max_passes,
            max_seconds=max_seconds,
            max_memory=memory,
            fit_intercept=intercept,
            sample_weight=sample_weight,
            scale_rows=scale_rows,
            random_state=seed,
            callback=tell,
        )
    if plot is not None and not found.solutions:
        err.print(f"not written, for no method ran: {plot}", markup=False)
    elif plot is not None:
        found.plot(plot, f"{dataset.name}: {found.title()}")
        err.print(f"written: {plot}", markup=False)
    if json:
        print_json({"name": dataset.name} | found.as_dict())
    else:
        out.print(found.table(), markup=False)
    if found.interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not found.solutions:
        raise typer.Exit(ExitCode.ERROR)


def _pair(text: str) -> tuple[str, str]:
    solver, _, preconditioner = text.partition("+")
    return solver, preconditioner or "none"


def _check_file(data: str, plot: Path | None, force: bool) -> None:
    from sketchridge.files import check_destinations

    check_destinations({"--plot": plot}, data, force)
    if plot is not None:
        from sketchridge.plots import check_available

        check_available()


@contextmanager
def _progress() -> Iterator[Callable[[str, Record], Any]]:
    """A live line on a terminal; elsewhere a line when a method begins."""
    begun: set[str] = set()

    def in_a_log(label: str, record: Record) -> None:
        if label not in begun:
            begun.add(label)
            err.print(f"running {label}", markup=False)

    if not err.is_terminal:
        yield in_a_log
        return
    with err.status("preparing") as status:

        def live(label: str, record: Record) -> None:
            status.update(f"{label}: {figures_of(record)}")

        yield live
