r"""Laplace (double exponential) prior of the weights, the Bayesian lasso.

    p(w) = exp(−|w|/b) / (2b) = ∫ N(w; 0, τ²) exp{−τ²/(2b²)} / (2b²) dτ²

(Andrews & Mallows 1974; Park & Casella 2008, eq. 4, at a fixed scale ``b = 1/λ`` and unit noise variance). Given the
weight, ``1/τ²`` is inverse Gaussian with mean ``1/(b|w|)`` and shape ``1/b²`` (Park & Casella 2008, section 2); that is
``τ² = b² r`` with ``r ~ GIG(½, 1, (w/b)²)``; the code draws ``r``, which is regular at ``w = 0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._typing import AnyArray, Float
from .base import ScaleMixture, check_per_feature, spread_scale

__all__ = ["Laplace"]


class LaplaceScales(NamedTuple):
    """Hyperparameters of the chains: ``scale`` (C, p)."""

    scale: Float[AnyArray, "C p"]


@dataclass(frozen=True)
class Laplace(ScaleMixture):
    """Laplace prior with mean 0: many weights near 0, a few far from it.

    The mode of its posterior is the lasso, which ``bd.fit`` finds, with weights that are exactly zero; ``bd.sample``
    draws from the posterior.

    Parameters
    ----------
    scale : float or array of shape (p,), default=1.0
        Mean of ``|w|``, above 0; one per feature if an array. The standard deviation is ``√2`` times the scale.

    See Also
    --------
    Normal, Horseshoe

    References
    ----------
    Park & Casella (2008), The Bayesian lasso, JASA 103.

    Examples
    --------
    >>> Laplace(0.5).first_precision(2).tolist()
    [2.0, 2.0]
    >>> float(Laplace(0.5).log_density(np.array([1.0, -2.0])))
    -6.0
    """

    scale: Any = 1.0
    has_mean: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_per_feature(self.scale, "Laplace scale", above=0)

    def check(self, n_features: int) -> None:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        spread_scale(self.scale, n_features, "Laplace")

    def first_precision(self, n_features: int) -> np.ndarray:
        """One over the variance ``2b²``, (p,)."""
        return 0.5 / spread_scale(self.scale, n_features, "Laplace") ** 2

    def absolute_penalty(self, n_features: int) -> np.ndarray:
        """``1/b`` (p,); see :class:`bayesdrop.priors.WeightPrior`."""
        return 1 / spread_scale(self.scale, n_features, "Laplace")

    def constants(self, n_features: int) -> dict[str, Any]:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        return {"weight_scale": ("feature", spread_scale(self.scale, n_features, "Laplace"))}

    def init(self, key: Any, chains: int, p: int, dtype: Any) -> LaplaceScales:
        """Known scales; see :class:`bayesdrop.priors.WeightPrior`."""
        import jax.numpy as jnp

        scale = jnp.asarray(spread_scale(self.scale, p, "Laplace"), dtype)
        return LaplaceScales(jnp.broadcast_to(scale[None], (chains, p)))

    @staticmethod
    def sample_precision(
        key: Any, weight: Float[AnyArray, "C p"], aux: LaplaceScales
    ) -> tuple[Float[AnyArray, "C p"], LaplaceScales]:
        """Draw ``1/τ²`` given the weights; see :class:`bayesdrop.priors.WeightPrior`.

        ``τ/b`` is kept above one unit of round-off (1.2e-7 in single precision), which rounds off the peak of the
        prior within that distance of 0.
        """
        import jax.numpy as jnp

        from ..distributions import reciprocal_inverse_gaussian

        variance = reciprocal_inverse_gaussian(key, jnp.abs(weight) / aux.scale)
        floor = float(jnp.finfo(weight.dtype).eps) ** 2
        return 1 / (aux.scale * aux.scale * jnp.maximum(variance, floor)), aux

    def n_scales(self, n_features: int) -> int:
        """One for each weight; see :class:`bayesdrop.priors.base.NonCentred`."""
        return n_features

    @staticmethod
    def scales_of(
        normal: Float[AnyArray, "C p"], aux: LaplaceScales
    ) -> tuple[Float[AnyArray, "C p"], dict[str, Float[AnyArray, " C"]]]:
        """``τ = b √(−2 log Φ(−s))``, as ``τ²/2b²`` is exponential; see :class:`bayesdrop.priors.base.NonCentred`."""
        import jax.numpy as jnp
        from jax.scipy.special import log_ndtr, ndtr

        # log Φ(−s) near 0, for negative s, loses digits; log1p(−Φ(s)) keeps them.
        below = jnp.log1p(-ndtr(jnp.minimum(normal, 0)))
        return aux.scale * jnp.sqrt(-2 * jnp.where(normal < 0, below, log_ndtr(-jnp.maximum(normal, 0)))), {}

    @staticmethod
    def log_scale_density(precision: Float[AnyArray, "C p"], aux: LaplaceScales) -> Float[AnyArray, " C"]:
        """``−Σ τ²/2b²``, the density of the ``τ²``; see :class:`bayesdrop.priors.WeightPrior`."""
        return -0.5 * (1 / (precision * aux.scale * aux.scale)).sum(axis=1)

    def sample_weight(
        self, generator: np.random.Generator, draws: int, n_features: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Draw weights (draws, p); see :class:`bayesdrop.priors.WeightPrior`."""
        scale = spread_scale(self.scale, n_features, "Laplace")
        return generator.laplace(scale=scale, size=(draws, n_features)), {}

    def log_density(self, weight: Float[AnyArray, "*batch p"]) -> Float[AnyArray, "*batch"]:
        """``−Σ|w|/b``: weights (..., p) to (...)."""
        scale = np.asarray(spread_scale(self.scale, weight.shape[-1], "Laplace"), weight.dtype)
        return -(abs(weight) / scale.reshape((1,) * (weight.ndim - 1) + scale.shape)).sum(axis=-1)
