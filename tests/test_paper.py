"""The paper's statements, corrected as in docs/errata.md, over random spectra, ranks and λ."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketchridge.preconditioner import Exact, Lanczos, NoPreconditioner, Nystrom
from sketchridge.sketch import paper_blocks
from sketchridge.solvers.components import Components
from tests import literal
from tests.problems import (
    correlation_factor,
    make,
    preconditioned_eigenvalues,
    with_spectrum,
)

EPSILON = np.finfo(float).eps
statement = settings(max_examples=300, deadline=None, derandomize=True, database=None)


class Case(NamedTuple):
    """Data with known eigenvalues of C, a rank and a λ."""

    X: np.ndarray
    eigenvalues: np.ndarray  # (d,) descending
    rank: int
    lam: float
    seed: int

    def build(self, spec):
        problem = make(self.X, np.zeros(len(self.X)), self.lam)
        return problem, spec.build(problem, np.random.default_rng(self.seed))

    def conditioned(self, preconditioner):
        """Eigenvalues of P^{-1/2}(C + λI)P^{-1/2}, descending."""
        n, d = self.X.shape
        X_bar = correlation_factor(self.X, np.full(n, 1 / n))
        return preconditioned_eigenvalues(X_bar, self.lam, preconditioner.power(np.eye(d), -0.5))

    def bound(self):
        """The Lemma's (kλ_k + Σ_{i>k} λ_i)/λ + d."""
        k, values = self.rank, self.eigenvalues
        return (k * values[k - 1] + values[k:].sum()) / self.lam + len(values)


@st.composite
def cases(draw, columns, lams, ranks=None):
    """Any decay over six decades, ties and missing directions included; n above or below d."""
    d, n = draw(columns), draw(st.integers(2, 40))
    directions = draw(st.integers(1, min(n, d)))
    decades = draw(st.lists(st.floats(-6, 0), min_size=directions, max_size=directions))
    sigma = 10.0 ** np.sort(decades)[::-1]
    seed = draw(st.integers(0, 2**32 - 1))
    X = with_spectrum(np.random.default_rng(seed), n, d, sigma)
    eigenvalues = np.zeros(d)
    eigenvalues[:directions] = sigma**2
    rank = draw(st.integers(1, min(n, d)) if ranks is None else ranks)
    return Case(X, eigenvalues, min(rank, n), sigma[0] ** 2 * 10.0 ** draw(lams), seed)


# Exact sketched conditioning --------------------------------------------------------------------


@statement
@given(cases(st.integers(2, 24), st.floats(-11, 3)))
def test_exact_conditioning_has_the_condition_number_of_the_lemma(case):
    _, preconditioner = case.build(Exact(rank=case.rank))
    eigenvalues = case.conditioned(preconditioner)
    kappa = eigenvalues.sum() / eigenvalues[-1]
    d, k, lam, values = len(case.eigenvalues), case.rank, case.lam, case.eigenvalues
    # P is known to rounding of λ_1, and that is relative to the smallest of its eigenvalues.
    tolerance = max(1e-8, 20 * d * EPSILON * values[0] / (values[k - 1] + lam))
    exact = (k * values[k - 1] + values[k:].sum() + d * lam) / (values[-1] + lam)
    assert kappa == pytest.approx(exact, rel=tolerance)
    # The bound holds for every λ > 0, and is κ̃ times (λ_d + λ)/λ: attained if and only if λ_d = 0.
    assert kappa <= case.bound() * (1 + tolerance)
    assert case.bound() / kappa == pytest.approx(1 + values[-1] / lam, rel=tolerance)


@statement
@given(cases(st.integers(2, 24), st.floats(-6, 3)))
def test_exact_conditioning_leaves_the_leading_eigenvalues_at_one(case):
    _, preconditioner = case.build(Exact(rank=case.rank))
    k, lam, values = case.rank, case.lam, case.eigenvalues
    expected = np.concatenate([np.ones(k), (values[k:] + lam) / (values[k - 1] + lam)])
    assert np.allclose(case.conditioned(preconditioner), expected, rtol=1e-7)


# Sketched conditioning --------------------------------------------------------------------------


