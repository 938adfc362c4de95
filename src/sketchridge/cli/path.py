"""`sketchridge path`: the solutions for many penalties, each with its certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchridge.cli.app import EXIT_CODES, ExitCode, command, err, out, print_json
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
from sketchridge.cli.progress import SolveProgress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sketchridge.path import RidgePath

EXAMPLES = (
    "sketchridge path houses.csv --target price --intercept --plot houses.png",
    "sketchridge path news.svm.bz2 --intercept --folds 5 --plot news.png --out news.npz",
    "sketchridge path X.npy --target y.npy --lam 1 --lam 1e-2 --lam 1e-4 --json",
)


@command(EXAMPLES, EXIT_CODES)
def path(
    data: Data,
    lam: Annotated[
        list[str] | None,
        typer.Option(help="A penalty, or 1/n; may be given several times. Else 25 of them."),
    ] = None,
    target: Target = None,
    features: Features = None,
    intercept: Intercept = False,
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="Also find the error of rows held out, in so many folds."),
    ] = None,
    solver: Annotated[str, typer.Option(help="auto, or a name that `solvers` lists.")] = "auto",
    preconditioner: Annotated[str, typer.Option(help="Likewise.")] = "auto",
    tol: Annotated[float, typer.Option(help="The certified relative gap to reach.")] = 1e-6,
    max_passes: Annotated[
        float | None, typer.Option(help="Stop after so many passes over the data.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Memory to use beyond the data, as in 800M or 2GB.")
    ] = None,
    weights: Weights = None,
    scale_rows: ScaleRows = False,
    seed: Seed = 0,
    format: Format = None,
    zero_based: ZeroBased = None,
    folder: Folder = None,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="Write all coefficients: one npz file.", metavar="FILE"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.", metavar="FILE")
    ] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Fit ridge regression for many penalties at once, each to a certified accuracy.

    The penalties share their work: all of them cost little more than the smallest alone. The
    picture shows the coefficients, the degrees of freedom and what is certified against λ.
    """
    from sketchridge.path import ridge_path
    from sketchridge.solution import Status

    _check_files(data, out_file, plot, force)
    penalties, memory = [Lam(text) for text in lam or ()], parse_bytes(max_memory)
    sample_weight = read_weights(weights)
    dataset = read_data(data, target, format, folder, split_names(features), zero_based)
    if dataset.y is None:
        raise ValueError(f"{data} holds no target: name one by --target")
    rows, columns = dataset.X.shape
    err.print(f"{dataset.name}: {rows} rows × {columns} columns", markup=False)
    options: dict[str, Any] = {
        "solver": solver,
        "preconditioner": preconditioner,
        "tol": tol,
        "max_passes": max_passes,
        "max_seconds": max_seconds,
        "max_memory": memory,
        "random_state": seed,
    }
    with SolveProgress(err, tol) as progress:
        found = ridge_path(
            dataset.X,
            dataset.y,
            [penalty.value(rows) for penalty in penalties] or None,
            fit_intercept=intercept,
            sample_weight=sample_weight,
            scale_rows=scale_rows,
            callback=progress,
            **options,
        )
    errors, interrupted = None, found.status is Status.INTERRUPTED
    if folds is not None and not interrupted:
        from sketchridge.crossvalidation import held_out_errors

        err.print(f"holding out rows, in {folds} folds", markup=False)
        try:
            errors = held_out_errors(
                dataset.X,
                dataset.y,
                found.lams,
                folds,
                fit_intercept=intercept,
                sample_weight=sample_weight,
                scale_rows=scale_rows,
                **options,
            )
        except KeyboardInterrupt:
            interrupted = True
    if out_file is not None:
        _write(found, errors, dataset.feature_names, out_file)
    if plot is not None:
        from sketchridge import path_plot

        path_plot.draw(found, plot, dataset.name, dataset.feature_names, held_out=errors)
    _tell(found, errors, json, [file for file in (out_file, plot) if file is not None])
    if interrupted:
        err.print("interrupted: this is the best so far", style="bold red", markup=False)
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not found.converged.all():
        err.print("not converged for every penalty: see the gaps", style="bold red", markup=False)
        raise typer.Exit(ExitCode.NOT_CONVERGED)


