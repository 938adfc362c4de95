"""`python -m sketchridge`: the command line, for where its script is not on the path."""

from sketchridge.cli import main

main()
