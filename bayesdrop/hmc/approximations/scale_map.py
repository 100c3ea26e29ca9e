"""Weights decoupled from their learnt scales by a structured normal approximation.

At scales ``e^τ`` let the covariance of the weights be one of the factors by products
(:mod:`bayesdrop.hmc.kernels.factors`): with a diagonal ``S`` and orthonormal columns ``V`` of precision ``λ``,

    {S^½ (1 + V diag(λ − 1) Vᵀ) S^½}⁻¹.

The prior has the shares ``m_d`` in ``S`` and ``m_k`` in ``λ_k``, those of group ``j`` being ``m_jd`` and ``m_jk``. At
scales ``e^{τ+δ}`` what the prior gives is multiplied by ``e^{−2δ_j}``, and ``S`` becomes ``S/E²``,

    E_d = {1 + Σ_j (e^{−2δ_j} − 1) m_jd}^{−½},   ε_k⁻¹ = 1 + Σ_j (e^{−2δ_j} − 1) m_jk,
    λ_k(δ) = (λ_k − Σ_j m_jk) e^{−a·δ} + Σ_j m_jk e^{−2δ_j},

``ε_k`` being what ``E²`` is along ``V_k``. With ``h_k = {ε_kλ_k(δ)}^{−½}`` the weights are, apart from the mean,

    S^{−½} {1 + V diag(h − 1) Vᵀ} E ζ,      log |d·/dζ| = Σ_d log E_d + Σ_k log h_k + constant,

and the mean is ``S^{−½}{V λ(δ)⁻¹β e^{−b·δ} + E²κ}``, with ``β = λVᵀS^½c`` and ``κ`` what ``V`` leaves of ``S^½c``.
Where ``V`` is square it is ``S^{−½}V{h∘(ζ + h∘βe^{−b·δ})}`` with ``h = λ(δ)^{−½}``, and ``E`` is not needed. ``a`` and
``b`` say how the curvature of the rows falls where larger weights make them surer: not at all with a Gaussian
likelihood; where classes are separated, in the end so that ``w/σ`` does not depend on the scale, ``a = 2`` and
``b = 1``. The levels of the scores follow: of mean ``l`` and deviation ``s``, which rows alone decide, they become

    e^{(a−b)·δ} l + e^{a·δ/2} s ζ,      log |d·/dζ| = ½ a·δ for each of them.

For one scale, a Gaussian likelihood, no noise and all directions in which the rows say anything the map is exact: ``ζ``
is standard normal at every scale. The Jacobian is exact in any case, and nothing about a sampler's correctness rests on
the rest.

Of the rows ``B = D^½A₀S^{−½}`` with ``BBᵀ = Q diag(γ) Qᵀ`` the directions are ``V = BᵀQγ^{−½}``, of fewer features than
rows the eigenvectors of ``BᵀB``, and of many rows and features the leading ones of :mod:`.precision`.

Shapes: ``C`` chains, ``J`` contrasts of classes (1 for a single score), ``n`` rows, ``q`` weights and free rates, ``k``
or ``m`` directions, ``g`` scales, ``D`` coordinates.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from ..._typing import Float, Int
from ...sampling.matrix import backward_product, product
from ..kernels.factors import DirectionFactor, RowFactor, joined, parted, row_product
from .class_factor import ClassFactor

__all__ = ["ClassDirections", "Directions", "DrawnDirections", "RowDirections", "ScaleMap", "FARTHEST"]

Parts = Float[jax.Array, "C J q"]
Along = Float[jax.Array, "C J k"]
Point = Float[jax.Array, "C D"]

FARTHEST = 60.0
"""Largest exponent of a ratio of precisions, before single precision ends."""


@runtime_checkable
class Directions(Protocol):
    """Protocol of ``V`` and ``S^{−½}``; arrays are whitened by ``S`` and, of many classes, by rotated contrasts."""

    @property
    def complete(self) -> bool:
        """True if ``V`` is square."""
        ...

    def split(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """The coordinates that ``V`` is about, (C, J, q), and those of the levels of the scores, in their units."""
        ...

    def join(self, parts: Parts, level: Float[jax.Array, "C level"]) -> Point:
        """``θ`` (C, D) of whitened weights and levels."""
        ...

    def whiten(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """Whitened weights and levels of ``θ``: what undoes ``join``."""
        ...

    def along(self, parts: Parts) -> Along:
        """``Vᵀx``."""
        ...

    def back(self, along: Along) -> Parts:
        """``Va``."""
        ...


class ScaleMap(NamedTuple):
    """Where weights are at given ``ζ`` and ``δ``.

    Attributes
    ----------
    directions : Directions
        ``V`` and ``S``.
    prior_share : array (q,)
        ``m_d``; 0 for a rate.
    index : int array (q,)
        Group of each weight, any of a rate.
    share : array (g, J, k)
        ``m_jk``.
    likelihood : array (J, k)
        ``λ − Σ_j m_jk``, curvature of the rows.
    pull : array (J, k)
        ``β``.
    rest : array (J, q)
        ``κ``.
    level : array (level,)
        Mean level ``l`` of each score.
    fall, pull_fall : array (g,)
        ``a`` and ``b``.
    """

    directions: Any
    prior_share: Float[jax.Array, " q"]
    index: Int[jax.Array, " q"]  # type: ignore[assignment]  # tuples have a method of this name
    share: Float[jax.Array, "g J k"]
    likelihood: Float[jax.Array, "J k"]
    pull: Float[jax.Array, "J k"]
    rest: Float[jax.Array, "J q"]
    level: Float[jax.Array, " level"]
    fall: Float[jax.Array, " g"]
    pull_fall: Float[jax.Array, " g"]

    @property
    def size(self) -> int:
        """``D``."""
        return self.rest.size + self.level.shape[0]

    def place(self, zeta: Point, delta: Float[jax.Array, "C g"]) -> tuple[Point, Float[jax.Array, " C"]]:
        """``θ`` (C, D) and the log Jacobian (C,)."""
        x, level = self.directions.split(zeta)
        widths = 0.5 * (delta @ self.fall), delta @ (self.fall - self.pull_fall)
        log_wider, log_farther = (jnp.clip(part, -FARTHEST, FARTHEST) for part in widths)
        ratio = jnp.exp(jnp.clip(-2 * delta, None, FARTHEST))
        by_scale = jnp.einsum("cg,gjk->cjk", ratio, self.share)
        fall, pull_fall = (
            jnp.exp(jnp.clip(-(delta @ part), -FARTHEST, FARTHEST))[:, None, None]
            for part in (self.fall, self.pull_fall)
        )
        value, pull = self.likelihood[None] * fall + by_scale, self.pull[None] * pull_fall
        if self.directions.complete:
            log_h = -0.5 * jnp.log(value)
            h = jnp.exp(log_h)
            x = self.directions.back(h * (x + h * pull))
            jacobian = jnp.sum(log_h, axis=(1, 2))
        else:
            log_e = -0.5 * jnp.log((1 - self.prior_share)[None] + self.prior_share[None] * ratio[:, self.index])
            log_h = 0.5 * (jnp.log(1 - jnp.sum(self.share, axis=0)[None] + by_scale) - jnp.log(value))
            e = jnp.exp(log_e)[:, None]
            wide = e * x
            inside = jnp.expm1(log_h) * self.directions.along(wide) + pull / value
            x = wide + e * e * self.rest[None] + self.directions.back(inside)
            jacobian = self.rest.shape[0] * jnp.sum(log_e, axis=1) + jnp.sum(log_h, axis=(1, 2))
        level = jnp.exp(log_wider)[:, None] * level + jnp.exp(log_farther)[:, None] * self.level[None]
        return self.directions.join(x, level), jacobian + level.shape[1] * log_wider

    def prior_terms(self, delta: Float[jax.Array, " g"]) -> tuple[Float[jax.Array, " g"], Float[jax.Array, " g"]]:
        """``‖P_j^½c_j‖²`` and ``tr(P_jΣ)`` at scales ``e^{τ+δ}`` if the rows' curvature stays, (g,) each."""
        ratio = jnp.exp(jnp.clip(-2 * delta, None, FARTHEST))
        by_scale = jnp.einsum("g,gjk->jk", ratio, self.share)
        value = self.likelihood + by_scale
        centre = self.directions.back((self.pull / value)[None])[0]
        groups = jnp.zeros_like(delta)
        if self.directions.complete:
            spread = jnp.einsum("gjk,jk->g", self.share, 1 / value)
            prior_share = jnp.ones_like(self.prior_share)
        else:
            square = 1 / (1 - self.prior_share + self.prior_share * ratio[self.index])
            centre = centre + square[None] * self.rest
            along = 1 - jnp.sum(self.share, axis=0) + by_scale
            spread = jnp.einsum("gjk,jk->g", self.share, 1 / value - 1 / along)
            spread = spread + self.rest.shape[0] * groups.at[self.index].add(self.prior_share * square)
            prior_share = self.prior_share
        fitted = groups.at[self.index].add(prior_share * jnp.sum(centre * centre, axis=0))
        return ratio * fitted, ratio * spread


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
        """See :class:`Directions`."""
        J, p = self.factor.rotation.shape[0], self.factor.scale.shape[0]
        level = theta[:, J * p :]
        return theta[:, : J * p].reshape(-1, J, p), level * self.factor.level[None] if level.shape[1] else level

    def join(self, parts: Parts, level: Float[jax.Array, "C level"]) -> Point:
        """See :class:`Directions`."""
        factor = self.factor
        if level.shape[1]:
            level = (level - jnp.sum(factor.offset[None, None] * parts, axis=2)) @ factor.rotation.T
        weight = jnp.einsum("lj,cjp->clp", factor.rotation, factor.scale[None, None] * parts)
        return jnp.concatenate([weight.reshape(weight.shape[0], -1), level], axis=1)

    def whiten(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """See :class:`Directions`."""
        factor = self.factor
        J, p = factor.rotation.shape[0], factor.scale.shape[0]
        weight, level = theta[:, : J * p].reshape(-1, J, p), theta[:, J * p :]
        parts = jnp.einsum("lj,clp->cjp", factor.rotation, weight) / factor.scale[None, None]
        if level.shape[1]:
            level = level @ factor.rotation + jnp.sum(factor.offset[None, None] * parts, axis=2)
        return parts, level

    def along(self, parts: Parts) -> Along:
        """See :class:`Directions`."""
        factor, (chains, J, p) = self.factor, parts.shape
        flat = parts.reshape(chains * J, p)
        if factor.root is None:
            return _turn(factor.turned, factor.basis, flat).reshape(parts.shape)
        mean = jnp.sum(factor.offset[None] * flat, axis=1, keepdims=True)
        rows = factor.root[None] * (product(factor.matrix, factor.loading[None] * flat) - mean)
        return self.unit[None, None] * _turn(factor.turned, factor.basis, rows).reshape(chains, J, -1)

    def back(self, along: Along) -> Parts:
        """See :class:`Directions`."""
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
        """See :class:`Directions`."""
        parts, level = _split(theta, self.factor.loading, self.factor.level)
        return parts, self.factor.level[None] * level

    def join(self, parts: Parts, level: Float[jax.Array, "C level"]) -> Point:
        """See :class:`Directions`."""
        return _join(parts, level, self.factor.loading, self.factor.scale, self.factor.offset)

    def whiten(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """See :class:`Directions`."""
        found = _split(theta, self.factor.loading, self.factor.level)
        return _whitened(*found, self.factor.scale, self.factor.offset)

    def along(self, parts: Parts) -> Along:
        """See :class:`Directions`."""
        rows = self.factor.root[None] * self.factor.rows(parts[:, 0])
        return (self.unit[None] * _turn(self.factor.turned, self.factor.inner, rows))[:, None]

    def back(self, along: Along) -> Parts:
        """See :class:`Directions`."""
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
        """See :class:`Directions`."""
        parts, level = _split(theta, self.factor.scale, self.factor.level)
        return parts, self.factor.level[None] * level

    def join(self, parts: Parts, level: Float[jax.Array, "C level"]) -> Point:
        """See :class:`Directions`."""
        return _join(parts, level, self.factor.scale, self.scale, self.offset)

    def whiten(self, theta: Point) -> tuple[Parts, Float[jax.Array, "C level"]]:
        """See :class:`Directions`."""
        return _whitened(*_split(theta, self.factor.scale, self.factor.level), self.scale, self.offset)

    def along(self, parts: Parts) -> Along:
        """See :class:`Directions`."""
        return (self.factor.directions @ parts[:, 0].T).T[:, None]

    def back(self, along: Along) -> Parts:
        """See :class:`Directions`."""
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
