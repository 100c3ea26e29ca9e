"""Approximate the scores of each row by a softmax fit without it, from one fit to all rows; for cross-validation.

As in :mod:`.leave_one_out`, with ``J = K − 1`` scores per row, relative to the last class. The gradient of row ``i``
has one part through its mean scores, ``Mγ`` with ``M = x̃ ⊗ I``, and one through their covariance, ``G = 2d v∘Sw``.
Without the curvature ``MΦMᵀ`` of the row

    w₋ᵢ − w = (H − MΦMᵀ)⁻¹ (Mγ + G) = H⁻¹ (Ma + G),        (I − ΦK) a = γ + Φ MᵀH⁻¹G,        K = MᵀH⁻¹M.

The other curvature of the row, in the penalty from the noise, is not removed; it is about ``1/n`` of this penalty.
Without noise the step is Newton's (Rad & Maleki 2020, equation 8).

**Hessian.** The Hessian of the softmax energy is one matrix in ``θ_k = w_k − w_K``. A common change of the weights of
all classes does not change the probabilities; at the best common change the prior precision in ``θ`` is
``P ⊗ (1 − 11ᵀ/K)``. Derivatives of the loss in ``θ_k`` are those in ``w_k``, ``k < K``. With the mean ``x̃`` and the
variances ``v`` of the noised features of a row, ``S = ∂R/∂V`` and the third derivatives ``T`` of ``log Σ exp``, which
are expectations under the noise if ``R`` is one, a row adds to the block of classes ``k`` and ``l``

    x̃ x̃ᵀ (cA'' + d ∂²R/∂m²)_kl + d x̃ (v∘t_kl)ᵀ + d (v∘t_kl) x̃ᵀ + 2d diag(v) S_kl,        t_kl = Σ_j T_klj w_j,

because ``2 ∂²R/∂m∂V = T`` by Price's theorem. The fourth derivatives ``∂²R/∂V²`` of the Gaussian form are omitted; the
Taylor form has none, and its Hessian is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lapack

from ..._memory import BLOCK
from ..._typing import Float, PerRow
from ...linalg.systems import double_range, factored
from ...losses.softmax import FORMS, ClassMoments, class_moments, curvature, log_sum_exp, mean_curvature
from .leave_one_out import LEAST_CURVATURE
from .softmax_energy import SoftmaxEnergy

__all__ = ["RowTerms", "assembled_hessian", "inverse_hessian", "left_out_classes", "noised_rows", "MOST_COORDINATES"]


@double_range()
def left_out_classes(
    energy: SoftmaxEnergy,
    weights: Float[np.ndarray, "q K"],
    corrupted_inputs: bool = False,
    share: Float[np.ndarray, " n"] | float = 1.0,
    room: int = BLOCK // 4,
) -> tuple[PerRow, PerRow]:
    """Means (n, K) and covariances (n, K, K) of the scores of each row, relative to the last, by a fit without the row.

    Parameters
    ----------
    energy : SoftmaxEnergy
        Energy of the fit; classes share their masks.
    weights : array (p + 1, K)
        Weights at its minimum; each row sums to zero.
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
    inverse = inverse_hessian(energy, weights)
    n, K = len(energy.code), energy.n_classes
    mean, cov, shares = np.zeros((n, K)), np.zeros((n, K, K)), np.broadcast_to(share, n)
    theta = (weights[:, :-1] - weights[:, -1:]).T
    for part, rows in noised_rows(energy, weights, room=room):
        row_share = shares[part]
        rows = replace(
            rows, first=row_share[:, None] * rows.first, second=row_share[:, None, None] * rows.second,
            noise_weight=row_share * rows.noise_weight,
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
    rows: RowTerms,
    weights: Float[np.ndarray, "p K"],
    inverse: Float[np.ndarray, "J q J q"],
    whole: bool,
) -> tuple[Float[np.ndarray, "some J q"], Float[np.ndarray, "m J"]]:
    """Changes of the weights ``θ``, and of the mean scores of the row, if a row is left out.

    The share of the curvature that remains without the row is at least :data:`LEAST_CURVATURE`.
    """
    (m, q), J = rows.x.shape, len(inverse)
    leverage = np.einsum("mc,kcld,md->mkl", rows.x, inverse, rows.x, optimize=True)
    square = inverse.reshape(J * q, J * q)
    first, by_noise, along = rows.first, None, np.zeros((m, J))
    if rows.var is not None and rows.for_cov is not None:
        slope = np.zeros((m, J, q))
        pull = 2 * rows.noise_weight[:, None, None] * rows.for_cov[:, :J]
        np.multiply(pull @ weights.T, rows.var[:, None], out=slope[:, :, :-1])
        by_noise = (slope.reshape(m, -1) @ square).reshape(m, J, q)
        along = np.einsum("mkd,md->mk", by_noise, rows.x)
        first = first + np.einsum("mkl,ml->mk", rows.second, along)
    system = (1 + LEAST_CURVATURE) * np.eye(J) - rows.second @ leverage
    share = np.linalg.solve(system, first[:, :, None])[:, :, 0]
    moved = np.einsum("mkl,ml->mk", leverage, share) + along
    if by_noise is None and not whole:
        return np.zeros((0, J, q)), moved
    step = ((share[:, :, None] * rows.x[:, None]).reshape(m, -1) @ square).reshape(m, J, q)
    return step if by_noise is None else step + by_noise, moved


