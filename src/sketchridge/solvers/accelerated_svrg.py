"""Accelerated SVRG: the rate √(n κ̃) of the paper's main theorem.

Three ways. "conjugate" takes SVRG's epochs as directions of conjugate gradients
(conjugate_svrg.py), and needs the fewest passes. Two have the rate proved: "katyusha" is Katyusha's
momentum (Allen-Zhu; Kovalev, Horváth and Richtárik) between snapshots, and "catalyst" is the
paper's reference, Catalyst (Lin, Mairal, Harchaoui) around SVRG.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sketchridge.problem import RidgeProblem
from sketchridge.solvers.base import Array, Iterate, Iterates
from sketchridge.solvers.components import Components, Order, grown, memory_of_rows
from sketchridge.solvers.conjugate_svrg import WINDOW, conjugate, scaled_memory
from sketchridge.solvers.svrg import BACK_OFF, BOLD_STEPS, svrg_moves
from sketchridge.validation import check_integer

Method = Literal["conjugate", "katyusha", "catalyst"]

BOLD_STEP = 1.0  # Katyusha's, in units of 1/β̂
# The snapshot's share of the point where the gradient is taken.
SNAPSHOT_SHARE = 0.5
# More coupling than this is plain SVRG's regime, and the fast mode would be folded too often.
LARGEST_COUPLING = 0.3


@dataclass(frozen=True)
class AcceleratedSVRG:
    """SVRG with conjugate directions, or with momentum.

    Parameters
    ----------
    method
        "conjugate" makes SVRG's epochs conjugate to each other. It also goes with scaled columns:
        preconditioner="diagonal", or a sketch with a `scaling`; their copy is in float32. The
        momentum of "katyusha" and "catalyst" relies on λa, what is known of the smallest
        eigenvalue outside the sketch, and their rates are proved.
    epoch_length
        The number of steps between snapshots; None is n, and n/2 for "conjugate".
    """

    method: Method = "conjugate"
    epoch_length: int | None = None
    name: ClassVar[str] = "accelerated_svrg"
    summary: ClassVar[str] = "SVRG with conjugate directions, or momentum: passes grow with √κ̃"
    cost: ClassVar[str] = "one and a half passes an epoch of n/2 steps"
    use_when: ClassVar[str] = "κ̃ is far above n even with the sketch"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "lanczos"

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise ValueError(
                f"method={self.method!r} must be one of {', '.join(map(repr, get_args(Method)))}"
            )
        if self.epoch_length is not None:
            check_integer("epoch_length", self.epoch_length, 1, "give the steps between snapshots")

    @property
    def takes_scaled_columns(self) -> bool:
        """Whether the epochs may work on other columns than the data's."""
        return self.method == "conjugate"

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The rows' coordinates in the basis, a copy of Fortran rows, and the directions."""
        return memory_of_rows(problem, rank, problem.n) + self._directions(problem)

    def memory_by_columns(self, problem: RidgeProblem, rank: int) -> int:
        """The same with scaled columns: it is their copy whose rows are read."""
        return scaled_memory(problem, rank) + self._directions(problem)

    def _directions(self, problem: RidgeProblem) -> int:
        return 2 * WINDOW * problem.d * problem.targets if self.method == "conjugate" else 0

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: Any,  # low rank plus identity, or with scaled columns
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the snapshots, each with its gradient: fresh, or "conjugate"'s running one."""
        if self.method == "conjugate":
            length = self.epoch_length or -(-problem.n // 2)
            return conjugate(problem, preconditioner, start, rng, length)
        components = Components.of(problem, preconditioner)
        length = self.epoch_length or problem.n
        return MOMENTUM[self.method](problem, components, start, rng, length)


def katyusha(
    problem: RidgeProblem,
    components: Components,
    start: Array,
    rng: np.random.Generator,
    length: int,
) -> Iterates:
    """Katyusha's momentum between snapshots, which are its last points y."""
    snapshot = problem.evaluate(start)
    yield Iterate(snapshot.coef, evaluation=snapshot)
    ahead = np.zeros_like(start)  # z, measured from the snapshot
    steps = np.full(problem.targets, BOLD_STEP)
    while True:
        order = components.draw(rng, length)
        moves, ahead_after = _epoch(problem, components, snapshot.gradient, order, steps, ahead)
        problem.passes += length / problem.n
        latest = problem.evaluate(snapshot.coef + moves)
        grew = grown(latest, snapshot, problem.null_objective)
        steps, event = _back_off(steps, grew, resting=np.all(ahead == 0, axis=0))
        ahead = np.where(grew, 0.0, ahead_after)
        snapshot = latest.replaced(by=snapshot, where=grew)
        yield Iterate(snapshot.coef, evaluation=snapshot, event=event)


def catalyst(
    problem: RidgeProblem,
    components: Components,
    start: Array,
    rng: np.random.Generator,
    length: int,
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
        order = components.draw(rng, length)
        moves = svrg_moves(
            problem,
            components,
            extrapolated.gradient,
            order,
            steps / (components.smoothness + proximity),
            "average",
            proximity,
        )
        problem.passes += length / problem.n
        reached = extrapolated.coef + moves
        latest = problem.evaluate(reached + momentum * (reached - point))
        grew = grown(latest, extrapolated, problem.null_objective)
        resting = np.all(extrapolated.coef == point, axis=0)
        steps, event = _back_off(steps, grew, resting)
        extrapolated = latest.replaced(by=extrapolated, where=grew)
        point = np.where(grew, extrapolated.coef, reached)
        yield Iterate(extrapolated.coef, evaluation=extrapolated, event=event)


MOMENTUM = {"katyusha": katyusha, "catalyst": catalyst}


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
