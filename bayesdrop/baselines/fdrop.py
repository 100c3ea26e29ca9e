r"""FDROP: a support vector machine that is robust to the worst deletion of K features.

    ½‖w‖² + C Σ_i max(0, 1 − y_i(wᵀx_i + b) + T_K(y_i w∘x_i))

with ``T_K(u)`` the sum of the ``K`` largest positive entries of ``u``: what an adversary gains by deleting ``K``
features of the row (Globerson & Roweis 2006, "Nightmare at test time: robust learning by feature deletion", sections 2
and 3). The loss is the maximum of hinge losses over all deletions, hence convex, and piecewise linear.

Both maxima are smoothed as Nesterov (2005) does, ``max(0, z) ≈ max_{0<=β<=1} βz − ½μβ²`` and
``T_K(u) ≈ max_q qᵀu − ½μ‖q‖²`` over ``0 <= q <= 1, Σq <= K``, so that the smoothed objective ``F_μ`` is convex,
differentiable and nowhere above ``F``. ``β`` and ``q`` at its minimiser are dual variables, and

    Σ_i β_i − ½‖Σ_i β_i y_i (1 − q_i)∘x_i‖²        0 <= β_i <= C, Σ_i β_i y_i = 0

bounds the minimum of ``F`` from below; ``μ`` shrinks until that gap is below the tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from .._typing import Float, Int
from .._validation import check_count
from ..designs import Design
from ..estimators.validation import set_parameters
from .one_vs_rest import OneVsRest

__all__ = ["FDROP", "WorstDeletion", "top_sum"]


@dataclass(frozen=True)
class Rules:
    """Rules of the smoothing and of the minimisation by L-BFGS-B.

    Attributes
    ----------
    first, shrink, last : float
        First smoothing, in units of the margin, its factor after each minimisation, and the smallest smoothing, below
        which double precision is exhausted.
    share : float
        Share of the tolerance that each minimisation may leave.
    evaluations, corrections : int
        Maximum number of evaluations per iteration, and number of corrections that L-BFGS-B keeps.
    """

    first: float = 0.1
    shrink: float = 0.2
    last: float = 1e-9
    share: float = 0.2
    evaluations: int = 20
    corrections: int = 30


RULES = Rules()


def top_sum(
    u: Float[np.ndarray, "m width"], k: int, smoothing: float
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, "m width"]]:
    """Smoothed sum of the ``k`` largest positive entries of each row, and its derivative.

    Parameters
    ----------
    u : array (m, p)
        Rows.
    k : int
        How many entries.
    smoothing : float
        ``μ >= 0`` of ``max_q qᵀu − ½μ‖q‖²`` over ``0 <= q <= 1, Σq <= k``; 0 is the sum itself.

    Returns
    -------
    array (m,)
        Values, below the sums by ``½μk`` at most.
    array (m, p)
        Maximisers ``q``.

    Examples
    --------
    >>> value, share = top_sum(np.array([[3.0, -1.0, 2.0]]), 1, 0.0)
    >>> value.tolist(), share.tolist()
    ([3.0], [[1.0, 0.0, 0.0]])
    """
    width = u.shape[1]
    if k == 0:
        return np.zeros(len(u)), np.zeros_like(u)
    if smoothing == 0:
        value = np.sort(u, axis=1)[:, width - min(k, width) :].clip(min=0.0).sum(axis=1)
        ranks = np.argsort(np.argsort(-u, axis=1, kind="stable"), axis=1)
        return value, ((ranks < k) & (u > 0)).astype(float)
    # The maximiser is q = clip((u − θ)/μ, 0, 1). Where the k-th and the next largest entry are μ apart, θ may lie
    # anywhere in between; only the others need a root.
    threshold = np.zeros(len(u))
    if k < width:
        order = np.partition(u, (width - k - 1, width - k), axis=1)
        inner, outer = np.maximum(order[:, width - k] - smoothing, 0.0), np.maximum(order[:, width - k - 1], 0.0)
        threshold = np.maximum(inner, outer)
        contested = inner < outer
        threshold[contested] = _thresholds(u[contested], k, smoothing)
    above = u - threshold[:, None]
    share = np.clip(above / smoothing, 0.0, 1.0)
    # The dual form kθ + Σ max_q (q(u − θ) − ½μq²) is stationary in θ, so that rounding of θ has no first-order effect.
    return k * threshold + np.sum(share * (above - 0.5 * smoothing * share), axis=1), share


def _thresholds(u: Float[np.ndarray, "m width"], k: int, smoothing: float) -> Float[np.ndarray, " m"]:
    """Solve ``Σ_d clip((u_d − θ)/μ, 0, 1) = k`` per row; 0 if the root is negative.

    The sum is piecewise linear in ``θ``: it falls from the width of ``u`` to zero, by one more ``1/μ`` beyond each
    ``u_d − μ`` and by one less beyond each ``u_d``. Sorted breakpoints give its values there, and the root.
    """
    m, width = u.shape
    points, turns = np.hstack([u - smoothing, u]), np.repeat([1, -1], width)
    order = np.argsort(points, axis=1)
    points, falling = np.take_along_axis(points, order, axis=1), np.cumsum(turns[order], axis=1)
    drops = np.cumsum(falling[:, :-1] * np.diff(points, axis=1), axis=1) / smoothing
    sums = width - np.hstack([np.zeros((m, 1)), drops])
    last = np.maximum(np.count_nonzero(sums >= k, axis=1) - 1, 0)[:, None]
    point, total, count = (np.take_along_axis(part, last, axis=1)[:, 0] for part in (points, sums, falling))
    return np.maximum(point + smoothing * np.maximum(total - k, 0.0) / np.maximum(count, 1), 0.0)


class _Rows(NamedTuple):
    """Rows of about the same number of entries: their numbers (m,), and columns and values (m, width)."""

    rows: Int[np.ndarray, " m"]
    columns: Int[np.ndarray, "m width"]
    values: Float[np.ndarray, "m width"]


def _padded(design: Design) -> Iterator[_Rows]:
    """Rows by length, padded with zeros to a power of two: at most twice the entries, whatever the lengths are."""
    for rows, columns, values in design.entries():
        numbers_, first, lengths = np.unique(rows, return_index=True, return_counts=True)
        widths = np.where(lengths == design.shape[1], lengths, 1 << np.ceil(np.log2(lengths)).astype(int))
        for width in np.unique(widths):
            chosen = widths == width
            position = np.arange(width)
            valid = position < lengths[chosen][:, None]
            index = np.where(valid, first[chosen][:, None] + position, 0)
            padded = np.where(valid, columns[index], 0), np.where(valid, values[index], 0.0)
            yield _Rows(numbers_[chosen], *padded)


class WorstDeletion:
    """Sum of the hinge losses under the worst deletion, of one two-class problem, smoothed or not.

    Parameters
    ----------
    design : Design
        Matrix with n rows and p columns.
    sign, weight : array (n,)
        Labels as −1 and +1, and row weights.
    n_deleted : int
        Number ``K`` of features that the adversary deletes from each row.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> total = WorstDeletion(as_design(np.array([[1.0, 2.0]])), np.ones(1), np.ones(1), 1)
    >>> total(np.array([0.1, 0.2, 0.0]), 0.0)[0]
    0.9
    """

    def __init__(
        self, design: Design, sign: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"], n_deleted: int
    ) -> None:
        self.shape, self.sign, self.weight, self.n_deleted = design.shape, sign, weight, n_deleted
        self._blocks = list(_padded(design))

    def __call__(self, weights: Float[np.ndarray, " q"], smoothing: float) -> tuple[float, Float[np.ndarray, " q"]]:
        """Value and gradient (p + 1,) at weights (p + 1,), the intercept last."""
        margin, gradient = self._evaluate(weights, smoothing, self.weight)
        value, slope = self._hinge(margin, smoothing)
        gradient[-1] = np.sum(self.weight * slope * self.sign)
        return float(self.weight @ value), gradient

    def lower_bound(self, weights: Float[np.ndarray, " q"], smoothing: float, C: float, fit_intercept: bool) -> float:
        """Bound from below of the minimum of ``½‖w‖² + C Σ s_i loss_i``, by the dual variables at ``weights``.

        For ``0 <= β_i <= C s_i`` with ``Σ β_i y_i = 0`` and any admissible shares ``q_i`` it is
        ``Σ β_i − ½‖Σ β_i y_i (1 − q_i)∘x_i‖²``. The slopes of the smoothed losses give ``β``, once the class that
        weighs more is scaled down to the other.
        """
        margin, _ = self._evaluate(weights, smoothing, self.weight)
        beta = -self.weight * self._hinge(margin, smoothing)[1]
        factor = np.ones_like(beta)
        if fit_intercept:
            positive, negative = beta[self.sign > 0].sum(), beta[self.sign < 0].sum()
            smaller = min(positive, negative)
            factor = np.where(self.sign > 0, _ratio(smaller, positive), _ratio(smaller, negative))
        _, pull = self._evaluate(weights, smoothing, factor * self.weight)
        return C * float(factor @ beta) - 0.5 * C**2 * float(pull[:-1] @ pull[:-1])

    def _evaluate(
        self, weights: Float[np.ndarray, " q"], smoothing: float, weight: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " q"]]:
        """Margins (n,) after the deletion, and the gradient in ``w`` of the losses that ``weight`` weighs."""
        p = self.shape[1]
        margin, gradient = self.sign * weights[-1], np.zeros(p + 1)
        for rows, columns, values in self._blocks:
            signed = self.sign[rows][:, None] * values
            u = signed * weights[columns]
            gain, share = top_sum(u, self.n_deleted, smoothing)
            margin[rows] += u.sum(axis=1) - gain
            pull = weight[rows] * self._hinge(margin[rows], smoothing)[1]
            parts = pull[:, None] * (1 - share) * signed
            gradient[:-1] += np.bincount(columns.ravel(), weights=parts.ravel(), minlength=p)
        return margin, gradient

    @staticmethod
    def _hinge(
        margin: Float[np.ndarray, " m"], smoothing: float
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Hinge loss of margins, smoothed by ``μ >= 0``, and its derivative."""
        short = 1 - margin
        beta = np.clip(short / smoothing, 0.0, 1.0) if smoothing > 0 else (short > 0).astype(float)
        return beta * (short - 0.5 * smoothing * beta), -beta


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


