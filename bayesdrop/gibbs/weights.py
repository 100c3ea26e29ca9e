"""Weights given masks and auxiliary variables: a draw from a Gaussian, three ways.

With the pseudo-observations ``exp(κ_i s_i − ½ ω_i s_i²)``, masked features ``Z`` and a flat intercept ``b``,

    (w, b) ~ N(Q⁻¹ [Z, 1]ᵀκ, Q⁻¹),      Q = diag(P, 0) + [Z, 1]ᵀ Ω [Z, 1].

``precision_draw`` factors a p × p matrix (cost n p²), ``outer_draw`` an n × n matrix (Bhattacharya, Chakraborty &
Mallick 2016, with the flat intercept integrated out first; cost n² p), and ``gradient_draw`` solves one perturbed
system by conjugate gradients and forms neither matrix (Nishimura & Suchard 2022).

The first two need a dense matrix; :mod:`.choices` chooses among the three. Noise may be averaged inside the loss,

    (w, b) ~ N(0, P⁻¹) × flat × Π_i exp{−C s_i φ(y_i, o_i + m_i, v_i)},
    m = X(g∘w) + b,    v = X²(a∘w²) + X(b∘w²) + c0ᵀw²

with ``φ`` the augmentation bound and ``o`` a known offset. The auxiliary variables of the bound make it conjugate: with
``r² = ζ² + v`` the hinge's ``exp{−½C(ζ + r)}`` is a mixture of ``exp{−½ω r² − ½Cζ}`` over ``λ = c²/ω``, ``c = C/2``,
whose conditional is ``GIG(½, 1, c²r²)`` (Polson & Scott 2011; Chen, Zhu, Chen & Chen 2015, section 4.1), the logistic
``(2 cosh ½r)^{−C}`` one of ``exp{−½ω r²}`` over ``ω``, whose conditional is ``PG(C, r)`` (Polson, Scott & Windle 2013).
Given ``ω``, ``v`` is a quadratic form of the weights and adds to their precision:

    (w, b) | ω, κ ~ N(Q⁻¹ Mᵀ(κ − ω∘o), Q⁻¹),    Q = P + MᵀΩM + diag{a∘(X²)ᵀω + b∘Xᵀω + c0 Σω}.

Shapes: scores and pseudo-observations (C, n), weights and their prior precision (C, p), masks as
:class:`.moves.columns.Columns` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import PRNGKeyArray

from .._typing import AnyArray, Bool, Float
from ..losses.protocols import Augmented
from ..noise import Coefficients
from ..sampling.prior_operands import LevelOperands
from .gradient_draw import gradient_draw
from .moves.columns import Columns
from .moves.state import Conditional

__all__ = [
    "AugmentedWeights",
    "Draw",
    "NoisedFeatures",
    "augmented_weights",
    "gradient_draw",
    "outer_draw",
    "precision_draw",
    "DRAWS",
]

Drawn = tuple[Float[jax.Array, "C p"], Float[jax.Array, " C"]]
Draw = Callable[..., Drawn]
PerScore = Float[jax.Array, "C n"]


@dataclass(frozen=True)
class Rules:
    """Accuracy of draws by a factor.

    Attributes
    ----------
    digits : float
        Smallest square of a pivot of the precision with a unit diagonal, in units of rounding.
    refinements : int
        Maximum number of times that a solution is refined.
    goal, fails : float
        Errors in posterior standard deviations at which this ends, and above which a draw fails.
    """

    digits: float = 4.0
    refinements: int = 6
    goal: float = 1e-3
    fails: float = 0.1


RULES = Rules()


def _solve(
    factor: Float[jax.Array, "C q q"], right: Float[jax.Array, "C q"], transposed: bool = False
) -> Float[jax.Array, "C q"]:
    """Solve with lower factors (C, q, q) and right-hand sides (C, q)."""
    return solve_triangular(factor, right[:, :, None], lower=True, trans=1 if transposed else 0)[:, :, 0]


def precision_draw(key: PRNGKeyArray, conditional: Conditional, intercept: bool) -> Drawn:
    """Draw ``(w, b)`` by a Cholesky factor of the p × p precision of the weights.

    The precision is scaled to a unit diagonal first, so that features in very different units lose no digits, and an
    intercept is drawn at the weighted mean of the rows, where it is independent of the weights: a feature that is far
    from zero for its spread, such as a time stamp, loses none either. NaN in a chain in which rounding decides.
    """
    columns, masks, omega, kappa, precision, prior_row = conditional
    chains = omega.shape[0]
    masked = columns.blocks[0].masked(masks[0])
    if prior_row is not None:
        masked, omega, kappa = prior_row.joined(masked, omega, kappa)
    key_weight, key_level = jax.random.split(key)
    total, level = jnp.sum(omega, axis=1), jnp.zeros(chains, omega.dtype)
    if intercept:
        centre = jnp.einsum("pcn,cn->pc", masked, omega / total[:, None])
        masked = masked - centre[:, :, None]
        mean = jnp.sum(kappa, axis=1) / total
        level = mean + jax.random.normal(key_level, (chains,), omega.dtype) / jnp.sqrt(total)
        kappa = kappa - omega * mean[:, None]
    rooted = jnp.moveaxis(masked * jnp.sqrt(omega)[None], 1, 0)
    gram = jnp.einsum("cpn,cqn->cpq", rooted, rooted)
    moment = jnp.einsum("pcn,cn->cp", masked, kappa)
    diagonal = jnp.diagonal(gram, axis1=1, axis2=2) + precision
    scale = 1 / jnp.sqrt(diagonal)
    eye = jnp.eye(diagonal.shape[1], dtype=gram.dtype)[None]
    scaled = gram * scale[:, :, None] * scale[:, None, :]
    factor = jnp.linalg.cholesky(jnp.where(eye > 0, 1, scaled))
    # Below the last digits, rounding decides how much of the variance of a weight the weights before it leave. In one
    # draw of a piecewise-linear loss this may also be due to a row whose ω exceeds that of all others.
    pivot = jnp.min(jnp.diagonal(factor, axis1=1, axis2=2), axis=1, initial=jnp.inf)
    lost = (pivot * pivot < RULES.digits * jnp.finfo(gram.dtype).eps) & (2 * jnp.max(omega, axis=1) < total)
    scale = jnp.where(lost[:, None], jnp.nan, scale)
    noise = jax.random.normal(key_weight, diagonal.shape, gram.dtype)
    draw = scale * _solve(factor, _solve(factor, scale * moment) + noise, transposed=True)
    return draw, level - jnp.einsum("pc,cp->c", centre, draw) if intercept else level


def outer_draw(key: PRNGKeyArray, conditional: Conditional, intercept: bool) -> Drawn:
    """Draw ``(w, b)`` by a Cholesky factor of the n × n matrix ``I + Ω^½ Z P⁻¹ Zᵀ Ω^½``.

    An intercept is drawn at the weighted mean of the rows as in :func:`precision_draw`. The solution is refined by its
    residual, of which rounding makes much if features have very different units. A residual of length ``r`` is an
    error of at most ``r`` posterior standard deviations; NaN in a chain in which it exceeds ``Rules.fails``.
    """
    columns, masks, omega, kappa, precision, prior_row = conditional
    masked = columns.blocks[0].masked(masks[0])
    if prior_row is not None:
        masked, omega, kappa = prior_row.joined(masked, omega, kappa)
    chains, n = omega.shape
    key_b, key_u, key_e = jax.random.split(key, 3)
    root, level = jnp.sqrt(omega), jnp.zeros(chains, omega.dtype)
    unit = jnp.zeros_like(root)
    if intercept:
        total = jnp.sum(omega, axis=1)
        centre = jnp.einsum("pcn,cn->pc", masked, omega / total[:, None])
        masked, unit = masked - centre[:, :, None], root / jnp.sqrt(total)[:, None]
        level = jnp.sum(kappa, axis=1) / total + jax.random.normal(key_b, (chains,), omega.dtype) / jnp.sqrt(total)
    half = jnp.moveaxis(masked * root[None], 1, 0)
    variance = 1 / precision
    outer = jnp.einsum("cpn,cpm->cnm", half * variance[:, :, None], half)
    # Along ``unit`` the centred matrix is 0, and what is added there changes no weight: it keeps the factor stable.
    added = jnp.trace(outer, axis1=1, axis2=2)[:, None, None] / n * unit[:, :, None] * unit[:, None, :]
    factor = jnp.linalg.cholesky(outer + added + jnp.eye(n, dtype=outer.dtype)[None])
    target = kappa / jnp.where(root > 0, root, 1)  # rows of weight zero have ω = κ = 0
    prior = jnp.sqrt(variance) * jax.random.normal(key_u, precision.shape, outer.dtype)
    noise = jax.random.normal(key_e, (chains, n), outer.dtype)

    def across(rowwise: PerScore) -> PerScore:
        return rowwise - unit * jnp.sum(unit * rowwise, axis=1, keepdims=True)

    def body(carry: Any) -> Any:
        count, draw, solved, residual = carry
        step = across(_solve(factor, _solve(factor, residual), transposed=True))
        draw, solved = draw + variance * jnp.einsum("cpn,cn->cp", half, step), solved + step
        return count + 1, draw, solved, across(rest - solved - jnp.einsum("cpn,cp->cn", half, draw))

    def going(carry: Any) -> Any:
        return (carry[0] < RULES.refinements) & jnp.any(jnp.sum(carry[3] * carry[3], axis=1) > RULES.goal**2)

    rest = across(target - noise)
    begin = (jnp.int32(0), prior, jnp.zeros_like(root), across(rest - jnp.einsum("cpn,cp->cn", half, prior)))
    _, draw, _, residual = jax.lax.while_loop(going, body, begin)
    lost = ~(jnp.sum(residual * residual, axis=1) <= RULES.fails**2)
    draw = jnp.where(lost[:, None], jnp.nan, draw)
    return draw, level - jnp.einsum("pc,cp->c", centre, draw) if intercept else level


DRAWS: dict[str, Draw] = {
    "cholesky": precision_draw,
    "woodbury": outer_draw,
    "conjugate_gradient": gradient_draw,
}
"""The three draws by their names in :class:`bayesdrop.Gibbs`."""


class NoisedFeatures(NamedTuple):
    """Features, their noise, and the targets and offsets of the rows.

    Attributes
    ----------
    columns : Columns
        The features.
    coefficients : Coefficients of arrays (1, p)
        Quadratic variance function of the noise; every gain is non-zero, and shifts are ignored.
    target : array (n,)
        Labels −1 and +1 or numbers.
    offset : array (n,), optional
        Known part of every row's score.
    """

    columns: Columns
    coefficients: Coefficients
    target: Float[jax.Array, " n"]
    offset: Float[jax.Array, " n"] | None = None


@dataclass(frozen=True)
class AugmentedWeights:
    """Draw of weights and intercept under averaged noise, with the settings that are fixed at compilation.

    Attributes
    ----------
    loss : Augmented
        Loss in its augmented form; without noise the plain loss.
    fit_intercept : bool
        Whether to draw an intercept.
    quadratic, linear, constant : bool
        Which coefficients of the noise are not all zero.
    gaussian_draw : callable
        One of the draws of ``DRAWS``.
    """

    loss: Augmented
    fit_intercept: bool
    quadratic: bool
    linear: bool
    constant: bool
    gaussian_draw: Draw

    def moments(
        self, features: NoisedFeatures, weight: Float[jax.Array, "C p"], intercept: Float[jax.Array, " C"]
    ) -> tuple[PerScore, PerScore]:
        """Mean and variance of the scores: weights (C, p) and intercepts (C,) to (C, n) each."""
        columns, parts = features.columns, features.coefficients
        mean = columns.full_product(parts.gain * weight) + intercept[:, None]
        mean = mean if features.offset is None else mean + features.offset[None]
        var, square = jnp.zeros_like(mean), weight * weight
        if self.quadratic:
            var = var + columns.full_squared_product(parts.quadratic * square)
        if self.linear:
            var = var + columns.full_product(parts.linear * square)
        if self.constant:
            var = var + jnp.sum(parts.constant * square, axis=1, keepdims=True)
        return mean, var

    def added_precision(
        self, features: NoisedFeatures, omega: PerScore, everything: tuple[Bool[jax.Array, "_ C _"], ...]
    ) -> Float[jax.Array, "C p"]:
        """Precision that the variance of the scores adds: (C, n) to (C, p); ``everything`` are masks that keep all."""
        columns, parts = features.columns, features.coefficients
        total = jnp.zeros((omega.shape[0], parts.gain.shape[1]), omega.dtype)
        if self.quadratic:
            total = total + parts.quadratic * columns.transposed_product(everything, omega, square=True)
        if self.linear:
            total = total + parts.linear * columns.transposed_product(everything, omega)
        if self.constant:
            total = total + parts.constant * jnp.sum(omega, axis=1, keepdims=True)
        return total

    def draw(
        self,
        key_aux: PRNGKeyArray,
        key_draw: PRNGKeyArray,
        features: NoisedFeatures,
        mean: PerScore,
        var: PerScore,
        row_weight: Float[AnyArray, "*rows"],
        precision: Float[jax.Array, "C p"],
        location: Float[jax.Array, " p"] | None = None,
        level: LevelOperands | None = None,
    ) -> tuple[Float[jax.Array, "C p"], Float[jax.Array, " C"]]:
        """Draw auxiliary variables given the moments (C, n) of the scores, then weights (C, p) and intercept (C,).

        ``row_weight`` is ``C s_i / σ²`` (C, n), or ``np.ones(())`` if all are 1: for a plain number, not a traced
        array, the auxiliary sampler is exact and cheaper. ``precision`` (C, p) is the prior's, and ``location`` (p,)
        its mean, None if that is 0; ``level`` is the prior of the intercept, None if that is flat.
        """
        chains, n = mean.shape
        flat = row_weight.reshape(-1) if row_weight.ndim else row_weight
        target = jnp.broadcast_to(features.target[None], (chains, n)).reshape(-1)
        pseudo = self.loss.sample_pseudo(key_aux, target, mean.reshape(-1), var.reshape(-1), flat)
        omega, kappa = (jnp.broadcast_to(part, (chains * n,)).reshape(chains, n) for part in pseudo)
        if features.offset is not None:
            kappa = kappa - omega * features.offset[None]
        everything = tuple(
            jnp.ones((block.values.shape[0], chains, block.values.shape[1]), bool) for block in features.columns.blocks
        )
        gain = features.coefficients.gain
        # The Gaussian draw has X and not M = X diag(g): it draws g∘w.
        total, centre = precision + self.added_precision(features, omega, everything), None
        if location is not None:
            # The noise shrinks the weights towards 0, so that they are centred between 0 and the prior's mean.
            centre = gain * location[None] * precision / total
            kappa = kappa - omega * features.columns.full_product(centre)
        precision = total / (gain * gain)
        row = None if level is None else level.row(gain, centre, chains)
        conditional = Conditional(features.columns, everything, omega, kappa, precision, row)
        scaled, intercept = self.gaussian_draw(key_draw, conditional, self.fit_intercept)
        return (scaled if centre is None else scaled + centre) / gain, intercept


def augmented_weights(
    loss: Augmented, noise: Coefficients, fit_intercept: bool, gaussian_draw: Draw
) -> AugmentedWeights:
    """Build the draw for a loss and a noise; without noise it uses the plain loss."""
    quadratic, linear, constant = (bool(np.any(part)) for part in (noise.quadratic, noise.linear, noise.constant))
    noisy = quadratic or linear or constant
    return AugmentedWeights(loss if noisy else loss.plain, fit_intercept, quadratic, linear, constant, gaussian_draw)
