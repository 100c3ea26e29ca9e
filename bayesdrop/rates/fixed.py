"""Fixed rates, and rates of the leading columns if the last ones have no noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..priors import Beta
from .base import RateMap, Rates, check_rate

__all__ = ["LEADING", "Fixed", "LeadingRates"]

# Placeholder: fixed rates have no prior.
_PRIOR = Beta()
# Dim of the rates of single features if not every feature has one.
LEADING = "noised_feature"


@dataclass(frozen=True)
class Fixed:
    """Fixed dropout rates.

    Parameters
    ----------
    rate : float, array of shape (p,) or mapping, default=0.5
        Probability that a feature is dropped, in [0, 1). A mapping has rates by the names of columns; the rate of other
        columns is 0.

    See Also
    --------
    Tuned, PerFeature

    Examples
    --------
    >>> Fixed(0.3).bind(["age", "weight"]).initial.tolist()
    [0.3, 0.3]
    >>> Fixed({"weight": 0.2}).bind(["age", "weight"]).initial.tolist()
    [0.0, 0.2]
    """

    rate: Any = 0.5

    def __post_init__(self) -> None:
        if check_rate(self.values, "rate").ndim > 1:
            raise ValueError(f"rate: expected one number or one per feature, got shape {np.shape(self.rate)}.")

    @property
    def values(self) -> Any:
        """Rates without the names of columns."""
        return list(self.rate.values()) if isinstance(self.rate, Mapping) else self.rate

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        p = len(feature_names)
        if isinstance(self.rate, Mapping):
            unknown = sorted(set(self.rate) - set(feature_names), key=str)
            if unknown:
                raise ValueError(
                    f"rate: expected names of columns, got also {unknown}, in bd.Fixed, `rates` or expected_deletion; "
                    f"the columns are {list(feature_names)[:10]}{' …' if p > 10 else ''}."
                )
            rate = np.array([self.rate.get(name, 0.0) for name in feature_names], dtype=np.float64)
        else:
            rate = np.asarray(self.rate, dtype=np.float64)
        if rate.ndim and rate.shape != (p,):
            raise ValueError(
                f"rate: expected one number or {p} of them (one per feature), got shape {rate.shape}, in bd.Fixed, "
                "`rates` or expected_deletion."
            )
        return RateMap(np.zeros(p, dtype=np.intp), np.broadcast_to(rate, (p,)).copy(), [], "feature", _PRIOR)


@dataclass(frozen=True)
class LeadingRates:
    """Rates of the leading columns; the last ones are never dropped.

    ``bd.fit`` and ``bd.sample`` put the columns of random terms, such as ``(1 | site)``, last.

    Parameters
    ----------
    structure : Rates
        Rates of the leading columns, fixed or learnt.
    without : int
        Number of last columns, which have no noise.

    Examples
    --------
    >>> from bayesdrop import PerFeature
    >>> LeadingRates(PerFeature(), 1).bind(["age", "1|site[north]"]).noised.tolist()
    [True, False]
    """

    structure: Any
    without: int

    @property
    def prior(self) -> Any:
        """Prior of the rates; None if they are fixed."""
        return getattr(self.structure, "prior", None)

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        structure: Rates = self.structure
        rate_map = structure.bind(feature_names[: len(feature_names) - self.without])
        return replace(
            rate_map,
            index=np.append(rate_map.index, np.full(self.without, rate_map.size)),
            initial=np.append(rate_map.initial, np.zeros(self.without)),
            dim=LEADING if rate_map.is_free and rate_map.dim == "feature" else rate_map.dim,
        )
