"""Fit a hidden layer by the algorithm of Chen, Zhu, Chen & Chen (2015, sections 4.2 and 5.2).

It updates output weights in closed form and hidden weights by L-BFGS, in turns, and never increases the energy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from ..._progress import step
from ..._typing import Float
from ..._validation import check_count, check_number
from ...fitting.solvers.driver import Status, Trace
from ..objective.criteria import OneVersusRest, unpack
from ..objective.energy import LatentEnergy, Parameters, hidden_moments
from .lbfgs import descend

__all__ = ["Alternating", "output_update"]


@dataclass(frozen=True)
class Alternating:
    """Fit a hidden layer by alternating updates: output weights in closed form, hidden weights by gradient.

    Parameters
    ----------
    tol : float, default=0.0001
        Stop if a turn lowers the energy by at most ``tol`` times the total weight ``C Σ s_i`` of the rows.
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
        point, value, min_gain = start, energy.value_and_gradient(start)[0], self.tol * energy.row_weight
        trace.status = Status.MAX_ITERATIONS
        for _ in range(self.max_iter if steps is None else min(steps, self.max_iter)):
            point, before, turn = point._replace(output=output_update(energy, criterion, point)), value, Trace()

            def function(flat: Float[np.ndarray, " D"], point: Parameters = point) -> Any:
                value, gradient = energy.value_and_gradient(point._replace(hidden=flat.reshape(point.hidden.shape)))
                return value, gradient.hidden.ravel()

            hidden = descend(function, point.hidden.ravel(), 0.0, self.steps, turn)
            point, value = point._replace(hidden=hidden.reshape(point.hidden.shape)), float(turn.values[-1][0])
            trace.values.append(np.array([value]))
            trace.iterations += 1
            step()
            if before - value <= min_gain:
                trace.status = Status.CONVERGED
                break
        return point


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
