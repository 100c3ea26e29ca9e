"""Marginalised losses of the scores of a row: of each problem by itself, or of all classes jointly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..._typing import Float, Int, Num
from ...losses.softmax_forms import FORMS, expected_softmax, log_sum_exp

__all__ = ["Criterion", "OneVersusRest", "Softmax", "Targets", "unpack"]

# Class numbers (m,) or signs (m, M).
Targets = Num[np.ndarray, "m *problems"]


@runtime_checkable
class Criterion(Protocol):
    """Protocol of a marginalised loss of the scores of a row."""

    def pairs(self, problems: int) -> tuple[Int[np.ndarray, " J"], Int[np.ndarray, " J"]]:
        """Problems whose covariances the loss looks at: two arrays (J,) of numbers below ``M``."""

    def __call__(
        self,
        target: Targets,
        mean: Float[np.ndarray, "m M"],
        cov: Float[np.ndarray, "m J"] | None,
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m M"], Float[np.ndarray, "m J"] | None]:
        """Loss (m,), its slope in the mean (m, M), and in the covariances (m, J) of the pairs; None if those are."""

    def excess(
        self,
        target: Targets,
        mean: Float[np.ndarray, "m M"],
        cov: Float[np.ndarray, "m J"] | None,
        value: Float[np.ndarray, " m"],
    ) -> Float[np.ndarray, " m"] | float:
        """What smoothing adds to the loss, (m,), whose ``value`` (m,) is known; 0 where nothing is smoothed."""


@dataclass(frozen=True)
class OneVersusRest:
    """One loss per problem, of its own variance.

    Attributes
    ----------
    loss : Curved and Sloped
        Marginalised loss.
    smoothing : float
        Added to the variances: what a kinked loss without noise needs to have a gradient.
    """

    loss: Any
    smoothing: float = 0.0

    def pairs(self, problems: int) -> tuple[Int[np.ndarray, " J"], Int[np.ndarray, " J"]]:
        """Each problem with itself."""
        return np.arange(problems), np.arange(problems)

    def __call__(
        self,
        target: Targets,
        mean: Float[np.ndarray, "m M"],
        cov: Float[np.ndarray, "m J"] | None,
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m M"], Float[np.ndarray, "m J"] | None]:
        """See :class:`Criterion`; ``target`` (m, M) of −1 and +1."""
        if cov is None and self.smoothing == 0:
            value, slope = self.loss.plain_value_and_slope(target, mean)
            return value.sum(axis=1), slope, None
        var = (np.zeros_like(mean) if cov is None else cov) + self.smoothing
        slopes = self.loss.derivatives(target, mean, var)
        return self.loss.value(target, mean, var).sum(axis=1), slopes.mean, None if cov is None else slopes.var

    def excess(
        self,
        target: Targets,
        mean: Float[np.ndarray, "m M"],
        cov: Float[np.ndarray, "m J"] | None,
        value: Float[np.ndarray, " m"],
    ) -> Float[np.ndarray, " m"] | float:
        """See :class:`Criterion`."""
        if self.smoothing == 0:
            return 0.0
        return value - self.loss.value(target, mean, np.zeros_like(mean) if cov is None else cov).sum(axis=1)


@dataclass(frozen=True)
class Softmax:
    """``log Σ exp(s_k) − s_y`` and what the noise adds to it; see :mod:`bayesdrop.losses.softmax_forms`.

    Attributes
    ----------
    form : str
        ``"taylor"`` or ``"gaussian"``.
    """

    form: str

    def pairs(self, problems: int) -> tuple[Int[np.ndarray, " J"], Int[np.ndarray, " J"]]:
        """All pairs, each once."""
        first, second = np.triu_indices(problems)
        return first, second

    def __call__(
        self,
        target: Targets,
        mean: Float[np.ndarray, "m M"],
        cov: Float[np.ndarray, "m J"] | None,
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m M"], Float[np.ndarray, "m J"] | None]:
        """See :class:`Criterion`; ``target`` (m,) of class numbers."""
        rows = np.arange(len(mean))
        level, slope = log_sum_exp(mean)
        value = level - mean[rows, target]
        slope[rows, target] -= 1
        if cov is None:
            return value, slope, None
        first, second = self.pairs(mean.shape[1])
        extra, more, to_cov, _ = FORMS[self.form](mean, unpack(cov, first, second))
        return value + extra, slope + more, np.where(first == second, 1.0, 2.0) * to_cov[:, first, second]

    def excess(
        self,
        target: Targets,
        mean: Float[np.ndarray, "m M"],
        cov: Float[np.ndarray, "m J"] | None,
        value: Float[np.ndarray, " m"],
    ) -> float:
        """See :class:`Criterion`: it is smooth as it is."""
        return 0.0

    @staticmethod
    def expected_probabilities(
        mean: Float[np.ndarray, "m M"], cov: Float[np.ndarray, "m J"] | None
    ) -> Float[np.ndarray, "m M"]:
        """Expected softmax (m, M) of scores with the given means and covariances, pair by pair."""
        if cov is None:
            return log_sum_exp(mean)[1]
        return expected_softmax(mean, unpack(cov, *np.triu_indices(mean.shape[1])))


def unpack(
    flat: Float[np.ndarray, "m J"], first: Int[np.ndarray, " J"], second: Int[np.ndarray, " J"]
) -> Float[np.ndarray, "m K K"]:
    """Symmetric matrices (m, K, K) of which ``flat`` (m, J) holds the entries of the pairs."""
    size = int(second.max()) + 1
    full = np.empty((len(flat), size, size))
    full[:, first, second] = flat
    full[:, second, first] = flat
    return full
