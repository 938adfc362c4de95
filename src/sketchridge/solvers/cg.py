"""Preconditioned conjugate gradients on (C + λI) w = Xᵀy / n."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from sketchridge.evaluation import Evaluation
from sketchridge.preconditioner import DiagonalPreconditioner, Preconditioner
from sketchridge.problem import RidgeProblem
from sketchridge.rare_columns import WithoutRareColumns, without_rare_columns
from sketchridge.solvers.base import Array, Iterate, Iterates, Lower, quotient
from sketchridge.sparse_products import SparseProducts
from sketchridge.threads import thread_count

Storage = Literal["given", "float32"]
RareColumns = Literal["given", "eliminated"]

# From this length on an iteration's vectors are worth compiled loops: ten of them, and as many
# numpy operations that write to new memory, took as long as a third of a sparse pass.
LONG_VECTORS = 10_000


@dataclass(frozen=True)
class CG:
    """Conjugate gradients: one product with C an iteration, for all targets together.

    This differs from the textbook in two things. The points that it gives are smoothed (see
    `Smoothed`): they can be certified sooner, but where F itself is small enough; there its own
    point serves. And when the driver sends a fresh evaluation (its
    certificate disagreed with the running residual), the iteration restarts from there.

    Parameters
    ----------
    storage
        "float32" keeps a copy of float64 data in float32, for the passes of the iteration alone:
        they cost half; those of sparse data a quarter less, where it is large and has one target.
        What is certified is always computed from the data as given.
    rare_columns
        "eliminated" leaves columns of sparse data with one entry or none out, exactly, where they
        are many and λ is small; with preconditioner="none" or "diagonal".
    """

    storage: Storage = "given"
    rare_columns: RareColumns = "given"

    name: ClassVar[str] = "cg"
    summary: ClassVar[str] = "preconditioned conjugate gradients, one pass an iteration"
    cost: ClassVar[str] = "one pass an iteration, about √κ iterations"
    use_when: ClassVar[str] = "anything larger, at any accuracy; with any preconditioner"
    uses_preconditioner: ClassVar[bool] = True
    default_preconditioner: ClassVar[str] = "nystrom"

    def __post_init__(self) -> None:
        if self.storage not in ("given", "float32"):
            raise ValueError(f"storage={self.storage!r} must be 'given' or 'float32'")
        if self.rare_columns not in ("given", "eliminated"):
            raise ValueError(f"rare_columns={self.rare_columns!r} must be 'given' or 'eliminated'")

    def memory(self, problem: RidgeProblem, rank: int) -> int:
        """The average's point and gradient, and copies of the data."""
        return 2 * problem.d * problem.targets + self._copied(problem)

    def _copied(self, problem: RidgeProblem) -> int:
        """The numbers that a copy takes, with what it is made of and the products' workspaces."""
        narrow = self.storage == "float32" and problem.narrows
        if isinstance(problem.X, np.ndarray):
            return problem.n * problem.d // 2 if narrow else 0
        if not isinstance(problem.products, SparseProducts):
            return 0
        compiled = problem.products.own_threads(1)
        numbers = 6 * thread_count() * problem.d if compiled else 0
        entries, rare = int(problem.X.nnz), self.rare_columns == "eliminated"
        if rare:
            numbers += 5 * problem.d + 3 * problem.n
        if narrow and problem.in_float32_range:
            return numbers + entries + 2 * problem.n  # with the pointers to its rows
        # Small data is copied by numpy, with what that makes on the way.
        return numbers + (2 if compiled else 4) * entries * rare

    def iterates(
        self,
        problem: RidgeProblem,
        preconditioner: Preconditioner,
        start: Array,
        rng: np.random.Generator,
    ) -> Iterates:
        """Yield the point after every iteration, with its running gradient and objective."""
        if self.rare_columns == "eliminated":
            smaller = without_rare_columns(problem, compact=self.storage == "float32")
            if smaller is not None:
                yield from _expanded(smaller, _on_smaller(smaller, preconditioner), start)
        fresh = problem.evaluate(start)
        steepest = preconditioner.apply(fresh.gradient)
        yield Iterate(start, evaluation=fresh, energy=Vectors().products(fresh.gradient, steepest))
        stored = problem.narrowed() if self.storage == "float32" else problem
        while True:
            fresh = yield from _iterates_from(problem, stored, preconditioner, fresh, steepest)
            steepest = preconditioner.apply(fresh.gradient)


def _on_smaller(smaller: WithoutRareColumns, preconditioner: Any) -> Any:
    """The same preconditioner for the smaller problem.

    There rows with rare columns weigh less: the squares of its own columns would take a pass, and
    save none.
    """
    if isinstance(preconditioner, DiagonalPreconditioner):
        return preconditioner.of_some(smaller.kept, smaller.smaller.lam)
    return preconditioner


def _expanded(smaller: WithoutRareColumns, preconditioner: Any, start: Array) -> Iterates:
    """CG on the problem without its rare columns; for ever."""
    inner = CG().iterates(
        smaller.smaller, preconditioner, smaller.restricted(start), np.random.default_rng(0)
    )
    next(inner)  # the start, where the rare columns are not at their best: not the one given
    sent: Evaluation | None = None
    while True:
        iterate = inner.send(sent)
        smaller.count_passes()
        assert iterate.objective is not None and iterate.lower is not None
        fresh = yield replace(
            iterate,
            objective=smaller.objective(iterate.objective),
            lower=Lower(iterate.lower.coef, smaller.objective(iterate.lower.objective)),
            expansion=smaller,
            known=None,
        )
        sent = None if fresh is None else smaller.evaluation(fresh)


