"""Laws of rates, rebuilt from the constants in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._typing import Num
from .rate_prior import RateLaw, RatePrior

__all__ = ["stored_law", "stored_update"]

_COUNTS = ("dropped", "kept")


def stored_law(constants: Mapping[str, Num[np.ndarray, "*law"]]) -> RateLaw | None:
    """The law whose ``constants`` these are; None if there is none, or of a prior of the user's own.

    Examples
    --------
    >>> stored_law({"a": np.array([1.0]), "b": np.array([3.0])}).a.tolist(), stored_law({})
    ([1.0], None)
    """
    from .. import priors

    for name in priors.__all__:
        prior = getattr(priors, name)
        if prior is not RatePrior and hasattr(prior, "stored_law"):
            law: RateLaw | None = prior.stored_law(constants)
            if law is not None:
                return law
    return None


def stored_update(constants: Mapping[str, Num[np.ndarray, "*law"]]) -> Any:
    """The law given counts, an ``UpdatedRateLaw``, whose ``constants`` these are; None as of :func:`stored_law`.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> prior = bd.LogitNormal(0.0, 1.0).law(np.ones(1))
    >>> found = stored_update(prior.given(np.array([2.0]), np.array([5.0])).constants())
    >>> found.dropped.tolist(), found.kept.tolist()
    ([2.0], [3.0])
    """
    rest = {name: value for name, value in constants.items() if name not in _COUNTS}
    law = stored_law(rest)
    if law is None or len(rest) == len(constants):
        return law
    dropped, kept = (constants[name] for name in _COUNTS)
    return law.given(dropped, dropped + kept)
