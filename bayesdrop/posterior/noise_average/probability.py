"""The probability of a class, and the expected response, averaged over the noise of a row, for every draw of a
posterior or for one fit.

Few draws of a score that is the logarithm of odds have ways of their own where masks are drawn, as a fit has: a row
with at most ``log₂ masks`` entries that may be dropped is exact, by all masks of its entries, and others are right to
:data:`.logistic.TOLERANCE` = 1e-4. All else, and what that cannot do, is averaged by :mod:`.expectation`.

Of the expected response a loss says what it is of the noised score ``s = b + Σ_d w_d x̃_d``: the mean score for
numbers, ``E e^s`` for counts of a logarithmic mean, ``N E σ(s)`` for binomial ones. The second is exact for every
noise,

    log E e^s = b + Σ_d log E e^{w_d x̃_d},

and the last is to 0.002, as in :mod:`.expectation`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..._typing import Bool, Float, Int
from ...designs import as_design
from ...losses import Logistic
from ...losses.protocols import Classifying, require
from ..draws.draws import Draws, blocks
from .class_chances import class_chances
from .enumeration import Probability
from .expectation import MASKS, expectation
from .logistic import TOLERANCE, average_logistic

__all__ = [
    "DrawnScores",
    "class_probability",
    "costly_probability",
    "expected_response",
    "few_probabilities",
    "is_quick",
    "probability_of",
]


def class_probability(
    draws: Draws,
    X: Any,
    corrupted_inputs: bool = False,
    masks: int = MASKS,
    offset: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "n S"]:
    """Probability of the positive class of each row and draw, averaged over the noise: (n, S), to :data:`ERROR`.

    Parameters
    ----------
    draws : Draws
        Draws of a model for two classes.
    X : array or scipy sparse (n, p)
        Rows that fit them.
    corrupted_inputs : bool
        Say that there is no noise to average over.
    masks : int
        Rows of no more masks have them enumerated.
    offset : array (n,), optional
        Known part of every row's score.
    """
    advice = "take one of two classes, such as bd.Logistic()"
    loss = require(draws.model.loss, Classifying, "a class probability", advice)
    return probability_of(draws, X, loss, corrupted_inputs, masks, offset)


def probability_of(
    draws: Draws,
    X: Any,
    loss: Classifying,
    corrupted_inputs: bool = False,
    masks: int = MASKS,
    offset: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "n S"]:
    """The same for the probability that a loss, which need not be the model's, makes of a score."""
    if not corrupted_inputs:
        if not is_quick(loss, draws.model.noise, draws.size, X.shape[1]):
            return costly_probability(draws, X, loss, masks, offset)
        rate = np.asarray(draws.rate(slice(0, draws.size)), dtype=np.float64)
        kept = draws.weight * (draws.model.noise.coefficients(rate).gain / (1 - rate))

        def hard(rows: Int[np.ndarray, " r"], some: Int[np.ndarray, " s"]) -> Float[np.ndarray, "r s"]:
            names = ("weight", "intercept", "free_rate", "C")
            few = replace(draws, **{name: getattr(draws, name)[some] for name in names})
            return costly_probability(few, X[rows], loss, masks, None if offset is None else offset[rows])

        level = np.repeat(draws.intercept[None], X.shape[0], axis=0)
        level = level if offset is None else level + offset[:, None]
        return few_probabilities(X, kept, rate, level, hard, masks)
    values, design, known = np.empty((X.shape[0], draws.size)), as_design(X), 0.0 if offset is None else offset[:, None]
    for part in blocks(draws.size, max(X.shape)):
        score, _ = draws.moments(design, part, True)
        values[:, part] = loss.probability(score + known, draws.C[None, part])
    return values


def is_quick(loss: Any, noise: Any, draws: int, columns: int, few: int = 16, narrow: int = 200) -> bool:
    """Whether :func:`few_probabilities` serves: with more than ``few`` draws, for at most ``narrow`` columns."""
    return bool(loss.ratio == "odds_ratio" and noise.has_rate and (draws <= few or columns <= narrow))


def costly_probability(
    draws: Draws, X: Any, loss: Classifying, masks: int = MASKS, offset: Float[np.ndarray, " n"] | None = None
) -> Float[np.ndarray, "n S"]:
    """The same by :func:`.expectation.expectation` for all rows and draws."""
    found = expectation(draws, X, Probability(draws, loss), masks=masks, offset=offset)
    return np.asarray(np.clip(found, 0.0, 1.0))


