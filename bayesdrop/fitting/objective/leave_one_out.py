r"""Approximate the score of each row by a fit without it, from one fit to all rows; for cross-validation.

Without row ``i`` the energy lacks ``c_i φ(y_i, m_i, v_i)``, and one step of Newton's method from the fit to all rows
gives the weights of a fit without it (Rad & Maleki 2020, equation 8, there for scores without variance):

    w₋ᵢ = w + (H − Hᵢ)⁻¹ Uᵢ γᵢ,        Hᵢ = Uᵢ Φᵢ Uᵢᵀ + diagonal,

with the Hessian ``H`` of the energy, ``Uᵢ = (∂m_i/∂w, ∂v_i/∂w)``, and the first and second derivatives ``γᵢ`` and
``Φᵢ`` of ``c_i φ`` in ``(m, v)``. With the leverage of the row, ``Kᵢ = UᵢᵀH⁻¹Uᵢ``, the step is

    w₋ᵢ − w = H⁻¹ Uᵢ (1 − Φᵢ Kᵢ)⁻¹ γᵢ.

If the weight of a row counts copies, one copy is left out: a share of ``γᵢ`` and ``Φᵢ``. The diagonal of ``Hᵢ``, the
part of the row in the penalty from the noise, is not removed; it is about ``1/n`` of this penalty. For a quadratic
energy without noise the step is exact. Learnt rates are those of all rows: differences of losses between strengths then
have errors of about half a standard error, in favour of noise; with given rates, a tenth.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..._memory import BLOCK
from ..._typing import Float, PerRow
from ...linalg.systems import Factor, double_range, factored, solved
from ...losses import Derivatives
from ...moments import ScoreMoments
from .energy import Energy, Level, WeightBlock

__all__ = ["LEAST_CURVATURE", "left_out_scores"]

LEAST_CURVATURE = 1e-9
"""Minimum share of the curvature along a row that is due to other rows and the prior; avoids division by zero."""


@double_range()
def left_out_scores(
    energy: Energy,
    weights: WeightBlock,
    mean: PerRow,
    var: PerRow,
    corrupted_inputs: bool = False,
    share: Float[np.ndarray, " n"] | float = 1.0,
    room: int = BLOCK,
) -> tuple[PerRow, PerRow]:
    """Mean and variance of the score of each row, (n, K), from the weights of a fit without it.

    Parameters
    ----------
    energy : Energy
        Energy of the fit, with a differentiable loss.
    weights : array (p + 1, K)
        Weights at its minimum.
    mean, var : array (n, K)
        Moments of the scores at these weights, without the offset, as in the result.
    corrupted_inputs : bool
        Whether the rows are noised already.
    share : array (n,) or float
        Share of the weight of each row to leave out.
    room : int
        Maximum number of entries of the rows in memory at a time.

    Raises
    ------
    ValueError
        If the Hessian overflows.
    """
    slopes = energy.derivatives(mean, var, np.zeros(mean.shape[1]))
    _, spread = energy.gradient(weights, slopes)
    diagonal = np.broadcast_to(energy.precision, weights.shape).copy()
    diagonal[:-1] += 2 * spread
    shares = np.broadcast_to(share, len(mean))
    moments = [np.empty_like(mean), np.empty_like(var)]
    for k in range(weights.shape[1]):
        rows = _Rows(energy.moments, k, weights[:, k], corrupted_inputs, room)
        row_slopes = Derivatives(*(part[:, k] for part in slopes))
        factor = rows.factor(row_slopes, diagonal[:, k], energy.level)
        row_slopes = Derivatives(*(shares * part for part in row_slopes))
        for part, x in rows.pieces():
            moments[0][part, k], moments[1][part, k] = rows.left_out(part, x, row_slopes, factor)
    return moments[0], moments[1]


class _Rows:
    """Rows of one problem, in blocks, with ``∂m/∂w`` and ``∂v/∂w``, (m, p + 1) each."""

    def __init__(
        self, moments: ScoreMoments, k: int, weights: Float[np.ndarray, " q"], corrupted: bool, room: int
    ) -> None:
        p, K = len(weights) - 1, k + 1
        parts = (np.asarray(part) for part in moments.coefficients)
        self.coefficients = [np.broadcast_to(part, (p, max(K, part.shape[-1])))[:, k] for part in parts]
        self.design, self.noisy, self.weights, self.corrupted = moments.design, moments.has_variance, weights, corrupted
        self.intercept, self.count = float(moments.fit_intercept), max(1, room // len(weights))

    def pieces(self) -> Iterator[tuple[slice, Float[np.ndarray, "m p"]]]:
        """Features in blocks of ``count`` rows, which bounds the memory of products."""
        for rows, part in self.design.parts(self.count):
            matrix = part.matrix()
            yield rows, np.asarray(matrix.toarray() if part.is_sparse else matrix, dtype=np.float64)

    def mean_slope(self, x: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "m q"]:
        gain, shift = self.coefficients[:2]
        return np.column_stack([x * gain + shift, np.full(len(x), self.intercept)])

    def spread(self, x: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "m p"]:
        """Variance of each noised entry."""
        _, _, quadratic, linear, constant = self.coefficients
        return (quadratic * x + linear) * x + constant

    def var_slope(self, spread: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "m q"]:
        return np.column_stack([2 * spread * self.weights[:-1], np.zeros(len(spread))])

    def factor(self, slopes: Derivatives, diagonal: Float[np.ndarray, " q"], level: Level | None) -> Factor:
        """Cholesky factor of the Hessian."""
        hessian = np.diag(diagonal) if level is None else np.diag(diagonal) + level.hessian
        for part, x in self.pieces():
            mean = self.mean_slope(x)
            hessian += (mean.T * slopes.mean_mean[part]) @ mean
            if self.noisy:
                var = self.var_slope(self.spread(x))
                cross = (mean.T * slopes.mean_var[part]) @ var
                hessian += cross + cross.T + (var.T * slopes.var_var[part]) @ var
        if not self.intercept:
            hessian[-1, -1] = 1.0
        return factored(hessian)

    def left_out(
        self, part: slice, x: Float[np.ndarray, "m p"], slopes: Derivatives, factor: Factor
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Moments of the scores of some rows, each with the weights without it.

        The share of the curvature that remains without the row is at least :data:`LEAST_CURVATURE`.
        """
        mean = self.mean_slope(x)
        by_mean = solved(factor, mean.T).T
        first, of_mean = slopes.mean[part], slopes.mean_mean[part]
        leverage = np.sum(mean * by_mean, axis=1)
        if self.noisy:
            spread = self.spread(x)
            var = self.var_slope(spread)
            by_var = solved(factor, var.T).T
            across, along = np.sum(mean * by_var, axis=1), np.sum(var * by_var, axis=1)
            second, mixed, of_var = slopes.var[part], slopes.mean_var[part], slopes.var_var[part]
            # (1 − ΦK)⁻¹ γ by Cramer's rule.
            system = (1 - of_mean * leverage - mixed * across, -of_mean * across - mixed * along,
                    -mixed * leverage - of_var * across, 1 - mixed * across - of_var * along)  # fmt: skip
            whole = np.maximum(system[0] * system[3] - system[1] * system[2], LEAST_CURVATURE)
            step = by_mean * ((system[3] * first - system[1] * second) / whole)[:, None]
            step += by_var * ((system[0] * second - system[2] * first) / whole)[:, None]
        else:
            step = by_mean * (first / np.maximum(1 - of_mean * leverage, LEAST_CURVATURE))[:, None]
        weights = self.weights + step
        if self.corrupted:
            return np.sum(x * weights[:, :-1], axis=1) + weights[:, -1], np.zeros(len(x))
        expected = np.sum(mean * weights, axis=1)
        return expected, np.sum(spread * weights[:, :-1] ** 2, axis=1) if self.noisy else np.zeros(len(x))
