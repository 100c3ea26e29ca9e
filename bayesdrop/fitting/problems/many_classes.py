r"""Joint point fit of many classes, at fixed or learnt rates, which the classes share.

**Learnt rates.** Given the scores, the augmentation of every class is a pseudo-observation ``κ_ik = y_ik − ½`` of its
score (:mod:`bayesdrop.losses.softmax`), and one mask entry is part of all of them. Keeping it adds

    Σ_k κ_ik w_dk x_id = x_id (w_{d,y_i} − ½ Σ_k w_dk) = x_id w_{d,y_i}

to their exponent, for weights that sum to zero over the classes as those of a fit do. So the rule of Zhuo, Zhu & Zhang
(2015, equations 15, 17 and 22) counts as contradictions every entry with ``x_id w_{d,y_i} < 0``,

    n⁻_d = Σ_i s_i 1(x_id w_{d,y_i} < 0),

for any number of classes. With two it is theirs: ``w_{d,1} = −w_{d,0}`` and the sign of ``w_{d,y_i}`` is that of
``y_i w_d``. The counts of signs by class are taken once, and an update costs O(pK).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..._memory import check_memory
from ..._progress import waiting
from ..._typing import Float, Int, PerRow
from ...designs import Design
from ...linalg.systems import refuse_overflow
from ...losses.softmax import expected_softmax, log_sum_exp
from ...model import Model
from ...moments import ScoreMoments
from ...rates import RateMap
from ..objective.energy import row_weights
from ..objective.softmax_energy import SoftmaxEnergy, centred
from ..solvers.driver import LOOSE, Status, least_weights, status_at
from ..solvers.learning import RateLearner
from ..solvers.softmax import SoftmaxState, fit_softmax
from .block import ProblemFit

__all__ = ["ClassRates", "class_chances", "fit_classes", "softmax_energy"]


@dataclass
class ClassRates(RateLearner):
    """Sign counts of all classes and the rates that follow from the weights of all of them.

    ``agree`` and ``against`` (p, K) are the weighted numbers of entries above and below zero in the rows of each class:
    one above zero agrees with a weight of its row's class that is. What classes count is added up: they share rates.
    """

    def _total(self) -> Float[np.ndarray, "p 1"]:
        """Weighted number of the entries of each feature, of all classes."""
        return super()._total().sum(axis=1, keepdims=True)

    def _opposed(self) -> Float[np.ndarray, "p 1"]:
        """Weighted number of those whose value contradicts the sign of their weight, of all classes."""
        return super()._opposed().sum(axis=1, keepdims=True)


def softmax_energy(
    model: Model,
    design: Design,
    rate: Float[np.ndarray, "p ..."],
    code: PerRow,
    n_classes: int,
    loss_weight: PerRow,
    noise_weight: PerRow,
) -> SoftmaxEnergy:
    """Energy of all classes at rates (p,) or (p, 1), for a model whose loss is a softmax."""
    loss: Any = model.loss
    rate = rate[:, None] if rate.ndim == 1 else rate
    model.noise.check(design.minimum())
    return SoftmaxEnergy(
        moments=ScoreMoments(design, model.noise, rate, model.fit_intercept),
        form=loss.expectation,
        n_classes=n_classes,
        code=code,
        loss_weight=loss_weight,
        noise_weight=noise_weight,
        precision=np.append(model.weight_prior.precision(design.shape[1]), 0.0)[:, None],
    )


@waiting("fit", "step")
def fit_classes(
    model: Model,
    design: Design,
    rate_map: RateMap,
    code: PerRow,
    weight: PerRow,
    n_classes: int,
    *,
    tol: float,
    max_iter: int,
    start: tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p 1"]] | None = None,
    unlabelled: tuple[int, float] | None = None,
    modest: float = 1e-3,
    most_updates: int = 100,
    little_share: float = 0.25,
) -> ProblemFit:
    """Fit all classes jointly, and with free rates alternate with their update until the signs of the weights stand.

    Parameters
    ----------
    model : Model
        Loss (a softmax), noise, priors and C.
    design : Design
        Checked matrix, n rows and p columns.
    rate_map : RateMap
        ``model.bind(feature_names)``.
    code, weight : array (n,)
        Class number and weight of each row.
    n_classes : int
        ``K``.
    tol, max_iter
        Relative tolerance of the energy, and most steps of a fit at fixed rates.
    start : (array (p + 1, K), array (p, 1)), optional
        Weights and rates of an earlier fit.
    unlabelled : (int, float), optional
        The last so many rows have no label and count by so much each.
    modest : float
        Accuracy of the weights from which on a sign that keeps changing counts as undecided.
    most_updates : int
        Of the rates.
    little_share : float
        Share of the tolerance that an update of the rates may change the energy by without a need for better weights.
    """
    n, p = design.shape
    check_memory(
        f"y: a joint fit of {n_classes:,} classes takes at least",
        # Numbers of each row and class, twice as many with noise; weights, gradient, curvature and a step.
        8 * n_classes * (5 * n * design.is_local + 4 * (p + 1)),
        'join rare classes, use fewer rows, or multiclass="one_vs_rest" of the estimators.',
    )
    known, noisy = (part[:, 0] for part in row_weights(model, weight, unlabelled)[:2])

    def energy_at(rate: Float[np.ndarray, "p 1"]) -> SoftmaxEnergy:
        return softmax_energy(model, design, rate, code, n_classes, model.C * known, noisy)

    learner: ClassRates | None = None
    rate = rate_map.initial[:, None]
    weights = np.zeros((p + 1, n_classes)) if start is None else start[0].copy()
    if rate_map.is_free:
        member = code[:, None] == np.arange(n_classes)
        learner = ClassRates(rate_map, *design.sign_sums(known[:, None] * member))
        if np.any(weights):
            # The rates that the signs of the weights to start from have, rather than those that they were fitted with.
            learner.observe(centred(weights)[:-1], np.zeros(n_classes, dtype=bool), np.zeros(n_classes))
            rate = rate_map.expand(learner.rates())

    energy = energy_at(rate)

    @cache
    def squares() -> Float[np.ndarray, "p 1"]:
        return np.asarray(design.sq_rmatvec(energy.loss_weight[:, None]))

    state: SoftmaxState | None
    if learner is None:
        state, trace = fit_softmax(energy, weights, tol, max_iter)
        weights, unsettled, values, steps = state.weights, False, trace.values, trace.iterations
    else:
        unsettled, values, steps, coarse, ended = True, [], 0, max(tol, modest), np.inf
        state = None
        for _ in range(most_updates):
            state, trace = fit_softmax(energy, weights, coarse, max_iter, state)
            weights = state.weights
            values, steps = values + trace.values, steps + trace.iterations
            before, ended = ended, float(trace.values[-1][0])
            seen = centred(weights)[:-1]
            least = least_weights(seen, np.full(n_classes, ended), energy.precision[:-1], squares)
            moved = bool(np.any(learner.observe(seen, np.ones(n_classes, dtype=bool), least)))
            new = rate_map.expand(learner.rates())
            stands = not moved and np.array_equal(new, rate)
            rate, energy = new, energy if stands else energy_at(new)
            little = little_share * coarse * abs(ended)
            steady = abs(ended - before) <= little
            if coarse > tol:
                # Where an update changes less than the weights are accurate to, signs would go on changing.
                coarse = tol if stands else max(tol, coarse / 10) if steady else coarse
                continue
            if not stands and steady and tol >= LOOSE:
                # What changes sign at the end of a loose fit is too near zero to matter.
                here = energy.begin(weights)[0]
                if stands := abs(here - ended) <= little:
                    values[-1] = np.array([here])
            if stands:
                unsettled = False
                break
    refuse_overflow(weights=weights, energy=values[-1])
    least = least_weights(weights[:-1], np.broadcast_to(values[-1], n_classes), energy.precision[:-1], squares)
    status = Status.RATES_UNSETTLED if unsettled and trace.status is Status.CONVERGED else trace.status
    return ProblemFit(
        weights=centred(weights),
        rates=rate.copy(),
        posterior=None if learner is None else learner.posterior(),
        counts=None,
        occurrences=None if learner is None else learner.occurrences,
        trace=np.array(values),
        # One energy of all classes, whose weights lie in one block.
        status=status_at(weights[:-1].reshape(-1, 1), least.reshape(-1, 1), status),
        iterations=steps,
        solver="softmax",
    )


def class_chances(
    model: Model,
    design: Design,
    weights: Float[np.ndarray, "q K"],
    rates: Float[np.ndarray, "p ..."],
    corrupted_inputs: bool,
    rows: Int[np.ndarray, " m"],
    rows_at_once: int = 2048,
    average: Callable[..., Float[np.ndarray, "n K"]] = expected_softmax,
) -> Float[np.ndarray, "m K"]:
    """Expected softmax of some rows of a design, (m, K), by the moments of their scores.

    Rows that come corrupted have no more noise. ``average`` takes means (n, K) and covariances (n, K, K); without a
    variance it is the softmax.
    """
    noise, K = model.noise, weights.shape[1]
    chances, (number, place) = [], np.unique(rows, return_inverse=True)
    part: Any
    for where, part in design.parts(rows_at_once):
        here = number[np.searchsorted(number, where.start) : np.searchsorted(number, where.stop)]
        some = part[here - where.start]
        moments = ScoreMoments(some, noise, rates.reshape(len(rates), -1), model.fit_intercept)
        if corrupted_inputs or not moments.has_variance:
            plain = some.matvec(weights[:-1]) + weights[-1] if corrupted_inputs else moments.mean(weights)
            chances.append(log_sum_exp(plain)[1])
            continue
        n = some.shape[0]
        nothing = np.zeros(n)
        energy = SoftmaxEnergy(moments, "taylor", K, np.zeros(n, dtype=int), nothing, nothing, np.zeros((1, 1)))
        chances.append(average(moments.mean(weights), energy.covariance(weights)))
    return np.concatenate(chances)[place]
