"""Draw rates that features share: given the masks, then given uniform variables behind the masks (interweaving).

The masks of a group follow its rate and the rate follows the masks, so that drawing either given the other hardly
moves. Written as ``α_id = 1(u_id > η_j)``, with ``u_id`` uniform on ``(η_j, 1)`` where kept and on ``(0, η_j)`` where
dropped, a mask is a function of the rate: ``η_j`` is drawn given the ``u``, and masks and scores move along (ancillary-
sufficient interweaving; Yu & Meng 2011). Rates and uniform variables are compared as logits, which resolve both ends.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``k`` groups, ``g`` groups in a block of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float, Int, Num
from ...sampling.matrix import placed
from ...sampling.slice_sampling import slice_sample
from .columns import Columns, partition

__all__ = ["GroupBlock", "by_group", "group_blocks", "interweave"]


class GroupBlock(NamedTuple):
    """Groups of similar size. The last three fields are None for a dense matrix, which takes whole columns.

    Attributes
    ----------
    groups : int array (g,)
        Indices of these groups.
    features : int array (g, size)
        Features of each group, padded by ``p``; for a sparse matrix the feature of each entry of the group.
    entries : int array (g, size)
        Positions of the entries among those of all blocks of columns, one past the end for padding.
    values, rows : array (g, size)
        The entries, 0 for padding, and their rows, ``n`` for padding.
    """

    groups: Int[jax.Array, " g"]
    features: Int[jax.Array, "g size"]
    entries: Int[jax.Array, "g size"] | None
    values: Float[jax.Array, "g size"] | None
    rows: Int[jax.Array, "g size"] | None


def by_group(per_feature: Num[jax.Array, "p C"], index: Int[jax.Array, " p"], size: int) -> Num[jax.Array, "size C"]:
    """Sum over the features of each group: (p, C) to (size, C)."""
    return jnp.zeros((size, per_feature.shape[1]), per_feature.dtype).at[index].add(per_feature)


def group_blocks(columns: Columns, index: Int[np.ndarray, " p"], size: int, n: int) -> tuple[GroupBlock, ...]:
    """Features or entries of ``size`` groups; ``index`` (p,) is the group of each feature."""
    p = len(index)
    feature, values, rows = np.arange(p), np.zeros(0), np.zeros(0, int)
    owner, nothing, dtype = index, p, None
    if not columns.is_dense:
        parts = [
            (np.repeat(b.features, b.values.shape[1]), *(np.ravel(np.asarray(part)) for part in b[1:]))
            for b in columns.blocks
        ]
        none = np.zeros(0, int), np.zeros(0), np.zeros(0, bool), np.zeros(0, int)
        feature, values, occurs, rows = (np.concatenate(part) for part in zip(none, *parts, strict=True))
        owner, nothing = np.where(occurs, index[feature], size), len(feature)
        dtype = columns.blocks[0].values.dtype if columns.blocks else None
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=size)[:size]
    start = np.append(0, np.cumsum(count))
    blocks = []
    for groups in [*partition(count), np.flatnonzero(count == 0)]:
        longest = int(count[groups].max(initial=0))
        inside = np.arange(longest)[None] < count[groups, None]
        entries = np.full(inside.shape, nothing)
        entries[inside] = order[(start[groups, None] + np.arange(longest)[None])[inside]]
        which = placed(groups, np.int32)
        if not len(groups):
            continue
        if columns.is_dense:
            blocks.append(GroupBlock(which, placed(entries, np.int32), None, None, None))
            continue
        padded_parts = [np.append(part, fill)[entries] for part, fill in ((feature, p), (values, 0), (rows, n))]
        blocks.append(
            GroupBlock(
                which,
                placed(padded_parts[0], np.int32),
                placed(entries, np.int32),
                placed(padded_parts[1], dtype),
                placed(padded_parts[2], np.int32),
            )
        )
    return tuple(blocks)


def interweave(
    operands: Any,
    state: Any,
    cost: Callable[[Float[jax.Array, "*classes C n"]], Float[jax.Array, " C"]],
    log_multiplier: Callable[[Float[jax.Array, "*shape"]], Float[jax.Array, "*shape"]],
    rate_prior: Any,
    key: PRNGKeyArray,
    dimension: int = 1,
) -> Any:
    """Draw the rates of groups twice: given the masks, and given the uniform variables behind them.

    Parameters
    ----------
    operands, state : Operands, and State
        Data and variables (:mod:`.state`); the new state is returned.
    cost : callable
        From scores to the loss of each chain (C,).
    log_multiplier : callable
        ``log k`` from logits of rates, elementwise.
    rate_prior : BetaLaw of shape (C, k)
        Prior of the rates.
    dimension : int
        Dimension of the weights of a feature: ``K``, or ``K − 1`` if they sum to zero over the classes.
    """
    columns, index, old_masks, (chains, k) = operands.columns, operands.index, state.masks, state.logit.shape
    shape, dtype = state.score.shape, state.score.dtype
    # The chains of one class after another.
    score, weight = state.score.reshape(-1, shape[-1]), state.effective.reshape(-1, index.shape[0])
    precision, classes = state.precision.reshape(weight.shape), len(weight) // chains
    size = jnp.zeros(k, dtype).at[index].add(jnp.ones(index.shape, dtype))
    drops = [
        jnp.sum(~mask & block.occurs[:, None, :], axis=-1, dtype=jnp.int32)
        for block, mask in zip(columns.blocks, old_masks, strict=True)
    ]
    dropped = by_group(columns.per_feature(drops, (chains,), jnp.int32), index, k).astype(dtype)
    total = jnp.broadcast_to(columns.occurrences[:, None], (index.shape[0], chains))
    occurrences = by_group(total, index, k).astype(dtype)
    square = jnp.sum((precision * weight * weight).reshape(classes, chains, -1), axis=0)
    penalty, size, pull = by_group(square.T, index, k), size * dimension, None
    if operands.location is not None:
        pull = by_group((precision * weight * operands.location[None]).T, index, k)

    def prior(logit: Any, law: Any, penalty: Any, size: Any, pull: Any) -> Any:
        factor = log_multiplier(logit)
        density = law.log_density(logit) - 0.5 * penalty * jnp.exp(-2 * factor)
        density = density if pull is None else density + pull * jnp.exp(-factor)
        return density - size * factor

    key_masks, key_groups = jax.random.split(key)
    rate_prior = jax.tree.map(jnp.transpose, rate_prior)
    conditional = rate_prior.given(dropped, occurrences)

    def given_masks(logit: Float[jax.Array, "k C"]) -> Float[jax.Array, "k C"]:
        return prior(logit, conditional, penalty, jnp.broadcast_to(size[:, None], logit.shape), pull)

    new = slice_sample(key_masks, given_masks, state.logit.T, conditional.width())
    masks = old_masks[0] if columns.is_dense else _flatten(old_masks, chains)

    def group(carry: Any, inputs: Any) -> Any:
        score, masks = carry
        block, logit, law, penalty, size, pull, key = inputs
        read, write, add, values, contribution = _entries(columns, block, weight)
        group_mask = read(masks)
        key_uniform, key_rate = jax.random.split(key)
        uniform = jax.random.uniform(key_uniform, group_mask.shape, dtype)
        latent = _latent_logit(logit[None, :, None], group_mask, uniform)
        every = lambda mask: jnp.tile(mask, (1, classes, 1))  # noqa: E731
        base = add(score, -jnp.where(every(group_mask), contribution, 0))

        def at(logit: Float[jax.Array, " C"]) -> Float[jax.Array, "scores n"]:
            return add(base, jnp.where(every(latent > logit[None, :, None]), contribution, 0))

        def given_uniforms(logit: Float[jax.Array, " C"]) -> Float[jax.Array, " C"]:
            return prior(logit, law, penalty, size, pull) - cost(at(logit).reshape(shape))

        logit = slice_sample(key_rate, given_uniforms, logit, law.width())
        group_mask = (latent > logit[None, :, None]) | (values == 0)
        return (at(logit), write(masks, group_mask)), logit

    keys = jax.random.split(key_groups, k)
    for block in operands.groups:
        which = block.groups
        law = jax.tree.map(lambda part, which=which: part[which], rate_prior)
        drawn_by = None if pull is None else pull[which]
        inputs = (block, new[which], law, penalty[which], size[which], drawn_by, keys[which])
        (score, masks), drawn = jax.lax.scan(group, (score, masks), inputs)
        new = new.at[which].set(drawn)
    masks = (masks,) if columns.is_dense else _unflatten(masks, old_masks)
    return state._replace(score=score.reshape(shape), masks=masks, logit=new.T)


def _latent_logit(
    logit: Float[jax.Array, "1 C 1"], mask: Bool[jax.Array, "q C m"], uniform: Float[jax.Array, "q C m"]
) -> Float[jax.Array, "q C m"]:
    """Logit of the uniform variable behind a mask: uniform on ``(η, 1)`` where kept, on ``(0, η)`` where dropped.

    Dropped, it is ``u = ηU`` with odds ``e^l U / {1 + e^l (1 − U)}``; kept, ``1 − u = (1 − η)U``, the same with the
    signs of both logits turned.
    """
    logit = jnp.where(mask, -logit, logit)
    low, high = jnp.minimum(logit, 0), jnp.maximum(logit, 0)
    odds = low + jnp.log(uniform) - jnp.log(jnp.exp(-high) + jnp.exp(low) * (1 - uniform))
    return jnp.where(mask, -odds, odds)


def _entries(
    columns: Columns, block: Any, weight: Float[jax.Array, "scores p"]
) -> tuple[Any, Any, Any, Float[jax.Array, "q 1 m"], Float[jax.Array, "q scores m"]]:
    """Functions that read and write the masks of one group and add to scores; its values and contributions to scores.

    A sparse group is laid out as one long column; masks, values and contributions are (columns, C, entries).
    """
    if block.entries is None:
        features = block.features
        values = columns.blocks[0].values.at[features].get(mode="fill", fill_value=0)[:, None, :]
        contribution = values * weight.T.at[features].get(mode="fill", fill_value=0)[:, :, None]
        return (
            lambda masks: masks.at[features].get(mode="fill", fill_value=True),
            lambda masks, new: masks.at[features].set(new, mode="drop"),
            lambda score, entries: score + jnp.sum(entries, axis=0),
            values,
            contribution,
        )
    values = block.values[None, None]
    contribution = values * weight.at[:, block.features].get(mode="fill", fill_value=0)[None]
    return (
        lambda masks: masks.at[:, block.entries].get(mode="fill", fill_value=True)[None],
        lambda masks, new: masks.at[:, block.entries].set(new[0], mode="drop"),
        lambda score, entries: score.at[:, block.rows].add(entries[0], mode="drop"),
        values,
        contribution,
    )


def _flatten(masks: Sequence[Bool[jax.Array, "_ C _"]], chains: int) -> Bool[jax.Array, "C entries"]:
    """Masks of all blocks, (C, entries)."""
    parts = [jnp.moveaxis(mask, 1, 0).reshape(chains, -1) for mask in masks]
    return jnp.concatenate(parts, axis=1) if parts else jnp.zeros((chains, 0), bool)


def _unflatten(
    flat: Bool[jax.Array, "C entries"], masks: Sequence[Bool[jax.Array, "_ C _"]]
) -> tuple[Bool[jax.Array, "_ C _"], ...]:
    """Inverse of ``_flatten``; ``masks`` gives the shapes."""
    parts, begin = [], 0
    for mask in masks:
        q, chains, m = mask.shape
        parts.append(jnp.moveaxis(flat[:, begin : begin + q * m].reshape(chains, q, m), 0, 1))
        begin += q * m
    return tuple(parts)
