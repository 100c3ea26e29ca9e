"""Fit K problems that share a matrix as one block, at fixed or learnt rates, for ``bd.fit`` and searches.

Problems are classes, one against the rest, or the folds and candidates of a search (:mod:`bayesdrop.fitting.tuning`);
each may have different row weights and ``C``. Free rates are updated by the signs of the weights until these are
constant (:mod:`bayesdrop.fitting.solvers.learning`).

Problems share passes over the matrix, each of which reads an entry once for eight problems. More than some tens of
problems save nothing more, and need memory: Newton's method holds a dozen numbers for each problem and row, and for
each problem and feature. Therefore :func:`fit_in_parts` fits some classes at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..._progress import waiting
from ..._typing import Bool, Float, Num, PerRow
from ...designs import Design
from ...designs.threads import one_blas_thread
from ...linalg.systems import double_range, refuse_overflow
from ...losses.protocols import Curved, require
from ...model import Model
from ...moments import ScoreMoments
from ...noise import Noise
from ...priors.rate_prior import BetaLaw
from ...rates import RateMap
from ...rates.learnt import is_tuned
from ..objective.energy import Energy, FeatureBlock, ProblemVector, WeightBlock, prior_block, row_weights
from ..objective.exponential_moments import exponential_moments
from ..solvers.auxiliary import Auxiliary, auxiliary_at
from ..solvers.choices import case_of, choose
from ..solvers.driver import FitMethod, Status, Trace, check_minimiser, least_weights, minimise, status_at
from ..solvers.learning import Learning, SignCounts, learn
from ..solvers.newton import Newton
from ..solvers.proximal import RULES, ProximalNewton
from ..solvers.state import SolverState

# Tolerance of a convex fit at which a fit that is not convex starts.
MODEST = 1e-3

__all__ = ["BlockFit", "ProblemFit", "Task", "first_rates", "fit_block", "fit_in_parts"]


def first_rates(model: Model) -> Model:
    """Replace ``bd.Tuned`` rates by those of the published rule, for a fit before the search."""
    rates: Any = model.rates
    return replace(model, rates=rates.structure) if is_tuned(rates) else model


@dataclass(frozen=True)
class Task:
    """A model for centred rows, and the data of a fit.

    Attributes
    ----------
    model : Model
        Loss, noise and priors; in a search each candidate replaces the rates and ``C``.
    design : Design (n, p)
        Rows minus the centre of the noise; rows without labels are last.
    target : array (n, J) or (n,)
        Labels as −1 and +1, or numbers; class numbers for the softmax.
    weight : array (n,)
        Row weights.
    names : sequence of p str
        Names of the columns.
    method : FitMethod
        Minimiser of the fit.
    origins : Rows, optional
        The rows with labels, for splitting into folds; without class numbers.
    n_classes : int, optional
        Number of classes of the softmax; None for problems with one score.
    corrupted_inputs : bool
        Whether new rows are noised already.
    unlabelled : (int, float), optional
        (m, w): the last m rows are unlabelled and have weight w each.
    offset : array (n,), optional
        Known part of the score of each row, if a row has one score.
    Cs : array (c,), optional
        Candidates for ``C``, ascending, chosen together with the strength of the rates; by default the model's ``C``.
    will_be_noised : bool
        Whether new rows will be noised like the model's, so that losses of held-out rows are averaged over the noise.
    """

    model: Model
    design: Design
    target: PerRow
    weight: PerRow
    names: Sequence[str]
    method: Any
    origins: Any = None
    n_classes: int | None = None
    corrupted_inputs: bool = False
    unlabelled: tuple[int, float] | None = None
    offset: Float[np.ndarray, " n"] | None = None
    Cs: Float[np.ndarray, " c"] | None = None
    will_be_noised: bool = False

    @property
    def is_here(self) -> bool:
        """Whether the rows are in this process, so that folds can hold them out."""
        parts = (self.design.zeros(1), self.target, self.weight)
        return all(isinstance(rows, np.ndarray) for rows in parts) and len(self.weight) == self.design.shape[0]

    @cached_property
    def empty_columns(self) -> Bool[np.ndarray, " p"]:
        """Mask (p,) of the columns that are zero in every row; all False if columns cannot be selected."""
        if self.design.select_columns(np.zeros(0, dtype=np.intp)) is None:
            return np.zeros(self.design.shape[1], dtype=bool)
        return np.asarray(self.design.occurrences(np.ones(len(self.weight))) == 0)

    @property
    def labelled(self) -> int:
        """Number of rows with a label."""
        return self.design.shape[0] - (0 if self.unlabelled is None else self.unlabelled[0])

    @property
    def code(self) -> Num[np.ndarray, " labelled"] | None:
        """Class of each row with a label; None without classes."""
        target = self.target[: self.labelled]
        if self.n_classes is not None:
            return np.asarray(target)
        if not self.model.loss.binary:
            return None
        return np.asarray(target.argmax(axis=1) if target.shape[1] > 1 else (target[:, 0] > 0).astype(int))


@dataclass(frozen=True)
class ProblemFit:
    """Fit of ``K`` problems: weights (p + 1, K), rates (p, K), the posterior of the free rates (k, K) and the counts of
    signs that determine it; None if no rate is free.
    """

    weights: WeightBlock
    rates: FeatureBlock
    posterior: BetaLaw | None
    counts: SignCounts | None
    occurrences: Num[np.ndarray, "k K"] | None
    trace: Float[np.ndarray, "iterations K"]
    status: Status
    iterations: int
    solver: str


@dataclass(frozen=True)
class BlockFit(ProblemFit):
    """A fit with results for the rows: moments ``mean`` and ``var`` of the scores, (n, K) each, without the offset, and
    auxiliary variables; ``energy`` is the minimised energy at the last rates.
    """

    mean: PerRow
    var: PerRow
    energy: Energy
    auxiliary: Auxiliary | None = None


@double_range()
@waiting("fit", "step")
@one_blas_thread()
def fit_block(
    model: Model,
    design: Design,
    rate_map: RateMap,
    target: PerRow,
    weight: PerRow,
    method: FitMethod[Energy, SolverState],
    start: tuple[WeightBlock, Float[np.ndarray, "p _"]] | None = None,
    unlabelled: tuple[int, float] | None = None,
    strength: ProblemVector | None = None,
    rate: FeatureBlock | None = None,
    many: bool | None = None,
    offset: PerRow | None = None,
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
    weight : array (n,) or (n, K)
        Row weights, of each problem if they differ.
    method : Newton or EM
        Minimiser.
    start : (array (p + 1, K), array (p, K)), optional
        Weights, and rates of the features, of an earlier fit with any rate structure. Free rates start at their update
        from the signs of the weights or, if all weights are zero, at the means over their features.
    unlabelled : (int, float), optional
        (m, w): the last m rows are unlabelled and have weight w each; their ``weight`` and ``target`` are ignored.
    strength : array (K,), optional
        ``C`` of each problem, instead of the model's.
    rate : array (p, K), optional
        Fixed rates of each problem, instead of those of ``rate_map``.
    many : bool, optional
        Whether each problem is one class against the rest; by default if there are several problems.
    offset : array (n,), optional
        Known part of every row's score.
    """
    check_minimiser(method)
    _check_domain(model.noise, design)
    (p, K), column = (design.shape[1], target.shape[1]), None if offset is None else offset[:, None]
    several = K > 1 if many is None else many
    if start is None and unlabelled is not None and model.loss.convex:
        # With rows without labels the energy is not convex: start at the fit to the others.
        has_label = (np.arange(len(target)) < len(target) - unlabelled[0]).astype(float)
        labelled, _, labels, shares, moved = design.drop_zero_weight(
            has_label, target, weight, has_label if offset is None else offset
        )
        rough = replace(method, tol=max(method.tol, MODEST)) if is_dataclass(method) else method
        labelled_fit = fit_block(
            model, labelled, rate_map, labels, shares, rough, strength=strength, rate=rate, many=several,
            offset=None if offset is None else moved,
        )  # fmt: skip
        start = labelled_fit.weights, labelled_fit.rates
    prior = prior_block(model, p)
    if prior.absolute is not None:
        method = _proximal(model, p, method)
    votes = model.loss.votes(target) if rate_map.is_free else None
    if votes is not None and column is not None:
        votes = votes[0], votes[1] * model.loss.exposure(column)
    if rate_map.is_free and votes is None:
        raise ValueError(
            f"rates: the closed-form update counts how often a feature contradicts its weight, and a sign rule "
            f"needs two classes, or counts; {type(model.loss).__name__} has numbers. Give fixed rates, as in "
            "bd.Fixed(0.1), or draw the rates from their posterior with bd.sample."
        )
    labels, noisy, plain = row_weights(model, weight, unlabelled, strength)
    if rate is None:
        rate = np.repeat(rate_map.initial[:, None], K, axis=1) if rate_map.is_free else rate_map.initial[:, None]
    constant = np.zeros((p + 1, K))
    if model.fit_intercept and model.loss.largest_count is not None:
        total = design.total(labels)
        total = np.where(total > 0, total, 1.0)
        constant[-1] = model.loss.first_score(design.total(labels * target) / total)
        if column is not None:
            constant[-1] -= design.total(labels * column) / total
    weights = constant if start is None else start[0].copy()
    learner, counts = None, None
    if votes is not None:
        counts = SignCounts.of_votes(design, votes, labels)
        learner = counts.learner(rate_map, several or not model.loss.binary)
        if start is not None and np.any(weights[:-1]):
            # Start at the rates for the signs of the weights, as the rates of the earlier fit may have another prior.
            learner.observe(weights[:-1], np.zeros(K, dtype=bool), np.zeros(K))
            rate = rate_map.expand(learner.rates())
        elif start is not None:
            rate = rate_map.mean(start[1])

    def energy_at(rate: Float[np.ndarray, "p ..."]) -> Energy:
        make = exponential_moments if model.loss.exponential else ScoreMoments
        moments = make(design, model.noise, rate, model.fit_intercept)
        # Without variance all forms of a loss are equal, and the plain form is the easiest to minimise.
        loss = model.loss if moments.has_variance else model.loss.plain
        return Energy(
            moments, loss, target, noisy, prior.precision, plain, column, prior.location, prior.level, prior.absolute
        )

    energy, trace = energy_at(rate), Trace()
    easier = energy.starting_energy()
    if start is None and easier is not None:
        begin = method.init(easier, weights)
        weights = minimise(method, easier, begin, max(method.tol, MODEST), method.max_iter, Trace())[0].weights
    elif start is not None and easier is None:
        weights = _lower(energy, weights, constant)
    if learner is not None:
        learning = Learning(learner, energy_at, energy)
        state, trace.status = learn(learning, method.init(energy, weights), method, trace)
        energy = learning.energy
    else:
        state = method.init(energy, weights)
        first_state = state
        state, _ = minimise(method, energy, state, method.tol, method.max_iter, trace)
        if model.loss.piecewise_linear:
            state = state.no_worse_than(first_state, energy)
            trace.values[-1] = state.objective
    refuse_overflow(weights=state.weights, energy=state.value)
    values = np.array(trace.values).reshape(-1, K)
    # Compare with the largest energy of the trace: that of a fit without residuals is rounding error.
    smallest_weights = least_weights(state.weights[:-1], values.max(axis=0), prior.precision[:-1], energy.squares)
    return BlockFit(
        weights=state.weights,
        rates=np.broadcast_to(energy.moments.rate, (p, K)),
        posterior=learner.posterior() if learner else None,
        counts=counts,
        occurrences=learner.occurrences if learner else None,
        trace=values,
        status=status_at(state.weights[:-1], smallest_weights, trace.status),
        iterations=trace.iterations,
        solver=choose(case_of(energy)).name
        if isinstance(method, ProximalNewton) or (isinstance(method, Newton) and method.preconditioner is None)
        else type(method).__name__,
        mean=state.mean,
        var=state.var,
        energy=energy,
        auxiliary=auxiliary_at(energy, state),
    )


