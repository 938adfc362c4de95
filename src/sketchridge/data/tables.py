"""Tables: csv, tsv and Parquet. One row a sample, one column a feature."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sketchridge.data.dataset import DataError, Dataset, NamelessColumns
from sketchridge.data.streams import Progress, Stream, check_file, check_magic

Array = NDArray[np.float64]
Column = str | int
LINES_AT_A_TIME = 20_000
TEXT_AT_A_TIME = 1 << 24
ROWS_AT_A_TIME = 65_536


@dataclass(frozen=True)
class Columns:
    """Which columns are features and which is the target, by number."""

    names: tuple[str, ...] | None
    width: int
    features: tuple[int, ...]
    target: int | None

    @property
    def all(self) -> tuple[int, ...]:
        """The features, then the target."""
        return self.features if self.target is None else (*self.features, self.target)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, if the table has names and no two features share one."""
        return None if self.names is None or self.doubles else self._chosen

    @property
    def target_name(self) -> str | None:
        """Name of the target, if there is one and the table has names."""
        return None if self.names is None or self.target is None else self.names[self.target]

    @property
    def doubles(self) -> tuple[str, ...]:
        """Names that several features share, by which they cannot be found again."""
        return tuple(name for name, count in Counter(self._chosen).items() if count > 1)

    @property
    def _chosen(self) -> tuple[str, ...]:
        return () if self.names is None else tuple(self.names[i] for i in self.features)

    def call(self, number: int) -> str:
        """A column as a reader of the file knows it."""
        return f"column {number}" if self.names is None else f"column {self.names[number]!r}"


def choose_columns(
    path: Path,
    names: tuple[str, ...] | None,
    width: int,
    target: Column | None,
    features: int | Sequence[Column] | None,
) -> Columns:
    """Resolve names and numbers; all but the target are features unless told otherwise."""
    goal = None if target is None else _find(path, names, width, target)
    if features is None or isinstance(features, int):
        chosen = tuple(i for i in range(width) if i != goal)
    else:
        chosen = tuple(_find(path, names, width, feature) for feature in features)
    if goal in chosen:
        raise DataError(path, f"{target!r} is target and feature at once", "choose one")
    if not chosen:
        raise DataError(path, "leaves no column as a feature", "give a table with more columns")
    if isinstance(features, int) and len(chosen) != features:
        raise DataError(
            path,
            f"has {len(chosen)} columns of features and {features} were asked for",
            "give the data that belongs to them, or name the target",
        )
    return Columns(names, width, chosen, goal)


def _find(path: Path, names: tuple[str, ...] | None, width: int, column: Column) -> int:
    """A column's number; a string is a name first and a number if no column has that name."""
    if isinstance(column, str) and names is not None and column in names:
        if names.count(column) > 1:
            raise DataError(path, f"has {column!r} more than once", "give the column's number")
        return names.index(column)
    try:
        number = int(column)
    except ValueError:
        listed = "no names" if names is None else f"the columns {', '.join(names[:20])}"
        refusal = NamelessColumns if names is None else DataError
        raise refusal(
            path, f"has no column {column!r}", f"it has {listed}; give one, or a number from 0"
        ) from None
    if not -width <= number < width:
        raise DataError(path, f"has no column {number}", f"give a number from 0 to {width - 1}")
    return number % width


@dataclass
class Filling:
    """X and y while they are filled from the front; they grow in place where the system can."""

    X: Array
    y: Array | None
    rows: int = 0

    @classmethod
    def of(cls, columns: Columns, size: int = 0) -> Filling:
        """Room for `size` rows of the chosen columns."""
        y = None if columns.target is None else np.empty(size)
        return cls(np.empty((size, len(columns.features))), y)

    def add(self, part: Array) -> None:
        """Append rows: the features, then the target if there is one."""
        after = self.rows + len(part)
        if after > len(self.X):
            self.resize(max(after, int(1.25 * len(self.X))))
        self.X[self.rows : after] = part[:, : self.X.shape[1]]
        if self.y is not None:
            self.y[self.rows : after] = part[:, -1]
        self.rows = after

    def resize(self, rows: int) -> None:
        """Change the number of rows; what is filled stays."""
        self.X.resize((rows, self.X.shape[1]), refcheck=False)
        if self.y is not None:
            self.y.resize(rows, refcheck=False)

    def dataset(self, path: Path, columns: Columns, notes: Sequence[str]) -> Dataset:
        """What was filled."""
        self.resize(self.rows)
        if columns.doubles:
            shared = ", ".join(map(repr, columns.doubles[:5]))
            notes = [*notes, f"several columns are called {shared}: columns go by number"]
        return Dataset(
            self.X,
            self.y,
            path.name,
            columns.feature_names,
            tuple(notes),
            columns.target_name,
        )


# -- csv ---------------------------------------------------------------------------------------


