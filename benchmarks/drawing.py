"""What the experiments' pictures have in common."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
# Okabe and Ito's: distinguishable in print, in grey and by most colour-blind readers.
COLOURS = {
    "gd": "#000000",
    "agd": "#E69F00",
    "cg": "#0072B2",
    "svrg": "#D55E00",
    "accelerated_svrg": "#009E73",
    "catalyst": "#56B4E9",
    "saga": "#CC79A7",
    "sag": "#8B4513",
    "sdca": "#6A3D9A",
    "kaczmarz": "#999999",
    "direct": "#555555",
}
pyplot.rcParams.update(
    {
        "font.size": 10,
        "legend.frameon": False,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "sketchridge",
    }
)


def panels(count, width=4.6, height=3.9):
    """Axes side by side, and their figure."""
    figure, axes = pyplot.subplots(
        1, count, figsize=(width * count, height), layout="constrained", squeeze=False
    )
    for axis in axes[0]:
        axis.grid(True, which="major", color="0.92")
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes[0]


def save(figure, name):
    """Write docs/figures/name, and say so; the same numbers give the same file."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    path = FIGURES / name
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    print(f"written: {path}")
