"""The solvers, one algorithm a file."""

from __future__ import annotations

from sketchridge.solvers.accelerated_svrg import AcceleratedSVRG
from sketchridge.solvers.base import Iterate, Iterates, Solver
from sketchridge.solvers.cg import CG
from sketchridge.solvers.direct import Direct
from sketchridge.solvers.kaczmarz import Kaczmarz
from sketchridge.solvers.sag import SAG
from sketchridge.solvers.saga import SAGA
from sketchridge.solvers.sdca import SDCA
from sketchridge.solvers.svrg import SVRG

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver for solver in (Direct, CG, SVRG, AcceleratedSVRG, SAGA, SAG, SDCA, Kaczmarz)
}

__all__ = [
    "CG",
    "SAG",
    "SAGA",
    "SDCA",
    "SOLVERS",
    "SVRG",
    "AcceleratedSVRG",
    "Direct",
    "Iterate",
    "Iterates",
    "Kaczmarz",
    "Solver",
]
