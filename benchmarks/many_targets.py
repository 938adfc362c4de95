"""Many targets at once: 500 on MNIST against one and against scikit-learn, in the same run.

    python benchmarks/many_targets.py               the median over 7 rounds
    python benchmarks/many_targets.py --repeats 15  a steadier one

The images are mnist_4v7.npz (12107 × 784) in the folder named by SKETCHRIDGE_DATA. The targets
are noisy signs of random combinations of the pixels. Each side is fitted as a user would, with
every choice left to the planner, and certified. scikit-learn's solver is Cholesky, its fastest
here; besides MNIST a wide problem, 1500 × 6000, where both factorise the dual.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge as Peer

from sketchridge import Ridge

TARGETS, TOL, GOAL = 500, 1e-6, 5.0
# The threads of scikit-learn's BLAS go on spinning for some while.
SETTLE = 0.3


def load():
    with np.load(Path(os.environ["SKETCHRIDGE_DATA"]) / "mnist_4v7.npz") as file:
        X = file["X"].astype(np.float64) / 255
    rng = np.random.default_rng(0)
    scores = X @ rng.standard_normal((X.shape[1], TARGETS))
    return X, np.sign(scores + scores.std() * rng.standard_normal(scores.shape))


def wide():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6000)) * np.arange(1.0, 6001.0) ** -0.3
    return X, X @ rng.standard_normal((6000, TARGETS)) + rng.standard_normal((1500, TARGETS))


def timed_fit(X, Y, alpha):
    began = time.perf_counter()
    model = Ridge(alpha, tol=TOL, random_state=0).fit(X, Y)
    spent = time.perf_counter() - began
    assert np.all(model.relative_gap_ <= TOL)
    return spent, model


def timed_peer(X, Y, alpha):
    began = time.perf_counter()
    Peer(alpha, solver="cholesky").fit(X, Y)
    return time.perf_counter() - began


def against_one(X, Y, alpha, repeats):
    rounds = []
    for _ in range(repeats):
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


def against_peer(name, X, Y, alpha, repeats):
    rounds = []
    for _ in range(repeats):
        time.sleep(SETTLE)
        ours = timed_fit(X, Y, alpha)[0]
        rounds.append((ours, timed_peer(X, Y, alpha)))
    pairs = np.array(rounds)
    ratios = pairs[:, 1] / pairs[:, 0]
    print(
        f"scikit-learn over ours, {name}, {Y.shape[1]} targets  {np.median(ratios):.2f} × "
        f"[{ratios.min():.2f}, {ratios.max():.2f}]  "
        f"({np.median(pairs[:, 1]):.3f} s against {np.median(pairs[:, 0]):.3f} s)"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    X, Y = load()
    for alpha in (1.0, 100.0):
        timed_fit(X, Y, alpha)
        against_one(X, Y, alpha, options.repeats)
    for name, (rows, outputs) in {"MNIST": (X, Y), "1500 × 6000": wide()}.items():
        for targets in (20, 100, TARGETS):
            against_peer(name, rows, outputs[:, :targets].copy(), 1.0, options.repeats)


if __name__ == "__main__":
    main()
