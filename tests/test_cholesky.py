"""Cholesky factors in place, against numpy's."""

import numpy as np
import pytest

from sketchridge import cholesky
from sketchridge.cholesky import factorise_in_place


def positive(side, dtype, order):
    A = np.random.default_rng(side).standard_normal((side, side + 3))
    return np.array(A @ A.T / side + np.eye(side), dtype=dtype, order=order)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("side", [1, 7, 8, 50])
@pytest.mark.parametrize("by_blocks", [False, True])
def test_the_lower_triangle_becomes_the_factor_and_the_rest_stays(
    side, dtype, order, by_blocks, monkeypatch
):
    if by_blocks:
        monkeypatch.setattr(cholesky, "LARGEST", 0)
        monkeypatch.setattr(cholesky, "BLOCK", 7)  # 50 are seven blocks and a row
    A = positive(side, dtype, order)
    before = A.astype(np.float64)
    assert factorise_in_place(A)
    off = 20 * float(np.finfo(dtype).eps)
    assert np.tril(A) == pytest.approx(np.linalg.cholesky(before), rel=off, abs=off)
    assert np.array_equal(np.triu(A, 1), np.triu(before, 1).astype(dtype))


@pytest.mark.parametrize("row", [0, 20, 49])
@pytest.mark.parametrize("by_blocks", [False, True])
def test_what_is_not_positive_has_no_factor(row, by_blocks, monkeypatch):
    if by_blocks:
        monkeypatch.setattr(cholesky, "LARGEST", 0)
        monkeypatch.setattr(cholesky, "BLOCK", 7)
    A = positive(50, np.float64, "F")
    A[row, row] = -1.0
    assert not factorise_in_place(A)
