"""Writing files: whole or not at all, and refused before any work where it cannot be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write, which takes the place of `path` when all of it is on the disk."""
    path = path.resolve()  # a link stays a link
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)  # a full disk's error names none
        raise
    finally:
        temporary.unlink(missing_ok=True)


def check_destination(argument: str, path: Path, force: bool = True) -> None:
    """Refuse a path that cannot be written, or that holds a file which is not to be replaced."""
    if path.is_dir():
        raise ValueError(f"{argument} {path} is a folder: give the name of a file")
    if not path.resolve().parent.is_dir():
        raise ValueError(
            f"{argument} {path} cannot be written: the folder {path.parent} does not exist; make "
            "it first"
        )
    if path.exists() and not path.is_file():
        raise ValueError(f"{argument} {path} is a device or a pipe: give the name of a file")
    if path.exists() and not force:
        raise ValueError(f"{argument} {path} exists: add --force to replace it, or name another")
    if not os.access(path.resolve().parent, os.W_OK):
        raise ValueError(f"{argument} {path} cannot be written: the folder is not yours to write")
