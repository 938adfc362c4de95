"""Report pages: one HTML file that holds all it shows, for a phone or a desk, in light and dark.

Every string goes through the template's escaping; only the pictures, which come from `plots`,
are markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sketchridge import plots
from sketchridge.diagnostics import Diagnosis, PenaltyDiagnosis, some_ranks, spread
from sketchridge.files import atomic_write
from sketchridge.model import Model
from sketchridge.solution import Status
from sketchridge.version import __version__

SHOWN_COEFFICIENTS = 10


@dataclass(frozen=True)
class Picture:
    """A panel of `plots`, and what it shows."""

    panel: plots.Panel
    label: str  # for those who cannot see it; different for each picture of a page
    caption: str

    @property
    def svg(self) -> Any:
        """The picture as markup."""
        from markupsafe import Markup

        return Markup(plots.page_svg(self.panel, self.label))


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; folded behind the sentence `folded`, if there is one."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a page; what is empty is left out."""

    title: str = ""
    paragraphs: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    figures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    code: str = ""


@dataclass(frozen=True)
class Page:
    """A report."""

    title: str
    lead: str
    sections: Sequence[Section]
    verdict: str = ""
    good: bool = True
    footer: str = f"made by sketchridge {__version__}"


def check_available() -> None:
    """Say what is missing for a report before the work that it would report on."""
    _template()
    plots.check_available()


