"""Weights of rows with and without labels (Wager, Wang & Liang 2013, section 5)."""

from __future__ import annotations

import numpy as np

from .._typing import PerRow
from ..model import Model

__all__ = ["row_weights"]


def row_weights(
    model: Model, weight: PerRow, unlabelled: tuple[int, float] | None
) -> tuple[PerRow, PerRow, PerRow | None]:
    """Row weights of the labels (n,), of the noised loss and of the plain loss, (n, 1) each.

    Labelled rows contribute ``loss + ρR`` and rows without label ``ραR``, where ``R`` is what the noise adds to the
    loss and ``ρ = n/(n + αm)`` (Wager, Wang & Liang 2013, section 5).
    """
    if unlabelled is None:
        return weight, model.C * weight[:, None], None
    if not model.loss.separable:
        raise ValueError(
            f"unlabelled: what noise adds to {type(model.loss).__name__} depends on the label, so that rows without "
            "one say nothing; use the logistic loss."
        )
    count, share = unlabelled
    known = np.append(weight[:-count], np.zeros(count))
    total = known.sum()
    ratio = total / (total + share * count)
    free = np.append(np.zeros(len(weight) - count), np.full(count, share))
    noisy = model.C * ratio * (known + free)
    return known, noisy[:, None], (model.C * ((1 - ratio) * known - ratio * free))[:, None]
