"""Losses: functions of a label and the two moments of the score."""

from .base import Derivatives, Loss, Pseudo
from .epsilon_insensitive import EpsilonInsensitive
from .from_function import from_function
from .hinge import Hinge
from .logistic import Logistic
from .logistic_counts import Binomial, NegativeBinomial
from .poisson import Poisson
from .quantile import Quantile
from .softmax import Softmax
from .squared import Squared

__all__ = [
    "Binomial",
    "Derivatives",
    "EpsilonInsensitive",
    "Hinge",
    "Logistic",
    "Loss",
    "NegativeBinomial",
    "Poisson",
    "Pseudo",
    "Quantile",
    "Softmax",
    "Squared",
    "from_function",
]
