"""Functions of a noised score whose expectations are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ..._typing import Float, Int
from ...losses.protocols import Classifying
from ..draws import Draws

__all__ = ["Moved", "Probability", "ScoreFunction"]


@runtime_checkable
class ScoreFunction(Protocol):
    """A function of the score of a row under a draw."""

    @property
    def logarithmic(self) -> bool:
        """True if it returns the logarithm of a positive function; else its values lie between 0 and 1."""

    def __call__(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"], score: Float[np.ndarray, "N M"]
    ) -> Float[np.ndarray, "N M"]:
        """Values (N, M) at scores (N, M), for the rows and draws numbered by (N,) each."""

    def tilt(
        self,
        rows: Int[np.ndarray, " N"],
        draws: Int[np.ndarray, " N"],
        mean: Float[np.ndarray, " N"],
        var: Float[np.ndarray, " N"],
    ) -> Float[np.ndarray, " N"]:
        """Slope of the logarithm of its expectation in the mean of the score, about, (N,); 0 will do."""


@dataclass(frozen=True)
class Probability:
    """Probability of the positive class that a loss makes of a score.

    Attributes
    ----------
    draws : Draws
        With the loss weights ``C``.
    loss : Classifying
        The loss.
    """

    draws: Draws
    loss: Classifying
    logarithmic: bool = False

    def __call__(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"], score: Float[np.ndarray, "N M"]
    ) -> Float[np.ndarray, "N M"]:
        """Probabilities (N, M)."""
        return np.asarray(self.loss.probability(score, self.draws.C[draws, None]))

    def tilt(
        self,
        rows: Int[np.ndarray, " N"],
        draws: Int[np.ndarray, " N"],
        mean: Float[np.ndarray, " N"],
        var: Float[np.ndarray, " N"],
    ) -> Float[np.ndarray, " N"]:
        """Zero."""
        return np.zeros(len(rows))


@dataclass(frozen=True)
class Moved:
    """A function of scores that have an offset, as one of the scores without it.

    Attributes
    ----------
    function : ScoreFunction
        The function.
    offset : array (n,)
        Known part of every row's score.
    """

    function: ScoreFunction
    offset: Float[np.ndarray, " n"]

    @property
    def logarithmic(self) -> bool:
        """As of the function."""
        return self.function.logarithmic

    def __call__(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"], score: Float[np.ndarray, "N M"]
    ) -> Float[np.ndarray, "N M"]:
        """Its values at the scores with their offsets."""
        return self.function(rows, draws, score + self.offset[rows, None])

    def tilt(
        self,
        rows: Int[np.ndarray, " N"],
        draws: Int[np.ndarray, " N"],
        mean: Float[np.ndarray, " N"],
        var: Float[np.ndarray, " N"],
    ) -> Float[np.ndarray, " N"]:
        """Its tilt at the means with their offsets."""
        return self.function.tilt(rows, draws, mean + self.offset[rows], var)
