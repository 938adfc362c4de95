"""A checkpoint: the best point of a solve in a file, written atomically, to go on from."""

from __future__ import annotations

import os
import zipfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.files import atomic_write
from sketchridge.problem import RidgeProblem

Array = NDArray[np.float64]


class Checkpoint:
    """The file of one problem's best point."""

    def __init__(self, path: Any, problem: RidgeProblem) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint={path!r} is not a path: give the name of a file")
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r} cannot be written: the folder {self.path.parent} does "
                "not exist; make it first"
            )
        self.problem = problem

    def _fingerprint(self) -> NDArray[np.uint8]:
        """What tells this problem from another: the data, the targets and λ."""
        digest = blake2b(self.problem.fingerprint.digest(), digest_size=16)
        digest.update(self.problem.Y.tobytes())
        digest.update(np.float64(self.problem.lam).tobytes())
        return np.frombuffer(digest.digest(), np.uint8)

    def read(self) -> Array | None:
        """The point (d, t) in the file; None if there is no file."""
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                fingerprint = file["fingerprint"]
                coef: Array = file["coef"].astype(np.float64)
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is not a checkpoint of a solve: remove it or name "
                "another"
            ) from error
        if not np.array_equal(fingerprint, self._fingerprint()):
            raise ValueError(
                f"checkpoint={str(self.path)!r} belongs to another problem (other data, lam or "
                "weights): remove it or name another"
            )
        shape = (self.problem.d, self.problem.targets)
        if coef.shape != shape or not np.all(np.isfinite(coef)):
            raise ValueError(f"checkpoint={str(self.path)!r} is damaged: remove it or name another")
        return coef

    def write(self, coef: Array) -> None:
        """Write the point (d, t); the file is whole at every moment."""
        with atomic_write(self.path) as file:
            np.savez(file, fingerprint=self._fingerprint(), coef=coef)
