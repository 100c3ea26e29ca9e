"""Inference: minimisers of the marginalised energy and samplers of the posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .em import EM
from .fitting import fit
from .newton import Newton

if TYPE_CHECKING:
    from .gibbs import Gibbs
    from .sampling import sample

__all__ = ["EM", "Gibbs", "Newton", "fit", "sample"]


def __getattr__(name: str) -> Any:
    # The samplers bring JAX along, which a fit does not need.
    if name == "Gibbs":
        from .gibbs import Gibbs

        return Gibbs
    if name == "sample":
        from .sampling import sample

        return sample
    raise AttributeError(name)
