"""A penalty of its own for every feature: λ/2 Σ γ_j w_j², with γ_j = 0 for no penalty.

The solvers know one λ. So they see other columns: with w_j = γ_j^(−½) v_j the penalty is λ/2 ‖v‖²,
and the unpenalised columns Z are projected out as the intercept is: the best coefficients of Z
are a linear function of v, so the rows become x_iᵀM with M = diag(γ^(−½)) + E A, where E picks
the unpenalised columns and A (u, d) says how they answer. All of it is implicit: X is neither
copied nor made dense. The objective at v is the original one at its w, so the certificate is too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.columns import scaled_copy
from sketchridge.evaluation import Evaluation
from sketchridge.problem import EPSILON, RidgeProblem
from sketchridge.products import Products
from sketchridge.sparse_products import SparseProducts

Array = NDArray[np.float64]

# Unpenalised columns (scaled to equal norm) depend on each other where they differ by less.
COLLINEAR = 1e-9


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """M = diag(factors) + E A: what the solvers see v as, in terms of the data's columns."""

    factors: Array  # (d,) γ^(−½), and 0 for the unpenalised
    free: NDArray[np.intp]  # (u,) the unpenalised columns
    answers: Array  # (u, d) A

    def apply(self, V: Array) -> Array:
        """M V for V (d, k)."""
        image = self.factors[:, None] * V
        if self.free.size:
            image[self.free] = self.answers @ V
        return image

    def transpose(self, G: Array) -> Array:
        """Mᵀ G for G (d, k)."""
        image = self.factors[:, None] * G
        if self.free.size:
            image += self.answers.T @ G[self.free]
        return image

    @cached_property
    def answer_norm(self) -> float:
        """‖A‖, the spectral norm."""
        return float(np.linalg.norm(self.answers, 2)) if self.answers.size else 0.0


@dataclass(frozen=True, eq=False)
class MappedProducts:
    """Products of X M, from those of X."""

    base: Products
    columns: ColumnMap
    mean: Array | None  # the mean row of X itself

    @property
    def rounding_factor(self) -> float:
        """That of X; products with A run over all columns."""
        longest = self.columns.factors.size / 64 if self.columns.free.size else 0.0
        return max(self.base.rounding_factor, longest)

    def own_threads(self, columns: int) -> bool:
        """Whether products with so many columns run on our threads, not on BLAS's."""
        return self.base.own_threads(columns)

    def squared_norms(self, mean: Array | None = None, factors: Array | None = None) -> Array:
        """‖(x_i − mean) ∘ γ^(−½)‖², (n,), without what projecting takes off."""
        centre = None if mean is None else self.mean
        return self.base.squared_norms(centre, self.columns.factors)

    def multiply(self, V: Array) -> Array:
        """X M V, (n, k)."""
        return self.base.multiply(self.columns.apply(V))

    def adjoint(self, R: Array) -> Array:
        """Mᵀ Xᵀ R, (d, k)."""
        return self.columns.transpose(self.base.adjoint(R))

    def normal(self, V: Array, shift: Array, weights: Array) -> tuple[Array, Array]:
        """Mᵀ Xᵀ diag(weights) R (d, k) and weightsᵀ R (k,), where R = X M V − 1 shiftᵀ."""
        product, total = self.base.normal(self.columns.apply(V), shift, weights)
        return self.columns.transpose(product), total

    def residual(
        self, V: Array, targets: Array, shift: Array, weights: Array
    ) -> tuple[Array, Array]:
        """R = X M V − 1 shiftᵀ − targets (n, k), and Mᵀ Xᵀ diag(weights) R (d, k)."""
        R, product = self.base.residual(self.columns.apply(V), targets, shift, weights)
        return R, self.columns.transpose(product)

    def gram(self, weights: Array, mean: Array | None) -> Array:
        """Mᵀ (X − 1 meanᵀ)ᵀ diag(weights) (X − 1 meanᵀ) M, dense (d, d)."""
        half = self.columns.transpose(self.base.gram(weights, None if mean is None else self.mean))
        return self.columns.transpose(np.ascontiguousarray(half.T))

    def outer(self, weights: Array, mean: Array | None, factors: Array | None = None) -> Array:
        """S A Aᵀ S, A = (X − 1 meanᵀ) M, S = diag(weights)^½; dense (n, n)."""
        centre = None if mean is None else self.mean
        scaled = self.base.outer(weights, centre, self.columns.factors)
        if not self.columns.free.size:
            return scaled
        answers = self.columns.answers
        picked = np.zeros((self.columns.factors.size, self.columns.free.size))
        picked[self.columns.free, np.arange(self.columns.free.size)] = 1.0
        free = self._rows(picked, weights, centre)
        cross = self._rows(self.columns.factors[:, None] * answers.T, weights, centre) @ free.T
        return scaled + cross + cross.T + free @ (answers @ answers.T) @ free.T

    def _rows(self, V: Array, weights: Array, mean: Array | None) -> Array:
        product = self.base.multiply(V)
        if mean is not None:
            product -= mean @ V
        return np.sqrt(weights)[:, None] * product


