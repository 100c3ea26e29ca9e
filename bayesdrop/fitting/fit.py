"""Fit a model: one convex energy at fixed rates, and the rates learnt around it.

With free rates the weights are brought to modest accuracy, the rates follow from the signs of the weights, and so
on until the sign pattern stands still; from then on it is one convex solve (Zhuo, Zhu & Zhang 2015, eqs 15 to 22).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Bool, Float, Num, PerRow
from ..data.counts import check_responses
from ..data.dataset import Dataset, as_dataset
from ..designs import Design, as_design
from ..model import Model, check_model
from ..priors.rate_prior import UpdatedRateLaw, map_arrays
from ..rates import RateMap
from ..warnings import warn
from .auxiliary import Auxiliary, auxiliary_at, first_problem
from .centring import Settled, settle, warn_of_counts
from .driver import ROUND_OFF, Status, Trace, minimise, status_at
from .energy import Energy
from .exponential_moments import moments_for
from .many_classes import ClassFit, fit_dataset
from .newton import Newton
from .overflow import double_range, refuse_overflow
from .protocols import FitMethod, check_minimiser
from .rate_update import RateLearner, SignCounts
from .result import Fit, RatePosterior
from .row_weights import row_weights
from .shapes import FeatureBlock, WeightBlock
from .state import SolverState

__all__ = ["BlockFit", "fit", "fit_block"]

# Accuracy of the weights from which on a sign that keeps changing counts as undecided.
_MODEST = 1e-3


@dataclass(frozen=True)
class BlockFit:
    """Fit of ``K`` problems: weights (p + 1, K), rates (p, K), the posterior of the free rates (k, K) and the counts
    of signs that it follows from; None where no rate is free. The auxiliary variables are those of the rows.
    """

    weights: WeightBlock
    rates: FeatureBlock
    posterior: UpdatedRateLaw | None
    counts: SignCounts | None
    occurrences: Num[np.ndarray, "k K"] | None
    trace: Float[np.ndarray, "iterations K"]
    status: Status
    iterations: int
    auxiliary: Auxiliary | None = None

    @property
    def one_signed(self) -> Bool[np.ndarray, " p"] | None:
        """Which features are never zero and of one sign, (p,) bool; None where no rate is free."""
        return None if self.counts is None else self.counts.one_signed()


@double_range()
def fit_block(
    model: Model,
    design: Design,
    rate_map: RateMap,
    target: PerRow,
    weight: PerRow,
    method: FitMethod[Energy, SolverState],
    start: tuple[WeightBlock, FeatureBlock] | None = None,
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
    start : (array (p + 1, K), array (p, K)), optional
        Weights, and rates of the features, of an earlier fit, whatever its rate structure. Free rates begin at the
        means over their features.
    unlabelled : (int, float), optional
        The last so many rows have no label and count by so much each (their ``weight`` and ``target`` are ignored).
    """
    check_minimiser(method)
    p, K = design.shape[1], target.shape[1]
    model.noise.check(design.minimum())
    votes = model.loss.votes(target) if rate_map.is_free else None
    if rate_map.is_free and votes is None:
        raise ValueError(
            f"rates: the closed-form update counts how often a feature speaks against its weight, and a sign rule "
            f"needs two classes, or counts; {type(model.loss).__name__} has numbers. Give fixed rates, as in "
            "bd.Fixed(0.1), or draw the rates from their posterior with bd.sample."
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
    if start is None and model.fit_intercept and model.loss.largest_count is not None:
        total = design.total(weight[:, None])
        weights[-1] = model.loss.first_score(design.total(weight[:, None] * target) / np.where(total > 0, total, 1.0))
    if start is not None and rate_map.is_free:
        rate = rate_map.mean(start[1])

    def energy_at(rate: Float[np.ndarray, "p ..."]) -> Energy:
        moments = moments_for(model.loss.exponential, design, model.noise, rate, model.fit_intercept)
        # Without variance all forms of a loss are one, and the plain form is the easiest to minimise.
        loss = model.loss if moments.has_variance else model.loss.plain
        return Energy(moments, loss, target, noisy, precision, plain)

    energy, trace = energy_at(rate), Trace()
    easier = energy.starting_energy()
    if start is None and easier is not None:
        first, _ = minimise(
            method, easier, method.init(easier, weights), max(method.tol, _MODEST), method.max_iter, Trace()
        )
        weights = first.weights
    state = method.init(energy, weights)
    learner, counts, status = None, None, None
    if rate_map.is_free and votes is not None:
        counts = SignCounts.of_votes(design, votes, weight[:, None])
        learner = counts.learner(rate_map, many=K > 1 or not model.loss.binary)
        energy, state, status = _learn(learner, energy_at, energy, state, method, trace)
    else:
        state, _ = minimise(method, energy, state, method.tol, method.max_iter, trace)
    refuse_overflow(weights=state.weights, energy=state.value)
    values = np.array(trace.values).reshape(-1, K)
    return BlockFit(
        weights=state.weights,
        rates=np.broadcast_to(energy.moments.rate, (p, K)),
        posterior=learner.posterior() if learner else None,
        counts=counts,
        occurrences=learner.occurrences if learner else None,
        trace=values,
        # The largest energy on the way: that of a fit without any residual is round-off, and so are its weights.
        status=status_at(state.weights[:-1], values.max(axis=0), trace.status if status is None else status),
        iterations=trace.iterations,
        auxiliary=auxiliary_at(energy, state),
    )


def _learn(
    learner: RateLearner,
    energy_at: Callable[[FeatureBlock], Energy],
    energy: Energy,
    state: SolverState,
    method: FitMethod[Energy, SolverState],
    trace: Trace,
) -> tuple[Energy, SolverState, Status | None]:
    """Alternate steps of the weights with updates of the rates until the signs of the weights stand.

    The rates follow every step: they depend on the weights through signs alone, most of which the first step gets
    right. What a late flip of a tiny weight does to the energy is below the tolerance soon.
    """
    done = np.zeros(state.weights.shape[1], dtype=bool)
    for _ in range(method.max_iter):
        state, reached = minimise(method, energy, state, method.tol, 1, trace, done)
        settled = state.remaining <= _MODEST * np.abs(state.value)
        moved = learner.observe(state.weights[:-1], settled, np.sqrt(ROUND_OFF * np.abs(state.value)))
        done = reached & ~moved
        # Where every weight is zero no sign ever changes, and the rates have yet to follow their prior.
        untouched = not np.any(learner.signs) and not _has_rates(energy, learner)
        if np.all(done) and not untouched:
            return energy, state, None
        if np.any(moved) or untouched:
            done &= not untouched
            energy = energy_at(learner.rate_map.expand(learner.rates()))
            state = method.init(energy, state.weights, state)
    return energy, state, Status.RATES_UNSETTLED if np.all(settled) else Status.MAX_ITERATIONS


def _has_rates(energy: Energy, learner: RateLearner) -> bool:
    return np.array_equal(energy.moments.rate, learner.rate_map.expand(learner.rates()))


def fit(
    model: Model,
    X: Any,
    y: Any,
    *,
    method: FitMethod[Energy, SolverState] | None = None,
    sample_weight: Any = None,
    feature_names: Sequence[str] | None = None,
) -> Fit:
    """Fit weights and dropout rates to two classes, to more by ``bd.Softmax()``, or to numbers or counts.

    Parameters
    ----------
    model : Model
        What to fit.
    X : array, data frame, scipy sparse, Blocks or sharded jax.Array (n, p)
        Features. Sparse input is never made dense; :class:`bayesdrop.Blocks` are read when needed. A JAX array on
        several devices, or on one that is not a CPU, stays there. Where several processes hold its rows
        (``jax.distributed``), each calls this with the ``y`` and ``sample_weight`` of its own rows.
    y : sequence of n labels or numbers
        Two classes, any labels (the larger one is the positive class), or more for ``bd.Softmax()``; numbers for a
        loss of regression.
    method : Newton or EM, optional
        ``bd.Newton()`` by default, and the only one for ``bd.Softmax()``.
    sample_weight : array (n,), optional
        Row weights, >= 0.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.

    Returns
    -------
    Fit
        Weights, intercept, rates, their plug-in posterior, objective trace and status. Those of many classes are
        (K, p) and (K,), sum to zero over the classes, and share the rates; with ``bd.Softmax(class_rates=True)`` the
        rates are (K, p) and only the intercepts sum to zero; see :mod:`.many_classes`.

    Raises
    ------
    ValueError
        If the data, the labels or the groups do not fit, or blocks change while they are read; the message names the
        argument and what to do.
    TypeError
        If ``method`` is no minimiser.

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
    check_model(model)
    method = Newton() if method is None else check_minimiser(method)
    many = model.loss.multiclass
    given = as_dataset(X, y, sample_weight, feature_names, model.loss.binary, as_design, many)
    data = given.with_weight()
    check_responses(model.loss, data.design, data.target, fit_intercept=model.fit_intercept)
    rate_map = model.bind(data.feature_names)
    settled = settle(model, data.design, data.weight, rate_map, data.feature_names)
    if many:
        joint, rest = fit_dataset(model, settled, data, rate_map, method)
        _warn_of(settled, rest, data)
        return joint
    block = fit_block(settled.model, settled.design, rate_map, data.target[:, None], data.weight, method)
    _warn_of(settled, block, data)
    posterior = None
    if block.posterior is not None and block.occurrences is not None:
        law = map_arrays(lambda part: part[:, 0], block.posterior)
        posterior = RatePosterior(law, block.occurrences[:, 0], rate_map.names, rate_map.dim)
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
        _auxiliary=first_problem(block.auxiliary, given.weight),
    )


def _warn_of(settled: Settled, found: BlockFit | ClassFit, data: Dataset) -> None:
    """Warn of columns that dropout takes where they never are, and of a fit that is not finished."""
    warn_of_counts(settled.design, found.one_signed, data.feature_names, settled.model.fit_intercept)
    if found.status.is_unfinished:
        from sklearn.exceptions import ConvergenceWarning

        warn(found.status.value, ConvergenceWarning)
