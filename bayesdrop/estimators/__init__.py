"""Linear estimators with scikit-learn's manners."""

from .classifier import DropoutLogisticRegression
from .counts import DropoutNegativeBinomialRegressor, DropoutPoissonRegressor
from .regressor import DropoutQuantileRegressor, DropoutRidge, DropoutSVR
from .svc import DropoutSVC

__all__ = [
    "DropoutLogisticRegression",
    "DropoutNegativeBinomialRegressor",
    "DropoutPoissonRegressor",
    "DropoutQuantileRegressor",
    "DropoutRidge",
    "DropoutSVC",
    "DropoutSVR",
]
