"""Draw PG(1, z) and reciprocals of inverse Gaussian variables exactly, vectorised and without NumPyro, for samplers.

``PG(1, z) = ¼ J*(1, z/2)``. As in Polson, Scott & Windle (2013, section 4) the density of J* is bounded by the first
term of one of two alternating series, left and right of T = 0.64, and a draw from that envelope is accepted with the
value of the series over its first term. At this T four terms give that ratio to double precision,

    1 − 3e + 5e³ − 7e⁶,      e = exp(−4/x) for x ≤ T,  exp(−π² x) for x > T,

so that no loop over terms is needed. The whole proposal is drawn again on rejection, so the pieces are chosen by
their masses under the *envelope*: right ``(π/2)/K exp(−KT)`` with ``K = π²/8 + z²/8``; left, for a small tilt,
``4Φ(−1/√T)`` (the reciprocal square of a normal tail, then accepted with ``exp(−z²x/8)``), else ``2 exp(−|z|/2)``
(an inverse Gaussian, accepted if below T). About one draw in eight is rejected; for speed, rejected draws are collected
in smaller and smaller buffers.

Reciprocals of inverse Gaussian variables are the auxiliary variables of piecewise-linear losses. They are drawn by the
method of Michael, Schucany & Haas (1976), with the small root computed from the large one to avoid cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax, nn, random
from jaxtyping import PRNGKeyArray

from .._typing import Bool, Float

__all__ = ["polya_gamma_one", "reciprocal_inverse_gaussian", "where_needed"]

PerDraw = Float[jax.Array, " m"]
Done = Bool[jax.Array, " m"]

_T = 0.64
_TAIL = 0.10564977366685535  # Φ(−1/√T) = Φ(−1.25)
# Tilt |z|/2 at which the two left envelopes have the same mass: 4Φ(−1.25) = 2 exp(−|z|/2).
_SWITCH = -math.log(2 * _TAIL)


@dataclass(frozen=True)
class Rules:
    """Sizes of the buffers of rejected draws, which affect time only.

    Attributes
    ----------
    small : int
        Number of draws up to which there are no buffers.
    first, second, spare : int
        The two buffers hold ``1/first`` and ``1/second`` of the draws, plus ``spare``; 1/8 and 1/64 of the draws are
        expected in them, and a buffer that overflows costs another iteration.
    """

    small: int = 256
    first: int = 6
    second: int = 40
    spare: int = 64


RULES = Rules()


@jax.jit
def polya_gamma_one(key: PRNGKeyArray, z: Float[jax.Array, "*shape"]) -> Float[jax.Array, "*shape"]:
    """Draw from PG(1, z).

    Parameters
    ----------
    key : JAX key
        Source of the random numbers.
    z : array
        Tilts, any shape; computed in its dtype, float32 or float64.

    Returns
    -------
    array shaped like ``z``

    See Also
    --------
    bayesdrop.distributions.PolyaGamma

    Examples
    --------
    >>> from jax import random
    >>> import jax.numpy as jnp
    >>> polya_gamma_one(random.key(0), jnp.zeros((2, 3))).shape
    (2, 3)
    """
    shape = z.shape
    flat = 0.5 * jnp.abs(z).reshape(-1)
    # Tilts are bounded so that no sum below overflows; the draw at the bound is the smallest normal number.
    flat = jnp.where(jnp.isfinite(flat), jnp.minimum(flat, float(jnp.finfo(z.dtype).max) / 16), flat)
    n = flat.size
    if n == 0:
        return jnp.zeros(shape, z.dtype)
    key, key_first = random.split(key)
    draws, accepted = _attempt(key_first, flat)
    if n <= RULES.small:
        return 0.25 * _until_done(key, flat, draws, accepted).reshape(shape)

    first, second = n // RULES.first + RULES.spare, n // RULES.second + RULES.spare

    def turn(carry: tuple[PRNGKeyArray, PerDraw, Done]) -> tuple[PRNGKeyArray, PerDraw, Done]:
        key, draws, accepted = carry
        key, key_first, key_second = random.split(key, 3)
        index = jnp.nonzero(~accepted, size=first, fill_value=n)[0]
        tilt = flat.at[index].get(mode="fill", fill_value=0.0)
        values, done = _attempt(key_first, tilt)
        done = done | (index == n)
        inner = jnp.nonzero(~done, size=second, fill_value=first)[0]
        inner_tilt = tilt.at[inner].get(mode="fill", fill_value=0.0)
        inner_values = _until_done(key_second, inner_tilt, jnp.zeros_like(inner_tilt), inner == first)
        values = values.at[inner].set(inner_values, mode="drop")
        done = done.at[inner].set(jnp.ones(second, bool), mode="drop")
        draws = draws.at[index].set(values, mode="drop")
        return key, draws, accepted.at[index].set(done, mode="drop")

    _, draws, _ = lax.while_loop(lambda carry: ~jnp.all(carry[2]), turn, (key, draws, accepted))
    return 0.25 * draws.reshape(shape)


def _until_done(key: PRNGKeyArray, tilt: PerDraw, draws: PerDraw, accepted: Done) -> PerDraw:
    """Repeat the attempt on a whole (small) buffer until every element is accepted."""

    def turn(carry: tuple[PRNGKeyArray, PerDraw, Done]) -> tuple[PRNGKeyArray, PerDraw, Done]:
        key, draws, accepted = carry
        key, key_draw = random.split(key)
        values, fresh = _attempt(key_draw, tilt)
        return key, jnp.where(accepted, draws, values), accepted | fresh

    return lax.while_loop(lambda carry: ~jnp.all(carry[2]), turn, (key, draws, accepted))[1]


def _attempt(key: PRNGKeyArray, tilt: PerDraw) -> tuple[PerDraw, Done]:
    """One proposal of J*(1, tilt) each, and whether it is accepted."""
    dtype = tilt.dtype
    tiny = float(jnp.finfo(dtype).tiny)
    one = 1 - float(jnp.finfo(dtype).epsneg)
    u, v = random.uniform(key, (2, tilt.size), dtype)
    square = tilt * tilt
    rate = math.pi**2 / 8 + 0.5 * square
    # In logarithms, because both masses underflow at large tilts and their share would be 0/0.
    log_right = math.log(math.pi / 2) - jnp.log(rate) - rate * _T
    small = tilt < _SWITCH
    log_left = jnp.where(small, jnp.full_like(tilt, math.log(4 * _TAIL)), math.log(2) - tilt)
    share_right = nn.sigmoid(log_right - log_left)
    right = u < share_right
    # Given the piece, the rescaled uniform that chose it is uniform again: it gives the value within the piece.
    u = jnp.where(right, u / share_right, (u - share_right) / (1 - share_right))
    u = jnp.clip(u, tiny, one)
    x_right = _T - jnp.log(u) / rate
    # A normal (large tilt), or its tail beyond 1.25 (small tilt), from one inverse error function.
    normal = math.sqrt(2.0) * lax.erf_inv(jnp.clip(jnp.where(small, 2 * _TAIL, 2.0) * u - 1, -one, one))
    squared = normal * normal
    x_small = 1 / squared
    # Large tilt: the reciprocal of GIG(½, 1, tilt²), see reciprocal_inverse_gaussian.
    large_root = tilt + 0.5 * (squared + jnp.sqrt(squared * (4 * tilt + squared)))
    large_root = jnp.maximum(large_root, tiny)
    chance = large_root / (large_root + tilt)
    first_root = v < chance
    # Not root/tilt/tilt: the compiler may multiply the two divisors, and the square may overflow.
    x_large = 1 / jnp.where(first_root, large_root, jnp.maximum(tilt * (tilt / large_root), tiny))
    next_uniform = jnp.where(first_root, v / chance, (v - chance) / jnp.maximum(1 - chance, tiny))
    use_rest = ~right & ~small
    v = jnp.where(use_rest, next_uniform, v)
    x = jnp.where(right, x_right, jnp.where(small, x_small, x_large))
    e = jnp.exp(jnp.where(right, -(math.pi**2) * x, -4 / x))
    cube = e * e * e
    ratio = 1 - 3 * e + 5 * cube - 7 * cube * cube
    ratio = ratio * jnp.where(~right & small, jnp.exp(-0.5 * square * x), jnp.ones_like(x))
    inside = right | (x <= _T)
    # A NaN tilt gives NaN, and must not be retried for ever.
    return x, (inside & (v < ratio)) | ~jnp.isfinite(tilt)


@jax.jit
def reciprocal_inverse_gaussian(key: PRNGKeyArray, nu: Float[jax.Array, "*shape"]) -> Float[jax.Array, "*shape"]:
    """Draw from GIG(½, 1, ν²), the law of the reciprocal of an inverse Gaussian variable of mean ``1/ν`` and shape 1.

    Parameters
    ----------
    key : JAX key
        Source of the random numbers.
    nu : array >= 0
        Parameter ν; at 0 the law is a chi-square with one degree of freedom.

    Returns
    -------
    array shaped like ``nu``, in its dtype

    See Also
    --------
    bayesdrop.distributions.InverseGaussian

    Examples
    --------
    >>> from jax import random
    >>> import jax.numpy as jnp
    >>> bool(reciprocal_inverse_gaussian(random.key(0), jnp.array([0.0, 1.0])).min() > 0)
    True
    """
    key_normal, key_root = random.split(key)
    square = random.normal(key_normal, nu.shape, nu.dtype) ** 2
    large = nu + 0.5 * (square + jnp.sqrt(square * (4 * nu + square)))
    large = jnp.maximum(large, jnp.finfo(nu.dtype).tiny)
    chance = random.uniform(key_root, nu.shape, nu.dtype)
    draw = jnp.where(chance * (large + nu) < large, large, nu * (nu / large))
    return jnp.maximum(draw, jnp.finfo(nu.dtype).tiny)


Value = TypeVar("Value")


def where_needed(condition: Any, update: Callable[..., Value], value: Value, key: PRNGKeyArray | None = None) -> Value:
    """Return ``update(value)`` if the condition () holds, else ``value``, and compute only that.

    With a ``key`` it is ``update(value, key)``: JAX's check of keys (``jax_debug_key_reuse``) would count a key that
    the function holds as used once for every iteration of the loop.

    It is a loop of one iteration or none: on CPUs, code that XLA compiles for the branches of ``jax.lax.cond`` takes
    two to three times as long as the same operations elsewhere, which code for the body of a loop does not.

    Examples
    --------
    >>> [float(where_needed(jnp.asarray(condition), jnp.sqrt, jnp.asarray(4.0))) for condition in (True, False)]
    [2.0, 4.0]
    """
    keys = () if key is None else (jax.random.key_data(key), jax.random.key_impl(key))

    def iteration(_: Any, v: Value) -> Value:
        return update(v, jax.random.wrap_key_data(keys[0], impl=keys[1])) if keys else update(v)

    result: Value = jax.lax.fori_loop(0, jnp.asarray(condition).astype(jnp.int32), iteration, value)
    return result
