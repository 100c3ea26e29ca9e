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

The coordinates stand in two parts. In the first, ``C`` consists of diagonal blocks, ``s`` slots for ``m`` levels; the
second has ``r`` coordinates. One gradient takes of the order of ``r²(sm + r)`` operations. Two choices of ``F`` are at
hand, and the cheaper one is used:

- :func:`_by_eigenvectors`: the weights without a learnt scale are independent of the others, and each group is turned
  into the eigenvectors of its block of ``C``. The largest group is the first part (``s = 1``), the other groups are the
  second; a single group needs no second part.
- :func:`_by_levels`: ``F`` is diagonal. Groups with the same levels, such as intercepts and slopes of sites, are the
  first part, a slot for each group; all else is the second.

Shapes: ``C`` chains, ``D = sm + r`` coordinates, ``g`` scales.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from ..._typing import Float, Int
from ...sampling.matrix import placed

__all__ = ["JointScaleMap", "joint_scale_map"]

# Largest |δ| that coordinates follow, before the square of e^δ leaves single precision.
_FARTHEST = 30.0
# Entries of C, relative to its diagonal, that count as zero.
_ZERO = 1e-8


class JointScaleMap(NamedTuple):
    """Coordinates ``θ`` at standard normal ``ζ`` and scales ``δ``.

    Attributes
    ----------
    factor : array (D, D) or (D,)
        ``F``.
    pull : array (D,)
        ``b``.
    index : int array (D,)
        Group of each column of ``F``; ``g`` without a learnt scale.
    blocks : array (s, s, m)
        ``C`` of the first part, slot by slot.
    cross : array (s, m, r)
        ``C`` between the two parts.
    core : array (r, r)
        ``C`` of the second part.
    """

    factor: Any
    pull: Float[jax.Array, " D"]
    index: Int[jax.Array, " D"]  # type: ignore[assignment]  # tuples have a method of this name
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
        found = self._factor(delta)
        first, second = self._parted(zeta)
        moved = [first[:, s] + pull for s, pull in enumerate(found.pull)]
        if found.root is not None:
            second = solve_triangular(found.root, (second + found.core_pull)[:, :, None], lower=True, trans=1)[:, :, 0]
            moved = [p - jnp.einsum("cmr,cr->cm", a, second) for p, a in zip(moved, found.across, strict=True)]
        inside = jnp.exp(found.log_e) * jnp.concatenate([*_backward(found.lower, moved), second], axis=1)
        theta = inside @ self.factor.T if self.factor.ndim == 2 else inside * self.factor[None]
        return theta, jnp.sum(found.log_e, axis=1) - found.log_diagonal

    def log_marginal(self, delta: Float[jax.Array, "C g"]) -> Float[jax.Array, " C"]:
        """Log likelihood of the scales up to a constant, (C,), with the normal approximation integrated out."""
        found = self._factor(delta)
        square = sum(jnp.sum(part * part, axis=1) for part in [*found.pull, found.core_pull])
        return 0.5 * square - found.log_diagonal

    def _parted(self, vector: Float[jax.Array, "C D"]) -> tuple[Float[jax.Array, "C s m"], Float[jax.Array, "C r"]]:
        slots, _, levels = self.blocks.shape
        return vector[:, : slots * levels].reshape(-1, slots, levels), vector[:, slots * levels :]

    def _factor(self, delta: Float[jax.Array, "C g"]) -> _CholeskyFactor:
        log_e = jnp.clip(delta, -_FARTHEST, _FARTHEST).at[:, self.index].get(mode="fill", fill_value=0)
        e = jnp.exp(log_e)
        (first_e, second_e), (first_pull, core_pull) = self._parted(e), self._parted(e * self.pull[None])
        lower, slots = self._lower(first_e), range(first_e.shape[1])
        log_diagonal = sum(jnp.sum(jnp.log(lower[s][s]), axis=1) for s in slots)
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
    found: list[jax.Array] = []
    for s, part in enumerate(right):
        found.append((part - sum(wide(lower[s][t]) * found[t] for t in range(s))) / wide(lower[s][s]))
    return found


def _backward(lower: list[list[jax.Array]], right: list[jax.Array]) -> list[jax.Array]:
    """``L⁻ᵀx`` of the blocks, slot by slot."""
    found: list[jax.Array] = [*right]
    for s in reversed(range(len(right))):
        later = sum(lower[t][s] * found[t] for t in range(s + 1, len(right)))
        found[s] = (right[s] - later) / lower[s][s]
    return found


