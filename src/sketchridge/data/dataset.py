"""What every reader returns, and what it raises."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray


class DataError(ValueError):
    """A file that cannot be read as data: which file, which line, what is wrong, what to do."""

    def __init__(
        self, path: str | PathLike[str], problem: str, remedy: str, line: int | None = None
    ) -> None:
        where = str(path) if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {problem}; {remedy}")
        self.path, self.line = str(path), line


class NamelessColumns(DataError):  # noqa: N818 - no error where numbers will do
    """Columns were asked for by name, and the file has no names."""


class MissingData(FileNotFoundError):  # noqa: N818 - no error where a problem may be skipped
    """A problem of the paper whose data is not at hand: where to get it, and where to put it."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A matrix of samples and what goes with it. Its values are finite.

    Attributes
    ----------
    X : ndarray, memory map or CSR matrix of shape (n, d)
        The samples.
    y : ndarray of shape (n,) or None
        The targets, if the file has them.
    name : str
        What it is called.
    feature_names : tuple of str or None
        The columns' names, where they have any.
    notes : tuple of str
        Casts, copies, stand-ins.
    target_name : str or None
        Of the column that y is, where columns have names.
    zero_based : bool or None
        Whether a LIBSVM file counts its columns from 0.
    """

    X: Any
    y: NDArray[np.float64] | None
    name: str
    feature_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    target_name: str | None = None
    zero_based: bool | None = None
