r"""Interior-point method for piecewise-linear losses without noise, if a Gram matrix of columns or rows is cheap.

The dual of :mod:`.dual_problem` is a quadratic programme in a box. At its optimum, with multipliers ``x, z >= 0``,

    Pw = Mᵀβ,    Σβ = 0,    t − s + x − z = 0,    (β − l)x = 0,    (u − β)z = 0,        s = Mw + b.

The products equal a common ``μ > 0`` instead, which falls to zero. A Newton step for all five equations is a weighted
least squares problem in ``w`` and ``b``,

    (diag(P, 0) + M̃ᵀDM̃) d = M̃ᵀβ − (Pw, 0) + M̃ᵀDq,        D = 1/(x/(β − l) + z/(u − β)),        M̃ = [M, 1],

with ``q`` from ``x``, ``z`` and ``μ``, as for the support vector machines of Ferris & Munson (2002). It takes twenty to
thirty steps for any ``C``, without smoothing, and ends by the bound of :class:`.dual_problem.DualProblem`.
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
    """Lengths and number of the steps, and when they end.

    Attributes
    ----------
    steps : int
        Maximum number of steps.
    columns : int
        Maximum number of columns for a Gram matrix (8 MB) whenever there are at least as many rows.
    checks : int
        Maximum number of evaluations of the gap: rounding, which grows as ``μ`` falls, may keep it above the goal.
    centring : float
        Share of the current ``μ`` that a step aims at.
    aim : float
        Minimum ``μ`` that a step aims at, as a share of the final ``μ``.
    closer : float
        Share of the tolerance at which steps end. The error of the weights is of the size of the root of the gap, and
        the last steps reduce it at least tenfold each; one more step makes the weights independent of the storage.
    way : float
        Length of a step, as a share of the distance to the nearest end or zero multiplier.
    stuck : float
        Minimum length of a step; a shorter one is due to rounding.
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
        """The point with all products ``μ``, for scores ``slack`` below the kinks and intervals of length ``size``."""
        # The smaller multiplier, ``large − distance``, would cancel: divide μ by the distance from its end instead.
        distance = np.abs(slack)
        large = (2 * mu + size * distance + np.sqrt((size * distance) ** 2 + 4 * mu * mu)) / (2 * size)
        small = mu * large / (size * large - mu)
        low_price, high_price = np.where(slack > 0, small, large), np.where(slack > 0, large, small)
        return cls(mu / low_price, mu / high_price, low_price, high_price)

    def mean_product(self) -> float:
        """``μ``, the mean of the products."""
        total = np.vdot(self.below, self.low_price) + np.vdot(self.above, self.high_price)
        return float(total) / (2 * self.below.size)

    def moved(self, length: float, change: Rows, low: Rows, high: Rows) -> _Point:
        """The point after a step; ``low`` and ``high`` are relative changes of the multipliers."""
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
        None with noise, with both many columns and many rows, and for rows outside this process.
    """
    if not has_steps(energy):
        return None
    K = weights.shape[1]
    return joined(_solve(DualProblem.of(energy, k), float(weights[-1, k]), tol) for k in range(K))


def has_steps(energy: Energy) -> bool:
    """Whether the method applies: no noise, rows in this process, and few columns or few rows."""
    has_rows = energy.has_all_rows and not energy.moments.has_variance
    return has_rows and (_by_gram(energy.moments.design) or energy.moments.design.prefers_outer_gram)


def _by_gram(design: Design) -> bool:
    """Whether a step factorises a Gram matrix of the columns, even if it has more entries than the sparse rows."""
    n, p = design.shape
    return design.prefers_gram or p <= min(n, RULES.columns)


def _step(task: DualProblem, point: _Point, residual: Vector, aim: float) -> tuple[Vector, Vector, tuple[Rows, ...]]:
    """Newton step to ``μ = aim``: of weights and intercept, of scores, of ``β``, and relative steps of the multipliers.

    ``residual`` (p + 1,) holds ``Mᵀβ − Pw`` and ``Σβ``.
    """
    per_below, per_above = 1 / point.below, 1 / point.above
    elastic = 1 / (point.low_price * per_below + point.high_price * per_above)
    low, high = aim * per_below, aim * per_above
    # For rows on a kink this difference is accurate; that of the kink and the score would cancel.
    pull = (point.high_price - high) - (point.low_price - low)
    drawn, omega, diagonal = (elastic * pull).sum(axis=0), elastic.sum(axis=0), np.append(task.precision, 0.0)
    right = residual + np.append(task.design.rmatvec(drawn), drawn.sum() if task.has_intercept else 0.0)
    if _by_gram(task.design):
        step = solved(column_factor(task.design, omega, diagonal, task.has_intercept), right)
    else:
        step = row_inverse(task.design, omega, diagonal, task.has_intercept)(right)
    score = task.design.matvec(step[:-1]) + step[-1]
    change = elastic * (pull - score)
    below, above = change * per_below, change * per_above
    return step, score, (change, low / point.low_price - 1 - below, high / point.high_price - 1 + above, below, above)


def _length(parts: tuple[Rows, ...]) -> float:
    """Largest step length, at most 1, at which all distances and multipliers are at least zero."""
    _, low, high, below, above = parts
    return 1 / max(1.0, *(-float(part.min()) for part in (low, high, below)), float(above.max()))


def _feasible(task: DualProblem, point: _Point, beta: Rows) -> Float[np.ndarray, "n kinks"]:
    """Change ``β`` of rows near their kinks so that ``Σβ = 0``, which hardly lowers the bound."""
    if not task.has_intercept:
        return beta.T
    give = 1 / (point.low_price / point.below + point.high_price / point.above)
    beta = beta - float(beta.sum()) / float(give.sum()) * give
    return task.feasible(np.clip(beta.T, task.low, task.high))


def _residual(task: DualProblem, weights: Vector, beta: Rows) -> Vector:
    """``Mᵀβ − Pw`` and ``Σβ``, (p + 1,), which are zero at the optimum."""
    back = task.design.rmatvec(beta.sum(axis=0)) - task.precision * weights[:-1]
    return np.append(back, float(beta.sum()) if task.has_intercept else 0.0)


def _solve(task: DualProblem, intercept: float, tol: float) -> Dual | None:
    """Solve one problem; None if its energy, with which the gap is compared, is nearly zero."""
    has_weight = np.any(task.high > task.low, axis=1)
    if not np.all(has_weight):
        dual = _solve(task.of_rows(has_weight), intercept, tol)
        return dual and dual.among(has_weight)
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
    residual, checks = _residual(task, weights, start + point.below), 0
    for _ in range(RULES.steps):
        mu = point.mean_product()
        value = task.energy(weights[:-1], slack.T)
        if value < smallest:
            best, smallest = weights, value
        # To first order the gap is the sum of the products, once the residuals are zero.
        enough = RULES.closer * tol * smallest / (2 * slack.size)
        if mu <= enough:
            beta = start + point.below
            residual = _residual(task, weights, beta)
            floor = max(floor, task.bound(_feasible(task, point, beta)))
            pull = beta.sum(axis=0)
            checks += 1
            if smallest - floor <= tol * smallest or checks == RULES.checks:
                break
        step, along, parts = _step(task, point, residual, max(RULES.centring * mu, RULES.aim * enough))
        length = min(1.0, RULES.way * _length(parts))
        if length < RULES.stuck:
            break
        weights, score = weights + length * step, score + length * along
        slack, point = centre - score, point.moved(length, *parts[:3])
        residual = (1 - length) * residual
    if smallest < NO_RESIDUAL * first:
        return None
    if not np.isfinite(floor):
        beta = start + point.below
        floor, pull = task.bound(_feasible(task, point, beta)), beta.sum(axis=0)
    best = np.append(best[:-1] / task.gain, best[-1])
    return Dual(best[:, None], np.array([max(smallest - floor, 0.0)]), pull[:, None])
