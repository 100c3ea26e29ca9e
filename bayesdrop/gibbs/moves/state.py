"""Operands and state of the mask sampler, both pytrees of arrays.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``q`` features and ``m`` entries in a block, ``k`` free rates, ``g``
groups of a hierarchy of rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._typing import Bool, Float, Int
from ...rates import Hierarchy
from ...sampling.matrix import placed
from ...sampling.prior_operands import LevelOperands, LevelRow, ParameterOperands, ScaleOperands
from .columns import Columns
from .interweaving import GroupBlock

__all__ = ["Conditional", "HierarchyOperands", "Masks", "Operands", "State", "hierarchy_operands"]

Masks = Sequence[Bool[jax.Array, "_ C _"]]


class Conditional(NamedTuple):
    """Gaussian conditional of weights and intercept given masks and auxiliary variables.

    Attributes
    ----------
    columns, masks : Columns, sequence of bool arrays (q, C, m)
        The features and which of their entries are kept.
    omega, kappa : array (C, n)
        Pseudo-observations: ``exp(κs − ½ωs²)`` of each score.
    precision : array (C, p)
        Prior precision of the weights.
    prior_row : LevelRow, optional
        Prior of the intercept; None if it is flat.
    """

    columns: Columns
    masks: Masks
    omega: Float[jax.Array, "C n"]
    kappa: Float[jax.Array, "C n"]
    precision: Float[jax.Array, "C p"]
    prior_row: LevelRow | None = None


class HierarchyOperands(NamedTuple):
    """Groups of the rates and their priors.

    Attributes
    ----------
    index : int array (k,)
        Group of each rate.
    mean_a, mean_b : array (g,)
        Beta priors of the means.
    shape, scale : array ()
        Gamma prior of the strengths.
    """

    index: Int[jax.Array, " k"]  # type: ignore[assignment]  # tuples have a method of this name
    mean_a: Float[jax.Array, " g"]
    mean_b: Float[jax.Array, " g"]
    shape: Float[jax.Array, ""]
    scale: Float[jax.Array, ""]


def hierarchy_operands(hierarchy: Hierarchy, dtype: Any) -> HierarchyOperands:
    """Convert the groups of a rate structure for the sampler."""
    a, b = hierarchy.mean_prior.law(np.zeros(len(hierarchy.names)))
    return HierarchyOperands(
        index=placed(hierarchy.index, np.int32),
        mean_a=placed(a, dtype),
        mean_b=placed(b, dtype),
        shape=placed(hierarchy.strength_prior.shape, dtype),
        scale=placed(hierarchy.strength_prior.scale, dtype),
    )


class Operands(NamedTuple):
    """Data and priors; see :class:`bayesdrop.gibbs.moves.columns.Columns` for the matrix.

    Attributes
    ----------
    target, row_weight : array (n,)
        Labels −1 and +1 or numbers, and ``C`` times the row weights.
    precision : array (p,)
        Prior precision of the weights; its starting value if it is drawn.
    scales : pytree of arrays (1, …)
        Starting values of the latent scales of the weights, empty for a normal prior.
    learnt : ScaleOperands or None
        Learnt scales that normal weights share; None if there are none.
    fixed_logit : array (p,)
        Logits of the rates if none is free; −∞ for features without noise.
    index : int array (p,)
        Free rate of each feature; ``k`` for a feature without noise.
    groups : tuple of GroupBlock
        Features of each free rate, if features share rates.
    rate_prior : BetaLaw of shape (k,) or None
        Prior of the free rates; None if it is learnt.
    hierarchy : HierarchyOperands or None
        Groups of the rates and their hyperpriors, if the priors of the rates are learnt.
    parameter : ParameterOperands or None
        Prior of the learnt scale or shape of the likelihood; None if nothing is learnt.
    first_power : array ()
        Power of the likelihood at the start of a tempered warm-up.
    tune : int array ()
        Number of warm-up draws, in which the sampler adapts.
    offset : array (n,), optional
        Known part of every row's score, included in the scores of a state.
    location : array (p,), optional
        Prior mean of the weights; None if it is 0.
    level : LevelOperands, optional
        Prior of the intercept; None if it is flat.
    indicators : IndicatorOperands, optional
        Law of the indicators under a spike-and-slab prior, :mod:`.indicators`.
    """

    columns: Columns
    target: Float[jax.Array, " n"]
    row_weight: Float[jax.Array, " n"]
    precision: Float[jax.Array, " p"]
    scales: Any
    learnt: ScaleOperands | None
    fixed_logit: Float[jax.Array, " p"]
    index: Int[jax.Array, " p"]  # type: ignore[assignment]  # tuples have a method of this name
    groups: tuple[GroupBlock, ...]
    rate_prior: Any
    hierarchy: HierarchyOperands | None
    parameter: ParameterOperands | None
    first_power: Float[jax.Array, ""]
    tune: Int[jax.Array, ""]
    offset: Float[jax.Array, " n"] | None = None
    location: Float[jax.Array, " p"] | None = None
    level: LevelOperands | None = None
    indicators: Any = None

    def from_location(self, weight: Float[jax.Array, "C p"]) -> Float[jax.Array, "C p"]:
        """Weights (C, p) less their prior mean."""
        return weight if self.location is None else weight - self.location[None]

    def with_offset(self, score: Float[jax.Array, "C n"], sign: float = 1.0) -> Float[jax.Array, "C n"]:
        """Scores (C, n) plus the offset, or minus it with ``sign`` −1."""
        return score if self.offset is None else score + sign * self.offset[None]


class State(NamedTuple):
    """State of ``C`` chains, whose classes, if there are many, share the masks.

    With classes, ``effective``, ``intercept``, ``score`` and ``precision`` have a leading axis for them, and ``scales``
    list the chains of one class after another. Intercepts then sum to zero over the classes, and so do weights with a
    normal prior. Only models of one score per row use the fields with a default.

    Attributes
    ----------
    effective, intercept : array (C, p), (C,)
        Weights times the factor of a kept entry, and intercept.
    logit : array (C, k)
        Logits of the free rates.
    masks : tuple of bool arrays (q, C, m)
        Masks, one array per block of columns.
    score : array (C, n)
        Scores of the masked rows, offset included.
    precision : array (C, p)
        Prior precision of the weights.
    scales : pytree of arrays (C, …)
        Latent scales behind it.
    log_scale : array (C, g)
        Logarithms of learnt scales that weights share.
    log_parameter : array (C,)
        Logarithm of the learnt scale or shape of the likelihood.
    noise_precision : array (C,)
        Factor on the loss from a learnt scale; else the power of the likelihood, 1 except in a tempered warm-up.
    group_logit, group_log_strength : array (C, g)
        Learnt Beta priors of the rates: logits of their means, logarithms of their strengths.
    weight_width : array (p,)
        Widths of the first slice intervals of the weights.
    metric : Metric
        Metric of the joint move.
    count : int array ()
        Draws so far.
    indicators : Indicators, optional
        Which features are included, under a spike-and-slab prior.
    key : key
        Random key.
    """

    effective: Float[jax.Array, "*classes C p"]
    intercept: Float[jax.Array, "*classes C"]
    logit: Float[jax.Array, "C k"]
    masks: tuple[Bool[jax.Array, "_ C _"], ...]
    score: Float[jax.Array, "*classes C n"]
    precision: Float[jax.Array, "*classes C p"]
    scales: Any
    log_scale: Float[jax.Array, "C scales"]
    group_logit: Float[jax.Array, "C g"]
    group_log_strength: Float[jax.Array, "C g"]
    key: PRNGKeyArray
    log_parameter: Any = None
    noise_precision: Any = None
    weight_width: Any = None
    metric: Any = None
    count: Any = None
    indicators: Any = None
