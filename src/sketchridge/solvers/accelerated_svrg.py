"""Accelerated SVRG: the rate √(n κ̃) of the paper's main theorem.

Two ways. "katyusha" is Katyusha's momentum (Allen-Zhu; Kovalev, Horváth and Richtárik) between
snapshots; "catalyst" is the paper's reference, Catalyst (Lin, Mairal, Harchaoui) around SVRG.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sketchridge.preconditioner import LowRankPreconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates
from sketchridge.solvers.components import Components, Order, grown, memory_of_rows
from sketchridge.solvers.svrg import BACK_OFF, BOLD_STEPS, svrg_moves

Method = Literal["katyusha", "catalyst"]

BOLD_STEP = 1.0  # Katyusha's, in units of 1/β̂
# The snapshot's share of the point where the gradient is taken.
SNAPSHOT_SHARE = 0.5
# More coupling than this is plain SVRG's regime, and the fast mode would be folded too often.
LARGEST_COUPLING = 0.3


@dataclass(frozen=True)
class AcceleratedSVRG:
    """SVRG with momentum.

    The strong convexity is λa, what is known outside the sketch; the smoothness is β̂.

    Parameters
    ----------
    method
        "katyusha", or "catalyst".
    """

    method: Method = "katyusha"
    name: ClassVar[str] = "accelerated_svrg"
    summary: ClassVar[str] = "SVRG with momentum: passes grow with √κ̃"
    cost: ClassVar[str] = "two passes an epoch, three for sparse data"
    use_when: ClassVar[str] = "κ̃ is far above n even with the sketch"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "lanczos"

    def __post_init__(self) -> None:
        if self.method not in ("katyusha", "catalyst"):
            raise ValueError(f"method={self.method!r} must be 'katyusha' or 'catalyst'")

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The rows' coordinates in the preconditioner's basis, and a copy of Fortran rows."""
        return memory_of_rows(problem, rank, problem.n)

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: LowRankPreconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the snapshots, each with its fresh gradient."""
        components = Components.of(problem, preconditioner)
        return METHODS[self.method](problem, components, start, rng)


def katyusha(
    problem: RidgeProblem, components: Components, start: Array, rng: np.random.Generator
) -> Iterates:
    """Katyusha's momentum between snapshots, which are its last points y."""
    snapshot = problem.evaluate(start)
    yield Iterate(snapshot.coef, evaluation=snapshot)
    ahead = np.zeros_like(start)  # z, measured from the snapshot
    steps = np.full(problem.targets, BOLD_STEP)
    while True:
        order = components.draw(rng, problem.n)
        moves, ahead_after = _epoch(problem, components, snapshot.gradient, order, steps, ahead)
        problem.passes += 1
        latest = problem.evaluate(snapshot.coef + moves)
        grew = grown(latest, snapshot, problem.null_objective)
        steps, event = _back_off(steps, grew, resting=np.all(ahead == 0, axis=0))
        ahead = np.where(grew, 0.0, ahead_after)
        snapshot = latest.replaced(by=snapshot, where=grew)
        yield Iterate(snapshot.coef, evaluation=snapshot, event=event)


def catalyst(
    problem: RidgeProblem, components: Components, start: Array, rng: np.random.Generator
) -> Iterates:
    """One epoch of SVRG from v on F + κ/2 ‖w − v‖²_P after another, with v extrapolated.

    The points v are yielded: the epoch needs their gradients.
    """
    convexity = problem.lam * components.preconditioner.outside
    proximity = max(0.0, components.smoothness / (problem.n + 1) - convexity)  # κ
    root = np.sqrt(convexity / (convexity + proximity))
    momentum = (1.0 - root) / (1.0 + root)
    extrapolated, point = problem.evaluate(start), start
    yield Iterate(start, evaluation=extrapolated)
    steps = np.full(problem.targets, BOLD_STEPS["average"])
    while True:
        order = components.draw(rng, problem.n)
        moves = svrg_moves(
            problem,
            components,
            extrapolated.gradient,
            order,
            steps / (components.smoothness + proximity),
            "average",
            proximity,
        )
        problem.passes += 1
        reached = extrapolated.coef + moves
        latest = problem.evaluate(reached + momentum * (reached - point))
        grew = grown(latest, extrapolated, problem.null_objective)
        resting = np.all(extrapolated.coef == point, axis=0)
        steps, event = _back_off(steps, grew, resting)
        extrapolated = latest.replaced(by=extrapolated, where=grew)
        point = np.where(grew, extrapolated.coef, reached)
        yield Iterate(extrapolated.coef, evaluation=extrapolated, event=event)


