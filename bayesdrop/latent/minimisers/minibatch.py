"""Adam (Kingma & Ba 2015) on random rows, for data of which a pass is long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float
from ..._validation import check_count, check_number, check_seed
from ...fitting.solvers.driver import Status, Trace, minimise
from ...fitting.solvers.protocols import StepInfo
from ..objective.energy import LatentEnergy, Parameters
from .methods import WINDOW, LatentState, Plan

__all__ = ["Minibatch"]


@dataclass(frozen=True)
class Minibatch:
    """Adam on random rows, its step falling linearly to zero.

    Parameters
    ----------
    batch_size : int
        Rows of a step.
    epochs : int
        Passes over the data in all, at least 1: those that tell several starts apart (a fifth at most) and those
        between which the rates are learnt (half of the rest at most, one a time) are among them.
    step_size : float
        First step of each weight, above 0.
    seed : int
        Order of the rows.
    tol : float
        The fit has converged if an epoch lowers the energy by less than this for each unit ``C s_i`` of the rows'
        weight, the mean of the last ten or of the later half; a value is the mean over the steps of its epoch. What is
        too slow for its ``step_size`` looks converged too.

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
        """See :class:`bayesdrop.latent.minimisers.methods.LatentMethod`; steps are epochs."""
        first = self.epochs // (5 * starts) if starts > 1 else 0
        left = self.epochs - first * starts
        return Plan(first, max(1, left // 2) if learns else 0, 1, left)

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`bayesdrop.latent.minimisers.methods.LatentMethod`; values are means over an epoch."""
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
