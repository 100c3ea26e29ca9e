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
from .moves.columns import Columns
from .moves.state import Conditional, Masks

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
Vector = Float[jax.Array, "C D"]


def _solve(
    factor: Float[jax.Array, "C q q"], right: Float[jax.Array, "C q"], transposed: bool = False
) -> Float[jax.Array, "C q"]:
    """Solve with lower factors (C, q, q) and right-hand sides (C, q)."""
    return solve_triangular(factor, right[:, :, None], lower=True, trans=1 if transposed else 0)[:, :, 0]


def precision_draw(key: PRNGKeyArray, conditional: Conditional, intercept: bool) -> Drawn:
    """Draw ``(w, b)`` by a Cholesky factor of the p × p precision of the weights.

    The precision is scaled to a unit diagonal first, so that features in very different units lose no digits, and an
    intercept is drawn at the weighted mean of the rows, where it is independent of the weights: a feature that is far
    from zero for its spread, such as a time stamp, loses none either.
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
    noise = jax.random.normal(key_weight, diagonal.shape, gram.dtype)
    draw = scale * _solve(factor, _solve(factor, scale * moment) + noise, transposed=True)
    return draw, level - jnp.einsum("pc,cp->c", centre, draw) if intercept else level


def outer_draw(key: PRNGKeyArray, conditional: Conditional, intercept: bool) -> Drawn:
    """Draw ``(w, b)`` by a Cholesky factor of the n × n matrix ``I + Ω^½ Z P⁻¹ Zᵀ Ω^½``.

    The intercept comes first, from its conditional with the weights integrated out; then the weights given it.
    """
    columns, masks, omega, kappa, precision, prior_row = conditional
    masked = columns.blocks[0].masked(masks[0])
    if prior_row is not None:
        masked, omega, kappa = prior_row.joined(masked, omega, kappa)
    chains, n = omega.shape
    p = precision.shape[1]
    key_b, key_u, key_e = jax.random.split(key, 3)
    root = jnp.sqrt(omega)
    half = jnp.moveaxis(masked * root[None], 1, 0)
    variance = 1 / precision
    outer = jnp.einsum("cpn,cpm->cnm", half * variance[:, :, None], half)
    factor = jnp.linalg.cholesky(outer + jnp.eye(n, dtype=outer.dtype)[None])
    target = kappa / jnp.where(root > 0, root, 1)  # rows of weight zero have ω = κ = 0
    offset = jnp.zeros(chains, outer.dtype)
    if intercept:
        ones, along = _solve(factor, root), _solve(factor, target)
        information = jnp.sum(ones * ones, axis=1)
        mean = jnp.sum(ones * along, axis=1) / information
        offset = mean + jax.random.normal(key_b, (chains,), outer.dtype) / jnp.sqrt(information)
    prior = jnp.sqrt(variance) * jax.random.normal(key_u, (chains, p), outer.dtype)
    fitted = jnp.einsum("cpn,cp->cn", half, prior) + jax.random.normal(key_e, (chains, n), outer.dtype)
    residual = target - root * offset[:, None] - fitted
    solved = _solve(factor, _solve(factor, residual), transposed=True)
    return prior + variance * jnp.einsum("cpn,cn->cp", half, solved), offset


def gradient_draw(key: PRNGKeyArray, conditional: Conditional, intercept: bool) -> Drawn:
    """Draw ``(w, b)`` as the solution of ``Q θ = [Z, 1]ᵀ(κ + Ω^½ ε) + P^½ ε'`` by preconditioned conjugate gradients.

    Exact up to the tolerance of the solver, 1e-8 of the right-hand side in double and 1e-5 in single precision.
    """
    columns, masks, omega, kappa, precision, prior_row = conditional
    chains, n = omega.shape
    key_rows, key_prior, key_row = jax.random.split(key, 3)
    rows = kappa + jnp.sqrt(omega) * jax.random.normal(key_rows, omega.shape, omega.dtype)
    prior = jnp.sqrt(precision) * jax.random.normal(key_prior, precision.shape, omega.dtype)

    def back(rowwise: PerScore, square: bool = False) -> Vector:
        """``[Z, 1]ᵀ r``, (C, p + 1), or ``Zᵀ r``, (C, p), without an intercept."""
        weight = columns.transposed_product(masks, rowwise, square)
        return jnp.concatenate([weight, jnp.sum(rowwise, axis=1, keepdims=True)], axis=1) if intercept else weight

    def padded(weight: Float[jax.Array, "C p"]) -> Vector:
        """Append a zero for the intercept, whose prior is flat: (C, p) to (C, D)."""
        return jnp.pad(weight, ((0, 0), (0, int(intercept))))

    def apply(theta: Vector) -> Vector:
        score = columns.product(masks, theta[:, : precision.shape[1]], n)
        if intercept:
            score = score + theta[:, -1:]
        image = back(omega * score) + padded(precision) * theta
        return image if prior_row is None else image + along * jnp.sum(along * theta, axis=1, keepdims=True)

    right, diagonal, along = back(rows) + padded(prior), padded(precision), jnp.zeros_like(padded(precision))
    if prior_row is not None:
        along, observed = prior_row.drawn(key_row)
        right, diagonal = right + along * observed, diagonal + along * along
    precondition = _stiff_rows(columns, masks, omega, diagonal, back, intercept)
    theta = _conjugate_gradient(apply, precondition, right, 1e-8 if omega.dtype == jnp.float64 else 1e-5)
    return (theta[:, :-1], theta[:, -1]) if intercept else (theta, jnp.zeros(chains, theta.dtype))


def _stiff_rows(
    columns: Columns,
    masks: Masks,
    omega: PerScore,
    precision: Vector,
    back: Callable[..., Vector],
    intercept: bool,
) -> Callable[[Vector], Vector]:
    """Preconditioner, inverse of ``D + RᵀΩ_S R``: ``k`` rows ``R`` with the largest ``ω`` whole, the others' diagonal.

    The auxiliary variables of a piecewise-linear loss have a tail as heavy as Cauchy's. A row with a large ``ω`` and
    rare words dominates the diagonal entries of these words, but in one direction only: scaled by the diagonal, the
    precision has eigenvalues near zero, and more of them with more rows. By Woodbury's identity the inverse is
    ``D⁻¹ − HᵀH`` with ``H = L⁻¹ R D⁻¹`` and ``LLᵀ = Ω_S⁻¹ + R D⁻¹ Rᵀ``. On words of Zipf's law it took 84 iterations
    instead of 495 for the hinge on 3,000 rows.
    """
    max_rows = 128  # maximum of k; R has at most twice as many entries as the features
    (chains, n), size = omega.shape, precision.shape[1]
    entries = sum(block.values.size for block in columns.blocks)
    k = min(max_rows, n // 2, 2 * entries // size)
    largest, chosen = jax.lax.top_k(omega, k)
    others = omega.at[jnp.arange(chains)[:, None], chosen].set(0)
    diagonal = precision + back(others, True)
    # Rows of weight zero have ω = 0; if only such rows are left, any positive number will do.
    diagonal, largest = jnp.where(diagonal > 0, diagonal, 1), jnp.maximum(largest, 1e-30)
    if not k:
        return lambda residual: residual / diagonal
    rows = columns.rows(masks, chosen)
    if intercept:
        rows = jnp.concatenate([rows, jnp.ones((chains, k, 1), rows.dtype)], axis=2)
    scaled = rows / diagonal[:, None, :]
    inner = jnp.einsum("ckp,clp->ckl", scaled, rows)
    size_of_row = jnp.diagonal(inner, axis1=1, axis2=2)
    # Rows may be copies of each other; the ridge bounds the rounding error.
    ridge = 1 / largest + k * float(jnp.finfo(omega.dtype).eps) * size_of_row
    factor = jnp.linalg.cholesky(inner + ridge[:, :, None] * jnp.eye(k, dtype=inner.dtype)[None])
    half = solve_triangular(factor, scaled, lower=True)

    def inverse(residual: Vector) -> Vector:
        inside = jnp.einsum("ckp,cp->ck", half, residual)
        return residual / diagonal - jnp.einsum("ckp,ck->cp", half, inside)

    return inverse


DRAWS: dict[str, Draw] = {
    "cholesky": precision_draw,
    "woodbury": outer_draw,
    "conjugate_gradient": gradient_draw,
}
"""The three draws by their names in :class:`bayesdrop.Gibbs`."""


def _conjugate_gradient(
    apply: Callable[[Vector], Vector], precondition: Callable[[Vector], Vector], right: Vector, tolerance: float
) -> Vector:
    """Solve one system per chain, right-hand sides (C, D), each with its own step lengths, until all are done."""

    def dot(a: Vector, b: Vector) -> Float[jax.Array, " C"]:
        return jnp.sum(a * b, axis=1)

    start = precondition(right)
    size = dot(right, start)
    goal, limit = tolerance**2 * size, 2 * right.shape[1]

    def body(carry: Any) -> Any:
        step, theta, residual, direction, size = carry
        image = apply(direction)
        active = size > goal
        length = jnp.where(active, size / jnp.where(active, dot(direction, image), 1), 0)[:, None]
        theta, residual = theta + length * direction, residual - length * image
        steered = precondition(residual)
        new = dot(residual, steered)
        ratio = jnp.where(active, new / jnp.where(active, size, 1), 0)[:, None]
        return step + 1, theta, residual, steered + ratio * direction, jnp.where(active, new, size)

    begin = (jnp.int32(0), jnp.zeros_like(right), right, start, size)
    return jax.lax.while_loop(lambda c: (c[0] < limit) & jnp.any(c[4] > goal), body, begin)[1]


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
