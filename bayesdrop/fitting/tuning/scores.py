r"""Scores of held-out rows from the moments of their scores, row by row, so that candidates are compared in pairs.

Of two classes or more ``−log p(y)``, ``p`` being the probability of :meth:`bayesdrop.losses.Classifying.probability`,
averaged over a normal score with the mean and variance that the noise gives it; of one class against the rest the
probabilities are brought to a sum of one. Of numbers and counts the loss itself at the mean score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..._typing import Float, Int
from ...losses import Loss
from ...losses.normal_score import gauss_hermite

__all__ = ["RowLosses", "joint_losses"]

_NODES = 15


@cache
def _nodes() -> tuple[list[float], list[float]]:
    return gauss_hermite(_NODES)


@dataclass(frozen=True)
class RowLosses:
    """Losses of held-out rows.

    Attributes
    ----------
    loss : Loss
        Of the model.
    target : array (n, J)
        Labels as −1 and +1 of each class against the rest, or numbers.
    """

    loss: Loss
    target: Float[np.ndarray, "n J"]

    @property
    def name(self) -> str:
        """What is scored, in words."""
        return "log loss" if self.loss.binary else f"{type(self.loss).__name__} loss"

    def __call__(
        self, rows: Int[np.ndarray, " m"], mean: Float[np.ndarray, "m J"], var: Float[np.ndarray, "m J"], C: float
    ) -> Float[np.ndarray, " m"]:
        """Loss of each of the rows, (m,)."""
        target = self.target[rows]
        if not self.loss.binary:
            return np.asarray(self.loss.plain.value(target, mean, 0 * var))[:, 0]
        tiny = np.finfo(float).eps
        if target.shape[1] == 1:
            # The chance of the row's own label: 1 − p would lose its digits.
            return -np.log(np.clip(self._chance(target * mean, var, C)[:, 0], tiny, 1.0))
        own = self._chance(mean, var, C)
        total = np.maximum(own.sum(axis=1), tiny)
        share = own[np.arange(len(rows)), target.argmax(axis=1)] / total
        return -np.log(np.clip(share, tiny, 1.0))

    def _chance(self, mean: Float[np.ndarray, "m J"], var: Float[np.ndarray, "m J"], C: float) -> Any:
        loss: Any = self.loss
        if not np.any(var):
            return loss.probability(mean, C)
        spread = np.sqrt(np.maximum(var, 0.0))
        nodes = zip(*_nodes(), strict=True)
        return sum(share * loss.probability(mean + node * spread, C) for node, share in nodes)


def joint_losses(code: Int[np.ndarray, " m"], chances: Float[np.ndarray, "m K"]) -> Float[np.ndarray, " m"]:
    """Minus the logarithm of the probability of each row's own class, (m,)."""
    return np.asarray(-np.log(np.clip(chances[np.arange(len(code)), code], np.finfo(float).eps, 1.0)))
