"""Cholesky factors in place, against numpy's."""

import numpy as np
import pytest

from sketchridge import cholesky
from sketchridge.cholesky import factorise_in_place, inverse_trace


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
    expected, off = np.linalg.cholesky(A.astype(np.float64)), 20 * float(np.finfo(dtype).eps)
    above = np.triu_indices(side, 1)
    A[above] = np.nan  # it is not to be read
    assert factorise_in_place(A)
    assert np.tril(A) == pytest.approx(expected, rel=off, abs=off)
    assert np.isnan(A[above]).all()


def test_the_trace_of_an_inverse_is_that_of_numpys():
    A = positive(30, np.float64, "F")
    expected = np.trace(np.linalg.inv(A))
    assert factorise_in_place(A)
    assert inverse_trace(A) == pytest.approx(expected, rel=1e-12)
    A[4, 4] = 0.0
    assert inverse_trace(A) == np.inf


@pytest.mark.parametrize("row", [0, 20, 49])
@pytest.mark.parametrize("by_blocks", [False, True])
def test_what_is_not_positive_has_no_factor(row, by_blocks, monkeypatch):
    if by_blocks:
        monkeypatch.setattr(cholesky, "LARGEST", 0)
        monkeypatch.setattr(cholesky, "BLOCK", 7)
    A = positive(50, np.float64, "F")
    A[row, row] = -1.0
    assert not factorise_in_place(A)
