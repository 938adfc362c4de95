"""Which solver and rank the spectrum speaks for: a model in passes, from bounds that hold.

The unit is the time of one pass over the data with one vector. The passes to a relative gap come
from the theory of the worst target y with measured constants: on real data they were within a
factor of two or three, on the safe side where it was three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchridge.eigenvalues import Eigenvalues
from sketchridge.preconditioner.low_rank import FEW_BLOCKS

Array = NDArray[np.float64]

# A product with k vectors takes as long as 1 + k/7 products with one (docs/benchmarks.md).
COLUMN_COST = 1 / 7
# Arithmetic on blocks (BLAS 3) does so many times as much in a second as a pass does.
BLOCK_SPEED = 15
DIRECT_BYTES = 2e9
# SVRG's default step in units of 1/β̂, and the best that an epoch can do for its variance.
SVRG_STEP = 1.5
BEST_EPOCH = 0.1
# With rounding, CG finds a direction that stands out more than once.
ITERATIONS_A_DIRECTION = 1.5
# The rows' norms, the start and the certificate.
FIXED_PASSES = 4
PASSES_AN_EPOCH = 2  # the steps, and the snapshot's gradient


@dataclass(frozen=True)
class Candidate:
    """A method at its best rank, with the passes it would need and their cost."""

    solver: str
    preconditioner: str
    rank: int
    passes: float
    cost: float  # in passes with one vector, the sketch included

    @property
    def time(self) -> str:
        """The cost in words."""
        return f"the time of {_about(self.cost)} passes"

    def __str__(self) -> str:
        if self.preconditioner == "none":
            return self.solver
        return f"{self.solver} with {self.preconditioner} of rank {self.rank}"


@dataclass(frozen=True)
class Advice:
    """What to use, and what it was weighed against."""

    candidates: tuple[Candidate, ...]  # the cheapest first

    @property
    def best(self) -> Candidate:
        """The cheapest candidate."""
        return self.candidates[0]

    @property
    def rank(self) -> int:
        """The rank of its preconditioner; 0 without."""
        return self.best.rank

    @property
    def others(self) -> str:
        """What it was weighed against, in words."""
        return ", ".join(f"{other} ({_about(other.cost)})" for other in self.candidates[1:])

    @property
    def reason(self) -> str:
        """Why, in words."""
        return f"it takes about {self.best.time}, the sketch included; the others {self.others}"

    def __str__(self) -> str:
        return f"{self.best}: {self.reason}"


def advise(known: Eigenvalues, lam: float, tol: float, n: int, stored: int, ranks: int) -> Advice:
    """Weigh the methods for data of n rows with so many stored values, at ranks up to `ranks`."""
    d = known.dimension
    k = np.arange(1, ranks + 1)
    floor = known.smallest[0] + lam
    # The solver treats the regulariser exactly: it adds λ a direction that is whitened, not dλ.
    before = (known.trace[1] + lam) / floor
    after = (known.capped_sums[1][:ranks] + (k + 1) * lam) / floor
    iterations = _cg_iterations(known, lam, tol)
    sketch = 1 + COLUMN_COST * k
    svrg = PASSES_AN_EPOCH * svrg_epochs(after, n, tol)
    svrg_cost = (FEW_BLOCKS + 1) * sketch + svrg * (1 + k * n / stored)
    cg_cost = sketch + iterations[1 : ranks + 1] * (1 + k * d / stored)
    plain = PASSES_AN_EPOCH * float(svrg_epochs(np.array([before]), n, tol)[0])
    found = [
        _best("svrg", "lanczos", svrg + FEW_BLOCKS + 1, svrg_cost),
        _best("cg", "nystrom", iterations[1 : ranks + 1] + 1, cg_cost),
        Candidate("svrg", "none", 0, plain, plain),
        Candidate("cg", "none", 0, float(iterations[0]), float(iterations[0])),
    ]
    side = min(n, d)
    if 8.0 * side**2 <= DIRECT_BYTES:
        cost = 2 + side / (4 * BLOCK_SPEED) + side**3 / (12 * BLOCK_SPEED * stored)
        found.append(Candidate("direct", "none", 0, 2.0, cost))
    return Advice(tuple(sorted(found, key=lambda candidate: candidate.cost)))


def _best(solver: str, preconditioner: str, passes: Array, cost: Array) -> Candidate:
    where = int(np.argmin(cost))
    return Candidate(solver, preconditioner, where + 1, float(passes[where]), float(cost[where]))


def svrg_epochs(condition: Array, n: int, tol: float) -> Array:
    """Epochs of n steps to a relative gap: the weakest direction's averaged iterates, squared."""
    x = SVRG_STEP * n / condition
    factor = np.maximum((-np.expm1(-x) / x) ** 2, BEST_EPOCH)
    epochs: Array = np.log(tol) / np.log(factor)
    return epochs + FIXED_PASSES / 2


def _cg_iterations(known: Eigenvalues, lam: float, tol: float) -> Array:
    """Passes after the leading k = 0 … K eigenvalues were made alike, (K + 1,).

    A few directions more are taken one by one, where that is cheaper than the root of the
    condition number of the rest.
    """
    left = np.append(known.upper, known.rest)
    root = np.sqrt((left + lam) / (known.smallest[0] + lam))
    one_by_one = ITERATIONS_A_DIRECTION * np.arange(left.size)
    total = one_by_one + np.maximum(1.0, root * np.log(4 / tol) / 4)
    best: Array = np.minimum.accumulate(total[::-1])[::-1] - one_by_one
    return best + FIXED_PASSES


def _about(passes: float) -> str:
    return f"{passes:.0f}" if passes < 1e4 else f"{passes:.1e}"
