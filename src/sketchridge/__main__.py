"""`python -m sketchridge`, where the command itself is not on the path."""

from sketchridge.cli import main

if __name__ == "__main__":
    main()
