r"""How far masks integrated under normal scores are from the sum over masks, at the draws of a run.

A sampler that takes scores as normal draws from the right prior and the likelihood ``exp G``, where the sum over masks
would have ``exp E``. At a draw ``θ`` the error is ``T(θ) = E(θ) − G(θ)``, summed over rows: what matters is by how much
it *varies* from draw to draw, for a constant changes no posterior. Below one nat the two posteriors are hardly told
apart; at four, they may have nothing in common, though a single row be off by a few hundredths only.

``E`` comes from :mod:`bayesdrop.posterior.masks.expectation`, without random masks. Where there are more rows than can
be summed, they are dealt into groups, and the sums of the groups, blown up to all rows, estimate ``T`` with independent
errors: their covariance over draws is the variance of ``T`` without the error of either.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float, Int, PerRow
from ...data.dataset import Dataset
from ...designs import as_design
from ...losses.normal_score import row_cost
from ...losses.protocols import Scored, Simulated, require
from ..diagnostics.pareto import smoothed_log_weights
from ..draws import Draws, blocks
from .pointwise import log_likelihood_group

__all__ = ["ApproximationError", "approximation_error", "errors_of", "part_of"]

# Entries of the features that a report may look at, each once a draw, and the fewest draws that tell a variance.
_WORK, _FEW_DRAWS = 2e6, 64
_GROUPS = 8
# Rows that are brought to memory where they are streamed.
_HELD_ROWS = 2000


class ApproximationError(NamedTuple):
    """Error of a log-likelihood, in nats.

    Attributes
    ----------
    per_row : float
        Root mean square over rows and draws.
    variance : float
        Variance over draws of the sum over all rows, estimated without bias and so perhaps below 0.
    uncertainty : float
        Its standard error, from the rows and draws that were chosen.
    pareto_k : float
        Tail shape of the importance ratios ``exp T``; NaN where rows were left out.
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


def approximation_error(draws: Draws, data: Dataset, seed: int = 0) -> ApproximationError:
    """Error of the log-likelihood at the given draws, of which a few hundred do.

    Parameters
    ----------
    draws : Draws
        Draws of a model with masks.
    data : Dataset
        What they were drawn from; of rows that are streamed some are brought here.
    seed : int
        Of the rows, where there are too many.
    """
    n = data.design.shape[0]
    if data.design.is_streamed and n > _HELD_ROWS:
        data = data.some(_dealt(np.asarray(data.target), _HELD_ROWS, seed))
    elif data.design.is_streamed:
        data = data.some(np.arange(n))
    held, X = len(data.target), data.X
    entries = max(float(X.nnz if data.design.is_sparse else X.size), 1.0)
    affordable = int(_WORK / entries)
    if affordable < draws.size:
        few = min(max(affordable, _FEW_DRAWS), draws.size)
        draws = part_of(draws, np.linspace(0, draws.size - 1, few).round().astype(int))
    groups = [np.arange(held)]
    if held < n or (affordable < draws.size and n >= 2 * _GROUPS):
        size = min(max(int(held * _WORK / (entries * draws.size)) // _GROUPS, 2), held // _GROUPS)
        chosen = _dealt(data.target, size * _GROUPS, seed)
        groups = [np.sort(chosen[first::_GROUPS]) for first in range(_GROUPS)]
    offset: Any = data.offset
    errors = [
        errors_of(draws, X[rows], data.target[rows], data.weight[rows], None if offset is None else offset[rows])
        for rows in groups
    ]
    looked_at = sum(len(rows) for rows in groups)
    sums = np.stack([part.sum(axis=1) * (n / part.shape[1]) for part in errors])
    variance, uncertainty = _common_variance(sums) if len(groups) > 1 else _variance(sums[0])
    return ApproximationError(
        per_row=float(np.sqrt(sum(np.sum(part**2) for part in errors) / (looked_at * draws.size))),
        variance=variance,
        uncertainty=uncertainty,
        pareto_k=float("nan") if len(groups) > 1 else smoothed_log_weights(sums[0])[1],
        draws=draws.size,
        rows=looked_at,
    )


def _dealt(target: PerRow, size: int, seed: int) -> Int[np.ndarray, " size"]:
    """Numbers of random rows, dealt like cards, one label after the other: every so many have their share of either."""
    order = np.random.default_rng(seed).permutation(len(target))
    order = order[np.argsort(target[order], kind="stable")]
    return order[np.linspace(0, len(target) - 1, size).astype(int)]


def errors_of(
    draws: Draws, X: Any, target: PerRow, weight: PerRow, offset: PerRow | None = None
) -> Float[np.ndarray, "S n"]:
    """Log-likelihood over masks less the one under normal scores, by draw and row: (S, n).

    Parameters
    ----------
    draws : Draws
        Draws of a model with masks.
    X, target, weight
        Rows (n, p), their signs or numbers (n,) and their weights (n,).
    offset : array (n,), optional
        Known part of every row's score.
    """
    design, user = as_design(X), "the error of the approximation"
    loss = require(draws.model.loss.plain, Scored, user, "write its cost under normal scores")
    constant = require(loss, Simulated, user, "write the constant of its density").log_constant
    found = log_likelihood_group(draws, X, target, weight, offset=offset)["y"].values.reshape(draws.size, -1)
    found -= weight * (np.asarray(constant(draws.C))[..., None] + draws.C[:, None] * loss.log_base_measure(target))
    for few in blocks(draws.size, max(design.shape)):
        mean, var = draws.moments(design, few)
        mean = mean if offset is None else mean + offset[:, None]
        sign = np.broadcast_to(target[:, None], mean.shape)
        found[few] += row_cost(loss, sign, mean, var, draws.C[few], weight[:, None]).value.T
    return found


def part_of(draws: Draws, part: Any) -> Draws:
    """Some of the draws, by a slice or an array of indices, as if they were of one chain."""
    names = ("weight", "intercept", "free_rate", "C")
    chosen = {name: getattr(draws, name)[part] for name in names}
    steps = {"chain": np.zeros(1, int), "draw": np.arange(len(chosen["weight"]))}
    return replace(draws, **chosen, steps=steps)


def _variance(values: Float[np.ndarray, " S"]) -> tuple[float, float]:
    """Variance of values (S,), and its standard error."""
    squares = (values - values.mean()) ** 2
    return float(squares.sum() / max(len(values) - 1, 1)), float(np.std(squares) / np.sqrt(len(values)))


def _common_variance(estimates: Float[np.ndarray, "R S"]) -> tuple[float, float]:
    """Variance over draws of what estimates (R, S) with independent errors have in common, and its standard error."""
    centred = estimates - estimates.mean(axis=1, keepdims=True)
    products = _products(centred)
    left = np.array([_products(np.delete(centred, one, axis=0)).sum() for one in range(len(centred))])
    left /= max(centred.shape[1] - 1, 1)
    # Groups of rows are the same for all draws, so that their choice has a share of its own.
    uncertainty = np.hypot(np.std(products) / np.sqrt(len(products)), np.sqrt((len(centred) - 1) * np.var(left)))
    return float(products.sum() / max(centred.shape[1] - 1, 1)), float(uncertainty)


def _products(centred: Float[np.ndarray, "R S"]) -> Float[np.ndarray, " S"]:
    """Mean product of two different estimates (R, S) at each draw, (S,): the square of their sum less the squares."""
    several = len(centred)
    return np.asarray((centred.sum(axis=0) ** 2 - np.sum(centred**2, axis=0)) / (several * (several - 1)))
