r"""Log density of a hidden layer whose inputs are noised, for samplers that follow gradients.

    N(α; 0, P⁻¹) N(a; 0, 3²) N(W; 0, 1) Π_j p(η_j) Π_i [E_{s ~ N(m_i, v_i)} exp{−C loss(y_i, s)}]^{s_i}

with row weights ``s_i``, in coordinates ``θ = (α, W, a, b, u)``, ``η = Φ(u)``, with the first-order moments of
:mod:`bayesdrop.latent.objective.energy` and the expectation of :mod:`bayesdrop.losses.normal_score`. The hidden
intercepts need a proper prior, because a unit that is always on acts as an intercept. Shapes: ``C`` chains, ``n`` rows,
``p`` features, ``K`` units, ``k`` free rates.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr

from .._typing import Float
from ..hmc.kernels.density import DensityOperands, Evaluation
from ..losses.normal_score import row_cost
from ..losses.protocols import Scored
from ..noise import Noise
from ..sampling.matrix import product, squared_product

__all__ = ["HIDDEN_INTERCEPT_SCALE", "LatentDensity"]

HIDDEN_INTERCEPT_SCALE = 3.0


@dataclass(frozen=True)
class LatentDensity:
    """Settings of the density that are fixed at compilation.

    Attributes
    ----------
    loss, noise : Scored, Noise
        Components of the model.
    units : int
        Number ``K`` of hidden units.
    features : int
        Number ``p`` of features.
    fit_intercept : bool
        Whether both layers have intercepts.
    free : int
        Number of free rates.
    rate_dim : str
        Dimension of the free rates in a posterior.
    """

    loss: Scored
    noise: Noise
    units: int
    features: int
    fit_intercept: bool
    free: int
    rate_dim: str = "feature"

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of the variables that ``record`` returns."""
        names: dict[str, tuple[str, ...]] = {"hidden_weight": ("hidden", "feature"), "output_weight": ("hidden",)}
        names |= {"hidden_intercept": ("hidden",), "intercept": ()} if self.fit_intercept else {}
        return names | ({"rate": (self.rate_dim,)} if self.free else {})

    def record(self, operands: DensityOperands, theta: Float[jax.Array, "C D"]) -> dict[str, jax.Array]:
        """Weights of both layers, intercepts and rates at points θ (C, D), chains first."""
        parts = self.split(theta)
        draw = {"hidden_weight": parts["hidden"], "output_weight": parts["output"]}
        if self.fit_intercept:
            draw |= {"hidden_intercept": parts["shift"], "intercept": parts["intercept"]}
        if self.free:
            draw["rate"] = ndtr(parts["probit"])
        return draw

    @property
    def size(self) -> int:
        """Number of coordinates."""
        K = self.units
        return K * self.features + K + self.free + (K + 1 if self.fit_intercept else 0)

    def split(self, theta: Float[jax.Array, "*chains D"]) -> dict[str, jax.Array]:
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

    def rates(self, operands: DensityOperands, probit: Float[jax.Array, " k"]) -> Float[jax.Array, " p"]:
        """Rates of the features, (p,)."""
        if not self.free:
            return operands.fixed_rate
        # A feature without noise has the rate 0.
        return ndtr(probit).at[operands.index].get(mode="fill", fill_value=0)

    def moments(
        self, operands: DensityOperands, part: dict[str, jax.Array]
    ) -> tuple[Float[jax.Array, " n"], Float[jax.Array, " n"]]:
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

    def log_prior(self, operands: DensityOperands, part: dict[str, jax.Array]) -> Float[jax.Array, ""]:
        """Log prior density of one chain up to a constant, ()."""
        total = -0.5 * jnp.sum(operands.precision[None] * part["hidden"] ** 2) - 0.5 * jnp.sum(part["output"] ** 2)
        if self.fit_intercept:
            total = total - 0.5 * jnp.sum((part["shift"] / HIDDEN_INTERCEPT_SCALE) ** 2)
        u = part["probit"]
        rates = operands.rate_prior.log_rate_density(log_ndtr(u), log_ndtr(-u)) if self.free else 0 * u
        return total + jnp.sum(rates - 0.5 * u * u)

    def evaluate(self, operands: DensityOperands, theta: Float[jax.Array, "C D"]) -> Evaluation:
        """Minus the log density at θ (C, D), as costs of rows and log prior, and its gradient."""

        def one(
            point: Float[jax.Array, " D"],
        ) -> tuple[Float[jax.Array, ""], tuple[Float[jax.Array, " n"], Float[jax.Array, ""]]]:
            part = self.split(point)
            mean, var = self.moments(operands, part)
            power = operands.row_weight / operands.loss_weight
            slopes = row_cost(self.loss, operands.target, mean, var, operands.loss_weight, power)
            # Use closed-form slopes: unlike those of the value, they are finite for rows without noise.
            value, mean_slope, var_slope = (jax.lax.stop_gradient(x) for x in slopes)
            linear = jnp.sum(mean_slope * mean) + jnp.sum(var_slope * var)
            prior = self.log_prior(operands, part)
            return linear - prior, (value, prior)

        (_, (cost, prior)), gradient = jax.vmap(jax.value_and_grad(one, has_aux=True))(theta)
        return Evaluation(cost, prior, gradient)