class MappedMatrix:
    """X M as the solvers' matrix: its shape, and a dense copy for those that need one."""

    def __init__(self, X: Any, columns: ColumnMap) -> None:
        self.X = X
        self.columns = columns
        self.shape: tuple[int, int] = X.shape

    def toarray(self) -> Array:
        """A dense copy."""
        dense = self.X if isinstance(self.X, np.ndarray) else self.X.toarray()
        return np.ascontiguousarray(self.columns.transpose(dense.T.astype(np.float64)).T)


@dataclass(frozen=True, eq=False)
class FreeSpan:
    """What the unpenalised columns Z span: S Z_c T = Q, orthonormal, with S = diag(ω)^½."""

    basis: Array  # (n, r) Q
    coefficients: Array  # (u, r) T
    condition: float  # of Z with columns of equal norm; 0 where there are none
    raw_norm: float  # of S Z, as it is

    @classmethod
    def of(cls, problem: RidgeProblem, free: NDArray[np.intp]) -> FreeSpan:
        """By singular values; directions in which the columns do not differ are left out."""
        if not free.size:
            return cls(np.zeros((problem.n, 0)), np.zeros((0, 0)), 0.0, 0.0)
        picked = np.zeros((problem.d, free.size))
        picked[free, np.arange(free.size)] = 1.0
        Z = np.sqrt(problem.weights)[:, None] * problem.multiply(picked)
        squares = np.sum(Z**2, axis=0)
        means = np.zeros(free.size) if problem.mean is None else problem.mean[free]
        raw_squares = squares + means**2
        varying = varies(squares, raw_squares, problem.rounding_factor)
        scale = np.divide(1.0, np.sqrt(squares), out=np.zeros(free.size), where=varying)
        Z *= scale
        left, values, right = scipy.linalg.svd(
            Z, full_matrices=False, overwrite_a=True, check_finite=False
        )
        kept = values > COLLINEAR * values[0]
        T = scale[:, None] * right[kept].T / values[kept]
        condition = float(values[0] / values[kept][-1]) if kept.any() else 0.0
        raw_norm = float(np.sqrt(raw_squares.sum()))
        return cls(np.ascontiguousarray(left[:, kept]), T, condition, raw_norm)

    @cached_property
    def length(self) -> float:
        """‖T‖: how long the coefficients of a vector of length one may be."""
        return float(np.linalg.norm(self.coefficients, 2)) if self.coefficients.size else 0.0

    @property
    def note(self) -> str:
        """What the plan should tell."""
        count, rank = self.coefficients.shape
        note = (
            f"{count} unpenalised column(s) are projected out, by a basis of "
            f"{self.basis.shape[0]} × {rank} numbers"
        )
        if rank == count:
            return note
        return note + (
            f"; {count - rank} of them are constant or depend on the others to nine digits, and "
            "of their coefficients those of the smallest norm (of columns of equal norm) are taken"
        )


