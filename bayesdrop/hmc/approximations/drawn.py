r"""Normal approximation of a posterior of one score and many features, around the point fit.

Rows say of the weights what their curvatures ``D`` say, so that the precision is ``H = P + A₀ᵀDA₀`` in the notation of
:mod:`bayesdrop.hmc.kernels.factors`, ``P`` being that of the prior and of what noise adds, and the probits of free
rates are coordinates in addition to the weights. It begins at the point fit, at known rates or the medians of their
priors. Then, twice or three times over, a factor of ``H⁻¹`` is made, and the centre moves by Newton's steps of that
factor: without noise to the least mean energy over draws from the approximation, whose spread of the scores also
averages the curvatures, so that it ends near the best normal approximation (Opper & Archambeau 2009, section 3); with
noise towards the mode, by few steps.

Shapes: ``n`` rows, ``p`` features, ``q`` weights and free rates, ``D`` coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr, ndtri

from ..._typing import Float
from ...data.dataset import Dataset
from ...fitting.objective.energy import Energy
from ...fitting.problems.block import fit_block
from ...fitting.solvers.newton import Newton
from ...model import Model
from ...moments import ScoreMoments
from ...rates import Fixed, RateMap
from ..kernels.density import Evaluation, Point
from ..kernels.factors import FactorMap
from .choices import without_noise
from .precision import Precision, RateLoading, loading_of, precision_of

__all__ = ["DrawnApproximation", "drawn_approximation", "rounding_width"]


class DrawnApproximation(NamedTuple):
    """What it is made of.

    Attributes
    ----------
    centre : array (D,)
        Mean of weights less those of their prior, intercept and probits of the rates.
    precision : Precision
        ``H`` of weights and probits.
    spread : array (n,)
        Standard deviations of the scores.
    pull : array (n,)
        What each row says besides its curvature ``d``: the ``a`` of its cost ``½ d m² − a m`` of a score ``m``, that of
        weights less the means of their prior.
    gain : array (p,)
        What the scores of the weights are multiplied by.
    rates : RateLoading, optional
        How free rates come in.
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
    factor_of: Callable[[DrawnApproximation], FactorMap],
    draws: int = 16,
    steps: int = 5,
) -> DrawnApproximation:
    """Approximate the posterior whose density ``evaluate`` gives at points (C, D).

    Parameters
    ----------
    factor_of : callable
        From an approximation to the factor of its covariance.
    draws, steps : int
        Draws of the mean energy, an even number, and Newton's steps at most with a factor.
    """
    noisy, u = not without_noise(model, rate_map), np.zeros(0)
    if rate_map.is_free:
        law = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
        u = ndtri(np.clip(law.quantile(0.5), 0.02, 0.98))
    rate = _rates_at(rate_map, u)
    fixed = replace(model, rates=Fixed(rate) if model.noise.has_rate else None)
    fit = fit_block(
        fixed, data.design, fixed.bind(data.feature_names), data.target[:, None], data.weight, Newton(tol=1e-6),
        offset=data.offset,
    )  # fmt: skip
    p, keep = len(data.feature_names), len(fit.weights) - (not model.fit_intercept)
    centre = np.concatenate([fit.weights[:keep, 0], u])
    location = model.weight_prior.location(p)
    if location is not None:
        centre[:p] -= location
    half = np.random.default_rng(0).normal(size=(draws // 2, len(centre)))
    spread: Any = np.zeros((data.design.shape[0], 1))
    if model.loss.piecewise_linear and not noisy:
        # A rough spread of the scores under the prior keeps the curvature finite.
        spread = np.sqrt(data.design.sq_matvec(1 / (model.weight_prior.precision(p)[:, None] + 1)) + 1.0)
    for left in (1, 0) if noisy else (2, 1, 0):
        found = _at(model, data, rate_map, centre, spread)
        if not left:
            break
        factor = factor_of(found)
        away = _times(factor, jnp.asarray(np.concatenate([half, -half]), factor.stretch.dtype))
        theta = np.asarray(away, float)
        parts, level = np.delete(theta, slice(p, keep), axis=1), theta[:, p:keep]
        scores = data.design.matvec(found.precision.loading @ parts.T) + level.sum(axis=1)
        spread = np.sqrt(np.mean(scores**2, axis=1, keepdims=True))
        spread = np.maximum(spread, 1e-3 * (float(spread.max()) or 1.0))
        centre = _moved(centre, evaluate, factor, 0 * away[:1] if noisy else away, steps)
    return found._replace(spread=spread[:, 0])


def _rates_at(rate_map: RateMap, u: Float[np.ndarray, " k"]) -> Float[np.ndarray, " p"]:
    return rate_map.expand(ndtr(u)) if rate_map.is_free else rate_map.initial


@jax.jit
def _times(factor: FactorMap, z: Point) -> Point:
    return factor.times(z)


@jax.jit
def _newton(factor: FactorMap, gradient: Point) -> Point:
    return -factor.times(factor.transposed_times(gradient))


@jax.jit
def _mean(found: Evaluation) -> tuple[Any, Point]:
    return jnp.mean(jnp.sum(found.cost, axis=1) - found.prior), jnp.mean(found.gradient, axis=0)[None]


def _moved(
    centre: Float[np.ndarray, " D"],
    evaluate: Callable[[Point], Evaluation],
    factor: FactorMap,
    away: Point,
    steps: int,
) -> Float[np.ndarray, " D"]:
    """The centre after Newton's steps to the least mean energy at it plus ``away`` (C, D)."""

    def mean(at: Point) -> tuple[float, Point]:
        value, gradient = _mean(evaluate(at + away))
        return float(value), gradient

    at = jnp.asarray(centre, away.dtype)[None]
    value, gradient = mean(at)
    for _ in range(steps):
        step, before = _newton(factor, gradient), value
        for length in 0.5 ** np.arange(8):
            trial = at + jnp.asarray(length, at.dtype) * step
            value, slope = mean(trial)
            if value < before:
                at, gradient = trial, slope
                break
        # A tenth of a nat is negligible compared with the error of a trajectory.
        if not value < before - 0.1:
            break
    return np.asarray(at[0], float)


def _at(
    model: Model,
    data: Dataset,
    rate_map: RateMap,
    centre: Float[np.ndarray, " D"],
    spread: Float[np.ndarray, "n 1"],
    flat: float = 1e-6,
    least: float = 0.2,
) -> DrawnApproximation:
    """The approximation around a centre, curvatures averaged over scores of a spread."""
    # Curvature of a row, as a share of the largest, and precision of a weight, of the prior's, that are least.
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
        # A loss of the user's own may have no Gaussian form; its curvature is then that at the mean.
        smooth = hasattr(loss, "expectation")
        loss, spread = replace(loss, expectation="gaussian") if smooth else loss, spread if smooth else 0 * spread
    prior = np.append(model.weight_prior.precision(p), 0.0)[:, None]
    offset = None if data.offset is None else data.offset[:, None]
    energy = Energy(moments, loss, data.target[:, None], model.C * data.weight[:, None], prior, offset=offset)
    mean, var = moments.scores(weights)
    slopes = energy.derivatives(mean, var, spread)
    curve = energy.curvature(slopes, energy.gradient(weights, slopes)[1], np.zeros(1))
    bend = curve.mean_mean[:, 0]
    bend = np.maximum(bend, flat * (bend.max() or 1.0))
    own = np.maximum(curve.diagonal[:p, 0], least * prior[:p, 0])
    gain = np.asarray(np.broadcast_to(model.noise.coefficients(rate).gain, p), float)
    rates, whole = None, own
    if k:
        rates = _loading(model, data, rate_map, u, weights[:p, 0])
        whole = np.concatenate([own, rates.precision])
    precision = precision_of(design, whole, bend, intercept, loading_of(gain, rates))
    own = mean if location is None else moments.mean(away)
    return DrawnApproximation(centre, precision, spread[:, 0], bend * own[:, 0] - slopes.mean[:, 0], gain, rates)


def _loading(
    model: Model, data: Dataset, rate_map: RateMap, u: Float[np.ndarray, " k"], weight: Float[np.ndarray, " p"]
) -> RateLoading:
    """How free rates come in: what they do to the scores, and the precision of their priors' probits."""
    h, law = 1e-4, rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
    up, down = (model.noise.coefficients(_rates_at(rate_map, u + step)).gain * np.ones(len(weight)) for step in (h, -h))
    low, high = (ndtri(np.clip(law.quantile(q), 1e-6, 1 - 1e-6)) for q in (0.16, 0.84))
    spread = np.maximum((high - low) / 2, 1e-3)
    # A feature without noise has no slope, so that it does not matter whose rate it is.
    index = np.where(rate_map.noised, rate_map.index, 0)
    return RateLoading((up - down) / (2 * h) * weight, index, spread**-2.0)


def rounding_width(
    weight: Float[np.ndarray, " n"], curvature: Float[np.ndarray, " n"], spread: Float[np.ndarray, " n"], most: float
) -> Float[np.ndarray, " n"]:
    """Half-widths (n,) over which kinks are rounded, for weights, curvatures and deviations of the scores.

    They are at most so many standard deviations. Wide scores would make the rounded force that of another posterior:
    the energy that it gets wrong, in all rows about ``Σ c D h³/24`` of variance with ``c`` the weight of a row, is to
    stay below a quarter.

    Examples
    --------
    >>> rounding_width(np.ones(1), np.full(1, 6.0), np.ones(1), 3.0).tolist()
    [1.0]
    """
    wrong = np.sum(weight * curvature * spread**3) / 24
    share = min(most, float((0.25 / wrong) ** (1 / 3)))
    return share * np.maximum(spread, 1e-3 * spread.max())
