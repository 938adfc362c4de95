"""How passes grow with the condition number, and where they do not.

    make experiments                    this and the others
    python benchmarks/growth.py         prints the fits, draws docs/figures/growth.svg

H = C + λI has a log-uniform spectrum from 1 down to 1/κ, and y has the same energy in every
eigendirection. No preconditioner: the condition number is the data's own. Theory says passes
∝ κ for gradient descent and κ̂/n for SVRG, SAGA and SAG (κ̂ = tr H / λ_d(H)), and the square roots
of these for the accelerated methods and conjugate gradients; and for stochastic methods no growth
while κ̂ < n. Passes do not depend on the machine; all runs are seeded.
"""

import numpy as np
from scipy import sparse

from benchmarks.drawing import COLOURS, panels, save
from sketchridge import solve
from sketchridge.solvers import SOLVERS, AcceleratedSVRG

TOL = 1e-4
UNLIMITED = 1e7
DECADES = np.linspace(1, 5, 9)

# Full gradients know only the spectrum, so a diagonal X is as good as any. Conjugate gradients
# would end early if they could count the eigenvalues: d is more than ten times their iterations.
# Gradient descent cannot count, and its many iterations are on fewer columns.
FULL = {"gd": (500, 1.0), "agd": (20_000, 0.5), "cg": (20_000, 0.5)}  # d, expected exponent
STEEP_SHAPE, FLAT_SHAPE = (100, 50), (4_000, 20)
STEEP = {"svrg": 1.0, "saga": 1.0, "accelerated_svrg": 0.5, "katyusha": 0.5, "catalyst": 0.5}
FLAT = ("svrg", "accelerated_svrg", "katyusha", "catalyst", "saga", "sag", "sdca", "kaczmarz")
FLAT_CONDITIONS = (3, 10, 30, 100, 300)


def make(name):
    momentum = name in ("katyusha", "catalyst")
    return AcceleratedSVRG(name) if momentum else SOLVERS[name]()


def spectrum(d, condition):
    """Eigenvalues of C and λ, such that those of C + λI run from 1 to 1/condition."""
    eigenvalues = np.logspace(0, -np.log10(condition), d)
    lam = 0.5 * eigenvalues[-1]
    return eigenvalues - lam, lam


def diagonal_problem(d, condition):
    eigenvalues, lam = spectrum(d, condition)
    return sparse.diags_array(np.sqrt(d * eigenvalues), format="csr"), np.ones(d), lam


def rotated_problem(n, d, condition, seed):
    """Random singular vectors: no row is more like an eigenvector than another."""
    rng = np.random.default_rng(seed)
    eigenvalues, lam = spectrum(d, condition)
    left = np.linalg.qr(rng.standard_normal((n, d)))[0]
    right = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = np.sqrt(n) * (left * np.sqrt(eigenvalues)) @ right.T
    return X, np.sqrt(n / d) * left.sum(axis=1), lam


def average_condition(d, condition):
    """κ̂ = tr H / λ_d(H)."""
    return float(np.sum(np.logspace(0, -np.log10(condition), d)) * condition)


def passes(problem, solver, seed=0):
    X, y, lam = problem
    solution = solve(X, y, lam, solver, "none", tol=TOL, max_passes=UNLIMITED, random_state=seed)
    assert solution.converged, solution
    return solution.passes


def exponent(across, heights):
    """The slope of the line through the logarithms."""
    return float(np.polyfit(np.log(across), np.log(heights), 1)[0])


def full_growth(name, decades=DECADES):
    """Condition numbers κ and passes of a full-gradient method."""
    d, _ = FULL[name]
    conditions = 10.0**decades
    return conditions, np.array([passes(diagonal_problem(d, c), make(name)) for c in conditions])


def stochastic_growth(name, decades=DECADES, seeds=(0,)):
    """Average condition numbers κ̂ ≥ 10 n and the median passes of a stochastic method."""
    n, d = STEEP_SHAPE
    conditions = [c for c in 10.0**decades if average_condition(d, c) >= 10 * n]
    runs = [
        [passes(rotated_problem(n, d, c, seed), make(name), seed) for seed in seeds]
        for c in conditions
    ]
    averages = np.array([average_condition(d, c) for c in conditions])
    return averages, np.median(runs, axis=1)


def flat_growth(name, seeds=(0, 1, 2)):
    """κ̂/n < 1 and the median passes."""
    n, d = FLAT_SHAPE
    runs = [
        [passes(rotated_problem(n, d, c, seed), make(name), seed) for seed in seeds]
        for c in FLAT_CONDITIONS
    ]
    averages = np.array([average_condition(d, c) for c in FLAT_CONDITIONS])
    return averages / n, np.median(runs, axis=1)


def report(kind, name, across, heights, expected):
    found = exponent(across, heights)
    figures = "  ".join(f"{a:.3g}: {h:.0f}" for a, h in zip(across, heights, strict=True))
    print(f"{kind:<10} {name:<17} exponent {found:5.2f}  (theory {expected:.1f})   {figures}")
    return found


def draw_curves(axis, curves, label):
    for name, (across, heights, note) in curves.items():
        axis.loglog(across, heights, "o-", ms=4, color=COLOURS[name], label=f"{name}{note}")
    axis.set_xlabel(label)
    axis.legend(fontsize=8.5)


def main():
    figure, axes = panels(3)
    curves = {}
    for name, (_, expected) in FULL.items():
        across, heights = full_growth(name)
        curves[name] = across, heights, f": {report('κ', name, across, heights, expected):.2f}"
    draw_curves(axes[0], curves, "condition number κ")
    curves = {}
    for name, expected in STEEP.items():
        across, heights = stochastic_growth(name)
        slope = report("κ̂ ≥ 10n", name, across, heights, expected)
        curves[name] = across / STEEP_SHAPE[0], heights, f": {slope:.2f}"
    draw_curves(axes[1], curves, "average condition number over rows, κ̂ / n")
    curves = {}
    for name in FLAT:
        across, heights = flat_growth(name)
        curves[name] = across, heights, f": {report('κ̂ < n', name, across, heights, 0.0):.2f}"
    draw_curves(axes[2], curves, "average condition number over rows, κ̂ / n")
    axes[2].set_ylim(1, 1000)
    axes[0].set_ylabel(f"passes to a certified relative gap of {TOL:g}")
    for axis, title in zip(
        axes, ("full gradients", "stochastic, κ̂ ≥ 10 n", "stochastic, κ̂ < n"), strict=True
    ):
        axis.set_title(f"{title}: fitted exponents", fontsize=10)
    save(figure, "growth.svg")


if __name__ == "__main__":
    main()
