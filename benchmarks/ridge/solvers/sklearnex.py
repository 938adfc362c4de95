"""Intel's extension for scikit-learn: Ridge by oneDAL's normal equations."""

from importlib.util import find_spec

from benchmark_utils.wrapper import RidgeSolver

# Imported when it is first run, and not by every run: it brings a thread pool of its own.
if find_spec("sklearnex") is None:
    raise ImportError("No module named 'sklearnex'")


class Solver(RidgeSolver):
    """alpha = nλ, as in scikit-learn. Sparse data would fall back to scikit-learn's own solver."""

    name = "sklearnex"
    sampling_strategy = "run_once"
    requirements = ["pip::scikit-learn-intelex"]
    takes_sparse = False

    def operations(self, n, d, nonzeros):
        return n * d**2 + d**3 / 3

    def fit(self, X, y, lam, setting):
        from sklearnex.linear_model import Ridge

        return Ridge(alpha=y.size * lam, fit_intercept=False, copy_X=False).fit(X, y).coef_
