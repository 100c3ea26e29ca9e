"""The algorithm of Chen, Zhu, Chen & Chen (2015, sections 4.2 and 5.2) for a hidden layer.

Auxiliary variables and output weights in closed form, hidden weights by gradient, in turns. It never goes uphill.

Adam (Kingma & Ba 2015) on random rows, for data of which a pass is long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from ..._typing import Float
from ..._validation import check_count, check_number, check_seed
from ...fitting.solvers.driver import Status, StepInfo, Trace, minimise
from ..objective.criteria import OneVersusRest, unpack
from ..objective.energy import LatentEnergy, Parameters, hidden_moments
from .lbfgs import PLAN, WINDOW, Evaluated, LatentState, Plan, descend

__all__ = ["Alternating", "Minibatch", "output_update"]


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
    LBFGS, Minibatch, LatentDropoutSVC

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

    def plan(self, starts: int, learns: bool) -> Plan:
        """See :class:`bayesdrop.latent.minimisers.lbfgs.LatentMethod`."""
        return PLAN

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
        return LatentState.at(weights, value, objective, None)

    def step(self, energy: LatentEnergy, state: LatentState, goal: Any) -> tuple[LatentState, StepInfo]:
        here: Parameters = state.weights
        here = here._replace(output=output_update(energy, self.criterion, here))

        def function(flat: Float[np.ndarray, " D"]) -> Evaluated:
            found = energy.value_and_gradient(here._replace(hidden=flat.reshape(here.hidden.shape)))
            return Evaluated(found.value, found.gradient.hidden.ravel(), found.objective)

        flat = descend(function, here.hidden.ravel(), 0.0, self.steps, Trace())
        there = here._replace(hidden=flat.reshape(here.hidden.shape))
        value, _, objective = energy.value_and_gradient(there)
        done = float(state.value[0]) - value <= self.least
        return LatentState.at(there, value, objective, None, done), StepInfo(np.array([True]))


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


@dataclass(frozen=True)
class Minibatch:
    """Fit a hidden layer by Adam on random rows, with a step size that decreases linearly to zero.

    Parameters
    ----------
    batch_size : int, default=500
        Rows of a step.
    epochs : int, default=20
        Passes over the data in all, at least 1, including those that choose among several starts (a fifth at most) and
        those between updates of the rates (half of the rest at most).
    step_size : float, default=0.02
        First step of each weight, above 0.
    seed : int, default=0
        Order of the rows.
    tol : float, default=0.0001
        The fit has converged if an epoch lowers the energy by less than this for each unit ``C s_i`` of the rows'
        weight, the mean of the last ten or of the later half; a value is the mean over the steps of its epoch. With too
        small a ``step_size`` a slow fit looks converged.

    See Also
    --------
    LBFGS, Alternating

    Examples
    --------
    >>> Minibatch(500, epochs=5)
    Minibatch(batch_size=500, epochs=5, step_size=0.02, seed=0, tol=0.0001)
    """

    batch_size: int = 500
    epochs: int = 20
    step_size: float = 0.02
    seed: int = 0
    tol: float = 1e-4

    def __post_init__(self) -> None:
        check_count(self.batch_size, "batch_size")
        check_count(self.epochs, "epochs")
        check_number(self.step_size, "step_size", least=1e-12)
        object.__setattr__(self, "seed", check_seed(self.seed))
        check_number(self.tol, "tol", least=0)

    def plan(self, starts: int, learns: bool) -> Plan:
        """See :class:`bayesdrop.latent.minimisers.lbfgs.LatentMethod`; steps are epochs."""
        first = self.epochs // (5 * starts) if starts > 1 else 0
        left = self.epochs - first * starts
        return Plan(first, max(1, left // 2) if learns else 0, 1, left)

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`bayesdrop.latent.minimisers.lbfgs.LatentMethod`; values are means over an epoch."""
        epochs = self.epochs if steps is None else min(steps, self.epochs)
        method = _Epochs(self, epochs)
        state, _ = minimise(method, energy, method.init(energy, start), 0.0, epochs, trace)
        if trace.status is Status.MAX_ITERATIONS:
            trace.status = Status.MAX_EPOCHS
        found: Parameters = state.weights
        return found


class Adam(NamedTuple):
    """What Adam keeps: decayed means of gradients and of their squares, steps made, values, and the order to come."""

    first: Float[np.ndarray, " D"]
    second: Float[np.ndarray, " D"]
    steps: int
    values: tuple[float, ...]
    generator: np.random.Generator


@dataclass(frozen=True)
class _Epochs:
    """The epochs as a minimiser of :mod:`bayesdrop.fitting.solvers.driver`; whether it is done is asked of the last."""

    settings: Minibatch
    epochs: int

    def init(self, energy: LatentEnergy, weights: Parameters, earlier: LatentState | None = None) -> LatentState:
        zero = np.zeros(weights.hidden.size + weights.output.size)
        memory = Adam(zero, zero, 0, (), np.random.default_rng(self.settings.seed))
        # The energy there would cost a pass over the data.
        return LatentState.at(weights, np.nan, np.nan, memory)

    def step(self, energy: LatentEnergy, state: LatentState, goal: Any) -> tuple[LatentState, StepInfo]:
        start: Parameters = state.weights
        first, second, done, values, generator = state.memory
        size = self.settings.batch_size
        sizes = [len(block.weight) for block in energy.blocks]
        n, turns = sum(sizes), self.epochs * sum(-(-rows // size) for rows in sizes)
        flat, total, minimised = start.flatten(), 0.0, 0.0
        for block in (energy.blocks[b] for b in generator.permutation(len(sizes))):
            order = generator.permutation(len(block.weight))
            for begin in range(0, len(order), size):
                rows = order[begin : begin + size]
                here = start.like(flat)
                value, gradient, objective = energy.of_rows([block.take(rows, n / len(rows))], here)
                penalty, slope = energy.prior(here)
                total += (objective + penalty) * len(rows) / n
                minimised += (value + penalty) * len(rows) / n
                both = Parameters(gradient.hidden + slope.hidden, gradient.output + slope.output)
                whole = energy.zero_fixed_intercepts(both).flatten()
                done += 1
                first = 0.9 * first + 0.1 * whole
                second = 0.999 * second + 0.001 * whole**2
                rate = self.settings.step_size * (1 - done / turns) / (1 - 0.9**done)
                flat = flat - rate * first / (np.sqrt(second / (1 - 0.999**done)) + 1e-12)
        values = (*values, minimised)
        window = min(WINDOW, self.epochs // 2)
        last = len(values) == self.epochs and window > 0
        still = last and values[-1 - window] - minimised < window * self.settings.tol * energy.row_weight
        ended = LatentState.at(start.like(flat), minimised, total, Adam(first, second, done, values, generator), still)
        return ended, StepInfo(np.array([True]))
