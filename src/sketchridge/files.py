"""Writing files: whole or not at all, and refused before any work where it cannot be."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write, which takes the place of `path` when all of it is on the disk."""
    path = path.resolve()  # a link stays a link
    temporary = _beside(path)
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


def _beside(path: Path) -> Path:
    """A name for what is not yet whole, short enough wherever that of the file is."""
    return path.with_name(f".{secrets.token_hex(8)}.part")


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
    _try_to_write(argument, path)


def check_destinations(
    given: dict[str, Path | None], data: str, replace: bool, kept: tuple[str, ...] = ()
) -> None:
    """Refuse what could not be written in the end, or would destroy what is read.

    `given` are the files by their options; those of the options `kept` may exist.
    """
    wanted = {option: path for option, path in given.items() if path is not None}
    places = [Path(data).resolve(), *(path.resolve() for path in wanted.values())]
    if len(set(places)) < len(places):
        options = ", ".join(wanted)
        raise ValueError(f"DATA, {options} name the same file twice: give each a name of its own")
    for option, path in wanted.items():
        check_destination(option, path, replace or option in kept)


def _try_to_write(argument: str, path: Path) -> None:
    """Make a file beside, which tells more than permissions do, and of one of that name."""
    trial = _beside(path.resolve())
    try:
        path.resolve().lstat()
    except FileNotFoundError:
        pass  # a name that the file system takes
    except OSError as error:
        raise ValueError(f"{argument} {path} cannot be written: {error.strerror}") from error
    try:
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise ValueError(
            f"{argument} {path} cannot be written: {error.strerror} in its folder; name another"
        ) from error
