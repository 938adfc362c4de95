"""The optimal value that all solvers are measured against, certified and kept on disk."""

import json
import os
from hashlib import blake2b
from pathlib import Path

import numpy as np
from scipy import sparse

from sketchridge import solve

# In units of F(0): a ten-thousandth of the finest level that is asked of a solver.
ENOUGH = 1e-10
DIRECT_OPERATIONS = 2e12


def cache_folder():
    """Where generated data and optimal values are kept."""
    given = os.environ.get("RIDGE_BENCHMARK_CACHE")
    folder = Path(given) if given else Path(__file__).resolve().parents[1] / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def optimal_value(X, y, lam):
    """F* (an upper bound) and how much lower it could be, both from a certified solve."""
    path = cache_folder() / f"optimum-{_fingerprint(X, y, lam)}.json"
    if not path.exists():
        path.write_text(json.dumps(_certified(X, y, lam)))
    kept = json.loads(path.read_text())
    return kept["objective"], kept["gap"]


def _certified(X, y, lam):
    n, d = X.shape
    small = min(n, d)
    direct = not sparse.issparse(X) and n * d * small <= DIRECT_OPERATIONS
    direct = direct or small**3 <= DIRECT_OPERATIONS / 10
    method = {"solver": "direct"} if direct else {"solver": "cg", "rank": min(500, small // 4)}
    solution = solve(X, y, lam, tol=ENOUGH / 10, max_passes=50_000, random_state=0, **method)
    if solution.relative_gap > ENOUGH:
        raise RuntimeError(
            f"the optimal value is certified only to {solution.relative_gap:.1e} of F(0), and "
            f"{ENOUGH:g} is needed: {solution.status.value}"
        )
    return {
        "objective": float(solution.objective),
        "gap": float(solution.gap),
        "shape": [n, d],
        "lam": lam,
        "plan": str(solution.plan),
    }


def _fingerprint(X, y, lam):
    digest = blake2b(repr((X.shape, float(lam))).encode(), digest_size=12)
    parts = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
    for array in (*parts, y):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
