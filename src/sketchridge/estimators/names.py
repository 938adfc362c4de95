"""scikit-learn's solver names, and what they mean here."""

from __future__ import annotations

from typing import Any

from sketchridge.solvers import SOLVERS

# The first of these that exists serves.
MEANINGS = {
    "svd": ("direct",),
    "cholesky": ("direct",),
    "lsqr": ("cg",),
    "sparse_cg": ("cg",),
    "lbfgs": ("cg",),
    "sag": ("sag", "svrg"),
    "saga": ("saga", "svrg"),
}


def translate_solver(solver: Any) -> tuple[Any, list[str]]:
    """The solver by our name, and a note if that is another than the one given."""
    if not isinstance(solver, str) or solver not in MEANINGS:
        return solver, []
    ours = next(name for name in MEANINGS[solver] if name in SOLVERS)
    if ours == solver:
        return ours, []
    return ours, [f"solver={solver!r} is scikit-learn's name: {ours!r} serves here"]
