"""What a minimiser of the energy of a hidden layer must offer, and how it divides its steps.

There are three: :mod:`.lbfgs` takes all weights at once, by SciPy; :mod:`.alternating` is the algorithm of Chen, Zhu,
Chen & Chen (2015), and :mod:`.minibatch` works on random rows: :mod:`bayesdrop.fitting.solvers.driver` makes the steps
of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..._typing import Float
from ...fitting.solvers.driver import Trace
from ...fitting.solvers.protocols import OneProblem
from ..objective.energy import LatentEnergy, Parameters

__all__ = ["PLAN", "WINDOW", "LatentMethod", "LatentState", "Plan"]

# Steps over which the gain is judged: single ones go up and down.
WINDOW = 10


class Plan(NamedTuple):
    """How a method spends its steps where there is more to find than the weights.

    Attributes
    ----------
    start : int
        Steps on each of several random starts; 0 for one start, taken as it is.
    rounds, round : int
        Most rounds between which the rates are updated, and steps of each.
    most : int or None
        Steps after the starts, those of the rounds included; None: what the method may take, after the rounds.
    """

    start: int
    rounds: int
    round: int
    most: int | None


@runtime_checkable
class LatentMethod(Protocol):
    """Protocol of a minimiser."""

    def plan(self, starts: int, learns: bool) -> Plan:
        """Divide the steps among ``starts`` random starts, the rounds of learnt rates, and the rest."""

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """Go downhill from ``start``, so many steps at most, and add to the trace; its status is set."""


# Steps on each of several starts, rounds of the rates, and steps of a round, where a step costs a pass over the data
# and some hundreds are allowed.
PLAN = Plan(15, 30, 20, None)


@dataclass(frozen=True)
class LatentState(OneProblem):
    """Where a minimiser is.

    Attributes
    ----------
    weights
        :class:`Parameters`.
    value, objective : array (1,)
        Energy there, with a kinked loss smoothed and as it is.
    remaining : array (1,)
        0 once steps gain less than was asked for, else infinite.
    memory
        What the method keeps from step to step.
    """

    weights: Parameters
    value: Float[np.ndarray, " 1"]
    objective: Float[np.ndarray, " 1"]
    remaining: Float[np.ndarray, " 1"]
    memory: Any

    @classmethod
    def at(cls, weights: Parameters, value: float, objective: float, memory: Any, done: bool = False) -> LatentState:
        """The state at weights where the energy is known."""
        remaining = 0.0 if done else np.inf
        return cls(weights, np.array([value]), np.array([objective]), np.array([remaining]), memory)
