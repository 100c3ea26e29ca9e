r"""Compute the error of a log-likelihood that assumes normal scores, against the sum over masks, for HMC and NUTS.

A sampler that assumes normal scores has the likelihood ``exp G`` instead of the sum over masks ``exp E``. At a draw
``θ`` the error is ``T(θ) = E(θ) − G(θ)``, summed over rows. Only its *variation* matters, because a constant does not
change the posterior. Two posteriors with the density ratio ``exp T`` differ in the probability of an event by at most
half of ``E|exp(T − t) − 1|``, about 0.4 times the standard deviation of ``T``: 0.04 at 0.1 nat, 0.1 at 0.25. At 4 nats
they may have nothing in common, even if each single row has an error of only a few hundredths.

The standard deviation is computed over the posterior of ``exp G`` and over that of ``exp E``, and the larger counts,
because ``T`` is unknown where the sampler has no draws. Draws of the second posterior are weighted draws of the first
and of the prior (:mod:`.widened`). The Pareto k of these weights counts, as does that of the ratios ``exp T``.

``E`` comes from :mod:`bayesdrop.posterior.noise_average.expectation`, without random masks. If there are too
many rows, random groups of rows are used. The sums of the groups, scaled to all rows, estimate ``T`` with independent
errors: their covariance over draws estimates the variance of ``T`` over the posterior of ``exp G``, without bias.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float, Int, PerRow
from ...data.dataset import Dataset
from ...data.responses import single_trials
from ...designs import as_design
from ...losses.normal_score import row_cost
from ...losses.protocols import Scored, Simulated, require
from ...priors.rate_prior import BetaLaw
from ...warnings import AccuracyWarning
from ..diagnostics.mixing import smoothed_log_weights
from ..draws.draws import Draws, blocks
from .pointwise import row_log_likelihoods
from .widened import Widened, widen

__all__ = [
    "EFFORT",
    "ApproximationError",
    "approximation_error",
    "entries_of",
    "error_over",
    "errors_of",
    "likelihoods_of",
]

_USER = "the error of the approximation"


@dataclass(frozen=True)
class EffortLimits:
    """Limits on the cost of estimating the error of an approximation.

    Attributes
    ----------
    work, fewest, groups : int
        Maximum number of entries times draws for a report, minimum number of draws for a variance, and number of groups
        of rows if not all rows are used.
    rows : int
        Maximum number of streamed rows to load.
    draws : int
        Number of draws at which the error is computed if it is not corrected.
    correction, beyond : int
        Maximum number of entries times draws for an automatic correction, some seconds; and minimum number of added
        draws of the prior.
    """

    work: int = 2_000_000
    fewest: int = 64
    groups: int = 8
    rows: int = 2000
    draws: int = 256
    correction: int = 10_000_000
    beyond: int = 64


EFFORT = EffortLimits()


class ApproximationError(NamedTuple):
    """Error of a log-likelihood, in nats.

    Attributes
    ----------
    per_row : float
        Root mean square over rows and draws of the sampler.
    variance : float
        Variance of the sum over all rows, over the sampled or the exact posterior, whichever is larger; an unbiased
        estimate, which may be below 0.
    uncertainty : float
        Standard error of ``variance``, from the choice of rows and draws.
    pareto_k : float
        Pareto k of the importance ratios ``exp T``, or of the weights of the widened draws if larger; NaN if rows were
        left out.
    draws, rows : int
        Numbers of draws of the sampler and of rows used.
    """

    per_row: float
    variance: float
    uncertainty: float
    pareto_k: float
    draws: int
    rows: int

    @property
    def total(self) -> float:
        """Standard deviation of the sum over all rows."""
        return float(np.sqrt(max(self.variance, 0.0)))

    @property
    def bound(self) -> float:
        """Upper end of a 98 % interval for ``total``: its square plus two standard errors."""
        return float(np.sqrt(max(self.variance, 0.0) + 2 * self.uncertainty))


def approximation_error(draws: Draws, data: Dataset, law: BetaLaw | None = None, seed: Any = 0) -> ApproximationError:
    """Error of the log-likelihood, at draws of a sampler (a few hundred suffice) and of the prior.

    Parameters
    ----------
    draws : Draws
        Draws of a model with masks.
    data : Dataset
        Data of the posterior; some streamed rows are loaded.
    law : BetaLaw, optional
        Prior of the free rates, if there are any.
    seed : int or sequence of int
        Seed of the choice of rows, if there are too many, and of draws of the prior.
    """
    n = data.design.shape[0]
    if data.design.is_streamed and n > EFFORT.rows:
        data = data.some(_dealt(np.asarray(data.target), EFFORT.rows, seed))
    elif data.design.is_streamed:
        data = data.some(np.arange(n))
    n_held, X = len(data.target), data.X
    entries = entries_of(X)
    affordable = int(EFFORT.work / entries) // 2  # of either set of draws
    if affordable < draws.size:
        count = min(max(affordable, EFFORT.fewest), draws.size)
        draws = draws.taken(np.linspace(0, draws.size - 1, count).round().astype(int))
    if n_held == n and (affordable >= draws.size or n < 2 * EFFORT.groups):
        widened = widen(draws, law, draws.size, seed)
        return error_over(widened, likelihoods_of(widened, X, data.target, data.weight, data.offset), n)
    size = min(max(int(n_held * EFFORT.work / (2 * entries * draws.size)) // EFFORT.groups, 2), n_held // EFFORT.groups)
    chosen = _dealt(data.target, size * EFFORT.groups, seed)
    groups = [np.sort(chosen[first :: EFFORT.groups]) for first in range(EFFORT.groups)]
    offset: Any = data.offset
    squares, totals = 0.0, []
    for rows in groups:
        offsets = None if offset is None else offset[rows]
        errors = errors_of(draws, X[rows], data.target[rows], data.weight[rows], offsets)
        squares += np.sum(errors**2)
        totals.append(errors.sum(axis=1) * (n / len(rows)))
    return ApproximationError(
        float(np.sqrt(squares / (len(chosen) * draws.size))),
        *_common_variance(np.stack(totals)),
        pareto_k=float("nan"),
        draws=draws.size,
        rows=len(chosen),
    )


def error_over(widened: Widened, likelihood: Float[np.ndarray, "3 N"], rows: int) -> ApproximationError:
    """Error from widened draws and their log-likelihoods of all rows, from :func:`likelihoods_of`."""
    exact, normal, squares = likelihood
    size, (share, k) = widened.sets[0].size, widened.weights(likelihood)
    with np.errstate(invalid="ignore"):  # far from the posterior both may be 0
        error = exact - normal
    is_weighted = share > 0
    beyond = _variance(error[is_weighted], share[is_weighted])
    return ApproximationError(
        float(np.sqrt(squares[:size].sum() / (rows * size))),
        *max(_variance(error[:size], np.full(size, 1 / size)), beyond),
        pareto_k=max(smoothed_log_weights(error[:size])[1], k),
        draws=size,
        rows=rows,
    )


def entries_of(X: Any) -> float:
    """Work for each draw: number of entries of the features, or a few times the number of weights if larger."""
    return float(max(X.nnz if hasattr(X, "nnz") else np.prod(X.shape), 4 * X.shape[1], 1))


def _dealt(target: PerRow, size: int, seed: Any) -> Int[np.ndarray, " size"]:
    """Random row numbers, systematic after sorting by label, so that each label has its share."""
    order = np.random.default_rng(seed).permutation(len(target))
    order = order[np.argsort(target[order], kind="stable")]
    return order[np.linspace(0, len(target) - 1, size).astype(int)]


def errors_of(
    draws: Draws, X: Any, target: PerRow, weight: PerRow, offset: PerRow | None = None
) -> Float[np.ndarray, "S n"]:
    """Log-likelihood over masks minus the one under normal scores, for each draw and row, (S, n).

    Parameters
    ----------
    draws : Draws
        Draws of a model with masks.
    X, target, weight
        Rows (n, p), their signs or numbers (n,) and their weights (n,).
    offset : array (n,), optional
        Known part of every row's score.
    """
    logs = row_log_likelihoods(draws, X, target, weight, offset)
    return logs - _constants(draws, target, weight) + _normal_costs(draws, X, target, weight, offset)


def _constants(draws: Draws, target: PerRow, weight: PerRow) -> Float[np.ndarray, "S n"]:
    """Terms of the log-likelihoods that do not depend on the scores."""
    require(draws.model.loss, Simulated, _USER, "write the constant of its density")
    loss = draws.loss_of(slice(None), 2, 0, plain=True)
    level = np.broadcast_to(np.asarray(loss.log_constant(draws.C)), (draws.size,))[:, None]
    rows = np.broadcast_to(target[None], (draws.size, len(target)))
    return np.asarray(weight * (level + draws.C[:, None] * loss.log_base_measure(rows)))


def _normal_costs(
    draws: Draws, X: Any, target: PerRow, weight: PerRow, offset: PerRow | None
) -> Float[np.ndarray, "S n"]:
    """Minus the log-likelihood under normal scores, without constants."""
    design, costs = as_design(X), np.empty((draws.size, X.shape[0]))
    require(draws.model.loss.plain, Scored, _USER, "write its cost under normal scores")
    for part in blocks(draws.size, max(design.shape)):
        mean, var = draws.moments(design, part)
        mean = mean if offset is None else mean + offset[:, None]
        sign = np.broadcast_to(target[:, None], mean.shape)
        loss: Any = draws.loss_of(part, plain=True)
        costs[part] = row_cost(loss, sign, mean, var, draws.C[part], weight[:, None]).value.T
    return costs


def likelihoods_of(
    widened: Widened, X: Any, target: PerRow, weight: PerRow, offset: PerRow | None = None
) -> Float[np.ndarray, "3 N"]:
    """Log-likelihoods of some rows, up to a constant, and the sum of the squares of their errors.

    The log-likelihoods are those over masks and under normal scores. The arguments are those of :func:`errors_of`, with
    responses (n,) or (n, 2). Results of blocks of rows may be added.
    """
    values = np.zeros((3, len(widened.order)))
    if target.ndim == 2:
        X, target, weight, offset = single_trials(X, target, weight, offset)
    for rows in blocks(X.shape[0], len(widened.order)):
        part = X[rows], target[rows], weight[rows], None if offset is None else offset[rows]
        start = 0
        for number, draws in enumerate(widened.sets):
            columns = slice(start, start + draws.size)
            normal = -_normal_costs(draws, *part).sum(axis=1)
            with warnings.catch_warnings():
                if number:  # draws of the prior far away have rough sums, and no weight
                    warnings.simplefilter("ignore", AccuracyWarning)
                errors = errors_of(draws, *part)
            if draws.parameter is not None:  # otherwise constants are equal for all draws
                normal += _constants(draws, *part[1:3]).sum(axis=1)
            values[0, columns] += normal + errors.sum(axis=1)
            values[1, columns] += normal
            values[2, columns] += np.sum(errors**2, axis=1)
            start = columns.stop
    return values


def _variance(values: Float[np.ndarray, " S"], share: Float[np.ndarray, " S"]) -> tuple[float, float]:
    """Variance of values (S,) with weights ``share``, and its standard error."""
    squares = (values - share @ values) ** 2
    variance = float(share @ squares)
    correction = 1 - min(float(np.sum(share**2)), 0.5)
    return variance / correction, float(np.sqrt(np.sum((share * (squares - variance)) ** 2)))


def _common_variance(estimates: Float[np.ndarray, "R S"]) -> tuple[float, float]:
    """Variance over draws of the common part of estimates (R, S) with independent errors, and its standard error."""
    centred = estimates - estimates.mean(axis=1, keepdims=True)
    products = _products(centred)
    left = np.array([_products(np.delete(centred, one, axis=0)).sum() for one in range(len(centred))])
    left /= max(centred.shape[1] - 1, 1)
    # All draws use the same groups of rows, so their choice adds a separate error.
    uncertainty = np.hypot(np.std(products) / np.sqrt(len(products)), np.sqrt((len(centred) - 1) * np.var(left)))
    return float(products.sum() / max(centred.shape[1] - 1, 1)), float(uncertainty)


def _products(centred: Float[np.ndarray, "R S"]) -> Float[np.ndarray, " S"]:
    """Mean product of two different estimates (R, S) at each draw, (S,), from the square of their sum."""
    several = len(centred)
    return np.asarray((centred.sum(axis=0) ** 2 - np.sum(centred**2, axis=0)) / (several * (several - 1)))
