"""Linear estimators with scikit-learn's manners."""

from .classifier import DropoutLogisticRegression, DropoutSVC
from .counts import DropoutNegativeBinomialRegressor, DropoutPoissonRegressor
from .regressor import DropoutQuantileRegressor, DropoutRidge, DropoutSVR

__all__ = [
    "DropoutLogisticRegression",
    "DropoutNegativeBinomialRegressor",
    "DropoutPoissonRegressor",
    "DropoutQuantileRegressor",
    "DropoutRidge",
    "DropoutSVC",
    "DropoutSVR",
]
