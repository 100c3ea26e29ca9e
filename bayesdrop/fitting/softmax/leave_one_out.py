r"""Scores of rows by joint fits that leave each of them out, from the one fit to all of them.

As in :mod:`.leave_one_out`, with ``J = K − 1`` scores a row, those less the last (:mod:`.softmax.hessian`). Of the
gradient of row ``i`` a part goes through its mean scores, ``Mγ`` with ``M = x̃ ⊗ I``, and one through their covariance,
``G = 2d v∘Sw``. Of its curvature ``MΦMᵀ`` is taken out, so that

    w₋ᵢ − w = (H − MΦMᵀ)⁻¹ (Mγ + G) = H⁻¹ (Ma + G),        (I − ΦK) a = γ + Φ MᵀH⁻¹G,        K = MᵀH⁻¹M,

and what the row adds to the penalty that noise is, and to how it follows the means, stays: about ``1/n`` of it. Without
noise the step is Newton's (Rad & Maleki 2020, equation 8).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._typing import Float, PerRow
from ..objective.overflow import double_range
from .energy import SoftmaxEnergy
from .hessian import RowTerms, SoftmaxHessian, noised_rows

__all__ = ["left_out_classes"]

# What is left of the curvature along a row without the row itself, at least: a row that is all of it has no score.
_LEAST = 1e-9


@double_range()
def left_out_classes(
    energy: SoftmaxEnergy,
    weights: Float[np.ndarray, "q K"],
    corrupted_inputs: bool = False,
    share: Float[np.ndarray, " n"] | float = 1.0,
) -> tuple[PerRow, PerRow]:
    """Means (n, K) and covariances (n, K, K) of the scores of each row, less the last, by a fit without it.

    Parameters
    ----------
    energy : SoftmaxEnergy
        Of the fit; classes share their masks.
    weights : array (p + 1, K)
        Where it is least; rows sum to zero.
    corrupted_inputs : bool
        Whether rows that are left out come noised already.
    share : array (n,) or float
        What part of its weight each row loses.

    Raises
    ------
    ValueError
        If the Hessian is beyond double precision.
    """
    inverse = SoftmaxHessian.at(energy, weights).inverse()
    n, K = len(energy.code), energy.n_classes
    mean, cov, leaving = np.zeros((n, K)), np.zeros((n, K, K)), np.broadcast_to(share, n)
    theta = (weights[:, :-1] - weights[:, -1:]).T
    for part, rows in noised_rows(energy, weights):
        own = leaving[part]
        rows = replace(
            rows, first=own[:, None] * rows.first, second=own[:, None, None] * rows.second,
            noise_weight=own * rows.noise_weight,
        )  # fmt: skip
        step, moved = _steps(rows, weights[:-1], inverse, corrupted_inputs)
        if corrupted_inputs:
            mean[part, :-1] = np.einsum("md,mkd->mk", rows.raw, theta[:, :-1] + step[:, :, :-1])
            mean[part, :-1] += theta[:, -1] + step[:, :, -1]
            continue
        mean[part, :-1] = rows.x @ theta.T + moved
        if rows.var is not None:
            without = theta[:, :-1] + step[:, :, :-1]
            cov[part, :-1, :-1] = (without * rows.var[:, None]) @ np.swapaxes(without, 1, 2)
    return mean, cov


def _steps(
    rows: RowTerms, weights: Float[np.ndarray, "p K"], inverse: Float[np.ndarray, "J q J q"], whole: bool
) -> tuple[Float[np.ndarray, "some J q"], Float[np.ndarray, "m J"]]:
    """What leaving each row out does to the weights ``θ``, and to the mean scores of the row."""
    (m, q), J = rows.x.shape, len(inverse)
    leverage = np.empty((m, J, J))
    for k in range(J):
        spread = (rows.x @ inverse[k, :, : k + 1].reshape(q, -1)).reshape(m, k + 1, q)
        leverage[:, k, : k + 1] = leverage[:, : k + 1, k] = np.einsum("mld,md->ml", spread, rows.x)
    square = inverse.reshape(J * q, J * q)
    first, by_noise, along = rows.first, None, np.zeros((m, J))
    if rows.var is not None and rows.for_cov is not None:
        slope = np.zeros((m, J, q))
        pull = 2 * rows.noise_weight[:, None, None] * rows.for_cov[:, :J]
        np.multiply(pull @ weights.T, rows.var[:, None], out=slope[:, :, :-1])
        by_noise = (slope.reshape(m, -1) @ square).reshape(m, J, q)
        along = np.einsum("mkd,md->mk", by_noise, rows.x)
        first = first + np.einsum("mkl,ml->mk", rows.second, along)
    rest = (1 + _LEAST) * np.eye(J) - rows.second @ leverage
    share = np.linalg.solve(rest, first[:, :, None])[:, :, 0]
    moved = np.einsum("mkl,ml->mk", leverage, share) + along
    if by_noise is None and not whole:
        return np.zeros((0, J, q)), moved
    step = ((share[:, :, None] * rows.x[:, None]).reshape(m, -1) @ square).reshape(m, J, q)
    return step if by_noise is None else step + by_noise, moved
