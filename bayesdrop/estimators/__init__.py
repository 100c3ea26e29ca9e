"""Linear estimators following the scikit-learn API."""

from .counts import DropoutNegativeBinomialRegressor, DropoutPoissonRegressor
from .linear_classifiers import DropoutLogisticRegression, DropoutSVC
from .linear_regressors import DropoutQuantileRegressor, DropoutRidge, DropoutSVR

__all__ = [
    "DropoutLogisticRegression",
    "DropoutNegativeBinomialRegressor",
    "DropoutPoissonRegressor",
    "DropoutQuantileRegressor",
    "DropoutRidge",
    "DropoutSVC",
    "DropoutSVR",
]
