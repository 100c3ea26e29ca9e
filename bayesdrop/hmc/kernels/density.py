r"""Compute log densities without masks, for gradient samplers.

The density is either the pseudo-posterior of weights and intercept at fixed noise,

    exp(−U),    U = ½ (w − μ)ᵀP(w − μ) + C Σ s_i φ(y_i, m_i, v_i),

with the ``expectation`` of the loss, or the noising model with its masks integrated as if scores were normal,

    N(w; μ, P⁻¹) Π_j p(η_j) Π_i [E_{s~N(m_i, v_i)} exp{−C loss(y_i, s)}]^{s_i},

with the expectation of :mod:`bayesdrop.losses.normal_score`. The rates are ``η = Φ(u)``: on this probit scale a flat
prior is standard normal and a posterior is close to normal. ``m_i`` and ``v_i`` are the moments of the noised score
(:mod:`bayesdrop.moments`); a known offset is added in the loss. Derivatives are in closed form except for
the chain rule through the two moments.

The kinks of a loss may be rounded in the gradient, never in the density: the slope at a score ``s`` is then the mean
slope over ``s ± h``, ``(loss(s + h) − loss(s − h)) / 2h``. A trajectory may follow any force that depends on the
position only, because steps and turns are reversible and preserve volume, and it is accepted by the exact density.
Forces that jump at every kink give an energy error of first order in the step; rounded over half the posterior spread
of a score, they need half the leapfrog steps for the same acceptance.

Against the sum over all masks, the second density is off by 0.01 a row (root mean square of the log-likelihood of the
logistic loss; ten standard normal features, rates uniform on (0, 1)) at weights of standard deviation 0.5, by 0.07 at 1
and by 0.4 at 3; for the hinge by 0.035, 0.12 and 0.5. Jensen's bound is off by 0.12, 0.5 and 2.7 for the logistic loss,
by 0.2, 0.65 and 3 for the hinge. The error of a row has long tails, from large weights on a few features.

A learnt scale or shape of the likelihood (:mod:`bayesdrop.sampling.prior_operands`) is the coordinate ``t``, its
logarithm. By the homogeneity of the loss, a row at the scale ``e^t`` has the slope

    ∂ cost/∂t = (y − m) ∂ cost/∂m − 2v ∂ cost/∂v

in it, whether masks are integrated or not, without the normaliser. With a shape and an intercept, the coordinate of the
intercept is ``b + t``, on which the mean response depends.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``k`` free rates, ``D`` coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr

from ..._typing import AnyArray, Float, Int
from ...losses.normal_score import row_cost
from ...noise import Coefficients
from ...sampling.matrix import Matrix, product, squared_product
from ...sampling.prior_operands import LearntParameter, LevelOperands, ParameterOperands, log_parameter_prior

__all__ = ["Density", "DensityOperands", "Evaluation", "Loadings", "LogDensity", "Point", "score_moments"]

PerScore = Float[AnyArray, "C n"]
Point = Float[jax.Array, "C D"]


class DensityOperands(NamedTuple):
    """Data and priors.

    Attributes
    ----------
    matrix : Matrix
        The features.
    target, row_weight : array (n,)
        Labels −1 and +1 or numbers, and ``C`` times the row weights.
    loss_weight : array ()
        ``C``, the factor on the loss inside the expectation if masks are integrated.
    precision : array (p,)
        Prior precision of the weights.
    fixed_rate : array (p,)
        Rates, if none is free.
    index : int array (p,)
        Free rate of each feature; ``k`` for a feature without noise.
    rate_prior : BetaLaw of shape (k,)
        Prior of the free rates.
    width : array (n,), optional
        Positive half-width ``h`` over which the slopes of each row are averaged; by default they are exact.
    offset : array (n,), optional
        Known part of every row's score.
    location : array (p,), optional
        Prior mean ``μ`` of the weights, whose coordinates are ``w − μ``; None if it is 0.
    level : LevelOperands, optional
        Prior of the intercept; None if it is flat.
    parameter : ParameterOperands, optional
        Prior of the scale or shape of the likelihood, if that is a coordinate.
    """

    matrix: Matrix
    target: Float[jax.Array, " n"]
    row_weight: Float[jax.Array, " n"]
    loss_weight: Float[jax.Array, ""]
    precision: Float[jax.Array, " p"]
    fixed_rate: Float[jax.Array, " p"]
    index: Int[jax.Array, " p"]  # type: ignore[assignment]  # tuples have a method of this name
    rate_prior: Any
    width: Float[jax.Array, " n"] | None = None
    offset: Float[jax.Array, " n"] | None = None
    location: Float[jax.Array, " p"] | None = None
    level: LevelOperands | None = None
    parameter: ParameterOperands | None = None


class Loadings(NamedTuple):
    """Coefficients of the features at a point: scores have mean ``Xu + l`` and variance ``X²a + Xb + c``.

    Attributes
    ----------
    mean, quadratic, linear : array (C, p)
        ``u``, ``a`` and ``b``.
    level, constant : array (C,)
        ``l`` and ``c``.
    """

    mean: Float[AnyArray, "C p"]
    level: Float[AnyArray, " C"]
    quadratic: Float[AnyArray, "C p"]
    linear: Float[AnyArray, "C p"]
    constant: Float[AnyArray, " C"]


class Evaluation(NamedTuple):
    """Minus the log density at one point of each chain: ``Σ cost − prior``, and its gradient.

    Attributes
    ----------
    cost : array (C, n)
        Contribution of each row. Differences of two energies are summed over rows, which is accurate in single
        precision.
    prior : array (C,)
        Log prior density.
    gradient : array (C, D)
        Gradient of minus the log density, with its kinks rounded if the operands have a width.
    """

    cost: PerScore
    prior: Float[jax.Array, " C"]
    gradient: Point


@runtime_checkable
class LogDensity(Protocol):
    """Protocol of a density in coordinates θ, for gradient kernels."""

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the variables that ``record`` returns."""

    def record(self, operands: Any, theta: Point) -> dict[str, jax.Array]:
        """Posterior variables at points θ (C, D), chains first."""

    def evaluate(self, operands: Any, theta: Point) -> Evaluation:
        """Minus the log density and its gradient at θ (C, D)."""


