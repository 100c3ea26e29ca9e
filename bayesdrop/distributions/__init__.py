"""NumPyro distributions of the augmentations, and two samplers of theirs that do without NumPyro.

The distributions are imported when they are first asked for, and NumPyro with them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .polya_gamma_one import polya_gamma_one
from .reciprocal import reciprocal_inverse_gaussian

if TYPE_CHECKING:
    from .generalized_inverse_gaussian import GeneralizedInverseGaussian
    from .inverse_gaussian import InverseGaussian
    from .polya_gamma import PolyaGamma

__all__ = [
    "GeneralizedInverseGaussian",
    "InverseGaussian",
    "PolyaGamma",
    "polya_gamma_one",
    "reciprocal_inverse_gaussian",
]

_HOME = {
    "GeneralizedInverseGaussian": "generalized_inverse_gaussian",
    "InverseGaussian": "inverse_gaussian",
    "PolyaGamma": "polya_gamma",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; the public names are {__all__}.")
    value = globals()[name] = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return value
