r"""Fit a normal approximation to a posterior of one score and many features, for :mod:`bayesdrop.hmc.binding`.

With the curvatures ``D`` of the rows' losses, the precision is ``H = P + A₀ᵀDA₀`` in the notation of
:mod:`bayesdrop.hmc.kernels.factors`. ``P`` is the precision of the prior plus that of the noise. The probits of free
rates are coordinates in addition to the weights. The approximation starts at the point fit, at known rates or at the
medians of their priors. Each round computes a factor of ``H⁻¹`` and moves the centre by Newton steps with this factor;
``H`` is computed once more at the end. Without noise there are two rounds; the steps minimise the mean energy over
draws from the approximation, and the same draws average the curvatures, so that the result is close to the best normal
approximation (Opper & Archambeau 2009, section 3). With noise one round moves the centre towards the mode.

Shapes: ``n`` rows, ``p`` features, ``q`` weights and free rates, ``D`` coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr, ndtri

from ..._typing import Float
from ...data.dataset import Dataset
from ...fitting.objective.energy import Energy
from ...model import Model
from ...moments import ScoreMoments
from ...rates import RateMap
from ..kernels.density import Evaluation, Point
from ..kernels.factors import StructuredFactor
from .choices import without_noise
from .normal import bounded_spread, point_fit, positive_spread
from .precision import Precision, RateLoading, loading_of, precision_of

__all__ = ["DrawnApproximation", "drawn_approximation", "prior_probits", "rounding_width"]


@dataclass(frozen=True)
class Rules:
    """Sizes and tolerances of the approximation.

    Attributes
    ----------
    draws, steps, halvings : int
        Draws for the mean energy, an even number; maximum number of Newton steps with one factor, and of trial
        lengths of a step.
    gain : float
        Energy, in nats, that a step must gain for another one: less is negligible next to a trajectory's error.
    tol : float
        Tolerance of the point fit.
    median, tail, deviation : float
        Smallest starting rate; smallest quantile of a rate before its probit; and the approximate probability below
        the mean minus one standard deviation of a normal law.
    curvature, prior : float
        Smallest curvature of a row, as a share of the largest, and precision of a weight, as a share of the prior's.
    spread : float
        Smallest standard deviation of a score, as a share of the largest one, and of a probit.
    difference : float
        Step of numerical derivatives in probits.
    rounding : float
        Maximum variance of the error in the energy from rounding the kinks of a loss.
    """

    draws: int = 16
    steps: int = 5
    halvings: int = 8
    gain: float = 0.1
    tol: float = 1e-6
    median: float = 0.02
    tail: float = 1e-6
    deviation: float = 0.16
    curvature: float = 1e-6
    prior: float = 0.2
    spread: float = 1e-3
    difference: float = 1e-4
    rounding: float = 0.25


RULES = Rules()


class DrawnApproximation(NamedTuple):
    """Mean, precision and scores of the approximation.

    Attributes
    ----------
    centre : array (D,)
        Mean of the coordinates: weights minus their prior means, the intercept, and probits of the rates.
    precision : Precision
        ``H`` of weights and probits.
    spread : array (n,)
        Standard deviations of the scores.
    pull : array (n,)
        Linear term ``a`` of each row's cost ``½ d m² − a m``, with ``d`` the curvature and ``m`` the score of weights
        minus their prior means.
    gain : array (p,)
        Factor of each weight in the mean scores, the gain of the noise.
    rates : RateLoading, optional
        Effect of free rates on the scores.
    """

    centre: Float[np.ndarray, " D"]
    precision: Precision
    spread: Float[np.ndarray, " n"]
    pull: Float[np.ndarray, " n"]
    gain: Float[np.ndarray, " p"]
    rates: RateLoading | None


def drawn_approximation(
    model: Model,
    data: Dataset,
    rate_map: RateMap,
    evaluate: Callable[[Point], Evaluation],
    factor_of: Callable[[DrawnApproximation], StructuredFactor],
) -> DrawnApproximation:
    """Approximate the posterior whose density ``evaluate`` gives at points (C, D).

    Parameters
    ----------
    factor_of : callable
        Returns the factor of an approximation's covariance.
    """
    noisy, u = not without_noise(model, rate_map), np.zeros(0)
    if rate_map.is_free:
        u, _ = prior_probits(data, rate_map)
    rate = _rates_at(rate_map, u)
    p = len(data.feature_names)
    keep = p + model.fit_intercept
    centre = np.concatenate([point_fit(model, data, rate, RULES.tol)[:keep, 0], u])
    location = model.weight_prior.location(p)
    if location is not None:
        centre[:p] -= location
    half = np.random.default_rng(0).normal(size=(RULES.draws // 2, len(centre)))
    spread: Any = np.zeros((data.design.shape[0], 1))
    if model.loss.piecewise_linear and not noisy:
        # A rough spread of the scores under the prior keeps the curvature finite.
        spread = np.sqrt(data.design.sq_matvec(1 / (model.weight_prior.precision(p)[:, None] + 1)) + 1.0)
    for rounds_left in (1, 0) if noisy else (2, 1, 0):
        normal = _at(model, data, rate_map, centre, spread)
        if not rounds_left:
            break
        factor = factor_of(normal)
        away = _times(factor, jnp.asarray(np.concatenate([half, -half]), factor.stretch.dtype))
        theta = np.asarray(away, float)
        parts, level = np.delete(theta, slice(p, keep), axis=1), theta[:, p:keep]
        scores = data.design.matvec(normal.precision.loading @ parts.T) + level.sum(axis=1)
        spread = np.sqrt(np.mean(scores**2, axis=1, keepdims=True))
        spread = positive_spread(spread)
        centre = _moved(centre, evaluate, factor, 0 * away[:1] if noisy else away)
    return normal._replace(spread=spread[:, 0])


def prior_probits(data: Dataset, rate_map: RateMap) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """Probits of the free rates at their prior medians, and approximate prior standard deviations of the probits."""
    law = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
    centre = ndtri(np.clip(law.quantile(0.5), RULES.median, 1 - RULES.median))
    low, high = (
        ndtri(np.clip(law.quantile(q), RULES.tail, 1 - RULES.tail)) for q in (RULES.deviation, 1 - RULES.deviation)
    )
    return centre, np.maximum((high - low) / 2, RULES.spread)


def _rates_at(rate_map: RateMap, u: Float[np.ndarray, " k"]) -> Float[np.ndarray, " p"]:
    return rate_map.expand(ndtr(u)) if rate_map.is_free else rate_map.initial


@jax.jit
def _times(factor: StructuredFactor, z: Point) -> Point:
    return factor.times(z)


@jax.jit
def _newton(factor: StructuredFactor, gradient: Point) -> Point:
    return -factor.times(factor.transposed_times(gradient))


@jax.jit
def _mean(value: Evaluation) -> tuple[Any, Point]:
    return jnp.mean(jnp.sum(value.cost, axis=1) - value.prior), jnp.mean(value.gradient, axis=0)[None]


def _moved(
    centre: Float[np.ndarray, " D"],
    evaluate: Callable[[Point], Evaluation],
    factor: StructuredFactor,
    away: Point,
) -> Float[np.ndarray, " D"]:
    """Minimise the mean energy at the centre plus ``away`` (C, D) by Newton steps; return the new centre."""

    def mean(at: Point) -> tuple[float, Point]:
        value, gradient = _mean(evaluate(at + away))
        return float(value), gradient

    at = jnp.asarray(centre, away.dtype)[None]
    value, gradient = mean(at)
    for _ in range(RULES.steps):
        step, before = _newton(factor, gradient), value
        for length in 0.5 ** np.arange(RULES.halvings):
            trial = at + jnp.asarray(length, at.dtype) * step
            value, slope = mean(trial)
            if value < before:
                at, gradient = trial, slope
                break
        if not value < before - RULES.gain:
            break
    return np.asarray(at[0], float)


def _at(
    model: Model,
    data: Dataset,
    rate_map: RateMap,
    centre: Float[np.ndarray, " D"],
    spread: Float[np.ndarray, "n 1"],
) -> DrawnApproximation:
    """Approximate around a centre, with curvatures averaged over normal scores of standard deviation ``spread``."""
    design, intercept = data.design, model.fit_intercept
    p, k = design.shape[1], rate_map.size if rate_map.is_free else 0
    u = centre[len(centre) - k :]
    away = np.append(centre[:p], centre[p] if intercept else 0.0)[:, None]
    location = model.weight_prior.location(p)
    weights = away if location is None else away + np.append(location, 0.0)[:, None]
    rate = _rates_at(rate_map, u)
    moments = ScoreMoments(design, model.noise, np.asarray(rate, float)[:, None], intercept)
    loss: Any = model.loss if moments.has_variance else model.loss.plain
    if not moments.has_variance:
        # A user's loss may lack the Gaussian form; its curvature is then taken at the mean.
        smooth = hasattr(loss, "expectation")
        loss, spread = replace(loss, expectation="gaussian") if smooth else loss, spread if smooth else 0 * spread
    prior = np.append(model.weight_prior.precision(p), 0.0)[:, None]
    offset = None if data.offset is None else data.offset[:, None]
    energy = Energy(moments, loss, data.target[:, None], model.C * data.weight[:, None], prior, offset=offset)
    mean, var = moments.scores(weights)
    if not loss.piecewise_linear:
        spread = bounded_spread(energy, mean, var, spread)
    slopes = energy.derivatives(mean, var, spread)
    curve = energy.curvature(slopes, energy.gradient(weights, slopes)[1])
    bend = curve.mean_mean[:, 0]
    bend = np.maximum(bend, RULES.curvature * (bend.max() or 1.0))
    weight_precision = np.maximum(curve.diagonal[:p, 0], RULES.prior * prior[:p, 0])
    gain = np.asarray(np.broadcast_to(model.noise.coefficients(rate).gain, p), float)
    rates, whole = None, weight_precision
    if k:
        rates = _loading(model, data, rate_map, u, weights[:p, 0])
        whole = np.concatenate([weight_precision, rates.precision])
    precision = precision_of(design, whole, bend, intercept, loading_of(gain, rates))
    pull = bend * (mean if location is None else moments.mean(away))[:, 0] - slopes.mean[:, 0]
    return DrawnApproximation(centre, precision, spread[:, 0], pull, gain, rates)


def _loading(
    model: Model, data: Dataset, rate_map: RateMap, u: Float[np.ndarray, " k"], weight: Float[np.ndarray, " p"]
) -> RateLoading:
    """Derivatives of the scores in the probits of free rates, and the prior precisions of these probits."""
    h = RULES.difference
    up, down = (model.noise.coefficients(_rates_at(rate_map, u + step)).gain * np.ones(len(weight)) for step in (h, -h))
    _, spread = prior_probits(data, rate_map)
    # A feature without noise has the derivative 0: its index has no effect.
    index = np.where(rate_map.noised, rate_map.index, 0)
    return RateLoading((up - down) / (2 * h) * weight, index, spread**-2.0)


def rounding_width(
    weight: Float[np.ndarray, " n"], curvature: Float[np.ndarray, " n"], spread: Float[np.ndarray, " n"], limit: float
) -> Float[np.ndarray, " n"]:
    """Half-widths (n,) over which to smooth the kinks of a loss, for the force of a trajectory only.

    ``weight``, ``curvature`` and ``spread`` (n,) are the rows' weights, curvatures and standard deviations of the
    scores. A half-width ``h`` is at most ``limit`` standard deviations. Smoothing changes the energy along a
    trajectory by an error with variance about ``Σ c D h³/24``, with ``c`` the weight and ``D`` the curvature of a row,
    which is at most ``Rules.rounding``.

    Examples
    --------
    >>> rounding_width(np.ones(1), np.full(1, 6.0), np.ones(1), 3.0).tolist()
    [1.0]
    """
    variance = np.sum(weight * curvature * spread**3) / 24
    share = min(limit, float((RULES.rounding / variance) ** (1 / 3)))
    return share * np.maximum(spread, RULES.spread * spread.max())
