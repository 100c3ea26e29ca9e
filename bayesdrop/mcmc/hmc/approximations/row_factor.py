r"""A factor of a covariance that differs from a diagonal one by what the rows say, by products with the rows.

The covariance of the weights is that of a normal prior and of rows with normal noise,

    Σ = (P + A₀ᵀDA₀)⁻¹ = TTᵀ,      T = P^{−½}(1 − BᵀNB),     T⁻¹ = (1 + Bᵀ(1 + Lᵀ)⁻¹B)P^½,

with ``P`` (p,) and ``D`` (n,) diagonal, ``B = D^½A₀P^{−½}``, ``LLᵀ = 1 + BBᵀ`` of Cholesky, and
``N = L⁻ᵀ(1 + L)⁻¹``, the square root of Andrews (1968): with ``G = BBᵀ = LLᵀ − 1`` it solves
``N + Nᵀ − NGNᵀ = (1 + G)⁻¹``. To multiply by ``T`` takes two products with the matrix, which stays sparse, and one with
an (n, n) matrix: nothing of size (p, p) is formed.

``A₀`` are the rows ``Xdiag(g)``, less their mean ``x̄ = (Xdiag(g))ᵀD1/ΣD`` if there is an intercept. The latter is then
``b' − x̄ᵀw``, and ``b'`` has the variance ``1/ΣD`` and is independent of the weights. Free rates are columns of ``A₀``
too: what they do to the scores is ``X`` times what they do to the coefficients.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``k`` rates, ``D`` coordinates: weights, intercept if there is one,
rates.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...._typing import Float, Int
from ....data.dataset import Dataset
from ....designs import Design
from ...matrix import Matrix, backward_product, product
from ...placing import placed

__all__ = ["RateLoading", "RowFactor", "RowRoots", "centred_gram", "row_cholesky", "row_factor",
           "row_gram", "row_product", "row_roots"]  # fmt: skip

Point = Float[jax.Array, "C D"]

# Chains up to which products go one by one.
_FEW = 8


def row_product(matrix: Float[jax.Array, "n n"], rows: Float[jax.Array, "C n"]) -> Float[jax.Array, "C n"]:
    """``Mr`` for every chain."""
    # On a CPU a few chains go faster one by one than together, whose layout in memory decides between 1 and 5 ms for
    # 2,000 rows; many chains go from the left, which takes half the time of a product from the right.
    if len(rows) <= _FEW:
        return jnp.stack([matrix @ one for one in rows])
    return (matrix @ rows.T).T


class RowFactor(NamedTuple):
    """The factor ``T`` of weights, intercept and free rates.

    Attributes
    ----------
    matrix : Matrix
        ``X`` (n, p).
    scale : array (p + k,)
        ``P^{−½}`` of weights and rates.
    loading : array (p,)
        ``g∘P^{−½}`` of the weights.
    rate_loading, index : array (p,), optional
        What a rate does to the coefficient of each feature, times its ``P^{−½}``, and the rate of each feature.
    offset : array (p + k,)
        ``x̄∘P^{−½}``, zero without an intercept.
    root : array (n,)
        ``D^½``.
    inner, turned, outer : array (n, n)
        ``N``, ``Nᵀ`` and ``(1 + Lᵀ)⁻¹``. Products with a transpose take several times as long on a CPU.
    level : array (1,) or (0,)
        Standard deviation of ``b'``, if there is an intercept.
    stretch : array (D,)
        Factors of the whitened coordinates, 1 unless something better was learnt.
    """

    matrix: Matrix
    scale: Float[jax.Array, " q"]
    loading: Float[jax.Array, " p"]
    rate_loading: Float[jax.Array, " p"] | None
    index: Int[jax.Array, " p"] | None  # type: ignore[assignment]  # tuples have a method of this name
    offset: Float[jax.Array, " q"]
    root: Float[jax.Array, " n"]
    inner: Float[jax.Array, "n n"]
    turned: Float[jax.Array, "n n"]
    outer: Float[jax.Array, "n n"]
    level: Float[jax.Array, " one"]
    stretch: Float[jax.Array, " D"]

    def stretched(self, stretch: Float[jax.Array, " D"]) -> RowFactor:
        """The same with other factors (D,) of the whitened coordinates."""
        return self._replace(stretch=stretch)

    def rows(self, z: Float[jax.Array, "C q"]) -> Float[jax.Array, "C n"]:
        """``A₀P^{−½}z``: (C, p + k) to (C, n)."""
        p = self.loading.shape[0]
        load = self.loading[None] * z[:, :p]
        if self.rate_loading is not None:
            load = load + self.rate_loading[None] * z[:, p:][:, self.index]
        return product(self.matrix, load) - jnp.sum(self.offset[None] * z, axis=1, keepdims=True)

    def columns(self, r: Float[jax.Array, "C n"]) -> Float[jax.Array, "C q"]:
        """``P^{−½}A₀ᵀr``: (C, n) to (C, p + k)."""
        back = backward_product(self.matrix, r)
        whole = self.loading[None] * back
        if self.rate_loading is not None:
            k = self.scale.shape[0] - self.loading.shape[0]
            rates = jnp.zeros((r.shape[0], k), r.dtype).at[:, self.index].add(self.rate_loading[None] * back)
            whole = jnp.concatenate([whole, rates], axis=1)
        return whole - self.offset[None] * jnp.sum(r, axis=1, keepdims=True)

    def _through(
        self, z: Float[jax.Array, "C q"], middle: Float[jax.Array, "n n"], rows: Float[jax.Array, "C n"] | None = None
    ) -> Float[jax.Array, "C q"]:
        """``BᵀMBz`` for a matrix ``M``."""
        rows = self.rows(z) if rows is None else rows
        return self.columns(self.root[None] * row_product(middle, self.root[None] * rows))

    def _parts(self, theta: Point) -> tuple[Float[jax.Array, "C q"], Float[jax.Array, "C one"]]:
        """Weights and rates, and the intercept if there is one."""
        p, one = self.loading.shape[0], self.level.shape[0]
        return jnp.concatenate([theta[:, :p], theta[:, p + one :]], axis=1), theta[:, p : p + one]

    def _whole(self, parts: Float[jax.Array, "C q"], level: Float[jax.Array, "C one"]) -> Point:
        """Coordinates in their order from those parts."""
        p = self.loading.shape[0]
        return jnp.concatenate([parts[:, :p], level, parts[:, p:]], axis=1)

    def times(self, z: Point, rows: Float[jax.Array, "C n"] | None = None) -> Point:
        """``Tz`` (C, D); ``rows`` is ``A₀P^{−½}z`` where it is known."""
        parts, level = self._parts(self.stretch[None] * z)
        parts = parts - self._through(parts, self.inner, rows)
        shift = jnp.sum(self.offset[None] * parts, axis=1, keepdims=True)
        return self._whole(self.scale[None] * parts, self.level[None] * level - shift[:, : level.shape[1]])

    def solve(self, theta: Point) -> Point:
        """``T⁻¹θ`` (C, D)."""
        parts, level = self._parts(theta)
        parts = parts / self.scale[None]
        shift = jnp.sum(self.offset[None] * parts, axis=1, keepdims=True)
        level = (level + shift[:, : level.shape[1]]) / self.level[None]
        return self._whole(parts + self._through(parts, self.outer), level) / self.stretch[None]

    def transposed_times(self, gradient: Point) -> Point:
        """``Tᵀ`` times a gradient (C, D)."""
        parts, level = self._parts(gradient)
        parts = self.scale[None] * parts - self.offset[None] * jnp.sum(level, axis=1, keepdims=True)
        slope = parts - self._through(parts, self.turned)
        return self.stretch[None] * self._whole(slope, self.level[None] * level)


def centred_gram(
    gram: Float[np.ndarray, "n n"], curvature: Float[np.ndarray, " n"], intercept: bool
) -> Float[np.ndarray, "n n"]:
    """``A₀P⁻¹A₀ᵀ`` from ``Xdiag(g²)P⁻¹Xᵀ``, both (n, n)."""
    if not intercept:
        return gram
    share = curvature / curvature.sum()
    mean = gram @ share
    return gram - mean[:, None] - mean + share @ mean


class RowRoots(NamedTuple):
    """What the factor is made of, in matrices of the rows.

    Attributes
    ----------
    lower, inner, outer : array (n, n)
        ``L``, ``N`` and ``(1 + Lᵀ)⁻¹``.
    """

    lower: Float[np.ndarray, "n n"]
    inner: Float[np.ndarray, "n n"]
    outer: Float[np.ndarray, "n n"]


def row_cholesky(gram: Float[np.ndarray, "n n"], curvature: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n n"]:
    """``L`` for a :func:`centred_gram` (n, n) and curvatures (n,)."""
    from scipy.linalg import cholesky

    root = np.sqrt(curvature)
    lower: Float[np.ndarray, "n n"] = cholesky(
        np.eye(len(root)) + root[:, None] * gram * root, lower=True, check_finite=False
    )
    return lower


def row_roots(gram: Float[np.ndarray, "n n"], curvature: Float[np.ndarray, " n"]) -> RowRoots:
    """Roots for a :func:`centred_gram` (n, n) and curvatures (n,).

    Examples
    --------
    >>> lower, inner, outer = row_roots(np.array([[15.0]]), np.array([1.0]))
    >>> [round(float(part[0, 0]), 6) for part in (lower, inner, outer)]  # (1 − 15 · 0.05)² = 1/16
    [4.0, 0.05, 0.2]
    """
    from scipy.linalg import solve_triangular

    lower, eye = row_cholesky(gram, curvature), np.eye(len(curvature))
    beside = solve_triangular(lower + eye, eye, lower=True, check_finite=False)
    return RowRoots(lower, solve_triangular(lower, beside, lower=True, trans="T", check_finite=False), beside.T)


class RateLoading(NamedTuple):
    """How free rates move the coefficients of the features.

    Attributes
    ----------
    slope : array (p,)
        Change of each feature's coefficient with its rate.
    index : int array (p,)
        Free rate of each feature.
    precision : array (k,)
        ``P`` of the rates.
    """

    slope: Float[np.ndarray, " p"]
    index: Int[np.ndarray, " p"]  # type: ignore[assignment]  # tuples have a method of this name
    precision: Float[np.ndarray, " k"]

    def gram(self, design: Design) -> Float[np.ndarray, "n n"]:
        """What they add to ``Xdiag(g²)P⁻¹Xᵀ``."""
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
    precision: Float[np.ndarray, " p"],
    gain: Float[np.ndarray, " p"],
    curvature: Float[np.ndarray, " n"],
    intercept: bool,
    rates: RateLoading | None = None,
) -> Float[np.ndarray, "n n"]:
    """``A₀P⁻¹A₀ᵀ`` of weights and free rates."""
    gram = design.outer_gram(gain**2 / precision)
    return centred_gram(gram if rates is None else gram + rates.gram(design), curvature, intercept)


def row_factor(
    data: Dataset,
    matrix: Matrix,
    precision: Float[np.ndarray, " p"],
    gain: Float[np.ndarray, " p"],
    curvature: Float[np.ndarray, " n"],
    roots: RowRoots,
    intercept: bool,
    dtype: str,
    rates: RateLoading | None = None,
) -> RowFactor:
    """Factor for prior precisions (p,), gains (p,) and curvatures of the rows (n,); call it under its precision."""
    real = partial(placed, dtype=dtype)
    scale, total = precision**-0.5, curvature.sum()
    mean = data.design.rmatvec(curvature) / total if intercept else np.zeros(len(scale))
    offset, rate_loading, index = gain * mean * scale, None, None
    if rates is not None:
        own = rates.precision**-0.5
        rate_loading, index = real(rates.slope * own[rates.index]), placed(rates.index, np.int32)
        offset = np.append(offset, np.bincount(rates.index, rates.slope * mean, len(own)) * own)
        loading, scale = gain * scale, np.append(scale, own)
    else:
        loading = gain * scale
    level = np.full(int(intercept), total**-0.5)
    root, ones = np.sqrt(curvature), np.ones(len(scale) + len(level))
    return RowFactor(
        matrix, real(scale), real(loading), rate_loading, index, real(offset), real(root), real(roots.inner),
        real(roots.inner.T), real(roots.outer), real(level), real(ones),
    )  # fmt: skip
