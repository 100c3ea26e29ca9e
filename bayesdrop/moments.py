"""Moments of the noised score, computed from a design and a noise.

    m = X(g∘w) + hᵀw + b,        v = X²(a∘w²) + X(b∘w²) + c0ᵀw²

for ``K`` columns at a time. Weights are blocks (p + 1, K) whose last row is the intercept, which is never noised.
With ``dm, dv`` the directional derivatives along ``u`` and ``q(r) = a∘(X²)ᵀr + b∘Xᵀr + c0 Σr``, the adjoint of
``u ↦ (dm, dv)`` is ``(r, s) ↦ Mᵀr + 2w∘q(s)``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from ._typing import AnyArray, Float, PerRow
from .designs import Design
from .noise import Coefficients, Noise

__all__ = ["ScoreMoments"]


class ScoreMoments:
    """Mean and variance of the score ``wᵀx̃`` as functions of a block of weights.

    Parameters
    ----------
    design : Design
        Matrix with n rows and p columns.
    noise : Noise
        Feature noise.
    rate : array (p, K) or (p, 1)
        Dropout rates per feature and column.
    fit_intercept : bool
        If false the intercept row must be zero and stays so.
    """

    def __init__(
        self,
        design: Design,
        noise: Noise,
        rate: Float[AnyArray, "p _"],
        fit_intercept: bool = True,
    ) -> None:
        self.design, self.noise, self.rate, self.fit_intercept = design, noise, rate, fit_intercept
        self._keep(noise.coefficients(rate))

    @property
    def has_variance(self) -> bool:
        """True if some feature has noise."""
        return self._has.quadratic or self._has.linear or self._has.constant

    def without_variance(self) -> ScoreMoments:
        """Keep the mean of the noise and forget its variance."""
        zero = np.zeros_like(self.coefficients.gain)
        return self._with(self.coefficients._replace(quadratic=zero, linear=zero, constant=zero), self.rate)

    def select(self, columns: Any) -> ScoreMoments:
        """Keep the given columns of the rates, without variance if it was forgotten."""
        rate, *parts = (
            part[:, columns] if part.shape[1] > 1 else part for part in (self.rate, *self.coefficients)
        )  # fmt: skip
        return self._with(Coefficients(*parts), rate)

    def of(self, design: Design) -> ScoreMoments:
        """Moments of other rows."""
        result = copy(self)
        result.design = design
        return result

    def _with(self, coefficients: Coefficients, rate: Float[AnyArray, "p _"]) -> ScoreMoments:
        result = copy(self)
        result.rate = rate
        result._keep(coefficients)
        return result

    def _keep(self, coefficients: Coefficients) -> None:
        """Keep coefficients, and which of them are other than 0: of the rest one column will do."""
        is_zero: dict[int, bool] = {}
        for part in coefficients:
            # Most noises say of several that they are 0 by one array.
            if id(part) not in is_zero:
                is_zero[id(part)] = bool(np.any(part[:1]) or np.any(part))
        self._has = Coefficients(*(is_zero[id(part)] for part in coefficients))
        parts = zip(coefficients, self._has, strict=True)
        self.coefficients = Coefficients(*(part if has else part[:, :1] for part, has in parts))

    def _forward(
        self,
        mean_weight: Float[np.ndarray, "p K"],
        var_weight: Float[np.ndarray, "p K"],
        intercept: Float[np.ndarray, " K"],
    ) -> tuple[PerRow, PerRow]:
        """``(X(g∘w̄) + hᵀw̄ + b, X²(a∘w̌) + X(b∘w̌) + c0ᵀw̌)`` for a mean block ``w̄`` and a variance block ``w̌``."""
        gain, shift, quadratic, *_ = self.coefficients
        times = gain * mean_weight
        if self._has.quadratic:
            mean, var = self.design.pair_matvec(times, quadratic * var_weight)
        else:
            mean = self.design.matvec(times)
            var = np.zeros_like(mean)
        mean += intercept
        if self._has.shift:
            mean += (shift * mean_weight).sum(axis=0)
        return mean, self._with_lower_terms(var, var_weight)

    def _with_lower_terms(self, var: PerRow, weight: Float[np.ndarray, "p L"]) -> PerRow:
        """Add the linear and the constant part, for a variance block (p, L), to the quadratic part (n, L)."""
        if self._has.linear:
            var += self.design.matvec(self.coefficients.linear * weight)
        if self._has.constant:
            var += (self.coefficients.constant * weight).sum(axis=0)
        return var

    def scores(self, weights: Float[np.ndarray, "q K"]) -> tuple[PerRow, PerRow]:
        """Mean and variance of the score, (n, K) each, for weights (p + 1, K)."""
        if not np.any(weights[:-1]):
            zero = self.design.zeros(weights.shape[1])
            return zero + weights[-1], zero
        return self._forward(weights[:-1], np.square(weights[:-1]), weights[-1])

    def mean(self, weights: Float[np.ndarray, "q K"]) -> PerRow:
        """Mean alone: the linear map ``M w + b``, (n, K)."""
        return self.design.matvec(self.coefficients.gain * weights[:-1]) + self._offset(weights)

    def mean_adjoint(self, residual: PerRow) -> Float[np.ndarray, "q K"]:
        """Adjoint of :meth:`mean`: ``Mᵀr`` as a block (p + 1, K)."""
        return self._mean_block(self.design.rmatvec(residual), self.design.total(residual))

    def variance(self, weights: Float[np.ndarray, "q K"]) -> PerRow:
        """Variance alone: the quadratic form ``v(u)``, (n, K)."""
        return self.covariance(np.square(weights[:-1]))

    def covariance(self, square: Float[np.ndarray, "p L"]) -> PerRow:
        """Covariances of pairs of scores, (n, L), for the products ``w_dk w_dl`` of their weights, (p, L)."""
        times, design = self.coefficients.quadratic * square, self.design
        var = design.sq_matvec(times) if self._has.quadratic else design.zeros(square.shape[1])
        return self._with_lower_terms(var, square)

    def tangent(self, weights: Float[np.ndarray, "q K"], direction: Float[np.ndarray, "q K"]) -> tuple[PerRow, PerRow]:
        """Directional derivatives ``(dm, dv)`` of the scores along ``direction``."""
        along = 2 * weights[:-1] * direction[:-1]
        return self._forward(direction[:-1], along, direction[-1])

    def adjoint(
        self, weights: Float[np.ndarray, "q K"], for_mean: PerRow, for_var: PerRow
    ) -> tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p K"]]:
        """``Mᵀr + 2w∘q(s)`` as a block (p + 1, K), and ``q(s)`` of shape (p, K)."""
        design = self.design
        if self._has.quadratic:
            mean_part, var_part = design.pair_rmatvec(for_mean, for_var)
        else:
            mean_part = design.rmatvec(for_mean)
            var_part = np.zeros_like(mean_part)
        result = self._mean_block(mean_part, design.total(for_mean))
        var_part = self._spread_of(var_part, for_var)
        result[:-1] += 2 * weights[:-1] * var_part
        return result, var_part

    def mean_normal_product(
        self, direction: Float[np.ndarray, "q K"], between: Callable[[slice, PerRow], PerRow]
    ) -> tuple[PerRow, Float[np.ndarray, "q K"]]:
        """``Mu`` (n, K) and ``Mᵀr`` (p + 1, K) in one pass, for ``r = between(rows, Mu)`` of the given rows."""
        times, offset = self.coefficients.gain * direction[:-1], self._offset(direction)
        mean, _, back, _, total, _ = self.design.normal_product(
            times, times[:, :0], lambda rows, part, nothing: (between(rows, part + offset), nothing)
        )
        return mean + offset, self._mean_block(back, total)

    def normal_product(
        self,
        weights: Float[np.ndarray, "q K"],
        direction: Float[np.ndarray, "q K"],
        between: Callable[[slice, PerRow, PerRow], tuple[PerRow, PerRow]],
    ) -> tuple[PerRow, PerRow, Float[np.ndarray, "q K"]]:
        """The tangent ``(dm, dv)`` and the adjoint of ``(r, s) = between(rows, dm, dv)``, in one pass where it can be.

        ``between`` is linear and treats every row separately.
        """
        if self._has.linear or not self._has.quadratic:
            tangent = self.tangent(weights, direction)
            return *tangent, self.adjoint(weights, *between(slice(None), *tangent))[0]
        gain, _, quadratic, _, constant = self.coefficients
        along, offset = 2 * weights[:-1] * direction[:-1], self._offset(direction)
        level = (constant * along).sum(axis=0) if self._has.constant else 0.0
        mean, var, back, spread, total, var_total = self.design.normal_product(
            gain * direction[:-1], quadratic * along, lambda rows, m, v: between(rows, m + offset, v + level)
        )
        spread *= quadratic
        if self._has.constant:
            spread += constant * var_total
        result = self._mean_block(back, total)
        result[:-1] += 2 * weights[:-1] * spread
        return mean + offset, var + level, result

    def _offset(self, weights: Float[np.ndarray, "q K"]) -> Float[AnyArray, " K"]:
        """Contribution of the intercept and of the constant part of the noise's mean to every mean score, (K,)."""
        if not self._has.shift:
            return weights[-1]
        return weights[-1] + (self.coefficients.shift * weights[:-1]).sum(axis=0)

    def _mean_block(self, back: Float[np.ndarray, "p K"], total: Float[np.ndarray, " K"]) -> Float[np.ndarray, "q K"]:
        """``Mᵀr`` as a block (p + 1, K), from ``Xᵀr`` and ``Σr``."""
        result = np.empty((back.shape[0] + 1, back.shape[1]))
        np.multiply(self.coefficients.gain, back, out=result[:-1])
        if self._has.shift:
            result[:-1] += self.coefficients.shift * total
        result[-1] = total if self.fit_intercept else 0.0
        return result

    def spread(self, for_var: PerRow) -> Float[AnyArray, "p K"]:
        """``q(s)``, (p, K), for a residual ``s`` of shape (n, K)."""
        zeros = np.zeros((self.design.shape[1], for_var.shape[1]))
        return self._spread_of(self.design.sq_rmatvec(for_var) if self._has.quadratic else zeros, for_var)

    def _spread_of(self, squares: Float[AnyArray, "p K"], for_var: PerRow) -> Float[AnyArray, "p K"]:
        """``q(s)``, (p, K), from ``(X²)ᵀs``."""
        spread = self.coefficients.quadratic * squares
        if self._has.linear:
            spread += self.coefficients.linear * self.design.rmatvec(for_var)
        if self._has.constant:
            spread += self.coefficients.constant * self.design.total(for_var)
        return spread

    def sampled_products(
        self, left: PerRow, right: Float[np.ndarray, "p K"]
    ) -> tuple[PerRow, Float[np.ndarray, "p K"]]:
        """``(E R, Eᵀ L)`` for ``E_ij = Var(x̃_ij) ⟨l_i, r_j⟩``, of noise that leaves zeros alone and rates (p, 1)."""
        _, _, quadratic, linear, _ = self.coefficients
        return self.design.sampled_products(left, right, quadratic[:, 0], linear[:, 0])

    @property
    def leaves_zeros(self) -> bool:
        """True if an entry of zero has no variance."""
        return not self._has.constant

    def grams(self, omega: PerRow) -> Float[np.ndarray, "G q q"]:
        """``MᵀΩ_gM`` of every column of ``ω >= 0`` (n, G) at the rates of the first, dense (G, p + 1, p + 1)."""
        plain = self.design.grams(omega)
        each = (np.broadcast_to(part, (plain.shape[1], self.rate.shape[1])) for part in self.coefficients)
        gain, shift, _, _, _ = (part[:, 0] for part in each)
        result = np.zeros((len(plain), len(gain) + 1, len(gain) + 1))
        result[:, :-1, :-1] = gain[:, None] * plain * gain
        if not (self.fit_intercept or self._has.shift):
            return result
        total = self.design.total(omega)
        border = self.design.rmatvec(omega).T * gain
        if self._has.shift:
            cross = border[:, :, None] * shift
            square = total[:, None, None] * (shift[:, None] * shift)
            result[:, :-1, :-1] += cross + np.swapaxes(cross, 1, 2) + square
        if self.fit_intercept:
            result[:, -1, :-1] = result[:, :-1, -1] = border + shift * total[:, None]
            result[:, -1, -1] = total
        return result

    def diagonal(self, omega: PerRow) -> Float[np.ndarray, "q K"]:
        """Diagonal of ``MᵀΩM`` as a block (p + 1, K), for ``ω`` of shape (n, K)."""
        gain, shift, _, _, _ = self.coefficients
        result = np.empty((self.design.shape[1] + 1, omega.shape[1]))
        total = self.design.total(omega)
        result[:-1] = gain**2 * self.design.sq_rmatvec(omega)
        if self._has.shift:
            result[:-1] += 2 * gain * shift * self.design.rmatvec(omega) + shift**2 * total
        result[-1] = total if self.fit_intercept else 1.0
        return result
