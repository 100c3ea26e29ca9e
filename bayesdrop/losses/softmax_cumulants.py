r"""Higher derivatives of what noise adds to a softmax loss, for its Hessian.

``log Σ exp`` generates the cumulants of the class: its second derivatives are ``A'' = diag(π) − ππᵀ``, its third ones

    T_klj = δ_klj π_k − δ_kl π_k π_j − δ_kj π_k π_l − δ_lj π_k π_l + 2 π_k π_l π_j,

and every expectation of them under the noise is one of ``π_k``, ``π_k π_l`` and ``π_k π_l π_j``: for the Taylor form at
the mean score, for the Gaussian form over its points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._typing import Float
from .softmax_forms import at_points, contrast_factor, log_sum_exp, normal_points

__all__ = ["ClassMoments", "class_moments", "mean_curvature"]


@dataclass(frozen=True)
class ClassMoments:
    """Moments of the class probabilities of rows under the noise.

    Attributes
    ----------
    one, two : array (n, K), (n, K, K)
        ``E π_k`` and ``E π_k π_l``.
    three : array (n, K, K, K), optional
        ``E π_k π_l π_j``; None where the probabilities are not spread, and it is a product.
    """

    one: Float[np.ndarray, "n K"]
    two: Float[np.ndarray, "n K K"]
    three: Float[np.ndarray, "n K K K"] | None = None

    def third(
        self, weights: Float[np.ndarray, "p K"], scale: Float[np.ndarray, "n p"], count: int
    ) -> Iterator[tuple[int, Float[np.ndarray, "n _ p"]]]:
        """``Σ_j T_klj w_dj`` times a scale (n, p), for each of the first ``count`` classes ``k`` and all ``l <= k``."""
        level = scale * (self.one @ weights.T)
        for k in range(count):
            rows = slice(k + 1)
            both = scale[:, None] * (weights[:, k, None] + weights[:, rows]).T
            if self.three is None:
                along = np.subtract(2 * level[:, None], both, out=both)
                along *= self.two[:, k, rows, None]
                across = self.one[:, k, None] * level
            else:
                along = 2 * scale[:, None] * (self.three[:, k, rows] @ weights.T) - self.two[:, k, rows, None] * both
                across = scale * (self.two[:, k] @ weights.T)
            along[:, k] += self.one[:, k, None] * (scale * weights[:, k]) - across
            yield k, along


def class_moments(form: str, mean: Float[np.ndarray, "n K"], cov: Float[np.ndarray, "n K K"]) -> ClassMoments:
    """Moments of a form for mean scores (n, K) and their covariances (n, K, K)."""
    if form == "taylor":
        _, probability = log_sum_exp(mean)
        return ClassMoments(probability, probability[:, :, None] * probability[:, None, :])
    (n, K), (_, root) = mean.shape, contrast_factor(cov)
    one, two, three = np.empty((n, K)), np.empty((n, K, K)), np.empty((n, K, K, K))
    for rows, _, chance in at_points(mean, root, normal_points(K - 1)):
        m, _, count = chance.shape
        pairs = (chance[:, :, None] * chance[:, None]).reshape(m, K * K, count) / count
        one[rows], two[rows] = chance.mean(axis=2), pairs.sum(axis=2).reshape(m, K, K)
        three[rows] = (pairs @ np.swapaxes(chance, 1, 2)).reshape(m, K, K, K)
    return ClassMoments(one, two, three)


def mean_curvature(
    moments: ClassMoments, mean: Float[np.ndarray, "n K"], cov: Float[np.ndarray, "n K K"]
) -> Float[np.ndarray, "n K K"]:
    """``∂²R/∂m²``, (n, K, K): ``½ Σ_jl V_jl ∂⁴ log Σ exp`` of the Taylor form, ``E A''(s) − A''(m)`` of the other."""
    k = np.arange(mean.shape[1])
    if moments.three is not None:
        _, probability = log_sum_exp(mean)
        result = probability[:, :, None] * probability[:, None, :] - moments.two
        result[:, k, k] += moments.one - probability
        return result
    own = -moments.two
    own[:, k, k] += moments.one
    spread = cov @ own
    along = np.einsum("nkk->nk", cov) - 2 * np.einsum("nkl,nl->nk", cov, moments.one)
    level = np.sum(moments.one * along, axis=1, keepdims=True)
    fall = np.einsum("nkl,nl->nk", own, along) - 2 * np.einsum("nk,nkl->nl", moments.one, spread)
    result = own * (along - level)[:, :, None]
    result -= moments.one[:, :, None] * (2 * spread + fall[:, None, :])
    return 0.5 * result
