r"""Horseshoe prior of the weights (Carvalho, Polson & Scott 2010).

    w_d | λ_d, τ ~ N(0, λ_d² τ²),      λ_d ~ C⁺(0, 1),      τ ~ C⁺(0, scale)

A half-Cauchy scale is a mixture of inverse gamma variances, ``λ² | ν ~ IG(½, 1/ν)`` with ``ν ~ IG(½, 1)``, so that all
conditionals are inverse gamma (Makalic & Schmidt 2016, eqs 3-8, at unit noise variance):

    λ_d² | · ~ IG(1, 1/ν_d + w_d²/2τ²)             ν_d | · ~ IG(1, 1 + 1/λ_d²)
    τ²   | · ~ IG((p+1)/2, 1/ξ + Σ w_d²/2λ_d²)     ξ   | · ~ IG(1, 1/scale² + 1/τ²)

These draws cost little compared with those of the weights and are repeated several times per sweep to reduce the
autocorrelation of the scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._typing import AnyArray, Float
from .._validation import shown
from .base import ScaleMixture, check_per_feature

__all__ = ["Horseshoe"]

# Number of passes over the scales given the weights.
_ROUNDS = 5


class HorseshoeScales(NamedTuple):
    """Latent scales of the chains.

    Attributes
    ----------
    local, local_mixing : array (C, p)
        ``λ²`` and ``ν``.
    shared, shared_mixing : array (C,)
        ``τ²`` and ``ξ``, both over ``scale²``.
    scale : array (C,)
        Median of ``τ``.
    """

    local: Float[AnyArray, "C p"]
    local_mixing: Float[AnyArray, "C p"]
    shared: Float[AnyArray, " C"]
    shared_mixing: Float[AnyArray, " C"]
    scale: Float[AnyArray, " C"]


@dataclass(frozen=True)
class Horseshoe(ScaleMixture):
    """Horseshoe prior: most weights are shrunk to almost zero, and a few hardly at all.

    ``bd.sample`` stores the global scale ``τ`` as ``global_scale``. The tails are those of a Cauchy distribution:
    weights that the data do not bound (few rows, a feature that never occurs) have no posterior mean. If the features
    separate two classes and the prior of the intercept is flat, the posterior is improper, and ``bd.sample`` raises an
    error; see :mod:`bayesdrop.sampling.propriety`. For such data use ``bd.Laplace`` or ``fit_intercept=False``.

    Parameters
    ----------
    scale : float, default=1.0
        Median of the global scale, above 0. If about ``p₀`` of ``p`` weights of standardised features should matter,
        ``p₀/(p − p₀) · σ/√n`` for ``n`` rows and residual standard deviation ``σ`` is a good guess (Piironen & Vehtari
        2017).

    See Also
    --------
    Normal, Laplace

    References
    ----------
    - Carvalho, Polson & Scott (2010), The horseshoe estimator for sparse signals, Biometrika 97.
    - Makalic & Schmidt (2016), A simple sampler for the horseshoe estimator, IEEE Signal Processing Letters 23.

    Examples
    --------
    >>> Horseshoe(0.1)
    Horseshoe(scale=0.1)
    >>> Horseshoe(0.5).first_precision(2).tolist()
    [4.0, 4.0]
    """

    scale: float = 1.0
    has_mean: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_per_feature(self.scale, "Horseshoe scale", above=0)
        if np.ndim(self.scale):
            raise ValueError(
                f"Horseshoe scale: expected one number, for all features share it, got {shown(self.scale)}."
            )

    def check(self, n_features: int) -> None:
        """Accept any number of features."""

    def precision(self, n_features: int) -> np.ndarray:
        """Raise ValueError: the precisions are not known, and the density of the weights has a pole at 0."""
        raise ValueError(
            f"weight_prior: the density of {self!r} is infinite at 0, so that a point fit would have all weights zero "
            "whatever the data, and its scales are unknown, which bd.sample draws; take bd.Laplace(...) in a point fit "
            "for weights that are exactly zero, or bd.Normal(...)."
        )

    def first_precision(self, n_features: int) -> np.ndarray:
        """Precision at the medians of all scales, (p,)."""
        return np.full(n_features, float(self.scale) ** -2)

    def constants(self, n_features: int) -> dict[str, Any]:
        """See :class:`bayesdrop.priors.WeightPrior`."""
        return {"global_scale_median": ((), float(self.scale))}

    def init(self, key: Any, chains: int, p: int, dtype: Any) -> HorseshoeScales:
        """All scales at their median; see :class:`bayesdrop.priors.WeightPrior`."""
        import jax.numpy as jnp

        local, shared = jnp.ones((chains, p), dtype), jnp.ones(chains, dtype)
        return HorseshoeScales(local, local, shared, shared, jnp.full(chains, self.scale, dtype))

    @staticmethod
    def sample_precision(
        key: Any, weight: Float[AnyArray, "C p"], aux: HorseshoeScales
    ) -> tuple[Float[AnyArray, "C p"], HorseshoeScales]:
        """Draw all scales given the weights; see :class:`bayesdrop.priors.WeightPrior`.

        Every ``λ``, and ``τ`` in units of ``scale``, is kept between one unit of round-off and its inverse (1.2e-7 and
        8.4e6 in single precision). A half-Cauchy variable lies outside with probability 1.5e-7.
        """
        import jax
        import jax.numpy as jnp

        floor = float(jnp.finfo(weight.dtype).eps) ** 2
        half = 0.5 * jnp.square(weight / aux.scale[:, None])

        def inverse_gamma(key: Any, scale: Float[AnyArray, "C ..."], shape: float) -> Float[AnyArray, "C ..."]:
            gamma = (
                jax.random.exponential(key, scale.shape, scale.dtype)
                if shape == 1
                else jax.random.gamma(key, jnp.asarray(shape, scale.dtype), scale.shape, scale.dtype)
            )
            return jnp.clip(scale / jnp.maximum(gamma, floor), floor, 1 / floor)

        def one(i: Any, aux: HorseshoeScales) -> HorseshoeScales:
            keys = jax.random.split(jax.random.fold_in(key, i), 4)
            local = inverse_gamma(keys[0], 1 / aux.local_mixing + half / aux.shared[:, None], 1)
            mixing = inverse_gamma(keys[1], 1 + 1 / local, 1)
            spread = 1 / aux.shared_mixing + jnp.sum(half / local, axis=1)
            shared = inverse_gamma(keys[2], spread, (weight.shape[1] + 1) / 2)
            return HorseshoeScales(local, mixing, shared, inverse_gamma(keys[3], 1 + 1 / shared, 1), aux.scale)

        aux = jax.lax.fori_loop(0, _ROUNDS, one, aux)
        return 1 / (aux.local * (aux.shared * aux.scale * aux.scale)[:, None]), aux

    def n_scales(self, n_features: int) -> int:
        """One for each weight, and the global one; see :class:`bayesdrop.priors.base.NonCentred`."""
        return n_features + 1

    @staticmethod
    def scales_of(
        normal: Float[AnyArray, "C m"], aux: HorseshoeScales
    ) -> tuple[Float[AnyArray, "C p"], dict[str, Float[AnyArray, " C"]]]:
        """``λτ`` with ``λ = tan{πΦ(s)/2}``, and ``τ`` as ``global_scale``; see
        :class:`bayesdrop.priors.base.NonCentred`.
        """
        import jax.numpy as jnp
        from jax.scipy.special import ndtr

        # tan(π/2 − a) = 1/tan a is accurate for large scales.
        below = jnp.maximum(ndtr(-jnp.abs(normal)), float(jnp.finfo(normal.dtype).tiny) ** 0.75)
        small = jnp.tan(0.5 * jnp.pi * below)
        cauchy = jnp.where(normal < 0, small, 1 / small)
        shared = aux.scale * cauchy[:, -1]
        return cauchy[:, :-1] * shared[:, None], {"global_scale": shared}

    @staticmethod
    def record(aux: HorseshoeScales) -> dict[str, Float[AnyArray, " C"]]:
        """``global_scale``, ``τ``; see :class:`bayesdrop.priors.WeightPrior`."""
        return {"global_scale": aux.scale * aux.shared**0.5}

    @staticmethod
    def log_scale_density(precision: Float[AnyArray, "C p"], aux: HorseshoeScales) -> Float[AnyArray, " C"]:
        """Density of the ``λ²`` and ``τ²``; see :class:`bayesdrop.priors.WeightPrior`."""
        import jax.numpy as jnp

        def half_cauchy(variance: Float[AnyArray, "C ..."]) -> Float[AnyArray, "C ..."]:
            return -0.5 * jnp.log(variance) - jnp.log1p(variance)

        return half_cauchy(aux.local).sum(axis=1) + half_cauchy(aux.shared)

    def sample_weight(
        self, generator: np.random.Generator, draws: int, n_features: int
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Draw weights (draws, p), and τ as ``global_scale``; see :class:`bayesdrop.priors.WeightPrior`."""
        shared = self.scale * np.abs(generator.standard_cauchy(draws))
        local = np.abs(generator.standard_cauchy((draws, n_features)))
        return generator.normal(size=(draws, n_features)) * local * shared[:, None], {"global_scale": shared}

    def log_density(self, weight: Float[AnyArray, "*batch p"]) -> Float[AnyArray, "*batch"]:
        """Raise TypeError: the density of the weights has no closed form."""
        raise TypeError(
            "Horseshoe: the density of the weights has no closed form; use the mixture, Horseshoe.sample_precision, "
            "as bd.Gibbs() does."
        )
