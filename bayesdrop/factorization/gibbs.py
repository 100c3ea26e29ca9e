r"""Gibbs sampler of the Bayesian factorisation, with a whole factor integrated out of its masks.

The model is that of ``bayesdrop.models.matrix_factorization``: ``x_ij ~ N(Σ_k r_k u_ik v_jk, σ²)`` at the observed
entries, ``u, v ~ N(0, s²)``, ``r_k ~ Bernoulli(θ)``, ``θ ~ Beta(A, B)``, ``σ² ~ InverseGamma(a, b)`` or known. With
``G_i = Σ_{j ∈ Ω_i} v_j v_jᵀ`` and ``b_i = Σ_{j ∈ Ω_i} v_j x_ij`` the rows of ``U`` integrate out of the likelihood,

    log p(X | r, V, σ²) = −½ Σ_i log|A_i| + s²/(2σ⁴) Σ_i (r∘b_i)ᵀ A_i⁻¹ (r∘b_i) + const,
    A_i = I + (s²/σ²) diag(r) G_i diag(r),

and ``u_i | · ~ N(s²/σ² A_i⁻¹ (r∘b_i), s² A_i⁻¹)``: a dropped column follows its prior. With the sweep operator
(Goodnight 1979) the change of this density by one mask costs ``d²`` per matrix. One draw is

- every ``r_k`` given ``V``, ``U`` and ``θ`` integrated out (a Beta gives the prior odds
  ``(A + Σ_{l≠k} r_l) / (B + d − 1 − Σ_{l≠k} r_l)``), then ``U`` given the masks;
- the same with the factors exchanged;
- ``σ²`` and ``θ`` from their conditionals, inverse gamma and Beta.

Given both factors a mask rarely changes: two retained columns that share a direction can merge into one only if a
factor adapts in the same move, which integrating it out allows. One weakness remains: a dropped column returns with a
direction from its prior, which in many dimensions seldom fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import betaln, gammaln
from jaxtyping import PRNGKeyArray

from .._typing import Float, Int

__all__ = [
    "FactorizationKernel",
    "Operands",
    "State",
    "Summary",
    "draw_factor",
    "draw_masks",
    "gain",
    "log_joint",
    "normal_equations",
    "summarise",
    "sweep",
]


Matrix = Float[jax.Array, "n p"]
Masks = Float[jax.Array, " d"]
Number = Float[jax.Array, ""]


class Operands(NamedTuple):
    """Data and priors.

    ``values`` (n, p) is zero where an entry is missing, ``pattern`` (n, p) 1 where one is observed, or None if all
    are. The rest are numbers: Beta and inverse gamma parameters, prior standard deviation of a factor's entry, and
    the variance that chains start from, or keep if it is known.
    """

    values: Matrix
    pattern: Matrix | None
    a: Number
    b: Number
    shape: Number
    rate: Number
    scale: Number
    variance: Number


class State(NamedTuple):
    """State of all chains: factors (C, n, d) and (C, p, d), masks (C, d) of 0 and 1, rates and variances (C,)."""

    key: PRNGKeyArray
    left: Float[jax.Array, "C n d"]
    right: Float[jax.Array, "C p d"]
    mask: Float[jax.Array, "C d"]
    retain: Float[jax.Array, " C"]
    variance: Float[jax.Array, " C"]


class Summary(NamedTuple):
    """Sums of one factor for the conditional of the other: Gram matrices ``G_i``, products ``b_i``, their squares.

    With every entry observed all ``n`` rows share a Gram matrix (``m = 1``, ``rows = n``) and ``squares`` is
    ``Σ_i b_i b_iᵀ``; else ``m = n``, ``rows = 1``, and ``squares`` has ``b_i b_iᵀ`` for each row.
    """

    gram: Float[jax.Array, "m d d"]
    product: Float[jax.Array, "n d"]
    squares: Float[jax.Array, "_ d d"]
    rows: int


def summarise(values: Matrix, pattern: Matrix | None, other: Float[jax.Array, "p d"]) -> Summary:
    """Sufficient statistics of ``values`` (n, p) given the other factor (p, d).

    Examples
    --------
    >>> found = summarise(jnp.ones((4, 3)), None, jnp.ones((3, 2)))
    >>> found.gram.shape, found.product.shape, found.rows
    ((1, 2, 2), (4, 2), 4)
    """
    product = values @ other
    if pattern is None:
        return Summary((other.T @ other)[None], product, (product.T @ product)[None], values.shape[0])
    gram = jnp.einsum("ij,jk,jl->ikl", pattern, other, other)
    return Summary(gram, product, product[:, :, None] * product[:, None, :], 1)


def normal_equations(summary: Summary, mask: Masks, variance: Number, scale: Number) -> Float[jax.Array, "m d d"]:
    """Lower Cholesky factors (m, d, d) of ``A = I + (s²/σ²) diag(r) G diag(r)``."""
    masked = summary.gram * (mask[:, None] * mask[None, :])[None]
    identity = jnp.eye(mask.shape[0], dtype=masked.dtype)[None]
    return jnp.linalg.cholesky(identity + masked * (scale**2 / variance))


def sweep(matrix: Float[jax.Array, "m d d"], k: Int[jax.Array, ""], forward: Number) -> Float[jax.Array, "m d d"]:
    """Sweep the symmetric matrices (m, d, d) on index ``k``, or undo the sweep (Goodnight 1979).

    With the set ``R`` swept, ``matrix`` holds ``−A_R⁻¹`` on ``R``, ``A_R⁻¹A_Rk`` in columns ``k`` outside ``R``, and
    elsewhere the Schur complement of ``A_R``.

    Examples
    --------
    >>> A = jnp.array([[[2.0, 1.0], [1.0, 3.0]]])
    >>> swept = sweep(A, jnp.int32(0), jnp.float32(1.0))
    >>> [float(x) for x in swept.ravel()]
    [-0.5, 0.5, 0.5, 2.5]
    >>> bool(jnp.allclose(sweep(swept, jnp.int32(0), jnp.float32(-1.0)), A))
    True
    """
    column = matrix[:, :, k]
    pivot = column[:, k][:, None]
    scaled = column / pivot
    matrix = matrix - scaled[:, :, None] * column[:, None, :]
    matrix = matrix.at[:, :, k].set(forward * scaled).at[:, k, :].set(forward * scaled)
    return matrix.at[:, k, k].set(-1 / pivot[:, 0])


def gain(
    swept: Float[jax.Array, "m d d"],
    summary: Summary,
    others: Masks,
    k: Int[jax.Array, ""] | int,
    variance: Number,
    scale: Number,
) -> Number:
    """``log p(X | r_k = 1, …) − log p(X | r_k = 0, …)`` with the masks ``others`` (d,), 0 at ``k``, swept.

    The determinant is multiplied by the pivot ``A_kk − A_kR A_R⁻¹ A_Rk``, and the quadratic form grows by ``(aᵀb)²``
    over the pivot, where ``a`` is 1 at ``k`` and ``−A_R⁻¹A_Rk`` on ``R``.
    """
    pivot = swept[:, k, k]
    vector = (-swept[:, :, k] * others[None, :]).at[:, k].set(1.0)
    squares = jnp.einsum("mk,mkl,ml->m", vector, summary.squares, vector)
    return (0.5 * scale**2 / variance**2 * squares / pivot - 0.5 * summary.rows * jnp.log(pivot)).sum()


def draw_masks(key: PRNGKeyArray, operands: Operands, summary: Summary, mask: Masks, variance: Number) -> Masks:
    """Draw the masks (d,) in one pass, with the factor that ``summary`` describes and the rate integrated out."""
    d = mask.shape[0]
    uniform = jax.random.uniform(key, (d,), mask.dtype)
    forward = jnp.ones((), mask.dtype)
    matrix = jnp.eye(d, dtype=mask.dtype)[None] + summary.gram * (operands.scale**2 / variance)

    def begin(k: Int[jax.Array, ""], matrix: Float[jax.Array, "m d d"]) -> Float[jax.Array, "m d d"]:
        return jnp.where(mask[k] > 0, sweep(matrix, k, forward), matrix)

    def update(
        k: Int[jax.Array, ""], carry: tuple[Masks, Float[jax.Array, "m d d"]]
    ) -> tuple[Masks, Float[jax.Array, "m d d"]]:
        mask, matrix = carry
        without = jnp.where(mask[k] > 0, sweep(matrix, k, -forward), matrix)
        others = mask.at[k].set(0.0)
        active = others.sum()
        odds = jnp.log(operands.a + active) - jnp.log(operands.b + (d - 1) - active)
        odds += gain(without, summary, others, k, variance, operands.scale)
        on = uniform[k] < jax.nn.sigmoid(odds)
        return jnp.where(on, others.at[k].set(1.0), others), jnp.where(on, sweep(without, k, forward), without)

    matrix = jax.lax.fori_loop(0, d, begin, matrix)
    return jax.lax.fori_loop(0, d, update, (mask, matrix))[0]


def draw_factor(
    noise: Float[jax.Array, "n d"], summary: Summary, mask: Masks, variance: Number, scale: Number
) -> Float[jax.Array, "n d"]:
    """Rows (n, d) of a factor given the masks and the other factor, from standard normal ``noise`` (n, d)."""
    lower = normal_equations(summary, mask, variance, scale)
    target = summary.product * mask[None, :] * (scale / variance)

    def rows(
        lower: Float[jax.Array, "d d"], target: Float[jax.Array, "d m"], noise: Float[jax.Array, "d m"]
    ) -> Float[jax.Array, "d m"]:
        """Right sides (d, m) and noise of the rows that share ``A = LLᵀ``: ``s L⁻ᵀ(L⁻¹ target + noise)``."""
        forward = solve_triangular(lower, target, lower=True) + noise
        return scale * solve_triangular(lower, forward, lower=True, trans=1)

    if lower.shape[0] == 1:
        return rows(lower[0], target.T, noise.T).T
    return jax.vmap(rows)(lower, target[:, :, None], noise[:, :, None])[:, :, 0]


def _transposed(matrix: Float[jax.Array, "n p"] | None) -> Float[jax.Array, "p n"] | None:
    return None if matrix is None else matrix.T


def _residual(operands: Operands, left: Float[jax.Array, "n d"], right: Float[jax.Array, "p d"], mask: Masks) -> Matrix:
    fitted = (left * mask[None, :]) @ right.T
    return operands.values - (fitted if operands.pattern is None else operands.pattern * fitted)


def _count(operands: Operands) -> Number | float:
    return operands.values.size * 1.0 if operands.pattern is None else operands.pattern.sum()


def log_joint(operands: Operands, state: State, fixed_variance: bool) -> Float[jax.Array, " C"]:
    """Log density (C,) of data, factors, masks, rate and variance, with nothing integrated out."""

    def one(
        left: Float[jax.Array, "n d"], right: Float[jax.Array, "p d"], mask: Masks, retain: Number, variance: Number
    ) -> Number:
        d, scale = mask.shape[0], operands.scale
        residual = _residual(operands, left, right, mask)
        value = -0.5 * (residual**2).sum() / variance - 0.5 * _count(operands) * jnp.log(2 * jnp.pi * variance)
        for part in (left, right):
            value += -0.5 * (part**2).sum() / scale**2 - 0.5 * part.size * jnp.log(2 * jnp.pi * scale**2)
        active = mask.sum()
        value += (operands.a - 1 + active) * jnp.log(retain) + (operands.b - 1 + d - active) * jnp.log1p(-retain)
        value -= betaln(operands.a, operands.b)
        if not fixed_variance:
            value += operands.shape * jnp.log(operands.rate) - gammaln(operands.shape)
            value += -(operands.shape + 1) * jnp.log(variance) - operands.rate / variance
        return value

    return jax.vmap(one)(state.left, state.right, state.mask, state.retain, state.variance)


@dataclass(frozen=True)
class FactorizationKernel:
    """Kernel of :func:`bayesdrop.sampling.run.runner.run`.

    Parameters
    ----------
    width : int
        Number of columns ``d``.
    fixed_variance : bool
        Whether the variance is known.
    keep_fitted : bool
        Record the fitted matrix of every draw.

    Examples
    --------
    >>> FactorizationKernel(width=3)
    FactorizationKernel(width=3, fixed_variance=False, keep_fitted=False)
    """

    width: int
    fixed_variance: bool = False
    keep_fitted: bool = False

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the recorded variables."""
        names: dict[str, tuple[str, ...]] = {"n_active": (), "retain": (), "fitted_norm": ()}
        names |= {} if self.fixed_variance else {"sigma": ()}
        return names | ({"fitted": ("obs_id", "feature")} if self.keep_fitted else {})

    @property
    def statistics(self) -> tuple[str, ...]:
        """The log density."""
        return ("lp",)

    def init(self, operands: Operands, key: PRNGKeyArray, chains: int) -> State:
        """Every column retained, factors from their prior; the first sweep draws ``U`` before it uses it."""
        key, key_factors = jax.random.split(key)
        dtype = operands.values.dtype
        n, p = operands.values.shape
        both = operands.scale * jax.random.normal(key_factors, (chains, n + p, self.width), dtype)
        left, right = both[:, :n], both[:, n:]
        ones = jnp.ones(chains, dtype)
        mean = operands.a / (operands.a + operands.b)
        return State(key, left, right, jnp.ones((chains, self.width), dtype), mean * ones, operands.variance * ones)

    def step(self, operands: Operands, state: State) -> tuple[State, dict[str, jax.Array]]:
        """One sweep of all chains."""
        key, key_sweep = jax.random.split(state.key)
        keys = jax.random.split(key_sweep, state.retain.shape[0])
        parts = (state.left, state.right, state.mask, state.retain, state.variance)
        state = State(key, *jax.vmap(lambda key, *parts: self._sweep(operands, key, *parts))(keys, *parts))
        return state, self.record(operands, state)

    def _sweep(
        self,
        operands: Operands,
        key: PRNGKeyArray,
        left: Float[jax.Array, "n d"],
        right: Float[jax.Array, "p d"],
        mask: Masks,
        retain: Number,
        variance: Number,
    ) -> tuple[Float[jax.Array, "n d"], Float[jax.Array, "p d"], Masks, Number, Number]:
        # One call for all normals and one for all gammas: compiling them is most of the first draw's time.
        keys = jax.random.split(key, 4)
        n = operands.values.shape[0]
        noise = jax.random.normal(keys[0], (n + right.shape[0], self.width), mask.dtype)
        summary = summarise(operands.values, operands.pattern, right)
        mask = draw_masks(keys[1], operands, summary, mask, variance)
        left = draw_factor(noise[:n], summary, mask, variance, operands.scale)
        summary = summarise(operands.values.T, _transposed(operands.pattern), left)
        mask = draw_masks(keys[2], operands, summary, mask, variance)
        right = draw_factor(noise[n:], summary, mask, variance, operands.scale)
        active = mask.sum()
        shapes = (operands.a + active, operands.b + self.width - active, operands.shape + 0.5 * _count(operands))
        log_gamma = jax.random.loggamma(keys[3], jnp.stack(shapes), dtype=mask.dtype)
        if not self.fixed_variance:
            squares = (_residual(operands, left, right, mask) ** 2).sum()
            variance = (operands.rate + 0.5 * squares) * jnp.exp(-log_gamma[2])
        # A rate that rounds to 0 or 1 would have no density.
        retain = jnp.clip(
            jax.nn.sigmoid(log_gamma[0] - log_gamma[1]), jnp.finfo(mask.dtype).tiny, 1 - jnp.finfo(mask.dtype).eps
        )
        return left, right, mask, retain, variance

    def record(self, operands: Operands, state: State) -> dict[str, jax.Array]:
        """Record only quantities that do not change if columns or their signs are exchanged."""
        fitted = (state.left * state.mask[:, None, :]) @ jnp.swapaxes(state.right, 1, 2)
        record = {
            "lp": log_joint(operands, state, self.fixed_variance),
            "n_active": jnp.round(state.mask.sum(axis=1)).astype(jnp.int32),
            "retain": state.retain,
            "fitted_norm": jnp.sqrt((fitted**2).sum(axis=(1, 2))),
        }
        if not self.fixed_variance:
            record["sigma"] = jnp.sqrt(state.variance)
        if self.keep_fitted:
            record["fitted"] = fitted
        return record
