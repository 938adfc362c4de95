"""Ridge regression at scale, by sketching, with a certified accuracy on every answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sketchridge.comparison import Comparison, compare
    from sketchridge.driver import solve
    from sketchridge.preconditioner import (
        Diagonal,
        Embedding,
        Exact,
        Lanczos,
        NoPreconditioner,
        Nystrom,
        RowSampling,
    )
    from sketchridge.solution import Plan, Record, Solution, Status
    from sketchridge.solvers import AGD, CG, GD, SVRG, Direct, SketchAndSolve

__version__ = "0.1.0"

__all__ = [
    "AGD",
    "CG",
    "GD",
    "SVRG",
    "Comparison",
    "Diagonal",
    "Direct",
    "Embedding",
    "Exact",
    "Lanczos",
    "NoPreconditioner",
    "Nystrom",
    "Plan",
    "Record",
    "RowSampling",
    "SketchAndSolve",
    "Solution",
    "Status",
    "compare",
    "solve",
]

# Loaded when first used: scipy alone takes longer to import than numpy.
_HOMES = {
    "sketchridge.comparison": ("Comparison", "compare"),
    "sketchridge.driver": ("solve",),
    "sketchridge.preconditioner": (
        "Diagonal",
        "Embedding",
        "Exact",
        "Lanczos",
        "NoPreconditioner",
        "Nystrom",
        "RowSampling",
    ),
    "sketchridge.solution": ("Plan", "Record", "Solution", "Status"),
    "sketchridge.solvers": ("AGD", "CG", "GD", "SVRG", "Direct", "SketchAndSolve"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sketchridge' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
