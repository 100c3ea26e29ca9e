r"""Minimisers of the energy of a hidden layer.

:class:`LBFGS`
    All weights at once on the profiled energy, after a few steps on the energy without variance, which cost a tenth.
:class:`Alternating`
    The algorithm of Chen, Zhu, Chen & Chen (2015, sections 4.2 and 5.2): the auxiliary variables and the output weights
    in closed form, the hidden weights by gradient. It never goes uphill.
:class:`Minibatch`
    Adam (Kingma & Ba 2015) on random rows, for data of which a pass is long.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import line_search
from scipy.special import expit

from ..inference.descent import Status, Trace
from .criteria import OneVersusRest, unpack
from .energy import LatentEnergy, Parameters, hidden_moments

__all__ = ["LBFGS", "Alternating", "LatentMethod", "Minibatch", "Plan", "check_latent_method"]

Array = Any

_MEMORY = 10
# Steps over which the gain is judged: single ones go up and down.
_WINDOW = 10
# Share of the steps that may be spent on the energy without variance.
_FIRST = 0.3


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


class LatentMethod(Protocol):
    """Protocol of a minimiser."""

    def plan(self, starts: int, learns: bool) -> Plan:
        """Divide the steps among ``starts`` random starts, the rounds of learnt rates, and the rest."""

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """Go downhill from ``start``, so many steps at most, and add to the trace; its status is set."""


def _check(name: str, value: Any, least: float, whole: bool) -> None:
    kind = "a whole number" if whole else "a number"
    right = isinstance(value, int | np.integer) if whole else isinstance(value, int | float | np.number)
    if isinstance(value, bool) or not right or not value >= least or not np.isfinite(value):
        raise ValueError(f"{name}: expected {kind} of at least {least:g}, got {value!r}.")


def check_latent_method(method: Any) -> None:
    """Raise TypeError unless ``method`` minimises the energy of a hidden layer."""
    if isinstance(method, type) or not all(hasattr(method, name) for name in ("plan", "minimise")):
        raise TypeError(
            f"method: expected a minimiser such as bd.LBFGS(), bd.Alternating() or bd.Minibatch(), got {method!r}."
        )


# Steps on each of several starts, rounds of the rates, and steps of a round, where a step costs a pass over the data
# and some hundreds are allowed.
_PLAN = Plan(15, 30, 20, None)


def _descend(
    function: Callable[[Array], tuple[float, Array, float]], start: Array, least: float, steps: int, trace: Trace
) -> Array:
    """L-BFGS from a vector until ten steps gain less than ``10 least``; every step of it is one of the trace.

    The direction is the two-loop recursion (Nocedal & Wright 2006, algorithm 7.4) and the step SciPy's search for the
    strong Wolfe conditions. SciPy's L-BFGS-B comes with a BLAS of its own, whose threads and those of NumPy's wait for
    each other: 16 ms a step beside products of the data, against 1 ms alone.
    """
    history: deque[tuple[Array, Array, float]] = deque(maxlen=_MEMORY)
    here, values = start, list[float]()
    seen: dict[bytes, tuple[float, Array, float]] = {}

    def both(x: Array) -> tuple[float, Array, float]:
        # The search asks for value and slope of one point apart.
        key = x.tobytes()
        if key not in seen:
            seen.clear()
            seen[key] = function(x)
        return seen[key]

    def value_at(x: Array) -> float:
        return both(x)[0]

    def slope_at(x: Array) -> Array:
        return both(x)[1]

    value, slope, _ = both(here)
    trace.status = Status.MAX_ITERATIONS
    for _ in range(steps):
        direction = _two_loops(slope, history)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a failed search is told by its result
            length = line_search(
                value_at, slope_at, here, direction, slope, value,
                None if values else value + 0.5 * float(np.linalg.norm(slope)), maxiter=20,
            )[0]  # fmt: skip
        if length is None:
            if not history:
                trace.status = Status.ROUND_OFF
                break
            history.clear()  # once more, down the slope
            continue
        there = here + length * direction
        new_value, new_slope, objective = both(there)
        step, change = there - here, new_slope - slope
        curvature = float(step @ change)
        if curvature > np.finfo(float).eps * float(change @ change):
            history.append((step, change, 1 / curvature))
        here, value, slope = there, new_value, new_slope
        values.append(value)
        trace.values.append(np.array([objective]))
        trace.iterations += 1
        if len(values) > _WINDOW and values[-1 - _WINDOW] - value < _WINDOW * least:
            trace.status = Status.CONVERGED
            break
    return here


def _two_loops(slope: Array, history: Iterable[tuple[Array, Array, float]]) -> Array:
    """Minus the inverse Hessian of the history times the slope."""
    direction, shares = -slope, []
    pairs = list(history)
    for step, change, inverse in reversed(pairs):
        share = inverse * float(step @ direction)
        direction = direction - share * change
        shares.append(share)
    if pairs:
        step, change, inverse = pairs[-1]
        direction = direction / (inverse * float(change @ change))
    for (step, change, inverse), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + (share - inverse * float(change @ direction)) * step
    return direction


@dataclass(frozen=True)
class LBFGS:
    """All weights at once by limited-memory BFGS.

    Parameters
    ----------
    tol : float
        Stop where a step lowers the energy by less than this for each unit ``C s_i`` of the rows' weight, the mean of
        ten steps: the mean loss of a row, as scikit-learn's ``MLPClassifier`` has it.
    max_iter : int
        Most steps.

    Examples
    --------
    >>> LBFGS(max_iter=100)
    LBFGS(tol=0.0001, max_iter=100)
    """

    tol: float = 1e-4
    max_iter: int = 500

    def __post_init__(self) -> None:
        _check("tol", self.tol, 0.0, False)
        _check("max_iter", self.max_iter, 1, True)

    def plan(self, starts: int, learns: bool) -> Plan:
        """See :class:`LatentMethod`."""
        return _PLAN

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`LatentMethod`."""
        most = self.max_iter if steps is None else min(steps, self.max_iter)

        def function(flat: Array, of: LatentEnergy) -> tuple[float, Array, float]:
            found = of.value_and_gradient(start.like(flat))
            return found.value, found.gradient.flatten(), found.objective

        flat, least = start.flatten(), self.tol * energy.row_weight
        if not trace.values and energy.has_variance:
            plain, some = replace(energy, spread=False), max(1, int(_FIRST * most))
            flat = _descend(lambda x: function(x, plain), flat, least, some, Trace())
        return start.like(_descend(lambda x: function(x, energy), flat, least, most, trace))