# Maximum number of coordinates for a Hessian matrix (50 MB), whose factor then costs as much as the products.
MOST_COORDINATES = 2500


@dataclass(frozen=True)
class RowTerms:
    """Some rows and their parts of the derivatives of the energy, with ``J = K − 1``.

    Attributes
    ----------
    raw : array (m, p)
        Features of the rows.
    x : array (m, p + 1)
        Means of the noised features, and 1 for the intercept.
    var : array (m, p), optional
        Variances of the noised features; None without noise.
    first, second : array (m, J), (m, J, J)
        Derivatives in the mean scores.
    for_cov : array (m, K, K), optional
        Derivatives in the covariances; None without noise.
    moments : ClassMoments, optional
        Moments for the third derivatives.
    noise_weight : array (m,)
        ``d``.
    """

    raw: Float[np.ndarray, "m p"]
    x: Float[np.ndarray, "m q"]
    var: Float[np.ndarray, "m p"] | None
    first: Float[np.ndarray, "m J"]
    second: Float[np.ndarray, "m J J"]
    for_cov: Float[np.ndarray, "m K K"] | None
    moments: ClassMoments | None
    noise_weight: Float[np.ndarray, " m"]


def noised_rows(
    energy: SoftmaxEnergy, weights: Float[np.ndarray, "q K"], whole: bool = True, room: int = BLOCK // 4
) -> Iterator[tuple[slice, RowTerms]]:
    """Rows of the energy with their terms at the weights, in blocks of at most ``room`` numbers.

    Unless ``whole`` the terms are those of the second-order model.
    """
    K, (_, p) = energy.n_classes, energy.moments.design.shape
    parts = (np.broadcast_to(np.asarray(part), (p, 1))[:, 0] for part in energy.moments.coefficients)
    gain, shift, quadratic, linear, constant = parts
    first, second = np.triu_indices(K)
    products = weights[:-1, first] * weights[:-1, second]
    for rows, part in energy.moments.design.parts(max(1, room // (K * max(K, 2 * p)))):
        if not part.shape[0]:
            continue
        matrix = part.matrix()
        raw = np.asarray(matrix.toarray() if part.is_sparse else matrix, dtype=np.float64)
        x = np.column_stack([raw * gain + shift, np.full(len(raw), float(energy.moments.fit_intercept))])
        mean, c, d = x[:, :-1] @ weights[:-1] + weights[-1], energy.loss_weight[rows], energy.noise_weight[rows]
        probability = log_sum_exp(mean)[1]
        slope = c[:, None] * (probability - (np.arange(K) == energy.code[rows][:, None]))
        bend = c[:, None, None] * curvature(probability)
        if not energy.noisy:
            yield rows, RowTerms(raw, x, None, slope[:, :-1], bend[:, :-1, :-1], None, None, d)
            continue
        var = (quadratic * raw + linear) * raw + constant
        cov = np.empty((len(raw), K, K))
        cov[:, first, second] = cov[:, second, first] = var @ products
        _, extra, for_cov, positive = FORMS[energy.form](mean, cov)
        slope += d[:, None] * extra
        if not whole:
            yield rows, RowTerms(raw, x, var, slope[:, :-1], bend[:, :-1, :-1], positive, None, d)
            continue
        score_moments = class_moments(energy.form, mean, cov)
        bend += d[:, None, None] * mean_curvature(score_moments, mean, cov)
        yield rows, RowTerms(raw, x, var, slope[:, :-1], bend[:, :-1, :-1], for_cov, score_moments, d)


@double_range()
def inverse_hessian(energy: SoftmaxEnergy, weights: Float[np.ndarray, "q K"]) -> Float[np.ndarray, "J q J q"]:
    """Inverse of the Hessian in ``θ``, or of the second-order model if the Hessian is not positive definite.

    Raises
    ------
    ValueError
        If the Hessian overflows.
    """
    try:
        hessian_factor = factored(assembled_hessian(energy, weights, True))
    except np.linalg.LinAlgError:
        hessian_factor = factored(assembled_hessian(energy, weights, False))
    triangle, _ = lapack.dpotri(hessian_factor, lower=True)
    J = energy.n_classes - 1
    return (np.tril(triangle) + np.tril(triangle, -1).T).reshape(J, -1, J, len(triangle) // J)


def assembled_hessian(
    energy: SoftmaxEnergy, weights: Float[np.ndarray, "q K"], whole: bool
) -> Float[np.ndarray, "D D"]:
    """Hessian in ``θ``, or unless ``whole`` the positive semidefinite model, for ``D = (K − 1)(p + 1)``."""
    J, (q, K) = energy.n_classes - 1, weights.shape
    result = np.zeros((J, q, J, q))
    d = np.arange(q)
    prior = np.broadcast_to(energy.precision, (q, 1))[:, :, None]
    result[:, d, :, d] = prior * (np.eye(J) - 1 / K)
    if not energy.moments.fit_intercept:
        result[:, -1, :, -1] = np.eye(J)
    for _, rows in noised_rows(energy, weights, whole):
        _add(result, rows, weights[:-1])
    for k in range(J):
        for ell in range(k):
            result[ell, :, k, :] = result[k, :, ell, :]  # blocks are symmetric
    return result.reshape(J * q, J * q)


def _add(result: Float[np.ndarray, "J q J q"], rows: RowTerms, weights: Float[np.ndarray, "p K"]) -> None:
    """Add some rows to the lower blocks of the Hessian."""
    J, p = len(result), len(weights)
    d, var = np.arange(p), None
    if rows.var is not None and rows.for_cov is not None:
        var = rows.noise_weight[:, None] * rows.var
        result[:, d, :, d] += (var.T @ (2 * rows.for_cov[:, :J, :J]).reshape(-1, J * J)).reshape(p, J, J)
    third: Any = ((k, None) for k in range(J))
    if rows.moments is not None and var is not None:
        third = rows.moments.third(weights, var, J)
    for k, mixed in third:
        right = (rows.x[:, None] * rows.second[:, k, : k + 1, None]).reshape(len(rows.x), -1)
        result[k, :, : k + 1] += (rows.x.T @ right).reshape(p + 1, k + 1, p + 1)
        if mixed is not None:
            both = (rows.x.T @ mixed.reshape(len(mixed), -1)).reshape(p + 1, k + 1, p)
            result[k, :, : k + 1, :-1] += both
            result[k, :-1, : k + 1] += both.transpose(2, 1, 0)
