"""Scores on test rows, and differences between methods with their standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["calibration_error", "paired", "scores"]

# Probabilities nearer to 0 or 1 count as so near.
_NEAREST = 1e-15
_BINS = 10


def scores(y: np.ndarray, label: np.ndarray, chance: np.ndarray | None) -> dict[str, Any]:
    """Error in %, and if there are probabilities the log loss (nats a row) and what calibration asks for.

    Parameters
    ----------
    y, label : array (n,)
        Classes and predicted ones, 0 or 1.
    chance : array (n,) or None
        Probability of class 1.
    """
    found: dict[str, Any] = {"error": 100 * float(np.mean(label != y))}
    if chance is None:
        return found
    kept = np.clip(chance, _NEAREST, 1 - _NEAREST)
    found["log_loss"] = -float(np.mean(np.where(y == 1, np.log(kept), np.log1p(-kept))))
    place = np.minimum((chance * _BINS).astype(int), _BINS - 1)
    found["rows"] = len(y)
    # Of each tenth: expected less observed members of class 1.
    found["excess"] = np.bincount(place, weights=chance - y, minlength=_BINS).tolist()
    return found


def calibration_error(results: Sequence[Mapping[str, Any]]) -> float:
    """Expected calibration error in %, the rows of all splits together.

    ``Σ_b |Σ_{i in b} (p_i − y_i)| / n`` over tenths ``b`` of the probabilities (Guo, Pleiss, Sun & Weinberger 2017,
    equation 3, with the probability of class 1 in place of the confidence).
    """
    excess = np.sum([one["excess"] for one in results], axis=0)
    return 100 * float(np.abs(excess).sum()) / sum(one["rows"] for one in results)


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
