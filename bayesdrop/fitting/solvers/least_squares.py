"""Dense least squares under noise by their normal equations: one Gram matrix, one factor, and the optimum is there.

The energy of a quadratic loss is quadratic in the weights. With ``c φ_mm = ω`` in every row, and ``φ_v = ½ φ_mm`` since
an expected quadratic function is exact, its Hessian is the prior precision and the expected Gram matrix of noised rows,

    A = P + E M̃ᵀΩM̃ = P + MᵀΩM + diag(q(ω)),

wherever it is taken, so that the optimum is ``w − A⁻¹g`` for the gradient ``g`` at any ``w`` (van der Maaten, Chen,
Tyree & Weinberger 2013, section 3.1; Wager, Wang & Liang 2013). For dropout ``q(ω)`` comes from the diagonal of the
Gram matrix. A gradient at what was found says how far it is above the optimum, ``½gᵀA⁻¹g``: where columns are nearly
collinear the normal equations lose digits, and another step with the same factor finds them again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...linalg.factors import solved
from ...losses import Derivatives
from ..objective.energy import Energy
from ..objective.shapes import FeatureBlock, ProblemVector, WeightBlock
from .preconditioners import factored
from .state import SolverState

__all__ = ["LeastSquares", "solve_least_squares"]

# Steps with one factor; the first is the solution but for rounding.
_STEPS = 3


class LeastSquares(NamedTuple):
    """Where the normal equations ended: the state with what remains, and ``gᵀA⁻¹g`` at the start (K,)."""

    state: SolverState
    size: ProblemVector


def solve_least_squares(energy: Energy, weights: WeightBlock, goal: float) -> LeastSquares | None:
    """Minimise the energies of a quadratic loss of labelled dense rows (:mod:`.choices`).

    Parameters
    ----------
    energy : Energy
        Of K problems.
    weights : array (p + 1, K)
        Where to start.
    goal : float
        Suboptimality, relative to the energies, that is enough.

    Returns
    -------
    LeastSquares or None
        None where rounding leaves no step downhill.
    """
    moments = energy.moments
    p = moments.design.shape[1]
    state = SolverState.at(energy, weights, None)
    slopes = energy.derivatives(state.mean, state.var, state.smoothing)
    gram, spread = moments.noised_gram(slopes.mean_mean)
    diagonal = np.broadcast_to(energy.precision, (p + 1, spread.shape[1])).copy()
    for matrix in gram if not moments.fit_intercept else []:
        matrix[-1, -1] = 1.0
    factors = [factored(matrix, one) for matrix, one in zip(gram, diagonal.T, strict=True)]

    def inverse(right: WeightBlock) -> WeightBlock:
        parts = [solved(one, part) for one, part in zip(factors, right.T, strict=True)]
        return np.stack(parts, axis=1)

    gradient = _gradient(energy, state, slopes, spread)
    size = first = np.einsum("ij,ij->j", gradient, inverse(gradient))
    for _ in range(_STEPS):
        better = SolverState.at(energy, state.weights - inverse(gradient), None)
        if not np.all(better.value <= state.value * (1 + 8 * np.finfo(float).eps)):
            return None
        slopes = energy.derivatives(better.mean, better.var, better.smoothing)
        gradient = _gradient(energy, better, slopes, spread)
        size = np.einsum("ij,ij->j", gradient, inverse(gradient))
        state = better
        if np.all(0.5 * size <= goal * np.abs(state.value)):
            break
    return LeastSquares(replace(state, remaining=0.5 * size), first)


def _gradient(energy: Energy, state: SolverState, slopes: Derivatives, spread: FeatureBlock) -> WeightBlock:
    """Gradient (p + 1, K), given ``q(ω)``."""
    result = energy.moments.mean_adjoint(slopes.mean) + energy.precision * state.weights
    result[:-1] += spread * state.weights[:-1]
    return result
