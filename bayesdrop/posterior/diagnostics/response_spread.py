"""Compare the spread of responses about their scores with that of a likelihood of fixed scale, for ``bd.diagnose``.

Chains may mix perfectly although the likelihood is a hundred times too narrow. Therefore responses are simulated from
some draws and compared with the observed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...losses.protocols import Simulated
from ..draws.draws import draws_of
from ..draws.new_rows import centred_matrix
from .problems import Problem

__all__ = ["spread_problem", "spread_of"]


@dataclass(frozen=True)
class Limits:
    """Limits of the comparison.

    Attributes
    ----------
    ratio : float
        Maximum ratio of the standard deviations of observed and simulated responses, either way.
    draws, rows : int
        Maximum numbers of draws and rows to simulate.
    """

    ratio: float = 10.0
    draws: int = 60
    rows: int = 2000


LIMITS = Limits()
_NAME = "response_ratio"


def spread_of(problem: Any, groups: Mapping[str, Any]) -> dict[str, float]:
    """Attributes of a posterior: the unit of its priors if it is not 1, and the spread of the responses.

    The spread is the standard deviation about the expectation, divided by that of simulated responses. It is left out
    if the scale or shape is learnt, responses are classes or pairs or cannot be simulated, or rows are not in memory.
    """
    model, rows = problem.centring.original_model, problem.rows
    loss: Any = model.loss
    if loss.parameters:
        return {"response_spread": problem.unit} if problem.unit != 1 else {}
    classes = loss.binary or loss.multiclass or np.ndim(rows.target) > 1
    if classes or rows.design.is_streamed or not isinstance(loss, Simulated):
        return {}
    draws = draws_of(groups["posterior"], model, marginalised=problem.marginalised)
    X = centred_matrix(rows.design, model)
    target, offset = rows.target, rows.offset
    n, generator = X.shape[0], np.random.default_rng(0)
    chosen = np.arange(n) if n <= LIMITS.rows else np.sort(generator.choice(n, LIMITS.rows, replace=False))
    numbers = np.unique(np.linspace(0, draws.size - 1, LIMITS.draws).round().astype(int))
    few = draws.taken(numbers)
    score = few.noised_scores(X[chosen], slice(0, few.size), generator)
    score = score if offset is None else score + offset[chosen, None]
    with np.errstate(over="ignore", invalid="ignore"):
        drawn = loss.sample_response(generator, score, few.C)
        variance = float(np.mean(np.var(drawn, axis=1, ddof=1)))
        square = float(np.mean((np.asarray(target)[chosen] - drawn.mean(axis=1)) ** 2)) - variance / few.size
    if few.size < 2 or not (np.isfinite(variance) and variance > 0):
        return {}
    return {_NAME: float(np.sqrt(max(square, 0.0) / variance))}


def spread_problem(attrs: Mapping[str, Any]) -> Problem | None:
    """Problem of responses that vary far more or less than the likelihood allows; None without one.

    Examples
    --------
    >>> spread_problem({"response_ratio": 1.3}), spread_problem({"response_ratio": 50.0}).text
    (None, 'responses vary 50 times as much about their scores as their likelihood says')
    """
    ratio = float(attrs.get(_NAME, 1.0))
    if 1 / LIMITS.ratio <= ratio <= LIMITS.ratio:
        return None
    return Problem(
        f"responses vary {ratio:.2g} times as much about their scores as their likelihood says",
        "Intervals are of a wrong width: let bd.sample learn the scale or dispersion, by bd.Squared(), "
        "bd.Quantile(tau) or bd.NegativeBinomial() without a number and with C=1, or give one that fits.",
    )
