"""Compute marginalised losses of the scores of a row, per problem or jointly over classes, for :mod:`.energy`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..._typing import Float, Int, Num
from ...losses.softmax import FORMS, expected_softmax, log_sum_exp

__all__ = [
    "Criterion", "HiddenWeights", "OneVersusRest", "OutputWeights", "PairCovariances", "Pairs", "Scores", "Softmax",
    "Targets", "Units", "unpack",
]  # fmt: skip

# Class numbers (m,) or signs (m, M).
Targets = Num[np.ndarray, "m *problems"]
Scores: TypeAlias = Float[np.ndarray, "m M"]
Pairs: TypeAlias = tuple[Int[np.ndarray, " J"], Int[np.ndarray, " J"]]
PairCovariances: TypeAlias = Float[np.ndarray, "m J"]
Units: TypeAlias = Float[np.ndarray, "m K"]
HiddenWeights: TypeAlias = Float[np.ndarray, "p K"]
OutputWeights: TypeAlias = Float[np.ndarray, "K M"]


@dataclass(frozen=True)
class OneVersusRest:
    """One loss per problem, with the variance of its score.

    Attributes
    ----------
    loss : Curved and Sloped
        Marginalised loss.
    smoothing : float
        Number added to the variances, so that a piecewise-linear loss has a gradient without noise.
    """

    loss: Any
    smoothing: float = 0.0

    def pairs(self, problems: int) -> Pairs:
        """Pairs of problems whose covariances the loss uses, two arrays (J,): each problem with itself."""
        return np.arange(problems), np.arange(problems)

    def __call__(
        self, target: Targets, mean: Scores, cov: PairCovariances | None
    ) -> tuple[Float[np.ndarray, " m"], Scores, PairCovariances | None]:
        """Loss (m,), its slope in the means (m, M), and in the covariances (m, J) of the pairs; None without them.

        ``target`` (m, M) holds −1 and +1.
        """
        if cov is None and self.smoothing == 0:
            value, slope = self.loss.plain_value_and_slope(target, mean)
            return value.sum(axis=1), slope, None
        var = (np.zeros_like(mean) if cov is None else cov) + self.smoothing
        slopes = self.loss.derivatives(target, mean, var)
        return self.loss.value(target, mean, var).sum(axis=1), slopes.mean, None if cov is None else slopes.var


@dataclass(frozen=True)
class Softmax:
    """``log Σ exp(s_k) − s_y`` and what the noise adds to it; see :mod:`bayesdrop.losses.softmax`.

    Attributes
    ----------
    form : str
        ``"taylor"`` or ``"gaussian"``.
    """

    form: str

    def pairs(self, problems: int) -> Pairs:
        """All pairs, each once."""
        first, second = np.triu_indices(problems)
        return first, second

    def __call__(
        self, target: Targets, mean: Scores, cov: PairCovariances | None
    ) -> tuple[Float[np.ndarray, " m"], Scores, PairCovariances | None]:
        """See :class:`OneVersusRest`; ``target`` (m,) of class numbers."""
        rows = np.arange(len(mean))
        level, slope = log_sum_exp(mean)
        value = level - mean[rows, target]
        slope[rows, target] -= 1
        if cov is None:
            return value, slope, None
        first, second = self.pairs(mean.shape[1])
        extra, more, to_cov, _ = FORMS[self.form](mean, unpack(cov, first, second))
        return value + extra, slope + more, np.where(first == second, 1.0, 2.0) * to_cov[:, first, second]

    @staticmethod
    def expected_probabilities(mean: Scores, cov: PairCovariances | None) -> Scores:
        """Expected softmax (m, M) of normal scores with means (m, M) and covariances (m, J) of all pairs."""
        if cov is None:
            return log_sum_exp(mean)[1]
        return expected_softmax(mean, unpack(cov, *np.triu_indices(mean.shape[1])))


Criterion: TypeAlias = OneVersusRest | Softmax
"""A marginalised loss of the scores of a row."""


def unpack(
    flat: PairCovariances, first: Int[np.ndarray, " J"], second: Int[np.ndarray, " J"]
) -> Float[np.ndarray, "m K K"]:
    """Symmetric matrices (m, K, K) from their entries ``flat`` (m, J) at the pairs ``first``, ``second``."""
    size = int(second.max()) + 1
    full = np.empty((len(flat), size, size))
    full[:, first, second] = flat
    full[:, second, first] = flat
    return full
