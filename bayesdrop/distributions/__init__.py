"""NumPyro distributions of the augmentations."""

from .generalized_inverse_gaussian import GeneralizedInverseGaussian
from .inverse_gaussian import InverseGaussian, reciprocal_inverse_gaussian
from .polya_gamma import PolyaGamma
from .polya_gamma_one import polya_gamma_one

__all__ = [
    "GeneralizedInverseGaussian",
    "InverseGaussian",
    "PolyaGamma",
    "polya_gamma_one",
    "reciprocal_inverse_gaussian",
]
