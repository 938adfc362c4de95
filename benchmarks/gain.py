"""Does the preconditioner gain what the paper says it will?

    make experiments                    this and the others
    python benchmarks/gain.py           prints the table, draws docs/figures/gain.svg

The paper's ratio (eq. ratioRidge), Σλ_i / (kλ_k + Σ_{i>k} λ_i), against what was gained: SVRG's
passes without the sketch over its passes with it, the sketch's own passes included. Data as the
paper's synthetic one, with singular values 1/q^p for p from 0.25 to 2; λ = 1e-6·tr C, to a
certified relative gap of 1e-6, and no run is cut short. Passes do not depend on the machine.
"""

import numpy as np
from scipy.stats import spearmanr

from benchmarks.drawing import panels, save
from sketchridge import Lanczos, solve
from sketchridge.data import synthetic

SHAPE = (1000, 100)
POWERS = np.arange(0.25, 2.01, 0.125)
RANKS = {5: "#D55E00", 10: "#0072B2", 20: "#009E73"}
TOL, UNLIMITED = 1e-6, 1e7


def passes(X, y, lam, preconditioner):
    solution = solve(
        X, y, lam, "svrg", preconditioner, tol=TOL, max_passes=UNLIMITED, random_state=0
    )
    assert solution.converged, solution
    return solution.passes


def paper_ratio(eigenvalues, rank):
    """Eq. ratioRidge, of eigenvalues in descending order."""
    return eigenvalues.sum() / (rank * eigenvalues[rank - 1] + eigenvalues[rank:].sum())


def measure(power, ranks):
    """The passes without a sketch, and (ratio, passes) with one of each rank."""
    X, y = synthetic(*SHAPE, power=power, rng=np.random.default_rng(0))
    eigenvalues = np.linalg.svd(X, compute_uv=False) ** 2 / SHAPE[0]
    lam = 1e-6 * eigenvalues.sum()
    without = passes(X, y, lam, "none")
    return without, [
        (paper_ratio(eigenvalues, rank), passes(X, y, lam, Lanczos(rank=rank))) for rank in ranks
    ]


def main():
    print("   p  without" + "".join(f" | k={rank:<3} ratio   with   gain" for rank in RANKS))
    points = {rank: [] for rank in RANKS}
    for power in POWERS:
        without, found = measure(power, RANKS)
        line = f"{power:5.3f} {without:7.0f}"
        for rank, (ratio, with_sketch) in zip(RANKS, found, strict=True):
            gain = without / with_sketch
            points[rank].append((ratio, gain))
            line += f" | {ratio:10.2f} {with_sketch:6.0f} {gain:7.2f}"
        print(line, flush=True)
    figure, (axis,) = panels(1, width=5.6, height=4.6)
    for rank, colour in RANKS.items():
        ratios, gains = np.array(points[rank]).T
        correlation = spearmanr(ratios, gains).statistic
        print(f"rank {rank}: rank correlation {correlation:.3f}  (at least 0.9)")
        label = f"rank {rank}: rank correlation {correlation:.2f}"
        axis.loglog(ratios, gains, "o-", ms=4, color=colour, label=label)
    together = np.concatenate(list(points.values()))
    print(f"all ranks: rank correlation {spearmanr(*together.T).statistic:.3f}")
    ends = np.array([1, together[:, 0].max()])
    axis.loglog(ends, ends, color="0.6", lw=1, zorder=0, label="gain = ratio")
    axis.set_xlabel("the paper's ratio, from the spectrum")
    axis.set_ylabel("passes without the sketch / passes with it")
    axis.legend()
    save(figure, "gain.svg")


if __name__ == "__main__":
    main()
