r"""Gamma prior of a number above 0, such as a strength in pseudo-observations.

p(s) = s^{a−1} exp(−s/b) / (Γ(a) b^a)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Gamma"]


@dataclass(frozen=True)
class Gamma:
    """Gamma prior.

    Parameters
    ----------
    shape, scale : float
        ``a`` and ``b``, above 0; the mean is ``ab`` and the standard deviation ``b√a``.

    Examples
    --------
    >>> Gamma(2.0, 10.0).mean
    20.0
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        for name in ("shape", "scale"):
            value = getattr(self, name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not (number and np.isfinite(value) and value > 0):
                raise ValueError(f"Gamma {name}: expected a finite number above 0, got {value!r}.")

    @property
    def mean(self) -> float:
        """Mean, ``ab``."""
        return float(self.shape * self.scale)
