"""Arguments and options that several commands take, and what they are read into."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sketchridge.cli.app import err
from sketchridge.cli.progress import reading

if TYPE_CHECKING:
    from sketchridge.data import Dataset

Data = Annotated[
    str,
    typer.Argument(
        help="A file: LIBSVM/svmlight, csv, tsv (also .gz, .bz2, .xz), npy, npz or parquet; or one "
        "of the paper's problems by name.",
        metavar="DATA",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="What to predict: a column of a table by name or number, or a .npy file. LIBSVM and "
        "npz files hold it themselves."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(help="The file's format, where its name does not tell: svmlight, csv, npy, …"),
]
Features = Annotated[
    str | None,
    typer.Option(
        help="The columns of a table to use, by name or number, as in rooms,age; else all but the "
        "target."
    ),
]
ZeroBased = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based",
        help="How a LIBSVM file counts its columns; else from 0 where a 0 occurs.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option("--data", help="The folder of the paper's data; else SKETCHRIDGE_DATA names it."),
]
Weights = Annotated[
    Path | None,
    typer.Option(help="A .npy file, or text with a number a line: a weight ≥ 0 for each row."),
]
Intercept = Annotated[bool, typer.Option("--intercept", help="Fit an unpenalised intercept.")]
ScaleRows = Annotated[
    bool,
    typer.Option(
        "--scale-rows", help="Measure lam against rows of average norm 1, as the paper does."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Report = Annotated[
    Path | None, typer.Option(help="Also write a page about it: one HTML file.", metavar="FILE")
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]

# Coefficients, a gradient and what any solver adds to them.
VECTORS_OF_A_SOLVE = 4
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def read_data(
    data: str,
    target: str | None,
    format: str | None,
    folder: Path | None = None,
    features: int | tuple[str, ...] | None = None,
    zero_based: bool | None = None,
) -> Dataset:
    """The file, or the paper's problem, of that name; its notes are told."""
    from sketchridge.data import PROBLEMS, load, read

    path = Path(data)
    if data in PROBLEMS and not path.exists():
        dataset = load(data, folder)
    else:
        _check_path(data, PROBLEMS)
        with reading(err, path.name) as progress:
            dataset = read(
                data,
                target=target,
                features=features,
                format=format,
                zero_based="auto" if zero_based is None else zero_based,
                progress=progress,
            )
    for note in dataset.notes:
        err.print(f"note: {note}", markup=False)
    _check_room(dataset)
    return dataset


def _check_room(dataset: Dataset) -> None:
    """Refuse more columns than any solve has room for: the system would end it without a word.

    One wrong index makes a LIBSVM file of two lines two thousand million columns wide.
    """
    columns = dataset.X.shape[1]
    needed, memory = VECTORS_OF_A_SOLVE * 8.0 * columns, all_memory()
    if needed > memory:
        raise ValueError(
            f"{dataset.name} has {columns} columns, whose coefficients and gradients alone take "
            f"{needed / 1e9:.0f} GB of the {memory / 1e9:.0f} GB here: number the columns anew"
        )


def all_memory() -> float:
    """The bytes of memory of this machine, where the system tells."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def split_names(text: str | None) -> tuple[str, ...] | None:
    """The names in a list like rooms,age; one that holds a comma is quoted, as in a csv file."""
    return None if text is None else tuple(next(csv.reader([text], skipinitialspace=True), ()))


def _check_path(data: str, problems: Iterable[str]) -> None:
    path = Path(data)
    if path.is_dir():
        raise ValueError(f"{data} is a folder: give a file in it")
    if not path.exists() and path.name == data and not path.suffix:
        raise ValueError(
            f"{data} is neither a file nor one of the paper's problems, {', '.join(problems)}: "
            "check the name"
        )


def read_weights(path: Path | None) -> Any:
    """The weights in a file, as `solve` takes them."""
    import numpy as np

    if path is None:
        return None
    from sketchridge.data.streams import check_file

    check_file(path)
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        return np.loadtxt(path, ndmin=1)
    except ValueError as error:
        raise ValueError(
            f"--weights {path} is not a list of numbers ({error}): give a .npy file, or text with "
            "a number a line"
        ) from error


@dataclass(frozen=True)
class Lam:
    """A penalty as it is written: a number, or 1/n."""

    text: str

    def __post_init__(self) -> None:
        from sketchridge.validation import check_lam

        try:
            check_lam(self.value(rows=1))
        except ValueError as error:
            remedy = f"{self.text!r} is no penalty: give 0, or 1e-140 to 1e140, or 1/n"
            raise typer.BadParameter(remedy, param_hint="--lam") from error

    def value(self, rows: int) -> float:
        """The number, for data of so many rows."""
        return 1.0 / rows if self.text.replace(" ", "") == "1/n" else float(self.text)


def parse_bytes(text: str | None) -> float | None:
    """A number of bytes, as in 800M or 2GB."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:[eE]\d+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if match is None:
        raise typer.BadParameter(
            f"{text!r} is no amount of memory: give one as 800M or 2GB", param_hint="--max-memory"
        )
    return float(match[1]) * UNITS[match[2].upper()]
