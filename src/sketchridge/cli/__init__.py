"""The command line: one file a command. A new command is a file here and its name in `main`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; what it needs is loaded here, where Ctrl-C is waited for."""
    try:
        from sketchridge.cli import compare as compare_command  # noqa: F401
        from sketchridge.cli import demo, diagnose, fit, predict, reproduce, solvers  # noqa: F401
        from sketchridge.cli import path as path_command  # noqa: F401
        from sketchridge.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(
            "sketchridge: the command line needs typer and rich: pip install 'sketchridge[cli]'"
        )
