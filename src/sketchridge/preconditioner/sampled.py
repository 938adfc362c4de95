"""A sketch of some of the rows: AᵀA of a sample stands for C, and costs as much less to sketch.

The sample is uniform, and no row is reweighted: AᵀA ⪯ C, so that a lower bound of AᵀA certifies
for all of the data. The leading directions of C need only a few times as many rows as there are
directions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchridge.preconditioner.base import Array, uniform_rows
from sketchridge.problem import RidgeProblem
from sketchridge.sketch import Spectrum


class SampledProblem:
    """What a sketch sees of a problem through a sample of its rows."""

    def __init__(self, problem: RidgeProblem, rows: int, rng: np.random.Generator) -> None:
        indices = uniform_rows(problem, rows, rng)
        self.problem, self.n, self.d = problem, indices.size, problem.d
        self.indices = indices
        # The problem's own products, centred by its mean, of these rows.
        self.sample = problem.sampled(indices)
        self.weights = self.sample.weights
        self.trace = float(self.weights @ problem.squared_norms[indices])
        self.raw_trace = float(self.weights @ problem.raw_squared_norms[indices])
        self.rounding_factor = problem.rounding_factor
        self.fingerprint = problem.fingerprint

    def gram(self, V: Array) -> Array:
        """AᵀA V, (d, k); the part of a pass that the sample is."""
        self.problem.passes += self.n / self.problem.n
        return self.sample.gram(V)

    def adjoint(self, R: Array) -> Array:
        """Aᵀ R, (d, k)."""
        self.problem.passes += self.n / self.problem.n
        return self.sample.adjoint(R)

    def for_all_rows(self, spectrum: Spectrum) -> Spectrum:
        """The sample's spectrum as an estimate of all the data's; the bound stays as it is."""
        values = spectrum.values / float(self.weights.sum())
        return replace(spectrum, values=values, rows=self.indices)
