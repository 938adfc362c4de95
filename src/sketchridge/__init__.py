"""Ridge regression at scale, by sketching, with a certified accuracy on every answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sketchridge.version import __version__

if TYPE_CHECKING:
    from sketchridge.comparison import Comparison, compare
    from sketchridge.diagnostics import Diagnosis, diagnose
    from sketchridge.driver import solve
    from sketchridge.estimators import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
    from sketchridge.path import RidgePath, ridge_path
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
    from sketchridge.solvers import (
        AGD,
        CG,
        GD,
        SAG,
        SAGA,
        SDCA,
        SVRG,
        AcceleratedSVRG,
        Direct,
        Kaczmarz,
        SketchAndSolve,
    )

__all__ = [
    "AGD",
    "CG",
    "GD",
    "SAG",
    "SAGA",
    "SDCA",
    "SVRG",
    "AcceleratedSVRG",
    "Comparison",
    "Diagnosis",
    "Diagonal",
    "Direct",
    "Embedding",
    "Exact",
    "Kaczmarz",
    "Lanczos",
    "NoPreconditioner",
    "Nystrom",
    "Plan",
    "Record",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "RidgePath",
    "RowSampling",
    "SketchAndSolve",
    "Solution",
    "Status",
    "__version__",
    "compare",
    "diagnose",
    "ridge_path",
    "solve",
]

# Loaded when first used: scipy alone takes longer to import than numpy.
_HOMES = {
    "sketchridge.diagnostics": ("Diagnosis", "diagnose"),
    "sketchridge.comparison": ("Comparison", "compare"),
    "sketchridge.driver": ("solve",),
    "sketchridge.estimators": ("Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV"),
    "sketchridge.path": ("RidgePath", "ridge_path"),
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
    "sketchridge.solvers": (
        "AGD",
        "CG",
        "GD",
        "SAG",
        "SAGA",
        "SDCA",
        "SVRG",
        "AcceleratedSVRG",
        "Direct",
        "Kaczmarz",
        "SketchAndSolve",
    ),
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