def _iterates_from(
    problem: RidgeProblem,
    stored: RidgeProblem,
    preconditioner: Preconditioner,
    fresh: Evaluation,
    steepest: Array,
) -> Generator[Iterate, Evaluation | None, Evaluation]:
    """Yield the smoothed points after every iteration, until a fresh evaluation is sent.

    The products are those of `stored`, which is the problem itself or a copy of it in float32.
    `steepest` is P⁻¹ times the fresh gradient.
    """
    compiled = problem.targets == 1 and problem.d >= LONG_VECTORS
    vectors: Vectors = CompiledVectors() if compiled else Vectors()
    W, gradient, objective = fresh.coef.copy(), fresh.gradient.copy(), fresh.objective
    direction = np.zeros_like(W)
    previous = np.ones(problem.targets)
    energy = vectors.products(gradient, steepest)
    smoothed = Smoothed(fresh.coef, fresh.gradient, objective, energy)
    travelled, products = np.zeros(problem.targets), 0
    while True:
        vectors.turn(direction, energy / previous, steepest)
        image = stored.gram(direction)
        problem.passes += stored is not problem
        step = vectors.step(direction, image, problem.lam, energy, W, gradient)
        if stored is problem:
            length = np.sqrt(vectors.products(direction, direction))
            travelled, products = travelled + np.abs(step) * length, products + 1
        objective = objective - 0.5 * step * energy
        previous = np.where(energy > 0, energy, 1.0)
        steepest = preconditioner.apply(gradient)
        energy = vectors.products(gradient, steepest)
        smoothed = smoothed.joined_by(Smoothed(W, gradient, objective, energy), vectors)
        sent = yield Iterate(
            smoothed.coef,
            gradient=smoothed.gradient,
            objective=smoothed.objective,
            energy=smoothed.energy,
            lower=Lower(W, objective),
            known=partial(smoothed.known, problem, fresh, travelled, products)
            if stored is problem
            else None,
        )
        if sent is not None:
            return sent


class Vectors:
    """What an iteration does with vectors, for any number of targets (d, t)."""

    def products(self, left: Array, right: Array) -> Array:
        """The inner products of the columns, (t,)."""
        products: Array = np.einsum("ij,ij->j", left, right)
        return products

    def turn(self, direction: Array, ratio: Array, steepest: Array) -> None:
        """direction becomes steepest + ratio·direction."""
        direction *= ratio
        direction += steepest

    def step(
        self, direction: Array, image: Array, lam: Any, energy: Array, W: Array, gradient: Array
    ) -> Array:
        """Move W and its gradient to the least F along the direction; how far, (t,).

        `image` is C times the direction, and becomes H times it.
        """
        image += lam * direction
        step = quotient(energy, self.products(direction, image))
        W -= direction * step
        gradient -= image * step
        return step

    def between(self, share: Array, old: Smoothed, new: Smoothed) -> tuple[Array, Array, Array]:
        """The point and the gradient that are a share of the way from old to new.

        Also the inner products of the ways between the points and the gradients, (t,).
        """
        move, turn = new.coef - old.coef, new.gradient - old.gradient
        product = self.products(move, turn)
        return old.coef + share * move, old.gradient + share * turn, product


class CompiledVectors(Vectors):
    """The same for one target, each in one go over its vectors."""

    def turn(self, direction: Array, ratio: Array, steepest: Array) -> None:
        """direction becomes steepest + ratio·direction."""
        from sketchridge import kernels

        kernels.cg_turn(direction[:, 0], float(ratio[0]), steepest[:, 0])

    def step(
        self, direction: Array, image: Array, lam: Any, energy: Array, W: Array, gradient: Array
    ) -> Array:
        """Move W and its gradient to the least F along the direction; how far, (1,)."""
        from sketchridge import kernels

        step = kernels.cg_step(
            direction[:, 0],
            image[:, 0],
            float(np.ravel(lam)[0]),
            float(energy[0]),
            W[:, 0],
            gradient[:, 0],
        )
        return np.array([step])

    def between(self, share: Array, old: Smoothed, new: Smoothed) -> tuple[Array, Array, Array]:
        """The point and the gradient that are a share of the way from old to new, and so on."""
        from sketchridge import kernels

        point, gradient = np.empty_like(old.coef), np.empty_like(old.gradient)
        product = kernels.cg_between(
            float(share[0]),
            old.coef[:, 0],
            new.coef[:, 0],
            old.gradient[:, 0],
            new.gradient[:, 0],
            point[:, 0],
            gradient[:, 0],
        )
        return point, gradient, np.array([product])


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The average of CG's points whose gradient is the least in P's norm (residual smoothing).

    CG makes F small, and the certificate needs a small gradient, which CG's own points have later
    (docs/decisions/15-the-points-that-cg-gives.md). The gradients of CG are orthogonal in P's norm,
    so the best weights are one over their squared norms.
    """

    coef: Array  # (d, t)
    gradient: Array  # (d, t)
    objective: Array  # (t,)
    energy: Array  # (t,) gᵀP⁻¹g

    def known(
        self, problem: RidgeProblem, start: Evaluation, travelled: Array, products: int
    ) -> Evaluation | None:
        """What is certain of the point without a pass."""
        return problem.running(start, self.coef, self.gradient, self.objective, travelled, products)

    def joined_by(self, new: Smoothed, vectors: Vectors) -> Smoothed:
        """The average with one point more."""
        share = quotient(self.energy, self.energy + new.energy)
        coef, gradient, product = vectors.between(share, self, new)
        bend = 0.5 * share * (1.0 - share) * product
        return Smoothed(
            coef,
            gradient,
            self.objective + share * (new.objective - self.objective) - bend,
            share * new.energy,
        )
