r"""Log density of a hidden layer whose inputs are noised, for samplers that follow gradients.

    N(α; 0, P⁻¹) N(a; 0, 3²) N(W; 0, 1) Π_j Beta(η_j; A, B) Π_i E_{s ~ N(m_i, v_i)} exp{−C s_i loss(y_i, s)}

in coordinates ``θ = (α, w, a, b, u)``, ``η = Φ(u)``, with the first-order moments of :mod:`bayesdrop.latent.energy`
and the expectation of :mod:`bayesdrop.losses.normal_score`. The hidden intercepts need a proper prior: a unit that is
always on is an intercept itself. Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``K`` units, ``k`` free rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr

from ..inference.density import DensityOperands, Evaluation
from ..inference.matrix import product, squared_product
from ..inference.nuts import NUTSKernel, NUTSOperands
from ..inference.whitening import colour
from ..losses import Loss
from ..noise import Noise

__all__ = ["HIDDEN_INTERCEPT_SCALE", "LatentDensity", "LatentKernel"]

Array = Any

HIDDEN_INTERCEPT_SCALE = 3.0


@dataclass(frozen=True)
class LatentDensity:
    """What is fixed at compilation.

    Attributes
    ----------
    loss, noise : Loss, Noise
        Components of the model.
    units : int
        Number ``K`` of hidden units.
    features : int
        Number ``p`` of features.
    fit_intercept : bool
        Both layers have intercepts.
    free : int
        Number of free rates.
    """

    loss: Loss
    noise: Noise
    units: int
    features: int
    fit_intercept: bool
    free: int

    @property
    def size(self) -> int:
        """Number of coordinates."""
        K = self.units
        return K * self.features + K + self.free + (K + 1 if self.fit_intercept else 0)

    def split(self, theta: Array) -> dict[str, Array]:
        """Coordinates (…, D) by name: hidden (…, K, p), shift (…, K), output (…, K), intercept (…), probit (…, k)."""
        K, p = self.units, self.features
        parts, at = {}, 0
        for name, size in (("hidden", K * p), ("output", K), ("shift", K), ("intercept", 1), ("probit", self.free)):
            if name in ("shift", "intercept") and not self.fit_intercept:
                parts[name] = jnp.zeros((*theta.shape[:-1], size), theta.dtype)
                continue
            parts[name] = theta[..., at : at + size]
            at += size
        parts["hidden"] = parts["hidden"].reshape(*theta.shape[:-1], K, p)
        parts["intercept"] = parts["intercept"][..., 0]
        return parts

    def rates(self, operands: DensityOperands, probit: Array) -> Array:
        """Rates of the features, (p,)."""
        return ndtr(probit)[operands.index] if self.free else operands.fixed_rate

    def moments(self, operands: DensityOperands, part: dict[str, Array]) -> tuple[Array, Array]:
        """Mean and variance of the scores of one chain, (n,) each."""
        gain, shift, quadratic, linear, constant = self.noise.coefficients(self.rates(operands, part["probit"]))
        hidden, weight = part["hidden"], part["output"]
        mean = product(operands.matrix, gain[None] * hidden)
        unit = jax.nn.sigmoid(mean + (part["shift"] + hidden @ shift)[:, None])
        slope = unit * (1 - unit) * weight[:, None]
        score = weight @ unit + part["intercept"]
        first, second = jnp.triu_indices(self.units)
        pair = hidden[first] * hidden[second]
        cov = squared_product(operands.matrix, quadratic[None] * pair) + product(operands.matrix, linear[None] * pair)
        cov = cov + (pair @ constant)[:, None]
        twice = jnp.where(first == second, 1.0, 2.0).astype(cov.dtype)
        return score, jnp.sum(twice[:, None] * slope[first] * slope[second] * cov, axis=0)

    def log_prior(self, operands: DensityOperands, part: dict[str, Array]) -> Array:
        """Log prior density of one chain up to a constant, ()."""
        total = -0.5 * jnp.sum(operands.precision[None] * part["hidden"] ** 2) - 0.5 * jnp.sum(part["output"] ** 2)
        if self.fit_intercept:
            total = total - 0.5 * jnp.sum((part["shift"] / HIDDEN_INTERCEPT_SCALE) ** 2)
        u = part["probit"]
        beta = (operands.prior_a - 1) * log_ndtr(u) + (operands.prior_b - 1) * log_ndtr(-u) if self.free else 0 * u
        return total + jnp.sum(beta - 0.5 * u * u)

    def evaluate(self, operands: DensityOperands, theta: Array) -> Evaluation:
        """Minus the log density and its gradient at θ (C, D)."""

        def one(point: Array) -> tuple[Array, tuple[Array, Array]]:
            part = self.split(point)
            mean, var = self.moments(operands, part)
            slopes = self.loss.score_cost(operands.target, mean, var, operands.row_weight)
            # The closed-form slopes, not those of the value: they are finite where a row has no noise.
            value, mean_slope, var_slope = (jax.lax.stop_gradient(x) for x in slopes)
            linear = jnp.sum(mean_slope * mean) + jnp.sum(var_slope * var)
            prior = self.log_prior(operands, part)
            return linear - prior, (value, prior)

        (_, (cost, prior)), gradient = jax.vmap(jax.value_and_grad(one, has_aux=True))(theta)
        return Evaluation(cost, prior, gradient)


@dataclass(frozen=True)
class LatentKernel(NUTSKernel):
    """NumPyro's No-U-Turn sampler that keeps both layers of a draw."""

    density: Any

    def record(self, operands: NUTSOperands, state: Any) -> dict[str, Array]:
        """Weights of both layers, rates, and how the trajectory went; chains first."""
        parts = self.density.split(colour(operands.centre, operands.factor, state.z))
        draw = {"hidden_weight": parts["hidden"], "output_weight": parts["output"]}
        if self.density.fit_intercept:
            draw |= {"hidden_intercept": parts["shift"], "intercept": parts["intercept"]}
        if self.density.free:
            draw["rate"] = ndtr(parts["probit"])
        return draw | self.statistics(state)
