"""Which solver and preconditioner: by name, by object, or the cheapest of those that fit.

"auto" is decided in two steps. From the shapes alone, before anything is read: small problems are
factorised at once, without a thought (`names`). For the rest a small sketch tells of the spectrum,
the machine's speeds turn work into seconds (`candidates`), and the cheapest candidate that fits the
memory is taken (`planning`); the sketch is used again. If the solver then contracts more slowly
than a sure method would take from the beginning, the plan changes to that one, and goes on from the
point that was reached (`pace`). Predictions decide, never the clock: the same input, seed and
machine file give the same answer.
"""

from sketchridge.planner.choice import Choice, memory_needed
from sketchridge.planner.names import DIRECT_SIZE, choose
from sketchridge.planner.pace import Pace, changed, fallen_back
from sketchridge.planner.planning import plan

__all__ = [
    "DIRECT_SIZE",
    "Choice",
    "Pace",
    "changed",
    "choose",
    "fallen_back",
    "memory_needed",
    "plan",
]
