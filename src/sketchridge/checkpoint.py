"""A checkpoint: the best point of a solve in a file, written atomically, to go on from."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sketchridge.problem import RidgeProblem

Array = NDArray[np.float64]


def _fingerprint(problem: RidgeProblem) -> Array:
    """Figures that tell one problem from another."""
    return np.array(
        [
            problem.n,
            problem.d,
            problem.targets,
            problem.lam,
            problem.raw_trace,
            problem.trace,
            problem.null_objective.sum(),
        ]
    )


def read_checkpoint(path: Path, problem: RidgeProblem) -> Array | None:
    """The point (d, t) in the file; None if there is no file."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            fingerprint, coef = file["fingerprint"], file["coef"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"checkpoint={str(path)!r} is not a checkpoint of a solve: remove it or name another"
        ) from error
    expected = _fingerprint(problem)
    if fingerprint.shape != expected.shape or not np.allclose(fingerprint, expected, rtol=1e-12):
        raise ValueError(
            f"checkpoint={str(path)!r} belongs to another problem (other data, lam or weights): "
            "remove it or name another"
        )
    return np.asarray(coef, dtype=np.float64)


def write_checkpoint(path: Path, problem: RidgeProblem, coef: Array) -> None:
    """Write the point (d, t); the file is whole at every moment."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        np.savez(file, fingerprint=_fingerprint(problem), coef=coef)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
