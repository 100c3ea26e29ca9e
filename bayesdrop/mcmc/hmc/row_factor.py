r"""A factor of a covariance that differs from a diagonal one by what the rows say, by products with the rows.

The covariance of the weights is that of a normal prior and of rows with normal noise,

    Σ = (P + A₀ᵀDA₀)⁻¹ = TTᵀ,      T = P^{−½}(1 − BᵀNB),     T⁻¹ = (1 + Bᵀ(1 + Lᵀ)⁻¹B)P^½,

with ``P`` (p,) and ``D`` (n,) diagonal, ``B = D^½A₀P^{−½}``, ``LLᵀ = 1 + BBᵀ`` of Cholesky, and
``N = L⁻ᵀ(1 + L)⁻¹``, the square root of Andrews (1968): with ``G = BBᵀ = LLᵀ − 1`` it solves
``N + Nᵀ − NGNᵀ = (1 + G)⁻¹``. To multiply by ``T`` takes two products with the matrix, which stays sparse, and one with
an (n, n) matrix: nothing of size (p, p) is formed.

``A₀`` are the rows ``Xdiag(g)``, less their mean ``x̄ = (Xdiag(g))ᵀD1/ΣD`` if there is an intercept. The latter is then
``b' − x̄ᵀw``, and ``b'`` has the variance ``1/ΣD`` and is independent of the weights. Other coordinates are independent.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``D`` coordinates: weights, intercept if there is one, others.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ...data.dataset import Dataset
from ..matrix import Matrix, backward_product, product

__all__ = ["RowFactor", "RowRoots", "centred_gram", "row_factor", "row_product", "row_roots"]

Point = Float[jax.Array, "C D"]


def row_product(matrix: Float[jax.Array, "n n"], rows: Float[jax.Array, "C n"]) -> Float[jax.Array, "C n"]:
    """``Mr`` for every chain."""
    # A product from the right with these shapes takes two to three times as long on a CPU.
    return (matrix @ rows.T).T


class RowFactor(NamedTuple):
    """The factor ``T`` of weights, intercept and other coordinates.

    Attributes
    ----------
    matrix : Matrix
        ``X`` (n, p).
    scale, loading, offset : array (p,)
        ``P^{−½}``, ``g∘P^{−½}`` and ``x̄∘P^{−½}``, the last zero without an intercept.
    root : array (n,)
        ``D^½``.
    inner, outer : array (n, n)
        ``N`` and ``(1 + Lᵀ)⁻¹``.
    rest : array (D - p,)
        Standard deviations of ``b'`` and of the other coordinates.
    stretch : array (D,)
        Factors of the whitened coordinates, 1 unless something better was learnt.
    """

    matrix: Matrix
    scale: Float[jax.Array, " p"]
    loading: Float[jax.Array, " p"]
    offset: Float[jax.Array, " p"]
    root: Float[jax.Array, " n"]
    inner: Float[jax.Array, "n n"]
    outer: Float[jax.Array, "n n"]
    rest: Float[jax.Array, " rest"]
    stretch: Float[jax.Array, " D"]

    def rows(self, z: Float[jax.Array, "C p"]) -> Float[jax.Array, "C n"]:
        """``A₀P^{−½}z``: (C, p) to (C, n)."""
        return product(self.matrix, self.loading[None] * z) - jnp.sum(self.offset[None] * z, axis=1, keepdims=True)

    def columns(self, r: Float[jax.Array, "C n"]) -> Float[jax.Array, "C p"]:
        """``P^{−½}A₀ᵀr``: (C, n) to (C, p)."""
        return self.loading[None] * backward_product(self.matrix, r) - self.offset[None] * jnp.sum(
            r, axis=1, keepdims=True
        )

    def _through(
        self, z: Float[jax.Array, "C p"], middle: Float[jax.Array, "n n"], rows: Float[jax.Array, "C n"] | None = None
    ) -> Float[jax.Array, "C p"]:
        """``BᵀMBz`` for a matrix ``M``."""
        rows = self.rows(z) if rows is None else rows
        return self.columns(self.root[None] * row_product(middle, self.root[None] * rows))

    def times(self, z: Point, rows: Float[jax.Array, "C n"] | None = None) -> Point:
        """``Tz`` (C, D); ``rows`` is ``A₀P^{−½}z`` where it is known."""
        p, z = self.scale.shape[0], self.stretch[None] * z
        whole = z[:, :p] - self._through(z[:, :p], self.inner, rows)
        others = self.rest[None] * z[:, p:]
        shift = jnp.sum(self.offset[None] * whole, axis=1, keepdims=True)
        # The intercept comes first among the others, if there is one: without it the offset is 0.
        return jnp.concatenate([self.scale[None] * whole, others[:, :1] - shift, others[:, 1:]], axis=1)

    def solve(self, theta: Point) -> Point:
        """``T⁻¹θ`` (C, D)."""
        p = self.scale.shape[0]
        whole = theta[:, :p] / self.scale[None]
        z, shift = whole + self._through(whole, self.outer), jnp.sum(self.offset[None] * whole, axis=1, keepdims=True)
        others = jnp.concatenate([theta[:, p : p + 1] + shift, theta[:, p + 1 :]], axis=1) / self.rest[None]
        return jnp.concatenate([z, others], axis=1) / self.stretch[None]

    def transposed_times(self, gradient: Point) -> Point:
        """``Tᵀ`` times a gradient (C, D)."""
        p = self.scale.shape[0]
        whole = self.scale[None] * gradient[:, :p] - self.offset[None] * gradient[:, p : p + 1]
        slope = whole - self._through(whole, self.inner.T)
        return self.stretch[None] * jnp.concatenate([slope, self.rest[None] * gradient[:, p:]], axis=1)


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


def row_roots(gram: Float[np.ndarray, "n n"], curvature: Float[np.ndarray, " n"]) -> RowRoots:
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
    beside = solve_triangular(lower + eye, eye, lower=True, check_finite=False)
    return RowRoots(lower, solve_triangular(lower, beside, lower=True, trans="T", check_finite=False), beside.T)


def row_factor(
    data: Dataset,
    matrix: Matrix,
    precision: Float[np.ndarray, " p"],
    gain: Float[np.ndarray, " p"],
    curvature: Float[np.ndarray, " n"],
    roots: RowRoots,
    rest: Float[np.ndarray, " rest"],
    intercept: bool,
    dtype: str,
) -> RowFactor:
    """Factor for prior precisions (p,), gains (p,) and curvatures of the rows (n,); call it under its precision.

    ``rest`` are the deviations of the coordinates behind weights and intercept.
    """
    scale = precision**-0.5
    total = curvature.sum()
    mean = gain * data.design.rmatvec(curvature) / total if intercept else np.zeros_like(scale)
    others = np.concatenate([[total**-0.5], rest]) if intercept else rest
    stretch = np.ones(len(scale) + len(others))
    parts = (scale, gain * scale, mean * scale, np.sqrt(curvature), roots.inner, roots.outer, others, stretch)
    return RowFactor(matrix, *(jnp.asarray(part, dtype=dtype) for part in parts))
