"""The algorithm of Chen, Zhu, Chen & Chen (2015, sections 4.2 and 5.2) for a hidden layer.

Auxiliary variables and output weights in closed form, hidden weights by gradient, in turns. It never goes uphill.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from ..._typing import Bool, Float
from ..._validation import check_count, check_number
from ...fitting.solvers.driver import Trace, minimise
from ..objective.criteria import OneVersusRest, unpack
from ..objective.energy import LatentEnergy, Parameters, hidden_moments
from .lbfgs import Evaluated, LatentState, descend

__all__ = ["Alternating", "output_update"]


@dataclass(frozen=True)
class Alternating:
    """Fit a hidden layer by alternating updates: output weights in closed form, hidden weights by gradient.

    Parameters
    ----------
    tol : float, default=0.0001
        Stop where a turn lowers the energy by less than this for each unit ``C s_i`` of the rows' weight.
    max_iter : int, default=200
        Maximal number of turns.
    steps : int, default=5
        L-BFGS steps of the hidden weights in a turn.

    See Also
    --------
    LBFGS, LatentDropoutSVC

    References
    ----------
    Chen, Zhu, Chen & Chen (2015), Dropout training for SVMs with data augmentation, section 4.2.

    Examples
    --------
    >>> Alternating(steps=3)
    Alternating(tol=0.0001, max_iter=200, steps=3)
    """

    tol: float = 1e-4
    max_iter: int = 200
    steps: int = 5

    def __post_init__(self) -> None:
        check_number(self.tol, "tol", least=0)
        check_count(self.max_iter, "max_iter")
        check_count(self.steps, "steps")

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`bayesdrop.latent.minimisers.lbfgs.LatentMethod`.

        Raises
        ------
        ValueError
            If the loss has no auxiliary variables.
        """
        criterion = energy.criterion
        if not isinstance(criterion, OneVersusRest) or not criterion.loss.augmented:
            raise ValueError(
                "method: alternating updates need the augmentation bound, one class against the rest; use bd.LBFGS() "
                'for the softmax and the other bounds, or set expectation="augmentation".'
            )
        method = _Turns(criterion, self.steps, self.tol * energy.row_weight)
        most = self.max_iter if steps is None else min(steps, self.max_iter)
        state, _ = minimise(method, energy, method.init(energy, start), 0.0, most, trace)
        found: Parameters = state.weights
        return found


@dataclass(frozen=True)
class _Turns:
    """The turns as a minimiser of :mod:`bayesdrop.fitting.solvers.driver`; done where one gains ``least`` or less."""

    criterion: OneVersusRest
    steps: int
    least: float

    def init(self, energy: LatentEnergy, weights: Parameters, earlier: LatentState | None = None) -> LatentState:
        value, _, objective = energy.value_and_gradient(weights)
        return LatentState.at(weights, value, objective)

    def step(self, energy: LatentEnergy, state: LatentState, goal: Any) -> tuple[LatentState, Bool[np.ndarray, " K"]]:
        here: Parameters = state.weights
        here = here._replace(output=output_update(energy, self.criterion, here))

        def function(flat: Float[np.ndarray, " D"]) -> Evaluated:
            found = energy.value_and_gradient(here._replace(hidden=flat.reshape(here.hidden.shape)))
            return Evaluated(found.value, found.gradient.hidden.ravel(), found.objective)

        flat = descend(function, here.hidden.ravel(), 0.0, self.steps, Trace())
        there = here._replace(hidden=flat.reshape(here.hidden.shape))
        value, _, objective = energy.value_and_gradient(there)
        done = float(state.value[0]) - value <= self.least
        return LatentState.at(there, value, objective, done), np.array([True])


def output_update(energy: LatentEnergy, criterion: OneVersusRest, parameters: Parameters) -> Float[np.ndarray, "_ M"]:
    r"""EM step of the output weights given the hidden ones, (K + 1, M).

    With ``(ω, κ)`` at the current moments of the scores, ``(I + Σ_i ω_i (h_i h_iᵀ + D_i S_i D_i)) w = Σ_i κ_i h_i`` for
    each problem, where ``D = diag(σ'(ū))`` and the intercept is a unit that is always 1, without noise or penalty.
    """
    units, problems = parameters.output.shape[0], parameters.output.shape[1]
    penalty = np.append(np.ones(units - 1), 0.0 if energy.fit_intercept else 1.0)
    pairs = np.triu_indices(units - 1)
    left, right = np.tile(np.diag(penalty), (problems, 1, 1)), np.zeros((problems, units))
    for block in energy.blocks:
        mean, cov = hidden_moments(energy.moments_of(block), parameters.hidden)
        hidden: Float[np.ndarray, "m K"] = expit(mean)
        slope = hidden * (1 - hidden)
        extended = np.concatenate([hidden, np.full((len(hidden), 1), float(energy.fit_intercept))], axis=1)
        score = extended @ parameters.output
        bent = None if cov is None else slope[:, :, None] * unpack(cov, *pairs) * slope[:, None, :]
        for m in range(problems):
            w = parameters.output[:-1, m]
            var = np.full(len(mean), criterion.smoothing)
            if bent is not None:
                var += np.einsum("k,nkl,l->n", w, bent, w, optimize=True)
            omega, kappa = criterion.loss.pseudo(block.target[:, m], score[:, m], var, block.weight)
            left[m] += (extended * omega[:, None]).T @ extended
            right[m] += kappa @ extended
            if bent is not None:
                left[m, :-1, :-1] += np.tensordot(omega, bent, axes=1)
    return np.linalg.solve(left, right[:, :, None])[:, :, 0].T
