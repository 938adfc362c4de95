"""The command line: one file a command. A new command is a file here and a line below."""

from __future__ import annotations

import sys

try:
    import rich  # noqa: F401
    import typer  # noqa: F401
except ImportError:
    sys.exit("sketchridge: the command line needs typer and rich: pip install 'sketchridge[cli]'")

from sketchridge.cli import demo, diagnose, fit, predict, reproduce, solvers
from sketchridge.cli.app import app

__all__ = ["app", "demo", "diagnose", "fit", "main", "predict", "reproduce", "solvers"]


def main() -> None:
    """Run the command line."""
    app()
