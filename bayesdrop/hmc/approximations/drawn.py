r"""Normal approximation of a posterior of many rows and many features, by draws of itself.

Without noise the best normal approximation ``N(c, H⁻¹)`` (Opper & Archambeau 2009, section 3) has ``H = P + XᵀDX`` with

    g_i = E ∂cost_i(s_i),    D_i = E ∂²cost_i(s_i),    s_i ~ N(m_i, v_i),    Pc + Xᵀg = 0,

``m`` and ``v`` being the mean and variance of the scores under it. With noise the rows say what :mod:`.noisy_rows` has:
their variances add to ``P``, and the probits of free rates are coordinates beside the weights. Here no factor of ``H``
is within reach. Products with it (:mod:`.drawn_precision`) take two with the matrix, so that by conjugate gradients a
step of Newton's method and draws ``H⁻¹(P^½ε + XᵀD^½ε')`` (Papandreou & Yuille 2010), whose law is ``N(0, H⁻¹)``, are
solved for side by side, and the variances ``v`` are those of the draws. Variances of single weights, which noise asks
for, are those given all else and what the draws say of the means that they have then,

    Var w_j = 1/H_jj + Var{w_j − (Hw)_j/H_jj}

(Sidén, Lindgren, Bolin & Villani 2018): for most words the first is nearly all. As in
:mod:`bayesdrop.hmc.kernels.factors` rows are less their mean if there is an intercept. Nothing about a sampler's
correctness rests on any of it.

Shapes: ``n`` rows, ``p`` features, ``q`` weights and free rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float
from ...data.dataset import Dataset
from ...losses.protocols import Curved, require
from ...model import Model
from ...rates import RateMap
from .choices import without_noise
from .drawn_precision import Precision, conjugate_gradients, loading_of, precision_of
from .noisy_rows import (
    SETTLED,
    ProbitSteps,
    first_probits,
    noise_variance,
    noisy_precision,
    rate_part,
    row_costs,
    variance_slopes,
)
from .row_factor import RateLoading
from .tilted_moments import FLAT, STILL, tilted_moments

__all__ = ["DrawnApproximation", "drawn_approximation", "rounding_width"]

_STEPS, _SHARE, _CLOSE = 40, 0.5, 0.05
_DRAWS = 16
# Most of a score's precision that its own row may make up, where its variance is that of few draws.
_OWN = 0.9


class DrawnApproximation(NamedTuple):
    """What it is made of.

    Attributes
    ----------
    centre : array (D,)
        Mean of weights, intercept and probits of the rates.
    precision : Precision
        ``H`` of weights and probits.
    spread : array (n,)
        Standard deviations of the scores.
    pull : array (n,)
        What each row says beside its curvature ``d``: in place of its cost ``½ d m² − a m`` of a score ``m``.
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


