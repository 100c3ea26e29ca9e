"""Compute the precision of a normal approximation of many features by products, and factors of its inverse.

Weights and the probits of free rates, ``q`` coordinates in all, have the precision

    H = P + A₀ᵀDA₀,      A₀ = XL − 1x̄ᵀ,      x̄ = (XL)ᵀD1/ΣD,

where ``L`` (p, q) holds the derivatives of the coefficients of the features: the gain of the noise for a weight, and
its slope in the probit times the weight for a rate. Without an intercept ``x̄`` is zero. Without noise ``L`` is one.

The factor by rows uses Cholesky factors of n × n matrices (:mod:`bayesdrop.hmc.kernels.factors`). The factor by
directions has the diagonal ``S = min(diag H, 4P)`` and the leading directions of ``S^{−½}HS^{−½}`` by subspace
iteration (Halko, Martinsson & Tropp 2011, algorithm 4.4). With the diagonal of ``H`` alone, two words that always occur
together would get equally short steps for their sum, which the rows determine, and for their difference, which the
prior determines. With at most 4 times the precision of the prior no direction turns less than half as fast as it
should, and those that turn faster are the leading ones, such as a rate that many features share, together with the
correlated weights.

Shapes: ``n`` rows, ``p`` features, ``m`` vectors, ``k`` rates or directions.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np

from ..._typing import Float, Int
from ...data.dataset import Dataset
from ...designs import Design
from ...sampling.matrix import Matrix, placed
from ..kernels.factors import DirectionRoot, Frame, RowRoot, StructuredFactor, WeightedRows

__all__ = [
    "Precision",
    "RateLoading",
    "RowRoots",
    "centred_gram",
    "direction_factor",
    "leading_directions",
    "loading_of",
    "precision_of",
    "row_factor",
    "row_gram",
    "row_roots",
]

PerFeature: TypeAlias = Float[np.ndarray, " p"]
PerRow: TypeAlias = Float[np.ndarray, " n"]
PerCoordinate: TypeAlias = Float[np.ndarray, " q"]
RowMatrix: TypeAlias = Float[np.ndarray, "n n"]


def centred_gram(gram: RowMatrix, curvature: PerRow, intercept: bool) -> RowMatrix:
    """``A₀P⁻¹A₀ᵀ`` from ``Xdiag(g²)P⁻¹Xᵀ``, both (n, n)."""
    if not intercept:
        return gram
    share = curvature / curvature.sum()
    mean = gram @ share
    return gram - mean[:, None] - mean + share @ mean


class RowRoots(NamedTuple):
    """Matrices (n, n) of the factor by rows.

    Attributes
    ----------
    lower, inner, outer : array (n, n)
        ``L``, ``N`` and ``(1 + Lᵀ)⁻¹``.
    """

    lower: RowMatrix
    inner: RowMatrix
    outer: RowMatrix


def row_roots(gram: RowMatrix, curvature: PerRow) -> RowRoots:
    """Roots for a :func:`centred_gram` (n, n) and curvatures (n,).

    Examples
    --------
    >>> lower, inner, outer = row_roots(np.array([[15.0]]), np.array([1.0]))
    >>> [round(float(part[0, 0]), 6) for part in (lower, inner, outer)]  # (1 − 15 · 0.05)² = 1/16
    [4.0, 0.05, 0.2]
    """
    from scipy.linalg import cholesky, solve_triangular

    root, eye = np.sqrt(curvature), np.eye(len(curvature))
    lower = cholesky(eye + root[:, None] * gram * root, lower=True, check_finite=False)
    inverse = solve_triangular(lower + eye, eye, lower=True, check_finite=False)
    return RowRoots(lower, solve_triangular(lower, inverse, lower=True, trans="T", check_finite=False), inverse.T)


class RateLoading(NamedTuple):
    """Effect of free rates on the coefficients of the features.

    Attributes
    ----------
    slope : array (p,)
        Derivative of each feature's coefficient in the probit of its rate.
    index : int array (p,)
        Free rate of each feature.
    precision : array (k,)
        ``P`` of the rates.
    """

    slope: PerFeature
    index: Int[np.ndarray, " p"]  # type: ignore[assignment]  # tuples have a method of this name
    precision: Float[np.ndarray, " k"]

    def gram(self, design: Design) -> RowMatrix:
        """Contribution of the rates to ``Xdiag(g²)P⁻¹Xᵀ``."""
        k = len(self.precision)
        if k == len(self.index):  # each feature has its own
            return design.outer_gram(self.slope**2 / self.precision[self.index])
        from scipy.sparse import csr_array

        place = (np.arange(len(self.index)), self.index)
        spread = csr_array((self.slope, place), shape=(len(self.index), k)).toarray()
        moved = design.matvec(spread / np.sqrt(self.precision))
        return moved @ moved.T


def row_gram(
    design: Design,
    precision: PerFeature,
    gain: PerFeature,
    curvature: PerRow,
    intercept: bool,
    rates: RateLoading | None = None,
) -> RowMatrix:
    """``A₀P⁻¹A₀ᵀ`` of weights and free rates."""
    gram = design.outer_gram(gain**2 / precision)
    return centred_gram(gram if rates is None else gram + rates.gram(design), curvature, intercept)


def row_factor(
    data: Dataset,
    matrix: Matrix,
    precision: PerFeature,
    gain: PerFeature,
    curvature: PerRow,
    roots: RowRoots,
    intercept: bool,
    dtype: str,
    rates: RateLoading | None = None,
) -> StructuredFactor:
    """Factor for prior precisions (p,), gains (p,) and row curvatures (n,); call it with JAX in that ``dtype``."""
    real, scale, total = partial(placed, dtype=dtype), precision**-0.5, curvature.sum()
    mean = data.design.rmatvec(curvature) / total if intercept else np.zeros(len(scale))
    offset, rate_loading, index, rate_scale = gain * mean * scale, None, None, np.zeros(0)
    if rates is not None:
        rate_scale = rates.precision**-0.5
        rate_loading, index = real(rates.slope * rate_scale[rates.index]), placed(rates.index, np.int32)
        offset = np.append(offset, np.bincount(rates.index, rates.slope * mean, len(rate_scale)) * rate_scale)
    frame = Frame(real(scale), real(rate_scale), real(offset), real(np.full(int(intercept), total**-0.5)))
    rows = WeightedRows(matrix, real(gain * scale), rate_loading, index, frame.offset, real(np.sqrt(curvature)))
    root = RowRoot(rows, real(roots.inner), real(roots.inner.T), real(roots.outer))
    return StructuredFactor(frame, root, real(np.ones(len(frame.offset) + len(frame.level))))


def loading_of(gain: PerFeature, rates: RateLoading | None = None) -> Any:
    """``L`` (p, q), sparse, for the gains of the weights and free rates.

    Examples
    --------
    >>> rates = RateLoading(np.array([3.0, 4.0]), np.array([0, 0]), np.ones(1))
    >>> loading_of(np.array([1.0, 0.5]), rates).toarray().tolist()
    [[1.0, 0.0, 3.0], [0.0, 0.5, 4.0]]
    """
    from scipy.sparse import csr_array

    p = len(gain)
    row_index, value, q = np.arange(p), gain, p
    column = row_index
    if rates is not None:
        column, value = np.concatenate([row_index, p + rates.index]), np.concatenate([gain, rates.slope])
        row_index, q = np.tile(row_index, 2), p + len(rates.precision)
    return csr_array((value, (row_index, column)), shape=(p, q))


class Precision(NamedTuple):
    """Precision ``H``, by products.

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
    prior: PerCoordinate
    curvature: PerRow
    mean: PerCoordinate

    def rows(self, w: Float[np.ndarray, "q m"]) -> Float[np.ndarray, "n m"]:
        """``A₀w``."""
        product: Float[np.ndarray, "n m"] = self.design.matvec(self.loading @ w) - self.mean @ w
        return product

    def columns(self, r: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "q m"]:
        """``A₀ᵀr``."""
        product: Float[np.ndarray, "q m"] = self.loading.T @ self.design.rmatvec(r)
        return product - np.outer(self.mean, r.sum(axis=0))

    def times(self, w: Float[np.ndarray, "q m"]) -> Float[np.ndarray, "q m"]:
        """``Hw``."""
        return self.prior[:, None] * w + self.columns(self.curvature[:, None] * self.rows(w))

    def diagonal(self) -> PerCoordinate:
        """Diagonal of ``H``; for a rate, as if each row had only one of its features."""
        square_sums = self.design.sq_rmatvec(self.curvature)
        if np.any(self.mean):
            square_sums = square_sums - self.design.rmatvec(self.curvature) ** 2 / self.curvature.sum()
        diagonal: PerCoordinate = self.prior + self.loading.power(2).T @ np.maximum(square_sums, 0.0)
        return diagonal


