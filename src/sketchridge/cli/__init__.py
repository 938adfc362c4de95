"""The command line: one file a command. A new command is a file here and its name in `main`."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line; what it needs is loaded here, where Ctrl-C is waited for."""
    _open_streams()
    try:
        from sketchridge.cli import compare as compare_command  # noqa: F401
        from sketchridge.cli import demo, diagnose, fit, predict, reproduce, solvers  # noqa: F401
        from sketchridge.cli import path as path_command  # noqa: F401
        from sketchridge.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if os.environ.get("SKETCHRIDGE_DEBUG"):
            raise
        # The help goes to stdout before any command is there to answer for it.
        sys.exit(f"sketchridge: {error.strerror or error}")
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(
            "sketchridge: the command line needs typer and rich: pip install 'sketchridge[cli]'"
        )


def _open_streams() -> None:
    """Have both streams take every character; one that the caller closed leads nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
