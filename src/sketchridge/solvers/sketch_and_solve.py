"""Sketch and solve: the ridge problem of an embedding of the rows, solved directly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchridge.preconditioner import Preconditioner, RowEmbedding, Rows
from sketchridge.preconditioner.base import check_rows, resolve_rows
from sketchridge.preconditioner.embedding import Kind, check_kind
from sketchridge.preconditioner.factor import FactorCurvature, factorise
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates


@dataclass(frozen=True)
class SketchAndSolve:
    """The minimum of ½‖S(Xw − y)‖² + λ/2‖w‖²: one answer, with its honest gap, usually large.

    Parameters
    ----------
    rows
        The number s of rows of S X; "auto" is 4d, and half of the rows where there are few.
    kind
        "sparse_sign" throws every row into four buckets, "countsketch" into one.
    """

    rows: Rows = "auto"
    kind: Kind = "sparse_sign"
    name: ClassVar[str] = "sketch_and_solve"
    summary: ClassVar[str] = "the problem of embedded rows S X, S y, solved directly; not iterative"
    cost: ClassVar[str] = "two passes and one factorisation of s rows, in all"
    use_when: ClassVar[str] = "a rough answer will do, and n ≫ d"
    uses_preconditioner: ClassVar[bool] = False
    default_preconditioner: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        check_rows(self.rows)
        check_kind(self.kind)

    def _rows(self, problem: RidgeProblem) -> int:
        return resolve_rows(self.rows, 4, problem, self.name)

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """S, the rows of S X, and the factor."""
        return RowEmbedding(self.kind, self._rows(problem), problem.n, 0).memory(problem)

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: Preconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the one point, with its fresh gradient and the factor as its certificate."""
        embedding = RowEmbedding.draw(self.kind, self._rows(problem), problem.n, rng)
        rows, targets = embedding.embed(problem)
        factor, raised = factorise(rows, problem.lam)
        rounding = embedding.rounding(problem)
        curvature = FactorCurvature(factor, problem.lam, embedding.excess, rounding)
        W = factor.solve(rows.adjoint(targets))
        event = "; ".join([f"{problem.n} rows embedded into {embedding.rows}", *raised])
        yield Iterate(W, evaluation=problem.evaluate(W), curvature=curvature, event=event)
