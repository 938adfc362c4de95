"""Many targets: the lower half of a digit from its upper half, 32 pixels together.

    python examples/many_targets.py [--out PICTURE]

Every pixel is a target. All are solved together, first with one penalty, then with one for each,
chosen by how noisy the pixel is; a penalty of its own for every column of X is shown too.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from sketchridge import Ridge

TRAINING, SHOWN = 1500, 8


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/many_targets.png"))
    picture = parser.parse_args().out
    images, _ = load_digits(return_X_y=True)
    upper, lower = images[:, :32] / 16, images[:, 32:] / 16
    X, Y = upper[:TRAINING], lower[:TRAINING]
    one = Ridge(alpha=10.0).fit(X, Y)
    noise = np.mean((Y - one.predict(X)) ** 2, axis=0)
    each = Ridge(alpha=10.0 * np.maximum(noise / noise.mean(), 1e-3)).fit(X, Y)
    centre = np.abs(np.arange(32) % 8 - 3.5)  # pixels at the edge say less: penalise them more
    columns = Ridge(alpha=10.0, feature_penalty=1.0 + centre**2).fit(X, Y)
    models = {"one penalty": one, "one a target": each, "one a column": columns}
    for name, model in models.items():
        error = np.sqrt(np.mean((lower[TRAINING:] - model.predict(upper[TRAINING:])) ** 2))
        print(f"{name:<14} error {error:.4f}, gaps ≤ {model.relative_gap_.max():.1e}", end=", ")
        print(f"{model.n_iter_[0]} passes, by {model.solver_}")
    draw(images[TRAINING:] / 16, models, picture)


def draw(images, models, picture):
    shown = images[:SHOWN]
    rows = {"true": shown[:, 32:]}
    rows |= {name: model.predict(shown[:, :32]) for name, model in models.items()}
    figure, axes = plt.subplots(len(rows), SHOWN, figsize=(7, 3.8), layout="constrained")
    for line, (name, halves) in zip(axes, rows.items(), strict=True):
        for place, top, half in zip(line, shown[:, :32], halves, strict=True):
            whole = np.concatenate([top, half]).reshape(8, 8)
            place.imshow(whole, cmap="gray_r", vmin=0, vmax=1)
            place.axhline(3.5, color="tab:red", linewidth=0.8)
            place.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, fontsize=8)
    figure.suptitle("Below the line: predicted from what is above it", fontsize=10)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)
    print(f"picture: {picture.resolve()}")


if __name__ == "__main__":
    main()
