"""Rate structures: which dropout rates there are, and their priors."""

from .base import Hierarchy, RateMap, Rates
from .fixed import Fixed, LeadingRates
from .hierarchical import Hierarchical
from .learnt import PerFeature, PerGroup, Shared, Tuned

__all__ = [
    "Fixed",
    "Hierarchical",
    "Hierarchy",
    "LeadingRates",
    "PerFeature",
    "PerGroup",
    "RateMap",
    "Rates",
    "Shared",
    "Tuned",
]