def score_moments(density: Any, matrix: Matrix, load: Loadings) -> tuple[Float[jax.Array, "C n"], ...]:
    """Mean of scores from their loadings and, with noise, their variance; one row per row of a loading."""
    mean = product(matrix, load.mean) + load.level[:, None]
    if not density.has_variance:
        return (mean,)
    nothing = jnp.zeros((len(load.constant), mean.shape[1]), mean.dtype)
    var = squared_product(matrix, load.quadratic) if density.quadratic else nothing
    if density.linear:
        var = var + product(matrix, load.linear)
    if density.constant:
        var = var + load.constant[:, None]
    return mean, var


@dataclass(frozen=True)
class Density:
    """Log density in coordinates ``θ = (w − μ, b, t, u)``, ``μ`` the prior mean, with all that is fixed at compilation.

    Attributes
    ----------
    loss, noise : Loss that is Curved, Scored or Sloped, as the density requires; Noise
        Components of the model.
    fit_intercept : bool
        Whether there is an intercept.
    free : int
        Number ``k`` of free rates.
    integrated : bool
        Whether masks are integrated under normal scores; otherwise the loss is marginalised by its bound.
    quadratic, linear, constant, shift : bool
        Whether the noise has each of these coefficients.
    rate_dim : str
        Dim of the free rates in a posterior.
    parameter : LearntParameter or None
        Scale or shape of the likelihood that is a coordinate.
    """

    loss: Any
    noise: Any
    fit_intercept: bool
    free: int
    integrated: bool
    quadratic: bool
    linear: bool
    constant: bool
    shift: bool
    rate_dim: str
    parameter: LearntParameter | None = None

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the variables that ``record`` returns."""
        names: dict[str, tuple[str, ...]] = {"weight": ("feature",)}
        names |= {"intercept": ()} if self.fit_intercept else {}
        names |= {} if self.parameter is None else {self.parameter.name: ()}
        return names | ({"rate": (self.rate_dim,)} if self.free else {})

    def record(self, operands: DensityOperands, theta: Point) -> dict[str, jax.Array]:
        """Variables of points θ (C, D) in a posterior: weight (C, p), intercept (C,), logit_rate (C, k)."""
        weight, intercept = self.weights(operands, theta)
        draw = {"weight": weight}
        if self.fit_intercept:
            draw["intercept"] = intercept
        if self.parameter is not None:
            draw[f"log_{self.parameter.name}"] = self.log_parameter(theta)
        if self.free:
            draw["logit_rate"] = self.logit_rates(theta)
        return draw

    @property
    def of_rows(self) -> Density:
        """Density of a row given its score, without the prior: this object."""
        return self

    @property
    def has_variance(self) -> bool:
        """True if the noise gives the scores a variance."""
        return self.quadratic or self.linear or self.constant

    @property
    def is_normal(self) -> bool:
        """True if minus the log density is quadratic in θ."""
        return (
            self.loss.quadratic
            and self.parameter is None
            and not self.free
            and not (self.integrated and self.has_variance)
        )

    def weights(
        self, operands: DensityOperands, theta: Point
    ) -> tuple[Float[jax.Array, "C p"], Float[jax.Array, " C"]]:
        """Weights (C, p) and intercept (C,)."""
        p = operands.precision.shape[0]
        weight = theta[:, :p] if operands.location is None else theta[:, :p] + operands.location[None]
        if not self.fit_intercept:
            return weight, jnp.zeros(theta.shape[0], theta.dtype)
        shape = self.parameter is not None and not self.parameter.is_scale
        return weight, theta[:, p] - self.log_parameter(theta) if shape else theta[:, p]

    def log_parameter(self, theta: Point) -> Float[jax.Array, " C"]:
        """``t`` (C,)."""
        return theta[:, theta.shape[1] - self.free - 1]

    def logit_rates(self, theta: Point) -> Float[jax.Array, "C k"]:
        """Logits of the free rates (C, k)."""
        u = theta[:, theta.shape[1] - self.free :]
        return log_ndtr(u) - log_ndtr(-u)

    def _coefficients(self, operands: DensityOperands, theta: Point) -> Coefficients:
        """Coefficients of the noise of each feature, (C, p) or (1, p) each."""
        if not self.free:
            fixed: Coefficients = self.noise.coefficients(operands.fixed_rate[None])
            return fixed
        # A feature without noise has the rate 0, whose probit is beyond single and double precision.
        u = theta[:, theta.shape[1] - self.free :].at[:, operands.index].get(mode="fill", fill_value=-40)
        drawn: Coefficients = self.noise.coefficients(ndtr(u), ndtr(-u))
        return drawn

    def loadings(self, operands: DensityOperands, theta: Point) -> Loadings:
        """Coefficients of the moments of the scores."""
        weight, level = self.weights(operands, theta)
        gain, shift, quadratic, linear, constant = self._coefficients(operands, theta)
        square = weight * weight
        if self.shift:
            level = level + jnp.sum(shift * weight, axis=1)
        return Loadings(gain * weight, level, quadratic * square, linear * square, jnp.sum(constant * square, axis=1))

    def moments(self, operands: DensityOperands, theta: Point) -> tuple[PerScore, ...]:
        """Mean of the scores (C, n) without an offset, and their variance if the noise gives them one."""
        return score_moments(self, operands.matrix, self.loadings(operands, theta))

    def log_prior(self, operands: DensityOperands, theta: Point) -> Float[jax.Array, " C"]:
        """Log prior density of θ up to a constant, (C,)."""
        away = theta[:, : operands.precision.shape[0]]
        total = -0.5 * jnp.sum(operands.precision[None] * away * away, axis=1)
        if operands.level is not None:
            total = total + operands.level.log_density(*self.weights(operands, theta))
        if self.free:
            u = theta[:, theta.shape[1] - self.free :]
            prior = jax.tree.map(lambda part: part[None], operands.rate_prior)
            total = total + jnp.sum(prior.log_rate_density(log_ndtr(u), log_ndtr(-u)) - 0.5 * u * u, axis=1)
        if self.parameter is not None:
            t = self.log_parameter(theta)
            total = total + log_parameter_prior(self.parameter, operands.parameter, t)  # type: ignore[arg-type]
        return total

    def cost(self, operands: DensityOperands, mean: PerScore, var: PerScore) -> tuple[PerScore, ...]:
        """Contribution of each row to minus the log density, and its derivatives in the two moments; (C, n) each.

        The mean is that of :meth:`moments`, without the offset, which is added here.
        """
        width = None if operands.width is None else operands.width[None]
        mean = mean if operands.offset is None else mean + operands.offset[None]
        row_arguments = operands.target[None], operands.row_weight[None], operands.loss_weight
        return self.score_cost(*row_arguments, width, mean, var)

    def score_cost(
        self, y: Any, weight: Any, loss_weight: Any, width: Any, mean: PerScore, var: PerScore
    ) -> tuple[PerScore, ...]:
        """As :meth:`cost`, for arrays of any library; responses, weights and widths broadcast to that of the scores.

        The width is for plain losses: noise rounds the kinks of the others.
        """
        xp = mean.__array_namespace__()
        y = xp.broadcast_to(y, mean.shape)
        if not self.has_variance:
            value, slope = self.loss.plain_value_and_slope(y, mean)
            if width is not None:
                upper, lower = (self.loss.plain_value_and_slope(y, mean + h)[0] for h in (width, -width))
                slope = (upper - lower) / (2 * width)
            return weight * value, weight * slope, xp.zeros_like(mean)
        if not self.integrated:
            slopes = self.loss.derivatives(y, mean, var)
            return weight * self.loss.value(y, mean, var), weight * slopes.mean, weight * slopes.var
        return tuple(row_cost(self.loss, y, mean, var, loss_weight, weight / loss_weight))

    def evaluate(self, operands: DensityOperands, theta: Point) -> Evaluation:
        """Minus the log density and its gradient at θ (C, D)."""
        moments, pull_back = jax.vjp(lambda t: self.moments(operands, t), theta)
        mean = moments[0]
        var = moments[1] if self.has_variance else jnp.zeros_like(mean)
        cost, mean_slope, var_slope, *of_parameter = self._cost_at(operands, theta, mean, var)
        prior, prior_slope = jax.vjp(lambda t: self.log_prior(operands, t), theta)
        (gradient,) = pull_back((mean_slope, var_slope) if self.has_variance else (mean_slope,))
        if of_parameter:
            gradient = gradient.at[:, theta.shape[1] - self.free - 1].add(of_parameter[0])
        return Evaluation(cost, prior, gradient - prior_slope(jnp.ones_like(prior))[0])

    def _cost_at(
        self, operands: DensityOperands, theta: Point, mean: PerScore, var: PerScore
    ) -> tuple[Float[jax.Array, "C ..."], ...]:
        """As :meth:`cost`, at the scale or shape of each chain, and the slope in its logarithm (C,)."""
        if self.parameter is None:
            return self.cost(operands, mean, var)
        t, weight = self.log_parameter(theta), operands.row_weight[None]  # C is 1 with a learnt parameter
        if not self.parameter.is_scale:
            target = jnp.broadcast_to(operands.target[None], mean.shape)

            def at(t: Float[jax.Array, " C"]) -> tuple[PerScore, tuple[PerScore, ...]]:
                loss = self.parameter.loss_at(self.loss, t)  # type: ignore[union-attr]
                cost, *slopes = replace(self, loss=loss, parameter=None).cost(operands, mean, var)
                return cost - operands.row_weight[None] * loss.log_base_measure(target), tuple(slopes)

            (cost, slopes), (slope, _) = jax.jvp(at, (t,), (jnp.ones_like(t),))
            return cost, *slopes, jnp.sum(slope, axis=1)
        power = self.parameter.multiplier(t)[:, None]
        offset_mean = mean if operands.offset is None else mean + operands.offset[None]
        width = None if operands.width is None else operands.width[None]
        row_arguments = operands.target[None], weight * power, power
        cost, mean_slope, var_slope = self.score_cost(*row_arguments, width, offset_mean, var)
        if self.integrated and self.has_variance:
            slope = (operands.target[None] - offset_mean) * mean_slope - 2 * var * var_slope
        else:
            slope = -self.parameter.degree * cost
        return cost + weight * t[:, None], mean_slope, var_slope, jnp.sum(slope + weight, axis=1)
