"""Losses: functions of a label and the two moments of the score."""

from .base import Derivatives, Loss, Pseudo
from .hinge import Hinge
from .logistic import Logistic

__all__ = ["Derivatives", "Hinge", "Logistic", "Loss", "Pseudo"]
