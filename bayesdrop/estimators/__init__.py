"""Linear estimators with scikit-learn's manners."""

from .classifier import DropoutLogisticRegression, DropoutSVC
from .regressor import DropoutRidge, DropoutSVR

__all__ = ["DropoutLogisticRegression", "DropoutRidge", "DropoutSVC", "DropoutSVR"]
