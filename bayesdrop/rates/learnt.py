"""Rates that are learnt, each with a prior such as a Beta: one for all features, one each, or one per group.

The update is that of Zhuo, Zhu & Zhang (2015, eqs 15, 17 and 22), but for a weight of zero, which counts half each way
where (15) as printed gives the rate 0; see :mod:`bayesdrop.fitting.rate_update`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._typing import Int
from .._validation import check_flag, check_instance, check_number, refuse_masked, shown
from ..priors import Beta, RatePrior
from .base import RateMap

__all__ = ["PerFeature", "PerGroup", "Shared", "check_groups", "group_index"]


@dataclass(frozen=True)
class PerFeature:
    """One learnt rate per feature.

    Parameters
    ----------
    prior : RatePrior
        Prior of each rate.
    start : float
        Rate to start from; the result does not depend on it.
    class_ratio : bool, optional
        Weigh the negative class by ``n₊/n₋`` in the rate update (Zhuo, Zhu & Zhang 2015, section 4.3). By default
        in one-vs-rest problems only.

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
    prior : RatePrior
        Prior of the rate.
    start : float
        Rate to start from; the result does not depend on it.
    class_ratio : bool, optional
        As in :class:`PerFeature`.

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
    groups : sequence of length p, or mapping
        The group of each column in order, or ``{group: [columns]}`` with columns by name or by position. Every
        column belongs to exactly one group.
    prior : RatePrior
        Prior of each group's rate.
    start : float
        Rate to start from; the result does not depend on it.
    class_ratio : bool, optional
        As in :class:`PerFeature`.

    Examples
    --------
    >>> PerGroup(["body", "body", "blood"]).bind(["age", "weight", "iron"]).names
    ['body', 'blood']
    >>> PerGroup({"body": ["age", "weight"], "blood": ["iron"]}).bind(["age", "weight", "iron"]).index.tolist()
    [0, 0, 1]
    """

    groups: Any
    prior: RatePrior = field(default_factory=Beta)
    start: float = 0.5
    class_ratio: bool | None = None

    def __post_init__(self) -> None:
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


def check_groups(groups: Any) -> None:
    """Raise TypeError unless groups are a sequence of labels or a mapping from group to columns."""
    expected = "one group label per feature, in a list, or a mapping from group to columns"
    if isinstance(groups, str | bytes):
        raise TypeError(f"groups: expected {expected}, got {shown(groups)}.")
    check_instance(groups, "groups", Iterable, expected)
    refuse_masked(groups, "groups")
    if isinstance(groups, Mapping):
        for group, columns in groups.items():
            if not isinstance(columns, Iterable):
                raise TypeError(f"groups: expected the columns of group {group!r} in a list, got {shown(columns)}.")
        return
    if getattr(groups, "ndim", 1) != 1 or not all(isinstance(label, Hashable) for label in groups):
        raise TypeError(f"groups: expected {expected}, got {shown(groups)}.")


def group_index(groups: Any, feature_names: Sequence[str]) -> tuple[Int[np.ndarray, " p"], list[str]]:
    """Read groups as :class:`PerGroup` takes them: group of each feature, int (p,), and the names of the groups."""
    p = len(feature_names)
    labels = _from_mapping(groups, feature_names) if isinstance(groups, Mapping) else list(groups)
    if len(labels) != p:
        raise ValueError(
            f"groups: expected one group label per feature, {p} in all, got {len(labels)}; "
            "give a list as long as X has columns, or a mapping from group to columns."
        )
    names = list(dict.fromkeys(labels))
    position = {name: j for j, name in enumerate(names)}
    return np.array([position[label] for label in labels], dtype=np.intp), [str(name) for name in names]


def _from_mapping(groups: Mapping[Any, Iterable[Any]], feature_names: Sequence[str]) -> list[Any]:
    p = len(feature_names)
    by_name: dict[Any, int] = {name: d for d, name in enumerate(feature_names)}
    labels: list[Any] = [None] * p
    taken = [False] * p
    for group, columns in groups.items():
        for column in [columns] if isinstance(columns, str) else columns:
            d = by_name.get(column)
            if d is None and isinstance(column, int | np.integer) and 0 <= column < p:
                d = int(column)
            if d is None:
                raise ValueError(
                    f"groups: group {group!r} names the unknown column {column!r}; expected one of the {p} features, "
                    f"such as {list(feature_names[:5])}."
                )
            if taken[d]:
                raise ValueError(
                    f"groups: column {feature_names[d]!r} is in group {labels[d]!r} and in group {group!r}; "
                    "put each column in exactly one group."
                )
            labels[d], taken[d] = group, True
    missing = [feature_names[d] for d in range(p) if not taken[d]]
    if missing:
        raise ValueError(
            f"groups: {len(missing)} of {p} columns are in no group, such as {missing[:5]}; "
            "put each column in exactly one group."
        )
    return labels
