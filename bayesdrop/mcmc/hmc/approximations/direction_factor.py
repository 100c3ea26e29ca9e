r"""A factor of a covariance that is diagonal but for some directions.

The precision of the weights is that of a normal prior and of rows with normal noise, ``H = P + A₀ᵀDA₀`` with the rows
``A₀`` less their mean ``x̄ = Xᵀd/Σd``, ``d`` being the diagonal of ``D``. With a diagonal ``S`` and ``k`` orthonormal
columns ``U`` of Ritz values ``λ`` of ``S^{−½}HS^{−½}`` (:mod:`.approximations.drawn`),

    T = S^{−½}{1 + U diag(λ^{−½} − 1) Uᵀ},    T⁻¹ = {1 + U diag(λ^{½} − 1) Uᵀ} S^½.

Free rates are columns of ``A₀`` beside the weights, ``q`` coordinates in all. With ``U`` all eigenvectors
``TTᵀ = H⁻¹``; with the leading ones what is left of ``TᵀHT`` is near one in all other directions. It takes ``2kq``
numbers a product, and nothing of size (n, n) or (p, p) is formed. The intercept is ``b' − x̄ᵀw``, and ``b'`` has the
variance ``1/Σd`` and is independent of the weights, as in :mod:`.row_factor`.

Shapes: ``C`` chains, ``p`` features, ``k`` directions, ``D`` coordinates: weights, intercept if there is one, rates.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ...._typing import Float

__all__ = ["DirectionFactor"]

Point = Float[jax.Array, "C D"]


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

    def _parts(self, theta: Point) -> tuple[Float[jax.Array, "C q"], Float[jax.Array, "C one"]]:
        """Weights and rates, and the intercept if there is one."""
        p = self.scale.shape[0]
        middle = p + self.level.shape[0]
        return jnp.concatenate([theta[:, :p], theta[:, middle:]], axis=1), theta[:, p:middle]

    def _whole(self, parts: Float[jax.Array, "C q"], level: Float[jax.Array, "C one"]) -> Point:
        """Coordinates in their order from those parts."""
        p = self.scale.shape[0]
        return jnp.concatenate([parts[:, :p], level, parts[:, p:]], axis=1)

    def stretched(self, stretch: Float[jax.Array, " D"]) -> DirectionFactor:
        """The same with other factors (D,) of the whitened coordinates."""
        return self._replace(stretch=stretch)

    def times(self, z: Point) -> Point:
        """``Tz`` (C, D)."""
        inside, level = self._parts(self.stretch[None] * z)
        parts = self._scales() * self._along(inside, self.length)
        shift = jnp.sum(self.offset[None] * parts, axis=1, keepdims=True)
        return self._whole(parts, self.level[None] * level - shift[:, : level.shape[1]])

    def solve(self, theta: Point) -> Point:
        """``T⁻¹θ`` (C, D)."""
        parts, level = self._parts(theta)
        shift = jnp.sum(self.offset[None] * parts, axis=1, keepdims=True)
        level = (level + shift[:, : level.shape[1]]) / self.level[None]
        return self._whole(self._along(parts / self._scales(), 1 / self.length), level) / self.stretch[None]

    def transposed_times(self, gradient: Point) -> Point:
        """``Tᵀ`` times a gradient (C, D)."""
        parts, level = self._parts(gradient)
        inside = parts - self.offset[None] * jnp.sum(level, axis=1, keepdims=True)
        inside = self._along(self._scales() * inside, self.length)
        return self.stretch[None] * self._whole(inside, self.level[None] * level)
