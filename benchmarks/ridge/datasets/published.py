"""The paper's real data, from the folder that SKETCHRIDGE_DATA names; labels ±1."""

import os
from pathlib import Path

import numpy as np
from benchmark_utils.scaling import scaled_rows
from benchopt import BaseDataset
from scipy import sparse

FILES = {
    "mnist": "mnist_4v7.npz",
    "cifar10": "cifar10.npz",
    "rcv1_subsets": "rcv1_subsets.npz",
    "imdb": "imdb_tfidf.npz",
}
FOLDER = os.environ.get("SKETCHRIDGE_DATA")
if FOLDER is None:  # benchopt then says that it is not installed
    raise ImportError("SKETCHRIDGE_DATA is not set: let it name the folder with the npz files")
POSITIVE = {"mnist": [4], "cifar10": [2, 3, 4, 5, 6, 7]}  # 4 against 7; animals against vehicles


class Dataset(BaseDataset):
    """MNIST 4 against 7, CIFAR-10 animals against vehicles, RCV1-v2 subsets, IMDB in tf-idf."""

    name = "published"
    requirements = ["numpy", "scipy"]
    parameters = {"data": list(FILES)}

    def get_data(self):
        file = np.load(Path(FOLDER) / FILES[self.data])
        if "indptr" in file:
            arrays = (file["data"], file["indices"], file["indptr"])
            X = sparse.csr_matrix(arrays, shape=tuple(file["shape"].tolist()))
            return {"X": scaled_rows(X), "y": file["y"].astype(np.float64)}
        y = np.where(np.isin(file["y"], POSITIVE[self.data]), 1.0, -1.0)
        return {"X": scaled_rows(file["X"]), "y": y}
