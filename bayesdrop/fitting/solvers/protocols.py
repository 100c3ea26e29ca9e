"""What a minimiser must offer, and what its states must, for :mod:`.driver` to run it.

    init(energy, weights) → state,        step(energy, state, goal) → (state, info)

A state is what the next step needs: where the minimiser is, what the energy is there, and a memory that is the method's
own. The info is what the driver needs to know of a step and the next step does not. Nothing is changed in place.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from ..._typing import Bool, Float
from ..._validation import check_count, check_instance, check_number

__all__ = ["FitMethod", "Minimiser", "OneProblem", "State", "StepInfo", "accuracy", "check_minimiser"]

EnergyType = TypeVar("EnergyType", contravariant=True)
StateType = TypeVar("StateType")
Own = TypeVar("Own")


# So many tolerances: at 1e-8, the default, a bound on the gradient asks for no more than one on the energy.
_WEIGHTS = 1e4


def accuracy(tol: float) -> float:
    """Relative suboptimality of a smooth energy at which it and its gradient are as small as a tolerance asks for.

    Of an energy ``δ²/2`` above its least, relative to it, the weights are ``δ`` away in the units of its curvature, and
    so large is the gradient: the root of a small number is a larger one. Both have to be small: the suboptimality
    ``tol``, and the distance ``10⁴ tol``.

    Examples
    --------
    >>> [f"{accuracy(tol):.0e}" for tol in (1e-4, 1e-8, 1e-12)]
    ['1e-04', '1e-08', '1e-16']
    """
    return min(tol, (_WEIGHTS * tol) ** 2)


class StepInfo(NamedTuple):
    """How a step went: which problems it could move, (K,) bool. One that cannot be moved is done."""

    moved: Bool[np.ndarray, " K"]


@runtime_checkable
class State(Protocol):
    """What the driver reads of a state, for ``K`` problems."""

    @property
    def value(self) -> Float[np.ndarray, " K"]:
        """Energy of each problem."""

    @property
    def objective(self) -> Float[np.ndarray, " K"]:
        """The same as it is reported; what is minimised may be smoothed."""

    @property
    def remaining(self) -> Float[np.ndarray, " K"]:
        """Estimated suboptimality."""

    def goal(self, energy: Any, tol: float) -> Float[np.ndarray, " K"]:
        """Suboptimality of each problem at which a fit of a tolerance ends; see :func:`accuracy`."""

    def has_ended(self, energy: Any, goal: Any) -> Bool[np.ndarray, " K"]:
        """Which problems are at their goals before a step, or where no step would lead further."""

    def select(self: Own, columns: Any) -> Own:
        """The state of some problems."""

    def merge(self: Own, columns: Any, part: Own) -> Own:
        """Replace some problems by those of ``part``."""

    def refine(self: Own, energy: Any, goal: Any, moved: Any) -> tuple[Own, Bool[np.ndarray, " K"]]:
        """Bring what is minimised nearer to the energy itself, and say for which problems it is not yet near enough.

        ``goal`` (K,) is the suboptimality to be reached and ``moved`` (K,) what the last step could move.
        """


class OneProblem:
    """What states of a single problem share: nothing to select, and the energy is minimised as it is."""

    value: Any
    remaining: Any

    def goal(self, energy: Any, tol: float) -> Float[np.ndarray, " 1"]:
        """Small enough for the gradient too; see :class:`State`."""
        return accuracy(tol) * np.maximum(np.abs(self.value), np.finfo(float).tiny)

    def has_ended(self, energy: Any, goal: Any) -> Bool[np.ndarray, " 1"]:
        """Whether it is at its goal; see :class:`State`."""
        return np.asarray(self.remaining <= goal)

    def select(self: Own, columns: Any) -> Own:
        """The state itself; see :class:`State`."""
        return self

    def merge(self: Own, columns: Any, part: Own) -> Own:
        """The part, which is all; see :class:`State`."""
        return part

    def refine(self: Own, energy: Any, goal: Any, moved: Any) -> tuple[Own, Bool[np.ndarray, " 1"]]:
        """Nothing to refine; see :class:`State`."""
        return self, np.zeros(1, dtype=bool)


@runtime_checkable
class Minimiser(Protocol[EnergyType, StateType]):
    """Protocol of a minimiser, for one energy at fixed rates."""

    def init(self, energy: EnergyType, weights: Any, earlier: StateType | None = None) -> StateType:
        """State at the weights; of an ``earlier`` one, whose rates were others, it may keep what still holds."""

    def step(self, energy: EnergyType, state: StateType, goal: Any) -> tuple[StateType, StepInfo]:
        """Go downhill and estimate what remains; nothing need be done where that is below ``goal``, (K,)."""


@runtime_checkable
class FitMethod(Minimiser[EnergyType, StateType], Protocol[EnergyType, StateType]):
    """Protocol of what a user gives as the ``method`` of a fit: a minimiser that knows when to stop."""

    @property
    def tol(self) -> float:
        """Suboptimality, relative to the energy, at which to stop."""

    @property
    def max_iter(self) -> int:
        """Most steps."""


def check_minimiser(method: Any) -> Any:
    """Return a minimiser, or raise TypeError; a sampler is none.

    Examples
    --------
    >>> check_minimiser("newton")
    Traceback (most recent call last):
    TypeError: method: expected a minimiser such as bd.Newton() or bd.EM(), got 'newton'; samplers go to bd.sample.
    """
    expected = "a minimiser such as bd.Newton() or bd.EM()"
    check_instance(method, "method", FitMethod, expected, advice="samplers go to bd.sample")
    check_number(method.tol, "tol", least=0)
    check_count(method.max_iter, "max_iter")
    return method
