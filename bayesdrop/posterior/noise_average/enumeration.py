"""Functions of a noised score, and their sums over all masks of a row, in logarithms.

    log Σ_α p(α) f(s(α)),      s(α) = b + Σ_d α_d t_d

By all ``2^k`` masks, whatever the function; or, for ``log f`` of two lines and a level between them, as the likelihoods
of piecewise linear losses are,

    log f(s) = −r(l − s)  for s < l,      0  for l ≤ s ≤ h,      −q(s − h)  for s > h,

by ``2^{k/2}`` operations: a score is the sum of what two halves of the row contribute, independently. The values of one
half are brought into order, and for each value of the other the sum is over three stretches of them (meet in the
middle; Horowitz & Sahni 1974). All terms are positive and added as logarithms, so that no likelihood is too small.

Shapes: ``N`` scores, ``k`` entries of each that may be dropped, ``A`` and ``B`` masks of either half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float, Int, PerRow
from ...losses.protocols import Classifying, PiecewiseLinear
from ..draws.draws import Draws

__all__ = [
    "LinearPieces",
    "LogLikelihood",
    "Probability",
    "all_masks",
    "by_halves",
    "log_chances",
    "log_sum",
]


class LinearPieces(NamedTuple):
    """``log f`` of each score, as above but for a constant ``level``: (N,) each."""

    low: Float[np.ndarray, " N"]
    high: Float[np.ndarray, " N"]
    rise: Float[np.ndarray, " N"]
    fall: Float[np.ndarray, " N"]
    level: Float[np.ndarray, " N"]


def log_chances(rate: Float[np.ndarray, "N k"]) -> tuple[Float[np.ndarray, "N k"], Float[np.ndarray, "N k"]]:
    """``log(1 − η)`` and ``log η``, −∞ of a rate of 0."""
    with np.errstate(divide="ignore"):
        return np.log1p(-rate), np.log(rate)


def log_sum(terms: Float[np.ndarray, "N M"]) -> Float[np.ndarray, " N"]:
    """``log Σ exp`` of each line, −∞ where all its terms are.

    Examples
    --------
    >>> log_sum(np.array([[-1e6, -1e6], [-np.inf, -np.inf]])).round(3).tolist()
    [-999999.307, -inf]
    """
    top = terms.max(axis=1)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))


def all_masks(
    step: Float[np.ndarray, "N k"], rate: Float[np.ndarray, "N k"]
) -> tuple[Float[np.ndarray, "N A"], Float[np.ndarray, "N A"]]:
    """What each mask contributes to the score, and the logarithm of its chance.

    Examples
    --------
    >>> value, log_chance = all_masks(np.array([[1.0, 4.0]]), np.array([[0.5, 0.25]]))
    >>> value.tolist(), np.exp(log_chance).round(6).tolist()
    ([[0.0, 1.0, 4.0, 5.0]], [[0.125, 0.125, 0.375, 0.375]])
    """
    value = log_chance = np.zeros((len(step), 1))
    for t, keep, drop in zip(step.T, *(part.T for part in log_chances(rate)), strict=True):
        value = np.concatenate([value, value + t[:, None]], axis=1)
        log_chance = np.concatenate([log_chance + drop[:, None], log_chance + keep[:, None]], axis=1)
    return value, log_chance


def by_halves(
    base: Float[np.ndarray, " N"],
    step: Float[np.ndarray, "N k"],
    rate: Float[np.ndarray, "N k"],
    pieces: LinearPieces,
) -> Float[np.ndarray, " N"]:
    """``log E f(s)`` of scores with constant parts ``base``, entries ``step`` and their rates.

    Examples
    --------
    >>> one, far = np.ones(1), np.full(1, 1e6)
    >>> hinge = LinearPieces(one, one, far, 0 * one, 0 * one)  # of C = 10⁶
    >>> by_halves(np.zeros(1), np.array([[0.25, 0.5]]), np.full((1, 2), 0.5), hinge).round(3).tolist()
    [-250001.386]
    """
    half = step.shape[1] // 2
    a, log_a = all_masks(step[:, :half], rate[:, :half])
    b, log_b = all_masks(step[:, half:], rate[:, half:])
    order = np.argsort(b, axis=1)
    b, log_b = np.take_along_axis(b, order, axis=1), np.take_along_axis(log_b, order, axis=1)
    low, high, rise, fall = (part[:, None] for part in pieces[:4])
    here, nothing = base[:, None] + a, np.full((len(b), 1), -np.inf)
    # Relative to the last value, so that nothing of the size of a slope times a score is rounded twice.
    below = np.logaddexp.accumulate(log_b + rise * (b - b[:, -1:]), axis=1)
    above = np.logaddexp.accumulate((log_b - fall * (b - b[:, :1]))[:, ::-1], axis=1)[:, ::-1]
    below, above = np.hstack([nothing, below]), np.hstack([above, nothing])
    first = np.stack([np.searchsorted(*pair) for pair in zip(b, low - here, strict=True)])
    last = np.stack([np.searchsorted(*pair, side="right") for pair in zip(b, high - here, strict=True)])
    left = np.take_along_axis(below, first, axis=1) + rise * (here + b[:, -1:] - low)
    right = np.take_along_axis(above, last, axis=1) - fall * (here + b[:, :1] - high)
    total = np.logaddexp(np.logaddexp(left, right), _stretches(log_b, first, np.maximum(first, last)))
    return log_sum(log_a + total) + pieces.level


def _stretches(
    terms: Float[np.ndarray, "N B"], first: Int[np.ndarray, "N A"], last: Int[np.ndarray, "N A"]
) -> Float[np.ndarray, "N A"]:
    """``log Σ exp`` of the terms from ``first`` to before ``last``, nothing subtracted: of pairs, fours, and so on."""
    total = np.full(first.shape, -np.inf)
    terms = np.hstack([terms, np.full((len(terms), 1), -np.inf)])
    while np.any(first < last):
        odd = (first < last) & (first % 2 == 1)
        total = np.where(odd, np.logaddexp(total, np.take_along_axis(terms, first, axis=1)), total)
        first = first + odd
        odd = (first < last) & (last % 2 == 1)
        last = last - odd
        total = np.where(odd, np.logaddexp(total, np.take_along_axis(terms, last, axis=1)), total)
        first, last = first // 2, last // 2
        if terms.shape[1] > 2:
            joined = np.logaddexp(terms[:, :-1:2], terms[:, 1::2])
            terms = np.hstack([joined, np.full((len(terms), 1), -np.inf)])
    return total


@dataclass(frozen=True)
class Probability:
    """Probability of the positive class that a loss makes of a score; rows and draws are numbered by (N,) each.

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

    def slope(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"], score: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, " N"]:
        """Zero: the function is no logarithm."""
        return np.zeros(len(rows))

    def pieces(self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"]) -> None:
        """None: it has no lines."""


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
    logarithmic: bool = True

    def __call__(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"], score: Float[np.ndarray, "N M"]
    ) -> Float[np.ndarray, "N M"]:
        """``log p(y_i | s)``."""
        power, level = self.scale(rows, draws)
        loss = self._loss(draws, 2)
        value, _ = loss.plain_value_and_slope(np.broadcast_to(self.target[rows, None], score.shape), score)
        return np.asarray(level[:, None] - power[:, None] * value)

    def slope(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"], score: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, " N"]:
        """Its slope in the score."""
        loss = self._loss(draws, 1)
        return np.asarray(-self.draws.C[draws] * loss.plain_value_and_slope(self.target[rows], score)[1])

    def pieces(self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"]) -> LinearPieces | None:
        """The lines of a piecewise linear loss."""
        loss = self._loss(draws, 1)
        if not isinstance(loss, PiecewiseLinear):
            return None
        power, level = self.scale(rows, draws)
        line = loss.interval(self.target[rows], power)
        return LinearPieces(line.centre - line.width, line.centre + line.width, line.high, -line.low, level)

    def _loss(self, draws: Int[np.ndarray, " N"], rank: int) -> Any:
        """The loss at the shapes of the draws, the first of so many axes."""
        return self.draws.loss_of(draws, rank, 0, plain=True)

    def scale(
        self, rows: Int[np.ndarray, " N"], draws: Int[np.ndarray, " N"]
    ) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """What the loss is multiplied by, and the rest of the log density."""
        C, target, loss = self.draws.C[draws], np.asarray(self.target[rows], dtype=np.float64), self._loss(draws, 1)
        return C, loss.log_constant(C) + C * loss.log_base_measure(target)
