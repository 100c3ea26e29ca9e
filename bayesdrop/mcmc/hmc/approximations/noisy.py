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

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...._typing import Float
from ....data.dataset import Dataset
from ....model import Model
from ....rates import RateMap
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
from .row_factor import RateLoading, RowRoots, centred_gram, row_cholesky, row_roots
from .tilted_moments import FLAT, STILL, tilted_moments

__all__ = ["NoisyApproximation", "noisy_approximation"]

_STEPS, _SHARE, _CLOSE = 30, 0.5, 0.05
# Normal variables by which the variances of the weights are estimated.
_PROBES = 64


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


def noisy_approximation(model: Model, data: Dataset, rate_map: RateMap, integrated: bool) -> NoisyApproximation:
    """Approximate the posterior with noise; ``integrated`` if masks are, else with the marginalised loss.

    For noise without a shift, and normal weight priors.
    """
    from scipy.stats import norm

    design, free, intercept = data.design, rate_map.is_free, model.fit_intercept
    n, p = design.shape
    prior = model.weight_prior.precision(p)
    cost, (law, u, index) = row_costs(model, data, integrated), first_probits(data, rate_map)
    probes = _probes(p, len(u))
    weight, bias, own, spread = np.zeros(p), 0.0, 1 / prior, np.zeros(n)
    pull, curvature, precision = np.zeros(n), np.zeros(n), prior.copy()
    gain = np.ones(p)
    rates: Any = None
    gram: Any = None
    steps, jump = ProbitSteps(len(u)), np.zeros(len(u))
    for number in range(_STEPS):
        rate = norm.cdf(u)[index] if free else rate_map.initial
        noise = model.noise.coefficients(rate)
        gain = np.broadcast_to(noise.gain, p)
        second, mean = weight**2 + own, design.matvec(gain * weight) + bias
        if number == 0:
            spread = np.sqrt(design.sq_matvec(gain**2 * own) + 1e-12)
            spread = np.maximum(spread, STILL * spread.max())
        # The first rows are seen from the prior.
        found = tilted_moments(mean, spread, curvature, pull, partial(cost, noise_variance(design, noise, second)))
        bend, back = (
            np.maximum(found.curvature, FLAT * (found.curvature.max() or 1.0)),
            variance_slopes(design, found.for_var),
        )
        step = _SHARE if number else 1.0
        precision = precision + step * (noisy_precision(prior, noise, back) - precision)
        curvature = curvature + step * (bend - curvature)
        pull = pull + step * (found.pull - pull)
        gram, shift = design.outer_gram(gain**2 / precision), np.zeros(n)
        if free:
            rates, away = rate_part(
                model, law, u, index, weight, second, back, 1 - precision * own, design.sq_rmatvec(curvature) * own
            )
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
            jump = steps.taken(moved)
            u = u + jump
        own = _variances(design, lower, gain, precision, root, probes, rates, intercept)
        spread = _spread(lower, curvature, intercept)
        bias = level - curvature @ design.matvec(gain * weight) / total if intercept else 0.0
        change = np.abs(weight - old).max() / np.sqrt(own.max())
        if number > SETTLED and max(change, np.abs(jump).max(initial=0)) < _CLOSE:
            break
    centre = np.concatenate([weight, [bias] if intercept else [], u])
    return NoisyApproximation(centre, precision, np.asarray(gain), rates, curvature, row_roots(gram, curvature))


def _probes(p: int, k: int) -> tuple[Float[np.ndarray, "p m"], Float[np.ndarray, "k m"]]:
    """Standard normal variables of weights and rates."""
    sizes = (p, _PROBES), (k, _PROBES)
    of_weights, of_rates = (np.random.default_rng(seed).normal(size=size) for seed, size in enumerate(sizes))
    return of_weights, of_rates


def _solve(lower: Float[np.ndarray, "n n"], vector: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    from scipy.linalg import cho_solve

    solved: Float[np.ndarray, " n"] = cho_solve((lower, True), vector, check_finite=False)
    return solved


def _mean(design: Any, curvature: Float[np.ndarray, " n"], intercept: bool) -> Any:
    return design.rmatvec(curvature) / curvature.sum() if intercept else 0.0


def _variances(
    design: Any,
    lower: Float[np.ndarray, "n n"],
    gain: Float[np.ndarray, " p"],
    precision: Float[np.ndarray, " p"],
    root: Float[np.ndarray, " n"],
    normal: tuple[Float[np.ndarray, "p m"], Float[np.ndarray, "k m"]],
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

    (probes, draws), extra = normal, np.zeros((1, 1))
    if rates is not None:
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
    return np.maximum(spread, STILL * spread.max())
