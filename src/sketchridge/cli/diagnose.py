"""`sketchridge diagnose`: what the method would do for the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from sketchridge.cli.app import command, err, out, print_json
from sketchridge.cli.options import (
    Data,
    Features,
    Folder,
    Force,
    Format,
    Intercept,
    Json,
    Lam,
    Report,
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

EXAMPLES = (
    "sketchridge diagnose news.svm.bz2",
    "sketchridge diagnose houses.csv --target price --intercept --lam 1e-4 --lam 1/n",
    "sketchridge diagnose X.npy --rank 100 --budget 50 --report X.html --plot X.png",
    "sketchridge diagnose mnist --scale-rows --json > mnist.json",
)


@command(EXAMPLES)
def diagnose(
    data: Data,
    lam: Annotated[
        list[str] | None,
        typer.Option(help="A penalty, or 1/n; may be given several times. Else a few decades."),
    ] = None,
    target: Target = None,
    features: Features = None,
    intercept: Intercept = False,
    rank: Annotated[int, typer.Option(min=1, help="Look at ranks up to this.")] = 300,
    budget: Annotated[
        list[float] | None,
        typer.Option(help="Passes over the data that you would spend; may be given several times."),
    ] = None,
    tol: Annotated[float, typer.Option(help="The accuracy that the advice is for.")] = 1e-6,
    method: Annotated[
        str, typer.Option(help="exact, sketch, or auto: exact where X is small.")
    ] = "auto",
    max_memory: Annotated[str, typer.Option(help="Memory for the sketch, as in 800M.")] = "2G",
    weights: Weights = None,
    scale_rows: ScaleRows = False,
    seed: Seed = 0,
    format: Format = None,
    zero_based: ZeroBased = None,
    folder: Folder = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw it: .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    report: Report = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Tell what sketched preconditioning would do for the data, without solving.

    The spectrum with error bars that hold, condition numbers before and after preconditioning, the
    speed-up to expect, the effective dimension, advice on solver and rank, and the smallest penalty
    that a budget of passes affords.
    """
    from sketchridge import diagnostics

    _check_files(data, plot, report, force)
    penalties = [Lam(text) for text in lam or ()]
    sample_weight = read_weights(weights)
    dataset = read_data(data, target, format, folder, split_names(features), zero_based)
    rows = dataset.X.shape[0]
    with _live() as progress:
        found = diagnostics.diagnose(
            dataset.X,
            [penalty.value(rows) for penalty in penalties] or None,
            dataset.y,
            rank=rank,
            budget=budget or diagnostics.BUDGETS,
            tol=tol,
            fit_intercept=intercept,
            sample_weight=sample_weight,
            scale_rows=scale_rows,
            method=method,  # type: ignore[arg-type]
            max_memory=parse_bytes(max_memory) or 0.0,
            random_state=seed,
            progress=progress,
        )
    if plot is not None:
        from sketchridge import plots

        plots.diagnosis(found, plot, dataset.name)
    if report is not None:
        from sketchridge.report import diagnosis_page, write

        write(diagnosis_page(found, dataset.name), report)
    if json:
        print_json({"name": dataset.name} | found.as_dict())
        return
    out.print(found.summary(), markup=False)
    for path in (plot, report):
        if path is not None:
            out.print(f"written: {path}", markup=False)


@contextmanager
def _live() -> Iterator[Callable[[str], None]]:
    """Show what is under way: a spinner on a terminal, a line in a log."""
    if not err.is_terminal:
        yield lambda sentence: err.print(sentence, markup=False)
        return
    with err.status("reading the rows") as status:
        yield status.update


def _check_files(data: str, plot: Path | None, report: Path | None, force: bool) -> None:
    from sketchridge.files import check_destinations

    check_destinations({"--plot": plot, "--report": report}, data, force)
    if plot is not None:
        from sketchridge.plots import check_available as check_plots

        check_plots()
    if report is not None:
        from sketchridge.report import check_available as check_report

        check_report()
