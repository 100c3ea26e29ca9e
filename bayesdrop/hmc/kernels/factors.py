r"""Factors ``T`` of a covariance, and whitened coordinates ``θ = c + T z``, in which ``N(c, TTᵀ)`` is standard normal.

A factor is a matrix (D, D), standard deviations (D,), or a :class:`FactorMap`, which multiplies by products: diagonal
plus what the rows say, plus some directions, or eigenvectors that classes share (:mod:`.approximations.class_factor`).
Weights and free rates are ``q`` coordinates; the intercept, if there is one, is ``b' − x̄ᵀw`` with ``x̄`` the mean of
the rows under their curvatures ``D``, and ``b'`` has the variance ``1/ΣD`` and is independent of the weights.

**By rows** (:class:`RowFactor`). The covariance of the weights is that of a normal prior and of rows with normal noise,

    Σ = (P + A₀ᵀDA₀)⁻¹ = TTᵀ,      T = P^{−½}(1 − BᵀNB),     T⁻¹ = (1 + Bᵀ(1 + Lᵀ)⁻¹B)P^½,

with ``P`` (p,) and ``D`` (n,) diagonal, ``B = D^½A₀P^{−½}``, ``LLᵀ = 1 + BBᵀ`` of Cholesky, and
``N = L⁻ᵀ(1 + L)⁻¹``, the square root of Andrews (1968): with ``G = BBᵀ = LLᵀ − 1`` it solves
``N + Nᵀ − NGNᵀ = (1 + G)⁻¹``. To multiply by ``T`` takes two products with the matrix, which stays sparse, and one with
an (n, n) matrix: nothing of size (p, p) is formed.

``A₀`` are the rows ``Xdiag(g)``, less their mean ``x̄ = (Xdiag(g))ᵀD1/ΣD`` if there is an intercept. The latter is then
``b' − x̄ᵀw``, and ``b'`` has the variance ``1/ΣD`` and is independent of the weights. Free rates are columns of ``A₀``
too: what they do to the scores is ``X`` times what they do to the coefficients.

**By directions** (:class:`DirectionFactor`). With a diagonal ``S`` and ``k`` orthonormal columns ``U`` of Ritz values
``λ`` of ``S^{−½}HS^{−½}`` (:mod:`.approximations.drawn_precision`), ``H`` being the same precision,

    T = S^{−½}{1 + U diag(λ^{−½} − 1) Uᵀ},    T⁻¹ = {1 + U diag(λ^{½} − 1) Uᵀ} S^½.

With ``U`` all eigenvectors ``TTᵀ = H⁻¹``; with the leading ones what is left of ``TᵀHT`` is near one in all other
directions. It takes ``2kq`` numbers a product, and nothing of size (n, n) or (p, p) is formed.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``q`` weights and free rates, ``k`` rates or directions, ``D``
coordinates: weights, intercept if there is one, rates.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from ..._typing import AnyArray, Float, Int
from ...sampling.matrix import Matrix, backward_product, product

__all__ = [
    "DirectionFactor", "Factor", "FactorMap", "RowFactor", "StretchFactor", "joined", "parted", "row_product",
    "unwhiten", "whiten", "whiten_gradient",
]  # fmt: skip

Point = Float[jax.Array, "C D"]


@runtime_checkable
class FactorMap(Protocol):
    """A factor ``T`` of ``D`` coordinates that is known by its products; points are (C, D)."""

    @property
    def stretch(self) -> Float[jax.Array, " D"]:
        """Factors of the whitened coordinates, 1 unless something better was learnt."""
        ...

    def stretched(self, stretch: Float[jax.Array, " D"]) -> FactorMap:
        """The same with other factors (D,)."""
        ...

    def times(self, z: Float[jax.Array, "C D"]) -> Float[jax.Array, "C D"]:
        """``Tz``."""
        ...

    def solve(self, theta: Float[jax.Array, "C D"]) -> Float[jax.Array, "C D"]:
        """``T⁻¹θ``."""
        ...

    def transposed_times(self, gradient: Float[jax.Array, "C D"]) -> Float[jax.Array, "C D"]:
        """``Tᵀ`` times a gradient."""
        ...


Factor = Float[AnyArray, "D D"] | Float[AnyArray, " D"] | FactorMap


def unwhiten(centre: Float[AnyArray, " D"], factor: Factor, z: Float[AnyArray, "C D"]) -> Float[AnyArray, "C D"]:
    """``θ`` (C, D) at whitened coordinates (C, D).

    Examples
    --------
    >>> import numpy as np
    >>> unwhiten(np.array([1.0, 0.0]), np.array([2.0, 3.0]), np.array([[1.0, -1.0]])).tolist()
    [[3.0, -3.0]]
    """
    if isinstance(factor, FactorMap):
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
    if isinstance(factor, FactorMap):
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
    if isinstance(factor, FactorMap):
        return factor.transposed_times(gradient)
    return gradient @ factor if factor.ndim == 2 else gradient * factor[None]


def parted(theta: Point, p: int, one: int) -> tuple[Float[jax.Array, "C q"], Float[jax.Array, "C one"]]:
    """Weights and rates of coordinates (C, D), and the intercept behind ``p`` weights if there is ``one``."""
    return jnp.concatenate([theta[:, :p], theta[:, p + one :]], axis=1), theta[:, p : p + one]


def joined(parts: Float[jax.Array, "C q"], level: Float[jax.Array, "C one"], p: int) -> Point:
    """Coordinates in their order from those parts."""
    return jnp.concatenate([parts[:, :p], level, parts[:, p:]], axis=1)


class StretchFactor(NamedTuple):
    """A diagonal factor that a kernel stretches by what its pilots say, as it does those that are known by products.

    Attributes
    ----------
    stretch : array (D,)
        The diagonal.
    """

    stretch: Float[jax.Array, " D"]

    def stretched(self, stretch: Float[jax.Array, " D"]) -> StretchFactor:
        """The same with another diagonal (D,)."""
        return StretchFactor(stretch)

    def times(self, z: Point) -> Point:
        """``Tz`` (C, D)."""
        return self.stretch[None] * z

    def solve(self, theta: Point) -> Point:
        """``T⁻¹θ`` (C, D)."""
        return theta / self.stretch[None]

    def transposed_times(self, gradient: Point) -> Point:
        """``Tᵀ`` times a gradient (C, D)."""
        return self.stretch[None] * gradient


def row_product(
    matrix: Float[jax.Array, "n n"], rows: Float[jax.Array, "C n"], few: int = 8
) -> Float[jax.Array, "C n"]:
    """``Mr`` for every chain."""
    # Chains up to which products go one by one.
    # On a CPU a few chains go faster one by one than together, whose layout in memory decides between 1 and 5 ms for
    # 2,000 rows; many chains go from the left, which takes half the time of a product from the right.
    if len(rows) <= few:
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

    def _through(self, z: Float[jax.Array, "C q"], middle: Float[jax.Array, "n n"]) -> Float[jax.Array, "C q"]:
        """``BᵀMBz`` for a matrix ``M``."""
        return self.columns(self.root[None] * row_product(middle, self.root[None] * self.rows(z)))

    def _joined(self, parts: Float[jax.Array, "C q"], level: Float[jax.Array, "C one"]) -> Point:
        return joined(parts, level, self.loading.shape[0])

    def times(self, z: Point) -> Point:
        """``Tz`` (C, D)."""
        parts, level = parted(self.stretch[None] * z, self.loading.shape[0], self.level.shape[0])
        parts = parts - self._through(parts, self.inner)
        shift = jnp.sum(self.offset[None] * parts, axis=1, keepdims=True)
        return self._joined(self.scale[None] * parts, self.level[None] * level - shift[:, : level.shape[1]])

    def solve(self, theta: Point) -> Point:
        """``T⁻¹θ`` (C, D)."""
        parts, level = parted(theta, self.loading.shape[0], self.level.shape[0])
        parts = parts / self.scale[None]
        shift = jnp.sum(self.offset[None] * parts, axis=1, keepdims=True)
        level = (level + shift[:, : level.shape[1]]) / self.level[None]
        return self._joined(parts + self._through(parts, self.outer), level) / self.stretch[None]

    def transposed_times(self, gradient: Point) -> Point:
        """``Tᵀ`` times a gradient (C, D)."""
        parts, level = parted(gradient, self.loading.shape[0], self.level.shape[0])
        parts = self.scale[None] * parts - self.offset[None] * jnp.sum(level, axis=1, keepdims=True)
        slope = parts - self._through(parts, self.turned)
        return self.stretch[None] * self._joined(slope, self.level[None] * level)


class DirectionFactor(NamedTuple):
    """The factor ``T`` of weights, intercept and free rates.

    Attributes
    ----------
    scale : array (p,)
        ``S^{−½}`` of the weights.
    rate_scale : array (q - p,)
        That of the rates.
    directions : array (k, q)
        ``Uᵀ``.
    length : array (k,)
        ``λ^{−½}``.
    offset : array (q,)
        ``x̄``, zero without an intercept.
    level : array (1,) or (0,)
        Standard deviation of ``b'``, if there is an intercept.
    stretch : array (D,)
        Factors of the whitened coordinates, 1 unless something better was learnt.
    """

    scale: Float[jax.Array, " p"]
    rate_scale: Float[jax.Array, " free"]
    directions: Float[jax.Array, "k q"]
    length: Float[jax.Array, " k"]
    offset: Float[jax.Array, " q"]
    level: Float[jax.Array, " one"]
    stretch: Float[jax.Array, " D"]

    def _along(self, z: Float[jax.Array, "C q"], factor: Float[jax.Array, " k"]) -> Float[jax.Array, "C q"]:
        """``{1 + U diag(f − 1) Uᵀ}z``."""
        return z + ((self.directions @ z.T).T * (factor - 1)[None]) @ self.directions

    def _scales(self) -> Float[jax.Array, "1 q"]:
        """``S^{−½}``."""
        return jnp.concatenate([self.scale, self.rate_scale])[None]

    def stretched(self, stretch: Float[jax.Array, " D"]) -> DirectionFactor:
        """The same with other factors (D,) of the whitened coordinates."""
        return self._replace(stretch=stretch)

    def _joined(self, parts: Float[jax.Array, "C q"], level: Float[jax.Array, "C one"]) -> Point:
        return joined(parts, level, self.scale.shape[0])

    def times(self, z: Point) -> Point:
        """``Tz`` (C, D)."""
        inside, level = parted(self.stretch[None] * z, self.scale.shape[0], self.level.shape[0])
        parts = self._scales() * self._along(inside, self.length)
        shift = jnp.sum(self.offset[None] * parts, axis=1, keepdims=True)
        return self._joined(parts, self.level[None] * level - shift[:, : level.shape[1]])

    def solve(self, theta: Point) -> Point:
        """``T⁻¹θ`` (C, D)."""
        parts, level = parted(theta, self.scale.shape[0], self.level.shape[0])
        shift = jnp.sum(self.offset[None] * parts, axis=1, keepdims=True)
        level = (level + shift[:, : level.shape[1]]) / self.level[None]
        return self._joined(self._along(parts / self._scales(), 1 / self.length), level) / self.stretch[None]

    def transposed_times(self, gradient: Point) -> Point:
        """``Tᵀ`` times a gradient (C, D)."""
        parts, level = parted(gradient, self.scale.shape[0], self.level.shape[0])
        inside = parts - self.offset[None] * jnp.sum(level, axis=1, keepdims=True)
        inside = self._along(self._scales() * inside, self.length)
        return self.stretch[None] * self._joined(inside, self.level[None] * level)
