r"""Normal approximation of a posterior of many rows and many features, by draws of itself.

Without noise the best normal approximation ``N(c, H⁻¹)`` (Opper & Archambeau 2009, section 3) has ``H = P + XᵀDX`` with

    g_i = E ∂cost_i(s_i),    D_i = E ∂²cost_i(s_i),    s_i ~ N(m_i, v_i),    Pc + Xᵀg = 0,

``m`` and ``v`` being the mean and variance of the scores under it. Here no factor of ``H`` is within reach. Products
with it take two with the matrix, so that by conjugate gradients (Hestenes & Stiefel 1952) a step of Newton's method and
draws ``H⁻¹(P^½ε + XᵀD^½ε')`` (Papandreou & Yuille 2010), whose law is ``N(0, H⁻¹)``, are solved for side by side, and
the variances ``v`` are those of the draws. As in :mod:`.row_factor` rows are less their mean if there is an intercept.

The factor (:mod:`.direction_factor`) has the diagonal ``S = min(diag H, 4P)`` and the leading directions of
``S^{−½}HS^{−½}`` by subspace iteration (Halko, Martinsson & Tropp 2011, algorithm 4.4). The diagonal of ``H`` alone
would give two words that always come together, of which the rows tell the sum and the prior the difference, steps as
short for the one as for the other; with at most 4 times the prior's no direction turns less than half as fast as it
should, and those that turn faster are the leading ones. Nothing about a sampler's correctness rests on any of it.

Shapes: ``n`` rows, ``p`` features, ``m`` draws, ``k`` directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ...data.dataset import Dataset
from ...designs import Design
from ...losses.protocols import Curved, require
from ...model import Model
from ...rates import RateMap
from .direction_factor import DirectionFactor
from .row_factor import by_rows, without_noise

__all__ = [
    "DrawnApproximation", "Precision", "by_draws", "conjugate_gradients", "direction_factor", "drawn_approximation",
    "leading_directions", "precision_of",
]  # fmt: skip

# Features from which on.
_MANY = 1500
_STEPS, _SHARE, _CLOSE = 40, 0.5, 0.05
_DRAWS = 16
# Curvature of a row, as a share of the largest, below which it is not followed.
_FLAT = 1e-6
# Residual, as a share of the right side, and iterations of conjugate gradients.
_RESIDUAL, _ITERATIONS = 0.03, 100
# Most that the rows add to the diagonal, in multiples of the prior's precision.
_LARGEST = 4.0
# Directions: at most so many, those whose curvature is beyond the others', by so many passes.
_MOST_DIRECTIONS, _MORE, _BEYOND, _PASSES = 256, 10, 2.0, 3


def by_draws(model: Model, data: Dataset, rate_map: RateMap) -> bool:
    """True if neither a dense factor nor one by rows is within reach, and this approximation is for the model.

    A factor of all coordinates is kept below 1,500 features, and one by rows where
    :func:`bayesdrop.mcmc.hmc.row_factor.by_rows` says so. Beyond, a model without noise, of a single score, of normal
    weights of known scales, and with rows in memory has this one: a kick reads ``4kp`` numbers of its ``k`` directions
    and makes two passes over the matrix.
    """
    possible = model.weight_prior.gaussian and data.design.scans_columns and not model.loss.multiclass
    beyond = data.design.shape[1] >= _MANY and not by_rows(model, data)
    return possible and beyond and without_noise(model, rate_map) and isinstance(model.loss.plain, Curved)


class Precision(NamedTuple):
    """``H``, by products.

    Attributes
    ----------
    design : Design (n, p)
        ``X``.
    prior : array (p,)
        ``P``.
    curvature : array (n,)
        ``D``.
    mean : array (p,)
        ``x̄``, zero without an intercept.
    """

    design: Design
    prior: Float[np.ndarray, " p"]
    curvature: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " p"]

    def rows(self, w: Float[np.ndarray, "p m"]) -> Float[np.ndarray, "n m"]:
        """``A₀w``."""
        found: Float[np.ndarray, "n m"] = self.design.matvec(w) - self.mean @ w
        return found

    def columns(self, r: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "p m"]:
        """``A₀ᵀr``."""
        found: Float[np.ndarray, "p m"] = self.design.rmatvec(r) - np.outer(self.mean, r.sum(axis=0))
        return found

    def times(self, w: Float[np.ndarray, "p m"]) -> Float[np.ndarray, "p m"]:
        """``Hw``."""
        return self.prior[:, None] * w + self.columns(self.curvature[:, None] * self.rows(w))

    def noise(
        self, of_weights: Float[np.ndarray, "p m"], of_rows: Float[np.ndarray, "n m"]
    ) -> Float[np.ndarray, "p m"]:
        """``P^½ε + A₀ᵀD^½ε'``, of covariance ``H`` for standard normal ``ε`` and ``ε'``."""
        return np.sqrt(self.prior)[:, None] * of_weights + self.columns(np.sqrt(self.curvature)[:, None] * of_rows)

    def diagonal(self) -> Float[np.ndarray, " p"]:
        """Diagonal of ``H``."""
        own = self.design.sq_rmatvec(self.curvature) - self.curvature.sum() * self.mean**2
        return self.prior + np.maximum(own, 0.0)


def precision_of(
    design: Design, prior: Float[np.ndarray, " p"], curvature: Float[np.ndarray, " n"], intercept: bool
) -> Precision:
    """``H`` for prior precisions (p,) and curvatures (n,)."""
    mean = design.rmatvec(curvature) / curvature.sum() if intercept else np.zeros(len(prior))
    return Precision(design, prior, curvature, mean)


def conjugate_gradients(
    times: Callable[[Float[np.ndarray, "p m"]], Float[np.ndarray, "p m"]],
    right: Float[np.ndarray, "p m"],
    diagonal: Float[np.ndarray, " p"],
    start: Float[np.ndarray, "p m"],
    residual: float = _RESIDUAL,
) -> Float[np.ndarray, "p m"]:
    """Solve ``Hx = b`` for every column, until what is left is a small share of ``b`` or 100 products are made.

    Examples
    --------
    >>> H = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> x = conjugate_gradients(lambda x: H @ x, np.array([[5.0], [10.0]]), np.diag(H), np.zeros((2, 1)), 1e-9)
    >>> x.round(6).tolist()
    [[1.0], [3.0]]
    """
    x, inverse = start, 1 / diagonal[:, None]
    aim = residual**2 * np.sum(right * inverse * right, axis=0)
    left = right - times(x)
    step = inverse * left
    size = np.sum(left * step, axis=0)
    for _ in range(_ITERATIONS):
        if np.all(size <= aim):
            break
        image = times(step)
        # A column that is solved has no step any more.
        length = size / np.maximum(np.sum(step * image, axis=0), 1e-300)
        x, left = x + length * step, left - length * image
        new = np.sum(left * inverse * left, axis=0)
        step = inverse * left + new / np.maximum(size, 1e-300) * step
        size = new
    return x


class DrawnApproximation(NamedTuple):
    """What it is made of.

    Attributes
    ----------
    centre : array (D,)
        Mean of weights and intercept.
    precision : Precision
        ``H`` of the weights.
    spread : array (n,)
        Standard deviations of the scores.
    """

    centre: Float[np.ndarray, " D"]
    precision: Precision
    spread: Float[np.ndarray, " n"]


def drawn_approximation(model: Model, data: Dataset) -> DrawnApproximation:
    """Approximate the posterior of a model without noise.

    Raises
    ------
    ValueError
        If the loss has no derivatives.
    """
    loss: Any = require(model.loss.plain, Curved, "hmc", "write what lacks, or use bd.fit")
    gaussian = hasattr(loss, "expectation")
    # A loss of the user's own may have no Gaussian form; its curvature is then that at the mean.
    loss = replace(loss, expectation="gaussian") if gaussian else loss
    design, intercept = data.design, model.fit_intercept
    n, p = design.shape
    prior, weight = model.weight_prior.precision(p), model.C * data.weight
    known = 0.0 if data.offset is None else data.offset
    generator = np.random.default_rng(0)
    of_weights, of_rows, of_level = (generator.normal(size=(size, _DRAWS)) for size in (p, n, 1))
    centre, level, draws = np.zeros(p), 0.0, np.zeros((p, _DRAWS))
    mean, variance = np.zeros(n), np.maximum(design.sq_matvec(1 / prior), 1e-12)
    curvature, found = np.zeros(n), precision_of(design, prior, np.ones(n), intercept)
    for number in range(_STEPS):
        slopes = loss.derivatives(data.target, mean + known, variance if gaussian else 0 * variance)
        slope, bend = weight * slopes.mean, weight * np.maximum(slopes.mean_mean, 0)
        bend = np.maximum(bend, _FLAT * (bend.max() or 1.0))
        curvature = curvature + (_SHARE if number else 1.0) * (bend - curvature)
        found = precision_of(design, prior, curvature, intercept)
        total, own = curvature.sum(), slope.sum() if intercept else 0.0
        pull = -(prior * centre + design.rmatvec(slope) - found.mean * own)
        right = np.column_stack([pull, found.noise(of_weights, of_rows)])
        start = np.column_stack([np.zeros(p), draws])
        solved = conjugate_gradients(found.times, right, found.diagonal(), start)
        move, draws = solved[:, 0], solved[:, 1:]
        centre, level = centre + move, level - own / total - found.mean @ move if intercept else 0.0
        spread = found.rows(draws) + (of_level / np.sqrt(total) if intercept else 0.0)
        before = mean, variance
        mean, variance = design.matvec(centre) + level, np.maximum(np.mean(spread**2, axis=1), 1e-12)
        change = np.mean((mean - before[0]) ** 2), np.mean((np.sqrt(variance) - np.sqrt(before[1])) ** 2)
        if max(change) < _CLOSE**2 * np.mean(variance):
            break
    return DrawnApproximation(np.append(centre, [level] if intercept else []), found, np.sqrt(variance))


def leading_directions(
    found: Precision, scale: Float[np.ndarray, " p"], most: int
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "p k"]]:
    """Ritz values (k,) of ``S^{−½}HS^{−½}`` from the largest, at most so many, and their directions (p, k).

    ``scale`` is ``S^{−½}``. Values below 2 are left out: beside the others they are no longer apart.
    """
    p = len(scale)
    start = np.random.default_rng(0).normal(size=(p, min(most + _MORE, p)))
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
        real(scale), real(vector.T), real(value**-0.5), real(found.mean), real(level), real(np.ones(p + len(level)))
    )
