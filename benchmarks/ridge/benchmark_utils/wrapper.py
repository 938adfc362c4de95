"""What every solver of this benchmark has in common."""

import json
import os
import time
import warnings
from pathlib import Path

from benchopt import BaseSolver
from benchopt.stopping_criterion import StoppingCriterion
from scipy import sparse

from benchmark_utils.memory import PeakMemory
from benchmark_utils.runs import LEVELS, REPLAY
from benchmark_utils.sweep import Trial, next_effort

# More operations than this before the first answer, and a solver is out of the question here: the
# best peer needs seconds on these problems, this one minutes.
MOST_OPERATIONS = 1e12
# Seconds before every run, for BLAS's threads, which scored the last one, go on spinning.
SETTLE = 0.2


class Sweep(StoppingCriterion):
    """Ask the solver for its next setting, or take the settings of an earlier round."""

    def get_runner_instance(self, **kwargs):
        instance = super().get_runner_instance(**kwargs)
        instance.solver.time_limit = instance.timeout
        return instance

    def init_stop_val(self):
        self.replayed = _replayed(self.run_key, int if self.strategy == "iteration" else float)
        return self.solver.first_setting() if self.replayed is None else self.replayed[0]

    def should_stop(self, stop_val, objective_list):
        trials = [
            Trial(run["stop_val"], run["time"], run["objective_suboptimality"])
            for run in objective_list
        ]
        setting = self._next(trials)
        if setting is None:
            return True, "done", stop_val
        return False, "running", setting

    def _next(self, trials):
        if self.replayed is not None:
            return dict(enumerate(self.replayed)).get(len(trials))
        limit = float("inf") if self.timeout is None else self.timeout
        return self.solver.next_setting(trials, limit - sum(trial.seconds for trial in trials))


def _replayed(run_key, kind):
    path = os.environ.get(REPLAY)
    if not path:
        return None
    settings = json.loads(Path(path).read_text())[" | ".join(run_key)]
    return [kind(setting) for setting in settings]


class RidgeSolver(BaseSolver):
    """A solver of 1/(2n) ‖Xw − y‖² + lam/2 ‖w‖²: a subclass says how `fit` does it.

    The strategy "iteration" sweeps the iterations, "run_once" has nothing to sweep, and
    "tolerance" asks for each level in turn (a solver whose tolerance means the same as ours).
    """

    levels = LEVELS
    takes_sparse = True
    warm_up_rows = 64
    time_limit = None  # seconds, for those that can be told

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.stopping_criterion = Sweep()  # one for each: benchopt writes the strategy into it

    def fit(self, X, y, lam, setting):
        """Solve, and return the coefficients; this is what is timed."""
        raise NotImplementedError

    def prepare(self, X, y):
        """Bring the data into the form that the library takes; this is not timed."""
        return X, y

    def operations(self, n, d, nonzeros):
        """About how many arithmetic operations come before the first answer."""
        return 0.0

    def skip(self, X, y, lam):
        if sparse.issparse(X) and not self.takes_sparse:
            return True, "it takes no sparse data"
        operations = self.operations(*X.shape, X.nnz if sparse.issparse(X) else X.size)
        if operations > MOST_OPERATIONS:
            return True, f"about {operations:.0e} operations come before its first answer"
        return False, None

    def set_objective(self, X, y, lam):
        self.data, self.lam = (X, y), lam
        self.X, self.y = self.prepare(X, y)

    def warm_up(self):
        X, y = self.data
        some = slice(self.warm_up_rows)
        self._quietly(*self.prepare(X[some], y[some]), self.first_setting())

    def first_setting(self):
        return 1

    def next_setting(self, trials, seconds_left):
        if self.sampling_strategy == "run_once":
            return None
        return next_effort(trials, self.levels, seconds_left)

    def pre_run_hook(self, setting):
        time.sleep(SETTLE)
        self.memory = PeakMemory()

    def run(self, setting):
        self.coef = self._quietly(self.X, self.y, setting)

    def _quietly(self, X, y, setting):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # most warn that they did not converge: they were told
            return self.fit(X, y, self.lam, setting)

    def get_result(self):
        return {"beta": self.coef.ravel(), "peak_memory": self.memory.bytes()}