METHODS = {"katyusha": katyusha, "catalyst": catalyst}


def _back_off(
    steps: Array, grew: NDArray[np.bool_], resting: NDArray[np.bool_]
) -> tuple[Array, str | None]:
    """The steps (t,) and what happened: momentum is given up first, then the step is halved."""
    if not grew.any():
        return steps, None
    smaller = grew & resting
    if not smaller.any():
        return steps, "objective grew: back to the best point, momentum set to zero"
    after = np.where(smaller, steps * BACK_OFF, steps)
    change = f"step {steps[smaller].min():g} → {after[smaller].min():g}"
    return after, f"objective grew: back to the best point, {change}"


def _epoch(
    problem: RidgeProblem,
    components: Components,
    gradients: Array,
    order: Order,
    steps: Array,
    ahead: Array,
) -> tuple[Array, Array]:
    """The snapshot's move, and where z then is from there, (d, t) each."""
    moves, after = np.empty_like(gradients), np.empty_like(gradients)
    for target, gradient in enumerate(gradients.T):
        point, auxiliary = accelerated_epoch(
            problem,
            components,
            np.ascontiguousarray(gradient),
            order,
            steps[target],
            np.ascontiguousarray(ahead[:, target]),
        )
        moves[:, target], after[:, target] = point, auxiliary - point
    return moves, after


@dataclass(frozen=True)
class Rates:
    """Loopless Katyusha's parameters, in the preconditioned coordinates."""

    coupling: float  # τ, the share of z
    step: float  # η
    decay: float  # γ = 1 / (1 + ημ)

    @classmethod
    def of(cls, smoothness: float, convexity: float, epoch_length: int) -> Rates:
        """τ = √(⅔ m μ/β), η = 1/(3τβ)."""
        coupling = min(np.sqrt(2 / 3 * epoch_length * convexity / smoothness), LARGEST_COUPLING)
        step = 1.0 / (3.0 * coupling * smoothness)
        return cls(float(coupling), float(step), float(1.0 / (1.0 + step * convexity)))


def accelerated_epoch(
    problem: RidgeProblem,
    components: Components,
    gradient: Array,
    order: Order,
    step: float,
    ahead: Array,
) -> tuple[Array, Array]:
    """y and z, measured from the snapshot, after the steps `order` (m,); (d,) each."""
    from sketchridge import kernels

    preconditioner = components.preconditioner
    convexity = problem.lam * preconditioner.outside
    rates = Rates.of(components.smoothness / step, convexity, order.size)
    rest = 1.0 - SNAPSHOT_SHARE - rates.coupling
    share = rates.coupling / (1.0 - rest / rates.decay)
    scaled = rates.decay * rates.step
    pair = kernels.bundle(problem.rows, ahead, -share * ahead)
    in_basis = preconditioner.basis.T @ ahead
    basis = np.stack([in_basis, np.zeros_like(in_basis), in_basis, -share * in_basis])
    # A pass for sparse rows; the kernel makes the products of dense ones as it reads them.
    lazy = isinstance(problem.rows, kernels.CSR)
    products = problem.multiply(gradient[:, None])[:, 0] if lazy else np.zeros(0)
    direction = components.direction(gradient, products)
    slow, fast = kernels.accelerated_epoch(
        problem.rows,
        order,
        components.scales,
        components.coordinates,
        components.centre,
        direction,
        kernels.Momentum(
            rates.coupling,
            rest,
            rates.decay,
            scaled * preconditioner.outside,
            scaled * preconditioner.inside,
            scaled * convexity,
            problem.lam,
        ),
        pair,
        basis,
    )
    mean = 0.0 if problem.mean is None else problem.mean
    first, second = kernels.unbundle(problem.rows, pair)
    z = slow[0] * first + slow[1] * gradient + slow[2] * mean
    y = share * z + fast[0] * second + fast[1] * gradient + fast[2] * mean
    y += preconditioner.basis @ (basis[1] - share * basis[2] - basis[3])
    z += preconditioner.basis @ (basis[0] - basis[2])
    return y, z
