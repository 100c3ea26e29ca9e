r"""Average any function of a row's noised score over the noise, for every draw of a posterior or for one fit.

    E f(s_i),      s_i = b + Σ_d w_d x̃_id

Each row and draw uses the first of these methods that is accurate enough:

1. enumeration of all masks (:mod:`.enumeration`), which is exact, for rows with few entries that may be dropped;
2. a fast method for probabilities of a logistic loss and dense rows (:mod:`.logistic`), or for others quadrature for a
   nearly normal distribution, from four cumulants, which are products with powers of the matrix;
3. quadrature for any distribution, from the characteristic functions of its entries (:mod:`.quadrature`);
4. enumeration, of rows with up to 18 entries, for steep functions.

Probabilities have errors of at most 5e-4, and logarithms of likelihoods of at most 1e-3. No random numbers are used.

A loss defines the expected response given the noised score: the mean score for numbers, ``E e^s`` for counts with a
logarithmic mean, ``N E σ(s)`` for binomial counts. The second is exact for every noise,

    log E e^s = b + Σ_d log E e^{w_d x̃_d}.

Memory is bounded, because rows and draws are processed in blocks. Sparse rows are made dense only for additive noise,
which changes zeros, a few rows at a time and only if method 2 is not accurate enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Complex
from scipy.sparse import csr_array, issparse

from ..._typing import Float, Int, Shaped
from ...designs import as_design
from ...losses import Logistic
from ...losses.protocols import Classifying, require
from ..draws.draws import Draws, blocks
from .class_chances import class_chances
from .enumeration import MASKS, all_masks, log_sum
from .functions import Doubt, LogLikelihood, Probability
from .logistic import TOLERANCE, average_logistic
from .quadrature import RULES, Cumulants, Law, by_cumulants, by_law, masked_law, saddle_tilt

__all__ = ["DrawnScores", "class_probability", "expectation", "expected_response"]


def expectation(
    draws: Draws,
    X: Any,
    function: Probability | LogLikelihood,
    *,
    masks: int = MASKS,
    offset: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "n S"]:
    """``E f(s)``, or its logarithm for a logarithmic function, for each row and draw, (n, S).

    Parameters
    ----------
    draws : Draws
        Draws of a model.
    X : array or scipy sparse (n, p)
        Rows that fit them.
    function : Probability or LogLikelihood
        The function.
    masks : int
        Maximum number of masks of a row to enumerate.
    offset : array (n,), optional
        Known part of every row's score.

    Warns
    -----
    AccuracyWarning
        If some estimated errors are larger than :data:`.quadrature.RULES` allows.
    """
    n, doubt = X.shape[0], Doubt(RULES.error(function.logarithmic))
    values, offset = np.empty((n, draws.size)), np.zeros(n) if offset is None else offset
    entries = X.nnz / max(n, 1) if issparse(X) else X.shape[1]
    for rows in blocks(n, int(max(draws.size, entries))):
        values[rows] = _Block(draws, X[rows], function, rows.start, masks, offset[rows], doubt).result
    doubt.tell(values.size, "a steep function of scores that spread widely, as with a very large C")
    return values


class _Pairs(NamedTuple):
    """Pairs of a row and a draw, by number: score without noised entries, effects of kept entries, and their rates."""

    rows: Int[np.ndarray, " N"]
    draws: Int[np.ndarray, " N"]
    base: Float[np.ndarray, " N"]
    step: Float[np.ndarray, "N k"]
    rate: Float[np.ndarray, "N k"]


class _Block:
    """Some rows, with all draws."""

    def __init__(
        self,
        draws: Draws,
        X: Any,
        function: Probability | LogLikelihood,
        start: int,
        masks: int,
        offset: Float[np.ndarray, " n"],
        doubt: Doubt,
    ) -> None:
        self.draws, self.X, self.function, self.start, self.offset = draws, X, function, start, offset
        self.limit = int(masks).bit_length() - 1  # 2^limit <= masks
        self.doubt, self.logarithmic = doubt, function.logarithmic
        has_masks = draws.model.noise.has_rate
        self.fixed = draws.without_noise if has_masks and np.any(draws.without_noise) else None
        self.result = np.empty((X.shape[0], draws.size))
        if not has_masks:
            self._unmasked(*self._close_to_normal(np.arange(X.shape[0])))
            return
        self.base = self._base()
        self.noised = np.arange(X.shape[1]) if self.fixed is None else np.flatnonzero(~self.fixed)
        self.matrix = X if self.fixed is None else X[:, self.noised]
        size = (self.matrix != 0).sum(axis=1)
        few, many = np.flatnonzero(size <= self.limit), np.flatnonzero(size > self.limit)
        if len(few):
            each = np.indices((len(few), draws.size)).reshape(2, -1)
            self._masked(few[each[0]], each[1])
        if len(many):
            loss = getattr(function, "loss", None)
            quick = loss is not None and loss.ratio == "odds_ratio" and not issparse(X)
            self._masked(*(self._quickly(many) if quick else self._close_to_normal(many)))

    def _base(self) -> Float[np.ndarray, "n S"] | None:
        """Part of each score that does not depend on masks, (n, S), without the offset; None if it is the intercept."""
        if self.fixed is None:
            return None
        base, design = np.empty((self.X.shape[0], self.draws.size)), as_design(self.X)
        for part in blocks(self.draws.size, max(self.X.shape)):
            weight = np.where(self.fixed, self.draws.weight[part], 0.0).T.astype(np.float64)
            base[:, part] = design.matvec(np.ascontiguousarray(weight)) + self.draws.intercept[part]
        return base

    def _masked(self, rows: Int[np.ndarray, " N"], draw_numbers: Int[np.ndarray, " N"]) -> None:
        """Average pairs of a row and a draw by their entries, grouped by the number of entries."""
        chosen, place = np.unique(rows, return_inverse=True)
        matrix = csr_array(self.matrix[chosen])
        length = np.diff(matrix.indptr)
        for count in np.unique(length).tolist():
            few = count <= max(self.limit, RULES.few)
            places = np.flatnonzero(length[place] == count)
            for part in blocks(len(places), 2**count if few else max(count, RULES.first), RULES.cache):
                k = places[part]
                at = matrix.indptr[place[k]][:, None] + np.arange(count)
                pairs = self._pairs(rows[k], draw_numbers[k], self.noised[matrix.indices[at]], matrix.data[at])
                self.result[pairs.rows, pairs.draws] = self._enumerated(pairs) if few else self._transformed(pairs)

    def _pairs(
        self,
        rows: Int[np.ndarray, " N"],
        draw_numbers: Int[np.ndarray, " N"],
        column: Int[np.ndarray, "N k"],
        value: Shaped[np.ndarray, "N k"],
    ) -> _Pairs:
        """Pairs of a row and a draw, given the columns and values of the noised entries."""
        base = (
            self.draws.intercept[draw_numbers] if self.base is None else self.base[rows, draw_numbers]
        ) + self.offset[rows]
        draws = self.draws
        if draws.fixed_rate is not None:
            rate = draws.fixed_rate[column]
        else:
            # Every noised entry has a free rate.
            free = draws.free_rate[draw_numbers[:, None], draws.index[column]].astype(np.float64)
            rate = np.clip(free, 0.0, np.nextafter(1.0, 0.0))
        factor = draws.model.noise.coefficients(rate).gain / (1 - rate)
        return _Pairs(rows, draw_numbers, base, draws.weight[draw_numbers[:, None], column] * factor * value, rate)

    def _of(self, rows: Int[np.ndarray, " N"], draw_numbers: Int[np.ndarray, " N"]) -> Any:
        """The function of the scores of pairs of a row and a draw, by their numbers."""
        return lambda cells, score: self.function(rows[cells] + self.start, draw_numbers[cells], score)

    def _quickly(self, chosen: Int[np.ndarray, " r"]) -> tuple[Int[np.ndarray, " f"], Int[np.ndarray, " f"]]:
        """Average the logistic function; return the pairs of a row and a draw with too large an error."""
        draws = self.draws
        rate = np.asarray(draws.rate(slice(0, draws.size))[:, self.noised], dtype=np.float64)
        step = draws.weight[:, self.noised] * (draws.model.noise.coefficients(rate).gain / (1 - rate))
        base = np.broadcast_to(draws.intercept, (len(chosen), draws.size)) if self.base is None else self.base[chosen]
        matrix = self.matrix if len(chosen) == len(self.matrix) else self.matrix[chosen]
        self.result[chosen], error = average_logistic(matrix, step, rate, base + self.offset[chosen, None])
        rows, draw_numbers = np.nonzero(~(error <= TOLERANCE))
        return chosen[rows], draw_numbers

    def _close_to_normal(self, chosen: Int[np.ndarray, " r"]) -> tuple[Int[np.ndarray, " f"], Int[np.ndarray, " f"]]:
        """Average by cumulants; return the pairs of a row and a draw with too large an error."""
        failed = []
        for part, law in self._laws(chosen):
            rows = np.repeat(chosen, part.stop - part.start)
            draw_numbers = np.tile(np.arange(part.start, part.stop), len(chosen))
            value, error = by_cumulants(law, self._of(rows, draw_numbers), logarithmic=self.logarithmic)
            self.result[rows, draw_numbers] = value
            poor = ~(error <= self.doubt.allowed / 2)  # the series estimates its own error
            failed.append((rows[poor], draw_numbers[poor]))
        rows, draw_numbers = (np.concatenate(parts) for parts in zip(*failed, strict=True))
        return rows, draw_numbers

    def _laws(self, chosen: Int[np.ndarray, " r"]) -> Iterator[tuple[slice, Cumulants]]:
        """Cumulants of the scores, for some draws at a time; rows ascend slowest."""
        draws, noise = self.draws, self.draws.model.noise
        X = self.X[chosen] if len(chosen) < self.X.shape[0] else self.X
        design, powers = as_design(X), _powers(X, noise.expansion(np.zeros(1)).powers)
        for part in blocks(draws.size, 4 * max(X.shape)):
            mean, var = draws.moments(design, part)
            weight = draws.weight[part].T.astype(np.float64)
            square = weight * weight
            orders = (square * weight, square * square, square * square * np.abs(weight))
            expansion = noise.expansion(np.ascontiguousarray(draws.rate(part).T))
            higher_orders = (
                np.broadcast_to(_product(powers.get(power), coefficient * factor), mean.shape)
                for coefficient, power, factor in zip(expansion[:3], expansion.powers, orders, strict=True)
            )
            yield part, Cumulants(*(each.ravel() for each in (mean + self.offset[chosen, None], var, *higher_orders)))

    def _enumerated(self, pairs: _Pairs) -> Float[np.ndarray, " N"]:
        """Averages over all masks."""
        value, log_chance = all_masks(pairs.step, pairs.rate)
        terms = self.function(pairs.rows + self.start, pairs.draws, pairs.base[:, None] + value)
        return log_sum(log_chance + terms) if self.logarithmic else (np.exp(log_chance) * terms).sum(axis=1)

    def _transformed(self, pairs: _Pairs) -> Float[np.ndarray, " N"]:
        """Averages by quadrature, for likelihoods with tilted distributions; if this fails, by enumeration."""
        f, function, tilt = self.function, self._of(pairs.rows, pairs.draws), np.zeros(len(pairs.base))
        if isinstance(f, LogLikelihood):
            rows = pairs.rows + self.start
            tilt = saddle_tilt(lambda numbers, s: f.slope(rows[numbers], pairs.draws[numbers], s), *pairs[2:])
        law, log_norm = masked_law(*pairs[2:], tilt)

        def tilted(numbers: Int[np.ndarray, " r"], score: Float[np.ndarray, "r M"]) -> Float[np.ndarray, "r M"]:
            values = function(numbers, score)
            return values - tilt[numbers, None] * score if self.logarithmic else values

        value, error = by_law(law, tilted, logarithmic=self.logarithmic)
        value += log_norm
        poor = np.flatnonzero(~(error <= self.doubt.allowed))
        if law.entries > RULES.max_enumerated:
            self.doubt.add(error[poor])
            return value
        for part in blocks(len(poor), 2**law.entries):
            value[poor[part]] = self._enumerated(_Pairs(*(values[poor[part]] for values in pairs)))
        return value

    def _unmasked(self, rows: Int[np.ndarray, " N"], draw_numbers: Int[np.ndarray, " N"]) -> None:
        """Average by characteristic functions of noise without masks, with zeros included."""
        noise = self.draws.model.noise
        for part in blocks(len(rows), RULES.first * self.X.shape[1]):
            i, j = rows[part], draw_numbers[part]
            entry = self.X[i].toarray() if issparse(self.X) else self.X[i]
            entry = np.asarray(entry, dtype=np.float64)
            weight = self.draws.weight[j].astype(np.float64)
            gain, shift, *coefficients = noise.coefficients(np.zeros_like(entry))
            var = sum(c * entry**power for c, power in zip(coefficients, (2, 1, 0), strict=True))
            base = self.draws.intercept[j] + self.offset[i]
            mean, var = base + ((gain * entry + shift) * weight).sum(axis=1), (var * weight**2).sum(axis=1)
            scale = noise.expansion(np.zeros(1)).tail_scale * np.abs(weight).max(axis=1)
            reach = np.sqrt(2 * RULES.tail * var) + RULES.tail * scale

            def characteristic(
                numbers: Int[np.ndarray, " r"], u: Float[np.ndarray, "r M"], weight: Any = weight, entry: Any = entry
            ) -> Complex[np.ndarray, "r M"]:
                logs = noise.log_mgf(1j * u[:, :, None] * weight[numbers, None], entry[numbers, None], np.zeros(1))
                return np.asarray(np.exp(logs.sum(axis=2)))

            law = Law(base, mean - reach, mean + reach, characteristic, entry.shape[1])
            self.result[i, j], error = by_law(law, self._of(i, j), logarithmic=self.logarithmic)
            self.doubt.add(error)


def _powers(X: Any, powers: tuple[int, int, int]) -> dict[int, Any]:
    """Designs of the powers of a matrix: for the fifth ``|x|^5``, used in a bound only; None for the power 0."""
    first = (csr_array(X) if issparse(X) else X).astype(np.float64)
    designs, raised = {}, first
    for power in range(1, max(powers) + 1):
        if power in powers:
            designs[power] = as_design(abs(raised) if power == 5 else raised)
        raised = raised * first
    return designs


def _product(design: Any, coefficient: Float[np.ndarray, "p draws"]) -> Float[np.ndarray, "n_or_1 draws"]:
    """Product with a power of a matrix; for the power 0 (None) the sum of the coefficients."""
    if design is None:
        return np.asarray(coefficient.sum(axis=0)[None])
    return np.asarray(design.matvec(np.ascontiguousarray(coefficient)))


def class_probability(
    draws: Draws,
    X: Any,
    corrupted_inputs: bool = False,
    offset: Float[np.ndarray, " n"] | None = None,
    loss: Any = None,
) -> Float[np.ndarray, "n S"]:
    """Probability of the positive class of each row and draw, averaged over the noise: (n, S).

    Parameters
    ----------
    draws : Draws
        Draws of a model for two classes.
    X : array or scipy sparse (n, p)
        Rows that fit them.
    corrupted_inputs : bool
        Whether the rows are corrupted already, so that there is no noise to average over.
    offset : array (n,), optional
        Known part of every row's score.
    loss : Classifying, optional
        Loss that maps scores to probabilities; the model's by default.
    """
    advice = "take one of two classes, such as bd.Logistic()"
    loss = require(draws.model.loss if loss is None else loss, Classifying, "a class probability", advice)
    if not corrupted_inputs:
        return np.clip(expectation(draws, X, Probability(draws, loss), offset=offset), 0.0, 1.0)
    return np.asarray(loss.probability(DrawnScores(draws, X, True, offset).mean(), draws.C[None]))


@dataclass(frozen=True)
class DrawnScores:
    """Distributions of the scores of some rows, one for each draw; see :class:`bayesdrop.losses.base.NoisedScores`.

    Attributes
    ----------
    draws : Draws
        Draws of a model.
    X : array or scipy sparse (n, p)
        Rows that fit them.
    corrupted_inputs : bool
        Whether the rows are noised already, so that nothing is averaged.
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
        return class_probability(self.draws, self.X, self.corrupted_inputs, self.offset, Logistic())

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
        return class_probability(draws, X, corrupted_inputs, offset)
    with np.errstate(over="ignore"):  # an overflowing mean is infinite
        return np.asarray(draws.loss_of(slice(None)).expected_response(DrawnScores(draws, X, corrupted_inputs, offset)))
