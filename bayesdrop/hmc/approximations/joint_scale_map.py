r"""Map from standard normal coordinates and any number of learnt scales to weights, for samplers that follow gradients.

Let ``N(c, H⁻¹)`` approximate the posterior of the coordinates ``θ`` at scales ``e^τ``, and let ``δ = t − τ``. With a
Gaussian likelihood only the prior precision of weights with a learnt scale changes with the scale, so that the
precision at the scales ``e^{τ+δ}`` is

    F⁻ᵀ E⁻¹ {1 + E C E} E⁻¹ F⁻¹,      C = FᵀHF − 1,      E = diag(e^δ), 1 for coordinates without a learnt scale.

The matrix ``F`` is constant; its columns for weights with a learnt scale have the prior precision 1 at ``δ = 0``. With
the Cholesky factor ``1 + ECE = LLᵀ`` the map is

    θ = F E L⁻ᵀ {ζ + L⁻¹ E b},    b = (1 + C) F⁻¹ c,      log |dθ/dζ| = Σ log E − Σ log diag L + constant.

The posterior of ``ζ`` is then standard normal at all scales, and that of the scales is the one with all weights
integrated out: for any number of groups, nested or crossed. The Jacobian is exact for every likelihood; how normal the
likelihood is affects efficiency only.

The coordinates form two parts. In the first, ``C`` consists of diagonal blocks, ``s`` slots for ``m`` levels; the
second has ``r`` coordinates. One gradient takes of the order of ``r²(sm + r)`` operations. Two choices of ``F`` are
exact, and the cheaper one is used:

- :func:`_by_eigenvectors`: the weights without a learnt scale are independent of the others, and each group is turned
  into the eigenvectors of its block of ``C``. The largest group is the first part (``s = 1``), the other groups are the
  second; a single group needs no second part.
- :func:`_by_levels`: ``F`` is diagonal. Groups with the same levels, such as intercepts and slopes of sites, are the
  first part, a slot for each group; all other coordinates are the second.

If both take too many operations, as with two crossed terms of 500 levels each, :func:`_by_shares` has no second part:
``E⁻²`` of a coordinate is then the mean of ``e^{−2δ_j}`` by the shares that the groups have in its prior precision. For
several groups this is an approximation, and small scales are reached slowly.

Shapes: ``C`` chains, ``D = sm + r`` coordinates, ``g`` scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from ..._typing import Float, Int
from ...sampling.matrix import placed

__all__ = ["JointScaleMap", "Rules", "joint_scale_map", "FORMS", "RULES"]


@dataclass(frozen=True)
class Rules:
    """Limits of a map.

    Attributes
    ----------
    farthest : float
        Largest ``|δ|``, beyond which the square of ``e^δ`` would overflow in single precision.
    zero : float
        Entries of ``C``, relative to its diagonal, and shares of the prior that count as zero.
    operations : float
        Maximum number of operations for a gradient of one chain; half a second for a draw of four chains.
    """

    farthest: float = 30.0
    zero: float = 1e-8
    operations: float = 1e8


RULES = Rules()


class JointScaleMap(NamedTuple):
    """Coordinates ``θ`` at standard normal ``ζ`` and scales ``δ``.

    Attributes
    ----------
    factor : array (D, D) or (D,)
        ``F``, or its only entry in each column.
    order : int array (D,)
        Column of each coordinate of ``θ`` where ``F`` has one entry in each column.
    pull : array (D,)
        ``b``.
    share : array (g + 1, D)
        Share of the scale of each group in each column of ``F``; in the last line, of none.
    blocks : array (s, s, m)
        ``C`` of the first part, slot by slot.
    cross : array (s, m, r)
        ``C`` between the two parts.
    core : array (r, r)
        ``C`` of the second part.
    """

    factor: Any
    order: Int[jax.Array, " D"]
    pull: Float[jax.Array, " D"]
    share: Float[jax.Array, "groups D"]
    blocks: Float[jax.Array, "s s m"]
    cross: Float[jax.Array, "s m r"]
    core: Float[jax.Array, "r r"]

    @property
    def size(self) -> int:
        """``D``."""
        return self.pull.shape[0]

    def place(
        self, zeta: Float[jax.Array, "C D"], delta: Float[jax.Array, "C g"]
    ) -> tuple[Float[jax.Array, "C D"], Float[jax.Array, " C"]]:
        """``θ`` (C, D) and the log Jacobian (C,)."""
        chol = self._factor(delta)
        first, second = self._parted(zeta)
        first_part = [first[:, s] + pull for s, pull in enumerate(chol.pull)]
        if chol.root is not None:
            second = solve_triangular(chol.root, (second + chol.core_pull)[:, :, None], lower=True, trans=1)[:, :, 0]
            first_part = [p - jnp.einsum("cmr,cr->cm", a, second) for p, a in zip(first_part, chol.across, strict=True)]
        inside = jnp.exp(chol.log_e) * jnp.concatenate([*_backward(chol.lower, first_part), second], axis=1)
        dense = self.factor.ndim == 2
        theta = inside @ self.factor.T if dense else (inside * self.factor[None])[:, self.order]
        return theta, jnp.sum(chol.log_e, axis=1) - chol.log_diagonal

    def log_marginal(self, delta: Float[jax.Array, "C g"]) -> Float[jax.Array, " C"]:
        """Log likelihood of the scales up to a constant, (C,), with the normal approximation integrated out."""
        chol = self._factor(delta)
        square = sum(jnp.sum(part * part, axis=1) for part in [*chol.pull, chol.core_pull])
        return 0.5 * square - chol.log_diagonal

    def _parted(self, vector: Float[jax.Array, "C D"]) -> tuple[Float[jax.Array, "C s m"], Float[jax.Array, "C r"]]:
        slots, _, levels = self.blocks.shape
        return vector[:, : slots * levels].reshape(-1, slots, levels), vector[:, slots * levels :]

    def _factor(self, delta: Float[jax.Array, "C g"]) -> _CholeskyFactor:
        ratio = jnp.exp(-2 * jnp.clip(delta, -RULES.farthest, RULES.farthest))
        log_e = -0.5 * jnp.log(ratio @ self.share[:-1] + self.share[-1:])
        e = jnp.exp(log_e)
        (first_e, second_e), (first_pull, core_pull) = self._parted(e), self._parted(e * self.pull[None])
        lower, slots = self._lower(first_e), range(first_e.shape[1])
        log_diagonal = jnp.sum(jnp.log(jnp.stack([lower[s][s] for s in slots], axis=1)), axis=(1, 2))
        pull = _forward(lower, [first_pull[:, s] for s in slots])
        if not self.core.shape[0]:
            return _CholeskyFactor(log_e, lower, [], None, pull, core_pull, log_diagonal)
        columns = [first_e[:, s, :, None] * self.cross[s][None] * second_e[:, None] for s in slots]
        across = _forward(lower, columns)
        root = jnp.linalg.cholesky(self._remaining(across, second_e))
        log_diagonal = log_diagonal + jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2)), axis=1)
        core_pull = core_pull - sum(jnp.einsum("cm,cmr->cr", k, a) for k, a in zip(pull, across, strict=True))
        core_pull = solve_triangular(root, core_pull[:, :, None], lower=True)[:, :, 0]
        return _CholeskyFactor(log_e, lower, across, root, pull, core_pull, log_diagonal)

    def _lower(self, e: Float[jax.Array, "C s m"]) -> list[list[Float[jax.Array, "C m"]]]:
        """Cholesky factor of the blocks, row by row."""
        rows: list[list[Float[jax.Array, "C m"]]] = []
        for s in range(e.shape[1]):
            row: list[Float[jax.Array, "C m"]] = []
            for t in range(s + 1):
                value = self.blocks[s, t][None] * e[:, s] * e[:, t]
                value = value - sum(row[k] * (row if s == t else rows[t])[k] for k in range(t))
                row.append(jnp.sqrt(1 + value) if s == t else value / rows[t][t])
            rows.append(row)
        return rows

    def _remaining(
        self, across: list[Float[jax.Array, "C m r"]], e: Float[jax.Array, "C r"]
    ) -> Float[jax.Array, "C r r"]:
        """Precision of the second part after the first is integrated out."""
        scaled = e[:, :, None] * self.core[None] * e[:, None, :] + jnp.eye(e.shape[1], dtype=e.dtype)[None]
        return scaled - sum(jnp.einsum("cmr,cms->crs", part, part) for part in across)


class _CholeskyFactor(NamedTuple):
    """Cholesky factor at some scales.

    Attributes
    ----------
    log_e : array (C, D)
        ``log E``.
    lower : rows of arrays (C, m)
        Factor of the blocks of the first part.
    across : list of arrays (C, m, r)
        ``W`` of ``L = [[lower, 0], [Wᵀ, root]]``, by slot.
    root : array (C, r, r), optional
        Factor of the second part; None if that is empty.
    pull, core_pull : list of arrays (C, m), array (C, r)
        ``L⁻¹Eb`` of both parts.
    log_diagonal : array (C,)
        ``Σ log diag L``.
    """

    log_e: jax.Array
    lower: list[list[jax.Array]]
    across: list[jax.Array]
    root: jax.Array | None
    pull: list[jax.Array]
    core_pull: jax.Array
    log_diagonal: jax.Array


def _forward(lower: list[list[jax.Array]], right: list[jax.Array]) -> list[jax.Array]:
    """``L⁻¹x`` of the blocks, slot by slot; further axes of ``x`` are columns."""
    wide = lambda part: part if right[0].ndim == part.ndim else part[:, :, None]  # noqa: E731
    solution: list[jax.Array] = []
    for s, part in enumerate(right):
        solution.append((part - sum(wide(lower[s][t]) * solution[t] for t in range(s))) / wide(lower[s][s]))
    return solution


def _backward(lower: list[list[jax.Array]], right: list[jax.Array]) -> list[jax.Array]:
    """``L⁻ᵀx`` of the blocks, slot by slot."""
    solution: list[jax.Array] = [*right]
    for s in reversed(range(len(right))):
        later = sum(lower[t][s] * solution[t] for t in range(s + 1, len(right)))
        solution[s] = (right[s] - later) / lower[s][s]
    return solution


class _Parts(NamedTuple):
    """``F``, or its only entry in each column and their order; shares; ``C``; slots and levels of the first part."""

    factor: Any
    order: Int[np.ndarray, " D"]
    share: Float[np.ndarray, "groups D"]
    gram: Float[np.ndarray, "D D"]
    slots: int
    levels: int

    @property
    def operations(self) -> int:
        """Order of the number of operations for a gradient."""
        first, D = self.slots * self.levels, len(self.gram)
        r = D - first
        return r * r * D + self.slots * first * (r + 1) + (D * D if self.factor.ndim == 2 else D)


def joint_scale_map(
    centre: Float[np.ndarray, " D"],
    factor: Float[np.ndarray, "D D"] | Float[np.ndarray, " D"],
    precision: Float[np.ndarray, " D"],
    group: Int[np.ndarray, " D"],
    groups: int,
    dtype: Any,
) -> JointScaleMap:
    """Map around a normal approximation at some scales.

    Parameters
    ----------
    centre, factor : array
        ``c`` (D,), and a factor of ``H⁻¹``, (D, D), or (D,) for independent coordinates.
    precision : array (D,)
        Prior precision at these scales; not used for coordinates without a learnt scale.
    group : int array (D,)
        Group of each coordinate; ``groups`` for those without a learnt scale.
    groups : int
        ``g``.
    dtype : dtype
        Precision of the map.
    """
    D, real, eps = len(group), partial(placed, dtype=dtype), float(np.finfo(dtype).eps)
    share = 1.0 * (np.arange(groups + 1)[:, None] == group)
    if factor.ndim == 1:
        scale = np.where(group < groups, np.maximum(precision, np.finfo(float).tiny) ** -0.5, factor)
        value = np.maximum((scale / factor) ** 2 - 1, 0.0)
        order, pull, none = np.arange(D), (1 + value) * centre / scale, np.zeros((1, D, 0))
        parts = value[None, None], none, none[0, :0]
    else:
        covariance = factor @ factor.T
        choices = [form(covariance, precision, group, share) for form in FORMS.values()]
        best = min((parts for parts in choices if parts is not None), key=lambda parts: parts.operations)
        if best.operations > RULES.operations:
            best = _by_shares(factor, precision * (group < groups), share)
        scale, order, share, gram, slots, levels = best
        inside = np.linalg.solve(scale, centre) if scale.ndim == 2 else (centre / scale[order])[np.argsort(order)]
        pull, first = inside + gram @ inside, slots * levels
        # Rounding must not leave a negative precision after other coordinates are integrated out.
        gram = gram + max(eps * D, RULES.zero) * np.diag(np.where(share[-1] == 1, 1.0, np.diag(gram)))
        blocks = np.diagonal(gram[:first, :first].reshape(slots, levels, slots, levels), axis1=1, axis2=3)
        parts = blocks, gram[:first, first:].reshape(slots, levels, D - first), gram[first:, first:]
    return JointScaleMap(real(scale), placed(order, np.int32), real(pull), real(share), *map(real, parts))


def _by_eigenvectors(
    covariance: Float[np.ndarray, "D D"],
    precision: Float[np.ndarray, " D"],
    group: Int[np.ndarray, " D"],
    share: Float[np.ndarray, "groups D"],
) -> _Parts:
    """Each group along the eigenvectors of its block of ``C``, coordinates without a learnt scale given the others."""
    groups, sizes = len(share) - 1, share[:-1].sum(axis=1)
    members = [np.flatnonzero(group == j) for j in np.argsort(-sizes, kind="stable")]
    learnt_index, other = np.concatenate(members), np.flatnonzero(group == groups)
    inverse = np.linalg.inv(covariance[np.ix_(learnt_index, learnt_index)])
    scale = precision[learnt_index] ** -0.5
    value, vector = np.linalg.eigh(scale[:, None] * inverse * scale - np.eye(len(learnt_index)))
    # Rounding and a rough approximation may leave less precision than the prior's.
    gram = (vector * np.maximum(value, 0)) @ vector.T
    turn, start = np.zeros_like(gram), 0
    for part in members:
        block = slice(start, start + len(part))
        turn[block, block] = np.linalg.eigh(gram[block, block])[1]
        start += len(part)
    gram = turn.T @ gram @ turn
    slope = covariance[np.ix_(other, learnt_index)] @ inverse
    conditional_covariance = covariance[np.ix_(other, other)] - slope @ covariance[np.ix_(learnt_index, other)]
    width, axes = np.linalg.eigh(conditional_covariance)
    root = axes * np.sqrt(np.maximum(width, RULES.zero**2 * np.max(width, initial=0.0)))
    # Columns: the largest group, coordinates without a learnt scale, the other groups.
    D, q, first = len(group), len(learnt_index), len(members[0])
    factor, whole = np.zeros((D, D)), np.zeros((D, D))
    factor[learnt_index, :q] = scale[:, None] * turn
    factor[other, :q] = slope @ factor[learnt_index, :q]
    factor[other, q:] = root
    whole[:q, :q] = gram
    order = np.concatenate([np.arange(first), np.arange(q, D), np.arange(first, q)])
    turned = share[:, np.concatenate([learnt_index, other])[order]]
    return _Parts(factor[:, order], np.arange(D), turned, whole[np.ix_(order, order)], 1, D - q + first)


def _by_levels(
    covariance: Float[np.ndarray, "D D"],
    precision: Float[np.ndarray, " D"],
    group: Int[np.ndarray, " D"],
    share: Float[np.ndarray, "groups D"],
) -> _Parts | None:
    """Groups with the same levels as slots; None if rows correlate different levels of the largest group."""
    inverse, learnt = np.linalg.inv(covariance), share[-1] == 0
    scale = np.where(learnt, precision, np.diag(inverse)) ** -0.5
    whole = scale[:, None] * inverse * scale
    gram = whole - np.eye(len(group))
    of_rows = whole - np.diag(1.0 * learnt)
    small = np.abs(of_rows) <= RULES.zero * np.sqrt(np.outer(np.diag(whole), np.diag(whole)))
    if np.linalg.eigvalsh(of_rows)[0] < -RULES.zero * np.max(np.diag(whole)):
        return None
    sizes = share[:-1].sum(axis=1)
    slots: list[Int[np.ndarray, " m"]] = []
    for j in np.argsort(-sizes, kind="stable"):
        member = np.flatnonzero(group == j)
        same = bool(slots) and len(member) != len(slots[0])
        apart = ~np.eye(len(member), dtype=bool)
        if not same and all(np.all(small[np.ix_(member, part)][apart]) for part in [*slots, member]):
            slots.append(member)
        elif not slots:
            return None
    first = np.concatenate(slots)
    order = np.concatenate([first, np.setdiff1d(np.arange(len(group)), first)])
    back = np.argsort(order)
    return _Parts(scale[order], back, share[:, order], gram[np.ix_(order, order)], len(slots), len(slots[0]))


def _by_shares(
    factor: Float[np.ndarray, "D D"], precision: Float[np.ndarray, " D"], share: Float[np.ndarray, "groups D"]
) -> _Parts:
    """Columns that make the prior precision of all groups together diagonal."""
    vector = np.linalg.eigh(factor.T @ (precision[:, None] * factor))[1]
    turned = factor @ vector
    of_prior = (share * precision) @ turned**2
    total = of_prior.sum(axis=0)
    has_prior = total > RULES.zero
    # Rounding and a rough approximation may leave less precision than the prior's.
    value = np.where(has_prior, np.maximum(1 / np.where(has_prior, total, 1.0) - 1, 0.0), 0.0)
    scale = np.where(has_prior, (1 + value) ** 0.5, 1.0)
    mixed = np.where(has_prior, of_prior / np.where(has_prior, total, 1.0), 0.0)
    mixed[-1] = ~has_prior
    D = len(total)
    return _Parts(turned * scale, np.arange(D), mixed, np.diag(value), 1, D)


FORMS = {"eigenvectors": _by_eigenvectors, "levels": _by_levels}
"""Exact choices of ``F``."""
