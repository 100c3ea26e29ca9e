"""Update of the rates by the signs of the weights, during a fit (Zhuo, Zhu & Zhang 2015, eqs 15 to 22).

The rates depend on the weights through signs alone, most of which the first step gets right, so that they follow every
step. What a late flip of a tiny weight does to the energy is below the tolerance soon, which is where a loose fit ends;
once the signs stand it is one convex solve.

Learning the dropout rates: the closed-form update of Zhuo, Zhu & Zhang (2015).

With ``n_d = Σ s_i 1(x_id ≠ 0)`` and ``n⁻_d = Σ s_i 1(y_i w_d x_id < 0)``, summed over the features of a free rate,

    η̂ = (n⁻ + μ m)/(n + m)         (eqs 15, 17 and 22)

the mode of ``Beta(A + n⁻, B + n − n⁻)`` under the prior ``Beta(A, B)``. This law is also the plug-in posterior. Given
the sign of ``w_d`` the counts do not depend on ``w``: they are taken once, and an update costs O(p).

A count has no sign, but supports a higher score as often as it counts and a lower one as often as it might have
counted more (:meth:`bayesdrop.losses.Loss.votes`): ``y`` and ``N − y`` of a binomial count, which is ``N`` rows of two
classes; ``y`` and ``r`` of a negative binomial one, whose likelihood is that of ``y`` successes and ``r`` failures; and
``y`` and 1 of a Poisson count, its limit. As with one class against the rest, the second are weighed by the ratio of
the sums (Zhuo et al., section 4.3), which makes the unit of ``r`` and of 1 immaterial. An offset of the scores is no
feature and changes no sign; a Poisson count with the offset ``log e`` is that of ``e`` rows, which support a lower
score ``e`` times.

A weight of zero has no sign. As printed, (15) then counts nothing against the feature and gives it the rate 0, of all
features the one that is of no use; here half of its occurrences count each way, which under a flat prior is the rate ½.
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
    """The rates of ``K`` problems, or of one with many classes, and the energy at them; both follow the weights.

    Attributes
    ----------
    learner : RateLearner
        Rates by the counts of signs.
    energy_at : callable
        The energy at rates (p, K).
    energy : Energy or SoftmaxEnergy
        Energy at the current rates.
    """

    learner: RateLearner
    energy_at: Callable[[FeatureBlock], Any]
    energy: Any

    def follow(
        self, weights: WeightBlock, converged: Bool[np.ndarray, " K"], value: ProblemVector
    ) -> Bool[np.ndarray, " K"]:
        """Bring the rates up to date with the weights (p + 1, K), and say of which problems they have changed, (K,).

        A sign that keeps changing where the weights are ``converged`` (K,) is undecided before long; ``value`` (K,) are
        the energies, which tell a weight that is zero but for round-off.
        """
        precision = self.energy.precision[:-1]
        smallest_weights = least_weights(weights[:-1], value, precision, lambda: self._squares)
        moved = self.learner.observe(weights[:-1], converged, smallest_weights)
        # Where every weight is zero no sign ever changes, and the rates have yet to follow their prior.
        if not np.any(self.learner.signs) and not self._is_up_to_date():
            moved = np.ones_like(moved)
        if np.any(moved):
            self.energy = self.energy_at(self.learner.rate_map.expand(self.learner.rates()))
        return moved

    @cached_property
    def _squares(self) -> FeatureBlock:
        """``(X²)ᵀc``, which is the same at all rates."""
        return np.asarray(self.energy.squares())

    def _is_up_to_date(self) -> bool:
        return np.array_equal(self.energy.moments.rate, self.learner.rate_map.expand(self.learner.rates()))


@dataclass(frozen=True)
class LearningRules:
    """When rates that follow the weights are settled.

    Attributes
    ----------
    modest : float
        Accuracy of the weights at which a sign that keeps changing begins to count as undecided.
    little : float
        Share of the tolerance of a loose fit by which an update of the rates may change the energy at its end.
    flips : int
        Maximum number of changes of a sign that is decided.
    largest : float
        Largest rate: a rate of exactly 1 would remove the feature for good, sign and all.
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
    """Alternate steps of the weights with updates of the rates until the signs of the weights stand.

    Weights that are far from the optimum after a step make signs, and rates, go back and forth. Where a few steps are
    not enough, as for many classes, ``every_step=False`` minimises to a modest accuracy between updates, and to a
    tenth of it once the energy changes no more.

    Parameters
    ----------
    learning : Learning
        Where the rates are; it follows.
    state : SolverState
        Where the weights are.
    method : FitMethod
        Minimiser.
    trace : Trace
        Gets the objectives after every step.
    every_step : bool, default=True
        Whether rates follow after every step.

    Returns
    -------
    state : State
        Where the weights ended.
    status : Status
        How.
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
                # What changes sign at the end of a loose fit is too near zero to matter.
                done = reached & (np.abs(start.value - state.value) <= rules.little * method.tol * np.abs(state.value))
            state = replace(start, remaining=np.where(done, state.remaining, start.remaining))
        if np.all(done):
            trace.values[-1] = state.objective
            return state, trace.status
    return state, Status.RATES_UNSETTLED if np.all(converged) else Status.MAX_ITERATIONS


@dataclass(frozen=True)
class SignCounts:
    """Weighted counts of the signs of entries, of rows in the positive class and in the negative one.

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
        """Count what each response says for a higher and for a lower score, the ``votes`` of a loss, (n, K) each."""
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
        """Rates that follow from the counts; ``many`` says that the problems are one class against the rest."""
        K = self.total.shape[1]
        ratio = np.ones(K)
        if rate_map.class_ratio if rate_map.class_ratio is not None else many:
            positive, negative = self.total
            ratio = np.where(negative > 0, positive / np.where(negative > 0, negative, 1.0), 1.0)
        agree = self.above[:, :K] + ratio * self.below[:, K:]
        return RateLearner(rate_map, agree, self.below[:, :K] + ratio * self.above[:, K:])


@dataclass
class RateLearner:
    """Sign counts of a block of problems and the rates that follow from the weights.

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
        """Take the signs of ``weights`` (p, K); return which problems (K,) have a sign that changed.

        A weight of at most ``smallest_weights`` in size, (p, K) or (K,), is zero but for rounding, and so is its sign.
        Changes count towards ``undecided`` only in problems that are ``converged`` (K,), near their optimum.
        """
        signs = np.where(np.abs(weights) > smallest_weights, np.sign(weights), 0).astype(np.int8)
        # A feature that never occurs has no say; its weight is zero up to round-off.
        moved = (signs != self.signs) & (self.agree + self.against > 0)
        # The flip that makes an entry undecided changes its rate as well.
        decided = self.flips <= RULES.flips
        self.flips += moved & (self.signs != 0) & converged
        self.signs[:] = signs
        return np.asarray(np.any(moved & decided, axis=0))

    @property
    def undecided(self) -> Bool[np.ndarray, "p K"]:
        """Entries (p, K) whose sign flips at every update: their weight is zero for all that the data say."""
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
