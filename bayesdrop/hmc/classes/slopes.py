r"""Mean cost of softmax rows, and its derivatives, where the contrasts of their scores are normal.

A row's contrasts ``m`` (J,) are ``N(μ_i, RΣ_iRᵀ)``, with the rotation ``R`` that all rows share and ``Σ_i`` diagonal;
noise adds a covariance ``V_i`` (J, J) to the scores. Wanted are

    value = Σ_i E cost_i(m, V_i),    g_i = E ∂cost_i/∂m,    C_i = E ∂²cost_i/∂m²,    Λ_i = 2 E ∂cost_i/∂V_i,

by quasi-random normal points. Of the Gaussian form the noise makes the normal law wider, and nothing else:
``Λ_i = C_i``. Of Taylor's, ``lse(m) + ½ tr(A''(m)V)``, ``Λ_i`` is the mean of ``A''``, and the curvature of the penalty
follows from its slopes ``r`` at the points by parts (Stein 1981), ``E ∂r = E r(m − μ)ᵀ (RΣRᵀ)⁻¹``. The penalty bends
downwards where classes are undecided; what of ``C_i`` is below 0 is left out.

Shapes: ``n`` rows, ``K`` classes, ``J = K − 1`` contrasts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float
from ...losses.softmax import log_sum_exp, normal_points

__all__ = ["ClassSlopes", "class_slopes"]

# Numbers that are held at a time where rows go in parts.
_VALUES = 1 << 20


class ClassSlopes(NamedTuple):
    """``value``, ``g`` (n, J), ``C`` (n, J, J) and ``Λ`` (n, J, J)."""

    value: float
    slope: Float[np.ndarray, "n J"]
    curve: Float[np.ndarray, "n J J"]
    by_variance: Float[np.ndarray, "n J J"]


def class_slopes(
    mean: Float[np.ndarray, "n J"],
    spread: Float[np.ndarray, "n J"],
    rotation: Float[np.ndarray, "J J"],
    basis: Float[np.ndarray, "K J"],
    code: Any,
    weight: Float[np.ndarray, " n"],
    variance: Float[np.ndarray, "n J J"] | None = None,
    widened: bool = False,
) -> ClassSlopes:
    """Sums and derivatives for means ``μ`` (n, J), deviations ``Σ^½`` (n, J), classes and weights of the rows (n,).

    ``variance`` (n, J, J) is what noise gives the scores, if there is any, and ``widened`` says that the form is the
    Gaussian one.
    """
    K, J = basis.shape
    points = normal_points(J)
    value, slope, curve = 0.0, np.empty_like(mean), np.empty((len(mean), J, J))
    by_variance = curve if variance is None or widened else np.empty_like(curve)
    step = max(1, _VALUES // (K * len(points)))
    for start in range(0, len(mean), step):
        rows = slice(start, start + step)
        root = rotation[None] * spread[rows, None]
        if variance is not None and widened:
            root = np.linalg.cholesky(root @ np.swapaxes(root, 1, 2) + variance[rows])
        level, chance = log_sum_exp((mean[rows, None] + points[None] @ np.swapaxes(root, 1, 2)) @ basis.T)
        along, own = chance @ basis, chance.mean(axis=1)
        square = np.swapaxes(along, 1, 2) @ along / len(points)
        plain = np.einsum("ka,ik,kb->iab", basis, own, basis) - square
        total = level.mean(axis=1) - np.sum(mean[rows] * basis[code[rows]], axis=1)
        own[np.arange(len(own)), code[rows]] -= 1
        first = own @ basis
        bend = plain
        if variance is not None and not widened:
            penalty, push = _penalty(chance, along, basis, variance[rows])
            total, first = total + penalty, first + push.mean(axis=1)
            beside = np.swapaxes(push, 1, 2) @ points / len(points) @ np.swapaxes(root / spread[rows, None] ** 2, 1, 2)
            bend = _upwards(plain + 0.5 * (beside + np.swapaxes(beside, 1, 2)))
            by_variance[rows] = weight[rows, None, None] * plain
        value += float(weight[rows] @ total)
        slope[rows], curve[rows] = weight[rows, None] * first, weight[rows, None, None] * bend
    return ClassSlopes(value, slope, curve, by_variance)


def _penalty(
    chance: Float[np.ndarray, "m S K"],
    along: Float[np.ndarray, "m S J"],
    basis: Float[np.ndarray, "K J"],
    variance: Float[np.ndarray, "m J J"],
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m S J"]]:
    """Mean of ``½ tr(A''V)`` over the points, and its slope at each; ``along`` are the mean contrasts there."""
    own = np.einsum("ka,iab,kb->ik", basis, variance, basis)[:, None]
    moved = along @ variance
    mean, square = np.sum(chance * own, axis=2), np.sum(along * moved, axis=2)
    push = own - 2 * (moved @ basis.T)
    push = 0.5 * chance * (push - np.sum(chance * push, axis=2, keepdims=True))
    return 0.5 * np.mean(mean - square, axis=1), push @ basis


def _upwards(curve: Float[np.ndarray, "m J J"]) -> Float[np.ndarray, "m J J"]:
    """The nearest matrices without negative eigenvalues."""
    value, vector = np.linalg.eigh(curve)
    kept: Float[np.ndarray, "m J J"] = (vector * np.maximum(value, 0)[:, None]) @ np.swapaxes(vector, 1, 2)
    return kept
