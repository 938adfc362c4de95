"""SVRG (the paper's Algorithm 1) and, with a preconditioner, sketched preconditioned SVRG (3).

The algorithm runs in the original coordinates: preconditioned SVRG on w̃ = P^{1/2} w is SVRG on w
whose every step is multiplied by P⁻¹. The preconditioned data is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates
from sketchridge.solvers.components import Components, Order, Regularization, grown, memory_of_rows
from sketchridge.threads import thread_count
from sketchridge.validation import check_integer, check_optional

if TYPE_CHECKING:
    from sketchridge.kernels import Steps

Snapshot = Literal["average", "last"]

# In units of 1/β̂. Averaged snapshots bear about 1.5; the last iterate diverges from about 1 on.
BOLD_STEPS: dict[Snapshot, float] = {"average": 1.5, "last": 0.5}
BACK_OFF = 0.5
# Threads meet after every four rows, which takes as long as to read a few hundred numbers.
COLUMNS_A_THREAD = 1024
PER_CACHE_LINE = 8  # numbers of 8 bytes


@dataclass(frozen=True)
class SVRG:
    """Stochastic variance reduced gradient with importance sampling.

    Parameters
    ----------
    step
        The step in units of 1/β̂, β̂ the average smoothness. None starts bold and backs off from
        the best snapshot whenever the objective grows.
    epoch_length
        The number m of steps between snapshots; None is n.
    snapshot
        The next snapshot is the "average" of the epoch's iterates, or its "last" one.
    regularization
        "exact" handles the regulariser in full at every step; "sampled" draws it as d further
        components, as the paper does.
    """

    step: float | None = None
    epoch_length: int | None = None
    snapshot: Snapshot = "average"
    regularization: Regularization = "exact"
    name: ClassVar[str] = "svrg"
    summary: ClassVar[str] = "variance-reduced stochastic gradient, the paper's method"
    cost: ClassVar[str] = "two passes an epoch, O(nnz(x_i) + k) a step"
    use_when: ClassVar[str] = "κ̃ is below n and a moderate accuracy will do"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "lanczos"

    def __post_init__(self) -> None:
        check_optional("step", self.step, "give a positive number, in units of 1/β̂, or None")
        if self.epoch_length is not None:
            check_integer("epoch_length", self.epoch_length, 1, "give the steps between snapshots")
        if self.snapshot not in ("average", "last"):
            raise ValueError(f"snapshot={self.snapshot!r} must be 'average' or 'last'")
        if self.regularization not in ("exact", "sampled"):
            raise ValueError(f"regularization={self.regularization!r} must be 'exact' or 'sampled'")

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The rows' coordinates in the preconditioner's basis, and a copy of Fortran rows."""
        sampled = problem.d if self.regularization == "sampled" else 0
        return memory_of_rows(problem, rank, problem.n + sampled)

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the snapshots, each with its fresh gradient."""
        components = Components.of(problem, preconditioner, self.regularization)
        length = self.epoch_length or problem.n
        steps = np.full(problem.targets, self.step or BOLD_STEPS[self.snapshot])
        snapshot = problem.evaluate(start)
        yield Iterate(snapshot.coef, evaluation=snapshot)
        while True:
            order = components.draw(rng, length)
            coef = snapshot.coef + svrg_moves(
                problem,
                components,
                snapshot.gradient,
                order,
                steps / components.smoothness,
                self.snapshot,
            )
            problem.passes += length / problem.n
            latest = problem.evaluate(coef)
            event = None
            if self.step is None:
                grew = grown(latest, snapshot, problem.null_objective)
                if grew.any():
                    event = f"objective grew: back to the best snapshot, step {steps[grew].min():g}"
                    steps = np.where(grew, steps * BACK_OFF, steps)
                    event += f" → {steps[grew].min():g}"
                latest = latest.replaced(by=snapshot, where=grew)
            snapshot = latest
            yield Iterate(snapshot.coef, evaluation=snapshot, event=event)


def svrg_moves(
    problem: RidgeProblem,
    components: Components,
    gradients: Array,
    order: Order,
    steps: Array,
    snapshot: Snapshot,
    proximity: float = 0.0,
) -> Array:
    """The snapshot's move (d, t): one epoch for every target, on the same rows.

    Steps (t,) are absolute. With a proximity κ the objective has κ/2 ‖w − w₀‖² in P's metric
    besides, and the gradients (d, t) are those of the sum.
    """
    moves = np.empty_like(gradients)
    for target, gradient in enumerate(gradients.T):
        scalars = _epoch_steps(components, steps[target], order.size, snapshot, proximity)
        moves[:, target] = _one_move(
            problem, components, np.ascontiguousarray(gradient), order, scalars
        )
    return moves


def _one_move(
    problem: RidgeProblem, components: Components, gradient: Array, order: Order, steps: Steps
) -> Array:
    """The move of one target, (d,); the threads share the columns of dense rows."""
    from sketchridge import kernels

    rows, d = problem.rows, problem.d
    direction = components.direction(gradient)
    dense = isinstance(rows, np.ndarray)
    between = [] if dense else [gradient]
    state = kernels.bundle(rows, np.zeros(d), *between, np.zeros(d))
    bounds = np.array(column_bounds(d, thread_count()) if dense else [0, d])
    parts = bounds.size - 1
    mail = np.zeros((2, parts, kernels.SUMS))
    posted = np.zeros((parts, kernels.PER_CACHE_LINE), dtype=np.int64)
    epoch = partial(
        kernels.svrg_epoch,
        rows,
        order,
        components.scales,
        components.coordinates,
        components.centre,
        direction,
        steps,
    )
    alone = [partial(epoch, kernels.Channel(kernels.ALONE, bounds, mail, posted), state)]
    together = [
        partial(epoch, kernels.Channel(part, bounds, mail, posted), state) for part in range(parts)
    ]
    basis_point: Array = components.team.run(together, alone)[0]
    inside: Array = components.preconditioner.basis @ basis_point
    return kernels.unbundle(rows, state)[-1] + inside


def column_bounds(d: int, threads: int) -> list[int]:
    """Where to part d columns among threads that wait for each other: none for short rows.

    The cut depends on nothing but d and the number of threads, so that the answer does.
    """
    parts = max(1, min(threads, d // COLUMNS_A_THREAD))
    return [d * part // parts // PER_CACHE_LINE * PER_CACHE_LINE for part in range(parts)] + [d]


def _epoch_steps(
    components: Components, step: float, length: int, snapshot: Snapshot, proximity: float
) -> Steps:
    """The scalars of an epoch with absolute step η.

    A row enters s with −ηaδ and is shrunk by ρ at every later step: its weight in the average
    of m iterates is Σ_{j ≤ m−t} ρ^j / m, and in the last iterate ρ^{m−t}.
    """
    from sketchridge import kernels

    outside = components.preconditioner.outside
    shrink = 1.0 - step * (outside * components.shrinking + proximity)
    powers: Array = np.float64(shrink) ** np.arange(length)
    if snapshot == "average":
        row_weights: Array = np.cumsum(powers)[::-1] / length
        basis_weights = np.full(length, 1.0 / length)
    else:
        row_weights, basis_weights = powers[::-1].copy(), np.zeros(length)
        basis_weights[-1] = 1.0
    inside = step * components.preconditioner.inside
    return kernels.Steps(
        shrink,
        step * outside,
        inside,
        1.0 - inside * components.shrinking - step * proximity,
        row_weights,
        basis_weights,
    )