class FDROP(OneVsRest):
    """Linear support vector machine trained against the worst deletion of features.

    Minimises ``½‖w‖² + C Σ max(0, 1 − y(wᵀx + b) + sum of the K largest positive y w_d x_d)`` (Globerson & Roweis
    2006). At ``n_deleted=0`` it is the ordinary linear SVM. Nothing is deleted at prediction.

    Parameters
    ----------
    n_deleted : int, default=1
        Number ``K`` of features that may be deleted from each row, >= 0.
    C : float, default=1.0
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    fit_intercept : bool, default=True
        Add an intercept, which is neither deleted nor penalised.
    tol : float, default=1e-05
        Duality gap, relative to the objective, at which to stop. Iterations grow about as its inverse root; wide
        data, on which the adversary leaves most features tied, want 1e-3 or more.
    max_iter : int, default=20000
        Maximum number of iterations, over all degrees of smoothing.

    Attributes
    ----------
    coef_ : array (1, p) or (K, p)
        Weights; more than two classes are fitted one against the rest.
    intercept_ : array (1,) or (K,)
        Intercepts.
    classes_ : array (K,)
        Class labels.
    objective_ : array (1,) or (K,)
        Value of the minimised objective.
    n_iter_ : int
        Iterations, of the slowest class.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    bayesdrop.delete_features, bayesdrop.DropoutSVC

    References
    ----------
    Globerson & Roweis (2006), Nightmare at test time: robust learning by feature deletion, ICML.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> bool(FDROP(1, C=0.1).fit(X, y).score(X, y) > 0.8)
    True
    """

    n_deleted: int

    def __init__(
        self,
        n_deleted: int = 1,
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        tol: float = 1e-5,
        max_iter: int = 20_000,
    ) -> None:
        set_parameters(self, locals())

    def _solve(
        self, design: Design, sign: Float[np.ndarray, "n K"], weight: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "q K"], int, bool]:
        check_count(self.n_deleted, "n_deleted", 0)
        fits = [self._minimise(WorstDeletion(design, one, weight, self.n_deleted)) for one in sign.T]
        weights, values, iterations, converged = zip(*fits, strict=True)
        self.objective_ = np.array(values)
        return np.stack(weights, axis=1), max(iterations), all(converged)

    def _minimise(self, total: WorstDeletion) -> tuple[Float[np.ndarray, " q"], float, int, bool]:
        """Weights (p + 1,), objective, iterations and whether the tolerance is met."""
        weights = np.zeros(total.shape[1] + 1)
        best, best_value, bound = weights, self._penalised(*total(weights, 0.0), weights)[0], 0.0
        smoothing, left = RULES.first, self.max_iter
        while left > 0 and smoothing >= RULES.last:
            # The objective is 1-strongly convex in w, so that half the squared slope bounds its suboptimality. The
            # slope in the intercept enters the gap linearly, as the smoothing does, and shrinks with it.
            goal = min(np.sqrt(RULES.share * self.tol * best_value), smoothing * best_value) / np.sqrt(len(weights))
            options: Any = {
                "maxiter": left, "maxfun": RULES.evaluations * left, "maxcor": RULES.corrections, "gtol": goal,
                "ftol": 0.0,
            }  # fmt: skip

            def objective(weights: Float[np.ndarray, " q"], smoothing: float = smoothing) -> Any:
                return self._penalised(*total(weights, smoothing), weights)

            result = minimize(objective, weights, jac=True, method="L-BFGS-B", options=options)
            weights, left = result.x, left - max(int(result.nit), 1)
            value = self._penalised(*total(weights, 0.0), weights)[0]
            if value < best_value:
                best, best_value = weights, value
            bound = max(bound, total.lower_bound(weights, smoothing, self.C, self.fit_intercept))
            if best_value - bound <= self.tol * best_value:
                return best, best_value, self.max_iter - left, True
            smoothing *= RULES.shrink
        return best, best_value, self.max_iter - left, False
