"""scikit-learn's solver names, and what they mean here; sag and saga are names of ours too."""

from __future__ import annotations

from typing import Any

MEANINGS = {
    "svd": "direct",
    "cholesky": "direct",
    "lsqr": "cg",
    "sparse_cg": "cg",
    "lbfgs": "cg",
}


def translate_solver(solver: Any) -> tuple[Any, list[str]]:
    """The solver by our name, and a note if that is another than the one given."""
    if not isinstance(solver, str) or solver not in MEANINGS:
        return solver, []
    ours = MEANINGS[solver]
    return ours, [f"solver={solver!r} is scikit-learn's name: {ours!r} serves here"]
