"""The prior law of the rates among the constants of a posterior: under names that the prior gives, and reads again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...priors.rate_prior import RateLaw
from ...priors.stored import stored_law

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["rate_prior_constants", "read_rate_prior"]

_PREFIX = "rate_prior_"


def rate_prior_constants(law: RateLaw, dim: str) -> dict[str, Any]:
    """Dims and values by name, to be stored with draws of rates on the axis ``dim``.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesdrop as bd
    >>> rate_prior_constants(bd.Beta(1.0, 3.0).law(np.zeros(1)), "feature")["rate_prior_b"]
    ('feature', array([3.]))
    """
    return {f"{_PREFIX}{name}": (dim, value) for name, value in law.constants().items()}


def read_rate_prior(constant: xr.Dataset) -> RateLaw | None:
    """The law that :func:`rate_prior_constants` stored; None if there is none, or of a prior of the user's own."""
    parts = {str(name)[len(_PREFIX) :]: constant[name].values for name in constant if str(name).startswith(_PREFIX)}
    return stored_law(parts)
