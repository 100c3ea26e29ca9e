r"""Gamma prior of a number above 0, such as a strength in pseudo-observations.

p(s) = s^{a−1} exp(−s/b) / (Γ(a) b^a)
"""

from __future__ import annotations

from dataclasses import dataclass

from .base import check_positive

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
        check_positive("Gamma", shape=self.shape, scale=self.scale)

    @property
    def mean(self) -> float:
        """Mean, ``ab``."""
        return float(self.shape * self.scale)
