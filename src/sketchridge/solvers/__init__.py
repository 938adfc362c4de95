"""The solvers, one algorithm a file."""

from __future__ import annotations

from sketchridge.solvers.base import Iterate, Iterates, Solver
from sketchridge.solvers.cg import CG
from sketchridge.solvers.direct import Direct
from sketchridge.solvers.svrg import SVRG

SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in (Direct, CG, SVRG)}

__all__ = ["CG", "SOLVERS", "SVRG", "Direct", "Iterate", "Iterates", "Solver"]
