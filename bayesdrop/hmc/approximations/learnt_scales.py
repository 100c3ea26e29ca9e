r"""Make learnt scales of normal weights coordinates of a gradient sampler, decoupled from the weights.

    w_d ~ N(0, (σ_j u_d)²) for every feature d of group j,      t_j = log σ_j ~ a law

In the coordinates ``w`` the density is a funnel if the data are weak, and in the coordinates ``w/σ`` it is a bent
ridge if they are strong (Papaspiliopoulos, Roberts & Sköld 2007). Therefore :mod:`.joint_scale_map` takes standard
normal coordinates and ``δ = t − τ`` to the weights, where ``τ`` are the log scales of a normal approximation. The
coordinates of the scales are close to standard normal too (:mod:`.scale_quantiles`).

Shapes: ``C`` chains, ``D`` coordinates ``θ``, ``J`` contrasts of classes (1 for a single score), ``g`` scales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ...model import Model
from ...priors.base import LearntScale
from ...priors.normal import with_scale
from ...sampling.matrix import placed
from ...sampling.prior_operands import ScaleOperands, log_scale_prior, scale_operands, weight_precision
from ..kernels.density import DensityOperands, Loadings, Point
from .joint_scale_map import JointScaleMap, joint_scale_map
from .mixture_scales import CoordinateDensity
from .scale_quantiles import ScaleQuantiles, scale_quantiles

__all__ = [
    "ScaleDensity",
    "ScaleDensityOperands",
    "Scales",
    "best_scales",
    "with_scales",
]

Scales: TypeAlias = Float[np.ndarray, " g"]
Centre: TypeAlias = Float[np.ndarray, " D"]
Factor = Float[np.ndarray, "D D"] | Centre


@dataclass(frozen=True)
class Rules:
    """Tolerances of the search for the most likely scales.

    Attributes
    ----------
    fits, longest, close : int, float, float
        Maximum number of fits, the longest step of a log scale, and the step below which the search ends.
    step : float
        Step of the numerical derivative of a prior's log density.
    tiny : float
        Added to both sides of a ratio.
    """

    fits: int = 12
    longest: float = 1.5
    close: float = 0.03
    step: float = 1e-4
    tiny: float = 1e-6


RULES = Rules()


class ScaleDensityOperands(NamedTuple):
    """Operands of the density given the scales, priors of the scales, and the map of the coordinates.

    Attributes
    ----------
    base : DensityOperands
        Operands of the density of ``θ``, with prior precision 0.
    scales : ScaleOperands
        Groups and priors.
    log_scale : array (g,)
        ``τ``.
    map : JointScaleMap
        Map from ``(ζ, δ)`` to ``θ``.
    quantiles : ScaleQuantiles
        Map from coordinates of the scales to ``δ``.
    """

    base: DensityOperands
    scales: ScaleOperands
    log_scale: Float[jax.Array, " g"]
    map: JointScaleMap
    quantiles: ScaleQuantiles


@dataclass(frozen=True)
class ScaleDensity(CoordinateDensity):
    """A density of weights and other coordinates together with the scales of its weights.

    The first coordinates of ``base`` are the weights, feature by feature, of every contrast.

    Attributes
    ----------
    contrasts : int
        ``J``.
    dims : tuple of str
        Dims of the scales in a posterior.
    """

    contrasts: int
    dims: tuple[str, ...]

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the variables that ``record`` returns."""
        return {**self.base.variables, "weight_scale": self.dims}

    def place(self, operands: ScaleDensityOperands, point: Float[jax.Array, "C E"]) -> tuple[Point, Any, Any]:
        """``θ`` (C, D), ``t`` (C, g) and the log Jacobian (C,) at E = D + g coordinates, those of the scales last."""
        D = operands.map.size
        delta, log_slope = operands.quantiles.at(point[:, D:])
        theta, jacobian = operands.map.place(point[:, :D], delta)
        return theta, operands.log_scale[None] + delta, jacobian + jnp.sum(log_slope, axis=1)

    @property
    def of_rows(self) -> Any:
        """Density of a row given its score."""
        return self.base.of_rows

    def loadings(self, operands: ScaleDensityOperands, point: Float[jax.Array, "C E"]) -> Loadings:
        """Coefficients of the moments of the scores, for a density of one score."""
        loadings: Loadings = self.base.loadings(operands.base, self.place(operands, point)[0])
        return loadings

    def log_prior(self, operands: ScaleDensityOperands, point: Float[jax.Array, "C E"]) -> Float[jax.Array, " C"]:
        """Log prior density of points (C, E) up to a constant, (C,)."""
        theta, _, log_density = self.at(operands, point)
        return jnp.asarray(self.base.log_prior(operands.base, theta) + log_density)

    def at(
        self, operands: ScaleDensityOperands, point: Float[jax.Array, "C E"]
    ) -> tuple[Point, dict[str, jax.Array], Float[jax.Array, " C"]]:
        """``θ`` (C, D), recorded scales, and the log Jacobian and prior density of weights and scales, at (C, E)."""
        theta, log_scale, jacobian = self.place(operands, point)
        J, p = self.contrasts, operands.scales.index.shape[0]
        square = jnp.sum(jnp.square(theta[:, : J * p]).reshape(-1, J, p), axis=1)
        precision = weight_precision(operands.scales, log_scale)
        density = log_scale_prior(operands.scales, log_scale) - J * operands.scales.size[None] * log_scale
        log_prior = jnp.sum(density, axis=1) - 0.5 * jnp.sum(precision * square, axis=1)
        return theta, {"log_weight_scale": log_scale if self.dims else log_scale[:, 0]}, jacobian + log_prior


