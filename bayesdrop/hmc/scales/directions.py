r"""Directions of the structured approximations, as :class:`.scale_map.ScaleMap` asks for them.

Of the rows ``B = D^½A₀S^{−½}`` with ``BBᵀ = Q diag(γ) Qᵀ`` the directions are ``V = BᵀQγ^{−½}``, of fewer features than
rows the eigenvectors of ``BᵀB``, and of many rows and features the leading ones of :mod:`.drawn_precision`.

Shapes: ``C`` chains, ``J`` contrasts of classes, ``n`` rows, ``q`` weights and free rates, ``m`` directions.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..._typing import Float
from ...sampling.matrix import backward_product, product
from ..classes.factor import ClassFactor
from ..kernels.factors import DirectionFactor, RowFactor, joined, parted, row_product
from .scale_map import Along, Parts, Point

__all__ = ["ClassDirections", "DrawnDirections", "RowDirections"]


@jax.custom_vjp
def _turn(
    matrix: Float[jax.Array, "m m"], transposed: Float[jax.Array, "m m"], rows: Float[jax.Array, "C m"]
) -> Float[jax.Array, "C m"]:
    """``Mr``, whose slopes go by the transpose at hand: products with one that is not take several times as long."""
    return row_product(matrix, rows)


def _turn_forwards(matrix: jax.Array, transposed: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    return row_product(matrix, rows), transposed


def _turn_backwards(transposed: jax.Array, slope: jax.Array) -> tuple[None, None, jax.Array]:
    return None, None, row_product(transposed, slope)


_turn.defvjp(_turn_forwards, _turn_backwards)


class ClassDirections(NamedTuple):
    """Those of many classes.

    Attributes
    ----------
    factor : ClassFactor
        ``S^{−½}``, the rows and the eigenvectors.
    unit : array (m,)
        ``γ^{−½}``, 0 where the rows say nothing.
    """

    factor: ClassFactor
    unit: Float[jax.Array, " m"]

    @property
    def complete(self) -> bool:
        """True of fewer features than rows."""
        return self.factor.root is None

    def split(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """See :class:`.scale_map.Directions`."""
        J, p = self.factor.rotation.shape[0], self.factor.scale.shape[0]
        level = theta[:, J * p :]
        return theta[:, : J * p].reshape(-1, J, p), level * self.factor.level[None] if level.shape[1] else level

    def join(self, parts: Parts, level: Float[jax.Array, "C level"]) -> Point:
        """See :class:`.scale_map.Directions`."""
        factor = self.factor
        if level.shape[1]:
            level = (level - jnp.sum(factor.offset[None, None] * parts, axis=2)) @ factor.rotation.T
        weight = jnp.einsum("lj,cjp->clp", factor.rotation, factor.scale[None, None] * parts)
        return jnp.concatenate([weight.reshape(weight.shape[0], -1), level], axis=1)

    def whiten(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """See :class:`.scale_map.Directions`."""
        factor = self.factor
        J, p = factor.rotation.shape[0], factor.scale.shape[0]
        weight, level = theta[:, : J * p].reshape(-1, J, p), theta[:, J * p :]
        parts = jnp.einsum("lj,clp->cjp", factor.rotation, weight) / factor.scale[None, None]
        if level.shape[1]:
            level = level @ factor.rotation + jnp.sum(factor.offset[None, None] * parts, axis=2)
        return parts, level

    def along(self, parts: Parts) -> Along:
        """See :class:`.scale_map.Directions`."""
        factor, (chains, J, p) = self.factor, parts.shape
        flat = parts.reshape(chains * J, p)
        if factor.root is None:
            return _turn(factor.turned, factor.basis, flat).reshape(parts.shape)
        mean = jnp.sum(factor.offset[None] * flat, axis=1, keepdims=True)
        rows = factor.root[None] * (product(factor.matrix, factor.loading[None] * flat) - mean)
        return self.unit[None, None] * _turn(factor.turned, factor.basis, rows).reshape(chains, J, -1)

    def back(self, along: Along) -> Parts:
        """See :class:`.scale_map.Directions`."""
        factor, (chains, J, m) = self.factor, along.shape
        inside = _turn(factor.basis, factor.turned, (self.unit[None, None] * along).reshape(chains * J, m))
        if factor.root is None:
            return inside.reshape(chains, J, -1)
        rows = factor.root[None] * inside
        back = factor.loading[None] * backward_product(factor.matrix, rows)
        return (back - factor.offset[None] * jnp.sum(rows, axis=1, keepdims=True)).reshape(chains, J, -1)


class RowDirections(NamedTuple):
    """Those of a single score and few rows.

    Attributes
    ----------
    factor : RowFactor
        ``S^{−½}`` and the rows; of its matrices ``inner`` is ``Q`` and ``turned`` its transpose.
    unit : array (n,)
        ``γ^{−½}``, 0 where the rows say nothing.
    """

    factor: RowFactor
    unit: Float[jax.Array, " n"]

    @property
    def complete(self) -> bool:
        """False: directions beyond those of the rows are left."""
        return False

    def split(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """See :class:`.scale_map.Directions`."""
        parts, level = _split(theta, self.factor.loading, self.factor.level)
        return parts, self.factor.level[None] * level

    def join(self, parts: Parts, level: Float[jax.Array, "C level"]) -> Point:
        """See :class:`.scale_map.Directions`."""
        return _join(parts, level, self.factor.loading, self.factor.scale, self.factor.offset)

    def whiten(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """See :class:`.scale_map.Directions`."""
        found = _split(theta, self.factor.loading, self.factor.level)
        return _whitened(*found, self.factor.scale, self.factor.offset)

    def along(self, parts: Parts) -> Along:
        """See :class:`.scale_map.Directions`."""
        rows = self.factor.root[None] * self.factor.rows(parts[:, 0])
        return (self.unit[None] * _turn(self.factor.turned, self.factor.inner, rows))[:, None]

    def back(self, along: Along) -> Parts:
        """See :class:`.scale_map.Directions`."""
        rows = _turn(self.factor.inner, self.factor.turned, self.unit[None] * along[:, 0])
        return self.factor.columns(self.factor.root[None] * rows)[:, None]


class DrawnDirections(NamedTuple):
    """The leading ones of many rows and features.

    Attributes
    ----------
    factor : DirectionFactor
        ``S^{−½}`` and ``V``.
    """

    factor: DirectionFactor

    @property
    def complete(self) -> bool:
        """False: they are the leading ones."""
        return False

    @property
    def scale(self) -> Float[jax.Array, " q"]:
        """``S^{−½}``."""
        return jnp.concatenate([self.factor.scale, self.factor.rate_scale])

    @property
    def offset(self) -> Float[jax.Array, " q"]:
        """``x̄∘S^{−½}``: the factor has ``x̄`` for coordinates in their own units."""
        return self.factor.offset * self.scale

    def split(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """See :class:`.scale_map.Directions`."""
        parts, level = _split(theta, self.factor.scale, self.factor.level)
        return parts, self.factor.level[None] * level

    def join(self, parts: Parts, level: Float[jax.Array, "C level"]) -> Point:
        """See :class:`.scale_map.Directions`."""
        return _join(parts, level, self.factor.scale, self.scale, self.offset)

    def whiten(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """See :class:`.scale_map.Directions`."""
        return _whitened(*_split(theta, self.factor.scale, self.factor.level), self.scale, self.offset)

    def along(self, parts: Parts) -> Along:
        """See :class:`.scale_map.Directions`."""
        return (self.factor.directions @ parts[:, 0].T).T[:, None]

    def back(self, along: Along) -> Parts:
        """See :class:`.scale_map.Directions`."""
        return (along[:, 0] @ self.factor.directions)[:, None]


def _split(
    theta: Point, weights: Float[jax.Array, " p"], levels: Float[jax.Array, " level"]
) -> tuple[Parts, Float[jax.Array, "C level"]]:
    """Weights and rates, and the intercept if there is one."""
    parts, level = parted(theta, weights.shape[0], levels.shape[0])
    return parts[:, None], level


def _join(
    parts: Parts,
    level: Float[jax.Array, "C level"],
    weights: Float[jax.Array, " p"],
    scale: Float[jax.Array, " q"],
    offset: Float[jax.Array, " q"],
) -> Point:
    """Coordinates in their order; the intercept is the level less the mean score."""
    p, inside = weights.shape[0], scale[None] * parts[:, 0]
    mean = jnp.sum(offset[None] * parts[:, 0], axis=1, keepdims=True)
    return joined(inside, level - mean[:, : level.shape[1]], p)


def _whitened(
    parts: Parts, intercept: Float[jax.Array, "C level"], scale: Float[jax.Array, " q"], offset: Float[jax.Array, " q"]
) -> tuple[Parts, Float[jax.Array, "C level"]]:
    """Whitened weights and rates, and levels."""
    parts = parts / scale[None, None]
    mean = jnp.sum(offset[None] * parts[:, 0], axis=1, keepdims=True)
    return parts, intercept + mean[:, : intercept.shape[1]]
