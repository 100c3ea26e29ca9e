"""Decouple weights from their learnt scales by a structured normal approximation, for gradient samplers.

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
is standard normal at every scale. The Jacobian is exact in any case; the approximation affects efficiency only.

Of the rows ``B = D^½A₀S^{−½}`` with ``BBᵀ = Q diag(γ) Qᵀ`` the directions are ``V = BᵀQγ^{−½}``, of fewer features than
rows the eigenvectors of ``BᵀB``, and of many rows and features the leading ones of :mod:`.precision`.

Shapes: ``C`` chains, ``J`` contrasts of classes (1 for a single score), ``n`` rows, ``q`` weights and free rates, ``k``
or ``m`` directions, ``g`` scales, ``D`` coordinates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._typing import Float, Int
from ..kernels.factors import WeightedRows, row_product
from .joint_scale_map import RULES

__all__ = ["Eigenvectors", "LeadingDirections", "RowDirections", "ScaleMap", "FARTHEST"]

Parts = Float[jax.Array, "C J q"]
Along = Float[jax.Array, "C J k"]
Point = Float[jax.Array, "C D"]

FARTHEST = 2 * RULES.farthest
"""Largest exponent of a ratio of precisions, the squares of scales."""


class ScaleMap(NamedTuple):
    """Map from ``ζ`` and ``δ`` to the weights.

    Attributes
    ----------
    frame : Frame or ClassFrame
        ``S^{−½}``, and the part of the intercepts that the weights determine.
    directions : RowDirections, Eigenvectors or LeadingDirections
        ``V``, in the coordinates that the frame whitens.
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

    frame: Any
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
        x, level = self.frame.split(zeta)
        level = self.frame.level[None] * level
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
        return self.frame.join(x, level), jacobian + level.shape[1] * log_wider

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
    """``Mr``, differentiated with the stored transpose: a transpose in the program takes several times as long."""
    return row_product(matrix, rows)


_turn.defvjp(
    lambda matrix, transposed, rows: (row_product(matrix, rows), transposed),
    lambda transposed, slope: (None, None, row_product(transposed, slope)),
)


class RowDirections(NamedTuple):
    """``V = BᵀQγ^{−½}``, for fewer rows than features.

    Attributes
    ----------
    rows : WeightedRows
        ``B``.
    basis, turned : array (n, n)
        ``Q`` and its transpose.
    unit : array (n,)
        ``γ^{−½}``, 0 where the rows carry no information.
    """

    rows: WeightedRows
    basis: Float[jax.Array, "n n"]
    turned: Float[jax.Array, "n n"]
    unit: Float[jax.Array, " n"]

    @property
    def complete(self) -> bool:
        """False: ``V`` is not square, and other directions remain."""
        return False

    def along(self, parts: Parts) -> Along:
        """``Vᵀx``."""
        rows = self.rows.root[None] * self.rows.scores(parts.reshape(-1, parts.shape[2]))
        return (self.unit[None] * _turn(self.turned, self.basis, rows)).reshape(*parts.shape[:2], -1)

    def back(self, along: Along) -> Parts:
        """``Va``."""
        rows = _turn(self.basis, self.turned, (self.unit[None, None] * along).reshape(-1, along.shape[2]))
        return self.rows.columns(self.rows.root[None] * rows).reshape(*along.shape[:2], -1)


class Eigenvectors(NamedTuple):
    """``V``, square, for at most as many features as rows: a matrix (p, p) and its transpose."""

    basis: Float[jax.Array, "p p"]
    turned: Float[jax.Array, "p p"]

    @property
    def complete(self) -> bool:
        """True: ``V`` is square."""
        return True

    def along(self, parts: Parts) -> Along:
        """``Vᵀx``."""
        return _turn(self.turned, self.basis, parts.reshape(-1, parts.shape[2])).reshape(parts.shape)

    def back(self, along: Along) -> Parts:
        """``Va``."""
        return _turn(self.basis, self.turned, along.reshape(-1, along.shape[2])).reshape(along.shape)


class LeadingDirections(NamedTuple):
    """``V``, the leading directions of many rows and features, as rows of a matrix (k, q)."""

    vectors: Float[jax.Array, "k q"]

    @property
    def complete(self) -> bool:
        """False: other directions remain."""
        return False

    def along(self, parts: Parts) -> Along:
        """``Vᵀx``."""
        return (self.vectors @ parts[:, 0].T).T[:, None]

    def back(self, along: Along) -> Parts:
        """``Va``."""
        return (along[:, 0] @ self.vectors)[:, None]
