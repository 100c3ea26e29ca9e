r"""Multiply by factors ``T`` of a covariance, for coordinates ``θ = c + T z`` with ``N(c, TTᵀ)`` standard normal.

A factor is a matrix (D, D), standard deviations (D,), or a :class:`StructuredFactor`, which multiplies by products: a
frame, which is the diagonal, times a root. The root uses the curvature of the rows, some directions, or eigenvectors
that classes share (:mod:`bayesdrop.hmc.approximations.class_factor`).
Weights and free rates are ``q`` coordinates; the intercept, if there is one, is ``b' − x̄ᵀw`` with ``x̄`` the mean of
the rows under their curvatures ``D``, and ``b'`` has the variance ``1/ΣD`` and is independent of the weights.

**By rows** (:class:`RowRoot`). The covariance of the weights is that of a normal prior and of rows with normal noise,

    Σ = (P + A₀ᵀDA₀)⁻¹ = TTᵀ,      T = P^{−½}(1 − BᵀNB),     T⁻¹ = (1 + Bᵀ(1 + Lᵀ)⁻¹B)P^½,

with ``P`` (p,) and ``D`` (n,) diagonal, ``B = D^½A₀P^{−½}``, ``LLᵀ = 1 + BBᵀ`` of Cholesky, and
``N = L⁻ᵀ(1 + L)⁻¹``, the square root of Andrews (1968): with ``G = BBᵀ = LLᵀ − 1`` it solves
``N + Nᵀ − NGNᵀ = (1 + G)⁻¹``. To multiply by ``T`` takes two products with the matrix, which stays sparse, and one with
an (n, n) matrix: nothing of size (p, p) is formed.

``A₀`` are the rows ``Xdiag(g)``, minus their mean ``x̄ = (Xdiag(g))ᵀD1/ΣD`` if there is an intercept. Free rates are
columns of ``A₀`` too: ``X`` times the derivatives of the coefficients in the rates.

**By directions** (:class:`DirectionRoot`). With a diagonal ``S`` and ``k`` orthonormal columns ``U`` of Ritz values
``λ`` of ``S^{−½}HS^{−½}`` (:mod:`bayesdrop.hmc.approximations.precision`), with the same precision ``H``,

    T = S^{−½}{1 + U diag(λ^{−½} − 1) Uᵀ},    T⁻¹ = {1 + U diag(λ^{½} − 1) Uᵀ} S^½.

If ``U`` has all eigenvectors, ``TTᵀ = H⁻¹``; with the leading ones ``TᵀHT`` is near one in all other directions. A
product takes ``2kq`` operations, and nothing of size (n, n) or (p, p) is formed.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``q`` weights and free rates, ``k`` rates or directions, ``D``
coordinates: weights, intercept if there is one, rates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._typing import AnyArray, Float, Int
from ...sampling.matrix import Matrix, backward_product, product

__all__ = [
    "DirectionRoot", "Factor", "Frame", "RowRoot", "StructuredFactor", "WeightedRows",
    "row_product", "unwhiten", "whiten", "whiten_gradient",
]  # fmt: skip

Point = Float[jax.Array, "C D"]
Parts = Float[jax.Array, "C J q"]
Levels = Float[jax.Array, "C levels"]


def row_product(
    matrix: Float[jax.Array, "n n"], rows: Float[jax.Array, "C n"], few: int = 8
) -> Float[jax.Array, "C n"]:
    """``Mr`` for every chain."""
    # On a CPU up to ``few`` chains are faster one by one: together they take 1 to 5 ms for 2,000 rows, depending on the
    # memory layout. Many chains are multiplied from the left, in half the time of a product from the right.
    if len(rows) <= few:
        return jnp.stack([matrix @ one for one in rows])
    return (matrix @ rows.T).T


class StructuredFactor(NamedTuple):
    """A factor ``T`` of weights, the levels of their scores, and free rates, by products with points (C, D).

    Attributes
    ----------
    frame : Frame
        ``S^{−½}`` and the part of the intercepts that depends on the weights.
    root : RowRoot, DirectionRoot, ClassRowRoot or EigenvectorRoot
        Root of the covariance of ``S^½`` times the weights and rates, by its products with (C, J, q).
    stretch : array (D,)
        Factors of the whitened coordinates, 1 unless pilots have learnt others.
    """

    frame: Frame
    root: Any
    stretch: Float[jax.Array, " D"]

    def stretched(self, stretch: Float[jax.Array, " D"]) -> StructuredFactor:
        """Return the factor with other factors (D,) of the whitened coordinates."""
        return self._replace(stretch=stretch)

    def times(self, z: Point) -> Point:
        """``Tz`` (C, D)."""
        parts, level = self.frame.split(self.stretch[None] * z)
        theta: Point = self.frame.join(self.root.times(parts), self.frame.level[None] * level)
        return theta

    def solve(self, theta: Point) -> Point:
        """``T⁻¹θ`` (C, D)."""
        parts, level = self.frame.whiten(theta)
        z: Point = self.frame.merge(self.root.solve(parts), level / self.frame.level[None])
        return z / self.stretch[None]

    def transposed_times(self, gradient: Point) -> Point:
        """``Tᵀ`` times a gradient (C, D)."""
        parts, level = self.frame.pull(gradient)
        whitened: Point = self.frame.merge(self.root.transposed_times(parts), self.frame.level[None] * level)
        return self.stretch[None] * whitened


class Frame(NamedTuple):
    """The diagonal of a factor; parts are the weights of rotated contrasts, with one score followed by the rates.

    Attributes
    ----------
    scale, rate_scale : array (p,), (q - p,)
        ``S^{−½}`` of the weights and of the rates.
    offset : array (q,)
        ``x̄∘S^{−½}``, zero without intercepts.
    level : array (J,) or (0,)
        Standard deviations of ``b'``, if there are intercepts.
    rotation : array (J, J), optional
        ``V`` of the contrasts of classes; None for one score per row.
    """

    scale: Float[jax.Array, " p"]
    rate_scale: Float[jax.Array, " free"]
    offset: Float[jax.Array, " q"]
    level: Float[jax.Array, " levels"]
    rotation: Float[jax.Array, "J J"] | None = None

    def split(self, theta: Point) -> tuple[Parts, Levels]:
        """Contrasts of the weights, not rotated, with the rates, and intercepts if there are any."""
        p, J = self.scale.shape[0], 1 if self.rotation is None else self.rotation.shape[0]
        end = J * p + self.level.shape[0]
        rates = jnp.broadcast_to(theta[:, None, end:], (theta.shape[0], J, theta.shape[1] - end))
        return jnp.concatenate([theta[:, : J * p].reshape(-1, J, p), rates], axis=2), theta[:, J * p : end]

    def merge(self, parts: Parts, level: Levels) -> Point:
        """Coordinates in their order, the inverse of ``split``."""
        p = self.scale.shape[0]
        return jnp.concatenate([parts[:, :, :p].reshape(parts.shape[0], -1), level, parts[:, 0, p:]], axis=1)

    def join(self, parts: Parts, level: Levels) -> Point:
        """``θ`` (C, D) of whitened parts and of levels, whose intercepts are the levels less the mean scores."""
        return self.merge(*self._rotated(self._widths() * parts, level - self._mean(parts), back=True))

    def whiten(self, theta: Point) -> tuple[Parts, Levels]:
        """Whitened parts and levels of ``θ``, the inverse of ``join``."""
        parts, level = self._rotated(*self.split(theta))
        parts = parts / self._widths()
        return parts, level + self._mean(parts)

    def pull(self, gradient: Point) -> tuple[Parts, Levels]:
        """A gradient in whitened parts and levels: the transpose of ``join``."""
        parts, level = self._rotated(*self.split(gradient))
        parts = self._widths() * parts
        return parts - self.offset[None, None] * level[:, :, None] if level.shape[1] else parts, level

    def _rotated(self, parts: Parts, level: Levels, back: bool = False) -> tuple[Parts, Levels]:
        """``Vᵀ`` times parts and levels, or ``V``."""
        if self.rotation is None:
            return parts, level
        turn = self.rotation.T if back else self.rotation
        return jnp.einsum("lj,clp->cjp", turn, parts), level @ turn if level.shape[1] else level

    def _widths(self) -> Float[jax.Array, "1 1 q"]:
        return jnp.concatenate([self.scale, self.rate_scale])[None, None]

    def _mean(self, parts: Parts) -> Levels:
        return jnp.sum(self.offset[None, None] * parts, axis=2)[:, : self.level.shape[0]]


class WeightedRows(NamedTuple):
    """The rows ``B = D^½A₀S^{−½}`` of a matrix, by products with vectors (C, q), one for each chain and contrast.

    Attributes
    ----------
    matrix : Matrix
        ``X`` (n, p).
    loading : array (p,)
        ``g∘S^{−½}`` of the weights.
    rate_loading, index : array (p,), optional
        Derivative of the coefficient of each feature in its rate, times the rate's ``S^{−½}``, and that rate's index.
    offset : array (q,)
        ``x̄∘S^{−½}``, zero without an intercept.
    root : array (n,)
        ``D^½``.
    """

    matrix: Matrix
    loading: Float[jax.Array, " p"]
    rate_loading: Float[jax.Array, " p"] | None
    index: Int[jax.Array, " p"] | None  # type: ignore[assignment]  # tuples have a method of this name
    offset: Float[jax.Array, " q"]
    root: Float[jax.Array, " n"]

    def scores(self, z: Float[jax.Array, "C q"]) -> Float[jax.Array, "C n"]:
        """``A₀S^{−½}z``: (C, q) to (C, n)."""
        p = self.loading.shape[0]
        load = self.loading[None] * z[:, :p]
        if self.rate_loading is not None:
            load = load + self.rate_loading[None] * z[:, p:][:, self.index]
        return product(self.matrix, load) - jnp.sum(self.offset[None] * z, axis=1, keepdims=True)

    def columns(self, r: Float[jax.Array, "C n"]) -> Float[jax.Array, "C q"]:
        """``S^{−½}A₀ᵀr``: (C, n) to (C, q)."""
        back = backward_product(self.matrix, r)
        whole = self.loading[None] * back
        if self.rate_loading is not None:
            k = self.offset.shape[0] - self.loading.shape[0]
            rates = jnp.zeros((r.shape[0], k), r.dtype).at[:, self.index].add(self.rate_loading[None] * back)
            whole = jnp.concatenate([whole, rates], axis=1)
        return whole - self.offset[None] * jnp.sum(r, axis=1, keepdims=True)


class RowRoot(NamedTuple):
    """``1 − BᵀNB`` for one score per row.

    Attributes
    ----------
    rows : WeightedRows
        ``B``, with ``S = P``.
    inner, turned, outer : array (n, n)
        ``N``, ``Nᵀ`` and ``(1 + Lᵀ)⁻¹``. Products with a transpose take several times as long on a CPU.
    """

    rows: WeightedRows
    inner: Float[jax.Array, "n n"]
    turned: Float[jax.Array, "n n"]
    outer: Float[jax.Array, "n n"]

    def _through(self, parts: Parts, middle: Float[jax.Array, "n n"]) -> Parts:
        """``BᵀMBz`` for a matrix ``M``."""
        rows, root = self.rows, self.rows.root[None]
        return rows.columns(root * row_product(middle, root * rows.scores(parts[:, 0])))[:, None]

    def times(self, parts: Parts) -> Parts:
        """Times the root."""
        return parts - self._through(parts, self.inner)

    def solve(self, parts: Parts) -> Parts:
        """Times its inverse."""
        return parts + self._through(parts, self.outer)

    def transposed_times(self, parts: Parts) -> Parts:
        """Times its transpose."""
        return parts - self._through(parts, self.turned)


class DirectionRoot(NamedTuple):
    """``1 + U diag(λ^{−½} − 1) Uᵀ``.

    Attributes
    ----------
    directions : array (k, q)
        ``Uᵀ``.
    length : array (k,)
        ``λ^{−½}``.
    """

    directions: Float[jax.Array, "k q"]
    length: Float[jax.Array, " k"]

    def _along(self, parts: Parts, factor: Float[jax.Array, " k"]) -> Parts:
        """``{1 + U diag(f − 1) Uᵀ}z``."""
        z = parts[:, 0]
        return (z + ((self.directions @ z.T).T * (factor - 1)[None]) @ self.directions)[:, None]

    def times(self, parts: Parts) -> Parts:
        """Times the root."""
        return self._along(parts, self.length)

    def solve(self, parts: Parts) -> Parts:
        """Times its inverse."""
        return self._along(parts, 1 / self.length)

    def transposed_times(self, parts: Parts) -> Parts:
        """Times its transpose, which is itself."""
        return self.times(parts)


Factor = Float[AnyArray, "D D"] | Float[AnyArray, " D"] | StructuredFactor


def unwhiten(centre: Float[AnyArray, " D"], factor: Factor, z: Float[AnyArray, "C D"]) -> Float[AnyArray, "C D"]:
    """``θ`` (C, D) at whitened coordinates (C, D).

    Examples
    --------
    >>> import numpy as np
    >>> unwhiten(np.array([1.0, 0.0]), np.array([2.0, 3.0]), np.array([[1.0, -1.0]])).tolist()
    [[3.0, -3.0]]
    """
    if isinstance(factor, StructuredFactor):
        return centre[None] + factor.times(z)
    return centre[None] + (z @ factor.T if factor.ndim == 2 else z * factor[None])


def whiten(centre: Float[AnyArray, " D"], factor: Factor, theta: Float[AnyArray, "C D"]) -> Float[AnyArray, "C D"]:
    """Whitened coordinates (C, D) of ``θ`` (C, D); a dense factor is lower-triangular.

    Examples
    --------
    >>> import numpy as np
    >>> whiten(np.array([1.0, 0.0]), np.array([2.0, 3.0]), np.array([[3.0, -3.0]])).tolist()
    [[1.0, -1.0]]
    """
    away = theta - centre[None]
    if isinstance(factor, StructuredFactor):
        return factor.solve(away)
    if factor.ndim == 1:
        return away / factor[None]
    return jax.scipy.linalg.solve_triangular(factor, away.T, lower=True).T


def whiten_gradient(factor: Factor, gradient: Float[AnyArray, "C D"]) -> Float[AnyArray, "C D"]:
    """Gradient in ``z`` from the one in ``θ``, both (C, D).

    Examples
    --------
    >>> import numpy as np
    >>> whiten_gradient(np.array([[2.0, 0.0], [1.0, 3.0]]), np.array([[1.0, 1.0]])).tolist()
    [[3.0, 3.0]]
    """
    if isinstance(factor, StructuredFactor):
        return factor.transposed_times(gradient)
    return gradient @ factor if factor.ndim == 2 else gradient * factor[None]
