"""NumPyro distributions of augmentations, two samplers that need no NumPyro, and pseudo-likelihoods.

The distributions, and NumPyro with them, are imported at their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .draws import polya_gamma_one, reciprocal_inverse_gaussian

if TYPE_CHECKING:
    from .generalized_inverse_gaussian import GeneralizedInverseGaussian
    from .inverse_gaussian import InverseGaussian
    from .label_pseudo_likelihoods import (
        BernoulliPseudoLikelihood,
        CategoricalPseudoLikelihood,
        HingeGivenScale,
        HingePseudoLikelihood,
        LogisticPseudoLikelihood,
    )
    from .polya_gamma import PolyaGamma
    from .real_pseudo_likelihoods import (
        ConvexPseudoLikelihood,
        EpsilonInsensitiveGivenScales,
        EpsilonInsensitivePseudoLikelihood,
        NormalPseudoLikelihood,
    )

__all__ = [
    "BernoulliPseudoLikelihood",
    "CategoricalPseudoLikelihood",
    "ConvexPseudoLikelihood",
    "EpsilonInsensitiveGivenScales",
    "EpsilonInsensitivePseudoLikelihood",
    "GeneralizedInverseGaussian",
    "HingeGivenScale",
    "HingePseudoLikelihood",
    "InverseGaussian",
    "LogisticPseudoLikelihood",
    "NormalPseudoLikelihood",
    "PolyaGamma",
    "polya_gamma_one",
    "reciprocal_inverse_gaussian",
]

_HOME = {
    "BernoulliPseudoLikelihood": "label_pseudo_likelihoods",
    "CategoricalPseudoLikelihood": "label_pseudo_likelihoods",
    "ConvexPseudoLikelihood": "real_pseudo_likelihoods",
    "EpsilonInsensitiveGivenScales": "real_pseudo_likelihoods",
    "EpsilonInsensitivePseudoLikelihood": "real_pseudo_likelihoods",
    "GeneralizedInverseGaussian": "generalized_inverse_gaussian",
    "HingeGivenScale": "label_pseudo_likelihoods",
    "HingePseudoLikelihood": "label_pseudo_likelihoods",
    "InverseGaussian": "inverse_gaussian",
    "LogisticPseudoLikelihood": "label_pseudo_likelihoods",
    "NormalPseudoLikelihood": "real_pseudo_likelihoods",
    "PolyaGamma": "polya_gamma",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; the public names are {__all__}.")
    value = globals()[name] = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value
