"""Rate structures: which dropout rates there are, and their priors."""

from .base import RateMap, Rates
from .fixed import Fixed
from .learnt import PerFeature, PerGroup, Shared

__all__ = ["Fixed", "PerFeature", "PerGroup", "RateMap", "Rates", "Shared"]
