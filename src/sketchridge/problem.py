"""The objective: its value, gradient and Gram products; weights and the intercept.

    F(w) = ½ Σ ω_i (x_iᵀw + b − y_i)² + λ/2 ‖w‖²,   ω_i = s_i / Σs,   C = Σ ω_i x_i x_iᵀ

The intercept b is unpenalised. It is eliminated by centring X and y by their weighted means m
and ȳ, implicitly: X itself is never touched, so sparse data stays sparse.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchridge.codes import CodedProducts, Codes, encode, guessed_step
from sketchridge.columns import scaled_copy, sparse_column_squares, sparse_column_sums
from sketchridge.evaluation import DualPoint, Evaluation
from sketchridge.products import (
    LARGE_MATRIX,
    DenseProducts,
    Products,
    SampledProducts,
    narrow_copy,
    products_of_dense,
)
from sketchridge.sparse_products import SparseProducts

Array = NDArray[np.float64]
EPSILON = float(np.finfo(np.float64).eps)
# Below this share of where it began, an objective that is kept by subtracting has less than twelve
# digits.
TINY = 1e-3
# What may be left uncertain of an objective that is not computed from the data.
LOST = 1e-11
# Of the trace of the rows as given, the share that centring leaves without a loss that matters.
MUCH_LEFT = 1e-3
ROWS_LOOKED_AT = 256
# Numbers that are squared before they are summed: more are new memory, which is dear.
SQUARED_AT_A_TIME = 1 << 16
# Mean square norms of rows, and the largest of all, whose values float32 holds with room to spare.
FLOAT32_TRACES, LARGEST_FLOAT32_NORM = (1e-20, 1e20), 1e70
# Norms that are summed in another order are alike to this share of them, and nearly always in more
# bits than these of their 64.
SUMMED_ALIKE, SURE_BITS = 1e-11, 28


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What data is known again by: the rows' norms, and the rest to the last bit."""

    rest: bytes  # of the shape, the weights, and whether it is centred
    squared_norms: Array  # (n,) whose last bits depend on the order in which they were summed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fingerprint) or self.rest != other.rest:
            return False
        off = np.abs(self.squared_norms - other.squared_norms)
        return bool(np.all(off <= SUMMED_ALIKE * self.squared_norms))

    __hash__ = None  # type: ignore[assignment]  # what is nearly equal has no hash in common

    def digest(self) -> bytes:
        """A coarse one, the same for norms that were summed in another order."""
        unsure = 64 - SURE_BITS
        bits = self.squared_norms.view(np.int64) + (1 << (unsure - 1)) >> unsure
        return blake2b(self.rest + bits.tobytes(), digest_size=16).digest()


class Operator(Protocol):
    """What a Krylov space needs of C, or of C on part of the space."""

    @property
    def trace(self) -> float:
        """Trace of C."""

    @property
    def raw_trace(self) -> float:
        """Σ ω_i ‖x_i‖² of the rows as given: rounding errors are in proportion to it."""

    @property
    def rounding_factor(self) -> float:
        """How many units of roundoff a product with X may be off by, over four."""

    def gram(self, V: Array) -> Array:
        """C V, (d, k); one pass."""


class Problem(Operator, Protocol):
    """What a full-gradient solver, a sketch and the certificate need of a ridge problem."""

    n: int
    d: int
    passes: float
    fit_intercept: bool

    @property
    def lam(self) -> float:
        """The penalty λ."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What tells this problem's C from another's."""

    @property
    def targets(self) -> int:
        """The number t of targets."""

    @property
    def null_objective(self) -> Array:
        """F(0) with its best intercept, (t,)."""

    def evaluate(self, W: Array) -> Evaluation:
        """Objective and gradient at W (d, t); one pass."""

    def adjoint(self, R: Array) -> Array:
        """Σ ω_i^½ x_i R_i: the d×n matrix X̄ with X̄X̄ᵀ = C, times R (n, k); one pass."""

    def rounding(self, evaluation: Evaluation) -> Array:
        """Bound of the gradient's rounding error, in the Euclidean norm, (t,)."""

    def residual_rounding(self, evaluation: Evaluation) -> Array:
        """Bound of the residuals' (and the intercept's) rounding error, (t,)."""


