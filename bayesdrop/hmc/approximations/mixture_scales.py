r"""Scales of single weights as coordinates of a gradient sampler: mixtures of normal laws, non-centred.

    w_d = σ_d(s) z_d,      z ~ N(0, I),      s ~ N(0, I)

where a prior (:class:`bayesdrop.priors.base.NonCentred`) gives its scales as functions of standard normal ``s``. In
``(z, s)`` the prior is standard normal for any law of the weights, so that a trajectory meets neither the pole of a
horseshoe nor the kink of a Laplace law (Papaspiliopoulos, Roberts & Sköld 2007). Other coordinates ``(z, s)`` of the
weights have their own log density (:mod:`.correlated_effects`).

Shapes: ``C`` chains, ``D`` coordinates ``θ`` of the density given the scales, of which the first ``p`` are the weights,
``m`` scales.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ...priors.base import NonCentred
from ...sampling.matrix import placed
from ..kernels.density import DensityOperands, Evaluation, Point

__all__ = [
    "CoordinateDensity",
    "MixtureDensity",
    "MixtureOperands",
    "ScaleCoordinates",
    "mixture_coordinates",
    "with_mixture",
]

Factor = Float[np.ndarray, "D D"] | Float[np.ndarray, " D"]


class ScaleCoordinates(NamedTuple):
    """Coordinates ``(z, s)`` of weights and their scales.

    Attributes
    ----------
    weights_of : callable
        Returns weights (C, p) less their means, recorded variables by name, and the log prior density (C,), from ``z``
        (C, p), ``s`` (C, m) and operands; hashable.
    operands : pytree
        Arrays that ``weights_of`` takes.
    spread : array (p,)
        Scales of the weights at the centre of ``s``.
    centre, width : array (m,)
        Mean and standard deviation of ``s`` in the normal approximation.
    dims : mapping
        Dims of the recorded variables, by their names in a posterior.
    """

    weights_of: Callable[..., Any]
    operands: Any
    spread: Float[np.ndarray, " p"]
    centre: Float[np.ndarray, " m"]
    width: Float[np.ndarray, " m"]
    dims: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class ScaledWeights:
    """Weights whose scales follow from standard normal variables; ``scales_of`` is the prior's."""

    scales_of: Callable[..., Any]

    def __call__(
        self, z: Float[jax.Array, "C p"], s: Float[jax.Array, "C m"], aux: Any
    ) -> tuple[Float[jax.Array, "C p"], dict[str, jax.Array], Float[jax.Array, " C"]]:
        """See :class:`ScaleCoordinates`."""
        scale, recorded = self.scales_of(s, aux)
        return scale * z, recorded, -0.5 * (jnp.sum(z * z, axis=1) + jnp.sum(s * s, axis=1))


def mixture_coordinates(prior: NonCentred, p: int, dtype: Any) -> ScaleCoordinates:
    """Coordinates of a mixture, about the medians of its scales."""
    m, aux = prior.n_scales(p), prior.init(jax.random.key(0), 1, p, dtype)
    spread, recorded = prior.scales_of(jnp.zeros((1, m)), prior.init(jax.random.key(0), 1, p, float))
    operands = jax.tree.map(lambda part: placed(part, dtype), aux)
    spread = np.asarray(spread[0], dtype=np.float64)
    dims: dict[str, tuple[str, ...]] = dict.fromkeys(recorded, ())
    return ScaleCoordinates(ScaledWeights(prior.scales_of), operands, spread, np.zeros(m), np.ones(m), dims)


class MixtureOperands(NamedTuple):
    """Operands of the density given the scales, with prior precision 0, and of ``weights_of``."""

    base: DensityOperands
    scales: Any


@dataclass(frozen=True)
class CoordinateDensity:
    """A density of weights and other coordinates together with scales of the weights, in coordinates of all of them.

    Attributes
    ----------
    base : LogDensity
        The density given the scales.
    """

    base: Any

    def at(
        self, operands: Any, point: Float[jax.Array, "C E"]
    ) -> tuple[Point, dict[str, jax.Array], Float[jax.Array, " C"]]:
        """``θ`` (C, D), recorded variables, and what the coordinates add to the log density of ``base``, at (C, E)."""
        raise NotImplementedError

    def record(self, operands: Any, theta: Float[jax.Array, "C E"]) -> dict[str, jax.Array]:
        """Posterior variables at points (C, E)."""
        inner, recorded, _ = self.at(operands, theta)
        return {**self.base.record(operands.base, inner), **recorded}

    def evaluate(self, operands: Any, theta: Float[jax.Array, "C E"]) -> Evaluation:
        """Minus the log density of the coordinates and its gradient at points (C, E)."""
        (inner, log_prior), pull_back = jax.vjp(lambda point: self.at(operands, point)[::2], theta)
        evaluation = self.base.evaluate(operands.base, inner)
        (gradient,) = pull_back((evaluation.gradient, -jnp.ones_like(log_prior)))
        return Evaluation(evaluation.cost, evaluation.prior + log_prior, gradient)


@dataclass(frozen=True)
class MixtureDensity(CoordinateDensity):
    """A density of weights and other coordinates together with the scales of single weights.

    Attributes
    ----------
    weights_of : callable
        See :class:`ScaleCoordinates`.
    recorded : tuple of (str, dims)
        Names and dims of the recorded variables.
    size : int
        ``m``.
    """

    weights_of: Any
    recorded: tuple[tuple[str, tuple[str, ...]], ...]
    size: int

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the variables that ``record`` returns."""
        return {**self.base.variables, **dict(self.recorded)}

    def at(
        self, operands: MixtureOperands, point: Float[jax.Array, "C E"]
    ) -> tuple[Point, dict[str, jax.Array], Float[jax.Array, " C"]]:
        """``θ`` (C, D), recorded variables, and the log density of ``z`` and ``s``, at ``(z, rest, s)`` (C, D + m)."""
        p, D = operands.base.precision.shape[0], point.shape[1] - self.size
        weight, recorded, log_prior = self.weights_of(point[:, :p], point[:, D:], operands.scales)
        return jnp.concatenate([weight, point[:, p:D]], axis=1), recorded, log_prior


def with_mixture(
    density: Any,
    operands: DensityOperands,
    centre: Float[np.ndarray, " D"],
    factor: Factor,
    coordinates: ScaleCoordinates,
) -> tuple[MixtureDensity, MixtureOperands, Float[np.ndarray, " E"], Factor]:
    """Density and operands with the scales as coordinates, and the centre and factor of all coordinates.

    ``centre`` and ``factor`` approximate the density at the scales ``coordinates.spread``.
    """
    p, D, m = operands.precision.shape[0], len(centre), len(coordinates.centre)
    unit = np.append(1 / coordinates.spread, np.ones(D - p))
    whole = MixtureDensity(density, coordinates.weights_of, tuple(coordinates.dims.items()), m)
    base = operands._replace(precision=jnp.zeros_like(operands.precision))
    wide: Factor
    if factor.ndim == 1:
        wide = np.append(unit * factor, coordinates.width)
    else:
        wide = np.diag(np.append(np.ones(D), coordinates.width))
        wide[:D, :D] = unit[:, None] * factor
    return whole, MixtureOperands(base, coordinates.operands), np.append(unit * centre, coordinates.centre), wide
