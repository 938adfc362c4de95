"""`python -m sketchridge` is the command line."""

from __future__ import annotations

from sketchridge.cli import main

if __name__ == "__main__":
    main()
