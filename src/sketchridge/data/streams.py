"""Bytes from files, compressed or not: bounded memory, progress, and errors that name the file."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from sketchridge.data.dataset import DataError

Progress = Callable[[int, int], object]

COMPRESSIONS: dict[str, tuple[str, bytes, Callable[..., object]]] = {
    ".gz": ("gzip", b"\x1f\x8b", gzip.open),
    ".bz2": ("bzip2", b"BZh", bz2.open),
    ".xz": ("xz", b"\xfd7zXZ\x00", lzma.open),
}
# What else a text file may turn out to be.
OTHER_MAGIC = {b"PK\x03\x04": "a zip archive", b"\x93NUMPY": "a .npy file", b"PAR1": "Parquet"}
OPEN_END = "the last line does not end: if the file was cut short, its last number is wrong"
BLOCK = 1 << 22
# Four million values in a row; a longer "line" is no line.
LONGEST_LINE = 1 << 26


def check_file(path: Path) -> int:
    """The size of a file that can be read and is not empty."""
    if not path.exists():
        raise DataError(path, "there is no such file", "check the name and the folder")
    if path.is_dir():
        raise DataError(path, "is a folder", "give a file in it")
    if not path.is_file():
        raise DataError(path, "is a pipe or a device", "save what comes from it as a file first")
    size = path.stat().st_size
    if size == 0:
        raise DataError(path, "is empty (0 bytes)", "write or fetch it again")
    return size


def check_magic(path: Path, magic: bytes, kind: str) -> None:
    """Refuse a file that does not begin as its kind does."""
    with path.open("rb") as file:
        found = file.read(len(magic))
    if found != magic:
        raise DataError(
            path,
            f"is not {kind}: it begins with {found!r}, not {magic!r}",
            "name its true format by the suffix or format=… (--format), or fetch it again",
        )


class Stream:
    """A file read in blocks, decompressed by its suffix.

    `line` is the number of the last line that `lines` gave out, and `open_end` whether the text
    has ended within a line.
    """

    open_end = False

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path, self.progress, self.line = path, progress, 0
        self.size = check_file(path)
        self.raw: IO[bytes] = path.open("rb")
        kind, magic, opener = COMPRESSIONS.get(path.suffix.lower(), ("", b"", None))
        try:
            self._check_start(kind, magic)
        except DataError:
            self.raw.close()
            raise
        self.kind = kind
        self.file = self.raw if opener is None else cast(IO[bytes], opener(self.raw, "rb"))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()
        self.raw.close()

    def _check_start(self, kind: str, magic: bytes) -> None:
        start = self.raw.read(8)
        self.raw.seek(0)
        if not start.startswith(magic):
            raise DataError(
                self.path,
                f"is not {kind}-compressed, as its suffix says: it begins with {start!r}",
                "remove the suffix if it is plain, or fetch it again",
            )
        if kind:
            return
        for suffix, (other, other_magic, _) in COMPRESSIONS.items():
            if start.startswith(other_magic):
                raise DataError(self.path, f"is {other}-compressed", f"give it the suffix {suffix}")
        for other_magic, other in OTHER_MAGIC.items():
            if start.startswith(other_magic):
                raise DataError(self.path, f"is {other}, not text", "give it the right suffix")

    def read(self, size: int = BLOCK) -> bytes:
        """At most `size` bytes; none at the end."""
        return self._guarded(lambda: self.file.read(size))

    def _guarded(self, read: Callable[[], bytes]) -> bytes:
        try:
            data = read()
        except EOFError as error:
            raise DataError(
                self.path, f"is cut short: its {self.kind} stream does not end", "fetch it again"
            ) from error
        except (zlib.error, lzma.LZMAError, gzip.BadGzipFile, OSError) as error:
            if self.kind and not (isinstance(error, OSError) and error.errno):
                raise DataError(
                    self.path, f"its {self.kind} stream is damaged ({error})", "fetch it again"
                ) from error
            raise
        if self.progress is not None:
            self.progress(self.raw.tell(), self.size)
        return data

    def blocks(self) -> Iterator[bytes]:
        """Blocks of whole lines; `line` counts the lines before the latest."""
        rest, size = b"", BLOCK
        while data := self.read(size):
            cut = data.rfind(b"\n") + 1
            if cut == 0:
                rest += data
                if len(rest) > LONGEST_LINE:
                    self.refuse_long_line(self.line + 1)
                size = max(BLOCK, len(rest))  # so that a long line is copied a few times only
                continue
            block = rest + data[:cut]
            yield block
            self.line += block.count(b"\n")
            rest, size = data[cut:], BLOCK
        if rest:
            self.open_end = True
            yield rest

    def lines(self) -> Iterator[str]:
        """The lines as text, without a byte order mark."""
        while line := self._guarded(lambda: self.file.readline(LONGEST_LINE)):
            self.line += 1
            if len(line) == LONGEST_LINE:
                self.refuse_long_line(self.line)
            self.open_end = not line.endswith(b"\n")
            try:
                yield line.decode("utf-8-sig" if self.line == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    self.path, f"is not UTF-8 text ({error})", "save it as UTF-8", self.line
                ) from error

    @property
    def doubts(self) -> list[str]:
        """A text that was cut short may still read well, but for the last number."""
        return [OPEN_END] if self.open_end else []

    def refuse_long_line(self, line: int) -> None:
        """A line that does not end."""
        raise DataError(
            self.path,
            f"the line is longer than {LONGEST_LINE >> 20} MiB",
            "break the file into lines, one sample each",
            line,
        )
