r"""Normal approximation of the posterior of many classes, of streamed rows and too many coordinates for a matrix.

As in :mod:`.classes.scores` one matrix for all rows keeps the classes apart, but the curvatures are those at the point
fit, which takes no number of a row beyond what the fit has: with the softmax ``π_i`` there, weights ``c_i`` and the
basis ``B`` (K, J),

    C_i = c_i Bᵀ(diag π_i − π_iπ_iᵀ)B,    d_i = tr(C_i)/J = c_i (1 − |π_i|²)/J,    M = ΣC_i/Σd_i.

Noise adds ``tr(E_d)/J`` to the precision of a feature's weights, ``E_d`` what it adds to the curvature of the fit. The
eigenvectors are those of one Gram matrix of the features under ``d``.

Nothing about a sampler's correctness rests on any of it.

Shapes: ``n`` rows, ``p`` features, ``K`` classes, ``J = K − 1`` contrasts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..._typing import Float, PerRow
from ...data.dataset import Dataset
from ...model import Model
from ...rates import RateMap
from .density import class_fit, contrasts
from .scores import ClassScores
from .space import ClassSpace

__all__ = ["streamed_class_scores"]


def streamed_class_scores(model: Model, data: Dataset, rate_map: RateMap) -> ClassScores:
    """Approximate the posterior of a softmax regression at known rates, of normal weights."""
    labels: Any = data.classes
    design, K, basis = data.design, len(labels), contrasts(len(labels))
    J, (_, p) = K - 1, design.shape
    coefficients = model.noise.coefficients(rate_map.initial)
    found = class_fit(model, data, rate_map)
    weight = found.energy.loss_weight[:, None]
    (curvature,) = design.persist(*design.rowwise(_shares, weight, found.chance, widths=[1]))
    # One class after the other: all pairs at once would be more numbers of a row than the fit holds.
    square = [design.total(*design.rowwise(partial(_products, k), weight, found.chance, widths=[K])) for k in range(K)]
    shared = basis.T @ (np.diag(np.sum(square, axis=0)) - np.stack(square)) @ basis
    rotated, rotation = np.linalg.eigh(0.5 * (shared + shared.T) / float(design.total(curvature)[0]))
    extra = np.zeros(p) if found.curve is None else found.curve.diagonal().sum(axis=1) / J
    gain, prior = np.broadcast_to(coefficients.gain, p).astype(float), model.weight_prior.precision(p)
    space = ClassSpace(design, gain, prior, extra, None, curvature[:, 0], model.fit_intercept)
    centre = (found.weights @ basis).T
    parts = [centre[:, :-1].ravel(), centre[:, -1] if model.fit_intercept else np.zeros(0)]
    rotated = np.maximum(rotated, 1e-6 * rotated[-1])
    return ClassScores(np.concatenate(parts), curvature[:, 0], rotation, rotated, extra, space)


def _shares(weight: Float[np.ndarray, "n 1"], chance: Float[np.ndarray, "n K"]) -> tuple[PerRow]:
    """``d`` (n, 1)."""
    return (weight * (1 - np.sum(chance**2, axis=1, keepdims=True)) / (chance.shape[1] - 1),)


def _products(k: int, weight: Float[np.ndarray, "n 1"], chance: Float[np.ndarray, "n K"]) -> tuple[PerRow]:
    """``cπ_kπ`` (n, K)."""
    return (weight * chance[:, k : k + 1] * chance,)
