"""Check that every wrapper minimises the objective of this benchmark, and not a scaled one.

    make bench-check

Each solver is given ever more effort on a dense and on a sparse problem whose penalty is large
enough that twice or half of it would show. A wrapper that does not come within 1e-8 of the
certified optimum fails; a solver that is not installed, or that skips a problem, says so.
"""

import sys
import time
from pathlib import Path

import numpy as np
from benchopt.benchmark import Benchmark, _list_parametrized_classes
from scipy import sparse

CLOSE_ENOUGH = 1e-8
MOST_SECONDS, MOST_EFFORT = 30.0, 2**14
ROWS, COLUMNS, LAM = 600, 60, 1e-3


def problems():
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((ROWS, COLUMNS)) * np.arange(1.0, COLUMNS + 1) ** -0.5
    dense /= np.linalg.norm(dense, axis=1).mean()
    thin = sparse.csr_matrix(np.where(rng.random(dense.shape) < 0.2, dense, 0.0))
    thin.indices, thin.indptr = thin.indices.astype(np.int32), thin.indptr.astype(np.int32)
    y = np.sign(dense @ rng.standard_normal(COLUMNS) + 0.1 * rng.standard_normal(ROWS))
    return {"dense": (dense, y), "sparse": (thin, y)}


def reached(solver, objective):
    """The least suboptimality that the solver comes to, or why it does not run."""
    skip, reason = solver._set_objective(objective)
    if skip:
        return reason
    solver._warm_up()
    best, began = np.inf, time.perf_counter()
    effort = 1 if solver.sampling_strategy != "tolerance" else 1e-9
    while best > CLOSE_ENOUGH and effort <= MOST_EFFORT:
        solver.run_once(effort)
        best = min(best, objective(solver.get_result())[0]["objective_suboptimality"])
        effort *= 2
        one_go = solver.sampling_strategy in ("tolerance", "run_once")
        if one_go or time.perf_counter() - began > MOST_SECONDS:
            break
    return best


def main():
    benchmark = Benchmark(Path(__file__).resolve().parent)
    every = [(solver, {}) for solver in benchmark.get_solvers()]
    failed = False
    for kind, (X, y) in problems().items():
        objective = benchmark.get_benchmark_objective().get_instance(lam=LAM)
        objective.set_data(X, y)
        for solver, installed in _list_parametrized_classes(*every):
            outcome = reached(solver, objective) if installed else "not installed"
            wrong = not isinstance(outcome, str) and outcome > CLOSE_ENOUGH
            failed |= wrong
            text = outcome if isinstance(outcome, str) else f"{outcome:.1e}"
            print(f"{kind:7} {solver!s:60} {text}{'  WRONG' if wrong else ''}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
