"""Subspace embeddings: all rows of X added up, with random signs, into a few (Clarkson–Woodruff).

S (s, n) consists of ζ blocks, each of which throws every row with a random sign into one of its
buckets; buckets are of equal size to one row. It is never dense, and is made again from its seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.gram import add_gram, mirrored
from sketchridge.preconditioner.base import Array, Rows, check_rows, resolve_rows
from sketchridge.preconditioner.factor import sparse_factor
from sketchridge.preconditioner.narrow import narrow_memory
from sketchridge.preconditioner.narrow_rows import NarrowRows
from sketchridge.preconditioner.sketched import (
    SketchedPreconditioner,
    Targets,
    expected_least,
    probe_vector,
)
from sketchridge.preconditioner.sketched_rows import SketchedRows, SummedRows
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.products import LARGE_MATRIX, lies_by_columns
from sketchridge.row_sums import NarrowSums, gathered_sums, scattered_sums, scattering_memory
from sketchridge.rows import shuffled_rows
from sketchridge.threads import thread_count
from sketchridge.validation import check_integer, check_norms, check_number, read_rows

Kind = Literal["sparse_sign", "countsketch"]
Storage = Literal["float64", "float32"]
# How often a row is thrown: often enough to be spread well, seldom enough to be cheap.
THROWS: dict[Kind, int] = {"sparse_sign": 4, "countsketch": 1}


@dataclass(frozen=True)
class RowEmbedding:
    """A random S (s, n), given by its seed."""

    kind: Kind
    rows: int
    n: int
    seed: int

    @classmethod
    def draw(cls, kind: Kind, rows: int, n: int, rng: np.random.Generator) -> RowEmbedding:
        """A new one."""
        return cls(kind, rows, n, int(rng.integers(2**63)))

    @property
    def _throws(self) -> int:
        """How often a row is thrown: the number of blocks."""
        return min(THROWS[self.kind], self.rows)

    @property
    def _buckets(self) -> list[int]:
        """The number of buckets of every block."""
        least, larger = divmod(self.rows, self._throws)
        return [least + (block < larger) for block in range(self._throws)]

    @property
    def _fullest(self) -> list[int]:
        """The number of rows in the fullest bucket of every block."""
        return [-(-self.n // count) for count in self._buckets]

    @property
    def fullest(self) -> int:
        """The number of rows in the fullest bucket."""
        return max(self._fullest)

    @property
    def excess(self) -> float:
        """‖S‖² from above: every block is orthogonal up to the sizes of its buckets."""
        return 1.0 if self.rows == self.n else sum(self._fullest) / self._throws

    def matrix(self) -> Any:
        """S as a CSR matrix."""
        if self.rows == self.n:
            return scipy.sparse.eye_array(self.n, format="csr")
        rng = np.random.default_rng(self.seed)
        thrown = [self._thrown(count, rng) for count in self._buckets]
        signs = rng.choice([-1.0, 1.0], size=(self.n, self._throws)) / np.sqrt(self._throws)
        values = [column[rows] for column, (rows, _) in zip(signs.T, thrown, strict=True)]
        counts = np.concatenate([counts for _, counts in thrown])
        indices = np.concatenate([rows for rows, _ in thrown])
        pointers = np.append(0, np.cumsum(counts))
        return scipy.sparse.csr_array(
            (np.concatenate(values), indices, pointers), shape=(self.rows, self.n)
        )

    def _thrown(
        self, count: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows (n,) bucket by bucket, and how many each has: thrown in turn, in shuffled runs.

        Each turn begins one further on: else, where the buckets and a run have a divisor in common,
        every so many rows would have but a few buckets to themselves.
        """
        turns = np.arange(-(-self.n // count))
        places = turns * count + (np.arange(count)[:, None] - turns) % count
        present = places < self.n
        return shuffled_rows(self.n, rng)[places[present]], present.sum(axis=1)

    def weighted(self, problem: RidgeProblem) -> Any:
        """S diag(ω)^½, CSR."""
        S = self.matrix()
        S.data *= np.sqrt(problem.weights)[S.indices]
        return S

    def image(self, problem: RidgeProblem, vector: Array) -> Array:
        """A times a vector (d, 1), from the problem's data, (s, 1); one pass."""
        product: Array = self.weighted(problem) @ problem.multiply(vector)
        return product

    def embed(self, problem: RidgeProblem) -> tuple[SketchedRows, Array]:
        """A = S diag(ω)^½ X, centred, and the same of the targets; one pass."""
        S = self.weighted(problem)
        problem.passes += 1
        shift: Array = S @ np.ones(self.n)
        norms = np.empty(self.n)
        if _is_gathered(problem.X):
            product: Any = np.empty((self.rows, problem.d))
            gathered_sums(S, problem.dense_products, product, norms)
            self._learn_norms(problem, norms)
        elif self._is_scattered(problem.X):
            product, none = np.empty((self.rows, problem.d)), np.zeros((self.rows, 0))
            scattered_sums(S, problem.X, (shift, None), none, probe_vector(problem.d), product)
        else:
            product = _product(S, problem.X)
        return SketchedRows.of(product, problem.mean, shift), S @ problem.Y

    def is_compiled(self, X: Any) -> bool:
        """Whether compiled loops embed X, row by row or column by column, where it lies."""
        return _is_gathered(X) or self._is_scattered(X)

    def _is_scattered(self, X: Any) -> bool:
        """Whether X is for the compiled loop that throws every row of a column into one bucket."""
        return lies_by_columns(X) and X.size >= LARGE_MATRIX and self._throws == 1

    def _learn_norms(self, problem: RidgeProblem, norms: Array) -> None:
        """Check the rows by their norms, and tell these to the problem if it has not asked."""
        check_norms(norms)
        if not problem.knows_norms and problem.can_wait:
            problem.learn_norms(norms)

    def blocks(self, problem: RidgeProblem) -> Iterator[tuple[slice, SketchedRows, Array]]:
        """Dense rows, embedded a block at a time in the same memory, and their targets; one pass.

        The problem learns its rows' norms on the way.
        """
        S = self.weighted(problem)
        problem.passes += 1
        shift: Array = S @ np.ones(self.n)
        step, dense = _block(problem.d), problem.dense_products
        block, norms = np.empty((min(step, self.rows), problem.d)), np.empty(self.n)
        for start in range(0, self.rows, step):
            part = slice(start, min(start + step, self.rows))
            thrown = S[part]
            A = gathered_sums(thrown, dense, block[: part.stop - start], norms)
            if not np.isfinite(norms[thrown.indices]).all():
                read_rows(problem)  # which tells where
            yield part, SketchedRows.of(A, problem.mean, shift[part]), thrown @ problem.Y
        self._learn_norms(problem, norms)

    def embed_narrow(self, problem: RidgeProblem) -> tuple[NarrowRows, Array, Targets]:
        """Dense rows embedded and rounded to float32; their probe, and the targets; one pass.

        The problem learns its rows' norms on the way, where they are read row by row.
        """
        S = self.weighted(problem)
        problem.passes += 1
        z: Array = S @ problem.Y
        centring, probe = (S @ np.ones(self.n), problem.mean), probe_vector(problem.d)
        if _is_gathered(problem.X):
            sums = NarrowSums.gathered(S, problem.dense_products, centring, z, probe)
        else:
            sums = NarrowSums.scattered(S, problem.X, centring, z, probe)
        if sums.norms is not None:
            self._learn_norms(problem, sums.norms)
        rows = NarrowRows.packed(sums.rows, sums.filled, sums.size)
        return rows, sums.image, Targets((sums.slope,), np.sum(z**2, axis=0), z)

    def rounding(self, problem: RidgeProblem) -> float:
        """A bound of the rounding error of AᵀA."""
        terms = max(min(self.rows, problem.d), self.fullest, problem.rounding_factor)
        return 4 * EPSILON * terms * self.excess * problem.raw_trace

    def memory(self, problem: RidgeProblem, narrow: bool = False, groups: int = 1) -> int:
        """The numbers of S and its making, of A and what it is added up from, and the factors.

        Every group has a slope and a minimum of its own.
        """
        held = self._held(problem, groups)
        if narrow:  # which may fall back to the other storage
            held = max(held, self._held_narrow(problem, groups))
        own = 2 * groups * problem.d * problem.targets if groups > 1 else 0
        return 6 * self._throws * self.n + own + held

    def _held(self, problem: RidgeProblem, groups: int) -> int:
        """A and the factors, in float64; every thread adds a product to one of them."""
        side, d = min(-(-self.rows // groups), problem.d), problem.d
        if not isinstance(problem.X, np.ndarray):
            filled = min(self.rows * d, self._throws * int(problem.X.nnz))
            return 2 * int(problem.X.nnz) + 4 * filled + groups * sparse_factor(side)
        factors = (groups + min(groups, thread_count())) * side**2
        if _is_gathered(problem.X):
            if self.rows < d or groups > 1:
                return self.rows * d + factors
            return (_block(d) + d) * d + side**2
        if self._is_scattered(problem.X):
            return self.rows * d + scattering_memory(self.rows) + groups * side**2 + factors
        return 3 * self.rows * d + factors

    def _held_narrow(self, problem: RidgeProblem, groups: int) -> int:
        """The same of dense rows in float32, which are kept: half as much."""
        made = 0 if self.is_compiled(problem.X) else 3 * self.rows * problem.d
        made += scattering_memory(self.rows) if self._is_scattered(problem.X) else 0
        return made + narrow_memory(self.rows, problem.d, groups)


def even_buckets(rows: int, n: int) -> int:
    """About as many rows, whose buckets are all as full: one row more in some makes S larger.

    Half of n in place of 0.4 n to 0.66 n, a third in place of 0.29 n to 0.39 n, and so on.
    """
    return -(-n // max(1, round(n / rows)))


def _block(d: int) -> int:
    """How many embedded rows are made at a time: adding their products up should cost little."""
    return max(1024, d // 2)


def _is_gathered(X: Any) -> bool:
    """Whether X is for the compiled loop that adds up dense rows where they lie."""
    dense = isinstance(X, np.ndarray)
    return bool(dense and X.flags.c_contiguous and X.size >= LARGE_MATRIX)


def _product(S: Any, X: Any) -> Any:
    """S X in float64: dense in blocks of rows, sparse as it is."""
    if not isinstance(X, np.ndarray):
        return scipy.sparse.csr_array(S @ X.astype(np.float64, copy=False))
    (s, n), d = S.shape, X.shape[1]
    total, S = np.zeros((s, d)), S.tocsc()
    # A block makes a product of s rows: as many rows a block, so that adding it up costs little.
    for start in range(0, n, s):
        block = np.ascontiguousarray(X[start : start + s], dtype=np.float64)
        total += S[:, start : start + s] @ block
    return total


Embedded = tuple[SketchedRows | SummedRows | NarrowRows, Array, Targets]


def _embedded(
    source: RowEmbedding, problem: RidgeProblem, storage: Storage, kept: bool
) -> Embedded:
    """The embedded rows, or only what is factorised of them; what knows them again; the targets.

    They are kept where that is asked for.
    """
    if source.is_compiled(problem.X) and storage == "float32":
        return source.embed_narrow(problem)
    if _is_gathered(problem.X) and source.rows >= problem.d and not kept:
        return _summed_in_blocks(source, problem)
    rows, z = source.embed(problem)
    probe, targets = rows.multiply(probe_vector(problem.d)), Targets.of(rows, z)
    if storage == "float64":
        return rows, probe, targets
    return NarrowRows.of(rows.matrix), probe, targets


def _summed_in_blocks(source: RowEmbedding, problem: RidgeProblem) -> Embedded:
    """Dense rows, made block by block, of which only AᵀA is kept."""
    vector, d = probe_vector(problem.d), problem.d
    probe, slope = np.empty((source.rows, 1)), np.zeros((d, problem.targets))
    squares, total = np.zeros(problem.targets), np.zeros((d, d))
    for part, rows, targets in source.blocks(problem):
        probe[part] = rows.multiply(vector)
        slope += rows.adjoint(targets)
        squares += np.sum(targets**2, axis=0)
        add_gram(rows.matrix, total)
    return (
        SummedRows(mirrored(total)),
        probe,
        Targets((slope,), squares, np.empty((0, problem.targets))),
    )


def check_kind(kind: Any) -> None:
    """A known kind of embedding."""
    if kind not in THROWS:
        raise ValueError(f"kind={kind!r} must be {' or '.join(map(repr, THROWS))}")


@dataclass(frozen=True)
class Embedding:
    """P = (SX)ᵀ(SX) + λI for a subspace embedding S; the penalty is kept exact, but for a shift.

    With several groups it is the harmonic mean of what every group makes of the whole.

    Parameters
    ----------
    rows
        The number s of rows of S X; "auto" is 2d, and half of the rows where there are few.
    kind
        "sparse_sign" throws every row into four buckets, "countsketch" into one.
    storage
        "float32" keeps the rows of S X in float32 and factorises in it, at half the price: of dense
        data, where λ is not far below 1e-8 of the trace. What is certified is computed in float64.
    shift
        P has a μ at least as large in the place of λ. Few rows tell little of the small eigenvalues
        of C, and a μ about as large as these hides what they make up.
    groups
        The rows of S X are factorised in so many groups, for as small a part of the work, and P⁻¹
        is the mean of their inverses: nearly as good where λ leaves few degrees of freedom beside
        the rows of a group.
    """

    rows: Rows = "auto"
    kind: Kind = "sparse_sign"
    storage: Storage = "float64"
    shift: float = 0.0
    groups: int = 1
    name: ClassVar[str] = "embedding"
    summary: ClassVar[str] = "Gram matrix of a subspace embedding S X of the rows, Cholesky"
    cost: ClassVar[str] = "one pass and sd² + d³/3 to build, O(d²) to apply"
    use_when: ClassVar[str] = "n ≫ d, d in the thousands, and the spectrum does not decay"
    low_rank: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_rows(self.rows)
        check_kind(self.kind)
        if self.storage not in ("float64", "float32"):
            raise ValueError(f"storage={self.storage!r} must be 'float64' or 'float32'")
        check_number("shift", self.shift, 0.0, "give a number ≥ 0")
        check_integer("groups", self.groups, 1, "give an integer from 1 to the rows")

    @property
    def reads_once(self) -> bool:
        """Whether building it reads every row once, and may be the first to do so."""
        return THROWS[self.kind] == 1

    def _rows(self, problem: RidgeProblem) -> int:
        rows = resolve_rows(self.rows, 2, problem, self.name)
        if self.groups > rows:
            raise ValueError(f"groups={self.groups} is more than the {rows} rows: give fewer")
        return rows

    def _is_narrow(self, problem: RidgeProblem) -> bool:
        """Whether the rows will be kept in float32."""
        dense = isinstance(problem.X, np.ndarray)
        return self.storage == "float32" and dense

    def directions(self, problem: RidgeProblem) -> int:
        """The rank that it will have; rows out of range are refused here."""
        return min(self._rows(problem), problem.d)

    def memory(self, problem: RidgeProblem) -> int:
        """S, the rows of S X, and the factor."""
        source = RowEmbedding(self.kind, self._rows(problem), problem.n, 0)
        return source.memory(problem, self._is_narrow(problem), self.groups)

    def build(self, problem: RidgeProblem, rng: np.random.Generator) -> SketchedPreconditioner:
        """Embed in one pass and factorise."""
        source = RowEmbedding.draw(self.kind, self._rows(problem), problem.n, rng)
        parted = f", in {self.groups} groups" if self.groups > 1 else ""
        told = [f"{problem.n} rows embedded into {source.rows}{parted}"]
        if self._is_narrow(problem):
            try:
                return self._built(source, problem, "float32", [*told, "factorised in float32"])
            except np.linalg.LinAlgError as error:
                told.append(f"{error}: embedded again, in float64")
        elif self.storage == "float32":
            told.append("kept in float64: float32 is for dense data")
        return self._built(source, problem, "float64", told)

    def _built(
        self, source: RowEmbedding, problem: RidgeProblem, storage: Storage, told: list[str]
    ) -> SketchedPreconditioner:
        rows, probe, targets = _embedded(source, problem, storage, kept=self.groups > 1)
        rounding, least = source.rounding(problem), expected_least(source.rows, problem.d)
        return SketchedPreconditioner.of(
            self.name,
            problem,
            rows,
            probe,
            targets,
            source,
            rounding,
            least,
            *told,
            shift=self.shift,
            groups=self.groups,
        )
