"""Scores on test rows, and differences between methods with their standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["ahead", "calibration_error", "paired", "scores"]

# A smaller probability of the true class counts as this.
_NEAREST = 1e-15
_BINS = 10


def scores(y: np.ndarray, label: np.ndarray, chance: np.ndarray | None) -> dict[str, Any]:
    """Error in %, and if there are probabilities the log loss (nats a row) and what calibration asks for.

    Parameters
    ----------
    y, label : array (n,)
        Classes and predicted ones, 0 to K − 1.
    chance : array (n, K) or None
        Probabilities of the classes.
    """
    found: dict[str, Any] = {"error": 100 * float(np.mean(label != y))}
    if chance is None:
        return found
    kept = np.clip(chance[np.arange(len(y)), y], _NEAREST, 1.0)
    found["log_loss"] = -float(np.log(kept).mean())
    found["rows"] = len(y)
    place = np.minimum((chance * _BINS).astype(int), _BINS - 1)
    # Of each class and tenth: expected less observed members.
    found["excess"] = [
        np.bincount(place[:, k], weights=chance[:, k] - (y == k), minlength=_BINS).tolist()
        for k in range(chance.shape[1])
    ]
    return found


def calibration_error(results: Sequence[Mapping[str, Any]]) -> float:
    """Expected calibration error in %, mean over the classes, the rows of all splits together.

    ``Σ_k Σ_b |Σ_{i in b} (p_ik − y_ik)| / (n K)`` over tenths ``b`` of the probability of each class ``k``: the
    class-wise error of Kull et al. (2019), for two classes that of Guo, Pleiss, Sun & Weinberger (2017, equation 3)
    with the probability of class 1 in place of the confidence.
    """
    excess = np.sum([one["excess"] for one in results], axis=0)
    return 100 * float(np.abs(excess).sum()) / (len(excess) * sum(one["rows"] for one in results))


def paired(mine: Sequence[float], theirs: Sequence[float], correlation: float) -> tuple[float, float]:
    """Mean difference over splits and its standard error, NaN for one split.

    With ``J`` splits whose differences have variance ``σ²`` and correlation ``ρ``, their mean has the variance
    ``σ² (1/J + (1 − 1/J) ρ)`` and the sample variance the expectation ``σ² (1 − ρ)``, so that the sample variance
    times ``1/J + ρ/(1 − ρ)`` estimates the former (Nadeau & Bengio 2003, section 3).
    """
    gap = np.asarray(mine) - np.asarray(theirs)
    if len(gap) < 2:
        return float(gap.mean()), float("nan")
    spread = gap.std(ddof=1)
    return float(gap.mean()), float(spread * np.sqrt(1 / len(gap) + correlation / (1 - correlation)))


def ahead(gap: float, error: float) -> float:
    """How many standard errors a method is ahead by, if its score, of which less is better, is larger by ``gap``."""
    return 0.0 if gap == 0 else float(np.divide(-gap, error))
