r"""Inverse gamma prior of a noise variance.

    p(σ²) = b^a / Γ(a) · (σ²)^{−a−1} exp(−b/σ²)

It is conjugate to the variance of normal noise: with ``n`` residuals the posterior has ``a + n/2`` and half their sum
of squares more on ``b``.
"""

from __future__ import annotations

from dataclasses import dataclass

from .base import check_positive

__all__ = ["InverseGamma"]


@dataclass(frozen=True)
class InverseGamma:
    """Inverse gamma prior of a variance; worth ``2a`` observations whose mean square is ``b/a``.

    Parameters
    ----------
    shape, scale : float
        ``a`` and ``b``, above 0; ``b`` in squared units of the response. The mean is ``b/(a − 1)`` for ``a > 1``.

    Examples
    --------
    >>> InverseGamma(2.0, 3.0).mode
    1.0
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        check_positive("InverseGamma", shape=self.shape, scale=self.scale)

    @property
    def mode(self) -> float:
        """Most likely variance, ``b/(a + 1)``."""
        return float(self.scale / (self.shape + 1))