class Slope(NamedTuple):
    """Xᵀ diag(weights) Y of the data as given (d, t), and what it was made with."""

    Y: Array
    weights: Array
    product: Array


class RidgeProblem:
    """A ridge problem over a dense or CSR matrix in memory (or a memory map)."""

    def __init__(
        self,
        X: Any,
        Y: Array,
        lam: float,
        sample_weight: Array | None = None,
        fit_intercept: bool = False,
        scale_rows: bool = False,
    ) -> None:
        self.X = X
        self.n: int = X.shape[0]
        self.d: int = X.shape[1]
        dense = isinstance(X, np.ndarray)
        self.passes = 0.0
        self.notes: list[str] = []
        self.products: Products = (
            products_of_dense(X) if dense else SparseProducts(X, self.notes.append)
        )
        self.weights = _normalised(sample_weight, self.n)
        self.given_lam = lam
        self.scale_rows = scale_rows
        self.fit_intercept = fit_intercept
        self.target_mean = np.zeros(Y.shape[1])
        self.Y = Y
        if fit_intercept:
            self._centre_targets()
        self.coding: list[Codes | None] = []  # what came of it, once it was tried; shared by `at`
        self.slope: Slope | None = None
        self.summed_trace: float | None = None  # not None where this stands for other data
        self.target_offset = np.abs(self.target_mean)  # how much was taken off the targets, (t,)

    def _centre_targets(self) -> None:
        present = self.Y if self.weights.all() else self.Y[self.weights > 0]
        # The mean of a constant is that constant, to the last bit.
        constant = present.max(axis=0) == present.min(axis=0)
        self.target_mean = np.where(constant, present[0], self.weights @ self.Y)
        self.Y = self.Y - self.target_mean
        self.Y[:, constant] = 0.0

    def at(self, lam: float, targets: Any = slice(None)) -> RidgeProblem:
        """The same data with another λ and some of the targets.

        What is known of X is shared, and passes count on from here.
        """
        twin = copy(self)
        for name in ("lam", "null_objective"):
            twin.__dict__.pop(name, None)
        twin.given_lam = lam
        every = np.arange(self.targets)
        if not np.array_equal(every[targets], every):
            twin.Y = np.ascontiguousarray(self.Y[:, targets])
        twin.target_mean = self.target_mean[targets]
        twin.target_offset = self.target_offset[targets]
        return twin

    def stands_for(
        self, raw_squares: Array, summed_squares: Array, rounding_factor: float, offset: Array
    ) -> None:
        """Let the certificate allow for the rounding of other data, whose moments this has.

        `raw_squares` (d,) are the means of its squared entries, and `summed_squares` those of
        what was summed for C, about the means or not; `rounding_factor` is that of its sums over
        rows, and `offset` (t,) was taken off its targets.
        """
        self.__dict__["trace"] = self.trace  # of this data, which the next line must not change
        self.__dict__["raw_trace"] = self._raw_trace_of(raw_squares)
        self.__dict__["rounding_factor"] = max(self.products.rounding_factor, rounding_factor)
        self.summed_trace = self._raw_trace_of(summed_squares)
        self.target_offset = self.target_offset + offset

    @property
    def noise(self) -> float:
        """How far C may be from that of the data that this stands for; 0 if it is itself."""
        if self.summed_trace is None:
            return 0.0
        return float(self._unit * np.sqrt(self.raw_trace * self.summed_trace))

    def loosened(self, gap: Array) -> Array:
        """Certified gaps (t,) for the data that this stands for: H ⪯ H' + noise ⪯ (1 + noise/λ) H'.

        With λ = 0 nothing is known of the data but what is above the noise.
        """
        if self.summed_trace is None:
            return gap
        lam = np.broadcast_to(self.lam, gap.shape)
        share = np.divide(self.noise, lam, out=np.zeros(gap.shape), where=lam > 0)
        bound: Array = gap * (1.0 + share)
        return bound

    def _raw_trace_of(self, raw_squares: Array) -> float:
        """What `raw_trace` is for columns of these mean squares (d,)."""
        return float(raw_squares.sum())

    @cached_property
    def mean(self) -> Array | None:
        """The mean row m, (d,); None when nothing is centred."""
        if not self.fit_intercept:
            return None
        self.passes += 1
        return self.products.adjoint(self.weights[:, None])[:, 0]

    @cached_property
    def raw_squared_norms(self) -> Array:
        """‖x_i‖² of the rows as given, (n,)."""
        self.passes += 1
        products = self.products
        # Where the kernels will be loaded anyway.
        if isinstance(products, DenseProducts) and products.own_threads(self.targets):
            return self._read_first(products)
        return products.squared_norms()

    def _read_first(self, products: DenseProducts) -> Array:
        """‖x_i‖² (n,), and from the same read the mean row and the slope at w = 0, to be kept."""
        factors = self.weights[:, None] * self.Y
        if self.fit_intercept:
            factors = np.column_stack([self.weights, factors])
        norms, sums = products.compiled_first_sums(factors)
        if self.fit_intercept:
            self.__dict__.setdefault("mean", sums[:, 0].copy())
        self.slope = Slope(self.Y, self.weights, sums[:, -1:].copy())
        return norms

    def sparse_column_squares(self) -> Array:
        """Σ ω_i x_ij² of sparse rows as given, (d,), and from the same read the slope at w = 0."""
        self.passes += 1
        compiled = isinstance(self.products, SparseProducts) and self.products.own_threads(1)
        if self.targets > 1 or not compiled:
            return sparse_column_squares(self.X, self.weights)
        factors = self.weights * self.Y[:, 0]
        squares, slope = sparse_column_sums(self.X, self.weights, factors)
        self.slope = Slope(self.Y, self.weights, slope[:, None])
        return squares

    def _known_slope(self) -> Array | None:
        """Σ ω_i x_i y_i (d, t) of the rows as given, if they have been read with these targets."""
        slope = self.slope
        if slope is None or slope.Y is not self.Y or slope.weights is not self.weights:
            return None
        return slope.product

    @property
    def knows_norms(self) -> bool:
        """Whether the rows have been read, and their norms are known."""
        return "raw_squared_norms" in self.__dict__

    def learn_norms(self, squared_norms: Array) -> None:
        """Take ‖x_i‖² (n,) from whoever has read the rows for something else."""
        self.__dict__["raw_squared_norms"] = squared_norms

    @property
    def can_wait(self) -> bool:
        """Whether an embedding may be the first to read the rows, and find their norms."""
        dense = isinstance(self.X, np.ndarray) and self.X.flags.c_contiguous
        return dense and self.X.size >= LARGE_MATRIX and not (self.fit_intercept or self.scale_rows)

    @property
    def guessed_trace(self) -> float:
        """About the trace of C: by a few rows, where their norms are not known yet."""
        return self.trace if self.knows_norms or not self.can_wait else self._trace_of_some

    @cached_property
    def _trace_of_some(self) -> float:
        """Of a few rows that count; NaN where none of them does."""
        some = slice(None, None, max(1, self.n // ROWS_LOOKED_AT))
        rows, weights = self.X[some], self.weights[some]
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        return float(weights @ squares / weights.sum()) if weights.any() else np.nan

    @cached_property
    def lam(self) -> float:
        """The penalty λ.

        Dividing every row by the average norm τ and solving with λ is solving with λτ² on the
        rows as they are, for coefficients that fit those rows.
        """
        if not self.scale_rows:
            return self.given_lam
        return self.given_lam * float(self.weights @ np.sqrt(self.raw_squared_norms)) ** 2

    @cached_property
    def rounding_factor(self) -> float:
        """How many units of roundoff a product with X may be off by, over four."""
        return self.products.rounding_factor

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What tells this problem's C from another's, as far as the rows' norms can."""
        digest = blake2b(self.weights.tobytes(), digest_size=16)
        digest.update(repr((self.n, self.d, self.fit_intercept)).encode())
        return Fingerprint(digest.digest(), self.raw_squared_norms)

    @property
    def targets(self) -> int:
        """The number t of targets."""
        return int(self.Y.shape[1])

    @property
    def dense_products(self) -> DenseProducts:
        """The products of dense data, by its codes where it has any."""
        coded = isinstance(self.products, CodedProducts)
        return self.products if coded else DenseProducts(self.X)  # type: ignore[return-value]

    @property
    def code_bytes(self) -> int:
        """Of the copy in bytes; 0 where there is none."""
        products = self.products
        return products.codes.numbers.nbytes if isinstance(products, CodedProducts) else 0

    def encode(self, limit: float) -> None:
        """Let passes read a copy of X in bytes, of at most so many, where its values allow that.

        Only for one target: with more, products are bound by arithmetic. One pass, that finds the
        norms too; what it found serves the same data with another λ.
        """
        plain = type(self.products) is DenseProducts and self.summed_trace is None
        if not plain or self.targets > 1 or self.X.size > limit:
            return
        if not self.coding and (found := guessed_step(self.X)) is not None:
            self._try_to_encode(*found)
        if self.coding and self.coding[0] is not None:
            self.products = CodedProducts(self.X, self.coding[0])
            for name in ("rounding_factor", "trace_bounds"):
                self.__dict__.pop(name, None)

    def _try_to_encode(self, step: float, kind: Any) -> None:
        self.passes += 1
        with np.errstate(over="ignore", invalid="ignore"):
            codes, norms = encode(self.X, step, kind)
        self.coding.append(codes)
        if not self.knows_norms:
            self.learn_norms(norms)
        told = "X seemed to be whole multiples of one number, and is not"
        if codes is not None:
            size = codes.numbers.nbytes / 1e6
            told = f"X is whole multiples of {step:.4g}: copied to bytes ({size:.1f} MB), "
            told += "for faster passes"
        self.notes.append(told)

    @property
    def even(self) -> bool:
        """Whether the rows weigh the same and are not centred."""
        return not self.fit_intercept and bool(np.all(self.weights == self.weights[0]))

    @property
    def narrows(self) -> bool:
        """Whether products with a float32 copy of X read about half as much."""
        if isinstance(self.X, np.ndarray):
            return bool(self.X.dtype == np.float64)
        if not isinstance(self.products, SparseProducts) or self.targets > 1:
            return False
        return bool(self.X.data.dtype == np.float64) and self.products.own_threads(1)

    @property
    def in_float32_range(self) -> bool:
        """Whether float32 holds the values of every row, one of weight zero too."""
        smallest, largest = FLOAT32_TRACES
        held = float(self.raw_squared_norms.max()) <= LARGEST_FLOAT32_NORM
        return held and smallest <= self.raw_trace <= largest

    def narrowed(self) -> RidgeProblem:
        """The same problem with X in float32: its products are off by 1e-8 or so, and cost less.

        Passes over the copy count there, and what is said of the data stays with this problem.
        """
        if not self.narrows:
            return self
        if not self.in_float32_range:
            self.notes.append("X is not copied to float32, whose range it leaves")
            return self
        twin = copy(self)
        if isinstance(self.products, SparseProducts):
            twin.products = self.products.compacted
            return twin
        self.notes.append(
            f"X is copied to float32 ({self.X.nbytes / 2e6:.1f} MB), for faster passes"
        )
        twin.X = narrow_copy(self.X)
        twin.products = DenseProducts(twin.X)
        return twin

    def leave_room(self, limit: float) -> None:
        """Let copies that nobody has asked for take no more than so many bytes."""
        if isinstance(self.products, SparseProducts):
            self.products.room = limit

    def with_scaled_columns(self, factors: Array, lam: float) -> RidgeProblem:
        """X diag(factors) in a copy in float32, with another λ, for directions from its rows.

        Passes over the copy count there, the one that made it first; what is said of the data
        stays with this problem.
        """
        scaled, norms = scaled_copy(self.X, factors, np.float32)
        values = scaled if isinstance(scaled, np.ndarray) else scaled.data
        note = (
            f"X is copied to float32 with its columns scaled ({values.nbytes / 1e6:.1f} MB), for "
            "the epochs; what is certified is computed from the data as given"
        )
        if note not in self.notes:  # another λ's copy
            self.notes.append(note)
        twin = RidgeProblem(scaled, self.Y, lam, self.weights, self.fit_intercept)
        twin.passes = 1.0
        twin.learn_norms(norms)
        return twin

    def sampled(self, indices: NDArray[np.int64]) -> RidgeProblem:
        """What is left of C, for products with it, when only some rows are seen.

        They are centred by the mean of all. Passes over them are parts of passes of this problem,
        which the caller counts.
        """
        twin = copy(self)
        twin.__dict__["mean"] = self.mean
        twin.weights, twin.passes = self.weights[indices], 0.0
        dense = isinstance(self.X, np.ndarray)
        twin.products = (
            SampledProducts(self.X, indices) if dense else SparseProducts(self.X[indices])
        )
        return twin

    @cached_property
    def rows(self) -> Any:
        """The matrix as the stochastic kernels take it: rows contiguous, dense or CSR."""
        from sketchridge import kernels

        if not isinstance(self.X, np.ndarray):
            return kernels.CSR(self.X.data, self.X.indices, self.X.indptr)
        if not self.X.flags.c_contiguous:
            self.notes.append(
                f"X is in Fortran order: copied to C order ({self.X.nbytes / 1e6:.1f} MB), "
                "for this solver reads single rows"
            )
        return np.ascontiguousarray(self.X)

    @cached_property
    def null_objective(self) -> Array:
        """F(0) with its best intercept, (t,)."""
        return 0.5 * _weighted_squares(self.weights, self.Y)

    @cached_property
    def mean_products(self) -> Array:
        """x_iᵀm of the raw rows, (n,); empty when nothing is centred."""
        if self.mean is None:
            return np.zeros(0)
        self.passes += 1
        return self.products.multiply(self.mean[:, None])[:, 0]

    @cached_property
    def squared_norms(self) -> Array:
        """‖x_i − m‖², (n,)."""
        if self.mean is None:
            return self.raw_squared_norms
        # What cancels could be as large as this: a row that counts for nothing is never sampled.
        floor = 4 * EPSILON * (self.raw_squared_norms + float(self.mean @ self.mean))
        self.passes += 1
        return np.maximum(self.products.squared_norms(self.mean), floor)

    @cached_property
    def raw_trace(self) -> float:
        """Σ ω_i ‖x_i‖² of the rows as given: rounding errors are in proportion to it."""
        return float(self.weights @ self.raw_squared_norms)

    @cached_property
    def trace_bounds(self) -> tuple[float, float]:
        """The trace of C, less and more what rounding (and centring's cancellation) may hide."""
        slip = float(8 * EPSILON * self.rounding_factor * self.raw_trace)
        return max(0.0, self.trace - slip), self.trace + slip

    @cached_property
    def trace(self) -> float:
        """Trace of C."""
        if self.mean is None:
            return self.raw_trace
        left = self.raw_trace - float(self.mean @ self.mean)
        if left > MUCH_LEFT * self.raw_trace:  # nothing that matters cancels, and a pass is saved
            return left
        return float(self.weights @ self.squared_norms)

    def intercept(self, W: Array) -> Array:
        """The best intercept for coefficients W (d, t)."""
        if self.mean is None:
            return np.zeros(W.shape[1])
        return self.target_mean - self.mean @ W

    def original(self, W: Array) -> Array:
        """The coefficients of the data's columns, from those that the solvers see (d, t)."""
        return W

    def start(self, W: Array) -> Array:
        """What the solvers should start from, for coefficients W (d, t) of the data's columns."""
        return W

    def distance(self, gap: Array) -> Array:
        """How far the original coefficients may be from the best, for certified gaps (t,).

        λ/2 ‖w − w*‖² is at most F(w) − F*.
        """
        lam = np.broadcast_to(self.lam, gap.shape)
        squares = np.divide(2 * gap, lam, out=np.full(gap.shape, np.inf), where=lam > 0)
        bound: Array = np.sqrt(squares)
        return bound

    def rounded(self, W: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """The point W (d, t) whose original coefficients are rounded to a narrower type.

        Also how far that puts the unpenalised part of the fit off its best, (t,): the intercept
        is rounded too.
        """
        W = W.astype(dtype).astype(np.float64)
        if not self.fit_intercept:
            return W, np.zeros(W.shape[1])
        best = self.intercept(W)
        return W, np.abs(best.astype(dtype).astype(np.float64) - best)

    def evaluate(self, W: Array, duals: DualPoint | None = None) -> Evaluation:
        """Objective and gradient at W (d, t), and how far its dual variables are off; one pass.

        It takes no pass at W = 0 where the first read of the data has told the slope.
        """
        slope = None if W.any() else self._known_slope()
        if slope is None:
            self.passes += 1
            R, gradient, residual_mean = self._residual(W)
        else:
            R, gradient, residual_mean = self._centred(-self.Y, -slope)
        squares = _weighted_squares(self.weights, R)
        distance: Array | float = np.inf
        if duals is not None:
            distance = np.sqrt(self.weights @ (R + duals.values) ** 2)
            distance = distance + np.sqrt(self.lam) * duals.drift
        return Evaluation(
            coef=W,
            objective=0.5 * squares + 0.5 * self.lam * np.sum(W**2, axis=0),
            gradient=gradient + self.lam * W,
            residual_norm=np.sqrt(squares),
            residual_mean=residual_mean,
            dual_distance=distance,
            duals=duals,
        )

    def _residual(self, W: Array) -> tuple[Array, Array, Array]:
        """Residuals (n, t), the loss's gradient (d, t), and the residuals' mean if centred (t,)."""
        return self._centred(*self.products.residual(W, self.Y, self._shift(W), self.weights))

    def _centred(self, R: Array, gradient: Array) -> tuple[Array, Array, Array]:
        """The same from the residuals and their products with the rows as given."""
        if self.mean is None:
            return R, gradient, np.zeros(R.shape[1])
        residual_mean = self.weights @ R
        return R, gradient - np.outer(self.mean, residual_mean), residual_mean

    def null_gradient(self) -> Array:
        """The gradient at w = 0, (d, t); one pass, unless it is known."""
        slope = self._known_slope()
        if slope is None:
            self.passes += 1
            slope = self._sums_with(self.Y)
        gradient: Array = -slope
        if self.mean is not None:
            gradient += np.outer(self.mean, self.weights @ self.Y)
        return gradient

    def _sums_with(self, R: Array) -> Array:
        """Σ ω_i x_i R_i of the rows as given, (d, k); of many targets no copy, if they can."""
        if np.all(self.weights == self.weights[0]):
            return float(self.weights[0]) * self.products.adjoint(R)
        return self.products.adjoint(self.weights[:, None] * R)

    def null_evaluation(self) -> Evaluation:
        """The objective and its gradient at w = 0; one pass, unless the slope is known."""
        return Evaluation(
            coef=np.zeros((self.d, self.targets)),
            objective=self.null_objective,
            gradient=self.null_gradient(),
            residual_norm=np.sqrt(2 * self.null_objective),
            residual_mean=np.zeros(self.targets),  # but for what `residual_rounding` allows for
        )

    def gram(self, V: Array) -> Array:
        """C V, (d, k); one pass."""
        self.passes += 1
        product, total = self.products.normal(V, self._shift(V), self.weights)
        if self.mean is not None:
            product -= np.outer(self.mean, total)
        return product

    def multiply(self, V: Array) -> Array:
        """Centred rows times V (d, k): (n, k); one pass."""
        self.passes += 1
        return self.products.multiply(V) - self._shift(V)

    def adjoint(self, R: Array) -> Array:
        """Σ ω_i^½ x_i R_i: the d×n matrix X̄ with X̄X̄ᵀ = C, times R (n, k); one pass."""
        self.passes += 1
        weighted = np.sqrt(self.weights)[:, None] * R
        product = self.products.adjoint(weighted)
        if self.mean is not None:
            product -= np.outer(self.mean, weighted.sum(axis=0))
        return product

    def _shift(self, V: Array) -> Array:
        """mᵀV, (k,): what centring takes from every row's product."""
        return np.zeros(V.shape[1]) if self.mean is None else self.mean @ V

    @property
    def _unit(self) -> float:
        """What a product may be off by, in proportion to the norms of its factors."""
        return 4 * EPSILON * self.rounding_factor

    def residual_rounding(self, evaluation: Evaluation) -> Array:
        """Bound of the residuals' rounding error, in the weighted norm; the intercept's too, (t,).

        Each product is off by the unit roundoff times the norms of its factors; the rounding
        factor, at least √max(n, d), and 4 cover how they add up (checked in exact arithmetic).
        """
        fitted = np.sqrt(self.raw_trace) * _lengths(evaluation.coef)
        size = evaluation.residual_norm + self.target_offset + fitted
        bound: Array = self._unit * size
        return bound

    @property
    def bounds_drift(self) -> bool:
        """Whether it is known how far what was not read from the data afresh may be off."""
        return self.summed_trace is None

    def running(
        self,
        start: Evaluation,
        coef: Array,
        gradient: Array,
        objective: Array,
        travelled: Array,
        products: int,
    ) -> Evaluation | None:
        """What is known of a point (d, t) by adding up what changed since the start; no pass.

        It got there by so many products with C of moves whose lengths add up to `travelled`
        (t,). Each product is off by what an evaluation is, in proportion to the move, and every
        addition by the unit roundoff of what it adds to. None where the data is not at hand, or
        F is so small that differences say little of it.
        """
        largest = np.maximum(start.objective, self.null_objective)
        if not self.bounds_drift or np.any(objective < TINY * largest):
            return None
        met = self.trace_bounds[1]
        length = _lengths(start.coef) + travelled
        sums = (met + self.lam) * length + _lengths(start.gradient)
        drift = self._unit * (5 * np.sqrt(met * self.raw_trace) + self.lam) * travelled
        squares = 2 * objective - self.lam * np.sum(coef**2, axis=0)
        return Evaluation(
            coef=coef,
            objective=objective,
            gradient=gradient,
            residual_norm=np.sqrt(np.maximum(squares, 0.0)),
            residual_mean=np.zeros(objective.shape),  # but for what `residual_rounding` allows for
            drift=self.rounding(start) + drift + 16 * EPSILON * products * sums,
        )

    def moved(
        self, evaluation: Evaluation, gap: Array, coef: Array
    ) -> tuple[Evaluation, Array] | None:
        """An evaluation and a certified gap of a point next to one that has them; no pass.

        √(2(F − F*)) is the distance to the minimum in H's norm: a move adds its own length to it,
        at most √(tr C + λ) times the Euclidean one. None where it could change F in digits that
        count, and where `running` is none.
        """
        move = coef - evaluation.coef
        length, steepest = _lengths(move), self.trace_bounds[1] + self.lam
        rise = 0.5 * steepest * length**2 * (1.0 + 1e-12)
        if not self.bounds_drift or np.any(rise > LOST * evaluation.objective):
            return None
        near = replace(
            evaluation,
            coef=coef,
            objective=evaluation.objective + np.einsum("ij,ij->j", evaluation.gradient, move),
            residual_norm=evaluation.residual_norm + np.sqrt(2 * rise),
            dual_distance=np.inf,
            duals=None,
            drift=evaluation.drift + steepest * length,
        )
        reached: Array = (np.sqrt(gap) + np.sqrt(rise)) ** 2
        return near, reached

    def dual_objective(self, W: Array, dual: Array, off: Array) -> Array:
        """F (t,) at W = X̄a, where a (n, t) solves (K + λI)a = S y up to `off`.

        The dual objective λ aᵀSy − ½‖λa‖² − λ/2 ‖w‖², and what F is above it. K, whose rounding
        counts for 1/λ of it, is in the last alone, squared.
        """
        fitted = np.einsum("ij,i,ij->j", dual, np.sqrt(self.weights), self.Y)
        squares = (self.lam * _lengths(dual)) ** 2 + self.lam * _lengths(W) ** 2
        objective: Array = self.lam * fitted + 0.5 * (_lengths(off) ** 2 - squares)
        return objective

    def by_duals(self, W: Array, dual: Array, off: Array) -> Evaluation | None:
        """What is known of W = X̄a (d, t) by the matrix K alone; no pass. None as in `running`.

        With the dual variables α = λ S⁻¹a the residuals are off −α by `off`, but for rounding: both
        products with K are off by what sums over all columns may be, and W by what those over rows
        may be.
        """
        if not self.bounds_drift:
            return None
        length, met = _lengths(dual), self.trace_bounds[1]
        unit = 4 * EPSILON * max(self.rounding_factor, self.d / 16)
        unsure = unit * (2 * (self.raw_trace + self.lam) * length)
        unsure += unit * np.sqrt(2 * self.null_objective)
        moved = 5 * self._unit * np.sqrt(self.raw_trace) * length
        distance, shaken = _lengths(off) + unsure, np.sqrt(met) * moved
        return Evaluation(
            coef=W,
            objective=self.dual_objective(W, dual, off),
            gradient=np.zeros_like(W),
            residual_norm=_lengths(off - self.lam * dual) + unsure + shaken,
            residual_mean=np.zeros(W.shape[1]),  # but for what `residual_rounding` allows for
            dual_distance=distance + shaken + np.sqrt(self.lam) * moved,
            drift=np.sqrt(met) * (distance + shaken) + self.lam * moved,
        )

    def rounding(self, evaluation: Evaluation) -> Array:
        """Bound of the gradient's rounding error, in the Euclidean norm, (t,).

        The residuals' error meets the centred rows, however far the raw ones are from zero. What
        sums over the raw rows round is in proportion to the residuals: those of the product, of
        the mean row and of the residuals' mean. Second moments alone never saw the residuals:
        there the targets take their place.
        """
        stand_in = self.summed_trace is not None
        met = self.trace_bounds[1] if self.summed_trace is None else self.summed_trace
        bound: Array = self._unit * self.lam * _lengths(evaluation.coef)
        bound += np.sqrt(met) * self.residual_rounding(evaluation)
        if self.fit_intercept or stand_in:
            size = np.sqrt(2 * self.null_objective) if stand_in else evaluation.residual_norm
            bound += 3 * self._unit * np.sqrt(self.raw_trace) * size
        return bound + evaluation.drift


def _weighted_squares(weights: Array, R: Array) -> Array:
    """Σ ω_i R_ij², (t,), without a copy of all of R (n, t)."""
    step = max(1, SQUARED_AT_A_TIME // R.shape[1])
    total = np.zeros(R.shape[1])
    for start in range(0, len(R), step):
        total += weights[start : start + step] @ R[start : start + step] ** 2
    return total


def _lengths(V: Array) -> Array:
    """The norm of every column, (t,), without a copy."""
    lengths: Array = np.sqrt(np.einsum("ij,ij->j", V, V))
    return lengths


def _normalised(sample_weight: Array | None, n: int) -> Array:
    """Weights that sum to one."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    scaled = sample_weight / sample_weight.max()
    normalised: Array = scaled / scaled.sum()
    return normalised
