r"""Precision of a normal approximation of many rows and many features, by products, and a factor of its inverse.

Weights and the probits of free rates, ``q`` coordinates in all, have the precision

    H = P + A₀ᵀDA₀,      A₀ = XL − 1x̄ᵀ,      x̄ = (XL)ᵀD1/ΣD,

``L`` (p, q) being what they do to the coefficients of the features: the gain of the noise for the weight, its slope in
the rate times the weight for the rate. Without an intercept ``x̄`` is zero. Without noise ``L`` is one.

The factor (:class:`.factors.DirectionFactor`) has the diagonal ``S = min(diag H, 4P)`` and the leading directions of
``S^{−½}HS^{−½}`` by subspace iteration (Halko, Martinsson & Tropp 2011, algorithm 4.4). The diagonal of ``H`` alone
would give two words that always come together, of which the rows tell the sum and the prior the difference, steps as
short for the one as for the other; with at most 4 times the prior's no direction turns less than half as fast as it
should, and those that turn faster are the leading ones. A rate that many features share is one of them, with what the
weights do along with it.

Shapes: ``n`` rows, ``p`` features, ``m`` vectors, ``k`` directions.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ...designs import Design
from ..kernels.factors import DirectionFactor
from .row_factor import RateLoading

__all__ = ["Precision", "direction_factor", "leading_directions", "loading_of", "precision_of"]

# Most that the rows add to the diagonal, in multiples of the prior's precision.
_LARGEST = 4.0
# Directions: at most so many, those whose curvature is beyond the others', by so many passes.
_MOST_DIRECTIONS, _MORE, _BEYOND, _PASSES = 256, 10, 2.0, 3


def loading_of(gain: Float[np.ndarray, " p"], rates: RateLoading | None = None) -> Any:
    """``L`` (p, q), sparse, for the gains of the weights and free rates.

    Examples
    --------
    >>> rates = RateLoading(np.array([3.0, 4.0]), np.array([0, 0]), np.ones(1))
    >>> loading_of(np.array([1.0, 0.5]), rates).toarray().tolist()
    [[1.0, 0.0, 3.0], [0.0, 0.5, 4.0]]
    """
    from scipy.sparse import csr_array

    p = len(gain)
    here, value, q = np.arange(p), gain, p
    column = here
    if rates is not None:
        column, value = np.concatenate([here, p + rates.index]), np.concatenate([gain, rates.slope])
        here, q = np.tile(here, 2), p + len(rates.precision)
    return csr_array((value, (here, column)), shape=(p, q))


class Precision(NamedTuple):
    """``H``, by products.

    Attributes
    ----------
    design : Design (n, p)
        ``X``.
    loading : scipy sparse (p, q)
        ``L``.
    prior : array (q,)
        ``P``.
    curvature : array (n,)
        ``D``.
    mean : array (q,)
        ``x̄``, zero without an intercept.
    """

    design: Design
    loading: Any
    prior: Float[np.ndarray, " q"]
    curvature: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " q"]

    def rows(self, w: Float[np.ndarray, "q m"]) -> Float[np.ndarray, "n m"]:
        """``A₀w``."""
        found: Float[np.ndarray, "n m"] = self.design.matvec(self.loading @ w) - self.mean @ w
        return found

    def columns(self, r: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "q m"]:
        """``A₀ᵀr``."""
        found: Float[np.ndarray, "q m"] = self.loading.T @ self.design.rmatvec(r)
        return found - np.outer(self.mean, r.sum(axis=0))

    def times(self, w: Float[np.ndarray, "q m"]) -> Float[np.ndarray, "q m"]:
        """``Hw``."""
        return self.prior[:, None] * w + self.columns(self.curvature[:, None] * self.rows(w))

    def diagonal(self) -> Float[np.ndarray, " q"]:
        """Diagonal of ``H``; for a rate as if its features came in different rows."""
        own = self.design.sq_rmatvec(self.curvature)
        if np.any(self.mean):
            own = own - self.design.rmatvec(self.curvature) ** 2 / self.curvature.sum()
        found: Float[np.ndarray, " q"] = self.prior + self.loading.power(2).T @ np.maximum(own, 0.0)
        return found


def precision_of(
    design: Design, prior: Float[np.ndarray, " q"], curvature: Float[np.ndarray, " n"], intercept: bool, loading: Any
) -> Precision:
    """``H`` for prior precisions (q,), curvatures (n,) and a loading (p, q)."""
    none = np.zeros(len(prior))
    mean = loading.T @ design.rmatvec(curvature) / curvature.sum() if intercept else none
    return Precision(design, loading, prior, curvature, mean)


def leading_directions(
    found: Precision, scale: Float[np.ndarray, " q"], most: int
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "q k"]]:
    """Ritz values (k,) of ``S^{−½}HS^{−½}`` from the largest, at most so many, and their directions (q, k).

    ``scale`` is ``S^{−½}``. Values below 2 are left out: beside the others they are no longer apart.
    """
    q = len(scale)
    start = np.random.default_rng(0).normal(size=(q, min(most + _MORE, q)))
    basis, image = np.linalg.qr(start)[0], np.zeros((0, 0))
    for number in range(_PASSES):
        image = scale[:, None] * found.times(scale[:, None] * basis)
        if number + 1 < _PASSES:
            basis = np.linalg.qr(image)[0]
    inside = basis.T @ image
    value, vector = np.linalg.eigh(0.5 * (inside + inside.T))
    value, vector = value[::-1][:most], vector[:, ::-1][:, :most]
    kept = value > _BEYOND
    return value[kept], basis @ vector[:, kept]


def direction_factor(found: Precision, intercept: bool, dtype: str) -> DirectionFactor:
    """Factor of ``H``; call it under its precision.

    There are as many directions as the matrix has entries in two columns, at most 256: products with them then take
    about as long as those with the matrix.
    """
    n, p = found.design.shape
    entries = float(np.sum(found.design.occurrences(np.ones(n)))) / p
    scale = 1 / np.sqrt(np.minimum(found.diagonal(), _LARGEST * found.prior))
    value, vector = leading_directions(found, scale, int(np.clip(2 * entries, 1, _MOST_DIRECTIONS)))
    real = partial(jnp.asarray, dtype=dtype)
    level = np.full(int(intercept), found.curvature.sum() ** -0.5)
    return DirectionFactor(
        real(scale[:p]), real(scale[p:]), real(vector.T), real(value**-0.5), real(found.mean), real(level),
        real(np.ones(len(scale) + len(level))),
    )  # fmt: skip
