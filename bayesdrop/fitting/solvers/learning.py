"""Learn the dropout rates during a fit from the signs of the weights (Zhuo, Zhu & Zhang 2015, eqs 15 to 22).

With ``n_d = Σ s_i 1(x_id ≠ 0)`` and ``n⁻_d = Σ s_i 1(y_i w_d x_id < 0)``, summed over the features of a free rate,

    η̂ = (n⁻ + μ m)/(n + m)         (eqs 15, 17 and 22)

the mode of ``Beta(A + n⁻, B + n − n⁻)`` under the prior ``Beta(A, B)``. This distribution is also the plug-in
posterior. Given the sign of ``w_d`` the counts do not depend on ``w``: they are computed once, and an update costs
O(p).

The first step gets most signs right, so the rates are updated after every step. A late change of the sign of a tiny
weight changes the energy by less than the tolerance, and a loose fit ends there. Once the signs are constant, the rest
is one convex problem.

A count as response has no sign. It has votes for a higher and for a lower score (:meth:`bayesdrop.losses.Loss.votes`):
``y`` and ``N − y`` for a binomial count, which is ``N`` rows of two classes; ``y`` and ``r`` for a negative binomial
count, whose likelihood is that of ``y`` successes and ``r`` failures; and ``y`` and 1 for a Poisson count, its limit.
As for one class against the rest, votes for a lower score are multiplied by the ratio of the sums (Zhuo et al., section
4.3), so that the scale of ``r`` and of 1 does not matter. An offset of the scores is not a feature and changes no sign;
a Poisson count with the offset ``log e`` counts as ``e`` rows, with ``e`` votes for a lower score.

A weight of zero has no sign. Equation 15 as printed then counts no occurrence against the feature and gives the rate 0
to a useless feature; here half of its occurrences count each way, which under a flat prior is the rate ½.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..._typing import Bool, Float, Int, PerRow
from ...designs import Design
from ...priors.rate_prior import BetaLaw
from ...rates import RateMap
from ..objective.energy import FeatureBlock, ProblemVector, WeightBlock
from .driver import LOOSE, FitMethod, Status, Trace, least_weights, minimise

__all__ = ["Learning", "RateLearner", "SignCounts", "learn"]


@dataclass
class Learning:
    """The rates of ``K`` problems, or of one with many classes, and the energy at these rates, updated by the weights.

    Attributes
    ----------
    learner : RateLearner
        Rates from the counts of signs.
    energy_at : callable
        Returns the energy at rates (p, K).
    energy : Energy or SoftmaxEnergy
        Energy at the current rates.
    """

    learner: RateLearner
    energy_at: Callable[[FeatureBlock], Any]
    energy: Any

    def follow(
        self, weights: WeightBlock, converged: Bool[np.ndarray, " K"], value: ProblemVector
    ) -> Bool[np.ndarray, " K"]:
        """Update the rates from the weights (p + 1, K), and return the mask of problems whose signs changed, (K,).

        Changes of a sign in problems that have ``converged`` (K,) count towards an undecided sign. The energies
        ``value`` (K,) determine which weights are zero up to rounding.
        """
        precision = self.energy.precision[:-1]
        smallest_weights = least_weights(weights[:-1], value, precision, lambda: self._squares)
        moved = self.learner.observe(weights[:-1], converged, smallest_weights)
        # If all weights are zero no sign changes, but the rates still need an update from their prior.
        if not np.any(self.learner.signs) and not self._is_up_to_date():
            moved = np.ones_like(moved)
        if np.any(moved):
            self.energy = self.energy_at(self.learner.rate_map.expand(self.learner.rates()))
        return moved

    @cached_property
    def _squares(self) -> FeatureBlock:
        """``(X²)ᵀc``, the same at all rates."""
        return np.asarray(self.energy.squares())

    def _is_up_to_date(self) -> bool:
        return np.array_equal(self.energy.moments.rate, self.learner.rate_map.expand(self.learner.rates()))


@dataclass(frozen=True)
class LearningRules:
    """When learnt rates have converged.

    Attributes
    ----------
    modest : float
        Relative suboptimality below which changes of a sign are counted.
    little : float
        Maximum change of the energy by the last update of the rates in a loose fit, as a share of the tolerance.
    flips : int
        Maximum number of changes of a sign before it counts as undecided.
    largest : float
        Largest rate; a rate of 1 would remove the feature permanently, with its sign.
    """

    modest: float = 1e-3
    little: float = 0.25
    flips: int = 4
    largest: float = 1 - 1e-6


RULES = LearningRules()


def learn(
    learning: Learning,
    state: Any,
    method: FitMethod[Any, Any],
    trace: Trace,
    every_step: bool = True,
    rules: LearningRules = RULES,
) -> tuple[Any, Status]:
    """Alternate steps of the weights with updates of the rates until the signs of the weights are constant.

    If the weights are far from the optimum after a step, signs and rates oscillate. With ``every_step=False``, for many
    classes, the weights are minimised to a modest accuracy between updates, and to a tenth of it once the energy no
    longer changes.

    Parameters
    ----------
    learning : Learning
        Rates and energy, updated in place.
    state : SolverState
        State to start from.
    method : FitMethod
        Minimiser.
    trace : Trace
        Receives the objectives after every step.
    every_step : bool, default=True
        Whether to update the rates after every step.

    Returns
    -------
    state : State
        Final state.
    status : Status
        How the fit ended.
    """
    converged = done = np.zeros(len(state.value), dtype=bool)
    tol, steps = (method.tol, 1) if every_step else (max(method.tol, rules.modest), method.max_iter)
    before: Any = np.inf
    for _ in range(method.max_iter):
        state, reached = minimise(method, learning.energy, state, tol, steps, trace, done)
        converged = state.remaining <= rules.modest * np.abs(state.value)
        moved = learning.follow(state.weights, converged, state.value)
        is_last = tol <= method.tol
        if not is_last:
            is_steady = np.all(np.abs(state.value - before) <= rules.little * tol * np.abs(state.value))
            tol = max(method.tol, tol / 10 if is_steady and np.any(moved) else tol * np.any(moved))
            before = state.value
        done = reached & ~moved & is_last
        if np.any(moved):
            start = method.init(learning.energy, state.weights, state)
            if is_last and method.tol >= LOOSE:
                # Weights that change sign at the end of a loose fit are too small to matter.
                done = reached & (np.abs(start.value - state.value) <= rules.little * method.tol * np.abs(state.value))
            state = replace(start, remaining=np.where(done, state.remaining, start.remaining))
        if np.all(done):
            trace.values[-1] = state.objective
            return state, trace.status
    return state, Status.RATES_UNSETTLED if np.all(converged) else Status.MAX_ITERATIONS


@dataclass(frozen=True)
class SignCounts:
    """Weighted counts of the signs of entries, in rows of the positive and of the negative class.

    Attributes
    ----------
    above, below : array (p, 2K)
        Entries above and below zero; positive rows of the K problems, then negative ones.
    total : array (2, K)
        Weight of the positive and of the negative rows.
    """

    above: Float[np.ndarray, "p both_signs_of_K"]
    below: Float[np.ndarray, "p both_signs_of_K"]
    total: Float[np.ndarray, "2 K"]

    @classmethod
    def of_votes(cls, design: Design, votes: tuple[PerRow, PerRow], weight: PerRow) -> SignCounts:
        """Count signs with the ``votes`` of each response for a higher and for a lower score, (n, K) each."""
        positive, negative = weight * votes[0], weight * votes[1]
        above, below = design.sign_sums(np.concatenate([positive, negative], axis=1))
        return cls(above, below, np.stack([design.total(positive), design.total(negative)]))

    def plus(self, other: SignCounts, share: float = 1.0) -> SignCounts:
        """Add the counts of more rows; ``share`` scales the sum."""
        parts = zip((self.above, self.below, self.total), (other.above, other.below, other.total), strict=True)
        return SignCounts(*(share * (a + b) for a, b in parts))

    def joined(self, others: Sequence[SignCounts]) -> SignCounts:
        """Counts of these problems followed by those of ``others``."""
        parts = (self, *others)

        def both(blocks: Sequence[Float[np.ndarray, "p _"]]) -> Float[np.ndarray, "p _"]:
            halves = [np.split(block, 2, axis=1) for block in blocks]
            return np.concatenate([half[k] for k in (0, 1) for half in halves], axis=1)

        total = np.concatenate([part.total for part in parts], axis=1)
        return SignCounts(both([part.above for part in parts]), both([part.below for part in parts]), total)

    def learner(self, rate_map: RateMap, many: bool) -> RateLearner:
        """Learner of rates from the counts; ``many`` if each problem is one class against the rest."""
        K = self.total.shape[1]
        ratio = np.ones(K)
        if rate_map.class_ratio if rate_map.class_ratio is not None else many:
            positive, negative = self.total
            ratio = np.where(negative > 0, positive / np.where(negative > 0, negative, 1.0), 1.0)
        agree = self.above[:, :K] + ratio * self.below[:, K:]
        return RateLearner(rate_map, agree, self.below[:, :K] + ratio * self.above[:, K:])


@dataclass
class RateLearner:
    """Sign counts of K problems, and their rates given the signs of the weights.

    Attributes
    ----------
    rate_map : RateMap
        Features mapped to free rates.
    agree, against : array (p, K)
        Weighted number of entries with ``y x > 0`` and with ``y x < 0``.
    """

    rate_map: RateMap
    agree: Float[np.ndarray, "p K"]
    against: Float[np.ndarray, "p K"]
    flips: Int[np.ndarray, "p K"] = field(init=False)
    signs: Int[np.ndarray, "p K"] = field(init=False)

    def __post_init__(self) -> None:
        self.flips = np.zeros(self.agree.shape, dtype=np.int16)
        self.signs = np.zeros(self.agree.shape, dtype=np.int8)

    @property
    def occurrences(self) -> Float[np.ndarray, "k K"]:
        """``n`` of each free rate, (k, K)."""
        return self.rate_map.collapse(self._total())

    def observe(
        self,
        weights: Float[np.ndarray, "p K"],
        converged: Bool[np.ndarray, " K"],
        smallest_weights: Float[np.ndarray, "... K"],
    ) -> Bool[np.ndarray, " K"]:
        """Store the signs of ``weights`` (p, K); return which problems (K,) have a sign that changed.

        A weight of size at most ``smallest_weights``, (p, K) or (K,), counts as zero, with the sign 0. Changes count
        towards ``undecided`` only in problems that have ``converged`` (K,).
        """
        signs = np.where(np.abs(weights) > smallest_weights, np.sign(weights), 0).astype(np.int8)
        # Ignore features that never occur; their weights are zero up to rounding.
        moved = (signs != self.signs) & (self.agree + self.against > 0)
        # The flip that makes an entry undecided changes its rate as well.
        decided = self.flips <= RULES.flips
        self.flips += moved & (self.signs != 0) & converged
        self.signs[:] = signs
        return np.asarray(np.any(moved & decided, axis=0))

    @property
    def undecided(self) -> Bool[np.ndarray, "p K"]:
        """Weights (p, K) whose sign keeps changing, so that the data do not determine it."""
        return self.flips > RULES.flips

    def posterior(self) -> BetaLaw:
        """Plug-in posterior of the free rates, (k, K)."""
        return self._prior.given(self.rate_map.collapse(self._opposed()), self.occurrences)

    @cached_property
    def _prior(self) -> BetaLaw:
        return self.rate_map.prior.law(self.occurrences)

    def _total(self) -> Float[np.ndarray, "p _"]:
        """Weighted number of the entries of each feature."""
        return self.agree + self.against

    def _opposed(self) -> Float[np.ndarray, "p _"]:
        """Weighted number of the entries of each feature whose value contradicts the sign of its weight."""
        # An undecided sign counts half each way, so that the update has a fixed point; so does a weight of zero.
        halved = self.undecided | (self.signs == 0)
        return np.where(halved, 0.5 * (self.agree + self.against), np.where(self.signs > 0, self.against, self.agree))

    def rates(self) -> Float[np.ndarray, "k K"]:
        """Updated free rates, (k, K): the mode of the plug-in posterior."""
        return np.asarray(np.minimum(self.posterior().mode(), RULES.largest))
