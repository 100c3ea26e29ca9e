"""Fit a model: one convex energy at fixed rates, and the rates learnt around it.

With free rates the weights are brought to modest accuracy, the rates follow from the signs of the weights, and so
on until the sign pattern stands still; from then on it is one convex solve (Zhuo, Zhu & Zhang 2015, algorithm 1).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..centring import settle, warn_of_counts
from ..data import prepare
from ..designs import Design, as_design
from ..model import Model
from ..moments import ScoreMoments
from ..rates import RateMap
from ..results import Fit, RatePosterior
from .adapt import RateLearner, SignCounts
from .descent import Descent, Point, Status, Trace, minimise
from .energy import Energy
from .newton import Newton

__all__ = ["BlockFit", "fit", "fit_block", "row_weights"]

Array = Any

# Accuracy of the weights from which on a sign that keeps changing counts as undecided.
_MODEST = 1e-3
# A weight is zero where its part ½w² of the penalty is below this share of the energy.
_ROUND_OFF = 1e-20


@dataclass(frozen=True)
class BlockFit:
    """Fit of ``K`` problems: weights (p + 1, K), rates (p, K), free rates and their posterior (k, K).

    Where rates are learnt ``one_signed`` (p,) tells which features are never zero and of one sign.
    """

    weights: Array
    rates: Array
    free_rates: Array
    posterior: tuple[Array, Array] | None
    occurrences: Array | None
    one_signed: Array | None
    trace: Array
    status: Status
    iterations: int


def fit_block(
    model: Model,
    design: Design,
    rate_map: RateMap,
    target: Array,
    weight: Array,
    method: Descent,
    start: tuple[Array, Array] | None = None,
    unlabelled: tuple[int, float] | None = None,
) -> BlockFit:
    """Fit ``K`` problems that share a matrix, as one block.

    Parameters
    ----------
    model : Model
        Loss, noise, priors and C.
    design : Design
        Checked matrix, n rows and p columns.
    rate_map : RateMap
        ``model.bind(feature_names)``.
    target : array (n, K)
        Labels as −1 and +1, or numbers.
    weight : array (n,)
        Row weights.
    method : Newton or EM
        Minimiser.
    start : (array (p + 1, K), array (k, K)), optional
        Weights and free rates of an earlier fit.
    unlabelled : (int, float), optional
        The last so many rows have no label and count by so much each (their ``weight`` and ``target`` are ignored).
    """
    p, K = design.shape[1], target.shape[1]
    model.noise.check(design.minimum())
    if rate_map.is_free and not model.loss.binary:
        raise ValueError(
            f"rates: the closed-form update counts how often a feature speaks against its weight, and a sign rule "
            f"needs two classes; {type(model.loss).__name__} has numbers. Give fixed rates, as in bd.Fixed(0.1), or "
            "draw the rates from their posterior with bd.sample."
        )
    if model.loss.variance_prior is not None:
        raise ValueError(
            f"loss: a point fit takes the noise variance as known, 1/C, and {model.loss!r} has a prior for it; leave "
            "out variance_prior and set C, or use bd.sample, which draws the variance."
        )
    precision = np.append(model.weight_prior.precision(p), 0.0)[:, None]
    weight, noisy, plain = row_weights(model, weight, unlabelled)
    rate = np.repeat(rate_map.initial[:, None], K, axis=1) if rate_map.is_free else rate_map.initial[:, None]
    weights = np.zeros((p + 1, K)) if start is None else start[0].copy()
    if start is not None and rate_map.is_free:
        rate = rate_map.expand(start[1])

    def energy_at(rate: Array) -> Energy:
        moments = ScoreMoments(design, model.noise, rate, model.fit_intercept)
        # Without variance all forms of a loss are one, and the plain form is the easiest to minimise.
        loss = model.loss if moments.has_variance else model.loss.plain
        return Energy(moments, loss, target, noisy, precision, plain)

    energy, trace = energy_at(rate), Trace()
    easier = energy.easier()
    if start is None and easier is not None:
        first = Point.start(easier, weights)
        minimise(method, easier, first, max(method.tol, _MODEST), method.max_iter, Trace())
        weights = first.weights
    point = Point.start(energy, weights)
    learner, status, theta, one_signed = None, None, np.empty((0, K)), None
    if rate_map.is_free:
        counts = SignCounts.take(design, target, weight[:, None])
        learner, one_signed = counts.learner(rate_map, many=K > 1), counts.one_signed()
        energy, status = _learn(learner, energy_at, energy, point, method, trace)
        theta = learner.rates()
    else:
        minimise(method, energy, point, method.tol, method.max_iter, trace)
    return BlockFit(
        weights=point.weights,
        rates=np.broadcast_to(energy.moments.rate, (p, K)),
        free_rates=theta,
        posterior=learner.posterior() if learner else None,
        occurrences=learner.occurrences if learner else None,
        one_signed=one_signed,
        trace=np.array(trace.values).reshape(-1, K),
        status=status or trace.status,
        iterations=trace.iterations,
    )


def row_weights(model: Model, weight: Array, unlabelled: tuple[int, float] | None) -> tuple[Array, Array, Array | None]:
    """Row weights of the labels (n,), of the noised loss and of the plain loss, (n, 1) each.

    Labelled rows contribute ``loss + ρR`` and rows without label ``ραR``, where ``R`` is what the noise adds to the
    loss and ``ρ = n/(n + αm)`` (Wager, Wang & Liang 2013, section 5).
    """
    if unlabelled is None:
        return weight, model.C * weight[:, None], None
    if not model.loss.separable:
        raise ValueError(
            f"unlabelled: what noise adds to {type(model.loss).__name__} depends on the label, so that rows without "
            "one say nothing; use the logistic loss."
        )
    count, share = unlabelled
    known = np.append(weight[:-count], np.zeros(count))
    total = known.sum()
    ratio = total / (total + share * count)
    free = np.append(np.zeros(len(weight) - count), np.full(count, share))
    noisy = model.C * ratio * (known + free)
    return known, noisy[:, None], (model.C * ((1 - ratio) * known - ratio * free))[:, None]


def _learn(
    learner: RateLearner,
    energy_at: Callable[[Array], Energy],
    energy: Energy,
    point: Point,
    method: Descent,
    trace: Trace,
) -> tuple[Energy, Status | None]:
    """Alternate steps of the weights with updates of the rates until the signs of the weights stand.

    The rates follow every step: they depend on the weights through signs alone, most of which the first step gets
    right. What a late flip of a tiny weight does to the energy is below the tolerance soon.
    """
    done = np.zeros(point.weights.shape[1], dtype=bool)
    for _ in range(method.max_iter):
        reached = minimise(method, energy, point, method.tol, 1, trace, done)
        settled = point.remaining <= _MODEST * np.abs(point.value)
        moved = learner.observe(point.weights[:-1], settled, np.sqrt(_ROUND_OFF * np.abs(point.value)))
        done = reached & ~moved
        if np.all(done):
            return energy, None
        if np.any(moved):
            energy = energy_at(learner.rate_map.expand(learner.rates()))
            point.refresh(energy)
    return energy, Status.RATES_UNSETTLED if np.all(settled) else Status.MAX_ITERATIONS


def fit(
    model: Model,
    X: Any,
    y: Any,
    *,
    method: Descent | None = None,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
) -> Fit:
    """Fit weights and dropout rates to a two-class problem or a regression.

    Parameters
    ----------
    model : Model
        What to fit.
    X : array, data frame, scipy sparse, Blocks or sharded jax.Array (n, p)
        Features. Sparse input is never made dense; :class:`bayesdrop.Blocks` are read when needed. A JAX array on
        several devices, or on one that is not a CPU, stays there. Where several processes hold its rows
        (``jax.distributed``), each calls this with the ``y`` and ``sample_weight`` of its own rows.
    y : sequence of n labels or numbers
        Two classes, any labels (the larger one is the positive class); numbers for a loss of regression.
    method : Newton or EM, optional
        ``bd.Newton()`` by default.
    sample_weight : array (n,), optional
        Row weights, >= 0.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.

    Returns
    -------
    Fit
        Weights, intercept, rates, their plug-in posterior, objective trace and status.

    Raises
    ------
    ValueError
        If the data, the labels or the groups do not fit, or blocks change while they are read; the message names the
        argument and what to do.

    Warns
    -----
    UnscaledWarning
        If noise or prior do not fit some columns, which it names, and the model cannot mend it.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> result = bd.fit(bd.Model(rates=bd.PerFeature(bd.Beta(1, 1))), X, y)
    >>> result.status.name, result.rates.shape
    ('CONVERGED', (5,))
    """
    method = Newton() if method is None else method
    data = prepare(X, y, sample_weight, feature_names, model.loss.binary, needs_memory=False).with_weight()
    rate_map = model.bind(data.feature_names)
    settled = settle(model, data.X, data.weight, rate_map, data.feature_names)
    block = fit_block(settled.model, as_design(settled.X), rate_map, data.target[:, None], data.weight, method)
    warn_of_counts(settled.X, block.one_signed, data.feature_names, model.fit_intercept)
    if block.status in (Status.MAX_ITERATIONS, Status.RATES_UNSETTLED):
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(block.status.value, ConvergenceWarning, stacklevel=2)
    posterior = None
    if block.posterior is not None and block.occurrences is not None:
        a, b = block.posterior
        posterior = RatePosterior(a[:, 0], b[:, 0], block.occurrences[:, 0], rate_map.names, rate_map.dim)
    weights = settled.outward(block.weights)
    return Fit(
        weight=weights[:-1, 0],
        intercept=float(weights[-1, 0]),
        rates=block.rates[:, 0].copy(),
        rate_posterior=posterior,
        objective_trace=block.trace[:, 0],
        status=block.status,
        n_iter=block.iterations,
        feature_names=data.feature_names,
        classes=data.classes,
        model=model,
        centre=settled.centre,
    )