def drawn_approximation(model: Model, data: Dataset, rate_map: RateMap, integrated: bool) -> DrawnApproximation:
    """Approximate the posterior; ``integrated`` if masks are, else noise comes in by the marginalised loss.

    Raises
    ------
    ValueError
        If the loss has no derivatives.
    """
    from scipy.stats import norm

    noisy, free, intercept = not without_noise(model, rate_map), rate_map.is_free, model.fit_intercept
    rows = row_costs(model, data, integrated) if noisy else None
    plain: Any = None if noisy else _plain_slopes(model, data)
    design = data.design
    n, p = design.shape
    prior, (law, u, index) = model.weight_prior.precision(p), first_probits(data, rate_map)
    k = len(u)
    of_weights, of_rows, of_level = _normals(n, p, k)
    weight, level, draws = np.zeros(p), 0.0, np.zeros(of_weights.shape)
    own, precision, curvature, mean, spread = 1 / prior, prior, np.zeros(n), np.zeros(n), np.zeros(n)
    pulled = np.zeros(n)
    back: Any = None
    rates, away, steps, jump = None, np.zeros(k), ProbitSteps(k), np.zeros(k)
    found: Any = None
    for number in range(_STEPS):
        noise = model.noise.coefficients(norm.cdf(u)[index] if free else rate_map.initial)
        gain, step = np.broadcast_to(noise.gain, p), _SHARE if number else 1.0
        if number == 0:
            spread = _followed(design.sq_matvec(gain**2 * own), curvature)
        second = weight**2 + own
        if rows is None:
            slope, bend = plain(mean, spread)
        else:
            told = tilted_moments(mean, spread, curvature, pulled, partial(rows, noise_variance(design, noise, second)))
            bend, pulled = told.curvature, pulled + step * (told.pull - pulled)
            back = variance_slopes(design, told.for_var)
            precision = precision + step * (noisy_precision(prior, noise, back) - precision)
        curvature = curvature + step * (np.maximum(bend, FLAT * (bend.max() or 1.0)) - curvature)
        if rows is None:
            pulled = curvature * mean - slope
        else:
            slope = curvature * mean - pulled
        if free:
            spent = design.sq_rmatvec(curvature) * own
            rates, away = rate_part(model, law, u, index, weight, second, back, 1 - precision * own, spent)
        whole = precision if rates is None else np.concatenate([precision, rates.precision])
        found = precision_of(design, whole, curvature, intercept, loading_of(gain, rates))
        total, sum_slope = curvature.sum(), slope.sum() if intercept else 0.0
        pull = -(whole * np.concatenate([weight, -away]) + found.loading.T @ design.rmatvec(slope))
        right = np.column_stack([pull + found.mean * sum_slope, found.noise(of_weights, of_rows)])
        diagonal = found.diagonal()
        solved = conjugate_gradients(found.times, right, diagonal, np.column_stack([np.zeros(p + k), draws]))
        move, draws = solved[:, 0], solved[:, 1:]
        jump = steps.taken(move[p:])
        move = np.concatenate([move[:p], jump])
        weight, u = weight + move[:p], u + jump
        level = level - sum_slope / total - found.mean @ move if intercept else 0.0
        if noisy:
            around = draws[:p] - right[:p, 1:] / diagonal[:p, None]
            own = np.minimum(1 / diagonal[:p] + np.mean(around**2, axis=1), 1 / precision)
        scores = found.rows(draws) + (of_level / np.sqrt(total) if intercept else 0.0)
        before = mean, spread
        if free:
            gain = np.broadcast_to(model.noise.coefficients(norm.cdf(u)[index]).gain, p)
        mean = design.matvec(gain * weight) + level
        spread = _followed(np.mean(scores**2, axis=1), curvature)
        change = np.mean((mean - before[0]) ** 2), np.mean((spread - before[1]) ** 2)
        still = max(change) < _CLOSE**2 * np.mean(spread**2)
        if still and (number > SETTLED or not free) and np.abs(jump).max(initial=0) < _CLOSE:
            break
    centre = np.concatenate([weight, [level] if intercept else [], u])
    return DrawnApproximation(centre, found, spread, pulled, np.asarray(gain), rates)


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


def _normals(n: int, p: int, k: int) -> tuple[Float[np.ndarray, "_ m"], ...]:
    """Standard normal variables, those of weights and rates, of rows, and of the intercept's level."""
    generator = np.random.default_rng(0)
    of_weights, of_rows, of_level, of_rates = (generator.normal(size=(size, _DRAWS)) for size in (p, n, 1, k))
    return np.concatenate([of_weights, of_rates]), of_rows, of_level


def _followed(variance: Float[np.ndarray, " n"], curvature: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Deviations of the scores; what a row itself says of its score, few draws may show as more than there is."""
    known = np.sqrt(np.minimum(variance, _OWN / np.maximum(curvature, 1e-300)))
    found: Float[np.ndarray, " n"] = np.maximum(known, STILL * known.max())
    return found


def _plain_slopes(model: Model, data: Dataset) -> Callable[..., tuple[Any, Any]]:
    """Averages of slopes and curvatures of the rows without noise, in the Gaussian form of the loss."""
    loss: Any = require(model.loss.plain, Curved, "hmc", "write what lacks, or use bd.fit")
    gaussian = hasattr(loss, "expectation")
    # A loss of the user's own may have no Gaussian form; its curvature is then that at the mean.
    loss = replace(loss, expectation="gaussian") if gaussian else loss
    weight, known = model.C * data.weight, 0.0 if data.offset is None else data.offset

    def expected(mean: Any, spread: Any) -> tuple[Any, Any]:
        slopes = loss.derivatives(data.target, mean + known, spread**2 if gaussian else 0 * spread)
        return weight * slopes.mean, weight * np.maximum(slopes.mean_mean, 0)

    return expected