class _Parts(NamedTuple):
    """``F``, the group of each of its columns, ``C``, and the ``s`` slots and ``m`` levels of its first part."""

    factor: Float[np.ndarray, "D D"]
    group: Int[np.ndarray, " D"]
    gram: Float[np.ndarray, "D D"]
    slots: int
    levels: int

    @property
    def operations(self) -> int:
        """Order of the number of operations for a gradient."""
        first = self.slots * self.levels
        r = len(self.group) - first
        return r * r * (first + r) + self.slots**2 * self.levels * (r + 1)


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
        ``c`` (D,), and a factor of ``H⁻¹``, (D, D), or (D,) of independent coordinates.
    precision : array (D,)
        Prior precision at these scales; not used for coordinates without a learnt scale.
    group : int array (D,)
        Group of each coordinate; ``groups`` of those without a learnt scale.
    groups : int
        ``g``.
    dtype : dtype
        Precision of the map.
    """
    real, learnt = partial(placed, dtype=dtype), group < groups
    if factor.ndim == 1:
        scale = np.where(learnt, np.maximum(precision, 1e-300) ** -0.5, factor)
        value = np.maximum((scale / factor) ** 2 - 1, 0.0)
        none = np.zeros((1, len(group), 0))
        pull, index = (1 + value) * centre / scale, placed(group, np.int32)
        return JointScaleMap(real(scale), real(pull), index, *map(real, (value[None, None], none, none[0, :0])))
    covariance = factor @ factor.T
    choices = [_by_eigenvectors(covariance, precision, group, groups), _by_levels(covariance, precision, group, groups)]
    parts = min((part for part in choices if part is not None), key=lambda part: part.operations)
    gram, slots, levels = parts.gram, parts.slots, parts.levels
    first, D = slots * levels, len(group)
    pull = centre @ np.linalg.inv(parts.factor).T
    pull = pull + gram @ pull
    # Rounding must not leave a negative precision of what the first part is integrated out of.
    whole = np.where(parts.group == groups, 1.0, np.diag(gram))
    gram = gram + max(float(np.finfo(dtype).eps) * D, _ZERO) * np.diag(whole) * (first < D or slots > 1)
    blocks = np.diagonal(gram[:first, :first].reshape(slots, levels, slots, levels), axis1=1, axis2=3)
    return JointScaleMap(
        factor=real(parts.factor),
        pull=real(pull),
        index=placed(parts.group, np.int32),
        blocks=real(blocks),
        cross=real(gram[:first, first:].reshape(slots, levels, D - first)),
        core=real(gram[first:, first:]),
    )


def _by_eigenvectors(
    covariance: Float[np.ndarray, "D D"], precision: Float[np.ndarray, " D"], group: Int[np.ndarray, " D"], groups: int
) -> _Parts:
    """Each group along the eigenvectors of its block of ``C``, coordinates without a learnt scale given the others."""
    sizes = np.bincount(group, minlength=groups + 1)[:groups]
    members = [np.flatnonzero(group == j) for j in np.argsort(-sizes, kind="stable")]
    here, other = np.concatenate(members), np.flatnonzero(group == groups)
    inverse = np.linalg.inv(covariance[np.ix_(here, here)])
    scale = precision[here] ** -0.5
    value, vector = np.linalg.eigh(scale[:, None] * inverse * scale - np.eye(len(here)))
    # Rounding and a rough approximation may leave less precision than the prior's.
    gram = (vector * np.maximum(value, 0)) @ vector.T
    turn, start = np.zeros_like(gram), 0
    for part in members:
        block = slice(start, start + len(part))
        turn[block, block] = np.linalg.eigh(gram[block, block])[1]
        start += len(part)
    gram = turn.T @ gram @ turn
    slope = covariance[np.ix_(other, here)] @ inverse
    given = covariance[np.ix_(other, other)] - slope @ covariance[np.ix_(here, other)]
    width, axes = np.linalg.eigh(given)
    root = axes * np.sqrt(np.maximum(width, _ZERO**2 * np.max(width, initial=0.0)))
    # Columns: the largest group, coordinates without a learnt scale, the other groups.
    D, q, first = len(group), len(here), len(members[0])
    factor, whole = np.zeros((D, D)), np.zeros((D, D))
    factor[np.ix_(here, range(q))] = scale[:, None] * turn
    factor[np.ix_(other, range(q))] = slope @ factor[np.ix_(here, range(q))]
    factor[np.ix_(other, range(q, D))] = root
    whole[:q, :q] = gram
    order = np.concatenate([np.arange(first), np.arange(q, D), np.arange(first, q)])
    turned = np.concatenate([group[here], group[other]])[order]
    return _Parts(factor[:, order], turned, whole[np.ix_(order, order)], 1, D - q + first)


def _by_levels(
    covariance: Float[np.ndarray, "D D"], precision: Float[np.ndarray, " D"], group: Int[np.ndarray, " D"], groups: int
) -> _Parts | None:
    """Groups with the same levels side by side; None unless the rows leave the levels of the largest group apart."""
    inverse, learnt = np.linalg.inv(covariance), group < groups
    scale = np.where(learnt, precision, np.diag(inverse)) ** -0.5
    whole = scale[:, None] * inverse * scale
    gram = whole - np.eye(len(group))
    of_rows = whole - np.diag(1.0 * learnt)
    small = np.abs(of_rows) <= _ZERO * np.sqrt(np.outer(np.diag(whole), np.diag(whole)))
    if np.linalg.eigvalsh(of_rows)[0] < -_ZERO * np.max(np.diag(whole)):
        return None
    sizes = np.bincount(group, minlength=groups + 1)[:groups]
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
    factor = np.zeros_like(gram)
    factor[order, np.arange(len(order))] = scale[order]
    return _Parts(factor, group[order], gram[np.ix_(order, order)], len(slots), len(slots[0]))
