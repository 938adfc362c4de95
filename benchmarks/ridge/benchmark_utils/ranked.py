"""What rlaopt's solvers have in common: a Nyström preconditioner of a given rank, and torch."""

from importlib.util import find_spec

from benchmark_utils.wrapper import RidgeSolver

# Imported when it is first run, and not by every run: torch brings a thread pool of its own.
if find_spec("rlaopt") is None:
    raise ImportError("No module named 'rlaopt'")


class RankedSolver(RidgeSolver):
    """A subclass has a parameter `rank`."""

    @property
    def warm_up_rows(self):
        return 2 * self.rank

    def skip(self, X, y, lam):
        if self.rank > min(X.shape):
            return True, f"the data has fewer than {self.rank} rows or columns"
        return super().skip(X, y, lam)
