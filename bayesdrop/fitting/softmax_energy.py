r"""Softmax (multinomial) logistic regression under feature noise, all ``K`` classes jointly (Wager, Wang & Liang 2013).

The scores ``s = Wᵀx̃ + b`` of a row have the mean ``m`` (K,) and the covariance ``V`` (K, K),
``V_kl = Σ_d Var(x̃_d) W_dk W_dl``. What the noise adds to the loss ``log Σ exp(s_k) − s_y`` is

    taylor      R = ½ tr(A'' V),  A'' = diag(π) − ππᵀ,  π = softmax(m)          (their quadratic penalty)
    gaussian    R = E log Σ exp(s_k) − log Σ exp(m_k),  s ~ N(m, V)             (theirs up to the central limit theorem)

It does not depend on the label, so that rows without one have it too, as they propose:

    U = ½ Σ_k w_kᵀPw_k + Σ_i c_i (log Σ exp(m_ik) − m_{i,y_i}) + Σ_i d_i R_i.

The Gaussian expectation is taken over quasi-random normal points (128, more for many classes), the same for every row
and exact for quadratic functions: within 2 % of R at variances of 2 (measured). The second-order model of
:mod:`.softmax_fit` keeps ``Mᵀ c A'' M`` and ``d ∂²V``, which is never negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Protocol, runtime_checkable

import numpy as np

from .._typing import Float, Int, PerRow
from ..losses.base import choose_form
from ..moments import ScoreMoments
from .preconditioners import Apply, choose_preconditioner

__all__ = ["FORMS", "SoftmaxEnergy", "expected_softmax", "log_sum_exp"]

_POINTS = 128
# Probabilities at normal points that are held at a time: 2 MB.
_VALUES = 1 << 18
# Relative to the mean variance of a row: covariances of rank below K still have a Cholesky factor.
_JITTER = 1e-9


@runtime_checkable
class Form(Protocol):
    """Protocol of a form of ``R``: its value (n,), slope in ``m`` (n, K), slope in ``V`` and its positive part."""

    def __call__(
        self, mean: Float[np.ndarray, "n K"], cov: Float[np.ndarray, "n K K"]
    ) -> tuple[
        Float[np.ndarray, " n"], Float[np.ndarray, "n K"], Float[np.ndarray, "n K K"], Float[np.ndarray, "n K K"]
    ]: ...


def log_sum_exp(score: Float[np.ndarray, ...], axis: int = -1) -> tuple[Float[np.ndarray, ...], Float[np.ndarray, ...]]:
    """``log Σ exp`` and softmax over an axis; scores (…, K) to (…) and (…, K)."""
    top = score.max(axis=axis, keepdims=True)
    rise = np.exp(score - top)
    total = rise.sum(axis=axis, keepdims=True)
    rise /= total
    return np.squeeze(np.log(total) + top, axis), rise


def _curvature(probability: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n K K"]:
    """``diag(π) − ππᵀ``, (n, K, K)."""
    result = -probability[:, :, None] * probability[:, None, :]
    k = np.arange(probability.shape[1])
    result[:, k, k] += probability
    return result


def taylor(
    mean: Float[np.ndarray, "n K"], cov: Float[np.ndarray, "n K K"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n K"], Float[np.ndarray, "n K K"], Float[np.ndarray, "n K K"]]:
    """Quadratic penalty ``½ tr(A'' V)``; see :class:`Form`."""
    _, probability = log_sum_exp(mean)
    half = 0.5 * _curvature(probability)
    along = np.einsum("nkk->nk", cov) - 2 * np.einsum("nkl,nl->nk", cov, probability)
    slope = 0.5 * probability * (along - np.sum(probability * along, axis=1, keepdims=True))
    return np.einsum("nkl,nkl->n", half, cov), slope, half, half


@cache
def _points(dimension: int) -> Float[np.ndarray, "S K"]:
    """Normal points (at least 128, K): scrambled Sobol numbers with a fixed seed, each with its mirror image.

    They are scaled so that their mean is 0 and their covariance the identity: quadratic functions come out exactly.
    """
    from scipy.stats import norm, qmc

    count = max(_POINTS // 2, 1 << int(np.ceil(np.log2(2 * dimension))))
    half = norm.ppf(np.clip(qmc.Sobol(dimension, seed=0).random(count), 1e-9, 1 - 1e-9))
    half = np.linalg.solve(np.linalg.cholesky(half.T @ half / count), half.T).T
    return np.concatenate([half, -half])


def _factor(cov: Float[np.ndarray, "n K K"]) -> tuple[Float[np.ndarray, "k K"], Float[np.ndarray, "n k k"]]:
    """Contrasts with the last class (K − 1, K), and the factor of their covariance (n, K − 1, K − 1).

    A shift of all scores alone changes nothing, and the best weights have no such part: their covariance is singular.
    """
    K = cov.shape[1]
    contrast = np.concatenate([np.eye(K - 1), -np.ones((K - 1, 1))], axis=1)
    cov = contrast @ cov @ contrast.T
    scale = np.einsum("nkk->n", cov) / (K - 1)
    return contrast, np.linalg.cholesky(cov + (_JITTER * scale + 1e-14)[:, None, None] * np.eye(K - 1))


def _at_points(
    mean: Float[np.ndarray, "n K"], root: Float[np.ndarray, "n k k"], points: Float[np.ndarray, "S k"]
) -> Iterator[tuple[slice, Float[np.ndarray, "m S"], Float[np.ndarray, "m K S"]]]:
    """``log Σ exp`` (m, S) and softmax (m, K, S) of the scores that normal points (S, K − 1) stand for, the last class
    at its mean, for some rows at a time: what all of them would take does not fit into a core's cache.
    """
    n, K = mean.shape
    step = max(1, _VALUES // (K * len(points)))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        score = np.repeat(mean[rows, :, None], len(points), axis=2)
        score[:, :-1] += root[rows] @ points.T
        yield rows, *log_sum_exp(score, axis=1)


def gaussian(
    mean: Float[np.ndarray, "n K"], cov: Float[np.ndarray, "n K K"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n K"], Float[np.ndarray, "n K K"], Float[np.ndarray, "n K K"]]:
    """``E log Σ exp(s) − log Σ exp(m)`` for ``s ~ N(m, V)``; see :class:`Form`."""
    n, K = mean.shape
    contrast, root = _factor(cov)
    level, plain = log_sum_exp(mean)
    points = _points(K - 1)
    value, slope = np.empty(n), np.empty((n, K))
    to_root, second = np.empty(root.shape), np.empty(cov.shape)
    for rows, top, probability in _at_points(mean, root, points):
        value[rows] = np.mean(top, axis=1)
        slope[rows] = np.mean(probability, axis=2)
        to_root[rows] = probability[:, :-1] @ (points / len(points))
        second[rows] = probability @ np.swapaxes(probability, 1, 2) / len(points)
    curve = -second
    k = np.arange(K)
    curve[:, k, k] += slope
    # The derivative of a Cholesky factor, backwards: V' = L⁻ᵀ tril(Lᵀ L', half its diagonal) L⁻¹, made symmetric.
    diagonal = np.arange(K - 1)
    inner = np.tril(np.swapaxes(root, 1, 2) @ np.tril(to_root))
    inner[:, diagonal, diagonal] *= 0.5
    inverse = np.linalg.inv(root)
    to_cov = np.swapaxes(inverse, 1, 2) @ inner @ inverse
    # The jitter follows the variances, and its slope with them.
    own = np.einsum("nkk->n", to_cov) * (_JITTER / (K - 1))
    to_cov = 0.5 * (to_cov + np.swapaxes(to_cov, 1, 2)) + own[:, None, None] * np.eye(K - 1)
    to_cov = contrast.T @ to_cov @ contrast
    return value - level, slope - plain, to_cov, 0.5 * curve


FORMS: dict[str, Form] = {"gaussian": gaussian, "taylor": taylor}


def expected_softmax(mean: Float[np.ndarray, "n K"], cov: Float[np.ndarray, "n K K"]) -> Float[np.ndarray, "n K"]:
    """``E softmax(s)`` for ``s ~ N(m, V)``, (n, K), over the points of the Gaussian form; rows sum to 1."""
    _, root = _factor(cov)
    result = np.empty_like(mean)
    for rows, _, probability in _at_points(mean, root, _points(mean.shape[1] - 1)):
        result[rows] = np.mean(probability, axis=2)
    return result


def _square(flat: Float[np.ndarray, "n pairs"], K: int) -> Float[np.ndarray, "n K K"]:
    """Symmetric matrices (n, K, K) from their upper triangles (n, K(K + 1)/2)."""
    first, second = np.triu_indices(K)
    place = np.empty((K, K), dtype=int)
    place[first, second] = place[second, first] = np.arange(len(first))
    return np.take(flat, place.ravel(), axis=1).reshape(-1, K, K)  # six times as fast as two assignments


def _row_terms(
    form: str,
    mean: Float[np.ndarray, "n K"],
    code: Int[np.ndarray, "n 1"],
    loss_weight: Float[np.ndarray, "n 1"],
    noise_weight: Float[np.ndarray, "n 1"] | None = None,
    cov: Float[np.ndarray, "n pairs"] | None = None,
) -> tuple[Float[np.ndarray, "n _"], ...]:
    """What rows add to the energy (n, 1), its slopes in the means (n, K), the softmax (n, K), and with noise the slopes
    and curvatures in the covariances of the pairs of classes, (n, K(K + 1)/2) each.
    """
    level, probability = log_sum_exp(mean)
    own = np.arange(mean.shape[1]) == code
    cost = loss_weight * (level[:, None] - np.sum(np.where(own, mean, 0.0), axis=1, keepdims=True))
    for_mean = loss_weight * (probability - own)
    if noise_weight is None or cov is None:
        return cost, for_mean, probability
    extra, slope, to_cov, curve = FORMS[form](mean, _square(cov, mean.shape[1]))
    first, second = np.triu_indices(mean.shape[1])
    factor = np.where(first == second, 1.0, 2.0) * noise_weight
    return (
        cost + noise_weight * extra[:, None],
        for_mean + noise_weight * slope,
        probability,
        factor * to_cov[:, first, second],
        factor * curve[:, first, second],
    )


def _times_by_feature(
    matrices: Float[np.ndarray, "p K K"], direction: Float[np.ndarray, "p K"]
) -> Float[np.ndarray, "p K"]:
    """Each feature's matrix (p, K, K) times its part of the direction (p, K)."""
    return np.matmul(matrices, direction[:, :, None])[:, :, 0]


