r"""Normal approximation of a posterior of more features than rows, by its scores.

Without noise, weights enter by the scores ``s = Xw + b`` alone, and the best normal approximation ``N(c, Σ)`` (Opper &
Archambeau 2009, section 3) has precision ``P + XᵀDX`` with a number for each row,

    g_i = E ∂cost_i(s_i),    D_i = E ∂²cost_i(s_i),    s_i ~ N(m_i, v_i),

``m`` and ``v`` being the mean and variance of the scores under the approximation itself (less a known offset, which
``cost_i`` adds). With ``K = XP⁻¹Xᵀ`` and
``L Lᵀ = 1 + D^½KD^½`` a step is Newton's as for a Gaussian process (Rasmussen & Williams 2006, algorithm 3.1):

    d = Dm − g,   a = d − D^½(LLᵀ)⁻¹D^½Kd,   m ← Ka,   v ← diag(K − KD^½(LLᵀ)⁻¹D^½K),

so that all is done in matrices of the rows, whatever the number of features. With an intercept, ``K`` is that of rows
less their mean under ``D``, of which the intercept's level ``Σd/ΣD`` is independent. Nothing about a sampler's
correctness rests on it.

Shapes: ``n`` rows, ``p`` features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...._typing import Float
from ....data.dataset import Dataset
from ....losses.protocols import Curved, require
from ....model import Model
from .row_factor import centred_gram

__all__ = ["ScoreApproximation", "rounding_width", "score_approximation"]

_STEPS, _CLOSE = 20, 0.05
# How far a step goes: where scores are wide, a smaller curvature makes them wider, and whole steps overshoot.
_SHARE = 0.5
# Curvature of a row, as a share of the largest, below which it is not followed.
_FLAT = 1e-6


class ScoreApproximation(NamedTuple):
    """What a normal approximation says of the rows.

    Attributes
    ----------
    mean, spread : array (n,)
        Means and standard deviations of the scores.
    curvature : array (n,)
        ``D``, above 0.
    dual : array (n,)
        ``a``: the mean of the weights is ``P⁻¹Xᵀa``. With an intercept its sum is 0.
    gram : array (n, n)
        ``K``, of rows less their mean if there is an intercept.
    """

    mean: Float[np.ndarray, " n"]
    spread: Float[np.ndarray, " n"]
    curvature: Float[np.ndarray, " n"]
    dual: Float[np.ndarray, " n"]
    gram: Float[np.ndarray, "n n"]


def rounding_width(
    weight: Float[np.ndarray, " n"], curvature: Float[np.ndarray, " n"], spread: Float[np.ndarray, " n"], most: float
) -> Float[np.ndarray, " n"]:
    """Half-widths (n,) over which kinks are rounded, for weights, curvatures and deviations of the scores.

    They are at most so many standard deviations. Wide scores would make the rounded force that of another posterior:
    the energy that it gets wrong, in all rows about ``Σ c D h³/24`` of variance with ``c`` the weight of a row, is to
    stay below a quarter.

    Examples
    --------
    >>> rounding_width(np.ones(1), np.full(1, 6.0), np.ones(1), 3.0).tolist()
    [1.0]
    """
    wrong = np.sum(weight * curvature * spread**3) / 24
    share = min(most, float((0.25 / wrong) ** (1 / 3)))
    return share * np.maximum(spread, 1e-3 * spread.max())


def score_approximation(model: Model, data: Dataset) -> ScoreApproximation:
    """Approximate the posterior of a model without noise.

    Raises
    ------
    ValueError
        If the loss has no derivatives.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from bayesdrop.data.dataset import as_dataset
    >>> X, y = np.array([[1.0, 2.0, 0.0]]), np.array([3.0])
    >>> ridge = bd.Model(bd.Squared(), rates=bd.Fixed(0.0), fit_intercept=False)
    >>> found = score_approximation(ridge, as_dataset(X, y, None, None, False).with_weight())
    >>> found.mean.round(6).tolist(), found.gram.tolist()  # 5/6 of the response: prior variance 5, the row's 1
    ([2.5], [[5.0]])
    """
    from scipy.linalg import cho_solve, cholesky, solve_triangular

    loss: Any = require(model.loss.plain, Curved, "hmc", "write what lacks, or use bd.fit")
    gaussian = hasattr(loss, "expectation")
    # A loss of the user's own may have no Gaussian form; its curvature is then that at the mean.
    loss = replace(loss, expectation="gaussian") if gaussian else loss
    n, p = data.design.shape
    gram = data.design.outer_gram(1 / model.weight_prior.precision(p))
    weight, known = model.C * data.weight, 0.0 if data.offset is None else data.offset
    mean, variance = np.zeros(n), np.maximum(np.diagonal(gram), 1e-12)
    dual, curvature, pull = np.zeros((3, n))
    for number in range(_STEPS):
        slopes = loss.derivatives(data.target, mean + known, variance if gaussian else 0 * variance)
        slope, bend = weight * slopes.mean, weight * np.maximum(slopes.mean_mean, 0)
        bend = np.maximum(bend, _FLAT * (bend.max() or 1.0))
        share = _SHARE if number else 1.0
        curvature += share * (bend - curvature)
        pull += share * (bend * mean - slope - pull)
        root, total = np.sqrt(curvature), curvature.sum()
        level = pull.sum() / total if model.fit_intercept else 0.0
        centred = centred_gram(gram, curvature, model.fit_intercept)
        lower = root[:, None] * centred * root
        lower[np.diag_indices(n)] += 1
        lower = cholesky(lower, lower=True, overwrite_a=True, check_finite=False)
        residual = pull - curvature * level
        dual = residual - root * cho_solve((lower, True), root * (centred @ residual), check_finite=False)
        inside = solve_triangular(lower, root[:, None] * centred, lower=True, overwrite_b=True, check_finite=False)
        new_mean = centred @ dual + level
        new_variance = np.diagonal(centred) - np.einsum("ij,ij->j", inside, inside)
        new_variance = np.maximum(new_variance + (1 / total if model.fit_intercept else 0.0), 1e-12)
        change = np.abs(np.sqrt(new_variance) - np.sqrt(variance)), np.abs(new_mean - mean)
        mean, variance = new_mean, new_variance
        if max(part.max() for part in change) < _CLOSE * np.sqrt(variance.max()):
            break
    return ScoreApproximation(mean, np.sqrt(variance), curvature, dual, centred)
