"""The application that the commands join, and how every one of them ends.

Results go to stdout; progress, notes and errors to stderr. An error is a sentence.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import wraps
from inspect import getdoc
from typing import Annotated, Any

import typer
from rich.console import Console

from sketchridge.version import __version__

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

app = typer.Typer(
    help="Ridge regression at scale, by sketching, with a certified accuracy on every answer.",
    epilog="Each command explains itself by examples: sketchridge fit --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class ExitCode(IntEnum):
    """What the process tells the shell; 2, for wrong usage, is typer's."""

    ERROR = 1
    NOT_CONVERGED = 3
    INTERRUPTED = 130


EXIT_CODES = (
    "Exit codes: 0 converged, 1 error, 2 wrong usage, 3 not converged (the best model so far is "
    "written), 130 interrupted by Ctrl-C (likewise, if there is one)."
)


def _version(asked: bool) -> None:
    if asked:
        out.print(f"sketchridge {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that come before a command."""


def command(
    examples: Sequence[str], epilog: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command whose errors are sentences and whose exit codes are ours."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def guarded(*arguments: Any, **options: Any) -> None:
            try:
                function(*arguments, **options)
            except (typer.Exit, typer.BadParameter):
                raise
            except KeyboardInterrupt:
                err.print("interrupted: nothing was written")
                raise typer.Exit(ExitCode.INTERRUPTED) from None
            except Exception as error:
                _end(error)

        return app.command(help=_help(function, examples), epilog=epilog)(guarded)

    return register


def _help(function: Callable[..., None], examples: Sequence[str]) -> str:
    """The docstring, and the examples a line each (typer keeps the lines behind a backspace)."""
    listed = "\n".join(f"  {example}" for example in examples)
    return f"{getdoc(function)}\n\n\b\nExamples:\n{listed}"


def _end(error: Exception) -> None:
    """Say what went wrong, and exit."""
    if os.environ.get("SKETCHRIDGE_DEBUG"):
        raise error
    if isinstance(error, BrokenPipeError) or getattr(error, "errno", None) == errno.EPIPE:
        # Whoever read our output has left. Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.ERROR) from None
    err.print(f"error: {_sentence(error)}", style="bold red", markup=False)
    raise typer.Exit(ExitCode.ERROR) from None


def _sentence(error: Exception) -> str:
    if isinstance(error, MemoryError):
        reason = str(error) or "an allocation was refused"
        return f"out of memory ({reason}): free some, lower --rank, or set --max-memory"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, (ValueError, TypeError, LookupError, ImportError)) and error.args:
        return str(error.args[0])
    return (
        f"{type(error).__name__}: {error}; this is a fault of sketchridge: run it again with "
        "SKETCHRIDGE_DEBUG=1 to see where it is, and report it"
    )


def print_json(document: dict[str, Any]) -> None:
    """One machine-readable document on stdout."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    sys.stdout.write(json.dumps(document, allow_nan=False, ensure_ascii=plain, indent=2) + "\n")
    sys.stdout.flush()
