"""One Krylov space, every λ: the points of a whole regularisation path from the same products.

A Krylov space does not change when C is shifted, so that one space serves all λ. With Q̂ and T̂ of
sketch.py, C Q = Q̂ T̂, the best point of the space for λ is Q (T + λI)⁻¹ Qᵀb: what conjugate
gradients would reach with as many products, for each λ. The same T̂ gives the Nyström
approximation Ĉ ⪯ C. It is tight where it matters, for the gradient at such a point lies in the
space: the certificate is Gauss and Radau's bound of the error, with a fresh gradient.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sketchridge.certificate import SketchCurvature
from sketchridge.problem import EPSILON, Problem
from sketchridge.sketch import Krylov

Array = NDArray[np.float64]

# A direction that keeps this share of its length through an orthogonalisation needs no second one.
MUCH_LEFT = 0.1


class KrylovSpace:
    """The Krylov space of C and of the columns b of a start block, grown block by block.

    All vectors are kept, as rows, and every new one is made orthogonal to all of them: that the
    certificate holds rests on it. Each target's best points profit from the others' directions.

    Parameters
    ----------
    problem
        Where C comes from.
    start
        (d, t) the right-hand sides Xᵀ diag(ω) y of the targets.
    capacity
        How many vectors there may be.
    """

    def __init__(self, problem: Problem, start: Array, capacity: int) -> None:
        self.problem = problem
        self.basis = np.empty((capacity, problem.d))  # pages of it are taken as they are filled
        self.coefficients = np.zeros((capacity, capacity))
        self.ends: list[int] = [0]  # where the blocks end; the first is empty
        self.norm = 0.0  # ‖C‖, as far as it has been seen
        lengths = np.linalg.norm(start, axis=0)
        rows = np.divide(start, lengths, out=np.zeros_like(start), where=lengths > 0).T
        _, upper = self._append(np.ascontiguousarray(rows), 1.0)
        self.start = upper * lengths  # (w, t) the start block in the first basis vectors

    @property
    def filled(self) -> int:
        """The number of basis vectors."""
        return self.ends[-1]

    @property
    def expanded(self) -> int:
        """The number of basis vectors that C was applied to."""
        return self.ends[-2]

    @property
    def exhausted(self) -> bool:
        """C maps the space into itself: the best points are the solutions."""
        return self.expanded == self.filled

    @property
    def full(self) -> bool:
        """There is no room for what another product may add."""
        return 2 * self.filled - self.expanded > self.basis.shape[0]

    def grow(self) -> None:
        """Apply C to the newest block; one pass."""
        first, last = self.expanded, self.filled
        image = self.problem.gram(self.basis[first:last].T)
        self.norm = max(self.norm, _spectral_norm(image.T))
        inside, upper = self._append(np.ascontiguousarray(image.T), self.norm)
        self.coefficients[:last, first:last] = inside
        self.coefficients[last : self.filled, first:last] = upper

    def _append(self, rows: Array, norm: float) -> tuple[Array, Array]:
        """Extend the basis by what the rows (w, d) add to it; their coefficients, old and new.

        Directions below the rounding of `norm` are dropped. In exact arithmetic it is the last
        two blocks alone that the rows have to be made orthogonal to. That comes first: what they
        owe to the rest of the basis is then no more than rounding, and once is enough.
        """
        filled = self.filled
        recent = slice(self.ends[-3] if len(self.ends) > 2 else 0, filled)
        inside, upper = np.zeros((filled, rows.shape[0])), np.eye(rows.shape[0])
        for _ in range(3):
            self._orthogonalise(rows, recent, inside, upper)
            before = _spectral_norm(rows)
            self._orthogonalise(rows, slice(0, filled), inside, upper)
            directions, sizes, right = _principal(rows)
            turned = right @ upper
            kept = sizes * np.linalg.norm(turned, axis=1) > 8 * EPSILON * norm
            rows, upper = directions[kept], (sizes[:, None] * turned)[kept]
            if not kept.any() or sizes[kept].min() > MUCH_LEFT * before:
                break
        self.basis[filled : filled + rows.shape[0]] = rows
        self.ends.append(filled + rows.shape[0])
        return inside, upper

    def _orthogonalise(self, rows: Array, part: slice, inside: Array, upper: Array) -> None:
        overlap = self.basis[part] @ rows.T
        rows -= overlap.T @ self.basis[part]
        inside[part] += overlap @ upper

    # -- the best points ---------------------------------------------------------------------

    def coordinates(self, lams: Array) -> Array:
        """The best points for every λ, in the basis: (expanded, L, t)."""
        square = self.coefficients[: self.expanded, : self.expanded]
        values, vectors = np.linalg.eigh((square + square.T) / 2)
        start = self.start[: self.expanded]  # all of it, or nothing before the first product
        known = vectors[: start.shape[0]].T @ start
        shrunk = known[:, None, :] / (np.maximum(values, 0.0)[:, None] + lams)[:, :, None]
        return np.tensordot(vectors, shrunk, axes=1)

    def points(self, lams: Array) -> Array:
        """The best points for every λ, (d, L·t): the targets of the first λ, then of the next."""
        inside = self.coordinates(lams)
        columns = inside.shape[1] * inside.shape[2]
        return self.basis[: self.expanded].T @ inside.reshape(self.expanded, columns)

    def sketch(self) -> Krylov:
        """What has been learnt of C."""
        scale = self.norm + self.problem.raw_trace - self.problem.trace
        coefficients = self.coefficients[: self.filled, : self.expanded]
        frame = self.basis[: self.filled].T
        return Krylov(frame, coefficients, scale, self.problem.rounding_factor)

    def estimated_gaps(self, lams: Array) -> Array:
        """What the certificates will say of the best points but for rounding, (L, t); no pass."""
        inside = self.coordinates(lams)
        gradient = np.tensordot(self.coefficients[: self.filled, : self.expanded], inside, axes=1)
        gradient[: self.expanded] += lams[:, None] * inside
        gradient[: self.start.shape[0]] -= self.start[:, None, :]
        _, count, targets = gradient.shape
        if self.filled == 0:  # there is nothing to fit
            return np.zeros((count, targets))
        lower = replace(self.sketch().nystrom(), frame=np.eye(self.filled))
        curvature = SketchCurvature(lower, np.repeat(lams, targets))
        energy = curvature.energy(gradient.reshape(self.filled, count * targets))
        gaps: Array = 0.5 * curvature.constant * energy
        return gaps.reshape(count, targets)


def _principal(rows: Array) -> tuple[Array, Array, Array]:
    """Orthonormal directions (w, d), sizes (w,) and a rotation that make up the rows' transpose."""
    if rows.shape[0] == 1:
        size = np.linalg.norm(rows)
        return rows / (size or 1.0), np.array([size]), np.eye(1)
    left, sizes, right = np.linalg.svd(rows.T, full_matrices=False)
    return np.ascontiguousarray(left.T), sizes, right


def _spectral_norm(rows: Array) -> float:
    if rows.shape[0] == 1:
        return float(np.linalg.norm(rows))
    return float(np.sqrt(np.linalg.eigvalsh(rows @ rows.T)[-1].clip(0.0)))
