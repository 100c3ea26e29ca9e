"""Find credible sets: smallest sets of correlated features, one of which has an effect."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import DataFrame, Float
from .._validation import check_number
from ..data.column_facts import complete_rows
from ..designs import Design
from ..priors.base import selecting
from .draws.draws import read_draws
from .draws.new_rows import match_design

__all__ = ["credible_sets"]


def credible_sets(post: Any, X: Any, *, probability: float = 0.95, correlation: float = 0.5) -> DataFrame:
    """Find sets of correlated features, one of which is in the model with a given probability.

    If two features are nearly equal, some draws include one and some the other, and neither has a large inclusion
    probability. The set of both has. Of many classes a feature is in the model where any of them has it.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample`` returned under the prior ``bd.SpikeSlab``.
    X : array, data frame or scipy sparse (n, p)
        The features that were sampled, from which correlations are computed, with missing entries at the means of
        their columns; with a formula, its table.
    probability : float, default=0.95
        Minimum share of draws that include a feature of the set, in (0, 1).
    correlation : float, default=0.5
        Minimum absolute correlation of any two features of a set, in [0, 1]: the purity of Wang et al. (2020).

    Returns
    -------
    pandas.DataFrame
        One row for each set, the most probable first: ``features``, a tuple of names; ``probability`` that at least
        one of them is in the model; ``expected_size``, the mean number of them in it, which is near 1 for one effect;
        and ``least_correlation`` of any two. A feature is in one set at most. An effect has no set if none is that
        probable.

    Raises
    ------
    ValueError
        If ``post`` was not sampled under ``bd.SpikeSlab``, or ``X`` has other columns.

    See Also
    --------
    SpikeSlab, weights_table

    References
    ----------
    Wang, Sarkar, Carbonetto & Stephens (2020), A simple new approach to variable selection in regression, JRSS B 82.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> X[:, 1] = X[:, 0] + 0.05 * X[:, 1]
    >>> model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab(0.2))
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", bd.MixingWarning)  # of so few draws
    ...     post = bd.sample(model, X, X[:, 0] + rng.normal(size=200), draws=100, chains=2, progress=False)
    >>> credible_sets(post, X)["features"].tolist()
    [('x0', 'x1')]
    """
    import pandas as pd

    check_number(probability, "probability", above=0, below=1)
    check_number(correlation, "correlation", least=0, most=1)
    draws = read_draws(post)
    prior: Any = draws.model.weight_prior
    if selecting(prior) is None:
        raise ValueError(
            f"post: expected draws under bd.SpikeSlab, whose weights are zero or not, got those under {prior!r}."
        )
    (X,) = complete_rows(X, draws.feature_names, draws.facts)
    design = match_design(X, draws.feature_names, draws.model, draws.facts)
    summary = design.column_summary(np.ones(design.shape[0]))
    design = design.shifted(summary.mean)
    size = np.where(summary.varies, np.sqrt(summary.scatter), 0.0)
    included = np.asarray(draws.weight != 0)
    if included.ndim > 2:
        included = np.asarray(included.any(axis=1))
    chance = included.mean(axis=0)
    chance[len(chance) - getattr(prior, "size", 0) :] = 0  # effects of random terms are in every draw
    free, found = chance > 0, []
    for first in np.argsort(-chance, kind="stable"):
        if not free[first]:
            continue
        members, is_in, least = [int(first)], included[:, first].copy(), 1.0
        nearest = _correlations(design, size, int(first))
        possible = free & (nearest >= correlation)
        possible[first] = False
        while is_in.mean() < probability and possible.any():
            # The feature included most often in draws without any feature of the set.
            gain = np.where(possible, included[~is_in].sum(axis=0), -1)
            best = int(np.argmax(gain))
            if gain[best] <= 0:
                break
            members.append(best)
            is_in |= included[:, best]
            least, nearest = min(least, float(nearest[best])), np.minimum(nearest, _correlations(design, size, best))
            possible &= nearest >= correlation
            possible[best] = False
        if is_in.mean() >= probability:
            free[members] = False
            found.append((members, is_in, least))
    names = [tuple(draws.feature_names[d] for d in sorted(members)) for members, _, _ in found]
    table = pd.DataFrame(
        {
            "features": pd.Series(names, dtype=object),
            "probability": [float(is_in.mean()) for _, is_in, _ in found],
            "expected_size": [float(chance[members].sum()) for members, _, _ in found],
            "least_correlation": [least for _, _, least in found],
        }
    )
    return table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)


def _correlations(design: Design, size: Float[np.ndarray, " p"], d: int) -> Float[np.ndarray, " p"]:
    """Absolute correlation of every column with column ``d``; 0 of constant columns.

    ``design`` has columns minus their means, with missing entries as 0, and ``size`` is the root of their sums of
    squares.
    """
    shared = np.abs(design.rmatvec(design.matvec(1.0 * (np.arange(len(size)) == d))))
    scale = size * size[d]
    return np.divide(shared, scale, out=np.zeros(len(size)), where=scale > 0)
