"""Linear estimators with scikit-learn's manners."""

from .classifier import DropoutLogisticRegression, DropoutSVC
from .regressor import DropoutQuantileRegressor, DropoutRidge, DropoutSVR

__all__ = ["DropoutLogisticRegression", "DropoutQuantileRegressor", "DropoutRidge", "DropoutSVC", "DropoutSVR"]
