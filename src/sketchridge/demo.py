"""The demonstration: SVRG beside sketched preconditioned SVRG on the paper's synthetic problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sketchridge.data import synthetic
from sketchridge.driver import solve
from sketchridge.solution import Record, Solution
from sketchridge.solvers import SVRG

LAM = 1e-8
TOL = 1e-6
METHODS = {"SVRG": "none", "sketched preconditioned SVRG": "lanczos"}


@dataclass(frozen=True)
class Demonstration:
    """The solutions by name, with what they are measured against."""

    solutions: dict[str, Solution]
    reference: Solution
    null_objective: float
    title: str


def demonstrate(
    n: int,
    d: int,
    max_passes: float,
    seed: int,
    progress: Callable[[str, Record | None], None],
) -> Demonstration:
    """Run both methods to a certified relative gap of 1e-6, or until the budget is spent.

    `progress` is called with a method's name and its latest record, and with None when a step
    of preparation begins.
    """
    progress(f"making the data: {n} × {d}, singular values 1/q²", None)
    rng = np.random.default_rng(seed)
    X, y = synthetic(n, d, power=2, rng=rng)
    progress("solving directly, for the minimum to compare with", None)
    reference = solve(X, y, LAM, solver="direct", tol=1e-12)
    progress("compiling the kernels (once; they are cached)", None)
    solve(X[:64].copy(), y[:64], 1e-2, solver=SVRG(), rank=2, random_state=0, max_passes=10)
    solutions = {}
    for name, preconditioner in METHODS.items():

        def tell(record: Record, name: str = name) -> None:
            progress(name, record)

        solutions[name] = solve(
            X,
            y,
            LAM,
            solver="svrg",
            preconditioner=preconditioner,
            tol=TOL,
            max_passes=max_passes,
            random_state=seed,
            callback=tell,
        )
    title = f"Ridge regression, {n} × {d}, singular values 1/q², λ = {LAM:g}"
    return Demonstration(solutions, reference, 0.5 * float(y @ y) / n, title)
