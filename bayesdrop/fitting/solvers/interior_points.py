r"""Interior-point method for piecewise-linear losses without noise where a Gram matrix, of either side, is cheap.

The dual of :mod:`.dual_problem` is a quadratic programme in a box then. At its optimum, with multipliers ``x, z >= 0``,

    Pw = Mᵀβ,    Σβ = 0,    t − s + x − z = 0,    (β − l)x = 0,    (u − β)z = 0,        s = Mw + b.

The products are held at a common ``μ``, which falls to zero. A Newton step for all five is a weighted least squares
problem in ``w`` and ``b``,

    (diag(P, 0) + M̃ᵀDM̃) d = M̃ᵀβ − (Pw, 0) + M̃ᵀDq,        D = 1/(x/(β − l) + z/(u − β)),        M̃ = [M, 1],

with ``q`` from ``x``, ``z`` and ``μ``. Ferris & Munson (2002) have the same for support vector machines. Twenty to
thirty steps for any ``C``, and no smoothing; the end follows from the gap of :class:`.dual_problem.DualProblem`, which
is a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from ..._typing import Float
from ...designs import Design
from ...linalg.systems import solved
from ..objective.energy import Energy, WeightBlock
from .dual_problem import LEAST, NO_RESIDUAL, Dual, DualProblem, joined
from .preconditioners import column_factor, row_inverse

__all__ = ["RULES", "InteriorRules", "has_steps", "solve_interior"]

Rows: TypeAlias = Float[np.ndarray, "kinks n"]
Vector: TypeAlias = Float[np.ndarray, " _"]


@dataclass(frozen=True)
class InteriorRules:
    """How interior points go on, and when they end.

    Attributes
    ----------
    steps : int
        At most.
    columns : int
        Whose Gram matrix is affordable wherever there are as many rows: 8 MB.
    checks : int
        Gaps that are looked at: rounding, which grows as ``μ`` falls, may leave more than is wanted.
    centring : float
        Share of the current ``μ`` that a step aims at.
    aim : float
        Share of the wanted ``μ`` below which none is aimed at.
    closer : float
        Share of the tolerance that is wanted: weights are off by the root of the gap, and one more step, the last of
        which leave a tenth or less each, makes them the same whichever way the rows are written.
    way : float
        Share of the way to the nearest wall that a step goes.
    stuck : float
        A step that is shorter has met the limits of double precision.
    """

    steps: int = 60
    columns: int = 1000
    checks: int = 5
    centring: float = 0.15
    aim: float = 0.2
    closer: float = 0.01
    way: float = 0.995
    stuck: float = 1e-6


RULES = InteriorRules()


class _Point(NamedTuple):
    """Distances ``β − l`` and ``u − β`` from the ends, and the multipliers ``x`` and ``z``; (kinks, n) each."""

    below: Rows
    above: Rows
    low_price: Rows
    high_price: Rows

    @classmethod
    def centred(cls, slack: Rows, size: Rows, mu: float) -> _Point:
        """The point of products ``μ`` at scores that are ``slack`` short of the kinks, in intervals of a ``size``."""
        # The multiplier of the end that the row is drawn to is μ over its distance, which is small: no difference.
        distance = np.abs(slack)
        large = (2 * mu + size * distance + np.sqrt((size * distance) ** 2 + 4 * mu * mu)) / (2 * size)
        small = mu * large / (size * large - mu)
        low_price, high_price = np.where(slack > 0, small, large), np.where(slack > 0, large, small)
        return cls(mu / low_price, mu / high_price, low_price, high_price)

    def mean_product(self) -> float:
        """``μ``."""
        total = np.vdot(self.below, self.low_price) + np.vdot(self.above, self.high_price)
        return float(total) / (2 * self.below.size)

    def moved(self, length: float, change: Rows, low: Rows, high: Rows) -> _Point:
        """After a step of which the changes of the multipliers are relative."""
        return _Point(
            self.below + length * change,
            self.above - length * change,
            self.low_price * (1 + length * low),
            self.high_price * (1 + length * high),
        )


def solve_interior(energy: Energy, weights: WeightBlock, tol: float) -> Dual | None:
    """Minimise the energy of piecewise-linear losses without noise; see :func:`.choices.solve_dual`.

    Returns
    -------
    Dual or None
        None where it does not apply (noise, many columns and rows, rows elsewhere).
    """
    if not has_steps(energy):
        return None
    K = weights.shape[1]
    return joined(_solve(DualProblem.of(energy, k), float(weights[-1, k]), tol) for k in range(K))


def has_steps(energy: Energy) -> bool:
    """Whether it applies: rows in memory without noise, and few columns, or few rows."""
    has_rows = energy.has_all_rows and not energy.moments.has_variance
    return has_rows and (_by_gram(energy.moments.design) or energy.moments.design.prefers_outer_gram)


def _by_gram(design: Design) -> bool:
    """Whether a step is a factor of a Gram matrix of the columns, be the entries of the rows fewer than that has."""
    n, p = design.shape
    return design.prefers_gram or p <= min(n, RULES.columns)


def _step(task: DualProblem, point: _Point, short: Vector, aim: float) -> tuple[Vector, Vector, tuple[Rows, ...]]:
    """Step of weights and intercept, of the scores, of ``β``, and of the multipliers relative to these, to ``μ = aim``.

    ``short`` (p + 1,) are ``Mᵀβ − Pw`` and ``Σβ``.
    """
    per_below, per_above = 1 / point.below, 1 / point.above
    elastic = 1 / (point.low_price * per_below + point.high_price * per_above)
    low, high = aim * per_below, aim * per_above
    # Of rows on a kink both are small and accurate, as the difference of the kink and the score is not.
    pull = (point.high_price - high) - (point.low_price - low)
    drawn, omega, diagonal = (elastic * pull).sum(axis=0), elastic.sum(axis=0), np.append(task.precision, 0.0)
    right = short + np.append(task.design.rmatvec(drawn), drawn.sum() if task.has_intercept else 0.0)
    if _by_gram(task.design):
        step = solved(column_factor(task.design, omega, diagonal, task.has_intercept), right)
    else:
        step = row_inverse(task.design, omega, diagonal, task.has_intercept)(right)
    score = task.design.matvec(step[:-1]) + step[-1]
    change = elastic * (pull - score)
    below, above = change * per_below, change * per_above
    return step, score, (change, low / point.low_price - 1 - below, high / point.high_price - 1 + above, below, above)


def _length(parts: tuple[Rows, ...]) -> float:
    """How far a step can go until the first of the distances and multipliers is zero, at most 1."""
    _, low, high, below, above = parts
    return 1 / max(1.0, *(-float(part.min()) for part in (low, high, below)), float(above.max()))


def _feasible(task: DualProblem, point: _Point, beta: Rows) -> Float[np.ndarray, "n kinks"]:
    """A ``β`` that meets the constraint: rows near their kinks give way, at next to no cost."""
    if not task.has_intercept:
        return beta.T
    give = 1 / (point.low_price / point.below + point.high_price / point.above)
    beta = beta - float(beta.sum()) / float(give.sum()) * give
    return task.feasible(np.clip(beta.T, task.low, task.high))


def _lacking(task: DualProblem, weights: Vector, beta: Rows) -> Vector:
    """``Mᵀβ − Pw`` and ``Σβ``, which are zero at the optimum, (p + 1,)."""
    back = task.design.rmatvec(beta.sum(axis=0)) - task.precision * weights[:-1]
    return np.append(back, float(beta.sum()) if task.has_intercept else 0.0)


def _solve(task: DualProblem, intercept: float, tol: float) -> Dual | None:
    """One problem; None where no energy is left to hold the gap against."""
    weighed = np.any(task.high > task.low, axis=1)
    if not np.all(weighed):
        dual = _solve(task.of_rows(weighed), intercept, tol)
        return dual and dual.among(weighed)
    p = len(task.precision)
    centre, start, size = task.centre.T.copy(), task.low.T.copy(), (task.high - task.low).T.copy()
    weights, score = np.append(np.zeros(p), intercept), np.full(len(task.centre), intercept)
    slack = centre - score
    mu = float(np.mean(size * np.abs(slack)))
    if mu <= LEAST:
        return None
    first = task.energy(weights[:-1], slack.T)
    point = _Point.centred(slack, size, mu)
    best, smallest, floor = weights, np.inf, -np.inf
    pull = np.zeros_like(centre)
    short, checks = _lacking(task, weights, start + point.below), 0
    for _ in range(RULES.steps):
        mu = point.mean_product()
        value = task.energy(weights[:-1], slack.T)
        if value < smallest:
            best, smallest = weights, value
        # Products and what the constraints lack are all of the gap, but for terms of second order.
        enough = RULES.closer * tol * smallest / (2 * slack.size)
        if mu <= enough:
            beta = start + point.below
            short = _lacking(task, weights, beta)
            floor = max(floor, task.bound(_feasible(task, point, beta)))
            pull = beta.sum(axis=0)
            checks += 1
            if smallest - floor <= tol * smallest or checks == RULES.checks:
                break
        step, along, parts = _step(task, point, short, max(RULES.centring * mu, RULES.aim * enough))
        length = min(1.0, RULES.way * _length(parts))
        if length < RULES.stuck:
            break
        weights, score = weights + length * step, score + length * along
        slack, point = centre - score, point.moved(length, *parts[:3])
        short = (1 - length) * short
    if smallest < NO_RESIDUAL * first:
        return None
    if not np.isfinite(floor):
        beta = start + point.below
        floor, pull = task.bound(_feasible(task, point, beta)), beta.sum(axis=0)
    best = np.append(best[:-1] / task.gain, best[-1])
    return Dual(best[:, None], np.array([max(smallest - floor, 0.0)]), pull[:, None])
