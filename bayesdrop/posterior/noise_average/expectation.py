r"""The expectation, over the noise of a row, of any function of its noised score, for every draw of a posterior.

    E f(s_i),      s_i = b + Σ_d w_d x̃_id

Each row and draw has the first of these that is good enough:

1. a row with at most ``log₂ masks`` entries that may be dropped has all its masks enumerated, and with twice as many
   entries the two halves of it where the logarithm of the function is piecewise linear (:mod:`.enumeration`): exact;
2. the characteristic function of the score by its first four cumulants, which are products with powers of the matrix,
   while a bound of what follows shows the error to be small: rows of many small entries, and normal noises, for which
   it is exact;
3. the characteristic function as a product over the entries, the law tilted to where a small function has its mass;
4. enumeration again, of up to 20 entries and by halves of up to 24.

Ways 2 and 3 sum a Fourier series (see :mod:`.score_law`) until the estimate of its error is below ``ERROR`` = 0.002,
of the expectation where the function is a probability, relative to it where it is a likelihood. That is a ceiling:
where the function is smooth the error is a hundred times smaller. Likelihoods are logarithms throughout, so that none
is too small for a sum. No random numbers are used.

Memory is bounded: rows and draws are taken a block at a time. Sparse rows are never made dense, but for additive noise,
which leaves no zero where it was, a few at a time and only where way 2 does not do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..._typing import Float, Int
from ...designs import as_design
from ...warnings import AccuracyWarning, warn
from ..draws.draws import Draws, blocks
from .enumeration import LogLikelihood, Probability, all_masks, by_halves, log_sum
from .score_law import SERIES, Exact, NearNormal, TwoPoint, integrate, saddle_tilt

__all__ = ["ERROR", "MASKS", "Doubt", "expectation"]

ERROR = 2e-3
MASKS = 64


def expectation(
    draws: Draws,
    X: Any,
    function: Probability | LogLikelihood,
    *,
    masks: int = MASKS,
    offset: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "n S"]:
    """``E f(s)``, or its logarithm where the function is one, for each row and draw: (n, S).

    Parameters
    ----------
    draws : Draws
        Draws of a model.
    X : array or scipy sparse (n, p)
        Rows that fit them.
    function : Probability or LogLikelihood
        The function.
    masks : int
        Rows of no more masks have them enumerated.
    offset : array (n,), optional
        Known part of every row's score.

    Warns
    -----
    AccuracyWarning
        If the error of some cannot be shown to be below :data:`ERROR`.
    """
    values, offset = np.empty((X.shape[0], draws.size)), np.zeros(X.shape[0]) if offset is None else offset
    doubt = Doubt()
    entries = X.nnz / max(X.shape[0], 1) if hasattr(X, "nnz") else X.shape[1]
    for rows in blocks(X.shape[0], int(max(draws.size, entries))):
        values[rows] = _Block(draws, X[rows], function, rows.start, masks, offset[rows], doubt).values()
    doubt.tell(values.size, "a steep function of scores that spread widely, as with a very large C")
    return values


class Doubt:
    """Averages whose error is not known to be below :data:`ERROR`."""

    def __init__(self) -> None:
        self.failed, self.worst = 0, 0.0

    def add(self, error: Float[np.ndarray, " failed"]) -> None:
        """Count some, by their errors."""
        if len(error):
            self.failed, self.worst = self.failed + len(error), max(self.worst, float(error.max()))

    def tell(self, total: int, why: str) -> None:
        """Warn of them, if there are any."""
        if self.failed:
            warn(
                f"{self.failed} of {total} averages over the noise of a row have errors of up to {self.worst:.2g} "
                f"(expected {ERROR:g}): {why}.",
                AccuracyWarning,
            )


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
        self.has_masks = draws.model.noise.has_rate
        self.doubt = doubt
        self.fixed = draws.without_noise if self.has_masks and np.any(draws.without_noise) else None

    def values(self) -> Float[np.ndarray, "n S"]:
        draws, n = self.draws, self.X.shape[0]
        result = np.empty((n, draws.size))
        self.base = self._base()
        many = np.ones(n, dtype=bool)
        if self.has_masks:
            self.starts, self.columns, self.entries = self._noised_entries()
            size = np.diff(self.starts)
            linear = self.function.pieces(np.zeros(1, int), np.zeros(1, int)) is not None
            many = size > (2 * self.limit if linear else self.limit)
            for count in np.unique(size[~many]):
                self._enumerate(result, *self._pairs(np.flatnonzero(size == count)), int(count))
        chosen = np.flatnonzero(many)
        if not len(chosen):
            return result
        failed = self._near_normal(result, chosen)
        if len(failed[0]):
            (self._products if self.has_masks else self._exact)(result, *failed)
        return result

    def _base(self) -> Float[np.ndarray, "n S"] | None:
        """Part of each score that no mask moves, (n, S), without its offset; None if that is the intercept."""
        if self.fixed is None:
            return None
        base, design = np.empty((self.X.shape[0], self.draws.size)), as_design(self.X)
        for part in blocks(self.draws.size, max(self.X.shape)):
            weight = np.where(self.fixed, self.draws.weight[part], 0.0).T.astype(np.float64)
            base[:, part] = design.matvec(np.ascontiguousarray(weight)) + self.draws.intercept[part]
        return base

    def _noised_entries(self) -> tuple[Int[np.ndarray, " rows_and_1"], Int[np.ndarray, " e"], Float[np.ndarray, " e"]]:
        """Entries that may be dropped, row after row: where each row starts, columns, values."""
        parts = list(as_design(self.X).entries())
        row, column, value = (np.concatenate([part[j] for part in parts]) if parts else np.zeros(0) for j in range(3))
        if self.fixed is not None and len(row):
            kept = ~self.fixed[column]
            row, column, value = row[kept], column[kept], value[kept]
        starts = np.searchsorted(row, np.arange(self.X.shape[0] + 1))
        return starts, column.astype(int), value.astype(np.float64)

    def _pairs(self, rows: Int[np.ndarray, " r"]) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
        return np.repeat(rows, self.draws.size), np.tile(np.arange(self.draws.size), len(rows))

    def _entries_of(
        self, rows: Int[np.ndarray, " N"], some: Int[np.ndarray, " N"], count: int
    ) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, "N k"], Float[np.ndarray, "N k"]]:
        """Base (N,), contributions and rates (N, count) of pairs of a row and a draw."""
        base = (self.draws.intercept[some] if self.base is None else self.base[rows, some]) + self.offset[rows]
        if count == 0:
            return base, np.zeros((len(rows), 0)), np.zeros((len(rows), 0))
        place = self.starts[rows][:, None] + np.arange(count)
        column, draws = self.columns[place], self.draws
        if draws.fixed_rate is not None:
            rate = draws.fixed_rate[column]
        else:
            # Of the entries here each has a free rate.
            rate = np.clip(
                draws.free_rate[some[:, None], draws.index[column]].astype(np.float64), 0.0, np.nextafter(1.0, 0.0)
            )
        kept = draws.model.noise.coefficients(rate).gain / (1 - rate)
        return base, draws.weight[some[:, None], column] * kept * self.entries[place], rate

    def _enumerate(
        self, result: Float[np.ndarray, "n S"], rows: Int[np.ndarray, " N"], some: Int[np.ndarray, " N"], count: int
    ) -> None:
        """Sum over the ``2^count`` masks of pairs with ``count`` noised entries each, by halves where they will do."""
        halved = count > self.limit and self.function.pieces(rows[:1] + self.start, some[:1]) is not None
        for part in blocks(len(rows), 4 * 2 ** ((count + 1) // 2 if halved else count)):
            i, j = rows[part], some[part]
            base, step, rate = self._entries_of(i, j, count)
            if halved:
                pieces: Any = self.function.pieces(i + self.start, j)
                result[i, j] = by_halves(base, step, rate, pieces)
                continue
            value, log_chance = all_masks(step, rate)
            terms = self.function(i + self.start, j, base[:, None] + value)
            logarithmic = self.function.logarithmic
            result[i, j] = log_sum(log_chance + terms) if logarithmic else (np.exp(log_chance) * terms).sum(axis=1)

    def _near_normal(
        self, result: Float[np.ndarray, "n S"], chosen: Int[np.ndarray, " r"]
    ) -> tuple[Int[np.ndarray, " f"], Int[np.ndarray, " f"]]:
        """Ways by cumulants; returns the pairs of a row and a draw for which they do not do."""
        X = self.X[chosen] if len(chosen) < self.X.shape[0] else self.X
        fail_rows, fail_draws = [], []
        for part, law in self._laws(X, self.offset[chosen]):
            rows = np.repeat(chosen, part.stop - part.start)
            some = np.tile(np.arange(part.start, part.stop), len(chosen))
            # What the remainder makes of a function that changes over one unit of the score, if the law lets it.
            doubt = law.remainder * np.minimum(1.0, np.maximum(law.var, 1e-9) ** -2.5)
            hope = doubt <= 2 * ERROR
            fail_rows.append(rows[~hope])
            fail_draws.append(some[~hope])
            rows, some = rows[hope], some[hope]

            def function(cells: Any, score: Any, rows: Any = rows, some: Any = some) -> Any:
                return self.function(rows[cells] + self.start, some[cells], score)

            logarithmic = self.function.logarithmic
            value, error = integrate(law.take(hope), function, logarithmic=logarithmic, tolerance=ERROR)
            result[rows, some] = value
            failed = ~(error <= ERROR)
            fail_rows.append(rows[failed])
            fail_draws.append(some[failed])
        return np.concatenate(fail_rows), np.concatenate(fail_draws)

    def _laws(self, X: Any, offset: Float[np.ndarray, " r"]) -> Iterator[tuple[slice, NearNormal]]:
        """Laws of the scores by their cumulants, for some draws at a time; rows ascend slowest."""
        draws, noise = self.draws, self.draws.model.noise
        design = as_design(X)
        powers = {power: _power(X, power) for power in noise.expansion(np.zeros(1)).powers if power}
        for part in blocks(draws.size, 4 * max(X.shape)):
            mean, var = draws.moments(design, part)
            mean = mean + offset[:, None]
            weight = draws.weight[part].T.astype(np.float64)
            expansion = noise.expansion(np.ascontiguousarray(draws.rate(part).T))
            orders = zip(expansion[:3], expansion.powers, (weight**3, weight**4, np.abs(weight) ** 5), strict=True)
            rest = [
                np.broadcast_to(_product(powers.get(power), coefficient * factor), mean.shape)
                for coefficient, power, factor in orders
            ]
            proxy = var if expansion.proxy is None else design.sq_matvec(expansion.proxy * weight**2)
            jump = np.broadcast_to(expansion.tail_scale * np.abs(weight).max(axis=0), mean.shape)
            cumulants = tuple(cells.ravel() for cells in (mean, np.maximum(var, 0.0), *rest))
            yield part, NearNormal.of(cumulants, np.maximum(proxy, 0.0).ravel(), jump.ravel())

    def _products(
        self, result: Float[np.ndarray, "n S"], rows: Int[np.ndarray, " N"], some: Int[np.ndarray, " N"]
    ) -> None:
        """Ways by products over the entries, tilted to where the function has its expectation."""
        size = np.diff(self.starts)[rows]
        for count in np.unique(size):
            mine = np.flatnonzero(size == count)
            for part in blocks(len(mine), 4 * max(int(count), 32)):
                i, j = rows[mine[part]], some[mine[part]]
                self._product_of(result, i, j, int(count))

    def _product_of(
        self, result: Float[np.ndarray, "n S"], rows: Int[np.ndarray, " N"], some: Int[np.ndarray, " N"], count: int
    ) -> None:
        base, step, rate = self._entries_of(rows, some, count)
        logarithmic = self.function.logarithmic

        def slope(cells: Any, score: Any) -> Any:
            return self.function.slope(rows[cells] + self.start, some[cells], score)

        tilt = saddle_tilt(slope, base, step, rate) if logarithmic else np.zeros(len(rows))
        todo = np.arange(len(rows))
        for wide in (False, True):
            law = TwoPoint.of(base[todo], step[todo], rate[todo], tilt[todo], wide)

            def function(cells: Any, score: Any, todo: Any = todo) -> Any:
                here = todo[cells]
                plain = self.function(rows[here] + self.start, some[here], score)
                return plain - tilt[here, None] * score if logarithmic else plain

            value, error = integrate(law, function, logarithmic=logarithmic, tolerance=ERROR)
            result[rows[todo], some[todo]] = value + law.log_norm
            poor = ~(error <= ERROR)
            todo, error = todo[poor], error[poor]
            if not len(todo):
                return
        linear = self.function.pieces(rows[:1] + self.start, some[:1]) is not None
        if count <= (SERIES.halved if linear else SERIES.entries):
            self._enumerate(result, rows[todo], some[todo], count)
        else:
            self.doubt.add(error)

    def _exact(
        self, result: Float[np.ndarray, "n S"], rows: Int[np.ndarray, " N"], some: Int[np.ndarray, " N"]
    ) -> None:
        """Ways by products of the noise's own characteristic functions, zeros written out."""
        noise = self.draws.model.noise
        for part in blocks(len(rows), 8 * self.X.shape[1]):
            i, j = rows[part], some[part]
            entry = self.X[i].toarray() if hasattr(self.X, "toarray") else self.X[i]
            entry = np.asarray(entry, dtype=np.float64)
            weight = self.draws.weight[j].astype(np.float64)
            gain, shift, *coefficients = noise.coefficients(np.zeros_like(entry))
            expansion = noise.expansion(np.zeros_like(entry))
            var = sum(c * entry**power for c, power in zip(coefficients, (2, 1, 0), strict=True))
            level = self.draws.intercept[j] + self.offset[i]
            reach = NearNormal.of(
                (level + ((gain * entry + shift) * weight).sum(axis=1), *(np.zeros(len(i)),) * 4),
                (var * weight**2).sum(axis=1),
                expansion.tail_scale * np.abs(weight).max(axis=1),
            )
            law = Exact(level, weight, entry, reach.low, reach.high, noise.log_mgf)

            def function(cells: Any, score: Any, i: Any = i, j: Any = j) -> Any:
                return self.function(i[cells] + self.start, j[cells], score)

            value, error = integrate(law, function, logarithmic=self.function.logarithmic, tolerance=ERROR)
            result[i, j] = value
            self.doubt.add(error[~(error <= ERROR)])


def _power(X: Any, power: int) -> Any:
    """Design of ``x^power``, of ``|x|^5`` for the fifth, which only a bound needs."""
    X = X.astype(np.float64)
    raised = X.power(power) if hasattr(X, "power") else X**power
    return as_design(abs(raised) if power == 5 else raised)


def _product(design: Any, coefficient: Float[np.ndarray, "p draws"]) -> Float[np.ndarray, "n_or_1 draws"]:
    """Product with the power of a matrix; with the power 0, None, the sum."""
    if design is None:
        return np.asarray(coefficient.sum(axis=0)[None])
    return np.asarray(design.matvec(np.ascontiguousarray(coefficient)))
