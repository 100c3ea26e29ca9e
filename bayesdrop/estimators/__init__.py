"""Estimators with scikit-learn's manners."""

from .classifier import DropoutLogisticRegression, DropoutSVC
from .cross_validation import DropoutLogisticRegressionCV, DropoutSVCCV
from .latent import LatentDropoutLogisticRegression, LatentDropoutSVC
from .regressor import DropoutRidge, DropoutSVR

__all__ = [
    "DropoutLogisticRegression",
    "DropoutLogisticRegressionCV",
    "DropoutRidge",
    "DropoutSVC",
    "DropoutSVCCV",
    "DropoutSVR",
    "LatentDropoutLogisticRegression",
    "LatentDropoutSVC",
]
