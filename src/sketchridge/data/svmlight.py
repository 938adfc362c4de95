"""LIBSVM (svmlight) files: `label index:value index:value … # comment`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sketchridge.data.dataset import DataError, Dataset
from sketchridge.data.streams import Progress, Stream

if TYPE_CHECKING:
    from sketchridge.data._svmlight import Place

ZeroBased = bool | Literal["auto"]
GROWTH = 1.25
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
NOT_FINITE = re.compile(rb"[-+]?(nan|inf|infinity)", re.IGNORECASE)


def _reserve(array: NDArray[Any], size: int) -> None:
    """Make room for `size` entries; the array grows in place where the system can."""
    if size > array.size:
        array.resize(max(size, int(GROWTH * array.size)), refcheck=False)


def _empty(dtype: type[Any]) -> Callable[[], NDArray[Any]]:
    return partial(np.empty, 0, dtype)


@dataclass
class Rows:
    """The rows read so far."""

    path: Path
    labels: NDArray[np.float64] = field(default_factory=_empty(np.float64))
    ends: NDArray[np.int64] = field(default_factory=_empty(np.int64))
    indices: NDArray[np.int32] = field(default_factory=_empty(np.int32))
    values: NDArray[np.float64] = field(default_factory=_empty(np.float64))
    rows: int = 0
    entries: int = 0
    queries: bool = False

    def add(self, block: bytes, line: int) -> None:
        """Parse whole lines; `line` lines came before."""
        from sketchridge.data import _svmlight as parser

        text = np.frombuffer(block, np.uint8)
        rows = self.rows + block.count(b"\n") + 1
        entries = self.entries + block.count(b":")
        _reserve(self.labels, rows)
        _reserve(self.ends, rows)
        _reserve(self.indices, entries)
        _reserve(self.values, entries)
        left = np.empty((rows - self.rows + entries - self.entries, 3), np.int64)
        table = parser.Table(self.labels, self.ends, self.indices, self.values, left)
        place, position, wrong = parser.parse_lines(text, table, self.rows, self.entries)
        self._convert(table, place, block, line)
        if wrong != parser.FINE:
            self._refuse(block, position, wrong, line)
        self.rows, self.entries = place.row, place.entry
        self.queries |= place.queries

    def _convert(self, table: Any, place: Place, block: bytes, line: int) -> None:
        """Read the numbers that are left to float()."""
        for start, stop, index in table.left[: place.left].tolist():
            value = self._number(block, start, stop, line)
            if index < 0:
                table.labels[-1 - index] = value
            else:
                table.values[index] = value

    def _number(self, block: bytes, start: int, stop: int, line: int) -> float:
        token = block[start:stop]
        value = float(token) if NUMBER.fullmatch(token) else np.nan
        if np.isfinite(value):
            return value
        line += block.count(b"\n", 0, start) + 1
        shown = repr(token[:40].decode("utf-8", "replace"))
        if NUMBER.fullmatch(token) or NOT_FINITE.fullmatch(token):
            problem, remedy = f"the value {shown} is not finite", "clean the file, or drop the row"
        elif b"," in token:
            problem, remedy = f"the label {shown} is several", "keep one label a line"
        else:
            problem, remedy = f"{shown} is not a number", "write `label index:value index:value …`"
        raise DataError(self.path, problem, remedy, line)

    def _refuse(self, block: bytes, position: int, wrong: int, line: int) -> None:
        """Say what is wrong at a position of the block."""
        from sketchridge.data import _svmlight as parser

        pair = re.match(rb"[^\s#]{0,40}", block[position : position + 40])
        shown = repr(pair[0].decode("utf-8", "replace")) if pair else "it"
        ascending = "sort each line by index and merge what is double, as the format demands"
        problem, remedy = {
            parser.NO_LABEL: (
                f"begins with {shown}, without a label",
                "put a label first (0 does)",
            ),
            parser.BAD_PAIR: (f"{shown} is no index:value pair", "write index:value"),
            parser.BAD_INDEX: (f"the index of {shown} is no integer ≥ 0", "write index:value"),
            parser.TOO_LARGE: (
                f"the index of {shown} is beyond {parser.LARGEST_INDEX}, the largest that 32 bits "
                "allow",
                "number the columns anew (hash them)",
            ),
            parser.DUPLICATE: (f"{shown} repeats the index before it", ascending),
            parser.DESCENDING: (f"{shown} has a smaller index than the one before it", ascending),
        }[wrong]
        raise DataError(self.path, problem, remedy, line + block.count(b"\n", 0, position) + 1)

    def finish(self) -> None:
        """Cut the arrays to size."""
        self.labels.resize(self.rows, refcheck=False)
        self.ends.resize(self.rows, refcheck=False)
        self.indices.resize(self.entries, refcheck=False)
        self.values.resize(self.entries, refcheck=False)


def read_svmlight(
    path: Path,
    features: int | None = None,
    zero_based: ZeroBased = "auto",
    progress: Progress | None = None,
) -> Dataset:
    """Read a LIBSVM file, in one go and in little more memory than the result.

    Indices must ascend in each line, as the format demands: one that does not is more often a
    damaged file than an unsorted one, so it is refused and not sorted. Like scikit-learn, "auto"
    takes indices as 1-based unless a 0 occurs.
    """
    found = Rows(path)
    with Stream(path, progress) as stream:
        for number, block in enumerate(stream.blocks()):
            text = block.removeprefix(b"\xef\xbb\xbf") if number == 0 else block
            found.add(text, stream.line)
    if found.rows == 0:
        raise DataError(path, "holds no samples, only blank lines or comments", "fetch it again")
    found.finish()
    notes = stream.doubts + (["query numbers (qid) are left out"] if found.queries else [])
    smallest = int(found.indices.min(initial=1))
    if zero_based == "auto":
        zero_based = smallest == 0
        notes.append(f"indices taken as {0 if zero_based else 1}-based")
    if smallest == 0 and not zero_based:
        raise DataError(
            path, "has the index 0", "it is 0-based: give zero_based=True (--zero-based)"
        )
    X = _matrix(found, features, zero_based)
    return Dataset(X, found.labels, path.name, None, tuple(notes), zero_based=zero_based)


def _matrix(found: Rows, features: int | None, zero_based: bool) -> Any:
    from scipy import sparse

    path, indices = found.path, found.indices
    if not zero_based:
        indices -= 1
    columns = int(indices.max(initial=-1)) + 1
    if features is not None and columns > features:
        raise DataError(
            path,
            f"has {columns} columns and {features} were asked for",
            "give the data that belongs to them, or check zero_based (--zero-based)",
        )
    width = columns if features is None else features
    if width == 0:
        raise DataError(path, "has labels and no values", "fetch it again, or give features=…")
    indptr = np.zeros(found.rows + 1, np.int64 if found.entries > 2**31 - 1 else np.int32)
    indptr[1:] = found.ends
    return sparse.csr_matrix((found.values, indices, indptr), shape=(found.rows, width))
