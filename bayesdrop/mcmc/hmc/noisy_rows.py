r"""What rows with noise say of weights and rates, on average over a normal approximation of the posterior.

A row's cost depends on the mean ``m_i`` and the variance ``v_i`` of its score. Under the approximation ``m_i`` is
normal with a deviation ``t_i``; ``v_i`` is taken at its mean. With ``z`` standard normal a row has the slope, the
curvature (by Stein's identity) and the slope in the variance

    g_i = E ∂cost_i/∂m(m_i + t_i z),    D_i = E z ∂cost_i/∂m(m_i + t_i z) / t_i,    f_i = E ∂cost_i/∂v(m_i + t_i z).

The variances ``v = X²(a∘w²) + X(b∘w²) + c·w²`` are quadratic in the weights, to whose precision they add
``2{a∘(X²)ᵀf + b∘Xᵀf + c Σf}``. Free rates ``η = Φ(u)`` move the scores by ``X`` times what they do to the gains of the
weights, and their own part of the density is that of their prior and of the variances.

Shapes: ``n`` rows, ``p`` features, ``k`` free rates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float, Int
from ...data.dataset import Dataset
from ...designs import Design
from ...model import Model
from ...noise import Coefficients
from ...rates import RateMap
from .row_factor import RateLoading

__all__ = [
    "Expected", "ProbitSteps", "VarianceSlopes", "expected_slopes", "first_probits", "noise_variance",
    "noisy_precision", "rate_part", "variance_slopes",
]  # fmt: skip

# Nodes of an average over a score, and curvature of a row, as a share of the largest, below which it is not followed.
_NODES, _FLAT = 9, 1e-6
# The noise may take so much of the prior's precision.
_LEAST = 0.2
# First share of a step that a probit makes, and how far it may move in one.
_SHARE, _LONGEST = 0.5, 0.5

Expected = Callable[[Any, Any, Any], tuple[Any, Any, Any]]
"""Slopes, curvatures and slopes in the variance of all rows, for means, deviations and variances of scores (n,)."""


def expected_slopes(model: Model, data: Dataset, integrated: bool) -> Expected:
    """Averages ``g``, ``D`` and ``f`` of the rows; scores come without an offset.

    ``integrated`` if masks are, else the cost is the marginalised loss.
    """
    loss: Any = model.loss.plain if integrated else model.loss
    weight, y = (model.C * data.weight)[:, None], data.target[:, None]
    known = 0.0 if data.offset is None else data.offset[:, None]
    node, share = np.polynomial.hermite_e.hermegauss(_NODES)
    share = share / share.sum()

    def slopes(mean: Any, var: Any) -> tuple[Any, Any]:
        target, times, mean = np.broadcast_to(y, mean.shape), np.broadcast_to(weight, mean.shape), mean + known
        if integrated:
            cost = loss.score_cost(target, mean, var, times)
            return cost.mean, cost.var
        found = loss.derivatives(target, mean, var)
        return weight * found.mean, weight * found.var

    def expected(mean: Any, spread: Any, var: Any) -> tuple[Any, Any, Any]:
        slope, for_var = slopes(mean[:, None] + spread[:, None] * node, np.repeat(var[:, None], _NODES, axis=1))
        bend = np.maximum(slope @ (share * node) / spread, 0)
        return slope @ share, np.maximum(bend, _FLAT * (bend.max() or 1.0)), for_var @ share

    return expected


def noise_variance(design: Design, noise: Coefficients, second: Float[np.ndarray, " p"]) -> Float[np.ndarray, " n"]:
    """Expected variances of the scores, for second moments of the weights."""
    var = design.sq_matvec(noise.quadratic * second) + design.matvec(noise.linear * second)
    found: Float[np.ndarray, " n"] = np.maximum(var + np.sum(noise.constant * second), 1e-12)
    return found


class VarianceSlopes(NamedTuple):
    """Sums over the rows of ``f_i`` times what each part of the noise multiplies a squared weight by."""

    quadratic: Float[np.ndarray, " p"]
    linear: Float[np.ndarray, " p"]
    constant: float

    def times(self, quadratic: Any, linear: Any, constant: Any) -> Float[np.ndarray, " p"]:
        """Slope in the square of each weight, for such coefficients."""
        found: Float[np.ndarray, " p"] = quadratic * self.quadratic + linear * self.linear + constant * self.constant
        return found


def variance_slopes(design: Design, for_var: Float[np.ndarray, " n"]) -> VarianceSlopes:
    """Those sums for slopes in the variances (n,)."""
    return VarianceSlopes(design.sq_rmatvec(for_var), design.rmatvec(for_var), float(for_var.sum()))


def noisy_precision(
    prior: Float[np.ndarray, " p"], noise: Coefficients, back: VarianceSlopes
) -> Float[np.ndarray, " p"]:
    """Precision of the weights, that of the prior and what the variances add."""
    added = back.times(noise.quadratic, noise.linear, noise.constant)
    found: Float[np.ndarray, " p"] = np.maximum(prior + 2 * added, _LEAST * prior)
    return found


def first_probits(data: Dataset, rate_map: RateMap) -> tuple[Any, Float[np.ndarray, " k"], Int[np.ndarray, " p"]]:
    """Prior law of the free rates, their probits at its medians, and the rate of each feature."""
    from scipy.stats import norm

    index: Any = np.asarray(rate_map.index)
    if not rate_map.is_free:
        return None, np.zeros(0), index
    law: Any = rate_map.prior.law(data.occurrences(index, rate_map.size))
    return law, norm.ppf(np.clip(law.quantile(0.5), 0.02, 0.98)), index


class ProbitSteps:
    """How far probits go of the way that a Gauss-Newton step would have them.

    Rates and weights follow each other slowly: steps in one direction grow (Riedmiller & Braun 1993).

    Parameters
    ----------
    size : int
        Number of free rates.

    Examples
    --------
    >>> ProbitSteps(2).taken(np.array([0.1, 4.0])).tolist()
    [0.05, 0.5]
    """

    def __init__(self, size: int) -> None:
        self._relax, self._before, self._number = np.full(size, _SHARE), np.zeros(size), 0

    def taken(self, whole: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """The steps, for whole ones."""
        if self._number > 2:
            grown = self._relax * np.where(whole * self._before > 0, 1.5, 0.5)
            self._relax = np.clip(grown, 0.1, 10.0)
        self._before, self._number = whole, self._number + 1
        return np.clip(self._relax * whole, -_LONGEST, _LONGEST)


def rate_part(
    model: Model,
    law: Any,
    u: Float[np.ndarray, " k"],
    index: Any,
    weight: Float[np.ndarray, " p"],
    second: Float[np.ndarray, " p"],
    back: VarianceSlopes,
    told: Float[np.ndarray, " p"],
    spread: Float[np.ndarray, " p"],
) -> tuple[RateLoading, Float[np.ndarray, " k"]]:
    """How the rates come in, and how far their own part of the density would move them.

    ``told`` is the share of each weight's precision that the rows give, ``spread`` (p,) the variance of the weights
    times the curvature that the rows have along them.
    """
    from scipy.stats import norm

    h, k = 1e-4, len(u)
    upper, lower = (model.noise.coefficients(norm.cdf((u + step)[index])) for step in (h, -h))
    change = Coefficients(*((a - b) / (2 * h) * np.ones(len(index)) for a, b in zip(upper, lower, strict=True)))
    gain = np.asarray(model.noise.coefficients(norm.cdf(u)[index]).gain) * np.ones(len(index))

    def log_prior(at: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        value: Float[np.ndarray, " k"] = law.log_rate_density(norm.logcdf(at), norm.logcdf(-at)) - 0.5 * at**2
        return value

    wide = 1e-3
    values = [np.asarray(log_prior(u + step)) for step in (-wide, 0.0, wide)]
    prior_slope = (values[2] - values[0]) / (2 * wide)
    prior_bend = -(values[2] - 2 * values[1] + values[0]) / wide**2
    own = second * back.times(change.quadratic, change.linear, change.constant)
    # A score and a weight vary together, as much as the rows tell of the weight.
    own = own + change.gain / np.maximum(gain, 1e-3) * np.maximum(told, 0)
    bend = np.bincount(index, change.gain**2 * spread, k)
    precision = np.maximum(prior_bend, 0.1) + bend
    gradient = np.bincount(index, own, k) - prior_slope
    return RateLoading(change.gain * weight, index, precision), -gradient / precision
