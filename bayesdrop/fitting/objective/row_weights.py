"""Weights of rows with and without labels (Wager, Wang & Liang 2013, section 5)."""

from __future__ import annotations

import numpy as np

from ..._typing import PerRow
from ...model import Model
from .shapes import ProblemVector

__all__ = ["row_weights"]


def row_weights(
    model: Model,
    weight: PerRow,
    unlabelled: tuple[int, float] | None,
    strength: ProblemVector | None = None,
) -> tuple[PerRow, PerRow, PerRow | None]:
    """Row weights of the labels, of the noised loss and of the plain loss, (n, 1) or (n, K) each.

    Labelled rows contribute ``loss + ρR`` and rows without label ``ραR``, where ``R`` is what the noise adds to the
    loss and ``ρ = n/(n + αm)`` (Wager, Wang & Liang 2013, section 5). ``weight`` is (n,), or (n, K) where the problems
    weigh rows in their own ways; ``strength`` (K,) is their ``C``, by default the model's.
    """
    C = model.C if strength is None else strength
    weight = weight[:, None] if weight.ndim == 1 else weight
    if unlabelled is None:
        return weight, C * weight, None
    if not model.loss.separable:
        raise ValueError(
            f"unlabelled: what noise adds to {type(model.loss).__name__} depends on the label, so that rows without "
            "one say nothing; use the logistic loss."
        )
    count, share = unlabelled
    nothing = np.zeros((count, weight.shape[1]))
    known = np.concatenate([weight[:-count], nothing])
    total = known.sum(axis=0)
    ratio = total / (total + share * count)
    free = np.concatenate([np.zeros((len(weight) - count, weight.shape[1])), nothing + share])
    return known, C * ratio * (known + free), C * ((1 - ratio) * known - ratio * free)
