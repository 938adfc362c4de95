"""The numbers that the paper printed in its figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PaperCurves:
    """Figure 2 for one problem: F(w) − F* after epochs 1, 2, …, as printed."""

    svrg: Array
    scsvrg: Array  # sketched preconditioned SVRG, k = 30

    @property
    def gain(self) -> float:
        """SVRG's suboptimality over the sketched one's, at the last epoch."""
        return float(self.svrg[-1] / self.scsvrg[-1])


@cache
def _printed() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        files("sketchridge.data").joinpath("paper.json").read_text()
    )
    return content


def paper_ratio(name: str) -> Array | None:
    """Figure 1 for one problem: the ratio for k = 1, 2, …; None where no numbers were printed."""
    values = _printed()["figure1_ratio"].get(name)
    return None if values is None else np.array(values)


def paper_curves(name: str) -> PaperCurves:
    """Figure 2 for one problem of the paper."""
    values = _printed()["figure2_suboptimality"][name]
    return PaperCurves(np.array(values["svrg"]), np.array(values["scsvrg"]))
