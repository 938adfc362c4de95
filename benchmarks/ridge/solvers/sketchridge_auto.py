"""sketchridge as its user calls it: solver="auto", stopped by its certificate."""

from benchmark_utils.certified import CertifiedSolver
from benchmark_utils.runs import LEVELS


class Solver(CertifiedSolver):
    """The planner's choice."""

    name = "sketchridge"
    sampling_strategy = "tolerance"
    requirements = ["pip::sketchridge"]
    patient = True
    warm_up_level = LEVELS[-1]  # the planner may choose otherwise at a coarser one

    def method(self):
        return {"solver": "auto"}