def _check_files(data: str, out_file: Path | None, plot: Path | None, force: bool) -> None:
    """Refuse what could not be written in the end."""
    from sketchridge.files import check_destinations

    check_destinations({"--out": out_file, "--plot": plot}, data, force)
    if plot is not None:
        from sketchridge.plots import check_available

        check_available()


def _write(
    found: RidgePath,
    errors: NDArray[np.float64] | None,
    names: tuple[str, ...] | None,
    file: Path,
) -> None:
    """All arrays of the path in one file."""
    import numpy as np

    from sketchridge.files import atomic_write

    arrays: dict[str, Any] = {
        "lams": found.lams,
        "coef": found.coef,
        "intercept": found.intercept,
        "objective": found.objective,
        "gap": found.gap,
        "relative_gap": found.relative_gap,
        "degrees_of_freedom_bounds": found.degrees_of_freedom_bounds,
    }
    if errors is not None:
        arrays["held_out_errors"] = errors
    if names is not None:
        arrays["feature_names"] = np.array(names, dtype=str)
    with atomic_write(file) as opened:
        np.savez(opened, **arrays)


def _tell(
    found: RidgePath, errors: NDArray[np.float64] | None, json: bool, files: list[Path]
) -> None:
    """The path as a table, or as a document."""
    lines = _lines(found, errors)
    if json:
        document = {
            "status": found.status.name.lower(),
            "tol": found.tol,
            "passes": found.passes,
            "seconds": found.seconds,
            "plan": str(found.plan),
            "files": [str(file) for file in files],
            "path": lines,
        }
        print_json(document)
        return
    from rich.table import Table

    table = Table("λ", "degrees of freedom", "objective", "certified relative gap")
    if errors is not None:
        table.add_column("squared error, held out")
        best = min(_held_out(line) for line in lines)
    for line in lines:
        cells = [f"{line['lam']:.3g}", _interval(line["degrees_of_freedom_bounds"])]
        cells += [f"{line['objective']:.6g}", f"≤ {line['relative_gap']:.1e}"]
        if errors is not None:
            least = " ← least" if _held_out(line) == best else ""
            cells.append(f"{_held_out(line):.6g}{least}")
        table.add_row(*cells)
    out.print(table)
    if errors is not None and _is_at_an_end(min(lines, key=_held_out)["lam"], found.lams):
        out.print("the least error is at the end of these λ: give --lam beyond it", markup=False)
    out.print(f"{found.plan}", markup=False)
    for file in files:
        out.print(f"written: {file}", markup=False)


def _held_out(line: dict[str, Any]) -> float:
    return float(line["held_out_error"])


def _is_at_an_end(lam: float, lams: NDArray[np.float64]) -> bool:
    return bool(lams.size > 1 and lam in (lams.min(), lams.max()))


def _lines(found: RidgePath, errors: NDArray[np.float64] | None) -> list[dict[str, Any]]:
    """One entry for every penalty; over several targets the worst gap and the mean objective."""
    lines = []
    for index, lam in enumerate(found.lams.tolist()):
        line = {
            "lam": lam,
            "degrees_of_freedom_bounds": found.degrees_of_freedom_bounds[index].tolist(),
            "objective": float(found.objective[index].mean()),
            "relative_gap": float(found.relative_gap[index].max()),
            "converged": bool(found.converged[index].all()),
        }
        if errors is not None:
            line["held_out_error"] = float(errors[:, index].mean())
        lines.append(line)
    return lines


def _interval(bounds: list[float]) -> str:
    low, high = (f"{bound:.4g}" for bound in bounds)
    return low if low == high else f"{low} to {high}"
