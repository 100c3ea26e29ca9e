"""Losses: functions of a label and the two moments of the score."""

from .base import Derivatives, Loss, Pseudo
from .epsilon_insensitive import EpsilonInsensitive
from .hinge import Hinge
from .logistic import Logistic
from .softmax import Softmax
from .squared import Squared

__all__ = ["Derivatives", "EpsilonInsensitive", "Hinge", "Logistic", "Loss", "Pseudo", "Softmax", "Squared"]
