"""The paper's synthetic problems, made once and kept."""

import numpy as np
from benchmark_utils.optimum import cache_folder
from benchopt import BaseDataset

from sketchridge.data import synthetic

SEED = 0


class Dataset(BaseDataset):
    """Random singular vectors, singular values 1/q^power, rows of norm one, noise of 0.1."""

    name = "synthetic"
    requirements = ["pip::sketchridge"]
    parameters = {"n, d": [(20000, 5000)], "power": [2, 1]}
    test_parameters = {"n, d": [(300, 40)], "power": [2]}

    def get_data(self):
        stem = cache_folder() / f"synthetic-{self.n}x{self.d}-{self.power}"
        rows, targets = stem.with_suffix(".X.npy"), stem.with_suffix(".y.npy")
        if not targets.exists():  # it is written last
            X, y = synthetic(self.n, self.d, self.power, np.random.default_rng(SEED))
            np.save(rows, X)
            np.save(targets, y)
        return {"X": np.load(rows), "y": np.load(targets)}
