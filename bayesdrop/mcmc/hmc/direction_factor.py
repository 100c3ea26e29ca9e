r"""A factor of a covariance that is diagonal but for some directions.

The precision of the weights is that of a normal prior and of rows with normal noise, ``H = P + A₀ᵀDA₀`` with the rows
``A₀`` less their mean ``x̄ = Xᵀd/Σd``, ``d`` being the diagonal of ``D``. With a diagonal ``S`` and ``k`` orthonormal
columns ``U`` of Ritz values ``λ`` of ``S^{−½}HS^{−½}`` (:mod:`.drawn_approximation`),

    T = S^{−½}{1 + U diag(λ^{−½} − 1) Uᵀ},    T⁻¹ = {1 + U diag(λ^{½} − 1) Uᵀ} S^½.

With ``U`` all eigenvectors ``TTᵀ = H⁻¹``; with the leading ones what is left of ``TᵀHT`` is near one in all other
directions. It takes ``2kp`` numbers a product, and nothing of size (n, n) or (p, p) is formed. The intercept is
``b' − x̄ᵀw``, and ``b'`` has the variance ``1/Σd`` and is independent of the weights, as in :mod:`.row_factor`.

Shapes: ``C`` chains, ``p`` features, ``k`` directions, ``D`` coordinates: weights, and the intercept if there is one.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..._typing import Float

__all__ = ["DirectionFactor"]

Point = Float[jax.Array, "C D"]


class DirectionFactor(NamedTuple):
    """The factor ``T`` of weights and intercept.

    Attributes
    ----------
    scale : array (p,)
        ``S^{−½}``.
    directions : array (k, p)
        ``Uᵀ``.
    length : array (k,)
        ``λ^{−½}``.
    offset : array (p,)
        ``x̄``, zero without an intercept.
    level : array (1,) or (0,)
        Standard deviation of ``b'``, if there is an intercept.
    stretch : array (D,)
        Factors of the whitened coordinates, 1 unless something better was learnt.
    """

    scale: Float[jax.Array, " p"]
    directions: Float[jax.Array, "k p"]
    length: Float[jax.Array, " k"]
    offset: Float[jax.Array, " p"]
    level: Float[jax.Array, " one"]
    stretch: Float[jax.Array, " D"]

    def _along(self, z: Float[jax.Array, "C p"], factor: Float[jax.Array, " k"]) -> Float[jax.Array, "C p"]:
        """``{1 + U diag(f − 1) Uᵀ}z``."""
        part = (self.directions @ z.T).T * (factor - 1)[None]
        return z + part @ self.directions

    def stretched(self, stretch: Float[jax.Array, " D"]) -> DirectionFactor:
        """The same with other factors (D,) of the whitened coordinates."""
        return self._replace(stretch=stretch)

    def times(self, z: Point) -> Point:
        """``Tz`` (C, D)."""
        p = self.scale.shape[0]
        z = self.stretch[None] * z
        weight = self.scale[None] * self._along(z[:, :p], self.length)
        shift = jnp.sum(self.offset[None] * weight, axis=1, keepdims=True)
        level = self.level[None] * z[:, p:]
        return jnp.concatenate([weight, level - shift[:, : level.shape[1]]], axis=1)

    def solve(self, theta: Point) -> Point:
        """``T⁻¹θ`` (C, D)."""
        p = self.scale.shape[0]
        weight, level = theta[:, :p], theta[:, p:]
        shift = jnp.sum(self.offset[None] * weight, axis=1, keepdims=True)
        level = (level + shift[:, : level.shape[1]]) / self.level[None]
        inside = self._along(weight / self.scale[None], 1 / self.length)
        return jnp.concatenate([inside, level], axis=1) / self.stretch[None]

    def transposed_times(self, gradient: Point) -> Point:
        """``Tᵀ`` times a gradient (C, D)."""
        p = self.scale.shape[0]
        level = gradient[:, p:]
        inside = gradient[:, :p] - self.offset[None] * jnp.sum(level, axis=1, keepdims=True)
        inside = self._along(self.scale[None] * inside, self.length)
        return self.stretch[None] * jnp.concatenate([inside, self.level[None] * level], axis=1)
