"""Which solver and preconditioner: by name, by object, or the cheapest of those that fit.

"auto" is decided in two steps. From the shapes alone, before anything is read: small problems are
factorised at once, without a thought (`resolving`). For the rest a few rows (`looks`) and the
machine's speeds tell what each method would cost (`candidates`); where plain conjugate gradients
may do they are tried, else a small sketch tells of the spectrum where that may pay, and the
cheapest that fits the memory is taken (`planning`). What comes of it is a `choice`. If the solver
then contracts more slowly than another method would take from the beginning, the plan changes to
that one, and goes on from the point that was reached (`pace`). Predictions decide, never the clock:
the same input, seed and machine file give the same answer.
"""

from sketchridge.planner.choice import Choice, memory_needed
from sketchridge.planner.pace import Pace, changed, fallen_back
from sketchridge.planner.planning import plan
from sketchridge.planner.resolving import DIRECT_SIZE, choose

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
