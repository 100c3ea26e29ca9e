r"""The expected response of each row under each draw, averaged over the noise of the row.

A loss says what it is of the noised score ``s = b + Σ_d w_d x̃_d``: the mean score for numbers, ``E e^s`` for counts of
a logarithmic mean, ``N E σ(s)`` for binomial ones. The second is exact for every noise,

    log E e^s = b + Σ_d log E e^{w_d x̃_d},

and the last is to 0.002, as in :mod:`.noise_average.expectation`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Float
from ..designs import as_design
from ..losses import Logistic
from .draws.draws import Draws, blocks
from .noise_average.probability import probability_of

__all__ = ["DrawnScores", "expected_response"]


@dataclass(frozen=True)
class DrawnScores:
    """Laws of the scores of some rows, one for each draw; see :class:`bayesdrop.losses.base.NoisedScores`.

    Attributes
    ----------
    draws : Draws
        Draws of a model.
    X : array or scipy sparse (n, p)
        Rows that fit them.
    corrupted_inputs : bool
        There is no noise to average over.
    offset : array (n,), optional
        Known part of every row's score.
    """

    draws: Draws
    X: Any
    corrupted_inputs: bool = False
    offset: Float[np.ndarray, " n"] | None = None

    def mean(self) -> Float[np.ndarray, "n S"]:
        """``E s``, (n, S)."""
        design, expected = as_design(self.X), np.empty((self.X.shape[0], self.draws.size))
        for part in blocks(self.draws.size, max(self.X.shape)):
            expected[:, part], _ = self.draws.moments(design, part, self.corrupted_inputs)
        return self._with_offset(expected)

    def log_exponential(self) -> Float[np.ndarray, "n S"]:
        """``log E e^s``, (n, S)."""
        if self.corrupted_inputs:
            return self.mean()
        return self._with_offset(self.draws.log_exponential(self.X))

    def sigmoid(self) -> Float[np.ndarray, "n S"]:
        """``E σ(s)``, (n, S)."""
        return probability_of(self.draws, self.X, Logistic(), self.corrupted_inputs, offset=self.offset)

    def _with_offset(self, score: Float[np.ndarray, "n S"]) -> Float[np.ndarray, "n S"]:
        return score if self.offset is None else score + self.offset[:, None]


def expected_response(
    draws: Draws, X: Any, corrupted_inputs: bool = False, offset: Float[np.ndarray, " n"] | None = None
) -> Float[np.ndarray, "n S"]:
    """Expected response of each row and draw, (n, S); the arguments are those of :class:`DrawnScores`."""
    with np.errstate(over="ignore"):  # a mean beyond double precision is infinite
        return np.asarray(draws.model.loss.expected_response(DrawnScores(draws, X, corrupted_inputs, offset)))
