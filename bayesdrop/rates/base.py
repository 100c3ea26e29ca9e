"""Define the interface of a rate structure: an index map from features to free rates, and a prior.

``Fixed`` has no free rate, ``Shared`` one, ``PerGroup`` one per group and ``PerFeature`` one per feature. Bound to
the columns of a matrix, every structure becomes a :class:`RateMap`, which is all that solvers and samplers use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._typing import Bool, Float, Int, Num
from .._validation import check_numbers, shown
from ..priors import Beta, Gamma, RatePrior

__all__ = ["Hierarchy", "RateMap", "Rates", "check_rate"]


@dataclass(frozen=True)
class Hierarchy:
    """Groups whose rates share an unknown Beta prior, ``η_d ~ Beta(μ_j s_j, (1 − μ_j) s_j)``.

    Attributes
    ----------
    index : int array (p,)
        Group of each free rate.
    names : list of str
        Names of the ``g`` groups.
    mean_prior : Beta
        Prior of each ``μ_j``.
    strength_prior : Gamma
        Prior of each ``s_j``, a number of pseudo-observations.
    """

    index: Int[np.ndarray, " p"]
    names: list[str]
    mean_prior: Beta
    strength_prior: Gamma

    def constants(self) -> dict[str, Any]:
        """Priors as a posterior stores them: dims and values by name."""
        a, b = self.mean_prior.law(np.zeros(len(self.names)))
        return {
            "group_rate_prior_a": ("group", a),
            "group_rate_prior_b": ("group", b),
            "group_strength_prior_shape": ((), self.strength_prior.shape),
            "group_strength_prior_scale": ((), self.strength_prior.scale),
        }


@dataclass(frozen=True)
class RateMap:
    """Features mapped to free rates.

    Attributes
    ----------
    index : int array (p,)
        Free rate of each feature; ``k``, one beyond the last, for a feature without noise.
    initial : array (p,)
        Starting rates, or the fixed rates.
    names : list of str
        Names of the ``k`` free rates; empty if the rates are fixed.
    dim : str
        Name of their axis in results: ``"feature"``, or ``"group"``.
    prior : RatePrior
        Prior of each free rate.
    class_ratio : bool or None
        Whether the rate update weighs the negative class by ``n₊/n₋``; None: only in one-vs-rest problems.
    hierarchy : Hierarchy or None
        Groups of rates whose prior is unknown; ``prior`` then raises an error if its numbers are requested.
    """

    index: Int[np.ndarray, " p"]
    initial: Float[np.ndarray, " p"]
    names: list[str]
    dim: str
    prior: RatePrior
    class_ratio: bool | None = None
    hierarchy: Hierarchy | None = None

    @property
    def size(self) -> int:
        """Number ``k`` of free rates."""
        return len(self.names)

    @property
    def is_free(self) -> bool:
        """True if there are rates to learn."""
        return self.size > 0

    @property
    def noised(self) -> Bool[np.ndarray, " p"]:
        """Whether the noise may drop each feature."""
        return self.index < self.size if self.is_free else self.initial > 0

    def expand(self, theta: Num[np.ndarray, "k ..."]) -> Num[np.ndarray, "p ..."]:
        """Rates per feature, (p,) or (p, K), from the free rates (k,) or (k, K)."""
        expanded: np.ndarray = np.concatenate([theta, np.zeros_like(theta, shape=(1, *theta.shape[1:]))])[self.index]
        return expanded

    def collapse(self, per_feature: Num[np.ndarray, "p K"]) -> Num[np.ndarray, "k K"]:
        """Sum over the features of each free rate: (p, K) to (k, K)."""
        if self.dim == "feature":
            return np.asarray(per_feature)
        return np.stack(
            [
                np.bincount(self.index, weights=column, minlength=self.size)[: self.size]
                for column in np.transpose(per_feature)
            ],
            axis=-1,
        )

    def mean(self, rate: Num[np.ndarray, "p K"]) -> Num[np.ndarray, "p K"]:
        """Each rate (p, K) replaced by the mean over the features that share its free rate.

        Examples
        --------
        >>> shared = RateMap(np.array([0, 0, 1]), np.zeros(3), ["a", "b"], "group", Beta())
        >>> shared.mean(np.array([[0.1], [0.3], [0.5]])).ravel().tolist()
        [0.2, 0.2, 0.5]
        """
        size = np.bincount(self.index, minlength=self.size)[: self.size, None]
        if self.dim == "feature":
            size = np.ones_like(size)
        return self.expand(self.collapse(rate) / np.maximum(size, 1))


@runtime_checkable
class Rates(Protocol):
    """Protocol of a rate structure."""

    def bind(self, feature_names: Sequence[str]) -> RateMap:
        """Map the named columns to free rates; raise ValueError if they do not fit."""


def check_rate(value: Any, name: str) -> np.ndarray:
    """Return ``value`` as an array of rates in [0, 1), or raise ValueError."""
    rate = check_numbers(value, name, "a number in [0, 1)")
    if not (np.all(rate >= 0) and np.all(rate < 1)):
        raise ValueError(
            f"{name}: expected dropout rates in [0, 1), got {shown(value)}; a rate is the probability that a feature "
            "is dropped, and a feature that is always dropped should be left out."
        )
    return rate
