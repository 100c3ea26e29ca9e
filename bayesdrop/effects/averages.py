r"""Average expected responses over rows for each draw, with gradients for a fit without noise; used by effects.

    A = (1/Σs) Σ_i s_i E f(s̃_i),      ∂A/∂w_l = (1/Σs) Σ_i s_i x_i ∂f(s_i)/∂s_il

The inner derivative is a central difference in the intercept, whose step grows with scores in units of the response so
that rounding does not hide the difference. Rows are read and averaged as in
:func:`bayesdrop.predict`, a block at a time, so memory is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import Float, Num
from ..designs import as_design
from ..fitting.by_formula import takes_response_scale
from ..noise.base import centre_of
from ..posterior.draws.draws import Draws, blocks
from ..posterior.draws.new_rows import match_columns
from ..posterior.noise_average.expectation import DrawnScores, expected_response

__all__ = ["RULES", "Average", "Averaged", "Averages", "average_response", "column_means"]

Averages = Num[np.ndarray, "..."]  # the averages of an effect, (G, S, ..., a); complex for derivatives


@dataclass(frozen=True)
class Rules:
    """Steps of derivatives and numbers of points.

    Attributes
    ----------
    step, intercept, function : float
        Steps of central differences: in a variable, relative to its standard deviation; in the intercept; and in the
        averages that a user's function compares, relative to their size.
    points, lines : int
        Number of points of a grid for its first numeric variable, the axis of a plot, and for the others, its lines.
    law : int
        Number of points for the normal approximation to a fit, a power of two because of the Sobol sequence.
    """

    step: float = 1e-3
    intercept: float = 1e-4
    function: float = 1e-6
    points: int = 100
    lines: int = 5
    law: int = 2**14


RULES = Rules()


class Average(NamedTuple):
    """Rows to average expected responses over.

    Attributes
    ----------
    rows : array or scipy sparse (m, p)
        Changed features, NaN if missing.
    weight : array (G, m)
        Weights of the rows in the averages of ``G`` groups.
    offset : array (m,) or None
        Known parts of the scores.
    """

    rows: Any
    weight: Float[np.ndarray, "G m"]
    offset: Float[np.ndarray, " m"] | None = None


class Averaged(NamedTuple):
    """Averages (G, S, ...) and, for a fit with a covariance, their gradients in the weights (G, ..., D)."""

    values: Float[np.ndarray, "G S ..."]
    gradient: Float[np.ndarray, "G ... D"] | None


def average_response(draws: Draws, average: Average, corrupted_inputs: bool, has_gradient: bool) -> Averaged:
    """Weighted sums of expected responses over rows and, for a fit without noise, their gradients.

    Parameters
    ----------
    draws : Draws
        Draws of a posterior, or a fit as one draw.
    average : Average
        Rows, and weights of ``G`` groups.
    corrupted_inputs : bool
        Whether the rows are corrupted already.
    has_gradient : bool
        Whether to compute the gradient, for a model without noise.
    """
    groups = len(average.weight)
    classes = draws.weight.shape[1:-1]
    K, p = int(np.prod(classes)), draws.weight.shape[-1]
    fit, size = draws, 2 * K + 1 if has_gradient else draws.size
    total, gradient = np.zeros((groups, size, *classes)), np.zeros((groups, *classes, K, p + 1))
    centre = centre_of(draws.model.noise)
    for part in blocks(average.rows.shape[0], size * K):
        X, weight = match_columns(average.rows[part], draws), average.weight[:, part]
        offset = None if average.offset is None else average.offset[part]
        if has_gradient:
            step = RULES.intercept * _score_size(fit, X, offset)
            draws = _moved_intercepts(fit, step)
        values = expected_response(draws, X, corrupted_inputs, offset)
        total += np.tensordot(weight, values, axes=1)
        if has_gradient:
            rise = values[:, 1 : K + 1] - values[:, K + 1 :]  # (m, K), or (m, K of s, K of f)
            slope = np.moveaxis(rise / (2 * step), 1, -1)
            flat = (weight.T.reshape(-1, groups, *[1] * slope[0].ndim) * slope[:, None]).reshape(len(slope), -1)
            back = as_design(X).rmatvec(np.ascontiguousarray(flat)).T.reshape(*gradient.shape[:-1], p)
            level = flat.sum(axis=0).reshape(gradient.shape[:-1])
            gradient[..., :-1] += back if centre is None else back + level[..., None] * centre
            gradient[..., -1] += level
    if not has_gradient:
        return Averaged(total, None)
    return Averaged(total[:, :1], gradient.reshape(groups, *classes, -1))


def _score_size(draws: Draws, X: Any, offset: Float[np.ndarray, " n"] | None) -> float:
    """Largest score of some rows if scores are in units of the response, at least 1; else 1."""
    if not takes_response_scale(draws.model.loss):
        return 1.0
    return float(np.max(np.abs(DrawnScores(draws, X, True, offset).mean()), initial=1.0))


def _moved_intercepts(draws: Draws, step: float) -> Draws:
    """A draw, then copies of it with the intercept of one class moved up by a step, then down."""
    K = int(np.prod(draws.intercept.shape[1:]))
    moves = np.vstack([np.zeros((1, K)), step * np.eye(K), -step * np.eye(K)])
    copies = draws.taken(np.zeros(len(moves), dtype=int))
    return replace(copies, intercept=draws.intercept + moves.reshape(-1, *draws.intercept.shape[1:]))


def column_means(X: Any, weight: Float[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
    """Weighted means of the entries of each column that are not missing, of rows with weights of sum 1; NaN for none.

    Examples
    --------
    >>> column_means(np.array([[1.0, np.nan], [4.0, 2.0]]), np.array([0.75, 0.25])).tolist()
    [1.75, 2.0]
    """
    known, missing = (X.astype(np.float64) for _ in range(2))
    entries, is_missing = (part.data if hasattr(part, "nnz") else part for part in (known, missing))
    is_missing[:] = np.isnan(entries)
    entries[np.isnan(entries)] = 0.0
    share = 1 - weight @ missing
    return np.divide(weight @ known, share, out=np.full(len(share), np.nan), where=share > 1e-12)
