"""A small problem in a process of its own: our fit against scikit-learn's, and is numba imported?

python benchmarks/ridge/small.py FOLDER      writes small.json there
"""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge

import sketchridge
from sketchridge import solve

ROWS, COLUMNS, REPEATS = 200, 10, 500
LAM = 1e-4


def main():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, COLUMNS))
    y = X @ rng.standard_normal(COLUMNS) + 0.1 * rng.standard_normal(ROWS)
    fits = {
        "sketchridge": lambda: solve(X, y, LAM, random_state=0),
        "sklearn": lambda: Ridge(alpha=ROWS * LAM, fit_intercept=False).fit(X, y),
    }
    if hasattr(sketchridge, "Ridge"):
        estimator = sketchridge.Ridge(alpha=ROWS * LAM, fit_intercept=False)
        fits["sketchridge.Ridge"] = lambda: estimator.fit(X, y)
    measured = {name: [] for name in fits}
    for _ in range(REPEATS):
        for name, fit in fits.items():  # in turn
            began = time.perf_counter()
            fit()
            measured[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(seconds) for name, seconds in measured.items()}
    facts = {"rows": ROWS, "columns": COLUMNS, "repeats": REPEATS, "numba": "numba" in sys.modules}
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.json").write_text(json.dumps({**medians, **facts}))


if __name__ == "__main__":
    main()
