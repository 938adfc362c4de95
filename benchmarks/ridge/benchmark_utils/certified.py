"""sketchridge's own solvers: one run a level, with the level as the certified tolerance."""

from dataclasses import replace

from benchmark_utils.runs import ALL_LEVELS
from benchmark_utils.wrapper import RidgeSolver
from sketchridge import solve


class CertifiedSolver(RidgeSolver):
    """A subclass says with which arguments `solve` is called.

    A patient one is asked for every level, whatever the time limit.
    """

    levels = ALL_LEVELS
    warm_up_level = ALL_LEVELS[0]
    patient = False

    def method(self):
        raise NotImplementedError

    def first_setting(self):
        return self.levels[0]

    def next_setting(self, trials, seconds_left):
        """The next level, if this one was reached in time."""
        done = len(trials)
        if done == len(self.levels) or not trials[-1].reaches(self.levels[done - 1]):
            return None
        return self.levels[done] if self.patient or seconds_left > 0 else None

    def pre_run_hook(self, setting):
        self.solution = None  # whose preconditioner would stay beside that of this run
        super().pre_run_hook(setting)

    def warm_up(self):
        # On the problem itself, for other sizes compile other kernels.
        self.fit(self.X, self.y, self.lam, self.warm_up_level)

    def fit(self, X, y, lam, setting):
        self.tol = setting
        limit = None if self.patient else self.time_limit
        self.solution = solve(
            X, y, lam, tol=setting, max_seconds=limit, random_state=0, **self.method()
        )
        return self.solution.coef

    def get_result(self):
        # Without what it preconditions with: benchopt keeps a result until the next one is there.
        light = replace(self.solution, preconditioner=None, _counter=None)
        return {**super().get_result(), "solution": light, "tol": self.tol}
