"""Rates that are given, not learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..priors import Beta
from .base import RateMap, check_rate

__all__ = ["Fixed"]

# Of no rate at all, so that it does not matter which.
_PRIOR = Beta()


@dataclass(frozen=True)
class Fixed:
    """Fixed dropout rates.

    Parameters
    ----------
    rate : float or array of shape (p,), default=0.5
        Probability that a feature is dropped, in [0, 1).

    See Also
    --------
    Tuned, PerFeature

    Examples
    --------
    >>> Fixed(0.3).bind(["age", "weight"]).initial.tolist()
    [0.3, 0.3]
    """

    rate: Any = 0.5

    def __post_init__(self) -> None:
        if check_rate(self.rate, "rate").ndim > 1:
            raise ValueError(f"rate: expected one number or one per feature, got shape {np.shape(self.rate)}.")

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        p = len(feature_names)
        rate = np.asarray(self.rate, dtype=np.float64)
        if rate.ndim and rate.shape != (p,):
            raise ValueError(
                f"rate: expected one number or {p} of them (one per feature), got shape {rate.shape}, in bd.Fixed or "
                "`rates`."
            )
        return RateMap(np.zeros(p, dtype=np.intp), np.broadcast_to(rate, (p,)).copy(), [], "feature", _PRIOR)
