r"""Weights, scales and correlation matrices of random terms as non-centred coordinates of a gradient sampler.

    w_d = σ_j u_d z_d   of independent weights,      w_g = diag(σ) L z_g   of the effects of a level g

with standard normal ``z`` and the Cholesky factor ``L`` of the correlation matrix of a term. ``s`` consists of
``log σ`` and the coordinates of the matrices (:mod:`bayesdrop.priors.correlation`). Features with a mixture prior have
their own coordinates ``(z, s)`` (:mod:`.mixture_scales`), before those of the effects.

Shapes: ``C`` chains, ``p`` weights, ``g`` learnt scales, ``m`` scales and coordinates of matrices, ``k`` effects.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float, Int
from ...priors.correlation import correlation_root, log_lkj, pairs_of
from ...priors.random_effects import RandomEffects
from ...sampling.matrix import placed
from ...sampling.prior_operands import ScaleOperands, by_weight, log_scale_prior, scale_operands
from .mixture_scales import ScaleCoordinates, mixture_coordinates

__all__ = ["CorrelatedOperands", "correlated_coordinates", "correlated_weights", "effects_coordinates"]


@dataclass(frozen=True)
class Rules:
    """First standard deviations of the coordinates of log scales and of a matrix; pilot runs then adapt them."""

    scale: float = 0.5
    matrix: float = 0.7


RULES = Rules()


class CorrelatedOperands(NamedTuple):
    """Scales and blocks.

    Attributes
    ----------
    scales : ScaleOperands, optional
        Groups and priors of the learnt scales; None if all are known.
    unit : array (p,)
        ``u``; a known scale is its unit.
    blocks : tuple of int arrays (k, levels)
        Columns of the effects of each correlated term.
    eta : array ()
        Exponent of the LKJ prior.
    """

    scales: ScaleOperands | None
    unit: Float[jax.Array, " p"]
    blocks: tuple[Int[jax.Array, "_ _"], ...]
    eta: Float[jax.Array, ""]


def correlated_weights(
    z: Float[jax.Array, "C p"], s: Float[jax.Array, "C m"], operands: CorrelatedOperands
) -> tuple[Float[jax.Array, "C p"], dict[str, jax.Array], Float[jax.Array, " C"]]:
    """Weights less their means, recorded variables by name, and the log prior density of ``(z, s)``."""
    log_prior, spread, recorded, pairs = -0.5 * jnp.sum(z * z, axis=1), operands.unit[None], {}, []
    at = 0
    if operands.scales is not None:
        at = operands.scales.size.shape[0]
        recorded["log_weight_scale"] = s[:, :at]
        log_prior = log_prior + jnp.sum(log_scale_prior(operands.scales, s[:, :at]), axis=1)
        spread = spread * jnp.exp(by_weight(operands.scales, s[:, :at]))
    for block in operands.blocks:
        k = block.shape[0]
        y, at = s[:, at : at + k * (k - 1) // 2], at + k * (k - 1) // 2
        root = correlation_root(y, k)
        log_prior = log_prior + log_lkj(y, k, operands.eta)
        z = z.at[:, block].set(jnp.einsum("cij,cjl->cil", root, z[:, block]))
        pairs.append(pairs_of(jnp.einsum("cil,cjl->cij", root, root)))
    if pairs:
        recorded["correlation"] = jnp.concatenate(pairs, axis=1)
    return spread * z, recorded, log_prior


def correlated_coordinates(
    prior: RandomEffects, p: int, log_scale: Float[np.ndarray, " g"], dtype: Any
) -> ScaleCoordinates:
    """Coordinates of normal weights and effects, about scales ``e^log_scale`` and independent effects."""
    learnt, real = prior.learnt_scale(p), partial(placed, dtype=dtype)
    unit = prior.known_scales(p) if learnt is None else learnt.unit
    blocks, more = prior.blocks(p), sum(map(len, prior.pairs().values()))
    operands = CorrelatedOperands(
        scale_operands(learnt, dtype), real(unit), tuple(placed(block, np.int32) for block in blocks), real(prior.eta)
    )
    dims: dict[str, tuple[str, ...]] = {"correlation": ("correlation_pair",)} if blocks else {}
    dims |= {} if learnt is None else {"weight_scale": learnt.dims}
    spread = unit if learnt is None else learnt.scale(np.exp(log_scale))
    centre, width = np.append(log_scale, np.zeros(more)), np.repeat([RULES.scale, RULES.matrix], [len(log_scale), more])
    return ScaleCoordinates(correlated_weights, operands, spread, centre, width, dims)


@dataclass(frozen=True)
class JoinedWeights:
    """Weights of features, followed by effects; see :class:`.mixture_scales.ScaleCoordinates`.

    Attributes
    ----------
    features, effects : callable
        ``weights_of`` of each.
    n_features, n_scales : int
        Number of weights of the features, and of their scales.
    """

    features: Any
    effects: Any
    n_features: int
    n_scales: int

    def __call__(
        self, z: Float[jax.Array, "C p"], s: Float[jax.Array, "C m"], operands: tuple[Any, Any]
    ) -> tuple[Float[jax.Array, "C p"], dict[str, jax.Array], Float[jax.Array, " C"]]:
        """Weights, recorded variables and log prior density of both."""
        p, m = self.n_features, self.n_scales
        weight, recorded, log_prior = self.features(z[:, :p], s[:, :m], operands[0])
        effects, more, log_effects = self.effects(z[:, p:], s[:, m:], operands[1])
        return jnp.concatenate([weight, effects], axis=1), {**recorded, **more}, log_prior + log_effects


def effects_coordinates(
    prior: RandomEffects, p: int, log_scale: Float[np.ndarray, " g"], dtype: Any
) -> ScaleCoordinates:
    """Coordinates of features and effects, about scales ``e^log_scale`` and the medians of a mixture."""
    if prior.mixture is None:
        return correlated_coordinates(prior, p, log_scale, dtype)
    n_features = p - prior.size
    first = mixture_coordinates(prior.mixture, n_features, dtype)
    last = correlated_coordinates(prior.effects, prior.size, log_scale, dtype)
    weights_of = JoinedWeights(first.weights_of, last.weights_of, n_features, len(first.centre))
    spread, centre, width = (
        np.append(getattr(first, name), getattr(last, name)) for name in ("spread", "centre", "width")
    )
    dims = {**first.dims, **last.dims}
    return ScaleCoordinates(weights_of, (first.operands, last.operands), spread, centre, width, dims)