@dataclass(frozen=True)
class Alternating:
    """Output weights in closed form, hidden weights by gradient, in turns.

    Parameters
    ----------
    tol : float
        Stop where a turn lowers the energy by less than this for each unit ``C s_i`` of the rows' weight.
    max_iter : int
        Most turns.
    steps : int
        L-BFGS steps of the hidden weights in a turn.

    Examples
    --------
    >>> Alternating(steps=3)
    Alternating(tol=0.0001, max_iter=200, steps=3)
    """

    tol: float = 1e-4
    max_iter: int = 200
    steps: int = 5

    def __post_init__(self) -> None:
        _check("tol", self.tol, 0.0, False)
        _check("max_iter", self.max_iter, 1, True)
        _check("steps", self.steps, 1, True)

    def plan(self, starts: int, learns: bool) -> Plan:
        """See :class:`LatentMethod`."""
        return _PLAN

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`LatentMethod`; raise ValueError where the loss has no auxiliary variables."""
        criterion = energy.criterion
        if not isinstance(criterion, OneVersusRest) or not criterion.loss.augmented:
            raise ValueError(
                "method: alternating updates need the augmentation bound, one class against the rest; use bd.LBFGS() "
                'for the softmax and the other bounds, or set bound="augmentation".'
            )
        here, before = start, energy.value_and_gradient(start).value
        trace.status = Status.MAX_ITERATIONS
        for _ in range(self.max_iter if steps is None else min(steps, self.max_iter)):
            here = here._replace(output=output_update(energy, criterion, here))

            def function(flat: Array, now: Parameters = here) -> tuple[float, Array, float]:
                found = energy.value_and_gradient(now._replace(hidden=flat.reshape(now.hidden.shape)))
                return found.value, found.gradient.hidden.ravel(), found.objective

            flat = _descend(function, here.hidden.ravel(), 0.0, self.steps, Trace())
            here = here._replace(hidden=flat.reshape(here.hidden.shape))
            value, _, objective = energy.value_and_gradient(here)
            trace.values.append(np.array([objective]))
            trace.iterations += 1
            if before - value <= self.tol * energy.row_weight:
                trace.status = Status.CONVERGED
                break
            before = value
        return here


def output_update(energy: LatentEnergy, criterion: OneVersusRest, parameters: Parameters) -> Array:
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
        hidden: Array = expit(mean)
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
        _check("tol", self.tol, 0.0, False)
        _check("batch_size", self.batch_size, 1, True)
        _check("epochs", self.epochs, 1, True)
        _check("step_size", self.step_size, 1e-12, False)

    def plan(self, starts: int, learns: bool) -> Plan:
        """See :class:`LatentMethod`; steps are epochs."""
        first = self.epochs // (5 * starts) if starts > 1 else 0
        left = self.epochs - first * starts
        return Plan(first, max(1, left // 2) if learns else 0, 1, left)

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`LatentMethod`; a step is an epoch, and its value is the mean over its batches."""
        generator = np.random.default_rng(self.seed)
        epochs = self.epochs if steps is None else min(steps, self.epochs)
        sizes = [len(block.weight) for block in energy.blocks]
        n = sum(sizes)
        turns = epochs * sum(-(-size // self.batch_size) for size in sizes)
        flat, done = start.flatten(), 0
        first, second = np.zeros_like(flat), np.zeros_like(flat)
        values = list[float]()
        for _ in range(epochs):
            total, minimised = 0.0, 0.0
            for block in (energy.blocks[b] for b in generator.permutation(len(sizes))):
                order = generator.permutation(len(block.weight))
                for begin in range(0, len(order), self.batch_size):
                    rows = order[begin : begin + self.batch_size]
                    here = start.like(flat)
                    value, gradient, objective = energy.of_rows([block.take(rows, n / len(rows))], here)
                    penalty, slope = energy.prior(here)
                    total += (objective + penalty) * len(rows) / n
                    minimised += (value + penalty) * len(rows) / n
                    pull = energy.tied(Parameters(gradient.hidden + slope.hidden, gradient.output + slope.output))
                    done += 1
                    first = 0.9 * first + 0.1 * pull.flatten()
                    second = 0.999 * second + 0.001 * pull.flatten() ** 2
                    rate = self.step_size * (1 - done / turns) / (1 - 0.9**done)
                    flat = flat - rate * first / (np.sqrt(second / (1 - 0.999**done)) + 1e-12)
            values.append(minimised)
            trace.values.append(np.array([total]))
            trace.iterations += 1
        window = min(_WINDOW, epochs // 2)
        still = window > 0 and values[-1 - window] - values[-1] < window * self.tol * energy.row_weight
        trace.status = Status.CONVERGED if still else Status.MAX_EPOCHS
        return start.like(flat)
