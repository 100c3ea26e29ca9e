"""Rates that follow the signs of the weights, while a minimiser finds these (Zhuo, Zhu & Zhang 2015, eqs 15 to 22).

The rates depend on the weights through signs alone, most of which the first step gets right, so that they follow every
step. What a late flip of a tiny weight does to the energy is below the tolerance soon, which is where a loose fit ends;
once the signs stand it is one convex solve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._typing import Bool
from ..objective.energy import Energy
from ..objective.shapes import FeatureBlock, ProblemVector, WeightBlock
from .driver import LOOSE, Status, Trace, least_weights, minimise
from .protocols import FitMethod
from .rate_update import RateLearner
from .state import SolverState

__all__ = ["Learning", "learn"]

# Accuracy of the weights from which on a sign that keeps changing counts as undecided.
_MODEST = 1e-3
# Share of the tolerance of a loose fit that an update of the rates may change the energy by at its end.
_LITTLE = 0.25


@dataclass
class Learning:
    """The rates of ``K`` problems and the energy at them, which both follow the weights.

    Attributes
    ----------
    learner : RateLearner
        What the signs say of the rates.
    energy_at : callable
        The energy at rates (p, K).
    energy : Energy
        That at the rates as they are.
    """

    learner: RateLearner
    energy_at: Callable[[FeatureBlock], Energy]
    energy: Energy

    def follow(
        self, weights: WeightBlock, settled: Bool[np.ndarray, " K"], value: ProblemVector
    ) -> Bool[np.ndarray, " K"]:
        """Bring the rates up to date with the weights (p + 1, K), and say of which problems they have changed, (K,).

        A sign that keeps changing where the weights are ``settled`` (K,) is undecided before long; ``value`` (K,) are
        the energies, which tell a weight that is zero but for round-off.
        """
        precision = self.energy.precision[:-1]
        least = least_weights(weights[:-1], value, precision, lambda: self._squares)
        moved = self.learner.observe(weights[:-1], settled, least)
        # Where every weight is zero no sign ever changes, and the rates have yet to follow their prior.
        if not np.any(self.learner.signs) and not self._is_up_to_date():
            moved = np.ones_like(moved)
        if np.any(moved):
            self.energy = self.energy_at(self.learner.rate_map.expand(self.learner.rates()))
        return moved

    @cached_property
    def _squares(self) -> FeatureBlock:
        """Those of the energy, which are the same at all rates."""
        return self.energy.squares()

    def _is_up_to_date(self) -> bool:
        return np.array_equal(self.energy.moments.rate, self.learner.rate_map.expand(self.learner.rates()))


def learn(
    learning: Learning, state: SolverState, method: FitMethod[Energy, SolverState], trace: Trace
) -> tuple[SolverState, Status | None]:
    """Alternate steps of the weights with updates of the rates until the signs of the weights stand.

    Parameters
    ----------
    learning : Learning
        Where the rates are; it follows.
    state : SolverState
        Where the weights are.
    method : Newton or EM
        Minimiser.
    trace : Trace
        Gets the objectives after every step, and the status.

    Returns
    -------
    state : SolverState
        Where the weights ended.
    status : Status or None
        Why they did if they should not have.
    """
    settled = done = np.zeros(state.weights.shape[1], dtype=bool)
    for _ in range(method.max_iter):
        state, reached = minimise(method, learning.energy, state, method.tol, 1, trace, done)
        settled = state.remaining <= _MODEST * np.abs(state.value)
        moved = learning.follow(state.weights, settled, state.value)
        done = reached & ~moved
        if np.any(moved):
            begun = method.init(learning.energy, state.weights, state)
            if method.tol >= LOOSE:
                # What changes sign at the end of a loose fit is too near zero to matter.
                done = reached & (np.abs(begun.value - state.value) <= _LITTLE * method.tol * np.abs(state.value))
            state = begun.changed(remaining=np.where(done, state.remaining, begun.remaining))
        if np.all(done):
            trace.values[-1] = state.objective
            return state, None
    return state, Status.RATES_UNSETTLED if np.all(settled) else Status.MAX_ITERATIONS
