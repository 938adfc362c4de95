"""Data: anyone's files, and the paper's problems."""

from __future__ import annotations

from sketchridge.data.dataset import DataError, Dataset, MissingData, NamelessColumns
from sketchridge.data.published import PROBLEMS, load
from sketchridge.data.readers import FORMATS, read
from sketchridge.data.synthetic import synthetic

__all__ = [
    "FORMATS",
    "PROBLEMS",
    "DataError",
    "Dataset",
    "MissingData",
    "NamelessColumns",
    "load",
    "read",
    "synthetic",
]
