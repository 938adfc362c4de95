"""In place of scikit-learn's Ridge: one import changes, and the accuracy is known.

    python examples/drop_in.py [--out PICTURE]

Every solver is asked for the same tol. What scikit-learn's solvers reach is measured here against
a singular value decomposition; what ours reach is measured too, and certified by themselves.
"""

import argparse
import warnings
from pathlib import Path

import matplotlib
import numpy as np
import sklearn.linear_model

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from sketchridge import Ridge

ALPHA, TOL = 1e-5, 1e-6
THEIRS = ("lsqr", "sparse_cg", "sag", "saga")
OURS = ("direct", "cg", "svrg", "saga")


def badly_scaled_data():
    """1000 rows of 60 columns, whose directions differ in strength by a factor of 10000."""
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.standard_normal((1000, 60)))
    right, _ = np.linalg.qr(rng.standard_normal((60, 60)))
    X = np.sqrt(1000) * (left * np.geomspace(1, 1e-4, 60)) @ right.T
    return X, X @ rng.standard_normal(60) + 0.1 * rng.standard_normal(1000) + 3.0


def objective(model, X, y):
    residual = y - model.predict(X)
    return residual @ residual + ALPHA * model.coef_ @ model.coef_


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/drop_in.png"))
    picture = parser.parse_args().out
    X, y = badly_scaled_data()
    best = objective(sklearn.linear_model.Ridge(ALPHA, solver="svd").fit(X, y), X, y)
    nothing = np.sum((y - y.mean()) ** 2)

    def reached(model):
        return max((objective(model, X, y) - best) / nothing, 1e-17)

    rows = []
    for solver in THEIRS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = sklearn.linear_model.Ridge(ALPHA, solver=solver, tol=TOL, random_state=0)
            rows.append((f"scikit-learn, {solver}", reached(model.fit(X, y)), None))
    for solver in OURS:
        model = Ridge(ALPHA, solver=solver, tol=TOL, random_state=0).fit(X, y)
        rows.append((f"sketchridge, {solver}", reached(model), model.relative_gap_))
    for name, truth, certified in rows:
        told = "no certificate" if certified is None else f"certified {certified:.1e}"
        print(f"{name:<26} reached {truth:.1e}   {told}")
    draw(rows, picture)


def draw(rows, picture):
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    places = np.arange(len(rows))[::-1]
    axes.barh(places, [truth for _, truth, _ in rows], color="tab:blue", label="reached, measured")
    known = [(place, c) for place, (_, _, c) in zip(places, rows, strict=True) if c is not None]
    axes.plot(
        [max(c, 1e-17) for _, c in known],
        [place for place, _ in known],
        "k|",
        markersize=16,
        label="certified by the fit itself",
    )
    axes.axvline(TOL, color="tab:red", label="tol, asked of all")
    axes.set_yticks(places, [name for name, _, _ in rows])
    axes.set(xscale="log", xlabel="distance from the minimum, as a share of the objective at 0")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)
    print(f"picture: {picture.resolve()}")


if __name__ == "__main__":
    main()
