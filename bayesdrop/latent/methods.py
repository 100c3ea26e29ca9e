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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import expit

from ..inference.descent import Status, Trace
from .energy import LatentEnergy, OneVersusRest, Parameters, hidden_moments

__all__ = ["LBFGS", "Alternating", "LatentMethod", "Minibatch"]

Array = Any

_MEMORY = 20
# Share of the steps that may be spent on the energy without variance.
_FIRST = 0.3


class LatentMethod(Protocol):
    """Protocol of a minimiser."""

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """Go downhill from ``start``, so many steps at most, and add to the trace; its status is set."""


def _check(name: str, value: Any, least: float, whole: bool) -> None:
    kind = "a whole number" if whole else "a number"
    right = isinstance(value, int | np.integer) if whole else isinstance(value, int | float | np.number)
    if isinstance(value, bool) or not right or not value >= least or not np.isfinite(value):
        raise ValueError(f"{name}: expected {kind} of at least {least:g}, got {value!r}.")


def _descend(
    function: Callable[[Array], tuple[float, Array]], start: Array, tol: float, steps: int, trace: Trace
) -> Array:
    """L-BFGS from a vector; every step of it is one of the trace."""
    from scipy.optimize import minimize

    def keep(intermediate_result: Any) -> None:
        trace.values.append(np.array([intermediate_result.fun]))
        trace.iterations += 1

    result = minimize(
        function,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=keep,
        options={"maxiter": steps, "maxfun": 2 * steps + 20, "maxcor": _MEMORY, "ftol": tol, "gtol": 0.0},
    )
    done = result.status == 0
    trace.status = Status.CONVERGED if done else Status.ROUND_OFF if result.status == 2 else Status.MAX_ITERATIONS
    return result.x


@dataclass(frozen=True)
class LBFGS:
    """All weights at once by limited-memory BFGS.

    Parameters
    ----------
    tol : float
        Decrease of the energy in a step, relative to it, at which to stop.
    max_iter : int
        Most steps.

    Examples
    --------
    >>> LBFGS(max_iter=100)
    LBFGS(tol=1e-05, max_iter=100)
    """

    tol: float = 1e-5
    max_iter: int = 500

    def __post_init__(self) -> None:
        _check("tol", self.tol, 0.0, False)
        _check("max_iter", self.max_iter, 1, True)

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`LatentMethod`."""
        most = self.max_iter if steps is None else min(steps, self.max_iter)

        def function(flat: Array, of: LatentEnergy) -> tuple[float, Array]:
            value, gradient = of.value_and_gradient(start.like(flat))
            return value, gradient.flatten()

        flat = start.flatten()
        if not trace.values and energy.has_variance:
            plain, some = replace(energy, spread=False), max(1, int(_FIRST * most))
            flat = _descend(lambda x: function(x, plain), flat, self.tol, some, Trace())
        return start.like(_descend(lambda x: function(x, energy), flat, self.tol, most, trace))


@dataclass(frozen=True)
class Alternating:
    """Output weights in closed form, hidden weights by gradient, in turns.

    Parameters
    ----------
    tol : float
        Decrease of the energy in a turn, relative to it, at which to stop.
    max_iter : int
        Most turns.
    steps : int
        L-BFGS steps of the hidden weights in a turn.

    Examples
    --------
    >>> Alternating(steps=3)
    Alternating(tol=1e-05, max_iter=200, steps=3)
    """

    tol: float = 1e-5
    max_iter: int = 200
    steps: int = 5

    def __post_init__(self) -> None:
        _check("tol", self.tol, 0.0, False)
        _check("max_iter", self.max_iter, 1, True)
        _check("steps", self.steps, 1, True)

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`LatentMethod`; raise ValueError where the loss has no auxiliary variables."""
        criterion = energy.criterion
        if not isinstance(criterion, OneVersusRest) or not criterion.loss.augmented:
            raise ValueError(
                "method: alternating updates need the augmentation bound, one class against the rest; use bd.LBFGS() "
                'for the softmax and the other bounds, or set bound="augmentation".'
            )
        here, before = start, energy.value_and_gradient(start)[0]
        trace.status = Status.MAX_ITERATIONS
        for _ in range(self.max_iter if steps is None else min(steps, self.max_iter)):
            here = here._replace(output=output_update(energy, criterion, here))

            def function(flat: Array, now: Parameters = here) -> tuple[float, Array]:
                value, gradient = energy.value_and_gradient(now._replace(hidden=flat.reshape(now.hidden.shape)))
                return value, gradient.hidden.ravel()

            flat = _descend(function, here.hidden.ravel(), 0.0, self.steps, Trace())
            here = here._replace(hidden=flat.reshape(here.hidden.shape))
            value = energy.value_and_gradient(here)[0]
            trace.values.append(np.array([value]))
            trace.iterations += 1
            if before - value <= self.tol * abs(value):
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
    left, right = np.tile(np.diag(penalty), (problems, 1, 1)), np.zeros((problems, units))
    for block in energy.blocks:
        mean, cov = hidden_moments(energy.moments_of(block), parameters.hidden)
        hidden: Array = expit(mean)
        slope = hidden * (1 - hidden)
        extended = np.concatenate([hidden, np.full((len(hidden), 1), float(energy.fit_intercept))], axis=1)
        score = extended @ parameters.output
        bent = None if cov is None else slope[:, :, None] * cov * slope[:, None, :]
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
        Passes over the data.
    step_size : float
        First step of each weight, above 0.
    seed : int
        Order of the rows.

    Examples
    --------
    >>> Minibatch(500, epochs=5)
    Minibatch(batch_size=500, epochs=5, step_size=0.02, seed=0)
    """

    batch_size: int = 500
    epochs: int = 20
    step_size: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        _check("batch_size", self.batch_size, 1, True)
        _check("epochs", self.epochs, 1, True)
        _check("step_size", self.step_size, 1e-12, False)

    def minimise(self, energy: LatentEnergy, start: Parameters, trace: Trace, steps: int | None = None) -> Parameters:
        """See :class:`LatentMethod`; a step is an epoch, and its value is the mean over its batches."""
        generator = np.random.default_rng(self.seed)
        epochs = self.epochs if steps is None else min(steps, self.epochs)
        sizes = [len(block.weight) for block in energy.blocks]
        n = sum(sizes)
        turns = epochs * sum(-(-size // self.batch_size) for size in sizes)
        flat, done = start.flatten(), 0
        first, second = np.zeros_like(flat), np.zeros_like(flat)
        for _ in range(epochs):
            total = 0.0
            for block in (energy.blocks[b] for b in generator.permutation(len(sizes))):
                order = generator.permutation(len(block.weight))
                for begin in range(0, len(order), self.batch_size):
                    rows = order[begin : begin + self.batch_size]
                    here = start.like(flat)
                    value, gradient = energy.of_block(block.take(rows, n / len(rows)), here)
                    penalty, slope = energy.prior(here)
                    total += (value + penalty) * len(rows) / n
                    pull = energy.tied(Parameters(gradient.hidden + slope.hidden, gradient.output + slope.output))
                    done += 1
                    first = 0.9 * first + 0.1 * pull.flatten()
                    second = 0.999 * second + 0.001 * pull.flatten() ** 2
                    rate = self.step_size * (1 - done / turns) / (1 - 0.9**done)
                    flat = flat - rate * first / (np.sqrt(second / (1 - 0.999**done)) + 1e-12)
            trace.values.append(np.array([total]))
            trace.iterations += 1
        trace.status = Status.CONVERGED
        return start.like(flat)
