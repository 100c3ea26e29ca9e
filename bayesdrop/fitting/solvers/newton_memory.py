"""Memory of Newton's method from step to step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._typing import PerRow
from ...linalg.systems import Apply
from ...losses import Derivatives
from ..objective.energy import Energy, FeatureBlock, ProblemVector, WeightBlock
from .state import PerProblem, SolverState

__all__ = ["FirstOrder", "NewtonMemory", "StepRules", "learn_from", "square"]

# What is of all problems together, and cheaper to make anew than to take apart.
_ANEW: dict[str, Any] = {"first_order": None, "precondition": None}


@dataclass(frozen=True)
class StepRules:
    """How steps of Newton's method are judged.

    Attributes
    ----------
    gain : float
        A step that gains less than this share of its slope (a perfect model gains half) is halved.
    safety : float
        Margin of the estimate of what remains, which rests on norms in the preconditioner, calibrated on earlier steps.
    full, short : float
        Lengths above which a step counts as full, and below which the next has more damping.
    aim : float
        Share of the goal that the last step aims at.
    idle : float
        A step that would gain less than this share of the goal only serves a bound, and only as long as the gradient
        falls.
    products : int
        Products of a step up to which its preconditioner serves the next one too.
    wide : int
        Columns from which on a factor costs more than the products that a fresh one would save.
    halvings, trials : int
        Lengths that are halved before they are cut to a tenth, and maximum number of lengths of a step.
    """

    gain: float = 1e-4
    safety: float = 4.0
    full: float = 0.7
    short: float = 0.2
    aim: float = 0.25
    idle: float = 1e-2
    products: int = 6
    wide: int = 32
    halvings: int = 10
    trials: int = 40


class FirstOrder(NamedTuple):
    """Derivatives of the loss (n, K), gradient (p + 1, K) and ``q(c φ_v)`` (p, K) at a state."""

    slopes: Derivatives
    gradient: WeightBlock
    spread: FeatureBlock

    @classmethod
    def at(cls, energy: Energy, state: SolverState) -> FirstOrder:
        """Evaluate them."""
        slopes = energy.derivatives(state.mean, state.var, state.smoothing)
        return cls(slopes, *energy.gradient(state.weights, slopes))


@dataclass(frozen=True)
class NewtonMemory(PerProblem):
    """What Newton's method keeps from step to step, (K,) each.

    Attributes
    ----------
    damping
        Share of the EM matrix in the second-order model.
    reference
        Size of the first gradient; 0 before the first step.
    calibration
        Largest ratio of a decrement to the size of its gradient; 0 before the first step.
    smoothing
        At which the last step was made.
    first_order : FirstOrder or None
        That of the state, if it is known.
    precondition : callable, optional
        That of the last step, while it serves.
    pull : array (n, K), optional
        The dual variables, where the weights come from those.
    """

    damping: ProblemVector
    reference: ProblemVector
    calibration: ProblemVector
    smoothing: ProblemVector
    first_order: FirstOrder | None = None
    precondition: Apply | None = None
    pull: PerRow | None = None

    @classmethod
    def blank(cls, smoothing: ProblemVector, earlier: NewtonMemory | None) -> NewtonMemory:
        """Before the first step; of an earlier run the damping and the scales still hold."""
        K = len(smoothing)
        zero = np.zeros(K)
        damping, reference, calibration = (
            (np.ones(K), zero, zero) if earlier is None else (earlier.damping, earlier.reference, earlier.calibration)
        )
        return cls(damping, reference, calibration, smoothing)

    def at_smoothing(self, smoothing: ProblemVector) -> NewtonMemory:
        """Forget what no longer holds where the smoothing is another than at the last step."""
        if np.array_equal(smoothing, self.smoothing):
            return self
        return self.changed(smoothing=smoothing, first_order=None)

    def select(self, columns: Any) -> NewtonMemory:
        """Some of the problems; the derivatives are cheaper to compute anew."""
        return PerProblem.select(self.changed(**_ANEW), columns)

    def merge(self, columns: Any, part: NewtonMemory) -> NewtonMemory:
        """All of the problems, some of them from ``part``."""
        return PerProblem.merge(self.changed(**_ANEW), columns, part.changed(**_ANEW))


def learn_from(
    memory: NewtonMemory,
    length: ProblemVector,
    decrement: ProblemVector,
    size: ProblemVector,
    first: FirstOrder,
    rules: StepRules,
) -> NewtonMemory:
    """The memory after a step of a length (K,) that should gain ``decrement`` (K,) from a gradient of ``size`` (K,)."""
    full = length > rules.full
    damping = memory.damping
    firmer = np.minimum(1.0, np.maximum(0.1, 4 * damping))
    return memory.changed(
        damping=np.where(full, 0.0, np.where(length < rules.short, firmer, damping)),
        calibration=np.maximum(memory.calibration, decrement / np.where(size > 0, size, np.inf)),
        first_order=first,
    )


def square(gradient: WeightBlock, precondition: Any) -> ProblemVector:
    """``gᵀz`` of each problem, for ``z`` the preconditioned gradient."""
    return np.einsum("ij,ij->j", gradient, precondition(gradient))
