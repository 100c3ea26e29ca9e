"""Priors of the weights, of the dropout rates and of a noise variance."""

from .base import WeightPrior
from .beta import Beta
from .gamma import Gamma
from .horseshoe import Horseshoe
from .inverse_gamma import InverseGamma
from .laplace import Laplace
from .logit_normal import LogitNormal
from .normal import Normal
from .rate_prior import RatePrior
from .scale_prior import HalfCauchy, HalfNormal, ScalePrior

__all__ = [
    "Beta",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "Horseshoe",
    "InverseGamma",
    "Laplace",
    "LogitNormal",
    "Normal",
    "RatePrior",
    "ScalePrior",
    "WeightPrior",
]
