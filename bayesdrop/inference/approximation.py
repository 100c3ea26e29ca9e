r"""How far masks integrated under normal scores are from the sum over masks, at the draws of a run.

A sampler that takes scores as normal draws from the right prior and the likelihood ``exp G``, where the sum over masks
would have ``exp E``. At a draw ``θ`` the error is ``T(θ) = E(θ) − G(θ)``, summed over rows: what matters is by how much
it *varies* from draw to draw, for a constant changes no posterior. Below one nat the two posteriors are hardly told
apart; at four, they may have nothing in common, though a single row be off by a few hundredths only.

``E`` is known up to the noise of drawn masks, unless rows have so few entries that all masks are summed. Two estimates
``A`` and ``B`` of ``T`` from independent masks have independent noises, so that their covariance over draws is the
variance of ``T`` without either: noise is never mistaken for error. The logarithm of an average over ``M`` masks is low
by about ``c/M``; it is taken out by ``2 log ½(a + b) − ½(log a + log b)`` of two averages (Quenouille's jackknife).

Where there are more rows than can be summed, they are dealt into groups, and the sums of the groups, blown up to all
rows, take the place of ``A`` and ``B``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..data import Data
from ..designs import as_design
from ..draws import Draws, blocks
from ..pareto import smoothed_log_weights
from ..pointwise import log_likelihood_group

__all__ = ["ApproximationError", "ApproximationWarning", "approximation_error", "part_of", "row_log_likelihoods"]

Array = Any

# Entries that a report looks at, each once for every mask and draw: a second or two; of large data as many as take a
# hundredth of a run, and never more than some seconds.
_WORK, _WORK_AN_ENTRY, _MOST_WORK = 1e8, 400.0, 3e8
# Masks that are worth more draws than the few; fewest and most masks of a set.
_MANY_MASKS, _FEW_DRAWS, _LEAST_MASKS, _MOST_MASKS = 128, 64, 8, 256
_SETS, _GROUPS = 4, 8
# Standard deviation of the masks' noise in a sum over rows above which it has a tail of its own.
_NOISE = 0.25


class ApproximationWarning(UserWarning):
    """Masks that were integrated as if scores were normal, or importance weights, leave the posterior wrong."""


class ApproximationError(NamedTuple):
    """Error of a log-likelihood, in nats.

    Attributes
    ----------
    per_row : float
        Root mean square over rows and draws.
    variance : float
        Variance over draws of the sum over all rows, estimated without bias and so perhaps below 0.
    uncertainty : float
        Its standard error, from the masks, rows and draws that were drawn.
    pareto_k : float
        Tail shape of the importance ratios ``exp T``; NaN where the noise of masks would make a tail of its own, or
        rows were left out.
    draws, rows : int
        Draws and rows that were looked at.
    """

    per_row: float
    variance: float
    uncertainty: float
    pareto_k: float
    draws: int
    rows: int

    @property
    def total(self) -> float:
        """Standard deviation over draws of the sum over all rows."""
        return float(np.sqrt(max(self.variance, 0.0)))

    @property
    def bound(self) -> float:
        """The same with two standard errors of its square added: a 98 % upper end."""
        return float(np.sqrt(max(self.variance, 0.0) + 2 * self.uncertainty))

    @property
    def resolved(self) -> bool:
        """True if the variance is more than two standard errors above 0."""
        return self.variance > 2 * self.uncertainty


def approximation_error(draws: Draws, data: Data, seed: int = 0) -> ApproximationError:
    """Error of the log-likelihood at the given draws, of which a few hundred do.

    Parameters
    ----------
    draws : Draws
        Draws of a model with masks.
    data : Data
        What they were drawn from, in memory.
    seed : int
        Of masks, and of rows where there are too many.
    """
    generator = np.random.default_rng(seed)
    n = len(data.target)
    entries = max(float(data.X.nnz if hasattr(data.X, "nnz") else data.X.size), 1.0)
    work = min(max(_WORK, _WORK_AN_ENTRY * entries), _MOST_WORK) / (_SETS * entries)
    if work < draws.size * _MANY_MASKS:
        # The noise of the variance falls with the masks, and only with the root of the draws.
        few = min(_FEW_DRAWS, draws.size)
        draws = part_of(draws, np.linspace(0, draws.size - 1, few).round().astype(int))
    masks = work / draws.size
    groups = [np.arange(n)]
    if masks < _LEAST_MASKS and n >= 2 * _GROUPS:
        # Dealt like cards, one label after the other, so that each group has its share of either.
        size = max(int(n * masks / _LEAST_MASKS) // _GROUPS, 2)
        order = generator.permutation(n)
        order = order[np.argsort(data.target[order], kind="stable")]
        chosen = order[np.linspace(0, n - 1, size * _GROUPS).astype(int)]
        groups = [chosen[first::_GROUPS] for first in range(_GROUPS)]
    masks = int(np.clip(masks, _LEAST_MASKS, _MOST_MASKS))
    sums, square = [], 0.0
    for rows in groups:
        rows = np.sort(rows)
        away = _errors(draws, data.X[rows], data.target[rows], data.weight[rows], masks, generator)
        square += float(np.mean(away[0] * away[1])) * len(rows)
        sums.append(away.sum(axis=2) * (n / len(rows)))
    looked_at = sum(len(rows) for rows in groups)
    left_out = looked_at < n
    noise = 0.5 * float(np.std(sums[0][0] - sums[0][1]))
    # With one group its two halves are the estimates; with several, the groups, the halves of each averaged.
    estimates = sums[0] if len(groups) == 1 else np.stack([part.mean(axis=0) for part in sums])
    variance, uncertainty = _common_variance(estimates)
    return ApproximationError(
        per_row=float(np.sqrt(max(square / looked_at, 0.0))),
        variance=variance,
        uncertainty=uncertainty,
        pareto_k=float("nan") if left_out or noise > _NOISE else smoothed_log_weights(estimates.mean(axis=0))[1],
        draws=draws.size,
        rows=looked_at,
    )


def row_log_likelihoods(
    draws: Draws, X: Any, target: Array, weight: Array, masks: int, sets: int, generator: np.random.Generator
) -> Iterator[tuple[slice, Array, Array]]:
    """Log-likelihood of each row over masks and under normal scores, for blocks of draws.

    Parameters
    ----------
    draws : Draws
        Draws of a model with masks.
    X, target, weight
        Rows (n, p), their signs or numbers (n,) and their weights (n,).
    masks, sets : int
        Masks drawn per row and draw, as often as ``sets`` says, each time anew.
    generator : numpy.random.Generator
        Of the masks.

    Yields
    ------
    part : slice
        Which draws.
    over_masks : array (sets, draws, n)
        Each the logarithm of an unbiased estimate, or of the sum over all masks.
    normal : array (draws, n)
        Under normal scores.
    """
    n = X.shape[0]
    design, loss = as_design(X), draws.model.loss.plain
    powers = draws.power * weight
    for part in blocks(draws.size, max(sets * n, 1)):
        some = part_of(draws, part)
        over_masks = np.stack(
            [
                log_likelihood_group(some, X, target, weight, masks, generator)["y"].values.reshape(some.size, n)
                for _ in range(sets)
            ]
        )
        normal = np.empty((some.size, n))
        for few in blocks(some.size, max(design.shape)):
            mean, var = some.moments(design, few)
            sign = np.broadcast_to(target[:, None], mean.shape)
            cost = loss.score_cost(sign, mean, var, powers[:, None] * some.C[few]).value
            normal[few] = -cost.T + powers * np.asarray(loss.log_constant(some.C[few]))[..., None]
        yield part, over_masks, normal


def part_of(draws: Draws, part: Any) -> Draws:
    """Some of the draws, by a slice or an array of indices, as if they were of one chain."""
    names = ("weight", "intercept", "free_rate", "C")
    chosen = {name: getattr(draws, name)[part] for name in names}
    steps = {"chain": np.zeros(1, int), "draw": np.arange(len(chosen["weight"]))}
    return replace(draws, **chosen, steps=steps)


def _errors(draws: Draws, X: Any, target: Array, weight: Array, masks: int, generator: Any) -> Array:
    """Two estimates of each row's error from independent masks, free of the bias of a logarithm: (2, S, n)."""
    found = np.empty((2, draws.size, X.shape[0]))
    for part, over_masks, normal in row_log_likelihoods(draws, X, target, weight, masks, _SETS, generator):
        for half in range(2):
            one, other = over_masks[2 * half], over_masks[2 * half + 1]
            joined = np.logaddexp(one, other) - np.log(2)
            found[half, part] = 2 * joined - 0.5 * (one + other) - normal
    return found


def _common_variance(estimates: Array) -> tuple[float, float]:
    """Variance over draws of what estimates (R, S) with independent noises have in common, and its standard error."""
    centred = estimates - estimates.mean(axis=1, keepdims=True)
    several, size = centred.shape
    # The sum of all products of two different estimates: the square of their sum less the squares.
    products = (centred.sum(axis=0) ** 2 - np.sum(centred**2, axis=0)) / (several * (several - 1))
    variance = float(products.sum() / max(size - 1, 1))
    uncertainty = float(np.std(products) / np.sqrt(size))
    if several > 2:
        # Groups of rows are the same for all draws, so that their choice has a share of its own.
        left = np.array([_common_variance_of(np.delete(centred, one, axis=0)) for one in range(several)])
        uncertainty = float(np.hypot(uncertainty, np.sqrt((several - 1) * np.var(left))))
    return variance, uncertainty


def _common_variance_of(centred: Array) -> float:
    several, size = centred.shape
    total = np.sum(centred.sum(axis=0) ** 2) - np.sum(centred**2)
    return float(total / (several * (several - 1) * max(size - 1, 1)))
