r"""Search for submodels by forward selection of the term that brings predictions nearest to those of the draws.

Draws are averaged in about ten clusters, so that a search fits ten projections instead of hundreds. The gain of a term
is estimated by one Newton step in all coefficients: with the included columns ``Z``, the columns ``T`` of the term,
slopes ``g`` and curvatures ``h`` of the losses of a cluster,

    gain = ½ G' S⁻¹ G,   G = T'g,   S = T'hT + ridge − T'hZ (Z'hZ + ridge)⁻¹ Z'hT.

The terms with the largest gains are fitted, and the best of them enters. A forward search may miss the best submodel of
a size, but comes close unless terms are strongly correlated (Piironen, Paasiniemi & Vehtari 2020).
"""

from __future__ import annotations

import warnings

import numpy as np

from ..._typing import Float
from .submodel import RULES, Submodel, weighted_grams

__all__ = ["clusters_of", "forward"]


def clusters_of(
    mean: Float[np.ndarray, "n S"], count: int, seed: int
) -> tuple[Float[np.ndarray, "n c"], Float[np.ndarray, " c"]]:
    """Expected responses of at most ``count`` clusters of draws, by k-means, and their shares of the draws.

    Examples
    --------
    >>> centre, share = clusters_of(np.array([[0.0, 0.0, 1.0, 1.0]]), 2, seed=0)
    >>> sorted(centre[0].tolist()), share.tolist()
    ([0.0, 1.0], [0.5, 0.5])
    """
    from scipy.cluster.vq import kmeans2

    if count >= mean.shape[1]:
        return mean, np.full(mean.shape[1], 1 / mean.shape[1])
    starts = np.random.default_rng(seed).choice(mean.shape[1], count, replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for a cluster without draws, which is dropped
        _, label = kmeans2(mean.T, mean.T[starts], minit="matrix")
    members = [label == c for c in range(count) if np.any(label == c)]
    return np.stack([mean[:, one].mean(axis=1) for one in members], axis=1), np.array([one.mean() for one in members])


def forward(
    problem: Submodel, terms: list[list[int]], first: list[int], n_terms: int, *, clusters: int, seed: int
) -> list[int]:
    """Numbers of at most ``n_terms`` terms in the order in which they enter, after those in ``first``.

    Parameters
    ----------
    problem : Submodel
        Draws and the rows for which they are projected.
    terms : list of lists of int
        Columns of each term.
    first : list of int
        Terms that every submodel has.
    n_terms : int
        Number of terms of the largest submodel.
    clusters : int
        Number of clusters of draws.
    seed : int
        Seed of the clusters.

    Examples
    --------
    >>> from bayesdrop.losses import Squared
    >>> from bayesdrop.posterior.projection.submodel import Columns, ExpectedLoss
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> mean = X @ [[0.1], [2.0], [1.0]]
    >>> problem = Submodel(ExpectedLoss(Squared()), Columns.of(X, has_intercept=True), mean, np.zeros(50))
    >>> forward(problem, [[0], [1], [2]], [], 2, clusters=1, seed=0)
    [1, 2]
    """
    mean, share = clusters_of(problem.mean, clusters, seed)
    problem = Submodel(problem.loss, problem.columns, mean, problem.offset)
    order = list(first)
    weight, _ = problem.project([j for term in order for j in terms[term]])
    while len(order) < n_terms:
        left = [number for number in range(len(terms)) if number not in order]
        columns = [j for term in order for j in terms[term]]
        gains = _gains(problem, columns, weight, [terms[number] for number in left]) @ share
        tried = [left[place] for place in np.argsort(-gains, kind="stable")[: RULES.refits]]
        fits = [problem.project(columns + terms[number], weight) for number in tried]
        best = int(np.argmin([energy @ share for _, energy in fits]))
        order.append(tried[best])
        weight = fits[best][0]
    return order


def _gains(
    problem: Submodel, columns: list[int], weight: Float[np.ndarray, "c k"], terms: list[list[int]]
) -> Float[np.ndarray, "t c"]:
    """Decrease of the energies, averaged over clusters, by one Newton step when a term enters."""
    every, inside = problem.columns.matrix, problem.columns.take(columns)
    slope, curvature = problem.loss.derivatives(problem.mean, problem.score(inside, weight))
    ridge, clusters = RULES.ridge * len(inside), weight.shape[0]
    gradient = np.asarray(every.T @ slope)
    squares = every.multiply(every) if hasattr(every, "multiply") else every * every
    diagonal = np.asarray(squares.T @ curvature) + ridge
    hessian = weighted_grams(inside, curvature) + np.diag(problem.penalty(inside.shape[1]))
    gains = np.empty((len(terms), clusters))
    single = np.array([len(term) == 1 for term in terms])
    alone = np.array([term[0] for term, one in zip(terms, single, strict=True) if one], dtype=int)
    for c in range(clusters):
        cross = np.asarray(every.T @ (curvature[:, [c]] * inside))  # (p, k)
        solved = np.linalg.solve(hessian[c], cross.T)
        residual = diagonal[alone, c] - np.einsum("jk,kj->j", cross[alone], solved[:, alone])
        gains[single, c] = 0.5 * gradient[alone, c] ** 2 / np.maximum(residual, ridge)
        for place in np.flatnonzero(~single):
            term = terms[place]
            block = every[:, term]
            block = block.toarray() if hasattr(block, "toarray") else block
            gram = block.T @ (curvature[:, [c]] * block) + ridge * np.eye(len(term)) - cross[term] @ solved[:, term]
            gains[place, c] = 0.5 * gradient[term, c] @ np.linalg.solve(gram, gradient[term, c])
    return gains
