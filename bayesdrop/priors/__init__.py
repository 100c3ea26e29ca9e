"""Priors of the weights, of the dropout rates and of a noise variance."""

from .base import WeightPrior
from .beta import Beta
from .horseshoe import Horseshoe
from .intercept import CentredIntercept
from .laplace import Laplace
from .normal import Normal
from .random_effects import RandomEffects
from .rate_prior import RatePrior
from .scale_prior import Gamma, HalfCauchy, HalfNormal, InverseGamma, ScalePrior
from .spike_slab import SpikeSlab

__all__ = [
    "Beta",
    "CentredIntercept",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "Horseshoe",
    "InverseGamma",
    "Laplace",
    "Normal",
    "RandomEffects",
    "RatePrior",
    "ScalePrior",
    "SpikeSlab",
    "WeightPrior",
]
