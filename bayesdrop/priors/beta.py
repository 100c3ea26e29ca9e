"""Beta prior of a dropout rate, with a strength that may grow with how often a feature occurs.

``Beta(A, B)`` has mode ``μ = (A − 1)/(A + B − 2)`` and strength ``m = A + B − 2``, the number of pseudo-observations
of Zhuo, Zhu & Zhang (2015, eq. 17). With a relative strength ``λ`` the strength is ``m = λ n`` for a feature that
occurs ``n`` times, so that the learnt rate is ``(η̂ + λ μ)/(1 + λ)`` whatever its frequency.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Beta"]

Array = Any

# Largest log ratio of two densities that a step is taken by, ratio at which they are equal, and most steps.
_STEEP, _EQUAL, _STEPS = 30.0, 1e-9, 60


@dataclass(frozen=True)
class Beta:
    """Beta prior; ``Beta(1, 1)`` is flat.

    Parameters
    ----------
    a, b : float or array
        Shape parameters, above 0; an array holds one value per rate.
    a_per_count, b_per_count : float or array
        What each (weighted) occurrence of the feature adds to ``a`` and ``b``; see ``from_mode``.

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
            value = np.asarray(getattr(self, name), dtype=float)
            if not (np.all(np.isfinite(value)) and np.all(value > 0)):
                raise ValueError(
                    f"Beta {name}: expected finite numbers above 0, got {getattr(self, name)!r}; flat is Beta(1, 1)."
                )
        for name in ("a_per_count", "b_per_count"):
            value = np.asarray(getattr(self, name), dtype=float)
            if not (np.all(np.isfinite(value)) and np.all(value >= 0)):
                raise ValueError(f"Beta {name}: expected finite numbers >= 0, got {getattr(self, name)!r}.")

    def __repr__(self) -> str:
        relative = np.any(self.a_per_count) or np.any(self.b_per_count)
        tail = f", a_per_count={self.a_per_count}, b_per_count={self.b_per_count}" if relative else ""
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
            Strength as a multiple ``λ`` of the number of times that the feature occurs.
        """
        if (strength is None) == (relative_strength is None):
            raise ValueError(
                "from_mode: expected exactly one of strength and relative_strength, got "
                f"strength={strength!r} and relative_strength={relative_strength!r}."
            )
        centre = np.asarray(mode, dtype=float)
        if not (np.all(centre >= 0) and np.all(centre <= 1)):
            raise ValueError(f"mode: expected rates in [0, 1], got {mode!r}.")
        size = np.asarray(strength if relative_strength is None else relative_strength, dtype=float)
        if not (np.all(np.isfinite(size)) and np.all(size >= 0)):
            raise ValueError(f"strength: expected finite numbers >= 0, got {size!r}.")
        up, down = _plain(centre * size), _plain((1 - centre) * size)
        if relative_strength is None:
            return cls(_plain(1 + np.asarray(up)), _plain(1 + np.asarray(down)))
        return cls(1.0, 1.0, up, down)

    def concentrations(self, count: Array) -> tuple[Array, Array]:
        """Shape parameters ``(A, B)`` of rates that apply ``count`` times; both shaped like ``count``."""
        count = np.asarray(count, dtype=float)
        shape = np.shape(count)

        def align(value: Any) -> Array:
            value = np.asarray(value, dtype=float)
            if value.ndim and value.shape[0] != shape[0]:
                raise ValueError(
                    f"Beta: expected one value per rate, {shape[0]} in all, got {value.shape[0]}; "
                    "give a single number or one for each feature (or group)."
                )
            return value.reshape(value.shape + (1,) * (len(shape) - value.ndim)) if value.ndim else value

        first = align(self.a) + align(self.a_per_count) * count
        second = align(self.b) + align(self.b_per_count) * count
        return np.broadcast_to(first, shape), np.broadcast_to(second, shape)

    @property
    def mode(self) -> Any:
        """Most likely rate, 1/2 for a flat prior."""
        relative = np.any(self.a_per_count) or np.any(self.b_per_count)
        return (
            _plain(beta_mode(*self.concentrations(np.ones(np.shape(self.a) or ()))))
            if relative
            else _plain(beta_mode(np.asarray(self.a, float), np.asarray(self.b, float)))
        )

    @property
    def strength(self) -> Any:
        """Number of pseudo-observations ``A + B − 2`` that do not depend on the data."""
        return self.a + self.b - 2


def beta_mode(a: Array, b: Array) -> Array:
    """Mode of ``Beta(a, b)``; 1/2 where it is flat or has two modes at the ends.

    Examples
    --------
    >>> beta_mode(np.array([1.0, 1.0, 3.0]), np.array([1.0, 3.0, 3.0])).tolist()
    [0.5, 0.0, 0.5]
    """
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    up, down = np.maximum(a - 1, 0.0), np.maximum(b - 1, 0.0)
    total = up + down
    flat = np.where(a == b, 0.5, (a > b).astype(float))  # both at most 1: the end with the larger shape wins
    return np.where(total > 0, up / np.where(total > 0, total, 1.0), flat)


def highest_density(a: Array, b: Array, probability: float) -> tuple[Array, Array]:
    """Shortest interval of ``Beta(a, b)`` that holds ``probability`` and :func:`beta_mode`; shaped like ``a``.

    With both shapes above 1 the densities at its two ends are equal. A density that only falls or only rises has it at
    one end of [0, 1], and so has one with a pole at each end, where the larger shape is. A flat law and one that is
    symmetric with two poles have the central interval.

    Examples
    --------
    >>> [round(float(end), 3) for end in highest_density(1.0, 3.0, 0.9)]
    [0.0, 0.536]
    """
    from scipy.special import betaincinv

    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    rest, mode = 1 - probability, beta_mode(a, b)
    # Probability below the interval.
    below = np.where(a > b, rest, np.where(a < b, 0.0, rest / 2))
    inside = (a > 1) & (b > 1)
    if np.any(inside):
        below = below.copy()
        below[inside] = _level(a[inside], b[inside], probability)
    low, high = betaincinv(a, b, below), betaincinv(a, b, np.minimum(below + probability, 1.0))
    # Rounding must not leave the mode outside.
    return np.minimum(low, mode), np.maximum(high, mode)


def _level(a: Array, b: Array, probability: float) -> Array:
    """Probability below the interval whose ends have one density, by regula falsi with the Illinois rule."""
    from scipy.special import betaincinv, xlog1py, xlogy

    def excess(live: Array, below: Array) -> Array:
        """Log density at the lower end minus that at the upper one, within what a step can use; it rises."""
        up, down = a[live], b[live]
        ends = betaincinv(up, down, below), betaincinv(up, down, np.minimum(below + probability, 1.0))
        lower, upper = (xlogy(up - 1, x) + xlog1py(down - 1, -x) for x in ends)
        return np.clip(lower - upper, -_STEEP, _STEEP)

    live = np.arange(len(a))
    low, high = np.zeros_like(a), np.full_like(a, 1 - probability)
    at_low, at_high = np.full_like(a, -_STEEP), np.full_like(a, _STEEP)
    found = 0.5 * (low + high)
    for step in range(_STEPS):
        best = low - at_low * (high - low) / (at_high - at_low) if step % 3 else 0.5 * (low + high)
        here = excess(live, best)
        found[live] = best
        up = here > 0
        # The end that stays counts half, so that it moves at the next step.
        at_low, at_high = np.where(up, 0.5 * at_low, here), np.where(up, here, 0.5 * at_high)
        low, high = np.where(up, low, best), np.where(up, best, high)
        more = np.abs(here) >= _EQUAL
        if not np.any(more):
            break
        live, low, high, at_low, at_high = (part[more] for part in (live, low, high, at_low, at_high))
    return found


def _plain(value: Any) -> Any:
    value = np.asarray(value)
    return value.item() if value.ndim == 0 else value