def _proximal(model: Model, features: int, method: Any) -> ProximalNewton:
    """Minimiser of a fit whose prior has a penalty on absolute weights; raise ValueError if the fit has none."""
    if not isinstance(method, Newton):
        raise ValueError(
            f"method: {model.weight_prior!r} has a kink at 0, which bd.Newton() takes, got {method!r}; leave it out."
        )
    if model.loss.piecewise_linear:
        raise ValueError(
            f"weight_prior: a point fit takes {model.weight_prior!r} with a smooth loss, such as bd.Logistic() or "
            f"bd.Squared(), got {model.loss!r}; use bd.sample, or bd.Normal(...)."
        )
    if features > RULES.weights:
        raise ValueError(
            f"weight_prior: a point fit with {model.weight_prior!r} takes up to {RULES.weights:,} features, whose "
            f"matrix is in memory, got {features:,}; select features before, or take bd.Normal(...)."
        )
    require(model.loss, Curved, "Newton's method", "write its derivatives")
    return ProximalNewton(method.tol, method.max_iter)


def _check_domain(noise: Noise, design: Design) -> None:
    """Raise ValueError if the noise does not accept the entries; compute the smallest entry only if it matters."""
    try:
        noise.check(-np.inf)
    except ValueError:
        noise.check(design.minimum())


