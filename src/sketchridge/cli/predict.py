"""`sketchridge predict`: apply a model, and score it where the truth is known."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchridge.cli.app import command, err, print_json
from sketchridge.cli.options import (
    Data,
    Folder,
    Force,
    Format,
    Json,
    Target,
    ZeroBased,
    read_data,
)

if TYPE_CHECKING:
    from sketchridge.data import Dataset
    from sketchridge.model import Model


EXAMPLES = (
    "sketchridge predict houses.model new-houses.csv > prices.txt",
    "sketchridge predict news.model test.svm.bz2 --out predictions.npy",
    "sketchridge predict mnist.model mnist --json --out predictions.npy",
)


@command(EXAMPLES)
def predict(
    model_file: Annotated[Path, typer.Argument(help="A model that `fit` wrote.", metavar="MODEL")],
    data: Data,
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where to write the predictions, as .npy or as text; else they are printed.",
            metavar="FILE",
        ),
    ] = None,
    target: Target = None,
    format: Format = None,
    zero_based: ZeroBased = None,
    folder: Folder = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Predict with a model, and score it where the data holds the truth.

    The columns are checked against those of the fit: by name where both have names, else by
    number. A LIBSVM file is taken to count them as that of the fit did. A .npy file is read block
    by block, however large it is.
    """
    from sketchridge.files import check_destination
    from sketchridge.model import Model

    if out_file is not None:
        check_destination("--out", out_file, force)
        if out_file.resolve() in (Path(data).resolve(), model_file.resolve()):
            raise ValueError(f"--out {out_file} is a file that is read: give another name")
    model = Model.load(model_file)
    base = model.zero_based if zero_based is None else zero_based
    dataset = _read(
        model, data, target, partial(read_data, format=format, folder=folder, zero_based=base)
    )
    values = model.predict(dataset.X)
    scores = {} if dataset.y is None else score(dataset.y, values)
    if out_file is not None:
        _write(values, out_file)
    if json:
        where: dict[str, Any] = (
            {"out": str(out_file)} if out_file else {"predictions": values.tolist()}
        )
        print_json({"model": str(model_file), "rows": len(values), "score": scores or None} | where)
        return
    if out_file is None:
        _print(values)
    for name, value in scores.items():
        err.print(f"{name.replace('_', ' ')}: {value:.6g}")


def _read(model: Model, data: str, target: str | None, reader: Callable[..., Dataset]) -> Dataset:
    """The data with the model's columns: by name where both have names, else by number."""
    from sketchridge.data import NamelessColumns

    if model.feature_names is not None:
        try:
            return _read_with_truth(
                model, data, target, partial(reader, features=model.feature_names)
            )
        except NamelessColumns:
            err.print(f"note: {data} has no names: its columns go by number", markup=False)
    return _read_with_truth(model, data, target, partial(reader, features=model.features))


def _read_with_truth(
    model: Model, data: str, target: str | None, reader: Callable[..., Dataset]
) -> Dataset:
    """The data, with the column that was fitted if it is there."""
    from sketchridge.data import DataError

    if target is None and model.target is not None:
        try:
            return reader(data, model.target)
        except DataError:
            pass  # new data need not hold the truth; any other fault shows again below
    return reader(data, target)


def score(truth: Any, values: Any) -> dict[str, float]:
    """Root mean squared error, R², and of labels ±1 the share whose sign is right."""
    import numpy as np

    residual, spread = np.mean((values - truth) ** 2), np.var(truth)
    scores = {"root_mean_squared_error": float(np.sqrt(residual))}
    if spread > 0:
        scores["r_squared"] = float(1 - residual / spread)
    if np.all(np.abs(truth) == 1):
        scores["accuracy_of_the_sign"] = float(np.mean(np.sign(values) == truth))
    return scores


def _write(values: Any, path: Path) -> None:
    import numpy as np

    from sketchridge.files import atomic_write

    with atomic_write(path) as file:
        if path.suffix == ".npy":
            np.save(file, values)
        else:
            np.savetxt(file, values, fmt="%.17g")


def _print(values: Any) -> None:
    import numpy as np

    np.savetxt(sys.stdout, values, fmt="%.17g")
    sys.stdout.flush()