def read_csv(
    path: Path,
    delimiter: str,
    target: Column | None = None,
    features: int | Sequence[Column] | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Read delimited text, many lines at a time; a first line of words names the columns."""
    with Stream(path, progress) as stream:
        lines = (line for line in stream.lines() if line.strip())
        first = next(lines, None)
        if first is None:
            raise DataError(path, "holds only blank lines", "fetch it again")
        notes = []
        if delimiter == "," and "," not in first and ";" in first:
            delimiter = ";"
            notes.append("columns are separated by semicolons")
        fields = _split(first, delimiter)
        header = not all(_is_number(field) for field in fields)
        names = tuple(field.strip() for field in fields) if header else None
        notes += _doubts(fields) if header else []
        columns = choose_columns(path, names, len(fields), target, features)
        table = _read_rows(stream, lines, None if header else first, delimiter, columns)
    return table.dataset(path, columns, notes + stream.doubts)


def _doubts(header: list[str]) -> list[str]:
    """Say so where a first line that is taken as names may be a row with a gap."""
    numbers = [field.strip() for field in header if _is_number(field)]
    if not numbers:
        return []
    return [
        f"the first line is taken as the names of the columns, {numbers[0]!r} among them: if it is "
        "a row with a gap, fill that in"
    ]


def _read_rows(
    stream: Stream, lines: Iterator[str], first: str | None, delimiter: str, columns: Columns
) -> Filling:
    """The chosen columns of all lines."""
    table = Filling.of(columns)
    started = stream.line if first is None else stream.line - 1
    everything = lines if first is None else chain([first], lines)
    while chunk := _some_lines(everything):
        table.add(_parse(stream, chunk, started, delimiter, columns))
        started = stream.line
    if table.rows == 0:
        raise DataError(stream.path, "has a header and no rows", "fetch it again")
    return table


def _some_lines(lines: Iterator[str]) -> list[str]:
    """The next lines: many short ones, or a few long ones."""
    chunk, size = [], 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if len(chunk) >= LINES_AT_A_TIME or size >= TEXT_AT_A_TIME:
            break
    return chunk


def _parse(
    stream: Stream, chunk: list[str], started: int, delimiter: str, columns: Columns
) -> Array:
    widths = {_width(line, delimiter) for line in chunk}
    try:
        if not widths <= {columns.width}:
            raise ValueError("ragged")
        part: Array = np.loadtxt(
            chunk,
            delimiter=delimiter,
            quotechar='"',
            comments=None,
            usecols=columns.all,
            ndmin=2,
        )
        if not np.isfinite(part).all():
            raise ValueError("not finite")
    except ValueError as error:
        _refuse(stream, chunk, started, delimiter, columns, error)
    return part


def _refuse(
    stream: Stream,
    chunk: list[str],
    started: int,
    delimiter: str,
    columns: Columns,
    error: ValueError,
) -> NoReturn:
    """Find the first line that is wrong, and say why."""
    with Stream(stream.path) as again:
        lines = (line for line in islice(again.lines(), started, None) if line.strip())
        for line in islice(lines, len(chunk)):
            fields = _split(line, delimiter)
            if len(fields) != columns.width:
                raise DataError(
                    stream.path,
                    f"has {len(fields)} columns where the first line has {columns.width}",
                    "make all rows as long as the first",
                    again.line,
                ) from error
            for number in columns.all:
                _check_field(stream.path, columns.call(number), fields[number], again.line)
    raise DataError(stream.path, f"cannot be read ({error})", "check its quotes") from error


def _check_field(path: Path, column: str, field: str, line: int) -> None:
    if not field.strip():
        raise DataError(path, f"{column} is empty", "fill in the value, or drop the row", line)
    if not _is_number(field):
        raise DataError(
            path,
            f"{column} holds {field.strip()[:40]!r}, not a number",
            "encode it as a number, or choose the other columns by features=… (--features)",
            line,
        )
    if not np.isfinite(float(field)):
        raise DataError(
            path, f"{column} holds {field.strip()!r}", "fill in a value, or drop the row", line
        )


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])


def _width(line: str, delimiter: str) -> int:
    """How many fields a line has; one with quotes is split, for they may hide delimiters."""
    return len(_split(line, delimiter)) if '"' in line else line.count(delimiter) + 1


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field  # Python's own notation


# -- Parquet -----------------------------------------------------------------------------------


def read_parquet(
    path: Path,
    target: Column | None = None,
    features: int | Sequence[Column] | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Read the numeric columns of a Parquet file, some thousand rows at a time."""
    check_file(path)
    check_magic(path, b"PAR1", "a Parquet file")
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "Parquet files need pyarrow: install it with pip install 'sketchridge[parquet]'"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            return _read_batches(path, file, target, features, progress)
    except (arrow.ArrowInvalid, OSError) as error:
        raise DataError(
            path, f"is cut short or damaged ({str(error).splitlines()[0]})", "fetch it again"
        ) from error


def _read_batches(
    path: Path,
    file: Any,
    target: Column | None,
    features: int | Sequence[Column] | None,
    progress: Progress | None,
) -> Dataset:
    schema = file.schema_arrow
    columns = choose_columns(path, tuple(schema.names), len(schema.names), target, features)
    for number in columns.all:
        _check_type(path, columns.call(number), str(schema.field(number).type))
    if file.metadata.num_rows == 0:
        raise DataError(path, "has no rows", "fetch it again")
    table = Filling.of(columns, file.metadata.num_rows)
    names = [schema.names[i] for i in columns.all]
    for batch in file.iter_batches(ROWS_AT_A_TIME, columns=names):
        table.add(np.stack([_column(path, batch, name, table.rows) for name in names], axis=1))
        if progress is not None:
            progress(table.rows, file.metadata.num_rows)
    kinds = {str(schema.field(number).type) for number in columns.all}
    notes = (
        [] if kinds == {"double"} else [f"columns of {', '.join(sorted(kinds))}: cast to double"]
    )
    return table.dataset(path, columns, notes)


def _column(path: Path, batch: Any, name: str, rows: int) -> Array:
    """A column of a batch that begins after so many rows."""
    column = batch.column(name)
    wrong = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
    values: Array = np.zeros(0)
    if not wrong.size:
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise DataError(
            path,
            f"column {name!r} is missing or not finite in row {rows + wrong[0]}",
            "fill in a value, or drop the row",
        )
    return values


def _check_type(path: Path, column: str, kind: str) -> None:
    if not kind.startswith(("int", "uint", "float", "halffloat", "double", "bool", "decimal")):
        raise DataError(
            path,
            f"{column} is of type {kind}, not a number",
            "encode it as a number, or choose the other columns by features=… (--features)",
        )
