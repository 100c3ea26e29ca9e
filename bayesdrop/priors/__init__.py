"""Priors of the weights and of the dropout rates."""

from .beta import Beta
from .normal import Normal

__all__ = ["Beta", "Normal"]
