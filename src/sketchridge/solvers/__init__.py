"""The solvers, one algorithm a file, and what goes with what."""

from __future__ import annotations

from typing import Any

from sketchridge.preconditioner import PRECONDITIONERS
from sketchridge.solvers.accelerated_svrg import AcceleratedSVRG
from sketchridge.solvers.agd import AGD
from sketchridge.solvers.base import Iterate, Iterates, Solver
from sketchridge.solvers.cg import CG
from sketchridge.solvers.direct import Direct
from sketchridge.solvers.gd import GD
from sketchridge.solvers.kaczmarz import Kaczmarz
from sketchridge.solvers.sag import SAG
from sketchridge.solvers.saga import SAGA
from sketchridge.solvers.sdca import SDCA
from sketchridge.solvers.sketch_and_solve import SketchAndSolve
from sketchridge.solvers.svrg import SVRG

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        Direct,
        CG,
        SVRG,
        AcceleratedSVRG,
        SAGA,
        SAG,
        SDCA,
        GD,
        AGD,
        Kaczmarz,
        SketchAndSolve,
    )
}

# A full gradient can be multiplied by any P⁻¹. A stochastic step, in O(nnz(x_i) + k), only by
# a·I + U diag(e − a) Uᵀ; on scaled columns it solves another problem, which will do for a
# direction. The rest have no use for a preconditioner.
ANY = tuple(PRECONDITIONERS)
LOW_RANK = ("none", "exact", "lanczos", "nystrom")
BY_COLUMNS = ("none", "diagonal", "exact", "lanczos", "nystrom")
ALONE = ("none",)
ALLOWED: dict[str, tuple[str, ...]] = {
    "direct": ALONE,
    "cg": ANY,
    "gd": ANY,
    "agd": ANY,
    "sketch_and_solve": ALONE,
    "svrg": LOW_RANK,
    "accelerated_svrg": BY_COLUMNS,
    "saga": LOW_RANK,
    "sag": LOW_RANK,
    "sdca": LOW_RANK,
    "kaczmarz": ALONE,
}
_WHY_ALONE = {
    "direct": "it is exact without",
    "sketch_and_solve": "it is one direct solve; use solver='cg', preconditioner='embedding' to "
    "go on from a sketch to any accuracy",
    "kaczmarz": "on preconditioned rows it would solve another problem, with the penalty wᵀPw; "
    "use solver='svrg', or 'cg'",
}


def check_allowed(solver: Solver, preconditioner: Any) -> None:
    """Refuse a preconditioner, a recipe or a built one, that does not go with the solver."""
    allowed = ALLOWED[solver.name]
    if isinstance(solver, CG) and solver.rare_columns == "eliminated":
        _check_columns_alone(preconditioner)
    if isinstance(solver, AcceleratedSVRG) and not solver.takes_scaled_columns:
        allowed = LOW_RANK
    known = preconditioner.name in allowed
    if known and (preconditioner.low_rank or allowed != LOW_RANK):
        return
    method = f" (method={solver.method!r})" if isinstance(solver, AcceleratedSVRG) else ""
    pair = f"preconditioner={preconditioner.name!r} does not go with solver={solver.name!r}{method}"
    if allowed == ALONE:
        why = _WHY_ALONE.get(solver.name, "it works without")
        raise ValueError(f"{pair}: {why}; leave it at 'auto'")
    what = f"{preconditioner.name!r} with scaled columns" if known else repr(preconditioner.name)
    raise ValueError(
        f"{pair}: a stochastic step needs P = low rank plus identity, which {what} is not; use "
        f"preconditioner='lanczos' or 'nystrom' (scaling=0) with {solver.name!r}, or solver='cg' "
        f"with {preconditioner.name!r}{_or_conjugate(preconditioner)}"
    )


def _or_conjugate(preconditioner: Any) -> str:
    """What else goes with scaled columns."""
    scaled = preconditioner.name in BY_COLUMNS
    return ", or AcceleratedSVRG(method='conjugate')" if scaled else ""


def _check_columns_alone(preconditioner: Any) -> None:
    """Leaving columns out goes with preconditioners that treat every column by itself."""
    if preconditioner.name not in ("none", "diagonal"):
        raise ValueError(
            f"preconditioner={preconditioner.name!r} does not go with CG(rare_columns="
            "'eliminated'): it mixes the columns; use 'none' or 'diagonal', or "
            "rare_columns='given'"
        )


__all__ = [
    "AGD",
    "ALLOWED",
    "CG",
    "GD",
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
    "SketchAndSolve",
    "Solver",
    "check_allowed",
]
