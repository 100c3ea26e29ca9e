r"""Hessian of the softmax energy in the contrasts of the weights, of rows that are streamed.

The curvature of a row's loss in its scores is a sum over the pairs of classes,

    diag(π) − ππᵀ = Σ_{k<l} π_kπ_l (e_k − e_l)(e_k − e_l)ᵀ,

so that with the basis ``B`` (K, J) of :mod:`.classes.density`, the vectors ``d_kl = Bᵀ(e_k − e_l)`` and the rows ``M``
of the means of the noised features it is, in contrasts,

    Σ_{k<l} d_kl d_klᵀ ⊗ Mᵀ diag(cπ_kπ_l) M:

``K(K − 1)/2`` Gram matrices of weights that are never negative, which one pass over the rows makes all. Prior and noise
are added to the blocks of single features. Products with the ``J(p + 1)`` unit vectors, a pass for each, come to the
same.

Shapes: ``n`` rows, ``p`` features, ``q = p + 1``, ``K`` classes, ``J = K − 1`` contrasts.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ..._typing import Float, Int, PerRow
from ...fitting.softmax.curvature import NoiseCurvature
from ...fitting.softmax.energy import SoftmaxEnergy

__all__ = ["PAIRS", "hessian_in_a_pass"]

PAIRS = 8.0
"""Pairs of classes in a pass, times the classes: a fit holds as many numbers of a row anyway."""


def hessian_in_a_pass(
    energy: SoftmaxEnergy,
    chance: PerRow,
    noise: NoiseCurvature | None,
    basis: Float[np.ndarray, "K J"],
    intercept: bool,
) -> Float[np.ndarray, "D D"]:
    """The Hessian of the second-order model where rows have the softmax ``chance`` (n, K), contrast by contrast, the
    intercepts last; beyond 17 classes in a few passes.
    """
    K, J = basis.shape
    q, design = len(energy.precision), energy.moments.design
    result = np.zeros((J, q, J, q))
    one, other = np.triu_indices(K, 1)
    most = int(PAIRS * K)
    for start in range(0, len(one), most):
        k, m = one[start : start + most], other[start : start + most]
        weight = design.rowwise(partial(_pair_weights, k, m), chance, energy.loss_weight[:, None], widths=[len(k)])
        between = basis[k] - basis[m]
        for apart, gram in zip(between, energy.moments.grams(*design.persist(*weight)), strict=True):
            result += np.einsum("a,b,de->adbe", apart, apart, gram)
    j, d = np.arange(J), np.arange(q)
    result[j[:, None], d, j[:, None], d] += energy.precision[:, 0]
    if noise is not None:
        # Of each feature by itself, so that all are asked at once.
        for column in j:
            result[:, d[:-1], column, d[:-1]] += basis.T @ noise.times(np.tile(basis[:, column], (q - 1, 1))).T
    place = (q * j[:, None] + d[:-1]).ravel()
    place = np.append(place, q * j + q - 1) if intercept else place
    return result.reshape(J * q, J * q)[np.ix_(place, place)]


def _pair_weights(
    k: Int[np.ndarray, " G"],
    m: Int[np.ndarray, " G"],
    chance: Float[np.ndarray, "n K"],
    weight: Float[np.ndarray, "n 1"],
) -> tuple[Float[np.ndarray, "n G"]]:
    """``cπ_kπ_l`` of every pair."""
    return (weight * np.take(chance, k, axis=1) * np.take(chance, m, axis=1),)
