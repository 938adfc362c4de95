"""Preconditioners: a matrix P near H = C + λI whose inverse is cheap to apply.

A specification (`Lanczos(rank=30)`) builds a `Preconditioner` for a problem; a built one can be
passed to many solves, with any λ.
"""

from __future__ import annotations

from sketchridge.preconditioner.base import Preconditioner, PreconditionerSpec, Rank, Rows
from sketchridge.preconditioner.by_columns import by_columns
from sketchridge.preconditioner.diagonal import Diagonal, DiagonalPreconditioner
from sketchridge.preconditioner.embedding import Embedding, RowEmbedding
from sketchridge.preconditioner.factor import FactorCurvature
from sketchridge.preconditioner.low_rank import (
    Exact,
    Lanczos,
    LowRankPreconditioner,
    NoPreconditioner,
    Nystrom,
    from_spectrum,
)
from sketchridge.preconditioner.row_sampling import (
    RowSampling,
    counted_dimension,
    counting_memory,
)
from sketchridge.preconditioner.scaled import ScaledPreconditioner
from sketchridge.preconditioner.sketched import SketchedPreconditioner

PRECONDITIONERS: dict[str, type[PreconditionerSpec]] = {
    spec.name: spec
    for spec in (NoPreconditioner, Diagonal, Exact, Lanczos, Nystrom, Embedding, RowSampling)
}
BuiltPreconditioner = (
    LowRankPreconditioner | DiagonalPreconditioner | ScaledPreconditioner | SketchedPreconditioner
)

__all__ = [
    "PRECONDITIONERS",
    "BuiltPreconditioner",
    "Diagonal",
    "DiagonalPreconditioner",
    "Embedding",
    "Exact",
    "FactorCurvature",
    "Lanczos",
    "LowRankPreconditioner",
    "NoPreconditioner",
    "Nystrom",
    "Preconditioner",
    "PreconditionerSpec",
    "Rank",
    "RowEmbedding",
    "RowSampling",
    "Rows",
    "ScaledPreconditioner",
    "SketchedPreconditioner",
    "by_columns",
    "counted_dimension",
    "counting_memory",
    "from_spectrum",
]
