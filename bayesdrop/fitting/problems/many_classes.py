r"""Fit many classes jointly (``bd.Softmax``), at fixed or learnt rates that the classes share.

**Learnt rates.** Given the scores, the augmentation of every class is a pseudo-observation ``κ_ik = y_ik − ½`` of its
score (:mod:`bayesdrop.losses.softmax`). A mask entry is part of the scores of all classes. Keeping the entry adds

    Σ_k κ_ik w_dk x_id = x_id (w_{d,y_i} − ½ Σ_k w_dk) = x_id w_{d,y_i}

to the exponent, for weights that sum to zero over the classes, as in a fit. So the rule of Zhuo, Zhu & Zhang
(2015, equations 15, 17 and 22) counts as contradictions every entry with ``x_id w_{d,y_i} < 0``,

    n⁻_d = Σ_i s_i 1(x_id w_{d,y_i} < 0),

for any number of classes. For two classes it is their rule, because ``w_{d,1} = −w_{d,0}`` and ``w_{d,y_i}`` has the
sign of ``y_i w_d``. The counts of signs by class are computed once, and an update costs O(pK).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._memory import check_memory
from ..._progress import waiting
from ..._typing import Bool, Float, Int, PerRow
from ...designs import Design
from ...designs.threads import one_blas_thread
from ...linalg.systems import double_range, refuse_overflow
from ...losses.softmax import expected_softmax, log_sum_exp
from ...model import Model
from ...moments import ScoreMoments
from ...rates import RateMap
from ..objective.energy import row_weights
from ..objective.softmax_energy import SoftmaxEnergy, centred
from ..solvers.driver import Trace, least_weights, minimise, status_at
from ..solvers.learning import Learning, RateLearner, learn
from ..solvers.softmax import SoftmaxNewton, start_without_noise
from .block import ProblemFit

__all__ = ["ClassRates", "class_chances", "fit_classes", "softmax_energy"]


@dataclass
class ClassRates(RateLearner):
    """Sign counts of all classes, and the shared rates given the signs of all weights.

    ``agree`` and ``against`` (p, K) are the weighted numbers of entries above and below zero in the rows of each class:
    an entry above zero agrees with a positive weight of the class. The counts are summed over the classes.
    """

    def observe(self, *seen: Any) -> Bool[np.ndarray, " 1"]:
        """Whether a sign has changed; see :meth:`.learning.RateLearner.observe`."""
        return np.any(super().observe(*seen), keepdims=True)

    def _total(self) -> Float[np.ndarray, "p 1"]:
        """Weighted number of the entries of each feature, of all classes."""
        return super()._total().sum(axis=1, keepdims=True)

    def _opposed(self) -> Float[np.ndarray, "p 1"]:
        """Weighted number of the entries that contradict the sign of their weight, of all classes."""
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


@double_range()
@waiting("fit", "step")
@one_blas_thread()
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
) -> ProblemFit:
    """Fit all classes jointly; free rates are updated in turn until the signs of the weights are constant.

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
        Relative tolerance of the energy, and maximum number of steps at fixed rates.
    start : (array (p + 1, K), array (p, 1)), optional
        Weights and rates of an earlier fit.
    unlabelled : (int, float), optional
        (m, w): the last m rows are unlabelled and have weight w each.
    """
    n, p = design.shape
    check_memory(
        f"y: a joint fit of {n_classes:,} classes takes at least",
        # Arrays of rows × classes (twice as many with noise), and weights, gradient, curvature and step.
        8 * n_classes * (5 * n * design.is_local + 4 * (p + 1)),
        'join rare classes, use fewer rows, or multiclass="one_vs_rest" of the estimators.',
    )
    label_weight, noisy = (part[:, 0] for part in row_weights(model, weight, unlabelled)[:2])

    def energy_at(rate: Float[np.ndarray, "p 1"]) -> SoftmaxEnergy:
        return softmax_energy(model, design, rate, code, n_classes, model.C * label_weight, noisy)

    learner: ClassRates | None = None
    rate = rate_map.initial[:, None]
    weights = np.zeros((p + 1, n_classes)) if start is None else start[0].copy()
    if rate_map.is_free:
        member = code[:, None] == np.arange(n_classes)
        learner = ClassRates(rate_map, *design.sign_sums(label_weight[:, None] * member))
        if np.any(weights):
            # Start with the rates for the signs of these weights, not the rates of the earlier fit.
            learner.observe(centred(weights)[:-1], np.zeros(n_classes, dtype=bool), np.zeros(n_classes))
            rate = rate_map.expand(learner.rates())

    method, trace, energy = SoftmaxNewton(tol, max_iter), Trace(), energy_at(rate)
    state = method.init(energy, start_without_noise(energy, weights, method))
    if learner is None:
        state, _ = minimise(method, energy, state, tol, max_iter, trace)
    else:
        learning = Learning(learner, energy_at, energy)
        state, trace.status = learn(learning, state, method, trace, every_step=False)
        energy = learning.energy
    refuse_overflow(weights=state.weights, energy=state.value)
    smallest_weights = least_weights(state.weights[:-1], state.value, energy.precision[:-1], energy.squares)
    smallest_weights = np.broadcast_to(smallest_weights, state.weights[:-1].shape)
    return ProblemFit(
        weights=centred(state.weights),
        rates=energy.moments.rate.copy(),
        posterior=None if learner is None else learner.posterior(),
        counts=None,
        occurrences=None if learner is None else learner.occurrences,
        trace=np.array(trace.values),
        # All classes have one energy: test all weights together.
        status=status_at(state.weights[:-1].reshape(-1, 1), smallest_weights.reshape(-1, 1), trace.status),
        iterations=trace.iterations,
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
    """Expected softmax of some rows of a design, (m, K), from the moments of their scores.

    Corrupted rows get no more noise. ``average`` maps means (n, K) and covariances (n, K, K) to probabilities; without
    variance the softmax is used.
    """
    noise, K = model.noise, weights.shape[1]
    chances, (number, place) = [], np.unique(rows, return_inverse=True)
    part: Any
    for where, part in design.parts(rows_at_once):
        part_rows = number[np.searchsorted(number, where.start) : np.searchsorted(number, where.stop)]
        row_design = part[part_rows - where.start]
        moments = ScoreMoments(row_design, noise, rates.reshape(len(rates), -1), model.fit_intercept)
        if corrupted_inputs or not moments.has_variance:
            plain = row_design.matvec(weights[:-1]) + weights[-1] if corrupted_inputs else moments.mean(weights)
            chances.append(log_sum_exp(plain)[1])
            continue
        n = row_design.shape[0]
        zeros = np.zeros(n)
        energy = SoftmaxEnergy(moments, "taylor", K, np.zeros(n, dtype=int), zeros, zeros, np.zeros((1, 1)))
        chances.append(average(moments.mean(weights), energy.covariance(weights)))
    return np.concatenate(chances)[place]
