"""Many targets at once: 500 on MNIST against one, certificates included, in the same run.

    python benchmarks/many_targets.py               the median over 7 rounds
    python benchmarks/many_targets.py --repeats 15  a steadier one

The images are mnist_4v7.npz (12107 × 784) in the folder named by SKETCHRIDGE_DATA. The targets
are noisy signs of random combinations of the pixels. Each side is fitted as a user would, with
every choice left to the planner.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

from sketchridge import Ridge

TARGETS, TOL, GOAL = 500, 1e-6, 5.0


def load():
    with np.load(Path(os.environ["SKETCHRIDGE_DATA"]) / "mnist_4v7.npz") as file:
        X = file["X"].astype(np.float64) / 255
    rng = np.random.default_rng(0)
    scores = X @ rng.standard_normal((X.shape[1], TARGETS))
    return X, np.sign(scores + scores.std() * rng.standard_normal(scores.shape))


def timed_fit(X, Y, alpha):
    began = time.perf_counter()
    model = Ridge(alpha, tol=TOL, random_state=0).fit(X, Y)
    spent = time.perf_counter() - began
    assert np.all(model.relative_gap_ <= TOL)
    return spent, model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    X, Y = load()
    for alpha in (1.0, 100.0):
        timed_fit(X, Y, alpha)
        rounds = []
        for _ in range(options.repeats):
            one, alone = timed_fit(X, Y[:, 0], alpha)
            many, together = timed_fit(X, Y, alpha)
            rounds.append((one, many))
        pairs = np.array(rounds)
        ratios = pairs[:, 1] / pairs[:, 0]
        verdict = "ok" if np.median(ratios) <= GOAL else "MISSED"
        print(
            f"{TARGETS} targets over one, alpha = {alpha:g}  {np.median(ratios):.2f} × "
            f"[{ratios.min():.2f}, {ratios.max():.2f}]  must be ≤ {GOAL:g}  {verdict}  "
            f"({np.median(pairs[:, 1]):.2f} s by {together.solver_}, "
            f"{np.median(pairs[:, 0]):.2f} s by {alone.solver_})"
        )


if __name__ == "__main__":
    main()
