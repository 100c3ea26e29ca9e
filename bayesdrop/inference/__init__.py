"""Inference: minimisers of the marginalised energy and samplers of the posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .em import EM
from .fitting import fit
from .newton import Newton

if TYPE_CHECKING:
    from .gibbs import Gibbs
    from .sampling import sample
    from .variational_bayes import variational
    from .variational_result import NarrowIntervalsWarning, Variational

__all__ = ["EM", "Gibbs", "NarrowIntervalsWarning", "Newton", "Variational", "fit", "sample", "variational"]


def __getattr__(name: str) -> Any:
    # The samplers bring JAX along, which a fit does not need.
    if name == "Gibbs":
        from .gibbs import Gibbs

        return Gibbs
    if name == "sample":
        from .sampling import sample

        return sample
    if name == "variational":
        from .variational_bayes import variational

        return variational
    if name in ("NarrowIntervalsWarning", "Variational"):
        from . import variational_result

        return getattr(variational_result, name)
    raise AttributeError(name)
