r"""Exact moments of ``e^s`` under any noise, instead of the mean and the variance of the score.

    E e^s = exp(m + v/2),      v = 2 Σ_d [log E e^{w_d x̃_d} − w_d E x̃_d],

which a loss with the flag ``exponential`` uses as its ``v``: the variance plus terms of all higher cumulants,
nonnegative and, for normal noise, the variance. It is not a quadratic form of the weights, so that its slopes depend on
the weights. With ``μ_id`` and ``τ_id`` the mean and the variance of ``x̃_id`` under the distribution tilted by ``e^{w_d
x̃}``,

    ∂v_i/∂w_d = 2(μ_id − E x̃_id),      ∂²v_i/∂w_d² = 2τ_id,

and mixed derivatives are 0. Newton's method is otherwise unchanged. ``τ`` is a difference quotient of ``μ``; its error
affects steps only, not the optimum. Where the moment-generating function is infinite, ``v`` is a large number, which a
line search rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..._memory import BLOCK
from ..._typing import AnyArray, Float, PerRow
from ...designs import Design
from ...moments import ScoreMoments
from ...noise import Noise

__all__ = ["ExponentialMoments", "exponential_moments"]


class _Tilt(NamedTuple):
    """``∂v/∂w`` of some rows: the matrix ``change``, dense or sparse, plus ``always`` (p,) in every row."""

    rows: slice
    change: Any
    always: Any

    def forward(self, u: Float[np.ndarray, "p 1"]) -> Float[np.ndarray, "m 1"]:
        return np.asarray(self.change @ u) + self.always @ u

    def backward(self, r: Float[np.ndarray, "m 1"]) -> Float[np.ndarray, "p 1"]:
        return np.asarray(self.change.T @ r) + self.always[:, None] * r.sum(axis=0)


class ExponentialMoments(ScoreMoments):
    """Mean of the score and the ``v`` of ``E e^s = exp(m + v/2)``, for one problem; see :class:`.ScoreMoments`.

    Attributes
    ----------
    huge : float
        Value of an infinite or overflowing ``v``.
    quotient : float
        Step of the difference quotient of ``μ``, in units of the entry.

    Raises
    ------
    TypeError
        If the rows are neither in memory nor in blocks that this process reads.
    """

    huge: ClassVar[float] = 1e20
    quotient: ClassVar[float] = 1e-4

    def __init__(
        self,
        design: Design,
        noise: Noise,
        rate: Float[AnyArray, "p _"],
        fit_intercept: bool = True,
    ) -> None:
        super().__init__(design, noise, rate, fit_intercept)
        if not isinstance(design.zeros(1), np.ndarray):
            raise TypeError(
                'expectation: "exact" goes through the entries of X, which are elsewhere; use expectation="gaussian", '
                "which needs products only, or give an array, scipy sparse or bd.Blocks."
            )
        terms = noise.coefficients(np.asarray(rate, dtype=np.float64)[:, 0])
        self._gain, self._shift, self._deviations = terms.gain, terms.shift, np.sqrt(terms.constant)
        self._rates = np.broadcast_to(np.asarray(rate, dtype=np.float64)[:, 0], (design.shape[1],))
        self._known: tuple[Any, list[_Tilt]] = (None, [])

    def select(self, columns: Any) -> ScoreMoments:
        """The moments themselves, for the only problem."""
        return self

    def scores(self, weights: Float[np.ndarray, "q K"]) -> tuple[PerRow, PerRow]:
        """Mean of the score and ``v``, (n, 1) each."""
        return self.mean(weights), self.variance(weights)

    def variance(self, weights: Float[np.ndarray, "q K"]) -> PerRow:
        """``v``, (n, 1)."""
        result = np.zeros((self.design.shape[0], 1))
        for rows, change, always in self._sums(weights, self._excess, 0):
            result[rows, 0] = 2 * (np.asarray(change.sum(axis=1)).ravel() + always.sum())
        return np.clip(result, 0.0, self.huge)

    def tangent(self, weights: Float[np.ndarray, "q K"], direction: Float[np.ndarray, "q K"]) -> tuple[PerRow, PerRow]:
        """Directional derivatives ``(dm, dv)`` along ``direction``."""
        slope = np.zeros((self.design.shape[0], 1))
        for tilt in self._tilts(weights):
            slope[tilt.rows] = tilt.forward(direction[:-1])
        return self.mean(direction), slope

    def adjoint(
        self, weights: Float[np.ndarray, "q K"], for_mean: PerRow, for_var: PerRow
    ) -> tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p K"]]:
        """Adjoint of the tangent, (p + 1, 1), and ``Σ_i s_i τ_id``, (p, 1)."""
        spread = np.zeros((self.design.shape[1], 1))
        for rows, change, always in self._sums(weights, self._tilted_variance, 2):
            spread += _Tilt(rows, change, always).backward(for_var[rows])
        return self._pull_back(weights, for_mean, for_var), spread

    def normal_product(
        self,
        weights: Float[np.ndarray, "q K"],
        direction: Float[np.ndarray, "q K"],
        between: Callable[[slice, PerRow, PerRow], tuple[PerRow, PerRow]],
    ) -> tuple[PerRow, PerRow, Float[np.ndarray, "q K"]]:
        """The tangent, and the adjoint of ``between`` of it."""
        tangent = self.tangent(weights, direction)
        return *tangent, self._pull_back(weights, *between(slice(None), *tangent))

    def _pull_back(
        self, weights: Float[np.ndarray, "q K"], for_mean: PerRow, for_var: PerRow
    ) -> Float[np.ndarray, "q K"]:
        result = self.mean_adjoint(for_mean)
        for tilt in self._tilts(weights):
            result[:-1] += tilt.backward(for_var[tilt.rows])
        return result

    def _tilts(self, weights: Float[np.ndarray, "q K"]) -> Iterator[_Tilt]:
        """``∂v/∂w``, stored for rows in memory until the weights change."""
        if self._known[0] is weights:
            yield from self._known[1]
            return
        tilts = []
        for rows, change, always in self._sums(weights, self._deviation, 1):
            tilt = _Tilt(rows, 2 * change, 2 * always)
            tilts.append(tilt)
            yield tilt
        if self.design.is_local:
            self._known = weights, tilts

    def _sums(self, weights: Float[np.ndarray, "q K"], function: Any, power: int) -> Iterator[tuple[slice, Any, Any]]:
        """A function of ``(w, x, column)`` at all entries of some rows: ``(rows, change, always)``.

        The value at an entry is its ``change`` plus ``always`` of its column, which for sparse rows is the value at
        zero. The function has the unit of the column to the ``power``; NaN and overflow become ``huge`` in this unit.
        """

        def at(w: Any, x: Any, column: Any) -> Any:
            values, bound = function(w, x, column), self.huge * self._size(x, column) ** power
            return np.clip(np.where(np.isnan(values), bound, values), -bound, bound)

        w, p = weights[:-1, 0], self.design.shape[1]
        columns = np.arange(p)
        for rows, part in self.design.parts():
            matrix = part.matrix()
            if not part.is_sparse:
                for start in range(0, len(matrix), max(1, BLOCK // p)):
                    entries = matrix[start : start + max(1, BLOCK // p)].astype(np.float64)
                    block_rows = slice(rows.start + start, rows.start + start + len(entries))
                    yield block_rows, at(w, entries, columns), np.zeros(p)
                continue
            zero = at(w, np.zeros(p), columns)
            change, index = matrix.astype(np.float64).tocsr(copy=True), matrix.indices
            values = at(w[index], change.data, index)
            change.data = values - zero[index]
            yield rows, change, zero

    def _size(self, x: Any, column: Any) -> Any:
        """Size of an entry plus that of its noise, so that results do not depend on the units of the columns."""
        size = np.abs(x) + self._deviations[column]
        return np.where(size > 0, size, 1.0)

    def _expected(self, x: Float[AnyArray, ...], column: Any) -> Any:
        return self._gain[column] * x + self._shift[column]

    def _excess(self, t: Any, x: Any, column: Any) -> Any:
        return self.noise.log_mgf(t, x, self._rates[column]) - t * self._expected(x, column)

    def _deviation(self, t: Any, x: Any, column: Any) -> Any:
        return self.noise.log_mgf_slope(t, x, self._rates[column]) - self._expected(x, column)

    def _tilted_variance(self, t: Any, x: Any, column: Any) -> Any:
        step = self.quotient / self._size(x, column)
        above, below = (self.noise.log_mgf_slope(t + h, x, self._rates[column]) for h in (step, -step))
        return np.maximum(above - below, 0.0) / (2 * step)


def exponential_moments(
    design: Design, noise: Noise, rate: Float[AnyArray, "p _"], fit_intercept: bool = True
) -> ScoreMoments:
    """Moments of the scores, exact for ``E e^s``.

    For noise without variance, and for normal noise, these are the ordinary moments.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> from bayesdrop.noise import Dropout
    >>> moments = exponential_moments(as_design(np.ones((1, 1))), Dropout(), np.full((1, 1), 0.5), False)
    >>> mean, var = moments.scores(np.array([[2.0], [0.0]]))
    >>> bool(np.isclose(np.exp(mean + var / 2), (1 + np.exp(2.0)) / 2))
    True
    """
    plain = ScoreMoments(design, noise, rate, fit_intercept)
    beyond = noise.expansion(np.asarray(rate, dtype=np.float64))[:3]
    if not (plain.has_variance and any(np.any(part) for part in beyond)):
        return plain
    return ExponentialMoments(design, noise, rate, fit_intercept)
