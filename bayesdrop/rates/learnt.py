"""Rates that are learnt, each with a prior such as a Beta: one for all features, one each, or one per group.

The update is that of Zhuo, Zhu & Zhang (2015, eqs 15, 17 and 22), but for a weight of zero, which counts half each way
where (15) as printed gives the rate 0; see :mod:`bayesdrop.fitting.solvers.learning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._validation import check_flag, check_groups, check_instance, check_number, group_index
from ..priors import Beta, RatePrior
from .base import RateMap

__all__ = ["PerFeature", "PerGroup", "Shared"]


@dataclass(frozen=True)
class PerFeature:
    """One learnt rate per feature.

    Parameters
    ----------
    prior : RatePrior, optional
        Prior of each rate.
    start : float, default=0.5
        Rate to start from; the result does not depend on it.
    class_ratio : bool, optional
        Weigh the negative class by ``n₊/n₋`` in the rate update (Zhuo, Zhu & Zhang 2015, section 4.3). By default
        in one-vs-rest problems only.

    See Also
    --------
    PerGroup, Hierarchical, Tuned

    References
    ----------
    Zhuo, Zhu & Zhang (2015), Adaptive dropout rates for learning with corrupted features, IJCAI, eqs 15, 17.

    Examples
    --------
    >>> PerFeature(Beta(1, 1)).bind(["age", "weight"]).size
    2
    """

    prior: RatePrior = field(default_factory=Beta)
    start: float = 0.5
    class_ratio: bool | None = None

    def __post_init__(self) -> None:
        _check_settings(self)

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        p = len(feature_names)
        return RateMap(
            np.arange(p), np.full(p, float(self.start)), list(feature_names), "feature", self.prior, self.class_ratio
        )


@dataclass(frozen=True)
class Shared:
    """One learnt rate for all features.

    Parameters
    ----------
    prior : RatePrior, optional
        Prior of the rate.
    start : float, default=0.5
        Rate to start from; the result does not depend on it.
    class_ratio : bool, optional
        As in :class:`PerFeature`.

    See Also
    --------
    PerGroup, PerFeature

    Examples
    --------
    >>> Shared(Beta(1, 1)).bind(["age", "weight"]).names
    ['all']
    """

    prior: RatePrior = field(default_factory=Beta)
    start: float = 0.5
    class_ratio: bool | None = None

    def __post_init__(self) -> None:
        _check_settings(self)

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        p = len(feature_names)
        index = np.zeros(p, dtype=np.intp)
        return RateMap(index, np.full(p, float(self.start)), ["all"], "group", self.prior, self.class_ratio)


@dataclass(frozen=True)
class PerGroup:
    """One learnt rate per group of features.

    Parameters
    ----------
    groups : sequence of length p, or mapping, optional
        The group of each column in order, or ``{group: [columns]}`` with columns by name or by position. Every column
        belongs to exactly one group. With a formula the default is its terms.
    prior : RatePrior, optional
        Prior of each group's rate.
    start : float, default=0.5
        Rate to start from; the result does not depend on it.
    class_ratio : bool, optional
        As in :class:`PerFeature`.

    See Also
    --------
    PerFeature, Hierarchical, from_formula

    References
    ----------
    Zhuo, Zhu & Zhang (2015), Adaptive dropout rates for learning with corrupted features, IJCAI, eq. 22.

    Examples
    --------
    >>> PerGroup(["body", "body", "blood"]).bind(["age", "weight", "iron"]).names
    ['body', 'blood']
    >>> PerGroup({"body": ["age", "weight"], "blood": ["iron"]}).bind(["age", "weight", "iron"]).index.tolist()
    [0, 0, 1]
    """

    groups: Any = None
    prior: RatePrior = field(default_factory=Beta)
    start: float = 0.5
    class_ratio: bool | None = None

    def __post_init__(self) -> None:
        if self.groups is not None:
            check_groups(self.groups)
        _check_settings(self)

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map onto named columns."""
        p = len(feature_names)
        index, names = group_index(self.groups, feature_names)
        return RateMap(index, np.full(p, float(self.start)), names, "group", self.prior, self.class_ratio)


def _check_settings(rates: Any) -> None:
    check_instance(rates.prior, "prior", RatePrior, "an object such as bd.Beta(1, 1)")
    check_number(rates.start, "start", least=0, below=1, advice="a rate is the probability that a feature is dropped")
    check_flag(rates.class_ratio, "class_ratio", none=True)
