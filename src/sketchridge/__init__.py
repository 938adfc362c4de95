"""Ridge regression at scale, by sketching, with a certified accuracy on every answer."""

from __future__ import annotations

from sketchridge.driver import solve
from sketchridge.preconditioner import Exact, Lanczos, NoPreconditioner, Nystrom
from sketchridge.solution import Plan, Record, Solution, Status
from sketchridge.solvers import CG, SVRG, Direct

__version__ = "0.1.0"

__all__ = [
    "CG",
    "SVRG",
    "Direct",
    "Exact",
    "Lanczos",
    "NoPreconditioner",
    "Nystrom",
    "Plan",
    "Record",
    "Solution",
    "Status",
    "solve",
]
