"""Estimators with scikit-learn's manners."""

from .classifier import DropoutLogisticRegression, DropoutSVC

__all__ = ["DropoutLogisticRegression", "DropoutSVC"]
