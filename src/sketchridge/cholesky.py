"""Cholesky factors in place, on all threads.

OpenBLAS's own on two threads ends the process with a segmentation fault where the side is about
16000 (0.3.30, as in scipy 1.17; 12000 is fine, and so is one thread): its symmetric product keeps
more than its buffer holds. Large matrices are factorised here by blocks, of which LAPACK sees one
at a time.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from sketchridge.threads import blas_threads, run_shared, single_threaded_blas

Matrix = NDArray[Any]  # float64 or float32

# LAPACK factorises up to this side on all threads; what is larger, in blocks of so many columns.
LARGEST = 8192
BLOCK = 1024


def factorise_in_place(A: Matrix) -> bool:
    """The lower triangle of A, in either order, becomes its factor L; whether that is possible.

    What is above the diagonal is not read, and stays as it is.
    """
    assert A.flags.f_contiguous or A.flags.c_contiguous, "LAPACK would factorise a copy"
    return _by_blocks(A) if len(A) > LARGEST else _by_lapack(A)


def in_lapack_order(symmetric: Matrix) -> Matrix:
    """The same matrix with its columns contiguous, without a copy."""
    return symmetric if symmetric.flags.f_contiguous else symmetric.T


def inverse_trace(L: Matrix) -> float:
    """tr (L Lᵀ)⁻¹ = ‖L⁻¹‖², of a factor in float64; infinite where it is singular."""
    with blas_threads(len(L) ** 3 / 3):
        inverse, info = scipy.linalg.lapack.dtrtri(L, lower=1)
    if info != 0:
        return float("inf")
    columns = (inverse[j:, j] for j in range(len(L)))
    return float(sum(np.vdot(column, column) for column in columns))


def _by_lapack(A: Matrix) -> bool:
    potrf, _ = _routines(A)
    with blas_threads(len(A) ** 3 / 3 * A.itemsize / 8):
        if A.flags.f_contiguous:
            _, info = potrf(A, lower=1, clean=0, overwrite_a=1)
        else:  # to LAPACK rows are columns, and the lower triangle is the upper one
            _, info = potrf(A.T, lower=0, clean=0, overwrite_a=1)
    return bool(info == 0)


def _by_blocks(A: Matrix) -> bool:
    """Column after column of blocks: its factor, then what it leaves of those to the right."""
    ends = [*range(0, len(A), BLOCK), len(A)]
    parts = [slice(start, stop) for start, stop in pairwise(ends)]
    with single_threaded_blas():
        for place, here in enumerate(parts):
            corner = np.array(A[here, here], order="F")
            if not _by_lapack(corner):
                return False
            A[here, here] = corner
            below = parts[place + 1 :]
            _divide(A, slice(here.stop, None), here, corner)
            pairs = [(i, j) for count, i in enumerate(below) for j in below[: count + 1]]
            run_shared([partial(_subtract, A, i, j, here) for i, j in pairs])
    return True


def _divide(A: Matrix, rows: slice, columns: slice, corner: Matrix) -> None:
    """What is below the corner becomes what it is of the factor, A L⁻ᵀ."""
    _, trsm = _routines(A)
    below = A[rows, columns]
    if below.size:
        with blas_threads(float(below.size) * len(corner)):
            A[rows, columns] = trsm(1.0, corner, below, side=1, lower=1, trans_a=1)


def _subtract(A: Matrix, i: slice, j: slice, columns: slice) -> None:
    """A block further to the right, less the product of the factor's blocks."""
    product = A[i, columns] @ A[j, columns].T
    A[i, j] -= np.tril(product) if i == j else product


def _routines(A: Matrix) -> tuple[Any, Any]:
    """LAPACK's Cholesky and BLAS's triangular solve for the type of A."""
    if A.dtype == np.float32:
        return scipy.linalg.lapack.spotrf, scipy.linalg.blas.strsm
    return scipy.linalg.lapack.dpotrf, scipy.linalg.blas.dtrsm
