"""`sketchridge fit`: solve, and keep the model with its certificate."""

from __future__ import annotations

from dataclasses import replace
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
from sketchridge.cli.progress import SolveProgress

if TYPE_CHECKING:
    from sketchridge.model import Model


# Smaller problems are solved without compiled code, and sooner than it would be loaded.
LARGE = 200_000
EXAMPLES = (
    "sketchridge fit houses.csv --target price --intercept --lam 1e-4 --out houses.model",
    "sketchridge fit news.svm.bz2 --lam 1/n --out news.model --report news.html",
    "sketchridge fit X.npy --target y.npy --lam 1e-8 --max-seconds 600 --out big.model",
    "sketchridge fit X.npy --target y.npy --lam 1e-8 --solver svrg --rank 30 --out big.model",
    "sketchridge fit mnist --scale-rows --lam 1e-8 --out mnist.model --json",
)


@command(EXAMPLES, EXIT_CODES)
def fit(
    data: Data,
    lam: Annotated[
        str,
        typer.Option(help="The penalty λ ≥ 0 per mean loss (scikit-learn's alpha / n), or 1/n."),
    ],
    out_file: Annotated[
        Path, typer.Option("--out", help="Where to write the model.", metavar="MODEL")
    ],
    target: Target = None,
    features: Features = None,
    intercept: Intercept = False,
    solver: Annotated[str, typer.Option(help="auto, or a name that `solvers` lists.")] = "auto",
    preconditioner: Annotated[str, typer.Option(help="Likewise.")] = "auto",
    rank: Annotated[
        int | None, typer.Option(min=1, help="The preconditioner's rank; else it is chosen.")
    ] = None,
    tol: Annotated[float, typer.Option(help="The certified relative gap to reach.")] = 1e-6,
    max_passes: Annotated[
        float | None, typer.Option(help="Stop after so many passes over the data.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Memory to use beyond the data, as in 800M or 2GB.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the best point in this file, and go on from it if it exists."),
    ] = None,
    weights: Weights = None,
    scale_rows: ScaleRows = False,
    seed: Seed = 0,
    format: Format = None,
    zero_based: ZeroBased = None,
    folder: Folder = None,
    report: Report = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Fit ridge regression to a certified accuracy, and write the model.

    It stops when a proof says that the objective is within tol of the best possible one, relative
    to fitting nothing. The model file holds the coefficients, the proof's figures and the plan;
    it cannot hold code.
    """
    from sketchridge.driver import solve
    from sketchridge.model import Model

    _check_files(data, out_file, report, checkpoint, force)
    _check_settings(solver, preconditioner, tol, max_passes, max_seconds)
    penalty, memory = Lam(lam), parse_bytes(max_memory)
    sample_weight = read_weights(weights)
    dataset = read_data(data, target, format, folder, split_names(features), zero_based)
    if dataset.y is None:
        raise ValueError(f"{data} holds no target: name one by --target")
    rows, columns = dataset.X.shape
    err.print(f"{dataset.name}: {rows} rows × {columns} columns", markup=False)
    value = penalty.value(rows)
    _load_kernels(dataset.X)
    with SolveProgress(err, tol) as progress:
        solution = solve(
            dataset.X,
            dataset.y,
            value,
            solver=solver,
            preconditioner=preconditioner,
            rank="auto" if rank is None else rank,
            tol=tol,
            max_passes=max_passes,
            max_seconds=max_seconds,
            max_memory=memory,
            fit_intercept=intercept,
            sample_weight=sample_weight,
            scale_rows=scale_rows,
            checkpoint=checkpoint,
            random_state=seed,
            callback=progress,
        )
    plan = replace(solution.plan, notes=(*dataset.notes, *solution.plan.notes))
    solution = replace(solution, plan=plan)
    model = Model.of(
        solution,
        value,
        fit_intercept=intercept,
        scale_rows=scale_rows,
        feature_names=dataset.feature_names,
        target=dataset.target_name,
        zero_based=dataset.zero_based,
    )
    model.save(out_file)
    if report is not None:
        from sketchridge.report import fit_page, write

        try:
            write(fit_page(model, dataset.name, out_file), report)
        except KeyboardInterrupt:
            err.print(f"interrupted: the model is in {out_file}, without a report", markup=False)
            raise typer.Exit(ExitCode.INTERRUPTED) from None
    if json:
        print_json({"model": str(out_file), "report": report and str(report)} | model.as_dict())
    else:
        out.print(solution.summary(), markup=False)
        for name, path in (("model", out_file), ("report", report)):
            if path is not None:
                out.print(f"{name:14} {path}", markup=False)
    _finish(model, out_file)


def _load_kernels(X: Any) -> None:
    """Load what a large problem needs: an import that Ctrl-C cuts short cannot be taken up again.

    From here on Ctrl-C ends the solve, with the best model so far.
    """
    if X.size > LARGE:
        import sketchridge.kernels  # noqa: F401


def _check_files(
    data: str, model: Path, report: Path | None, checkpoint: Path | None, force: bool
) -> None:
    """Refuse what could not be written in the end, or would destroy what is read."""
    from sketchridge.files import check_destinations

    given = {"--out": model, "--report": report, "--checkpoint": checkpoint}
    check_destinations(given, data, force, kept=("--checkpoint",))
    if report is not None:
        from sketchridge.report import check_available

        check_available()


def _check_settings(
    solver: str,
    preconditioner: str,
    tol: float,
    max_passes: float | None,
    max_seconds: float | None,
) -> None:
    """Refuse a wrong name or number before the data is read, which may take long."""
    from sketchridge.preconditioner import PRECONDITIONERS
    from sketchridge.solvers import SOLVERS
    from sketchridge.validation import check_number, check_optional

    for option, name, known in (
        ("--solver", solver, SOLVERS),
        ("--preconditioner", preconditioner, PRECONDITIONERS),
    ):
        if name != "auto" and name not in known:
            raise typer.BadParameter(
                f"{name!r} is unknown: choose auto, {', '.join(known)}", param_hint=option
            )
    check_number("tol", tol, 0.0, "give a number > 0", strict=True)
    check_optional("max_passes", max_passes, "give a number > 0")
    check_optional("max_seconds", max_seconds, "give seconds > 0")


def _finish(model: Model, path: Path) -> None:
    """Exit with the code that the status asks for."""
    from sketchridge.solution import Status

    if model.status is Status.INTERRUPTED:
        err.print(f"interrupted: the best model so far is in {path}", markup=False)
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not model.converged:
        err.print(
            f"not converged: the best model so far is in {path}", style="bold red", markup=False
        )
        raise typer.Exit(ExitCode.NOT_CONVERGED)