class FeaturePenaltyProblem(RidgeProblem):
    """A ridge problem whose features have penalties of their own, in the solvers' terms v."""

    columns: ColumnMap
    base_mean: Array | None  # the mean row of X; `mean` is that of X M
    span: FreeSpan
    free_coef: Array  # (u, t) the unpenalised coefficients at v = 0

    def original(self, W: Array) -> Array:
        """The coefficients of the data's columns, from those that the solvers see (d, t)."""
        coef = self.columns.apply(W)
        coef[self.columns.free] += self.free_coef
        return coef

    def start(self, W: Array) -> Array:
        """What the solvers should start from, for coefficients W (d, t) of the data's columns."""
        factors = self.columns.factors[:, None]
        return np.divide(W, factors, out=np.zeros_like(W), where=factors > 0)

    def distance(self, gap: Array) -> Array:
        """How far the original coefficients may be from the best, for certified gaps (t,).

        Those of v are off by M(v − v*); the unpenalised ones by as much more as the gap leaves
        room for.
        """
        stretch = np.hypot(self.columns.factors.max(), self.columns.answer_norm)
        bound: Array = stretch * super().distance(gap) + self.span.length * np.sqrt(2 * gap)
        return bound

    def intercept(self, W: Array) -> Array:
        """The best intercept for the solvers' coefficients W (d, t)."""
        return self._intercept(self.original(W))

    def _intercept(self, coef: Array) -> Array:
        if self.base_mean is None:
            return np.zeros(coef.shape[1])
        return self.target_mean - self.base_mean @ coef

    def rounded(self, W: Array, dtype: np.dtype[Any]) -> tuple[Array, Array]:
        """The point whose original coefficients are rounded, and how far that is off, (t,)."""
        coef = self.original(W).astype(dtype).astype(np.float64)
        W = self.start(coef)
        best = self.original(W)
        coef[self.columns.free] = best[self.columns.free].astype(dtype)
        off = np.zeros_like(coef)
        off[self.columns.free] = (coef - best)[self.columns.free]
        squares = self._free_squares(off)
        intercept = self.intercept(W).astype(dtype).astype(np.float64)
        squares += (intercept - self._intercept(coef)) ** 2
        return W, np.sqrt(np.maximum(squares, 0.0))

    def _free_squares(self, coef: Array) -> Array:
        """‖Z_c β‖² of unpenalised coefficients, given among all (d, t); (t,)."""
        return np.zeros(coef.shape[1])

    def at(self, lam: float, targets: Any = slice(None)) -> FeaturePenaltyProblem:
        """The same data with another λ and some of the targets."""
        twin = super().at(lam, targets)
        assert isinstance(twin, FeaturePenaltyProblem)
        twin.free_coef = self.free_coef[:, targets]
        return twin

    @property
    def bounds_drift(self) -> bool:
        """No: what an evaluation is off by depends on the residuals here."""
        return False

    def _raw_trace_of(self, raw_squares: Array) -> float:
        """What `raw_trace` is for columns of X of these mean squares (d,)."""
        scaled = float(self.columns.factors**2 @ raw_squares)
        free = float(raw_squares[self.columns.free].sum())
        return float((np.sqrt(scaled) + self.columns.answer_norm * np.sqrt(free)) ** 2)


class CopiedColumns(FeaturePenaltyProblem):
    """With the columns scaled in a copy of X, for solvers that read its rows; none is free."""

    def __init__(
        self,
        X: Any,
        Y: Array,
        lam: float,
        feature_penalty: Array,
        sample_weight: Array | None = None,
        fit_intercept: bool = False,
    ) -> None:
        factors, free = _factors(feature_penalty)
        if free.size:
            raise ValueError(
                f"feature_penalty has {free.size} zero(s), and a solver or preconditioner that "
                "reads the rows of X cannot project unpenalised columns out: use solver='cg' with "
                "'nystrom' (of all rows) or 'lanczos', or solver='direct'"
            )
        scaled, _ = scaled_copy(X, factors)
        super().__init__(scaled, Y, lam, sample_weight, fit_intercept)
        values = scaled if isinstance(X, np.ndarray) else scaled.data
        self.notes.append(
            f"feature_penalty: the columns are scaled in a copy of X ({values.nbytes / 1e6:.1f} "
            "MB), for the rows of X are read"
        )
        self.columns = ColumnMap(factors, free, np.zeros((0, self.d)))
        self.base_mean = None if self.mean is None else self.mean / factors
        self.span = FreeSpan.of(self, free)
        self.free_coef = np.zeros((0, self.targets))


