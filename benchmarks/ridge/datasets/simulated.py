"""A small Gaussian problem that needs no files."""

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Gaussian rows with decaying columns."""

    name = "simulated"
    requirements = ["numpy"]
    parameters = {"n, d": [(1000, 100)]}
    test_parameters = {"n, d": [(150, 60)]}

    def get_data(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((self.n, self.d)) * np.arange(1.0, self.d + 1.0) ** -0.5
        y = X @ rng.standard_normal(self.d) + 0.3 * rng.standard_normal(self.n)
        return {"X": X, "y": y}
