r"""Fits in which one column stands for all that are equal to it.

By symmetry ``d`` equal columns with one prior and one rate have one weight ``w`` and one rate at the optimum of a
strictly convex energy, and at one of those of any other. They add to the moments of the scores, and to the prior,

    d (g x + h) w,    d (a x² + b x + c) w²,    ½ d λ w²,

which is one column with ``d`` times the coefficients and the precision. So a fit to the distinct columns is a fit to
all of them, with as many numbers less; of words in text that is half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._typing import Float, Num, Shaped
from ...designs import Design
from ...designs.sparse import DistinctColumns
from ...priors.rate_prior import map_arrays
from ...rates import RateMap
from ..solvers.rate_update import SignCounts

__all__ = ["DuplicateColumns", "duplicate_columns"]

# Numbers of a block (p, K) from which on it is worth a look.
_LARGE = 100_000


@dataclass(frozen=True)
class DuplicateColumns:
    """Distinct columns, and what becomes of that which is said of all.

    Attributes
    ----------
    columns : DistinctColumns
        Which they are.
    rate_map : RateMap
        Of the distinct ones.
    own : bool
        Whether each feature has a learnt rate of its own.
    """

    columns: DistinctColumns
    rate_map: RateMap
    own: bool

    @property
    def design(self) -> Design:
        """The distinct columns, (n, u)."""
        return self.columns.design

    def weights_of(self, weights: Float[np.ndarray, "q K"]) -> Float[np.ndarray, "r K"]:
        """Weights of the distinct columns, the intercepts last, (u + 1, K), from those of all, (p + 1, K)."""
        return weights[np.append(self.columns.first, len(weights) - 1)]

    def of_features(self, block: Float[np.ndarray, "p ..."]) -> Float[np.ndarray, "u ..."]:
        """Numbers of the distinct columns, (u, …), from those of all, (p, …)."""
        return block[self.columns.first]

    def precision_of(self, precision: Float[np.ndarray, "q 1"]) -> Float[np.ndarray, "r 1"]:
        """Precision of the weights of the distinct columns, (u + 1, 1)."""
        return self.weights_of(precision) * np.append(self.columns.copies, 1.0)[:, None]

    def all_weights(self, weights: Float[np.ndarray, "r K"]) -> Float[np.ndarray, "q K"]:
        """Weights of all columns, the intercepts last."""
        return weights[np.append(self.columns.index, len(weights) - 1)]

    def all_features(self, block: Shaped[np.ndarray, "u ..."]) -> Shaped[np.ndarray, "p ..."]:
        """Numbers of all columns."""
        return block[self.columns.index]

    def all_counts(self, counts: SignCounts | None) -> SignCounts | None:
        """Counts of signs of all columns."""
        if counts is None:
            return None
        return SignCounts(self.all_features(counts.above), self.all_features(counts.below), counts.total)

    def all_rates(self, block: Any) -> Any:
        """What is said of the free rates, an array (k, …) or a law of such, of those of all columns; or None."""
        if block is None or not self.own:
            return block

        def each(part: Any) -> Any:
            return self.all_features(part) if np.shape(part)[:1] == self.columns.first.shape else part

        return map_arrays(each, block) if isinstance(block, tuple) else each(block)


def duplicate_columns(
    design: Design,
    rate_map: RateMap,
    problems: int,
    precision: Float[np.ndarray, "q 1"],
    rate: Float[np.ndarray, "p K"] | None = None,
) -> DuplicateColumns | None:
    """The duplicate columns in a fit; None where there are few, or the model does not treat them alike.

    Parameters
    ----------
    design : Design (n, p)
        The matrix.
    rate_map : RateMap
        Of its columns.
    problems : int
        ``K``.
    precision : array (p + 1, 1)
        Prior precision of the weights.
    rate : array (p, K), optional
        Fixed rates of each problem.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> import bayesdrop as bd
    >>> from bayesdrop.designs import as_design
    >>> words = as_design(csr_array([[1.0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]]))
    >>> found = duplicate_columns(words, bd.Fixed(0.3).bind("abcd"), 50_000, np.ones((5, 1)))
    >>> found.columns.copies.tolist()
    [3.0, 1.0]
    >>> found.all_weights(np.array([[2.0], [-1.0], [0.5]])).ravel().tolist()
    [2.0, 2.0, 2.0, -1.0, 0.5]
    """
    if design.shape[1] * problems < _LARGE or (found := design.distinct) is None:
        return None
    first, index = found.first, found.index
    own = rate_map.is_free and rate_map.dim == "feature"
    said: list[Num[np.ndarray, "p ..."]] = [precision[:-1], rate_map.initial if rate is None else rate]
    if rate_map.is_free and not own:
        said.append(rate_map.index)
    if not all(np.array_equal(part, part[first][index]) for part in said):
        return None
    few = rate_map.standing_for(first, found.copies)
    return None if own and not _is_one_law(few, problems) else DuplicateColumns(found, few, own)


def _is_one_law(rate_map: RateMap, problems: int) -> bool:
    """Whether the prior of the rates is one for all features: one with numbers for each has them for so many alone."""
    try:
        rate_map.prior.law(np.zeros((rate_map.size, problems)))
    except ValueError:
        return False
    return True
