"""Text: sparse tf-idf rows with an intercept and class weights, never made dense.

    python examples/text.py [--out PICTURE]

The reviews are made up on the spot from a few thousand words, of which some please and some do
not, so that the example needs no download.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from sketchridge import RidgeClassifier

PRAISE = ("wonderful", "superb", "moving", "funny", "brilliant", "charming", "gripping", "warm")
BLAME = ("awful", "boring", "dull", "clumsy", "predictable", "tedious", "weak", "messy")
ORDINARY = 4000
REVIEWS = 3000


def made_up_reviews():
    """Reviews and their verdicts; words are as frequent as in language, one in r for rank r."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(ORDINARY)])
    frequency = 1.0 / np.arange(1, ORDINARY + 1)
    frequency /= frequency.sum()
    texts, verdicts = [], []
    for _ in range(REVIEWS):
        good = rng.random() < 0.3  # most reviews complain
        length = rng.integers(30, 120)
        said = list(rng.choice(words, length, p=frequency))
        for telling in (PRAISE, BLAME):
            chance = 0.6 if good == (telling is PRAISE) else 0.15
            said += list(rng.choice(telling, rng.binomial(4, chance)))
        texts.append(" ".join(rng.permutation(said)))
        verdicts.append("good" if good else "bad")
    return texts, np.array(verdicts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/text.png"))
    picture = parser.parse_args().out
    train, test, y_train, y_test = train_test_split(*made_up_reviews(), random_state=0)
    model = make_pipeline(
        TfidfVectorizer(sublinear_tf=True),
        RidgeClassifier(alpha=3.0, class_weight="balanced", random_state=0),
    ).fit(train, y_train)
    words, ridge = model[0].get_feature_names_out(), model[1]
    print(f"{len(train)} reviews, {len(words)} words, {model.score(test, y_test):.1%} right")
    print(f"certified relative gap {ridge.relative_gap_[0]:.1e}")
    print(ridge.plan_)
    draw(words, ridge.coef_, picture)


def draw(words, coef, picture):
    order = np.argsort(coef)
    shown = np.concatenate([order[:10], order[-10:]])
    figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
    colours = np.where(coef[shown] > 0, "tab:green", "tab:red")
    axes.barh(np.arange(shown.size), coef[shown], color=colours)
    axes.set_yticks(np.arange(shown.size), words[shown], fontsize=8)
    axes.set(xlabel="coefficient", title="The words that speak for a good review, and against")
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)
    print(f"picture: {picture.resolve()}")


if __name__ == "__main__":
    main()
