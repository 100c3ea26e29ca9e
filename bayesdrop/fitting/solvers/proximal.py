r"""Newton's method for an energy with a penalty ``Σ λ_d |w_d|``, whose optimum has weights that are exactly zero.

    U(w) = f(w) + Σ_d λ_d |w_d|,      f the smooth energy

A step minimises ``gᵀd + ½ dᵀHd + Σ λ|w + d|`` over ``d``, and halves ``d`` until the energy falls enough (Lee, Sun &
Saunders 2014). ``H`` is the Gram matrix of the curvature of the loss in the mean of the score plus the diagonal of the
noise; without the cross terms of mean and variance it takes more steps to the same optimum. Coordinate descent finds
the signs of ``w + d`` (Friedman, Hastie & Tibshirani 2010, section 2), and a linear system for the non-zero weights
then gives ``d`` to round-off.

At the optimum ``g_d = −λ_d sign(w_d)`` for non-zero weights and ``|g_d| ≤ λ_d`` for the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._typing import Bool, Float
from ..objective.energy import Energy
from .state import SolverState

__all__ = ["ProximalNewton", "RULES", "solve_quadratic"]


@dataclass(frozen=True)
class Rules:
    """Limits of the loops.

    Attributes
    ----------
    sweeps : int
        Maximum number of passes over the coordinates per step.
    halvings : int
        Maximum number of halvings of a step.
    share : float
        Share of the predicted decrease that a step must reach.
    weights : int
        Maximum number of weights, as the matrix ``H`` is in memory.
    """

    sweeps: int = 500
    halvings: int = 30
    share: float = 1e-4
    weights: int = 5000


RULES = Rules()


@dataclass(frozen=True)
class ProximalNewton:
    """Minimiser of energies with a penalty on absolute weights; see :class:`.driver.FitMethod`."""

    tol: float
    max_iter: int

    def init(self, energy: Energy, weights: Any, earlier: SolverState | None = None) -> SolverState:
        """Evaluate the energy."""
        return SolverState.at(energy, weights, None, earlier)

    def step(self, energy: Energy, state: SolverState, goal: Any) -> tuple[SolverState, Bool[np.ndarray, " K"]]:
        """Make one step in every problem; the decrease predicted before the step estimates the suboptimality."""
        slopes = energy.derivatives(state.mean, state.var, state.smoothing)
        gradient, spread = energy.gradient(state.weights, slopes)
        diagonal = energy.curvature(slopes, spread).diagonal
        grams = energy.moments.grams(np.maximum(slopes.mean_mean, 0.0))
        if energy.level is not None:
            grams = grams + energy.level.hessian
        penalty = np.asarray(energy.absolute)[:, 0]
        noise_diagonal = np.maximum(np.broadcast_to(diagonal, state.weights.shape), 0.0)
        direction = np.stack(
            [
                solve_quadratic(gram + np.diag(noise_diagonal[:, k]), gradient[:, k], state.weights[:, k], penalty)
                for k, gram in enumerate(grams)
            ],
            axis=1,
        )
        absolute = penalty @ (np.abs(state.weights + direction) - np.abs(state.weights))
        promise = np.sum(gradient * direction, axis=0) + absolute  # negative, at most twice the model's decrease
        length = np.where(-promise > np.finfo(float).eps * np.abs(state.value), 1.0, 0.0)
        for _ in range(RULES.halvings):
            new = SolverState.at(energy, state.weights + length * direction, None, state)
            good = new.value <= state.value + RULES.share * length * promise
            if np.all(good):
                break
            length = np.where(good, length, 0.5 * length)
        moved = good & (length > 0)
        ended = state.moved(moved, weights=new.weights, mean=new.mean, var=new.var, value=new.value)
        return ended.changed(remaining=np.maximum(-promise, 0.0)), moved


def solve_quadratic(
    hessian: Float[np.ndarray, "q q"],
    gradient: Float[np.ndarray, " q"],
    weight: Float[np.ndarray, " q"],
    penalty: Float[np.ndarray, " q"],
) -> Float[np.ndarray, " q"]:
    """Minimiser ``d`` (q,) of ``gᵀd + ½ dᵀHd + Σ λ|w + d|``, to round-off.

    Parameters
    ----------
    hessian : array (q, q)
        ``H``, positive semidefinite; a coordinate whose row is zero does not change.
    gradient, weight, penalty : array (q,)
        ``g``, ``w`` and ``λ``.

    Examples
    --------
    >>> solve_quadratic(np.eye(2), np.array([-3.0, 0.5]), np.zeros(2), np.ones(2)).tolist()
    [2.0, 0.0]
    """
    diagonal = hessian.diagonal()
    free = np.flatnonzero(diagonal > 0)
    new, residual = weight.copy(), gradient.copy()  # residual: g + Hd
    signs = np.sign(new)
    for _ in range(RULES.sweeps):
        for j in free:
            target = new[j] - residual[j] / diagonal[j]
            shrunk = np.sign(target) * max(abs(target) - penalty[j] / diagonal[j], 0.0)
            if shrunk != new[j]:
                residual += hessian[j] * (shrunk - new[j])
                new[j] = shrunk
        before, signs = signs, np.sign(new)
        if np.array_equal(signs, before):
            exact = _given_signs(hessian, gradient, weight, penalty, signs, free)
            if exact is not None:
                return exact
    return new - weight


def _given_signs(
    hessian: Float[np.ndarray, "q q"],
    gradient: Float[np.ndarray, " q"],
    weight: Float[np.ndarray, " q"],
    penalty: Float[np.ndarray, " q"],
    signs: Float[np.ndarray, " q"],
    free: Any,
) -> Float[np.ndarray, " q"] | None:
    """Minimiser given the signs of ``w + d``; None if the solution has other signs, or a zero is not optimal."""
    support = free[(signs[free] != 0) | (penalty[free] == 0)]
    direction = np.where(signs == 0, -weight, 0.0)
    direction[support] = 0.0
    slope = gradient + hessian @ direction
    try:
        direction[support] = np.linalg.solve(hessian[np.ix_(support, support)], -(slope + penalty * signs)[support])
    except np.linalg.LinAlgError:
        return None
    new, residual = weight + direction, gradient + hessian @ direction
    zero = np.setdiff1d(free, support)
    fits = np.all((np.sign(new[support]) == signs[support]) | (penalty[support] == 0))
    slack = 1e-12 * (np.abs(gradient) + penalty)
    return direction + 0.0 if fits and np.all(np.abs(residual[zero]) <= (penalty + slack)[zero]) else None
