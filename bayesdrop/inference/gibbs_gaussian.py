"""Weights given masks and auxiliary variables: a draw from a Gaussian, three ways.

With the pseudo-observations ``exp(κ_i s_i − ½ ω_i s_i²)``, masked features ``Z`` and a flat intercept ``b``,

    (w, b) ~ N(Q⁻¹ [1, Z]ᵀκ, Q⁻¹),      Q = diag(P, 0) + [Z, 1]ᵀ Ω [Z, 1].

``precision_draw`` factors ``Q`` (cost n p²), ``outer_draw`` an n × n matrix (Bhattacharya, Chakraborty & Mallick 2016,
with the flat intercept integrated out first; cost n² p), and ``gradient_draw`` solves one perturbed system by conjugate
gradients and forms no matrix (Nishimura & Suchard 2022).

The first two want a dense matrix. ``cheapest`` chooses by the number of operations.

Shapes: scores and pseudo-observations (C, n), weights (C, p), masks as :class:`.gibbs_columns.Columns` says, prior
precision (C, p).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from .gibbs_columns import Columns

__all__ = ["DRAWS", "cheapest", "gradient_draw", "outer_draw", "precision_draw"]

Array = Any
Draw = Callable[..., tuple[Array, Array]]

# Iterations of conjugate gradients, and what an operation of theirs costs beside one of a dense factorisation.
_ITERATIONS, _STREAMING = 60, 8
# No matrix of more than so many numbers is factored.
_LARGEST = 5_000**2


def _solve(factor: Array, right: Array, transposed: bool = False) -> Array:
    """Solve with lower factors (C, q, q) and right-hand sides (C, q)."""
    return solve_triangular(factor, right[:, :, None], lower=True, trans=1 if transposed else 0)[:, :, 0]


def precision_draw(
    key: Array, columns: Columns, kept: Sequence[Array], omega: Array, kappa: Array, precision: Array, intercept: bool
) -> tuple[Array, Array]:
    """Draw ``(w, b)`` by a Cholesky factor of the (p + 1)-square precision.

    The precision is scaled to a unit diagonal first, so that features in very different units cost no digits.
    """
    chains = omega.shape[0]
    masked = columns.blocks[0].masked(kept[0])
    if intercept:
        masked = jnp.concatenate([masked, jnp.ones((1, *masked.shape[1:]), masked.dtype)])
        precision = jnp.concatenate([precision, jnp.zeros((chains, 1), precision.dtype)], axis=1)
    rooted = jnp.moveaxis(masked * jnp.sqrt(omega)[None], 1, 0)
    gram = jnp.einsum("cpn,cqn->cpq", rooted, rooted)
    moment = jnp.einsum("pcn,cn->cp", masked, kappa)
    diagonal = jnp.diagonal(gram, axis1=1, axis2=2) + precision
    scale = 1 / jnp.sqrt(diagonal)
    eye = jnp.eye(diagonal.shape[1], dtype=gram.dtype)[None]
    scaled = gram * scale[:, :, None] * scale[:, None, :]
    factor = jnp.linalg.cholesky(jnp.where(eye > 0, 1, scaled))
    noise = jax.random.normal(key, diagonal.shape, gram.dtype)
    draw = scale * _solve(factor, _solve(factor, scale * moment) + noise, transposed=True)
    if intercept:
        return draw[:, :-1], draw[:, -1]
    return draw, jnp.zeros(chains, draw.dtype)


def outer_draw(
    key: Array, columns: Columns, kept: Sequence[Array], omega: Array, kappa: Array, precision: Array, intercept: bool
) -> tuple[Array, Array]:
    """Draw ``(w, b)`` by a Cholesky factor of ``I + Ω^½ Z P⁻¹ Zᵀ Ω^½``, n-square.

    The intercept comes first, from its conditional with the weights integrated out; then the weights given it.
    """
    chains, n = omega.shape
    p = precision.shape[1]
    key_b, key_u, key_e = jax.random.split(key, 3)
    root = jnp.sqrt(omega)
    half = jnp.moveaxis(columns.blocks[0].masked(kept[0]) * root[None], 1, 0)
    variance = 1 / precision
    outer = jnp.einsum("cpn,cpm->cnm", half * variance[:, :, None], half)
    factor = jnp.linalg.cholesky(outer + jnp.eye(n, dtype=outer.dtype)[None])
    target = kappa / root
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


def gradient_draw(
    key: Array, columns: Columns, kept: Sequence[Array], omega: Array, kappa: Array, precision: Array, intercept: bool
) -> tuple[Array, Array]:
    """Draw ``(w, b)`` as the solution of ``Q θ = [Z, 1]ᵀ(κ + Ω^½ ε) + P^½ ε'`` by Jacobi-preconditioned CG.

    Exact up to the tolerance of the solver, 1e-8 of the right-hand side in double and 1e-5 in single precision.
    """
    chains, n = omega.shape
    key_rows, key_prior = jax.random.split(key)
    rows = kappa + jnp.sqrt(omega) * jax.random.normal(key_rows, omega.shape, omega.dtype)
    prior = jnp.sqrt(precision) * jax.random.normal(key_prior, precision.shape, omega.dtype)
    right = (columns.transposed_product(kept, rows) + prior, jnp.sum(rows, axis=1))
    jacobi = (precision + columns.transposed_product(kept, omega, square=True), jnp.sum(omega, axis=1))

    def apply(theta: tuple[Array, Array]) -> tuple[Array, Array]:
        weight, offset = theta
        score = columns.product(kept, weight, n) + offset[:, None]
        back = columns.transposed_product(kept, omega * score) + precision * weight
        return back, jnp.sum(omega * score, axis=1) if intercept else offset

    if not intercept:
        right, jacobi = (right[0], jnp.zeros(chains, omega.dtype)), (jacobi[0], jnp.ones(chains, omega.dtype))
    weight, offset = _conjugate_gradient(apply, right, jacobi, 1e-8 if omega.dtype == jnp.float64 else 1e-5)
    return weight, offset


DRAWS: dict[str, Draw] = {
    "cholesky": precision_draw,
    "woodbury": outer_draw,
    "conjugate_gradient": gradient_draw,
}
"""The three draws by the names under which :class:`bayesdrop.Gibbs` knows them."""


def cheapest(n: int, p: int, dense: bool) -> str:
    """Name of the draw that takes the fewest operations for ``n`` rows and ``p`` features.

    Examples
    --------
    >>> cheapest(500, 30, True), cheapest(40, 300, True), cheapest(2000, 5000, False)
    ('cholesky', 'woodbury', 'conjugate_gradient')
    """
    if not dense:
        return "conjugate_gradient"
    cost = {"conjugate_gradient": float(_STREAMING * _ITERATIONS * 2 * n * p)}
    for name, side, other in (("cholesky", p, n), ("woodbury", n, p)):
        if side * side <= _LARGEST:
            cost[name] = side * side * other + side**3 / 3
    return min(cost, key=lambda name: cost[name])


def _conjugate_gradient(
    apply: Any, right: tuple[Array, Array], jacobi: tuple[Array, Array], tolerance: float
) -> tuple[Array, Array]:
    """Solve one system per chain, each with its own step lengths, until every chain is done."""

    def dot(a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
        return jnp.sum(a[0] * b[0], axis=1) + a[1] * b[1]

    def axpy(step: Array, a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        return step[:, None] * a[0] + b[0], step * a[1] + b[1]

    def precondition(r: tuple[Array, Array]) -> tuple[Array, Array]:
        return r[0] / jacobi[0], r[1] / jacobi[1]

    goal = tolerance**2 * dot(right, precondition(right))
    start = precondition(right)
    limit = right[0].shape[1] + 1

    def body(carry: Any) -> Any:
        step, theta, residual, direction, size = carry
        image = apply(direction)
        active = size > goal
        length = jnp.where(active, size / jnp.where(active, dot(direction, image), 1), 0)
        theta, residual = axpy(length, direction, theta), axpy(-length, image, residual)
        steered = precondition(residual)
        new = dot(residual, steered)
        ratio = jnp.where(active, new / jnp.where(active, size, 1), 0)
        return step + 1, theta, residual, axpy(ratio, direction, steered), jnp.where(active, new, size)

    zero = jax.tree.map(jnp.zeros_like, right)
    begin = (jnp.int32(0), zero, right, start, dot(right, start))
    return jax.lax.while_loop(lambda c: (c[0] < 2 * limit) & jnp.any(c[4] > goal), body, begin)[1]