def write(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    html = _template().render(page=page)
    with atomic_write(path) as file:
        file.write(html.encode())


def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "reports need jinja2: install it with pip install 'sketchridge[report]'"
        ) from error
    environment = Environment(
        loader=PackageLoader("sketchridge"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


# -- a fit ---------------------------------------------------------------------------------------


def fit_page(model: Model, data: str, path: Path | None = None) -> Page:
    """The page about a fit to the data of that name, whose model is in the file `path`."""
    return Page(
        title=f"Ridge regression on {data}",
        verdict=model.status.value,
        good=model.status is Status.CONVERGED,
        lead=certificate_in_words(model),
        sections=[
            _fit_facts(model),
            _fit_plan(model),
            _fit_convergence(model),
            _fit_coefficients(model),
            _fit_use(model, data, path),
        ],
    )


def certificate_in_words(model: Model) -> str:
    """What was proved, in one sentence."""
    worst = float(np.max(model.relative_gap))
    which = "every target's objective" if model.coef.ndim == 2 else "the objective"
    return (
        f"It is proved, with rounding allowed for, that {which} is at most {worst:.2g} of F(0), "
        "the objective of fitting nothing, above the smallest that any coefficients can reach."
    )


def _fit_facts(model: Model) -> Section:
    n, d = model.shape
    facts = [
        ("rows × columns", f"{n} × {d}"),
        ("lam", f"{model.lam:g}"),
        ("certified relative gap", f"{float(np.max(model.relative_gap)):.3g}"),
        ("asked for (tol)", f"{model.tol:g}"),
        ("of what is explained", f"{float(np.max(model.explained_gap)):.3g}"),
        ("objective", _values(model.objective)),
        ("passes over the data", f"{model.passes:.1f}"),
        ("seconds", f"{model.seconds:.3g}"),
    ]
    if model.coef.ndim == 2:
        facts.insert(1, ("targets", str(model.coef.shape[0])))
    if model.fit_intercept:
        facts.append(("intercept", _values(model.intercept)))
    return Section(facts=facts)


def _fit_plan(model: Model) -> Section:
    plan = model.plan
    method = str(plan).splitlines()[0]
    rows = [forecast.cells for forecast in plan.forecasts]
    weighed = Table(("method", "passes", "seconds", "MB"), rows, folded="what was weighed")
    return Section(
        "Plan",
        [f"{method}.", *(f"Note: {note}." for note in plan.notes)],
        tables=[weighed] if rows else [],
    )


def _fit_convergence(model: Model) -> Section:
    captions = {
        "passes": "Relative gap against passes over the data, the sketch included.",
        "seconds": "The same against seconds.",
    }
    panels = plots.history_panels(model.history, model.tol)
    rows = [
        (
            f"{record.passes:.1f}",
            f"{record.seconds:.3g}",
            f"{record.objective:.8g}",
            f"{record.relative_gap:.3g}",
            "certified" if record.certified else "estimated",
            record.event or "",
        )
        for record in model.history
    ]
    header = ("passes", "seconds", "objective", "relative gap", "", "event")
    return Section(
        "Convergence",
        figures=[
            Picture(panel, f"relative gap against {name}", captions[name])
            for name, panel in panels.items()
        ],
        tables=[Table(header, rows, folded=f"all {len(rows)} records")],
    )


def _fit_coefficients(model: Model) -> Section:
    coef = model.coef.reshape(-1, model.features)
    size = np.linalg.norm(coef, axis=0)
    largest = np.argsort(-size, kind="stable")[:SHOWN_COEFFICIENTS]
    names = model.feature_names or [f"column {i}" for i in range(model.features)]
    header = ("feature", "coefficient" if model.coef.ndim == 1 else "norm over the targets")
    values = coef[0] if model.coef.ndim == 1 else size
    rows = [(names[i], f"{values[i]:.6g}") for i in largest]
    return Section(
        "Largest coefficients",
        [f"The {len(rows)} largest of {model.features}, for the columns as they were given."],
        tables=[Table(header, rows)],
    )


def _fit_use(model: Model, data: str, path: Path | None) -> Section:
    if path is None:
        return Section()
    return Section(
        "Use it",
        ["Predict with the model that was written:"],
        code=f"sketchridge predict {path} {data}",
    )


def _values(values: Any) -> str:
    array = np.atleast_1d(values)
    if array.size == 1:
        return f"{float(array[0]):.8g}"
    return f"{float(array.min()):.5g} to {float(array.max()):.5g}"


# -- a diagnosis ---------------------------------------------------------------------------------


def diagnosis_page(found: Diagnosis, data: str) -> Page:
    """The page about a diagnosis of the data of that name."""
    return Page(
        title=f"Diagnosis of {data}",
        lead=_diagnosis_lead(found),
        sections=[
            _data_facts(found),
            _spectrum_section(found),
            _penalty_section(found),
            _budget_section(found),
            *([Section("Notes", found.notes)] if found.notes else []),
        ],
    )


def _diagnosis_lead(found: Diagnosis) -> str:
    gain = float(found.ratio[-1])
    verdict = (
        "the spectrum decays fast, so that a sketched preconditioner pays"
        if gain > 3
        else "the spectrum decays slowly, so that a low-rank preconditioner gains little"
    )
    return (
        f"A preconditioner of rank {found.ranks.size} divides the average condition number by "
        f"about {gain:.3g} where λ is small: {verdict}."
    )


def _data_facts(found: Diagnosis) -> Section:
    data = found.data
    kind = f"sparse, {100 * data.density:.3g} % stored" if data.sparse else "dense"
    norms = f"{data.average_norm:.3g} ({data.smallest_norm:.3g} to {data.largest_norm:.3g})"
    return Section(
        facts=[
            ("rows × columns", f"{data.rows} × {data.columns}"),
            ("values", f"{data.dtype}, {kind}"),
            ("memory", f"{data.bytes / 1e6:.1f} MB"),
            ("row norm", norms),
            ("trace of C", f"{found.eigenvalues.trace[1]:.4g}"),
            ("passes over the data", f"{found.passes:g}"),
            ("seconds", f"{found.seconds:.3g}"),
        ]
    )


def _spectrum_section(found: Diagnosis) -> Section:
    panels = plots.diagnosis_panels(found)
    known = found.eigenvalues
    rows = [
        (
            str(k),
            spread((known.lower[k - 1], known.upper[k - 1])),
            spread((found.ratio_bounds[0][k - 1], found.ratio_bounds[1][k - 1])),
        )
        for k in some_ranks(found.ranks.size)
    ]
    return Section(
        "Spectrum",
        [f"{found.bars[0].upper()}{found.bars[1:]}."],
        figures=[
            Picture(panels["spectrum"], "eigenvalues", "The eigenvalues of C = XᵀX/n."),
            Picture(
                panels["ratio"],
                "the paper's ratio",
                "What a preconditioner of rank k divides the average condition number by, for "
                "small λ (eq. ratioRidge of the paper).",
            ),
        ],
        tables=[Table(("rank k", "eigenvalue", "ratio"), rows, folded="the figures")],
    )


def _penalty_section(found: Diagnosis) -> Section:
    panel = plots.diagnosis_panels(found)["conditions"]
    header = ["lam", "average condition", "effective dimension"]
    explained = found.penalties[0].explained is not None
    header += ["share explained"] if explained else []
    header += ["advice", "its time, in passes"]
    caption = (
        "The average condition number after preconditioning with rank k. Below the dotted line, n, "
        "an epoch of SVRG gains a constant factor, and more rank gains nothing."
    )
    return Section(
        "What each λ means",
        [
            "The advice is the cheapest by a simple model of the time, whose estimates these are. "
            "The effective dimension is Σ λᵢ/(λᵢ + λ); the share explained, where y is known, is "
            "that of F(0) which the solution will explain."
        ],
        figures=[Picture(panel, "condition numbers", caption)],
        tables=[Table(header, [_penalty_row(penalty) for penalty in found.penalties])],
    )


def _penalty_row(penalty: PenaltyDiagnosis) -> list[str]:
    best = penalty.advice.best
    return [
        f"{penalty.lam:.4g}",
        spread(penalty.condition),
        spread(penalty.effective_dimension),
        *([spread(penalty.explained)] if penalty.explained is not None else []),
        str(best),
        f"{best.cost:.3g}",
    ]


def _budget_section(found: Diagnosis) -> Section:
    header = ("passes", "rank", "SVRG", "sketched", "accelerated", "both", "CG")
    rows = [
        (
            f"{trade.passes:g}",
            str(trade.rank),
            *(
                f"{bounds[1]:.2e}"
                for bounds in (
                    trade.svrg,
                    trade.sketched_svrg,
                    trade.accelerated_svrg,
                    trade.sketched_accelerated_svrg,
                    trade.cg,
                )
            ),
        )
        for trade in found.trades
    ]
    return Section(
        "The smallest λ for a budget",
        [
            "How small λ may be so that each method finishes within a budget of passes, up to "
            "constants and logarithms (Section 2.2 of the paper)."
        ],
        figures=[
            Picture(
                plots.diagnosis_panels(found)["budgets"],
                "smallest lam against passes",
                "Lower is better: less regularisation for the same work.",
            )
        ],
        tables=[Table(header, rows)],
    )
