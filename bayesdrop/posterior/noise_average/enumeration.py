r"""Sum a function of a noised score over all masks of a row, in logarithms.

    log Σ_α p(α) f(s(α)),      s(α) = b + Σ_d α_d t_d

Shapes: ``N`` scores, ``k`` entries of each that may be dropped, ``A = 2^k`` masks.
"""

from __future__ import annotations

import numpy as np

from ..._typing import Float

__all__ = ["MASKS", "all_masks", "log_chances", "log_sum"]

MASKS = 64
"""Maximum number of masks of a row to enumerate by default."""


def log_chances(rate: Float[np.ndarray, "N k"]) -> tuple[Float[np.ndarray, "N k"], Float[np.ndarray, "N k"]]:
    """``log(1 − η)`` and ``log η``, which is −∞ for a rate of 0."""
    with np.errstate(divide="ignore"):
        return np.log1p(-rate), np.log(rate)


def log_sum(terms: Float[np.ndarray, "N M"]) -> Float[np.ndarray, " N"]:
    """``log Σ exp`` of each row, −∞ if all its terms are −∞.

    Examples
    --------
    >>> log_sum(np.array([[-1e6, -1e6], [-np.inf, -np.inf]])).round(3).tolist()
    [-999999.307, -inf]
    """
    top = terms.max(axis=1)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))


def all_masks(
    step: Float[np.ndarray, "N k"], rate: Float[np.ndarray, "N k"]
) -> tuple[Float[np.ndarray, "N A"], Float[np.ndarray, "N A"]]:
    """Contribution of each mask to the score, and the logarithm of its probability.

    Examples
    --------
    >>> value, log_chance = all_masks(np.array([[1.0, 4.0]]), np.array([[0.5, 0.25]]))
    >>> value.tolist(), np.exp(log_chance).round(6).tolist()
    ([[0.0, 1.0, 4.0, 5.0]], [[0.125, 0.125, 0.375, 0.375]])
    """
    value = log_chance = np.zeros((len(step), 1))
    for t, keep, drop in zip(step.T, *(part.T for part in log_chances(rate)), strict=True):
        value = np.concatenate([value, value + t[:, None]], axis=1)
        log_chance = np.concatenate([log_chance + drop[:, None], log_chance + keep[:, None]], axis=1)
    return value, log_chance
