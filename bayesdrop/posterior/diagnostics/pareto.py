r"""Importance weights whose largest ones are replaced by the order statistics of a Pareto law fitted to them.

Pareto-smoothed importance sampling of Vehtari, Simpson, Gelman, Yao & Gabry (2024), with the generalised Pareto law
fitted as by Zhang & Stephens (2009) and its shape drawn a little towards 1/2. The shape ``k`` says how far the weights
can be trusted: an average has a variance below 1/2, a mean below 1, and the number of draws that it takes grows beyond
reach from 0.7 on.
"""

from __future__ import annotations

import numpy as np

from ..._typing import Float

__all__ = ["K_LIMIT", "largest_k", "smoothed_log_weights"]

K_LIMIT = 0.7
"""Shape above which no practical number of draws makes importance weights reliable."""

# Fewer weights in the tail are no sample that a law could be fitted to.
_LEAST_TAIL = 5
# The prior of the shape is worth so many weights at 1/2.
_PRIOR_WEIGHTS, _PRIOR_SHAPE = 10, 0.5
# Log ratios nearer than this are equal: sums of log-likelihoods are not known better.
_SAME = 1e-9


def largest_k(draws: int) -> float:
    """Shape up to which weights of so many draws are reliable, ``min(1 − 1/log₁₀ S, 0.7)``.

    Examples
    --------
    >>> largest_k(4000), round(largest_k(100), 2)
    (0.7, 0.5)
    """
    return float(min(1 - 1 / np.log10(max(draws, 2)), K_LIMIT))


def smoothed_log_weights(log_ratios: Float[np.ndarray, " S"]) -> tuple[Float[np.ndarray, " S"], float]:
    """Smooth the largest of some importance ratios.

    Parameters
    ----------
    log_ratios : array (S,)
        Log density wanted minus log density drawn from, up to a constant; finite.

    Returns
    -------
    log_weights : array (S,)
        Logarithms of weights that add up to 1.
    k : float
        Shape of the Pareto law of the tail; infinite if the tail has fewer than five weights, 0 if all are equal.

    Examples
    --------
    >>> weights, k = smoothed_log_weights(np.zeros(100))
    >>> bool(np.allclose(np.exp(weights), 0.01)), k
    (True, 0.0)
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    values = values - values.max()
    if np.ptp(values) < _SAME:
        return np.full(len(values), -np.log(len(values))), 0.0
    count = int(np.ceil(min(len(values) / 5, 3 * np.sqrt(len(values)))))
    threshold = max(np.sort(values)[-count - 1], np.log(np.finfo(float).tiny))
    tail = np.flatnonzero(values > threshold)
    k = np.inf
    if len(tail) >= _LEAST_TAIL:
        tail = tail[np.argsort(values[tail])]
        k, scale = _fit(np.exp(values[tail]) - np.exp(threshold))
        chance = (np.arange(len(tail)) + 0.5) / len(tail)
        beyond = -np.log1p(-chance) if abs(k) < 1e-12 else np.expm1(-k * np.log1p(-chance)) / k
        values[tail] = np.minimum(np.log(np.exp(threshold) + scale * beyond), 0.0)
    return values - np.logaddexp.reduce(values), float(k)


def _fit(excess: Float[np.ndarray, " tail"]) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto law with the given excesses, in increasing order (Zhang & Stephens)."""
    n = len(excess)
    grid = 30 + int(np.sqrt(n))
    # The likelihood's profile in θ = −k/σ is averaged over a grid that the first quartile scales.
    theta = 1 - np.sqrt(grid / (np.arange(grid) + 0.5))
    theta = theta / (3 * excess[int(n / 4 + 0.5) - 1]) + 1 / excess[-1]
    shape = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = n * (np.log(-theta / shape) - shape - 1)
    share = np.exp(profile - np.logaddexp.reduce(profile))
    mean = float(np.sum(share * theta))
    k = float(np.log1p(-mean * excess).mean())
    shrunk = (n * k + _PRIOR_WEIGHTS * _PRIOR_SHAPE) / (n + _PRIOR_WEIGHTS)
    return shrunk, -k / mean
