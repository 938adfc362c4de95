"""Data: the paper's synthetic problems."""

from __future__ import annotations

from sketchridge.data.synthetic import synthetic

__all__ = ["synthetic"]
