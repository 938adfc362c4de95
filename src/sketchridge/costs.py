"""Predictions for the planner: how long the parts of a solve would take on this machine.

Passes to a relative gap come from the theory (see `advice`) and a guess of the eigenvalues that a
small sketch did not see; seconds from the machine's speeds. They need to be right to a factor of
two: what they get wrong is noticed while the solver runs, and the plan is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketchridge.advice import ITERATIONS_A_DIRECTION, svrg_epochs
from sketchridge.cholesky import LARGEST
from sketchridge.machine import Machine
from sketchridge.problem import RidgeProblem
from sketchridge.products import lies_by_columns
from sketchridge.threads import thread_count

Array = NDArray[np.float64]

# A power law of the eigenvalues that is steeper than this goes on to the end.
STEEP = 1.5
# Of a direct solve besides its matrix: the rows' norms, and half a pass for the targets.
DIRECT_PASSES = 1.5
# Orthonormalising a block of d×k numbers and making the Nyström approximation of it: so many times
# what reading it takes (most of it is new memory), so many products of d×k by k×k, and the
# eigenvalues of small matrices, which take so many times their k³.
BLOCK_READS, BLOCK_PRODUCTS, EIGENVALUES = 320.0, 18.0, 160.0
# Scaling the columns block by block makes the products of a sketch so much longer.
SCALED_SKETCH = 1.7
# Real rows differ more than random ones: a sample of them is so many times worse than theory.
ROWS_DIFFER = 1.5
# The mean of groups' inverses is off by this times the square of their degrees of freedom a row.
GROUPS_DIFFER = 0.13
# All rows thrown into a few buckets mix better; and CG gets faster as it goes on.
ROWS_MIX = 0.85
# Few rows whose P has a shift do as much as this share of them in leading directions, and the shift
# that suits them leaves them so many degrees of freedom (docs/decisions/21).
DIRECTIONS_A_ROW, HELD_BY_ROWS = 0.2, 1.25
# Of the gap at 0, what the minimum of embedded rows leaves.
STARTS_AT = 0.1
# A sparse product with k vectors reads the matrix once and does its arithmetic k times.
SPARSE_COLUMN = 0.3
# An epoch of SVRG, its gradient included, in products with one vector (docs/benchmarks.md).
DENSE_EPOCH, SPARSE_EPOCH = 3.0, 10.0
DUAL_EPOCH = 2.0
# Threads that share it hold each other up by this, and weighing their moves takes so many seconds a
# row and column. Each doubling of the threads takes this share more of the epochs; those beyond a
# few take less.
SHARED, WEIGHING = 1.15, 2e-8
MORE_EPOCHS, A_FEW, MORE_LATER = 0.35, 6.0, 0.1
# Shuffled rows need so many of the epochs that are proved for rows drawn at random.
SHUFFLED = 0.36
# A pass over a copy in float32 takes this share of one over float64 (docs/decisions/09, 25).
NARROW_DENSE, NARROW_SPARSE = 0.5, 0.75
# A pass over codes takes this share of one over float64: it is bound by arithmetic. One over data
# that lies by columns takes as many reads.
CODED, BY_COLUMNS = 0.42, 2.2
# A pass with several vectors reads dense data so many times; and BLAS multiplies a few columns at
# this share of its speed.
SEVERAL_READS, SEVERAL_SHARE = 2.5, 0.5
# Memory that is new costs more to write than to read: a copy of the data in float32 took 2 to 50
# passes, an embedding 2 to 5, and one that is rounded on the way about 2.
NARROW_COPY, EMBEDDING_PASSES, NARROW_EMBEDDING = 30.0, 3.0, 2.0
# A Gram matrix is made at this share of the speed of a product; weighting or centring its rows,
# block by block, takes so many passes.
GRAM_SHARE, SCALED_BLOCKS = 0.75, 5.0
# A factor that is made by blocks takes longer than LAPACK's own (docs/decisions/24).
BY_BLOCKS = 0.75
# Rows in float32 are read so many times besides, to flatten them where that pays and for the
# certificate; and what that takes whatever their number.
NARROW_READS, NARROW_FIXED = 6.0, 2e-3
# A triangular solve with one vector runs on one thread, at this share of the bandwidth.
SOLVE_SHARE = 0.5
# Seconds that an iteration takes besides: handing the work to the threads, and the small vectors;
# less where there is no factor to apply.
ITERATION, PLAIN_ITERATION = 5e-4, 3e-4
SKETCH, DIRECT = 4e-3, 3e-3  # and a sketch, and a direct solve


@dataclass(frozen=True)
class Costs:
    """Seconds of the parts of a solve."""

    machine: Machine
    n: int
    d: int
    stored: int
    bytes: int
    sparse: bool
    targets: int
    coded: bool = False  # whether products with one vector read a byte in place of each number
    even: bool = False  # whether dense rows weigh the same and are not centred
    by_columns: bool = False  # whether dense data is in Fortran order

    @classmethod
    def of(cls, problem: RidgeProblem, machine: Machine) -> Costs:
        """The costs of a problem's parts."""
        X = problem.X
        dense = isinstance(X, np.ndarray)
        stored = X.size if dense else X.nnz
        size = X.nbytes if dense else X.data.nbytes + X.indices.nbytes
        layout = problem.code_bytes > 0, problem.even, lies_by_columns(X)
        shape = problem.n, problem.d, stored, size, not dense, problem.targets
        return cls(machine, *shape, *layout)

    def normal(self, columns: int) -> float:
        """C times so many vectors: one read of X, two products."""
        if self.sparse:
            return 2 * self.stored * (1 + SPARSE_COLUMN * (columns - 1)) / self.machine.sparse_rate
        read = self.bytes / self.machine.bandwidth
        if columns == 1:
            return self._reads * read
        return max(read, 4.0 * self.stored * columns / self.machine.flops)

    @property
    def _reads(self) -> float:
        """What a pass takes with one vector, in reads of the data."""
        return BY_COLUMNS if self.by_columns else CODED if self.coded else 1.0

    @cached_property
    def a_pass(self) -> float:
        """One product with C, for all targets."""
        one = self.normal(self.targets)
        if self.sparse or self.targets == 1:
            return one
        return max(SEVERAL_READS * self.bytes / self.machine.bandwidth, one / SEVERAL_SHARE)

    def direct(self) -> float:
        """The normal matrix of the smaller side, its factor, and a few passes."""
        side, other = min(self.n, self.d), max(self.n, self.d)
        gram = float(other) * side**2 / (GRAM_SHARE * self.machine.flops)
        gram += (1.0 if self.even else SCALED_BLOCKS) * self.bytes / self.machine.bandwidth
        if self.sparse:
            gram = 4 * float(self.stored) ** 2 / self.n / self.machine.sparse_rate
            gram += 8.0 * side**2 / self.machine.bandwidth
        return gram + self._factor(side) + DIRECT_PASSES * self.a_pass + DIRECT

    def _apart(self, groups: int) -> float:
        """How much longer groups take that have one thread each, if there are several."""
        threads = thread_count()
        return -(-groups // threads) * threads / groups if groups > 1 else 1.0

    def sampled_rows(self, rows: int, narrow: bool = False, groups: int = 1) -> float:
        """The Gram matrices of groups of rows and their factors, in float32 if they are narrow."""
        side, faster, besides = min(-(-rows // groups), self.d), 1.0, 0.0
        if narrow:
            faster = self.machine.flops32 / self.machine.flops
            besides = NARROW_READS * 4.0 * rows * self.d / self.machine.bandwidth + NARROW_FIXED
        gram = float(rows) * self.d * side / (GRAM_SHARE * self.machine.flops * faster)
        if self.sparse:
            gram = 4 * float(self.stored) ** 2 / self.n * rows / self.n / self.machine.sparse_rate
        return self._apart(groups) * (gram + groups * self._factor(side) / faster) + besides

    def _factor(self, side: int) -> float:
        """The Cholesky factor of a matrix of this side, in float64."""
        share = BY_BLOCKS if side > LARGEST else 1.0
        return side**3 / 3 / (share * self.machine.factor_flops)

    def embedded_rows(self, rows: int, narrow: bool = False, groups: int = 1) -> float:
        """A pass that embeds dense rows, their Gram matrices and factors."""
        passes = NARROW_EMBEDDING if narrow else EMBEDDING_PASSES
        read = self._reads * self.bytes / self.machine.bandwidth
        return passes * read + self.sampled_rows(rows, narrow, groups)

    def nystrom(self, rank: int, rows: int | None = None, scaled: bool = False) -> float:
        """A sketch of a rank (of so many rows, or with scaled columns), and its algebra."""
        block = float(self.d) * rank
        algebra = 8.0 * BLOCK_READS * block / self.machine.bandwidth + SKETCH
        algebra += (BLOCK_PRODUCTS * block + EIGENVALUES * rank**2) * rank / self.machine.flops
        if rows is None:
            return (SCALED_SKETCH if scaled else 1.0) * self.normal(rank) + algebra
        return self.normal(rank) * rows / self.n + algebra

    def narrow_copy(self) -> float:
        """Dense data copied to float32."""
        return NARROW_COPY * self.bytes / self.machine.bandwidth

    def _pass(self, narrow: bool) -> float:
        """A pass over the data, or over its copy in float32."""
        if not narrow:
            return self.a_pass
        if self.sparse:
            return NARROW_SPARSE * self.a_pass
        return NARROW_DENSE * self.bytes / self.machine.bandwidth  # the copy lies by rows

    def cg_iteration(self, rank: int, narrow: bool = False) -> float:
        """A product with C, by the copy in float32 if there is one, and P⁻¹ of a low rank."""
        applied = 16.0 * self.d * rank * self.targets / self.machine.bandwidth
        return self._pass(narrow) + applied + PLAIN_ITERATION

    def factored_iteration(self, rows: int, narrow: bool = False, groups: int = 1) -> float:
        """A product with C, two triangular solves, and two products with rows fewer than d."""
        side = min(-(-rows // groups), self.d)
        solve = 8.0 * groups * side**2 / (SOLVE_SHARE * self.machine.bandwidth)
        if side < self.d:
            solve += 16.0 * rows * self.d / self.machine.bandwidth
        return self._pass(narrow) + self._apart(groups) * solve + ITERATION

    def epoch(self) -> float:
        """An epoch of SVRG with its gradient, for all targets."""
        one = self.normal(1) / 2 if self.sparse else self.bytes / self.machine.bandwidth
        products = SPARSE_EPOCH if self.sparse else DENSE_EPOCH
        return products * one * self.targets + 2 * ITERATION

    def dual_epoch(self) -> float:
        """An epoch of dual coordinate ascent on sparse rows: on one thread."""
        return DUAL_EPOCH * self.normal(1) + ITERATION

    def weighed_epoch(self, threads: int) -> float:
        """The same, shared by threads whose moves are weighed."""
        steps = SHARED * DUAL_EPOCH * self.normal(1) / threads
        return steps + WEIGHING * (self.n + self.d) + ITERATION


@dataclass(frozen=True, eq=False)
class SpectrumGuess:
    """The eigenvalues of C: those that a sketch found, and a power law through what is left."""

    values: Array  # (k,) descending
    rest: float  # the trace that is left
    count: int  # the number of eigenvalues

    @cached_property
    def positions(self) -> Array:
        """Positions j ≥ k, from the last that was found to the last there is, (p,)."""
        k = max(1, self.values.size)
        return np.unique(np.geomspace(k, max(k, self.count), 60).round())

    @property
    def _last(self) -> float:
        return float(self.values[-1]) if self.values.size else self.rest / self.count

    @cached_property
    def tail(self) -> Array:
        """The eigenvalues at these positions."""
        law: Array = self._last * (self.positions / max(1, self.values.size)) ** -self.exponent
        return law

    @cached_property
    def exponent(self) -> float:
        """The decay at which the rest of the trace is used up, by bisection."""
        low, high = 0.0, 20.0
        k, last = max(1, self.values.size), self._last
        if last <= 0 or self.count <= k:
            return 1.0
        places = np.arange(k + 1, min(self.count, k + 100_000) + 1) / k
        for _ in range(40):
            middle = (low + high) / 2
            if last * float(np.sum(places**-middle)) > self.rest:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def at(self, rank: int) -> float:
        """The eigenvalue at a rank."""
        if rank <= self.values.size:
            return float(self.values[rank - 1])
        return float(np.interp(rank, self.positions, self.tail))

    def cg_iterations(self, rank: int, lam: float, tol: float) -> float:
        """Iterations once the leading `rank` eigenvalues are alike; the certificate's included."""
        # Outside the sketch the certificate knows λ alone, and is late by about this.
        certified = tol * np.sqrt(lam / (self.at(max(1, rank)) + lam))
        return self._iterations(rank, lam, float(np.log(4 / certified)))

    def _iterations(self, rank: int, lam: float, digits: float) -> float:
        """Iterations to make the gap smaller by so many factors of e.

        Some directions more are found one by one, where that is cheaper than the root of the
        condition number of the rest.
        """
        places = np.append(np.arange(1.0, self.values.size + 1), self.positions)
        later = places > max(1, rank)
        left = np.append(self.at(max(1, rank)), np.append(self.values, self.tail)[later])
        places = np.append(max(1, rank), places[later])
        roots = np.sqrt((left + lam) / self._floor(lam))
        one_by_one = ITERATIONS_A_DIRECTION * (places - rank)
        return float(np.min(one_by_one + np.maximum(1.0, roots * digits / 4)))

    def dimension(self, mu: float | Array) -> Array:
        """The effective one, tr C(C + μI)⁻¹, for every μ."""
        mu = np.asarray(mu)[..., None]
        found: Array = np.sum(self.values / (self.values + mu), axis=-1)
        law = self.tail / (self.tail + mu)
        return found + np.trapezoid(law, self.positions, axis=-1)

    def shift(self, rows: int, lam: float) -> float:
        """The μ of P, above λ, that few rows bear well; 0 where λ itself does."""
        held = HELD_BY_ROWS * rows
        if self.dimension(lam) <= held:
            return 0.0
        low, high = lam, float(self.values[0]) * self.count
        for _ in range(5):  # each time 63 times closer
            grid = np.geomspace(low, high, 64)
            above = np.count_nonzero(self.dimension(grid[1:-1]) > held)
            low, high = grid[above], grid[above + 1]
        return float(high)

    def shifted_iterations(self, rows: int, lam: float, tol: float) -> float:
        """Iterations with so many embedded rows, and a shift that suits them."""
        return self._iterations(int(DIRECTIONS_A_ROW * rows), lam, float(np.log(STARTS_AT / tol)))

    def _floor(self, lam: float) -> float:
        """About the smallest eigenvalue of H that counts.

        A steep law goes on to the end. A flat one does not: the trace is spread over most of the
        directions, and the last of them are somewhere between the law and nothing.
        """
        end = float(self.tail[-1])
        return lam + (end if self.exponent >= STEEP else np.sqrt(end * lam))

    def svrg_epochs(self, rank: int, lam: float, tol: float, n: int) -> float:
        """Epochs of SVRG once the leading `rank` eigenvalues are alike."""
        last = self.at(max(1, rank))
        inside = float(np.sum(np.minimum(self.values, last))) if rank else float(self.values.sum())
        condition = (inside + self.rest + (rank + 1) * lam) / self._floor(lam)
        return float(svrg_epochs(np.array([condition]), n, tol)[0])


def embedded_iterations(
    rows: int, n: int, dimension: float, tol: float, start: float = 1.0, groups: int = 1
) -> float:
    """CG iterations with the Gram matrices of n rows in so many buckets, which are in groups.

    The gap shrinks by d/s each, or more where buckets are few rows each: (d/s)(1 − s/n). What
    counts of d is the effective dimension. The certificate is late by the size of a bucket. Of the
    gap at 0 the start leaves a share.
    """
    shrinks, left = dimension / rows * (1.0 - rows / n), tol / np.ceil(n / rows)
    shrinks += GROUPS_DIFFER * (1.0 - 1.0 / groups) * (dimension * groups / rows) ** 2
    digits = max(0.0, float(np.log(start / left)))
    return float(ROWS_MIX * digits / -np.log(shrinks) + 2)


def sampled_iterations(rows: int, d: int, tol: float) -> float:
    """CG iterations with the Gram matrix of so many random rows: the gap shrinks by d/s each."""
    return float(ROWS_DIFFER * np.log(1 / tol) / np.log(rows / d) + 2)


def shuffled_epochs(hardest: float, tol: float) -> float:
    """Epochs of dual coordinate ascent, where ω_i‖x_i‖² is at most `hardest` times λ."""
    return float(max(1.0, SHUFFLED * (1.0 + hardest) * np.log(1 / tol)))


def shared_epochs(epochs: float, threads: int) -> float:
    """The epochs that threads take whose moves are weighed, where one takes so many."""
    few = min(epochs, A_FEW)
    more = MORE_EPOCHS * few + MORE_LATER * (epochs - few)
    return epochs + float(np.log2(threads)) * more