def best_scales(
    model: Model, learnt: LearntScale, contrasts: int, start: Callable[[Model], tuple[Centre, Factor]]
) -> tuple[Model, Scales]:
    """Return the model at the most likely scales (g,), by Laplace's marginal likelihood (MacKay 1992).

    With the mean ``c`` and covariance ``TTᵀ`` of the weights at scales ``e^t``, which ``start`` returns for a model of
    known scales, the approximation has the slope ``‖c_j/u_j‖²e^{−2t_j} − m_j + tr(P_jTTᵀ)`` in ``t_j``, to which the
    prior adds its own slope.
    """
    log_scale, p = np.log(learnt.law.median()), len(learnt.index)
    for _ in range(RULES.fits):
        prior = with_scale(model.weight_prior, learnt.scale(np.exp(log_scale)))
        centre, factor = start(replace(model, weight_prior=prior))
        variance = factor**2 if factor.ndim == 1 else np.sum(factor**2, axis=1)
        precision = np.tile(prior.precision(p), contrasts)
        size = contrasts * p
        fitted = learnt.sums(precision * centre[:size] ** 2, contrasts)
        decided = learnt.sums(1 - np.minimum(precision * variance[:size], 1), contrasts)
        h, law = RULES.step, learnt.law.log_density
        slope = (law(log_scale + h) - law(log_scale - h)) / (2 * h)
        # A negative slope of the prior counts as determined directions, a positive one as fitted squares.
        up, down = fitted + np.maximum(slope, 0) + RULES.tiny, decided + np.maximum(-slope, 0) + RULES.tiny
        step = np.clip(0.5 * np.log(up / down), -RULES.longest, RULES.longest)
        log_scale = log_scale + step
        if np.max(np.abs(step)) < RULES.close:
            break
    return replace(model, weight_prior=with_scale(model.weight_prior, learnt.scale(np.exp(log_scale)))), log_scale


def with_scales(
    density: Any,
    operands: DensityOperands,
    centre: Centre,
    factor: Factor,
    learnt: LearntScale,
    log_scale: Scales,
    contrasts: int,
    dtype: Any,
) -> tuple[
    ScaleDensity, ScaleDensityOperands, Float[np.ndarray, " E"], Float[np.ndarray, " E"] | Float[np.ndarray, "E E"]
]:
    """Add the scales as coordinates; return the density, its operands, and centre and factor of the coordinates.

    ``centre`` and ``factor`` approximate the density at scales ``e^log_scale``.
    """
    p, D, g = len(learnt.index), len(centre), learnt.groups
    group, precision = np.full(D, g), np.zeros(D)
    group[: contrasts * p] = np.tile(learnt.index, contrasts)
    precision[: contrasts * p] = np.tile(learnt.scale(np.exp(log_scale)) ** -2, contrasts)
    scale_map = joint_scale_map(centre, factor, precision, group, g, dtype)
    scales: Any = scale_operands(learnt, dtype)
    at = placed(log_scale, dtype)

    def log_density(delta: Float[jax.Array, "points g"]) -> Float[jax.Array, " points"]:
        return scale_map.log_marginal(delta) + jnp.sum(log_scale_prior(scales, at[None] + delta), axis=1)

    base_operands = operands._replace(precision=jnp.zeros_like(operands.precision))
    inside = ScaleDensityOperands(base_operands, scales, at, scale_map, scale_quantiles(log_density, g, dtype))
    widths = np.ones(D + g)
    whole = ScaleDensity(density, contrasts, learnt.dims)
    return whole, inside, np.zeros(D + g), widths if factor.ndim == 1 else np.diag(widths)
