"""Beta prior of a dropout rate, with a strength that may grow with the number of occurrences of a feature.

``Beta(A, B)`` has mode ``μ = (A − 1)/(A + B − 2)`` and strength ``m = A + B − 2``, the number of pseudo-observations
of Zhuo, Zhu & Zhang (2015, eq. 17). With a relative strength ``λ`` the strength is ``m = λ n`` for a feature that
occurs ``n`` times, so the learnt rate is ``(η̂ + λ μ)/(1 + λ)`` for any frequency.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._typing import Float, Num
from .._validation import check_numbers, shown
from .base import check_per_feature
from .rate_prior import BetaLaw, beta_mode

__all__ = ["Beta"]


@dataclass(frozen=True)
class Beta:
    """Beta prior; ``Beta(1, 1)`` is flat.

    Parameters
    ----------
    a, b : float or array, default=1.0
        Shape parameters, above 0; an array holds one value per rate.
    a_per_count, b_per_count : float or array, default=0.0
        Increase of ``a`` and ``b`` per (weighted) occurrence of the feature; see ``from_mode``.

    See Also
    --------
    PerFeature, Hierarchical, log_prior

    Examples
    --------
    >>> Beta(2, 4).mode, Beta(2, 4).strength
    (0.25, 4)
    >>> Beta.from_mode(0.25, strength=4)
    Beta(a=2.0, b=4.0)
    """

    a: Any = 1.0
    b: Any = 1.0
    a_per_count: Any = 0.0
    b_per_count: Any = 0.0

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            check_per_feature(getattr(self, name), f"Beta {name}", above=0, advice="flat is Beta(1, 1)")
        for name in ("a_per_count", "b_per_count"):
            check_per_feature(getattr(self, name), f"Beta {name}", least=0)

    def __repr__(self) -> str:
        tail = f", a_per_count={self.a_per_count}, b_per_count={self.b_per_count}" if self.relative else ""
        return f"Beta(a={self.a}, b={self.b}{tail})"

    @classmethod
    def from_mode(cls, mode: Any, strength: Any = None, *, relative_strength: Any = None) -> Beta:
        """Build the prior from its mode and its strength.

        Parameters
        ----------
        mode : float or array in [0, 1]
            Most likely rate.
        strength : float or array >= 0, optional
            Number of pseudo-observations; 0 is flat.
        relative_strength : float or array >= 0, optional
            Strength as a multiple ``λ`` of the number of occurrences of the feature.
        """
        if (strength is None) == (relative_strength is None):
            raise ValueError(
                "from_mode: expected exactly one of strength and relative_strength, got "
                f"strength={shown(strength)} and relative_strength={shown(relative_strength)}."
            )
        centre = check_numbers(mode, "mode", "rates in [0, 1]", least=0, most=1)
        name, amount = ("strength", strength) if relative_strength is None else ("relative_strength", relative_strength)
        size = check_numbers(amount, name, least=0)
        try:
            np.broadcast_shapes(centre.shape, size.shape)
        except ValueError:
            raise ValueError(f"mode, {name}: expected one shape, got {centre.shape} and {size.shape}.") from None
        up, down = _plain(centre * size), _plain((1 - centre) * size)
        if relative_strength is None:
            return cls(_plain(1 + np.asarray(up)), _plain(1 + np.asarray(down)))
        return cls(1.0, 1.0, up, down)

    def scaled(self, strength: float) -> Beta:
        """Prior that multiplies the learnt rates by ``strength``, in (0, 1], if this prior is flat.

        It adds ``1/strength − 1`` kept entries to each occurrence, a relative strength with mode 0.

        Examples
        --------
        >>> Beta().scaled(0.25) == Beta.from_mode(0, relative_strength=3.0)
        True
        """
        return replace(self, b_per_count=_plain(np.asarray(self.b_per_count) + (1 / strength - 1)))

    @property
    def relative(self) -> bool:
        """True if the strength depends on the number of occurrences of a feature."""
        return bool(np.any(self.a_per_count) or np.any(self.b_per_count))

    def law(self, occurrences: Num[np.ndarray, "*law"]) -> BetaLaw:
        """Beta distributions of rates, given the weighted ``occurrences`` (k, ...) of their features; same shape."""
        count = np.asarray(occurrences, dtype=float)
        a, b, more_a, more_b = (
            _spread_over_rates(value, count.shape) for value in (self.a, self.b, self.a_per_count, self.b_per_count)
        )
        parts = (constant + more * count if np.any(more) else constant for constant, more in ((a, more_a), (b, more_b)))
        return BetaLaw(*(np.broadcast_to(part, count.shape) for part in parts))

    @property
    def mode(self) -> Any:
        """Most likely rate, 1/2 for a flat prior; for a relative strength that of a single occurrence."""
        if not self.relative:
            return _plain(beta_mode(np.asarray(self.a, float), np.asarray(self.b, float)))
        once = np.broadcast_shapes(*map(np.shape, (self.a, self.b, self.a_per_count, self.b_per_count)))
        return _plain(beta_mode(*self.law(np.ones(once))))

    @property
    def strength(self) -> Any:
        """Number of pseudo-observations ``A + B − 2`` that do not depend on the data."""
        return _plain(np.asarray(self.a) + np.asarray(self.b) - 2)


def _plain(value: Any) -> Any:
    value = np.asarray(value)
    return value.item() if value.ndim == 0 else value


def _spread_over_rates(value: Any, shape: tuple[int, ...]) -> Float[np.ndarray, "*law"]:
    """Broadcast a setting, one number or one per rate, to counts of ``shape`` (k, ...).

    Raises
    ------
    ValueError
        If the setting has another number of rates.
    """
    array = np.asarray(value, dtype=float)
    if not array.ndim:
        return array
    if array.shape[0] != shape[0]:
        raise ValueError(
            f"Beta: expected one value per rate, {shape[0]} in all, got {array.shape[0]}; "
            "give a single number or one for each feature (or group)."
        )
    return array.reshape(array.shape + (1,) * (len(shape) - array.ndim))