def precision_of(design: Design, prior: PerCoordinate, curvature: PerRow, intercept: bool, loading: Any) -> Precision:
    """``H`` for prior precisions (q,), curvatures (n,) and a loading (p, q)."""
    none = np.zeros(len(prior))
    mean = loading.T @ design.rmatvec(curvature) / curvature.sum() if intercept else none
    return Precision(design, loading, prior, curvature, mean)


def leading_directions(
    precision: Precision, scale: PerCoordinate, limit: int, more: int = 10, passes: int = 3, beyond: float = 2.0
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "q k"]]:
    """Ritz values (k,) of ``S^{−½}HS^{−½}`` from the largest, at most ``limit``, and their directions (q, k).

    ``scale`` is ``S^{−½}``. ``more`` vectors than ``limit`` are iterated for a number of ``passes``. Values up
    to the bound ``beyond`` are dropped, because they cannot be distinguished from the others.
    """
    q = len(scale)
    start = np.random.default_rng(0).normal(size=(q, min(limit + more, q)))
    basis, image = np.linalg.qr(start)[0], np.zeros((0, 0))
    for number in range(passes):
        image = scale[:, None] * precision.times(scale[:, None] * basis)
        if number + 1 < passes:
            basis = np.linalg.qr(image)[0]
    inside = basis.T @ image
    value, vector = np.linalg.eigh(0.5 * (inside + inside.T))
    value, vector = value[::-1][:limit], vector[:, ::-1][:, :limit]
    is_leading = value > beyond
    return value[is_leading], basis @ vector[:, is_leading]


def direction_factor(
    precision: Precision,
    intercept: bool,
    dtype: str,
    largest: float = 4.0,
    limit: int = 256,
    passes: int = 3,
    beyond: float = 2.0,
) -> StructuredFactor:
    """Factor of ``H⁻¹``; call it with JAX in the precision ``dtype``.

    The number of directions is that of the entries in two columns on average, at most ``limit``: products with them
    then take about as long as products with the matrix. The diagonal is at most ``largest`` times the prior's
    precision.
    """
    n, p = precision.design.shape
    entries = float(np.sum(precision.design.occurrences(np.ones(n)))) / p
    scale = 1 / np.sqrt(np.minimum(precision.diagonal(), largest * precision.prior))
    size = int(np.clip(2 * entries, 1, limit))
    value, vector = leading_directions(precision, scale, size, passes=passes, beyond=beyond)
    real = partial(jnp.asarray, dtype=dtype)
    level = np.full(int(intercept), precision.curvature.sum() ** -0.5)
    frame = Frame(real(scale[:p]), real(scale[p:]), real(precision.mean * scale), real(level))
    root = DirectionRoot(real(vector.T), real(value**-0.5))
    return StructuredFactor(frame, root, real(np.ones(len(scale) + len(level))))
