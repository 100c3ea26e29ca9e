r"""What rows with noise say of weights and rates under a normal approximation of the posterior.

A row's cost depends on the mean ``m_i`` and the variance ``v_i`` of its score. Under the approximation ``m_i`` is
normal; ``v_i`` is taken at its mean. A row says a curvature and a pull, by the moments of ``m_i`` under its own cost
(:mod:`.tilted_moments`), and the mean slope ``f_i`` in the variance.

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
from ...losses.normal_score import row_cost
from ...model import Model
from ...noise import Coefficients
from ...rates import RateMap
from .row_factor import RateLoading

__all__ = [
    "SETTLED", "Costs", "ProbitSteps", "VarianceSlopes", "first_probits", "noise_variance", "noisy_precision",
    "rate_part", "row_costs", "variance_slopes",
]  # fmt: skip

# The noise may take so much of the prior's precision.
_LEAST = 0.2
# Steps after which the weights are settled, so that those of the rates may grow.
SETTLED = 3
# First share of a step that a probit makes, and how far it may move in one.
_SHARE, _LONGEST = 0.5, 0.5

Nodes = Float[np.ndarray, "n nodes"]
Costs = Callable[[Float[np.ndarray, " n"], Nodes], tuple[Nodes, Nodes, Nodes]]
"""The cost of each row and its slopes in both, for variances (n,) and means (n, nodes) of its score."""


def row_costs(model: Model, data: Dataset, integrated: bool) -> Costs:
    """What each row costs; scores come without an offset.

    ``integrated`` if masks are, else the cost is the marginalised loss.
    """
    loss: Any = model.loss.plain if integrated else model.loss
    weight, y = (model.C * data.weight)[:, None], data.target[:, None]
    known = 0.0 if data.offset is None else data.offset[:, None]

    def cost(var: Float[np.ndarray, " n"], mean: Nodes) -> tuple[Nodes, Nodes, Nodes]:
        parts = np.broadcast_arrays(y, mean + known, var[:, None], weight)
        target, mean, spread, times = (np.ascontiguousarray(part) for part in parts)
        if integrated:
            value, slope, for_var = row_cost(loss, target, mean, spread, model.C, times / model.C)
            return value, slope, for_var
        found = loss.derivatives(target, mean, spread)
        return times * loss.value(target, mean, spread), times * found.mean, times * found.var

    return cost


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

    Rates and weights follow each other slowly: once the weights are settled, steps in one direction grow until they
    first turn back (Riedmiller & Braun 1993).

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
        self._turned = np.zeros(size, dtype=bool)

    def taken(self, whole: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """The steps, for whole ones."""
        if self._number > SETTLED:
            back = whole * self._before < 0
            self._turned |= back
            growth = np.where(back, 0.5, np.where(self._turned, 1.0, 1.5))
            self._relax = np.clip(self._relax * growth, 0.1, 10.0)
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
