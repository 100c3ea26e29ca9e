"""Inference: minimisers of the marginalised energy and samplers of the posterior."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .em import EM
from .fitting import fit
from .newton import Newton

if TYPE_CHECKING:
    from .gibbs import Gibbs
    from .hmc import HMC
    from .kernel import NumpyroKernel
    from .nuts import NUTS
    from .sampling import sample
    from .variational_bayes import variational
    from .variational_result import NarrowIntervalsWarning, Variational
    from .weights_block import WeightsBlock

__all__ = [
    "EM",
    "HMC",
    "NUTS",
    "Gibbs",
    "NarrowIntervalsWarning",
    "Newton",
    "NumpyroKernel",
    "Variational",
    "WeightsBlock",
    "fit",
    "sample",
    "variational",
]

# The samplers bring JAX along, which a fit does not need.
_HOME = {
    "Gibbs": "gibbs",
    "HMC": "hmc",
    "NUTS": "nuts",
    "NarrowIntervalsWarning": "variational_result",
    "NumpyroKernel": "kernel",
    "Variational": "variational_result",
    "WeightsBlock": "weights_block",
    "sample": "sampling",
    "variational": "variational_bayes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(name)
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
