"""The scikit-learn face: Ridge, RidgeClassifier, RidgeCV and RidgeClassifierCV.

This is the only place where scikit-learn's alpha meets the engine's λ (alpha = W·λ, with W the
sum of the weights).
"""

from __future__ import annotations

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "the estimators need scikit-learn, which is not installed: "
        "pip install 'sketchridge[sklearn]'; sketchridge.solve works without it"
    ) from error

from sketchridge.estimators.classifier import RidgeClassifier
from sketchridge.estimators.cv import RidgeClassifierCV, RidgeCV
from sketchridge.estimators.ridge import Ridge

__all__ = ["Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV"]
