"""Our curves beside the paper's: gains, ratios, and the one number that explains the paper's bend.

The paper's curves bend down at their end, as if its F* were too high by a small number. With that
offset c they are F − F* − c: it is fitted, one for each problem, and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchridge.data.paper import PaperCurves, paper_curves
from sketchridge.experiments import RANK, Alternative, Curve, Method, Outcome, best

Array = NDArray[np.float64]
OFFSETS = 400
# What counts as following the paper, and as agreeing with the exact ratio.
LARGEST_SPREAD = 1.25
LARGEST_RATIO_ERROR = 0.01
OWN_DATA = ("mnist", "cifar10")
SHARP_RATIOS = (*OWN_DATA, "synthetic-linear", "synthetic-quadratic")


@dataclass(frozen=True)
class Fit:
    """The steps and the offset with which our curves are nearest to the paper's."""

    offset: float  # how much too high the paper's F* would be
    svrg: Curve
    scsvrg: Curve
    svrg_spread: float  # the median over the epochs of the ratio to the paper's, or its inverse
    scsvrg_spread: float

    @property
    def spread(self) -> float:
        """Of the worse method."""
        return max(self.svrg_spread, self.scsvrg_spread)


@dataclass(frozen=True)
class Explanation:
    """How well a reading of the paper explains one of its curves, with its best step and offset."""

    choice: str
    method: Method
    step: float | None
    offset: float
    spread: float
    end: float  # with the true F* and the step that ends lowest: over the paper's last value


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    outcome: Outcome
    paper_gain: float
    svrg: Curve  # the tuned ones
    scsvrg: Curve
    svrg_to_paper: float  # our suboptimality over the paper's, at the last epoch
    scsvrg_to_paper: float
    fit: Fit
    boldest: Curve | None  # the best of rank and epoch length within the same passes
    boldest_to_paper: float | None

    @property
    def gain(self) -> float:
        """Ours, with the true F*."""
        return self.svrg.last / self.scsvrg.last


@dataclass(frozen=True)
class Check:
    """A promise, and whether this run kept it."""

    sentence: str
    kept: bool


def spreads(curve: Curve, printed: Array, offsets: Array) -> Array:
    """The median of |log((ours − offset) / printed)| over the epochs, for every offset."""
    ours = np.array(curve.suboptimality[1 : printed.size + 1])
    printed = printed[: ours.size]
    shifted = np.maximum(ours[None, :] - offsets[:, None], 1e-300)
    logarithms: Array = np.median(np.abs(np.log(shifted / printed)), axis=1)
    return logarithms


def offsets_for(curves: Sequence[Curve]) -> Array:
    """Offsets to try: from none to nearly all of the smallest suboptimality."""
    return np.linspace(0.0, 0.999 * min(curve.last for curve in curves), OFFSETS)


def fit(outcome: Outcome, printed: PaperCurves) -> Fit:
    """One offset for both methods, and a step for each, with the smallest worst spread."""
    offsets = offsets_for([*outcome.svrg, *outcome.scsvrg])
    nearest = []
    for curves, paper in ((outcome.svrg, printed.svrg), (outcome.scsvrg, printed.scsvrg)):
        table = np.array([spreads(curve, paper, offsets) for curve in curves])
        nearest.append((table.min(axis=0), table.argmin(axis=0)))
    (svrg, svrg_step), (scsvrg, scsvrg_step) = nearest
    place = int(np.argmin(np.maximum(svrg, scsvrg)))
    return Fit(
        float(offsets[place]),
        outcome.svrg[svrg_step[place]],
        outcome.scsvrg[scsvrg_step[place]],
        float(np.exp(svrg[place])),
        float(np.exp(scsvrg[place])),
    )


def explain(outcome: Outcome) -> list[Explanation]:
    """Our readings of what the paper leaves open beside the others that were tried."""
    printed = paper_curves(outcome.name)
    tried = {alternative.method for alternative in outcome.alternatives}
    ours = (
        Alternative("as in the runs above", "svrg", outcome.svrg),
        Alternative("as in the runs above", "scsvrg", outcome.scsvrg),
    )
    readings = [a for a in ours if a.method in tried] + list(outcome.alternatives)
    return [
        _explanation(reading, getattr(printed, reading.method))
        for reading in sorted(readings, key=lambda reading: reading.method, reverse=True)
    ]


def _explanation(reading: Alternative, printed: Array) -> Explanation:
    candidates = []
    for curve in reading.curves:
        offsets = offsets_for([curve])
        logarithms = spreads(curve, printed, offsets)
        place = int(np.argmin(logarithms))
        spread = float(np.exp(logarithms[place]))
        candidates.append((spread, float(offsets[place]), curve.setting.step))
    spread, offset, step = min(candidates, key=lambda candidate: candidate[0])
    end = best(reading.curves).last / float(printed[-1])
    return Explanation(reading.choice, reading.method, step, offset, spread, end)


def compare(outcome: Outcome) -> Row:
    """The line of the table for one problem."""
    printed = paper_curves(outcome.name)
    svrg, scsvrg = best(outcome.svrg), best(outcome.scsvrg)
    boldest = best(outcome.bolder) if outcome.bolder else None
    return Row(
        outcome,
        printed.gain,
        svrg,
        scsvrg,
        svrg.last / float(printed.svrg[svrg.epochs - 1]),
        scsvrg.last / float(printed.scsvrg[scsvrg.epochs - 1]),
        fit(outcome, printed),
        boldest,
        None if boldest is None else boldest.last / float(printed.scsvrg[-1]),
    )


def ratio_at_rank(outcome: Outcome) -> float:
    """The theory's speed-up at the paper's k."""
    values = outcome.ratio.exact or outcome.ratio.sketched
    return values[min(RANK, len(values)) - 1]


def checks(rows: Sequence[Row]) -> list[Check]:
    """What the project promises of a run on the paper's own data; nothing of a cut one."""
    promises = []
    for row in rows:
        if not row.outcome.cut:
            promises += _ratio_checks(row.outcome)
            if row.outcome.name in OWN_DATA:
                promises += _curve_checks(row)
    return promises


def _ratio_checks(outcome: Outcome) -> list[Check]:
    error = outcome.ratio.error
    if error is None or outcome.name not in SHARP_RATIOS:
        return []
    sentence = (
        f"{outcome.title}: the ratios from the sketch are within {100 * error:.2g} % of the exact "
        f"ones (promised: {100 * LARGEST_RATIO_ERROR:g} %)"
    )
    return [Check(sentence, error <= LARGEST_RATIO_ERROR)]


def _curve_checks(row: Row) -> list[Check]:
    title, fit, boldest = row.outcome.title, row.fit, row.boldest
    follows = (
        f"{title}: with c = {fit.offset:.1e} the median ratio to the paper's curve is "
        f"{fit.svrg_spread:.3f} for SVRG and {fit.scsvrg_spread:.3f} for the sketched one "
        f"(promised: {LARGEST_SPREAD})"
    )
    promises = [Check(follows, fit.spread <= LARGEST_SPREAD)]
    if boldest is not None and row.boldest_to_paper is not None:
        ends = (
            f"{title}: within the passes of the sketched SVRG, {boldest.setting} ends at "
            f"{row.boldest_to_paper:.2f} of the paper's value (promised: at most 1)"
        )
        promises.append(Check(ends, row.boldest_to_paper <= 1))
    return promises
