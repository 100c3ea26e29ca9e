r"""Normal approximation of a posterior with noise and of more features than rows, by its scores.

With noise a row's cost depends on the mean ``m_i`` and the variance ``v_i`` of its score. The approximation has a slope
and a curvature for each row, by the moments of ``m_i`` (:mod:`.tilted_moments`) at the expected ``v_i``; what the
variances say of the weights, ``Σ_i ∂cost_i/∂v_i v_i(w)``, is quadratic in them and adds to the precision of the prior.
Free rates ``η = Φ(u)`` are coordinates beside the weights: their change moves the scores by ``X`` times what it does to
the coefficients of the weights, and a Gauss-Newton step moves all at once. Nothing about a sampler's correctness rests
on it.

Shapes: ``n`` rows, ``p`` features, ``k`` free rates.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float
from ...data.dataset import Dataset
from ...model import Model
from ...rates import RateMap
from .row_factor import RateLoading, RowRoots, centred_gram, row_cholesky, row_roots
from .tilted_moments import tilted_moments

__all__ = ["NoisyApproximation", "noisy_approximation"]

_STEPS, _SETTLED, _SHARE, _CLOSE = 30, 3, 0.5, 0.05
_FLAT, _STILL = 1e-6, 1e-3
# Normal variables by which the variances of the weights are estimated.
_PROBES = 64
# The noise may take so much of the prior's precision, and a step may move a probit so far.
_LEAST, _LONGEST = 0.2, 0.5


class NoisyApproximation(NamedTuple):
    """What it is made of.

    Attributes
    ----------
    centre : array (D,)
        Weights, intercept, probits of the rates.
    precision, gain : array (p,)
        Precision of the weights, noise included, and what their scores are multiplied by.
    rates : RateLoading, optional
        How free rates come in.
    curvature : array (n,)
        Of the rows.
    roots : RowRoots
        For them all.
    """

    centre: Float[np.ndarray, " D"]
    precision: Float[np.ndarray, " p"]
    gain: Float[np.ndarray, " p"]
    rates: RateLoading | None
    curvature: Float[np.ndarray, " n"]
    roots: RowRoots


Nodes = Float[np.ndarray, "n nodes"]


def _cost(model: Model, data: Dataset, integrated: bool) -> Callable[..., tuple[Nodes, Nodes, Nodes]]:
    """The cost of each row, given the variances (n,) and the means (n, nodes) of its score, and its slopes in both.

    Scores come without an offset.
    """
    loss: Any = model.loss.plain if integrated else model.loss
    weight, y = (model.C * data.weight)[:, None], data.target[:, None]
    known = 0.0 if data.offset is None else data.offset[:, None]

    def cost(var: Float[np.ndarray, " n"], mean: Nodes) -> tuple[Nodes, Nodes, Nodes]:
        parts = np.broadcast_arrays(y, mean + known, var[:, None], weight)
        target, mean, spread, times = (np.ascontiguousarray(part) for part in parts)
        if integrated:
            value, slope, for_var = loss.score_cost(target, mean, spread, times)
            return value, slope, for_var
        found = loss.derivatives(target, mean, spread)
        return times * loss.value(target, mean, spread), times * found.mean, times * found.var

    return cost


def noisy_approximation(model: Model, data: Dataset, rate_map: RateMap, integrated: bool) -> NoisyApproximation:
    """Approximate the posterior with noise; ``integrated`` if masks are, else with the marginalised loss.

    For noise without a shift, and normal weight priors.
    """
    from scipy.stats import norm

    design, free, intercept = data.design, rate_map.is_free, model.fit_intercept
    n, p = design.shape
    prior = model.weight_prior.precision(p)
    cost, index = _cost(model, data, integrated), np.asarray(rate_map.index)
    law: Any = rate_map.prior.law(data.occurrences(index, rate_map.size)) if free else None
    u = norm.ppf(np.clip(law.quantile(0.5), 0.02, 0.98)) if free else np.zeros(0)
    probes = np.random.default_rng(0).normal(size=(p, _PROBES))
    weight, bias, own, spread = np.zeros(p), 0.0, 1 / prior, np.zeros(n)
    pull, curvature, precision = np.zeros(n), np.zeros(n), prior.copy()
    gain = np.ones(p)
    rates: Any = None
    gram: Any = None
    relax, before, jump = np.full(len(u), _SHARE), np.zeros(len(u)), np.zeros(len(u))
    turned = np.zeros(len(u), bool)
    for number in range(_STEPS):
        rate = norm.cdf(u)[index] if free else rate_map.initial
        noise = model.noise.coefficients(rate)
        gain = np.broadcast_to(noise.gain, p)
        second, mean = weight**2 + own, design.matvec(gain * weight) + bias
        var = design.sq_matvec(noise.quadratic * second) + design.matvec(noise.linear * second)
        var = np.maximum(var + np.sum(noise.constant * second), 1e-12)
        if number == 0:
            spread = np.sqrt(design.sq_matvec(gain**2 * own) + 1e-12)
            spread = np.maximum(spread, _STILL * spread.max())
        # The first rows are seen from the prior.
        found = tilted_moments(mean, spread, curvature, pull, partial(cost, var))
        bend, for_var = np.maximum(found.curvature, _FLAT * (found.curvature.max() or 1.0)), found.for_var
        by_square, by_row = design.sq_rmatvec(for_var), design.rmatvec(for_var)
        back = noise.quadratic * by_square + noise.linear * by_row + noise.constant * for_var.sum()
        step = _SHARE if number else 1.0
        precision = precision + step * (np.maximum(prior + 2 * back, _LEAST * prior) - precision)
        curvature = curvature + step * (bend - curvature)
        pull = pull + step * (found.pull - pull)
        gram, shift = design.outer_gram(gain**2 / precision), np.zeros(n)
        if free:
            rates, away = _rates(
                model, law, u, rate, index, weight, second,
                (by_square, by_row, for_var.sum()), 1 - precision * own, design.sq_rmatvec(curvature) * own,
            )  # fmt: skip
            gram = gram + rates.gram(design)
            # The scores at the rates where their own part of the density would have them.
            shift = design.matvec(rates.slope * away[index])
        gram = centred_gram(gram, curvature, intercept)
        if intercept:
            shift = shift - curvature @ shift / curvature.sum()
        lower = row_cholesky(gram, curvature)
        root, total = np.sqrt(curvature), curvature.sum()
        level = pull.sum() / total if intercept else 0.0
        residual = pull - curvature * (level + shift)
        # (1 + G)⁻¹ from its Cholesky factor.
        dual = residual - root * _solve(lower, root * (gram @ residual))
        old, weight = (
            weight,
            gain * (design.rmatvec(dual) - _mean(design, curvature, intercept) * dual.sum()) / precision,
        )
        if free:
            moved = away + np.bincount(index, rates.slope * design.rmatvec(dual), len(u)) / rates.precision
            # Rates and weights follow each other slowly: once the weights are settled, steps in one direction grow
            # until they first turn back (Riedmiller & Braun 1993).
            if number > _SETTLED:
                back_again = moved * before < 0
                turned |= back_again
                relax = np.clip(relax * np.where(back_again, 0.5, np.where(turned, 1.0, 1.5)), 0.1, 10.0)
            jump, before = np.clip(relax * moved, -_LONGEST, _LONGEST), moved
            u = u + jump
        own = _variances(design, lower, gain, precision, root, probes, rates, intercept)
        spread = _spread(lower, curvature, intercept)
        bias = level - curvature @ design.matvec(gain * weight) / total if intercept else 0.0
        change = np.abs(weight - old).max() / np.sqrt(own.max())
        if number > _SETTLED and max(change, np.abs(jump).max(initial=0)) < _CLOSE:
            break
    centre = np.concatenate([weight, [bias] if intercept else [], u])
    return NoisyApproximation(centre, precision, np.asarray(gain), rates, curvature, row_roots(gram, curvature))


def _solve(lower: Float[np.ndarray, "n n"], vector: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    from scipy.linalg import cho_solve

    solved: Float[np.ndarray, " n"] = cho_solve((lower, True), vector, check_finite=False)
    return solved


def _mean(design: Any, curvature: Float[np.ndarray, " n"], intercept: bool) -> Any:
    return design.rmatvec(curvature) / curvature.sum() if intercept else 0.0


def _rates(
    model: Model,
    law: Any,
    u: Float[np.ndarray, " k"],
    rate: Float[np.ndarray, " p"],
    index: Any,
    weight: Float[np.ndarray, " p"],
    second: Float[np.ndarray, " p"],
    backs: Any,
    told: Float[np.ndarray, " p"],
    spread: Float[np.ndarray, " p"],
) -> tuple[RateLoading, Float[np.ndarray, " k"]]:
    """How the rates come in, and how far their own part of the density would move them.

    ``told`` is the share of each weight's precision that the rows give.
    """
    from scipy.stats import norm

    h, k = 1e-4, len(u)
    upper, lower = (model.noise.coefficients(norm.cdf((u + step)[index])) for step in (h, -h))
    change = [(a - b) / (2 * h) * np.ones(len(index)) for a, b in zip(upper, lower, strict=True)]
    gain_slope = change[0]
    gain = np.asarray(model.noise.coefficients(rate).gain) * np.ones(len(index))

    def log_prior(at: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        value: Float[np.ndarray, " k"] = law.log_rate_density(norm.logcdf(at), norm.logcdf(-at)) - 0.5 * at**2
        return value

    wide = 1e-3
    values = [np.asarray(log_prior(u + step)) for step in (-wide, 0.0, wide)]
    prior_slope = (values[2] - values[0]) / (2 * wide)
    prior_bend = -(values[2] - 2 * values[1] + values[0]) / wide**2
    own = second * (change[2] * backs[0] + change[3] * backs[1] + change[4] * backs[2])
    # A score and a weight vary together, as much as the rows tell of the weight.
    own = own + gain_slope / np.maximum(gain, 1e-3) * np.maximum(told, 0)
    bend = np.bincount(index, gain_slope**2 * spread, k)
    precision = np.maximum(prior_bend, 0.1) + bend
    gradient = np.bincount(index, own, k) - prior_slope
    return RateLoading(gain_slope * weight, index, precision), -gradient / precision


def _variances(
    design: Any,
    lower: Float[np.ndarray, "n n"],
    gain: Float[np.ndarray, " p"],
    precision: Float[np.ndarray, " p"],
    root: Float[np.ndarray, " n"],
    probes: Float[np.ndarray, "p m"],
    rates: RateLoading | None,
    intercept: bool,
) -> Float[np.ndarray, " p"]:
    """Variances of the weights, (p,), from draws of the approximation."""
    from scipy.linalg import solve_triangular

    share = root**2 / np.sum(root**2)
    loading = (gain * precision**-0.5)[:, None]
    mean = design.rmatvec(share)[:, None] if intercept else 0.0

    def rows(z: Any, extra: Any) -> Any:
        found = design.matvec(loading * z + extra)
        return found - share @ found if intercept else found

    extra, draws = np.zeros((1, 1)), np.zeros((0, probes.shape[1]))
    if rates is not None:
        draws = np.random.default_rng(1).normal(size=(len(rates.precision), probes.shape[1]))
        extra = (draws / np.sqrt(rates.precision)[:, None])[rates.index] * rates.slope[:, None]
    image = rows(probes, extra)
    # N = L⁻ᵀ(1 + L)⁻¹ of a few vectors, without its matrix.
    inside = solve_triangular(lower + np.eye(len(root)), root[:, None] * image, lower=True, check_finite=False)
    inside = root[:, None] * solve_triangular(lower, inside, lower=True, trans="T", check_finite=False)
    back = design.rmatvec(inside) - mean * inside.sum(axis=0)
    z = probes - loading * back
    # The share of the prior's variance that is left varies less between draws than the variance itself.
    found: Float[np.ndarray, " p"] = np.clip(np.mean(z**2, axis=1) / np.mean(probes**2, axis=1), 1e-3, 1.0) / precision
    return found


def _spread(
    lower: Float[np.ndarray, "n n"], curvature: Float[np.ndarray, " n"], intercept: bool
) -> Float[np.ndarray, " n"]:
    """Deviations of the scores, (n,): their covariance is ``D^{−½}{1 − (LLᵀ)⁻¹}D^{−½}``, and that of an intercept."""
    from scipy.linalg.lapack import dtrtri

    inverse, _ = dtrtri(lower, lower=True)
    told = np.maximum(1 - np.sum(inverse**2, axis=0), 0)
    spread = np.sqrt(told / curvature + (1 / curvature.sum() if intercept else 0.0))
    # The score of a row of zeros stands still.
    return np.maximum(spread, _STILL * spread.max())
