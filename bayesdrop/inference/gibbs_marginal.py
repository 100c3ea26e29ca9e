r"""Gibbs sampling of the pseudo-posterior ``exp(−U)``: fixed noise, averaged inside the loss.

    U = ½ wᵀPw + C Σ_i s_i φ(y_i, m_i, v_i),    m = X(g∘w) + b,    v = X²(a∘w²) + X(b∘w²) + c0ᵀw²

with ``φ`` the augmentation bound. The same auxiliary variables that make the bound make it conjugate: with
``r² = ζ² + v`` the hinge's ``exp{−½C(ζ + r)}`` is a mixture of ``exp{−½ω r² − ½Cζ}`` over ``λ ~ GIG(½, 1, c²r²)``
(Polson & Scott 2011; Chen, Zhu, Chen & Chen 2015, section 3), the logistic ``(2 cosh ½r)^{−C}`` one over
``PG(C, r)`` (Polson, Scott & Windle 2013). Given them, ``v`` is a quadratic form of the weights and adds to their
precision:

    (w, b) | ω, κ ~ N(Q⁻¹ Mᵀκ, Q⁻¹),    Q = P + MᵀΩM + diag{a∘(X²)ᵀω + b∘Xᵀω + c0 Σω}.

Without noise this is the Gibbs sampler of the Bayesian support vector machine and of logistic regression. Scale
mixtures of the weights' prior and an unknown noise variance add a draw each.

Shapes: ``C`` chains, ``n`` rows, ``p`` features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..data import Data
from ..losses import Loss
from ..model import Model
from ..noise import Coefficients
from ..priors import WeightPrior
from ..rates import RateMap
from .gibbs_columns import Columns

__all__ = ["MarginalKernel", "MarginalOperands", "MarginalState", "bind_marginal"]

Array = Any


class MarginalOperands(NamedTuple):
    """Data and priors.

    Attributes
    ----------
    columns : Columns
        The features.
    coefficients : Coefficients of arrays (1, p)
        Quadratic variance function of the noise.
    target, row_weight : array (n,)
        Labels −1 and +1 or numbers, and ``C`` times the row weights.
    precision : array (p,)
        Prior precision of the weights; where it is drawn, the one to start from.
    scales : pytree of arrays (1, …)
        Latent scales of the weights to start from, empty for a normal prior.
    variance_shape, variance_scale : array ()
        Inverse gamma prior of the noise variance, where it is drawn.
    """

    columns: Columns
    coefficients: Coefficients
    target: Array
    row_weight: Array
    precision: Array
    scales: Any
    variance_shape: Array
    variance_scale: Array


class MarginalState(NamedTuple):
    """State of ``C`` chains: weights (C, p), intercept (C,), moments of the scores (C, n), scales and key."""

    weight: Array
    intercept: Array
    mean: Array
    var: Array
    precision: Array
    scales: Any
    noise_precision: Array
    key: Array


@dataclass(frozen=True)
class MarginalKernel:
    """The transition: everything that is fixed when it is compiled, and nothing that is data.

    Attributes
    ----------
    loss : Loss
        In its augmented form.
    fit_intercept : bool
        Draw an intercept.
    quadratic, linear, constant : bool
        Which coefficients of the noise are there.
    unit_weight : bool
        Every ``C s_i`` is 1.
    unknown_variance : bool
        Draw the noise variance.
    scale_mixture : type or None
        Prior of the weights whose scales are drawn.
    gaussian_draw : callable
        One of :mod:`bayesdrop.inference.gibbs_gaussian`.
    sweeps : int
        Sweeps per recorded draw.
    """

    loss: Loss
    fit_intercept: bool
    quadratic: bool
    linear: bool
    constant: bool
    unit_weight: bool
    unknown_variance: bool
    scale_mixture: type[WeightPrior] | None
    gaussian_draw: Callable[..., tuple[Array, Array]]
    sweeps: int

    def moments(self, operands: MarginalOperands, weight: Array, intercept: Array) -> tuple[Array, Array]:
        """Mean and variance of the scores: weights (C, p) to (C, n) each."""
        n, columns, parts = operands.target.shape[0], operands.columns, operands.coefficients
        mean = columns.full_product(parts.gain * weight, n) + intercept[:, None]
        var, square = jnp.zeros_like(mean), weight * weight
        if self.quadratic:
            var = var + columns.full_squared_product(parts.quadratic * square, n)
        if self.linear:
            var = var + columns.full_product(parts.linear * square, n)
        if self.constant:
            var = var + jnp.sum(parts.constant * square, axis=1, keepdims=True)
        return mean, var

    def spread(self, operands: MarginalOperands, omega: Array, everything: tuple[Array, ...]) -> Array:
        """Precision ``q(ω)`` that the variance of the scores adds: (C, n) to (C, p)."""
        columns, parts = operands.columns, operands.coefficients
        total = jnp.zeros((omega.shape[0], operands.precision.shape[0]), omega.dtype)
        if self.quadratic:
            total = total + parts.quadratic * columns.transposed_product(everything, omega, square=True)
        if self.linear:
            total = total + parts.linear * columns.transposed_product(everything, omega)
        if self.constant:
            total = total + parts.constant * jnp.sum(omega, axis=1, keepdims=True)
        return total

    def init(self, operands: MarginalOperands, key: Array, chains: int) -> MarginalState:
        """Start at weights of half their prior scale."""
        key, key_weight, key_scale = jax.random.split(key, 3)
        p, dtype = operands.precision.shape[0], operands.target.dtype
        weight = 0.5 * jax.random.normal(key_weight, (chains, p), dtype) / jnp.sqrt(operands.precision)[None]
        precision = jnp.broadcast_to(operands.precision[None], (chains, p))
        scales = jax.tree.map(lambda x: jnp.broadcast_to(x, (chains, *x.shape[1:])), operands.scales)
        if self.scale_mixture is not None:
            precision, scales = self.scale_mixture.sample_precision(key_scale, weight, scales)
        intercept = jnp.zeros(chains, dtype)
        mean, var = self.moments(operands, weight, intercept)
        noise = jnp.broadcast_to(operands.variance_shape / operands.variance_scale, (chains,))
        return MarginalState(weight, intercept, mean, var, precision, scales, noise, key)

    def step(self, operands: MarginalOperands, state: MarginalState) -> MarginalState:
        """One recorded draw: ``sweeps`` sweeps."""
        return jax.lax.fori_loop(0, self.sweeps, lambda _, s: self.sweep(operands, s), state)

    def sweep(self, operands: MarginalOperands, state: MarginalState) -> MarginalState:
        """Auxiliary variables, weights and intercept, then scales and variance."""
        key, key_aux, key_draw, key_scale, key_variance = jax.random.split(state.key, 5)
        chains, n = state.mean.shape
        if self.unit_weight:
            # A plain number, not a traced array: the auxiliary sampler of weight 1 is then exact and cheaper.
            weight: Any = np.ones((), operands.target.dtype)
        else:
            weight = (operands.row_weight[None] * state.noise_precision[:, None]).reshape(-1)
        target = jnp.broadcast_to(operands.target[None], (chains, n)).reshape(-1)
        pseudo = self.loss.sample_pseudo(key_aux, target, state.mean.reshape(-1), state.var.reshape(-1), weight)
        omega, kappa = (part.reshape(chains, n) for part in pseudo)
        everything = tuple(
            jnp.ones((block.values.shape[0], chains, block.values.shape[1]), bool) for block in operands.columns.blocks
        )
        gain = operands.coefficients.gain
        # The Gaussian draw knows X and not M = X diag(g): it draws g∘w.
        precision = (state.precision + self.spread(operands, omega, everything)) / (gain * gain)
        scaled, intercept = self.gaussian_draw(
            key_draw, operands.columns, everything, omega, kappa, precision, self.fit_intercept
        )
        mean, var = self.moments(operands, scaled / gain, intercept)
        state = state._replace(weight=scaled / gain, intercept=intercept, mean=mean, var=var, key=key)
        if self.scale_mixture is not None:
            new_precision, scales = self.scale_mixture.sample_precision(key_scale, state.weight, state.scales)
            state = state._replace(precision=new_precision, scales=scales)
        if self.unknown_variance:
            shape = operands.variance_shape + 0.5 * jnp.sum(operands.row_weight)
            scale = operands.variance_scale + jnp.sum(self.costs(operands, state), axis=1)
            gamma = jax.random.gamma(key_variance, shape, (chains,), mean.dtype)
            state = state._replace(noise_precision=gamma / scale)
        return state

    def costs(self, operands: MarginalOperands, state: MarginalState) -> Array:
        """Weighted marginalised loss of each row, (C, n)."""
        target = jnp.broadcast_to(operands.target[None], state.mean.shape)
        return operands.row_weight[None] * self.loss.value(target, state.mean, state.var)

    def record(self, operands: MarginalOperands, state: MarginalState) -> dict[str, Array]:
        """What is kept of a draw: weight (C, p), intercept, sigma, global scale and lp (C,)."""
        lp = -0.5 * jnp.sum(state.precision * state.weight * state.weight, axis=1) - state.noise_precision * jnp.sum(
            self.costs(operands, state), axis=1
        )
        draw = {"weight": state.weight}
        if self.fit_intercept:
            draw["intercept"] = state.intercept
        if self.scale_mixture is not None:
            draw |= self.scale_mixture.record(state.scales)
            lp = lp + 0.5 * jnp.sum(jnp.log(state.precision), axis=1)
            lp = lp + self.scale_mixture.log_scale_density(state.precision, state.scales)
        if self.unknown_variance:
            draw["sigma"] = 1 / jnp.sqrt(state.noise_precision)
            count = operands.variance_shape + 1 + 0.5 * jnp.sum(operands.row_weight)
            lp = lp + count * jnp.log(state.noise_precision) - operands.variance_scale * state.noise_precision
        return {**draw, "lp": lp}


def bind_marginal(
    model: Model,
    data: Data,
    rate_map: RateMap,
    columns: Columns,
    gaussian_draw: Callable[..., tuple[Array, Array]],
    sweeps: int,
    dtype: str,
) -> tuple[MarginalKernel, MarginalOperands]:
    """Build the kernel and its operands.

    Raises
    ------
    ValueError
        If the form of the loss is no augmentation bound, or the noise shifts the mean of a feature.
    """
    p = len(data.feature_names)
    parts = model.noise.coefficients(np.broadcast_to(np.asarray(rate_map.initial, dtype=np.float64), (p,)))
    has = [bool(np.any(part)) for part in (parts.quadratic, parts.linear, parts.constant)]
    if any(has) and not model.loss.augmented:
        raise ValueError(
            f"method: Gibbs draws from exp(−U) by the auxiliary variables of the augmentation bound, and the loss is "
            f'{model.loss!r}; take bound="augmentation", or method=bd.HMC(), which needs derivatives only.'
        )
    if np.any(parts.shift):
        raise ValueError(f"noise: {model.noise!r} shifts the mean of a feature; take method=bd.HMC().")
    model.noise.check(data.minimum())
    row_weight = model.C * data.weight
    variance, prior = model.loss.variance_prior, model.weight_prior
    real = partial(jnp.asarray, dtype=dtype)
    kernel = MarginalKernel(
        loss=model.loss if any(has) else model.loss.plain,
        fit_intercept=model.fit_intercept,
        quadratic=has[0],
        linear=has[1],
        constant=has[2],
        unit_weight=variance is None and bool(np.all(row_weight == 1)),
        unknown_variance=variance is not None,
        scale_mixture=None if prior.gaussian else type(prior),
        gaussian_draw=gaussian_draw,
        sweeps=sweeps,
    )
    return kernel, MarginalOperands(
        columns=columns,
        coefficients=Coefficients(*(real(part)[None] for part in parts)),
        target=real(data.target),
        row_weight=real(row_weight),
        precision=real(prior.first_precision(p)),
        scales=prior.init(jax.random.key(0), 1, p, np.dtype(dtype)),
        variance_shape=real(1.0 if variance is None else variance.shape),
        variance_scale=real(1.0 if variance is None else variance.scale),
    )