@dataclass(frozen=True)
class SoftmaxEnergy:
    """Energy of the joint problem.

    Attributes
    ----------
    moments : ScoreMoments
        Design, noise and rates, the same for all classes.
    form : str
        ``"taylor"`` or ``"gaussian"``.
    n_classes : int
        ``K``.
    code : int array (n,)
        Class of each row; rows without a label have any class and ``loss_weight`` 0.
    loss_weight, noise_weight : array (n,)
        The weights ``c`` and ``d``.
    precision : array (p + 1, 1)
        Prior precision, 0 for the intercepts.
    """

    moments: ScoreMoments
    form: str
    n_classes: int
    code: PerRow
    loss_weight: PerRow
    noise_weight: PerRow
    precision: Float[np.ndarray, "q 1"]
    noisy: bool = field(init=False)
    _pairs: tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        choose_form(FORMS, self.form, "softmax")
        # Of some row, wherever it is.
        size = self.moments.design.total(np.abs(self.noise_weight)[:, None])[0]
        object.__setattr__(self, "noisy", bool(size > 0) and self.moments.has_variance)
        object.__setattr__(self, "_pairs", np.triu_indices(self.n_classes))

    def covariance(self, weights: Float[np.ndarray, "q K"]) -> PerRow:
        """Covariances of the scores, (n, K, K)."""
        return _square(self._covariances(weights), self.n_classes)

    def _covariances(self, weights: Float[np.ndarray, "q K"]) -> PerRow:
        """Covariances of the pairs of classes, (n, K(K + 1)/2)."""
        first, second = self._pairs
        return self.moments.covariance(np.take(weights[:-1], first, axis=1) * np.take(weights[:-1], second, axis=1))

    def value(self, weights: Float[np.ndarray, "q K"]) -> float:
        """Energy at the weights (p + 1, K)."""
        return self.evaluate(weights)[0]

    def evaluate(
        self, weights: Float[np.ndarray, "q K"]
    ) -> tuple[float, Float[np.ndarray, "q K"], PerRow, Float[np.ndarray, "p K K"] | None]:
        """Energy, gradient (p + 1, K), softmax (n, K) and what the model's ``∂V`` adds by feature, (p, K, K)."""
        K, design = self.n_classes, self.moments.design
        given = [self.moments.mean(weights), self.code[:, None], self.loss_weight[:, None]]
        widths = [1, K, K]
        if self.noisy:
            given += [self.noise_weight[:, None], self._covariances(weights)]
            widths += [len(self._pairs[0])] * 2
        parts = design.persist(*design.rowwise(partial(_row_terms, self.form), *given, widths=widths))
        cost, for_mean, probability = parts[:3]
        total = 0.5 * np.sum(self.precision * weights**2) + design.total(cost)[0]
        gradient = self.moments.mean_adjoint(for_mean) + self.precision * weights
        noise_curvature = None
        if self.noisy:
            gradient[:-1] += _times_by_feature(self._by_feature(parts[3]), weights[:-1])
            noise_curvature = self._by_feature(parts[4])
        return float(total), gradient, probability, noise_curvature

    def _by_feature(self, to_cov: PerRow) -> Float[np.ndarray, "p K K"]:
        """Second derivatives of ``Σ_i Σ_{k<=l} r_ikl V_ikl`` in the weights of each feature, (p, K, K).

        Whole matrices and not their triangles: products with them then are ones of matrices, forty times as fast.
        """
        result = _square(self.moments.spread(to_cov), self.n_classes)
        k = np.arange(self.n_classes)
        result[:, k, k] *= 2
        return result

    def product(
        self,
        probability: PerRow,
        noise_curvature: Float[np.ndarray, "p K K"] | None,
        direction: Float[np.ndarray, "q K"],
    ) -> Float[np.ndarray, "q K"]:
        """Model's Hessian times ``u``: ``Pu + Mᵀ c A'' M u + ∂V u``."""

        def curved(rows: slice, mean: PerRow) -> PerRow:
            part = probability[rows]
            return self.loss_weight[rows, None] * part * (mean - np.sum(part * mean, axis=1, keepdims=True))

        result = self.moments.mean_normal_product(direction, curved)[1] + self.precision * direction
        if noise_curvature is not None:
            result[:-1] += _times_by_feature(noise_curvature, direction[:-1])
        return result

    def _by_class(
        self, probability: PerRow, noise_curvature: Float[np.ndarray, "p K K"] | None
    ) -> tuple[PerRow, Float[np.ndarray, "q K"]]:
        """Row weights ``c π(1 − π)`` (n, K) and the rest of the diagonal (p + 1, K) of the blocks of single classes."""
        own = np.repeat(self.precision, probability.shape[1], axis=1)
        if noise_curvature is not None:
            own[:-1] += np.einsum("pkk->pk", noise_curvature)
        return self.loss_weight[:, None] * probability * (1 - probability), own

    def diagonal(
        self, probability: PerRow, noise_curvature: Float[np.ndarray, "p K K"] | None
    ) -> Float[np.ndarray, "q K"]:
        """Diagonal of the model's Hessian, (p + 1, K)."""
        omega, own = self._by_class(probability, noise_curvature)
        return np.maximum(self.moments.diagonal(omega) + own, np.finfo(float).tiny)

    def preconditioner(self, probability: PerRow, noise_curvature: Float[np.ndarray, "p K K"] | None) -> Apply:
        """Approximate inverse of the model's Hessian, (p + 1, K) to the same; it leaves out what couples the classes.

        It is far off where all classes move alike, and there the gradient has no part.
        """
        omega, own = self._by_class(probability, noise_curvature)
        return choose_preconditioner(self.moments.design).prepare(self.moments, omega, own)
