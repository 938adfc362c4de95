"""Which method is the cheapest, by shape, spectrum, λ and accuracy.

    make experiments                    this and the others
    python benchmarks/choose.py         prints the table, draws docs/figures/choose.svg

Every method solves the same problems to a certified relative gap of 1e-8, and the processor time
at which it had certified 1e-3 and 1e-8 is noted, sketch included. The unit is the time of X v and
Xᵀr by BLAS or scipy in the same run, so that the figures depend little on the machine and on what
else it does; one thread. A method is given up when it has taken three times as long as the best
one before it.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import time

import numpy as np
from scipy import sparse

from benchmarks.drawing import pyplot, save
from sketchridge import compare, solve
from sketchridge.data import synthetic

ACCURACIES = (1e-3, 1e-8)
PENALTIES = (1e-2, 1e-5, 1e-8)  # λ over tr C
SHAPES = {"tall": (20_000, 200), "large": (4_000, 2_000), "wide": (1_000, 5_000)}
POWERS = (0.5, 1.0, 2.0)
TEXT_SHAPE, TEXT_LENGTH = (20_000, 20_000), 50
PATIENCE = 3.0
TIE = 1.25  # what costs no more than this is as good
METHODS = {
    "direct": ("direct", "none"),
    "cg": ("cg", "none"),
    "cg+nystrom": ("cg", "nystrom"),
    "cg+diagonal": ("cg", "diagonal"),
    "cg+row_sampling": ("cg", "row_sampling"),
    "cg+embedding": ("cg", "embedding"),
    "svrg": ("svrg", "none"),
    "svrg+lanczos": ("svrg", "lanczos"),
    "accelerated_svrg+lanczos": ("accelerated_svrg", "lanczos"),
    "saga": ("saga", "none"),
    "saga+lanczos": ("saga", "lanczos"),
    "sdca": ("sdca", "none"),
}
LARGEST_FACTOR = 5_000  # of the smaller side: what is not factorised beyond it
FACTORS = ("direct", "cg+row_sampling", "cg+embedding")
COLOURS = {
    "direct": "#BBBBBB",
    "cg": "#9ECAE9",
    "svrg": "#F5B78B",
    "saga": "#E3B7D2",
    "accelerated_svrg": "#8FD3B6",
    "sdca": "#C5B0E0",
}


def text(rng):
    """Like text: words by Zipf's law in rows of unit norm, and a label that words decide."""
    n, d = TEXT_SHAPE
    lengths = rng.poisson(TEXT_LENGTH, n) + 1
    likely = 1.0 / np.arange(5, d + 5)
    words = rng.choice(d, size=lengths.sum(), p=likely / likely.sum())
    rows = np.repeat(np.arange(n), lengths)
    counts = sparse.csr_array((np.ones(words.size), (rows, words)), shape=(n, d))
    rarity = np.log(n / (1.0 + np.bincount(counts.indices, minlength=d)))
    X = sparse.csr_array(counts @ sparse.diags_array(rarity))
    X = sparse.csr_array(sparse.diags_array(1 / np.sqrt((X**2).sum(axis=1))) @ X)
    X.sort_indices()
    return X, np.sign(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n))


def problems():
    """Names of the data, and the data."""
    for shape, (n, d) in SHAPES.items():
        for power in POWERS:
            X, y = synthetic(n, d, power=power, rng=np.random.default_rng(0))
            yield f"{shape} {n}×{d}, 1/q^{power:g}", X, y
    yield "sparse text {}×{}".format(*TEXT_SHAPE), *text(np.random.default_rng(0))


def unit(X, y):
    """Processor seconds of X v and Xᵀ r, the median of several."""
    v, times = np.ones(X.shape[1]), []
    for _ in range(7):
        began = time.process_time()
        X.T @ (X @ v - y)
        times.append(time.process_time() - began)
    return float(np.median(times))


class Clock:
    """Notes when accuracies are certified (or estimated by the running gradient), and gives up."""

    def __init__(self, limit):
        self.began, self.limit, self.reached = time.process_time(), limit, {}

    def __call__(self, record):
        spent = time.process_time() - self.began
        for accuracy in ACCURACIES:
            if record.relative_gap <= accuracy:
                self.reached.setdefault(accuracy, spent)
        return spent > self.limit


def measure(X, y, lam):
    """Processor seconds of every method to each accuracy."""
    found, best = {}, np.inf
    for label, (solver, preconditioner) in METHODS.items():
        if label in FACTORS and min(X.shape) > LARGEST_FACTOR:
            continue
        clock = Clock(PATIENCE * best)
        solve(
            X,
            y,
            lam,
            solver,
            preconditioner,
            tol=ACCURACIES[-1],
            random_state=0,
            callback=clock,
        )
        found[label] = clock.reached
        best = min(best, clock.reached.get(ACCURACIES[-1], np.inf))
    return found


def ranking(found, accuracy, unit_time):
    """The methods that got there, the cheapest first, with their costs in units."""
    reached = {label: times[accuracy] for label, times in found.items() if accuracy in times}
    return [(label, reached[label] / unit_time) for label in sorted(reached, key=reached.get)]


def warm_up():
    """Compile the kernels beforehand, on data that is large enough to need them."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((4000, 100))
    for data in (X, sparse.csr_array(X)):
        compare(data, rng.standard_normal(4000), 1.0, METHODS, max_passes=10, random_state=0)


def draw(cells, columns):
    """A field a problem and accuracy, with the cheapest method and its cost."""
    rows = list(dict.fromkeys(row for row, _ in cells))
    figure, axis = pyplot.subplots(figsize=(13, 0.5 * len(rows) + 1.3), layout="constrained")
    for (row, column), ranked in cells.items():
        x, y = columns.index(column), len(rows) - 1 - rows.index(row)
        label, cost = ranked[0]
        colour = COLOURS[label.split("+")[0]]
        axis.add_patch(pyplot.Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="white", lw=2))
        written = f"{label.replace('accelerated_svrg', 'acc. svrg')}  {cost:.0f}"
        second = [f"{other}  {more:.0f}" for other, more in ranked[1:2] if more < TIE * cost]
        lines = "\n".join([written, *second])
        axis.text(x + 0.5, y + 0.5, lines, ha="center", va="center", fontsize=8)
    axis.set_xlim(0, len(columns))
    axis.set_ylim(0, len(rows))
    axis.set_xticks(np.arange(len(columns)) + 0.5, columns)
    axis.set_yticks(np.arange(len(rows)) + 0.5, rows[::-1])
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    save(figure, "choose.svg")


def main():
    warm_up()
    cells = {}
    for name, X, y in problems():
        unit_time = unit(X, y)
        trace = float((X**2).sum()) / X.shape[0]
        for share in PENALTIES:
            found = measure(X, y, share * trace)
            for accuracy in ACCURACIES:
                ranked = ranking(found, accuracy, unit_time)
                cells[name, f"λ = {share:g} tr C\nto {accuracy:g}"] = ranked
                listed = ", ".join(f"{label} {cost:.0f}" for label, cost in ranked[:5])
                print(f"{name}, λ = {share:g} tr C, to {accuracy:g}: {listed}", flush=True)
    draw(cells, list(dict.fromkeys(column for _, column in cells)))


if __name__ == "__main__":
    main()
