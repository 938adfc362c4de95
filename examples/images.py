"""Images: ten classes at once, from a read-only memory map of float32, in chunks if need be.

    python examples/images.py [--out PICTURE]

The images are scikit-learn's handwritten digits, 8 × 8 pixels, which come with it.
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from sketchridge import RidgeClassifier

TRAINING = 1200


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/images.png"))
    picture = parser.parse_args().out
    images, digits = load_digits(return_X_y=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "images.npy"
        np.save(file, (images / 16).astype(np.float32))
        X = np.load(file, mmap_mode="r")
        model = RidgeClassifier(alpha=1.0).fit(X[:TRAINING], digits[:TRAINING])
        score = model.score(X[TRAINING:], digits[TRAINING:])
        chunked = RidgeClassifier(alpha=1.0)
        for start in range(0, TRAINING, 250):
            rows = slice(start, min(start + 250, TRAINING))
            chunked.partial_fit(X[rows], digits[rows], classes=np.arange(10))
    print(f"{score:.1%} of {len(digits) - TRAINING} new digits read right")
    print(f"coefficients: {model.coef_.dtype}, within {model.coef_error_bound_.max():.1e}")
    print(f"in chunks, they differ by {np.abs(chunked.coef_ - model.coef_).max():.1e}")
    print(model.plan_)
    draw(model, picture)


def draw(model, picture):
    figure, axes = plt.subplots(2, 5, figsize=(7, 3.2), layout="constrained")
    largest = np.abs(model.coef_).max()
    for digit, place in enumerate(axes.flat):
        pixels = model.coef_[digit].reshape(8, 8)
        place.imshow(pixels, cmap="RdBu", vmin=-largest, vmax=largest)
        place.set_title(str(digit), fontsize=9)
        place.axis("off")
    figure.suptitle("Which pixels speak for a digit (blue), and against it (red)", fontsize=10)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)
    print(f"picture: {picture.resolve()}")


if __name__ == "__main__":
    main()
