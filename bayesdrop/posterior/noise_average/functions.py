"""Functions of a noised score to average, probabilities and likelihoods, and warnings about their errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..._typing import Float, Int, PerRow
from ...losses.protocols import Classifying
from ...warnings import AccuracyWarning, warn
from ..draws.draws import Draws

__all__ = ["Doubt", "LogLikelihood", "Probability"]


@dataclass(frozen=True)
class Probability:
    """Probability of the positive class given a score, for pairs of row and draw numbers (N,).

    Attributes
    ----------
    draws : Draws
        Draws, with the loss weights ``C``.
    loss : Classifying
        The loss.
    """

    draws: Draws
    loss: Classifying
    logarithmic: ClassVar[bool] = False

    def __call__(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"], score: Float[np.ndarray, "N M"]
    ) -> Float[np.ndarray, "N M"]:
        """Probabilities (N, M)."""
        return np.asarray(self.loss.probability(score, self.draws.C[draws, None]))


@dataclass(frozen=True)
class LogLikelihood:
    """Log density of the responses of rows given their scores, without the weights of the rows.

    Attributes
    ----------
    draws : Draws
        Draws of a model.
    target : array (n,)
        Signs or numbers of the rows.
    """

    draws: Draws
    target: PerRow
    logarithmic: ClassVar[bool] = True

    def __call__(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"], score: Float[np.ndarray, "N M"]
    ) -> Float[np.ndarray, "N M"]:
        """``log p(y_i | s)``."""
        C, loss = self.draws.C[draws, None], self.draws.loss_of(draws, 2, 0, plain=True)
        target = np.asarray(self.target[rows, None], dtype=np.float64)
        value, _ = loss.plain_value_and_slope(np.broadcast_to(target, score.shape), score)
        return np.asarray(loss.log_constant(C) + C * loss.log_base_measure(target) - C * value)

    def slope(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"], score: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, " N"]:
        """Slope of ``log p(y_i | s)`` in the score."""
        loss = self.draws.loss_of(draws, 1, 0, plain=True)
        return np.asarray(-self.draws.C[draws] * loss.plain_value_and_slope(self.target[rows], score)[1])


class Doubt:
    """Count of averages whose estimated errors are too large, for a warning."""

    def __init__(self, allowed: float) -> None:
        self.allowed, self.failed, self.worst = allowed, 0, 0.0

    def add(self, error: Float[np.ndarray, " some"]) -> None:
        """Count the errors above the limit."""
        large = error[~(error <= self.allowed)]
        if len(large):
            self.failed, self.worst = self.failed + len(large), max(self.worst, float(large.max()))

    def tell(self, total: int, why: str) -> None:
        """Warn if any error was above the limit."""
        if self.failed:
            warn(
                f"{self.failed} of {total} averages over the noise of a row have errors of about {self.worst:.2g} or "
                f"less (expected {self.allowed:g}): {why}.",
                AccuracyWarning,
            )
