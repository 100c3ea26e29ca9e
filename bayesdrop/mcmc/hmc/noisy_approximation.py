r"""Normal approximation of a posterior with noise and of more features than rows, by its scores.

With noise a row's cost depends on the mean ``m_i`` and the variance ``v_i`` of its score. As in
:mod:`.score_approximation` the approximation has a slope and a curvature for each row, averaged over the posterior of
``m_i``, at the expected ``v_i``, and free rates ``η = Φ(u)`` are coordinates beside the weights (:mod:`.noisy_rows`); a
Gauss-Newton step moves all at once. Nothing about a sampler's correctness rests on it.

Shapes: ``n`` rows, ``p`` features, ``k`` free rates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float
from ...data.dataset import Dataset
from ...model import Model
from ...rates import RateMap
from .noisy_rows import (
    ProbitSteps,
    expected_slopes,
    first_probits,
    noise_variance,
    noisy_precision,
    rate_part,
    variance_slopes,
)
from .row_factor import RateLoading, RowRoots, centred_gram, row_roots

__all__ = ["NoisyApproximation", "noisy_approximation"]

_STEPS, _SHARE, _CLOSE = 20, 0.5, 0.05
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
    expected = expected_slopes(model, data, integrated)
    law, u, index = first_probits(data, rate_map)
    probes = _probes(p, len(u))
    weight, bias, own, spread = np.zeros(p), 0.0, 1 / prior, np.zeros(n)
    pull, curvature, precision = np.zeros(n), np.zeros(n), prior.copy()
    gain = np.ones(p)
    rates: Any = None
    roots: Any = None
    steps, jump = ProbitSteps(len(u)), np.zeros(len(u))
    for number in range(_STEPS):
        rate = norm.cdf(u)[index] if free else rate_map.initial
        noise = model.noise.coefficients(rate)
        gain = np.broadcast_to(noise.gain, p)
        second, mean = weight**2 + own, design.matvec(gain * weight) + bias
        if number == 0:
            spread = np.sqrt(design.sq_matvec(gain**2 * own) + 1e-12)
        slope, bend, for_var = expected(mean, spread, noise_variance(design, noise, second))
        back = variance_slopes(design, for_var)
        step = _SHARE if number else 1.0
        precision = precision + step * (noisy_precision(prior, noise, back) - precision)
        curvature = curvature + step * (bend - curvature)
        pull = bend * mean - slope if number == 0 else pull + step * (bend * mean - slope - pull)
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
        roots = row_roots(gram, curvature)
        root, total = np.sqrt(curvature), curvature.sum()
        level = pull.sum() / total if intercept else 0.0
        residual = pull - curvature * (level + shift)
        # (1 + G)⁻¹ from its Cholesky factor.
        dual = residual - root * _solve(roots, root * (gram @ residual))
        old, weight = (
            weight,
            gain * (design.rmatvec(dual) - _mean(design, curvature, intercept) * dual.sum()) / precision,
        )
        if free:
            moved = away + np.bincount(index, rates.slope * design.rmatvec(dual), len(u)) / rates.precision
            jump = steps.taken(moved)
            u = u + jump
        own, spread = _variances(design, roots, gain, precision, root, probes, rates, intercept)
        bias = level - curvature @ design.matvec(gain * weight) / total if intercept else 0.0
        change = np.abs(weight - old).max() / np.sqrt(own.max())
        if number > 3 and max(change, np.abs(jump).max(initial=0)) < _CLOSE:
            break
    centre = np.concatenate([weight, [bias] if intercept else [], u])
    return NoisyApproximation(centre, precision, np.asarray(gain), rates, curvature, roots)


def _probes(p: int, k: int) -> tuple[Float[np.ndarray, "p m"], Float[np.ndarray, "k m"]]:
    """Standard normal variables of weights and rates."""
    sizes = (p, _PROBES), (k, _PROBES)
    of_weights, of_rates = (np.random.default_rng(seed).normal(size=size) for seed, size in enumerate(sizes))
    return of_weights, of_rates


def _solve(roots: RowRoots, vector: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    from scipy.linalg import cho_solve

    solved: Float[np.ndarray, " n"] = cho_solve((roots.lower, True), vector, check_finite=False)
    return solved


def _mean(design: Any, curvature: Float[np.ndarray, " n"], intercept: bool) -> Any:
    return design.rmatvec(curvature) / curvature.sum() if intercept else 0.0


def _variances(
    design: Any,
    roots: RowRoots,
    gain: Float[np.ndarray, " p"],
    precision: Float[np.ndarray, " p"],
    root: Float[np.ndarray, " n"],
    normal: tuple[Float[np.ndarray, "p m"], Float[np.ndarray, "k m"]],
    rates: RateLoading | None,
    intercept: bool,
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " n"]]:
    """Variances of the weights, (p,), and deviations of the scores, (n,), from draws of the approximation."""
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
    inside = root[:, None] * (roots.inner @ (root[:, None] * image))
    back = design.rmatvec(inside) - mean * inside.sum(axis=0)
    z = probes - loading * back
    # The share of the prior's variance that is left varies less between draws than the variance itself.
    own = np.clip(np.mean(z**2, axis=1) / np.mean(probes**2, axis=1), 1e-3, 1.0) / precision
    if rates is not None:
        change = np.stack([np.bincount(rates.index, rates.slope * column, len(draws)) for column in back.T], axis=1)
        moved = draws - change / np.sqrt(rates.precision)[:, None]
        extra = (moved / np.sqrt(rates.precision)[:, None])[rates.index] * rates.slope[:, None]
    score = rows(z, extra)
    return own, np.sqrt(np.mean(score**2, axis=1) + (1 / np.sum(root**2) if intercept else 0.0) + 1e-12)