class ImplicitColumns(FeaturePenaltyProblem):
    """With X as it is: for whatever knows X by its products alone."""

    def __init__(
        self,
        X: Any,
        Y: Array,
        lam: float,
        feature_penalty: Array,
        sample_weight: Array | None = None,
        fit_intercept: bool = False,
    ) -> None:
        super().__init__(X, Y, lam, sample_weight, fit_intercept)
        self.copied = partial(CopiedColumns, X, Y, lam, feature_penalty, sample_weight)
        self.base, self.base_mean = self.products, self.mean
        self.nothing_fitted = self.null_objective  # all coefficients 0, unpenalised ones too
        factors, free = _factors(feature_penalty)
        self.span = FreeSpan.of(self, free)
        self.free_trace = 0.0
        self.free_coef, answers = np.zeros((free.size, self.targets)), np.zeros((0, self.d))
        if free.size:
            answers = self._project(factors, free)
        self.columns = ColumnMap(factors, free, answers)
        self.products = MappedProducts(self.base, self.columns, self.base_mean)
        self.X = MappedMatrix(X, self.columns)
        if self.base_mean is not None:
            self.__dict__["mean"] = self.columns.transpose(self.base_mean[:, None])[:, 0]

    def with_rows(self) -> CopiedColumns:
        """The same problem for solvers that read rows; unpenalised columns are refused."""
        problem: CopiedColumns = self.copied(self.base_mean is not None)
        problem.passes += self.passes
        return problem

    def _project(self, factors: Array, free: NDArray[np.intp]) -> Array:
        """Project the unpenalised columns out of the targets; A (u, d), how they answer to v."""
        roots = np.sqrt(self.weights)[:, None]
        cross = self.adjoint(self.span.basis).T * factors  # QᵀX diag(γ^(−½)), (r, d)
        self.free_trace = float(np.sum(cross**2))
        explained = self.span.basis.T @ (roots * self.Y)
        self.free_coef = self.span.coefficients @ explained
        picked = np.zeros((self.d, self.targets))
        picked[free] = self.free_coef
        self.Y = self.Y - self.multiply(picked)
        taken = self.span.raw_norm * np.linalg.norm(self.free_coef, axis=0)
        self.target_offset = self.target_offset + taken
        self.notes.append(self.span.note)
        # To the certificate they are like the intercept, and there may be no other.
        self.fit_intercept = True
        return -self.span.coefficients @ cross

    def at(self, lam: float, targets: Any = slice(None)) -> ImplicitColumns:
        """The same data with another λ and some of the targets."""
        twin = super().at(lam, targets)
        assert isinstance(twin, ImplicitColumns)
        twin.nothing_fitted = twin.null_objective = self.nothing_fitted[targets]
        return twin

    def leave_room(self, limit: float) -> None:
        """Let copies that nobody has asked for take no more than so many bytes."""
        if isinstance(self.base, SparseProducts):
            self.base.room = limit

    @property
    def rows(self) -> Any:
        """Single rows of X M are not to be had: `with_rows` makes a problem that has them."""
        raise TypeError("this problem knows its matrix by products alone")

    @cached_property
    def raw_squared_norms(self) -> Array:
        """(‖x_i ∘ γ^(−½)‖ + ‖A‖ ‖x_iE‖)², (n,): what products with X M may cancel from."""
        self.passes += 1
        norms = self.products.squared_norms()
        if not self.columns.free.size:
            return norms
        picks = np.zeros(self.d)
        picks[self.columns.free] = self.columns.answer_norm
        return (np.sqrt(norms) + np.sqrt(self.base.squared_norms(None, picks))) ** 2

    @cached_property
    def trace(self) -> float:
        """Trace of C: that of the scaled columns, less what the unpenalised explain of them."""
        if not self.columns.free.size:
            return float(self.weights @ self.squared_norms)
        self.passes += 1
        scaled = float(self.weights @ self.products.squared_norms(self.mean))
        return max(0.0, scaled - self.free_trace)

    def _residual(self, W: Array) -> tuple[Array, Array, Array]:
        """As for any problem; the last is the size of all that unpenalised columns could take.

        They are known as well as they are conditioned, and what that may hide is added.
        """
        shift = self._shift(W)
        R, gradient = self.base.residual(self.columns.apply(W), self.Y, shift, self.weights)
        squares = np.zeros(W.shape[1])
        if self.base_mean is not None:
            residual_mean = self.weights @ R
            gradient = gradient - np.outer(self.base_mean, residual_mean)
            squares += residual_mean**2
        weighted = np.sqrt(self.weights)[:, None] * R
        squares += np.sum((self.span.basis.T @ weighted) ** 2, axis=0)
        hidden = self._unit * self.span.condition * np.linalg.norm(weighted, axis=0)
        return R, self.columns.transpose(gradient), np.sqrt(squares) + hidden

    def _free_squares(self, coef: Array) -> Array:
        """‖Z_c β‖² of unpenalised coefficients, given among all (d, t); (t,)."""
        if not self.columns.free.size:
            return np.zeros(coef.shape[1])
        self.passes += 1
        Z = self.base.multiply(coef)
        if self.base_mean is not None:
            Z -= self.base_mean @ coef
        squares: Array = self.weights @ Z**2
        return squares

    def rounding(self, evaluation: Evaluation) -> Array:
        """Bound of the gradient's rounding error; A is off by as much as Q is, (t,)."""
        size = np.sqrt(self.raw_trace) * evaluation.residual_mean
        bound: Array = super().rounding(evaluation) + self._unit * self.span.condition * size
        return bound


def _factors(feature_penalty: Array) -> tuple[Array, NDArray[np.intp]]:
    """γ^(−½), and 0 for the unpenalised columns (d,); and which these are, (u,)."""
    penalised = feature_penalty > 0
    factors = np.zeros(feature_penalty.size)
    factors[penalised] = feature_penalty[penalised] ** -0.5
    return factors, np.flatnonzero(~penalised)


def varies(squares: Array, raw_squares: Array, rounding_factor: float) -> NDArray[np.bool_]:
    """Whether columns of these mean squares, about the mean and about zero (d,), vary at all."""
    return squares > (4 * EPSILON * rounding_factor) ** 2 * raw_squares
