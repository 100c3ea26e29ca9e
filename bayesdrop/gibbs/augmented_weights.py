r"""Weights and intercept where noise is averaged inside the loss, drawn through the loss's auxiliary variables.

    (w, b) ~ N(0, P⁻¹) × flat × Π_i exp{−C s_i φ(y_i, o_i + m_i, v_i)},
    m = X(g∘w) + b,    v = X²(a∘w²) + X(b∘w²) + c0ᵀw²

with ``φ`` the augmentation bound and ``o`` a known offset.
The same auxiliary variables that make the bound make it conjugate: with
``r² = ζ² + v`` the hinge's ``exp{−½C(ζ + r)}`` is a mixture of ``exp{−½ω r² − ½Cζ}`` over ``λ ~ GIG(½, 1, c²r²)``
(Polson & Scott 2011; Chen, Zhu, Chen & Chen 2015, section 4.1), the logistic ``(2 cosh ½r)^{−C}`` one over
``PG(C, r)`` (Polson, Scott & Windle 2013). Given them, ``v`` is a quadratic form of the weights and adds to their
precision:

    (w, b) | ω, κ ~ N(Q⁻¹ Mᵀ(κ − ω∘o), Q⁻¹),    Q = P + MᵀΩM + diag{a∘(X²)ᵀω + b∘Xᵀω + c0 Σω}.

Shapes: ``C`` chains, ``n`` rows, ``p`` features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._typing import AnyArray, Bool, Float
from ..losses.protocols import Augmented
from ..noise import Coefficients
from .moves.columns import Columns

__all__ = ["AugmentedWeights", "GaussianDraw", "NoisedFeatures", "augmented_weights"]

GaussianDraw = Callable[..., tuple[Float[jax.Array, "C p"], Float[jax.Array, " C"]]]
PerScore = Float[jax.Array, "C n"]


class NoisedFeatures(NamedTuple):
    """Features, the noise on them, and what the rows are.

    Attributes
    ----------
    columns : Columns
        The features.
    coefficients : Coefficients of arrays (1, p)
        Quadratic variance function of the noise; no gain is 0, and no shift is looked at.
    target : array (n,)
        Labels −1 and +1 or numbers.
    offset : array (n,), optional
        Known part of every row's score.
    """

    columns: Columns
    coefficients: Coefficients
    target: Float[jax.Array, " n"]
    offset: Float[jax.Array, " n"] | None = None


@dataclass(frozen=True)
class AugmentedWeights:
    """The draw: what is fixed when it is compiled.

    Attributes
    ----------
    loss : Augmented
        In its augmented form where there is noise.
    fit_intercept : bool
        Draw an intercept.
    quadratic, linear, constant : bool
        Which coefficients of the noise are there.
    gaussian_draw : callable
        One of :mod:`bayesdrop.gibbs.weights`.
    """

    loss: Augmented
    fit_intercept: bool
    quadratic: bool
    linear: bool
    constant: bool
    gaussian_draw: GaussianDraw

    def moments(
        self, features: NoisedFeatures, weight: Float[jax.Array, "C p"], intercept: Float[jax.Array, " C"]
    ) -> tuple[PerScore, PerScore]:
        """Mean and variance of the scores: weights (C, p) and intercepts (C,) to (C, n) each."""
        n, columns, parts = features.target.shape[0], features.columns, features.coefficients
        mean = columns.full_product(parts.gain * weight, n) + intercept[:, None]
        mean = mean if features.offset is None else mean + features.offset[None]
        var, square = jnp.zeros_like(mean), weight * weight
        if self.quadratic:
            var = var + columns.full_squared_product(parts.quadratic * square, n)
        if self.linear:
            var = var + columns.full_product(parts.linear * square, n)
        if self.constant:
            var = var + jnp.sum(parts.constant * square, axis=1, keepdims=True)
        return mean, var

    def added_precision(
        self, features: NoisedFeatures, omega: PerScore, everything: tuple[Bool[jax.Array, "_ C _"], ...]
    ) -> Float[jax.Array, "C p"]:
        """Precision that the variance of the scores adds: (C, n) to (C, p); ``everything`` are masks that keep all."""
        columns, parts = features.columns, features.coefficients
        total = jnp.zeros((omega.shape[0], parts.gain.shape[1]), omega.dtype)
        if self.quadratic:
            total = total + parts.quadratic * columns.transposed_product(everything, omega, square=True)
        if self.linear:
            total = total + parts.linear * columns.transposed_product(everything, omega)
        if self.constant:
            total = total + parts.constant * jnp.sum(omega, axis=1, keepdims=True)
        return total

    def draw(
        self,
        key_aux: PRNGKeyArray,
        key_draw: PRNGKeyArray,
        features: NoisedFeatures,
        mean: PerScore,
        var: PerScore,
        row_weight: Float[AnyArray, "*rows"],
        precision: Float[jax.Array, "C p"],
    ) -> tuple[Float[jax.Array, "C p"], Float[jax.Array, " C"]]:
        """Auxiliary variables given the moments (C, n) of the scores, then weights (C, p) and intercept (C,).

        ``row_weight`` is ``C s_i / σ²`` (C, n), or ``np.ones(())`` where all are 1: of a plain number, not a traced
        array, the auxiliary sampler is exact and cheaper. ``precision`` (C, p) is the prior's.
        """
        chains, n = mean.shape
        flat = row_weight.reshape(-1) if row_weight.ndim else row_weight
        target = jnp.broadcast_to(features.target[None], (chains, n)).reshape(-1)
        pseudo = self.loss.sample_pseudo(key_aux, target, mean.reshape(-1), var.reshape(-1), flat)
        omega, kappa = (jnp.broadcast_to(part, (chains * n,)).reshape(chains, n) for part in pseudo)
        if features.offset is not None:
            kappa = kappa - omega * features.offset[None]
        everything = tuple(
            jnp.ones((block.values.shape[0], chains, block.values.shape[1]), bool) for block in features.columns.blocks
        )
        gain = features.coefficients.gain
        # The Gaussian draw knows X and not M = X diag(g): it draws g∘w.
        precision = (precision + self.added_precision(features, omega, everything)) / (gain * gain)
        scaled, intercept = self.gaussian_draw(
            key_draw, features.columns, everything, omega, kappa, precision, self.fit_intercept
        )
        return scaled / gain, intercept


def augmented_weights(
    loss: Augmented, noise: Coefficients, fit_intercept: bool, gaussian_draw: GaussianDraw
) -> AugmentedWeights:
    """The draw for a loss and a noise; without noise it takes the plain loss."""
    quadratic, linear, constant = (bool(np.any(part)) for part in (noise.quadratic, noise.linear, noise.constant))
    noisy = quadratic or linear or constant
    return AugmentedWeights(loss if noisy else loss.plain, fit_intercept, quadratic, linear, constant, gaussian_draw)