def lanczos_event(case, basis, values, epsilon=0.5):
    """Both bounds of the theorem on block Lanczos, for the k Ritz pairs that were kept."""
    n, d = case.X.shape
    X_bar, k = correlation_factor(case.X, np.full(n, 1 / n)), values.size
    next_value = case.eigenvalues[k] if k < d else 0.0
    sigma, rounding = np.sqrt(case.eigenvalues[0]), 1e-14 * case.eigenvalues[0]
    residual = np.linalg.norm(X_bar - basis @ (basis.T @ X_bar), 2)
    return residual <= (1 + epsilon) * np.sqrt(next_value) + 1e-14 * sigma and np.all(
        np.abs(values - case.eigenvalues[:k]) <= epsilon * next_value + rounding
    )


@pytest.mark.parametrize("blocks, share", [(1, 0.3), (2, 0.8), (3, 0.8)])
def test_sketched_conditioning_is_exact_conditioning_up_to_constants(blocks, share):
    held = []

    @statement
    @given(cases(st.integers(8 * blocks + 1, 30), st.floats(-10, 3), st.integers(1, 4)))
    def check(case):
        _, preconditioner = case.build(Lanczos(rank=case.rank, blocks=blocks))
        event = lanczos_event(case, preconditioner.basis, preconditioner.spectrum.values)
        if event:
            assert_conditions_up_to_constants(case, case.conditioned(preconditioner))
        if np.count_nonzero(case.eigenvalues) > blocks * case.rank:  # else the sketch is exact
            held.append(event)

    check()
    assert len(held) > 50
    assert np.mean(held) > share


def assert_conditions_up_to_constants(case, eigenvalues):
    k, lam, values, rounding = case.rank, case.lam, case.eigenvalues, 1 + 1e-6
    last = values[k - 1] + lam
    assert eigenvalues[0] <= 17
    assert np.all(eigenvalues[k:] <= rounding * 2 * (values[k:] + lam) / last)
    assert eigenvalues[-1] >= lam / (13 * last)
    assert eigenvalues.sum() / eigenvalues[-1] <= 17 * 13 * case.bound()


SPECTRA = {
    "1/i": np.arange(1, 81.0) ** -1.0,
    "1/i²": np.arange(1, 81.0) ** -2.0,
    "flat": np.ones(80),
    "geometric": 0.8 ** np.arange(80.0),
    "a step": np.repeat([1.0, 0.1], [6, 74]),
    "few directions": np.repeat([1.0, 0.0], [9, 71]),
}


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_the_papers_number_of_blocks_suffices_in_nine_of_ten_runs(spectrum):
    n, k, sigma = 200, 5, SPECTRA[spectrum]
    spec = Lanczos(rank=k, blocks=paper_blocks(n, 0.5))
    assert spec.blocks * k < 80
    held = 0
    for seed in range(10):
        X = with_spectrum(np.random.default_rng(seed), n, 80, sigma)
        case = Case(X, sigma**2, k, 1e-6, seed)
        _, preconditioner = case.build(spec)
        held += lanczos_event(case, preconditioner.basis, preconditioner.spectrum.values)
    assert held >= 9


# The effect of conditioning ---------------------------------------------------------------------


@pytest.mark.parametrize("spec", [NoPreconditioner, Exact, Lanczos, Nystrom])
def test_the_average_smoothness_is_the_trace_of_the_conditioned_matrix(spec):
    @settings(statement, max_examples=60)
    @given(cases(st.integers(2, 24), st.floats(-6, 3)))
    def check(case):
        chosen = spec() if spec is NoPreconditioner else spec(rank=case.rank)
        problem, preconditioner = case.build(chosen)
        trace = case.conditioned(preconditioner).sum()
        components = Components.of(problem, preconditioner, "sampled")
        root = preconditioner.power(np.eye(problem.d), -0.5)
        betas = literal.sampled_sum(case.X, problem.Y[:, 0], case.lam, root).smoothness()
        assert components.smoothness == pytest.approx(trace, rel=1e-9)
        assert betas.mean() == pytest.approx(trace, rel=1e-9)

    check()