def _lower(energy: Energy, weights: WeightBlock, constant: WeightBlock) -> WeightBlock:
    """Weights of an earlier fit, (p + 1, K); for problems where the ``constant`` scores have less energy, those.

    Where scores are far too large for the model the loss has no curvature, and no step leads on.
    """
    first, second = (energy.value(w, *energy.moments.scores(w), np.zeros(w.shape[1])) for w in (weights, constant))
    return np.where(first <= second, weights, constant)


# Status of several parts: the first of these that some part has.
_FIRST = (Status.MAX_ITERATIONS, Status.RATES_UNSETTLED, Status.ALL_ZERO, Status.ROUND_OFF, Status.CONVERGED)


def fit_in_parts(
    task: Task,
    rate_map: RateMap,
    start: tuple[WeightBlock, Float[np.ndarray, "p _"]] | None = None,
    together: int = 24,
) -> ProblemFit:
    """Fit the ``K`` problems of a task, at most ``together`` in one block.

    :func:`fit_block` explains ``rate_map`` and ``start``.
    """
    K = task.target.shape[1]

    def fit(columns: slice, start: Any) -> BlockFit:
        return fit_block(
            task.model, task.design, rate_map, task.target[:, columns], task.weight, task.method, start,
            task.unlabelled, many=K > 1, offset=task.offset,
        )  # fmt: skip

    if K <= together:
        return fit(slice(None), start)
    parts = []
    for numbers in np.array_split(np.arange(K), -(-K // together)):
        columns = slice(int(numbers[0]), int(numbers[-1]) + 1)
        begin = None
        if start is not None:
            weights, rates = start
            begin = weights[:, columns], rates if rates.shape[1] == 1 else rates[:, columns]
        solution = fit(columns, begin)
        # Keep no results for the rows, which would need memory for all classes.
        parts.append(ProblemFit(**{name: getattr(solution, name) for name in ProblemFit.__dataclass_fields__}))
    return _joined(parts)


def _joined(parts: list[ProblemFit]) -> ProblemFit:
    """Join the fits of all parts; the trace of a part that ended early repeats its last value."""
    longest = max(len(part.trace) for part in parts)
    counts = [part.counts for part in parts if part.counts is not None]
    laws = [part.posterior for part in parts if part.posterior is not None]
    occurrences = [part.occurrences for part in parts if part.occurrences is not None]
    return ProblemFit(
        weights=np.concatenate([part.weights for part in parts], axis=1),
        rates=np.concatenate([part.rates for part in parts], axis=1),
        posterior=BetaLaw(*(np.concatenate(part, axis=1) for part in zip(*laws, strict=True))) if laws else None,
        counts=counts[0].joined(counts[1:]) if counts else None,
        occurrences=np.concatenate(occurrences, axis=1) if occurrences else None,
        trace=np.concatenate(
            [np.pad(part.trace, ((0, longest - len(part.trace)), (0, 0)), mode="edge") for part in parts], axis=1
        ),
        status=next(status for status in _FIRST if any(part.status is status for part in parts)),
        iterations=max(part.iterations for part in parts),
        solver=parts[0].solver,
    )