def few_probabilities(
    X: Any,
    weight: Float[np.ndarray, "S p"],
    rate: Float[np.ndarray, "S p"],
    level: Float[np.ndarray, "n S"],
    hard: Callable[[Int[np.ndarray, " r"], Int[np.ndarray, " s"]], Float[np.ndarray, "r s"]],
    masks: int = MASKS,
) -> Float[np.ndarray, "n S"]:
    """``E σ(s)`` of each row by each draw, (n, S).

    Parameters
    ----------
    X : array or scipy sparse (n, p)
        Rows.
    weight, rate : array (S, p)
        What a kept entry is multiplied by, and the probability that it is dropped.
    level : array (n, S)
        Part of the scores that is never dropped.
    hard : callable
        ``hard(rows, draws)`` with the numbers of rows and of draws for which the ways here do not do, (r, s).
    masks : int
        Rows of no more masks have them enumerated.
    """
    if getattr(X, "format", "csr") != "csr":
        X = X.tocsr()
    few, values = int(masks).bit_length() - 1, np.empty(level.shape)
    weight, noised = weight.astype(np.float64, copy=False), rate > 0
    is_narrow = noised.sum(axis=1) <= few
    narrow, wide = np.flatnonzero(is_narrow), np.flatnonzero(~is_narrow)
    together = noised[narrow].any(axis=0).sum() <= few
    for draws in narrow[None] if together and len(narrow) else narrow[:, None]:
        columns = np.flatnonzero(noised[draws].any(axis=0))
        values[:, draws] = _enumerated(X, weight[draws], rate[draws], level[:, draws], columns)
    if not len(wide):
        return values
    sparse_rows = _sparse_rows(X, few)
    full = np.flatnonzero(~sparse_rows)
    own = (X, level) if len(full) == len(level) else (X[full], level[full])
    all_wide = slice(None) if len(wide) == len(weight) else wide  # without a copy
    found, error = average_logistic(own[0], weight[all_wide], rate[all_wide], own[1][:, all_wide])
    values[np.ix_(full, wide)] = found
    exact = np.flatnonzero(sparse_rows)
    for some in blocks(len(wide) if len(exact) else 0, X.shape[1]):
        values[np.ix_(exact, wide[some])] = hard(exact, wide[some])
    failed = ~(error <= TOLERANCE)
    for j in np.flatnonzero(failed.any(axis=0)):
        rows = full[failed[:, j]]
        values[rows, wide[j]] = hard(rows, wide[j : j + 1])[:, 0]
    return values


def _sparse_rows(X: Any, few: int) -> Bool[np.ndarray, " n"]:
    """Which rows have no more than a few entries."""
    if issparse(X):
        return np.diff(X.indptr) <= few
    if np.count_nonzero(X) == X.size:  # several times as fast as by rows
        return np.zeros(len(X), dtype=bool)
    return np.count_nonzero(X, axis=1) <= few


def _enumerated(
    X: Any,
    weight: Float[np.ndarray, "S p"],
    rate: Float[np.ndarray, "S p"],
    level: Float[np.ndarray, "n S"],
    noised: Int[np.ndarray, " k"],
) -> Float[np.ndarray, "n S"]:
    """The same exactly, by all masks of a few columns: one product with the rows."""
    kept = np.array(list(itertools.product((0.0, 1.0), repeat=len(noised)))).reshape(2 ** len(noised), len(noised))
    drop = rate[:, None, noised]
    chance = np.prod(np.where(kept > 0, 1 - drop, drop), axis=2)
    values, masks = np.empty(level.shape), len(kept)
    with np.errstate(over="ignore"):
        for rows in blocks(X.shape[0], 8 * masks):
            here = X[rows]
            for part in blocks(len(weight), 8 * masks * max(here.shape)):
                each = np.repeat(weight[part, :, None], masks, axis=2)
                each[:, noised] *= kept.T
                score = np.asarray(here @ np.moveaxis(each, 1, 0).reshape(X.shape[1], len(each) * masks))
                score = score.reshape(here.shape[0], -1, masks) + level[rows, part, None]
                np.exp(np.negative(score, out=score), out=score)  # a third less time than scipy's expit
                values[rows, part] = np.einsum("nsm,sm->ns", np.reciprocal(score + 1, out=score), chance[part])
    return values


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
) -> Float[np.ndarray, "n S ..."]:
    """Expected response of each row and draw, (n, S): a number, the probability of the positive class, or of each.

    The arguments are those of :class:`DrawnScores`; of many classes the result is (n, S, K).
    """
    if draws.model.loss.multiclass:
        return class_chances(draws, X, corrupted_inputs)
    if draws.model.loss.binary:
        return class_probability(draws, X, corrupted_inputs, offset=offset)
    with np.errstate(over="ignore"):  # a mean beyond double precision is infinite
        return np.asarray(draws.loss_of(slice(None)).expected_response(DrawnScores(draws, X, corrupted_inputs, offset)))
