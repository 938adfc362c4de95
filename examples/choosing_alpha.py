"""Choosing alpha: leave-one-out, exact and estimated, folds, and the path, on one problem.

    python examples/choosing_alpha.py [--out PICTURE]

Disease progression from ten measurements and all their products up to the third degree: more
columns than a fit without a penalty can bear.
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from sketchridge import RidgeCV, ridge_path

ALPHAS = np.logspace(1, 5, 25)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/choosing_alpha.png"))
    picture = parser.parse_args().out
    data = load_diabetes()
    expand = PolynomialFeatures(3, include_bias=False)
    X = StandardScaler().fit_transform(expand.fit_transform(data.data))
    names, y = expand.get_feature_names_out(data.feature_names), data.target
    folds = KFold(5, shuffle=True, random_state=0)
    score = {"scoring": "neg_mean_squared_error"}
    searches = {
        "leave-one-out, exact": RidgeCV(ALPHAS),
        "leave-one-out, estimated": RidgeCV(ALPHAS, gcv_mode="stochastic", random_state=0),
        "5 folds": RidgeCV(ALPHAS, cv=folds, **score),
    }
    print(f"{X.shape[0]} rows × {X.shape[1]} columns, {ALPHAS.size} alphas")
    for name, model in searches.items():
        began = time.perf_counter()
        model.fit(X, y)
        print(f"{name:<25} alpha = {model.alpha_:8.1f}", end=", ")
        print(f"squared error {-model.best_score_:.0f}, {time.perf_counter() - began:.2f} s")
    path = ridge_path(X, y, ALPHAS / y.size, fit_intercept=True)
    print(f"the path: {path}")
    draw(searches, path, names, picture)


def draw(searches, path, names, picture):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    for (name, model), colour in zip(searches.items(), ("C0", "C1", "C2"), strict=True):
        errors = -model.alpha_scores_
        left.plot(ALPHAS, errors, color=colour, label=name)
        if np.any(model.alpha_score_errors_):
            bar = 2 * model.alpha_score_errors_
            left.fill_between(ALPHAS, errors - bar, errors + bar, color=colour, alpha=0.2, lw=0)
        left.plot(model.alpha_, -model.best_score_, "o", color=colour)
    left.set(xscale="log", xlabel="alpha", ylabel="squared error of rows left out")
    left.set_ylim(3000, 4300)
    left.legend(frameon=False)
    chosen = searches["leave-one-out, exact"].alpha_
    strongest = np.argsort(-np.abs(path.coef[chosen == ALPHAS][0]))
    right.plot(ALPHAS, path.coef[:, strongest[6:60]], color="0.8", lw=0.7)
    for feature in strongest[:6]:
        right.plot(ALPHAS, path.coef[:, feature], label=names[feature])
    right.axvline(chosen, color="0.4", ls=":", lw=1)
    right.set(xscale="log", xlabel="alpha", ylabel="coefficients")
    right.legend(frameon=False, fontsize=8)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)
    print(f"picture: {picture.resolve()}")


if __name__ == "__main__":
    main()
