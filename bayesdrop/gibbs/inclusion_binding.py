"""Bind a model with a spike-and-slab prior: prepare its columns, units and priors for the kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from ..data.dataset import Dataset
from ..losses.protocols import Augmented
from ..model import Model
from ..priors.base import selecting
from ..priors.inclusion_law import InclusionLaw
from ..rates import RateMap
from ..sampling.matrix import placed
from ..sampling.prior_operands import learnt_parameter, level_operands, parameter_operands, scale_operands
from .choices import Limits
from .inclusion import InclusionKernel, InclusionOperands, RowOperands
from .moves.active_set import Neighbours, Units

__all__ = ["bind_inclusion", "check_indicators", "with_slab"]


def with_slab(model: Model) -> Model:
    """Replace the spike-and-slab prior of a model by its slab, as if all features were included."""
    prior: Any = model.weight_prior
    effects = getattr(prior, "size", 0)
    return replace(model, weight_prior=replace(prior, features=prior.features.slab) if effects else prior.slab)


def check_indicators(model: Model, rate_map: RateMap, law: InclusionLaw) -> InclusionLaw:
    """Return the prior of the indicators; raise an error if the sampler with masks does not support it.

    Raises
    ------
    ValueError
        If the rates are the default or shared, features have groups or heredity, or the intercept has a prior.
    """
    place, advice = "weight_prior: bd.SpikeSlab", "take rates=bd.Fixed(0.0) for features without noise"
    if model.rates is None:
        raise ValueError(
            f"{place} needs rates, for the default, a flat prior, takes a feature that is always dropped for one that "
            f"is included; {advice}, or bd.PerFeature(bd.Beta(1, 3)), which is away from 1."
        )
    own = rate_map.hierarchy is None and rate_map.size == int(np.sum(rate_map.noised))
    if rate_map.is_free and not own:
        raise ValueError(
            f"{place} takes rates of single features or fixed ones, as its steps sum out the masks of one column, got "
            f"{model.rates!r}; take bd.PerFeature(bd.Beta(1, 3))."
        )
    if law.parents is not None or len(law.is_forced) < len(law.unit):
        raise ValueError(
            f"{place} takes groups and heredity beside features without noise only, as its steps sum out the masks of "
            f"one column; {advice}, or leave groups and heredity out."
        )
    if model.intercept_prior is not None:
        raise ValueError(f"intercept_prior: expected none beside dropped entries and bd.SpikeSlab; {advice}.")
    return law


def bind_inclusion(
    model: Model, loss: Augmented, data: Dataset, rate_map: RateMap, marginalised: bool, sweeps: int, choice: str,
    dtype: str, limits: Limits,
) -> tuple[InclusionKernel, InclusionOperands]:  # fmt: skip
    """Build the kernel and its operands.

    Raises
    ------
    ValueError
        If entries may be dropped or are noised, classes have random terms, or more features are forced than rows exist.
    """
    n, p = data.design.shape
    prior: Any = model.weight_prior
    parts = model.noise.coefficients(np.broadcast_to(np.asarray(rate_map.initial, dtype=np.float64), (p,)))
    noisy = any(np.any(part) for part in (parts.quadratic, parts.linear, parts.constant, parts.shift))
    if not marginalised or noisy or np.any(parts.gain != 1):
        raise ValueError(
            "weight_prior: bd.SpikeSlab takes features without noise, or whose dropped entries are part of the model, "
            f'got noise={model.noise!r} averaged inside the loss; take rates=bd.Fixed(0.0), or target="noising".'
        )
    effects = getattr(prior, "size", 0)
    classes = (len(data.classes),) if model.loss.multiclass and data.classes is not None else ()
    if classes and effects:
        raise ValueError(
            "weight_prior: bd.SpikeSlab takes random terms where rows have one score, as the scales of the terms are "
            f"drawn along that score, got {model.loss!r}; leave the terms out, or take bd.Normal(...)."
        )
    law: InclusionLaw = selecting(prior).law(p - effects)
    forced = int(np.sum(law.is_forced[law.unit]))
    if forced > n:
        raise ValueError(
            f"SpikeSlab include: expected at most as many features as rows, {n}, got {forced}; leave some of them free."
        )
    matrix = sparse.csc_array(data.X, dtype=np.float64)
    neighbours = _correlated(matrix[:, : p - effects], law, limits.neighbours, limits.correlation)
    count = math.prod(classes)
    neighbours = tuple(near + k * len(law.is_forced) for k in range(count) for near in neighbours)
    columns = [matrix]
    if model.fit_intercept:
        columns.append(sparse.csc_array(np.ones((n, 1))))
    matrix = sparse.csc_array(sparse.hstack(columns))
    level, parameter, row_weight = level_operands(model, dtype), learnt_parameter(model.loss), model.C * data.weight
    if level is not None:
        place = np.append(np.asarray(level.place, dtype=np.float64), 1.0)
        matrix = sparse.csc_array(sparse.vstack([matrix, sparse.csc_array(place[None])]))
    transposed = sparse.csr_array(matrix.T) if sparse.issparse(data.X) else matrix.T.toarray()
    squared = transposed * transposed
    order, size = np.argsort(law.unit, kind="stable"), np.bincount(law.unit, minlength=len(law.is_forced))
    members, joint = count * tuple(np.split(order, np.cumsum(size)[:-1])), law.of_classes(count)
    units = Units(
        columns=members,
        first=np.array([unit[0] for unit in members]),
        is_group=np.tile(size > 1, count),
        law=joint,
        at_once=limits.at_once,
        families=joint.families(),
    )
    learnt, real = (prior if effects else prior.slab).learnt_scale(p), partial(placed, dtype=dtype)
    grouped = [np.flatnonzero(learnt.index == j) for j in range(learnt.groups)] if effects and learnt else []
    kernel = InclusionKernel(
        fit_intercept=model.fit_intercept,
        unit_weight=parameter is None and bool(np.all(row_weight == 1)),
        parameter=parameter,
        scale_mixture=None,
        scale_names=(),
        scale_dims=None if learnt is None else learnt.dims,
        choice=choice,
        sweeps=sweeps,
        loss=loss.plain,
        learns_chance=law.is_learnt,
        classes=classes,
    )
    rows = RowOperands(
        target=real(data.target),
        row_weight=real(row_weight),
        precision=real(prior.first_precision(p)),
        learnt=scale_operands(learnt, dtype),
        parameter=parameter_operands(model.loss, data, dtype),
        offset=None if data.offset is None else real(data.offset),
        level=level,
        unit=placed(law.unit, np.int32),
    )
    return kernel, InclusionOperands(rows, transposed, squared, joint, units, neighbours, limits, tuple(grouped))


def _correlated(matrix: Any, law: InclusionLaw, most: int, least: float) -> Neighbours:
    """For each unit at most ``most`` free single features, of absolute correlation at least ``least``; symmetric.

    Examples
    --------
    >>> law = InclusionLaw(np.arange(3), np.zeros(3, dtype=bool), None, 1.0, 1.0)
    >>> X = sparse.csc_array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [2.0, 3.0, 1.0], [1.0, 1.0, 0.0]])
    >>> _correlated(X, law, 8, 0.5)
    (array([1]), array([0]), array([], dtype=int...))
    """
    n, count, at_once = matrix.shape[0], len(law.is_forced), 256
    single = np.flatnonzero((np.bincount(law.unit)[law.unit] == 1) & ~law.is_forced[law.unit])
    X = matrix[:, single]
    mean = np.asarray(X.mean(axis=0))
    spread = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)) - mean * mean, np.finfo(float).tiny))
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    for start in range(0, len(single), at_once):
        part = slice(start, start + at_once)
        size = abs((X[:, part].T @ X).toarray() / n - np.outer(mean[part], mean)) / np.outer(spread[part], spread)
        own = np.arange(len(size))
        size[own, start + own] = 0
        last = np.argsort(-size, axis=1)[:, :most]
        one, near = np.nonzero(np.take_along_axis(size, last, axis=1) >= least)
        pairs.append(law.unit[single[np.stack([start + one, last[one, near]])]])
    one, other = np.concatenate(pairs, axis=1)
    both = sparse.csr_array((np.ones(2 * len(one)), (np.append(one, other), np.append(other, one))), (count, count))
    return tuple(both.indices[start:end].astype(np.intp) for start, end in pairwise(both.indptr))
