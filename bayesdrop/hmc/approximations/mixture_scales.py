r"""Scales of single weights as coordinates of a gradient sampler: mixtures of normal laws, non-centred.

    w_d = σ_d(s) z_d,      z ~ N(0, I),      s ~ N(0, I)

where a prior says how its scales follow from standard normal variables ``s`` (:class:`bayesdrop.priors.NonCentred`). In
``(z, s)`` the prior is standard normal whatever it is in the weights, so that a trajectory meets neither the pole of a
horseshoe nor the kink of a Laplace law (Papaspiliopoulos, Roberts & Sköld 2007).

Shapes: ``C`` chains, ``D`` coordinates ``θ`` of the density given the scales, of which the first ``p`` are the weights,
``m`` scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ...priors.base import NonCentred
from ...sampling.matrix import placed
from ..kernels.density import DensityOperands, Evaluation, Point

__all__ = ["MixtureDensity", "MixtureOperands", "median_scales", "with_mixture"]

Factor = Float[np.ndarray, "D D"] | Float[np.ndarray, " D"]


class MixtureOperands(NamedTuple):
    """Operands of the density given the scales, with prior precision 0, and hyperparameters of the scales."""

    given: DensityOperands
    scales: Any


@dataclass(frozen=True)
class MixtureDensity:
    """A density of weights and other coordinates together with the scales of single weights.

    Attributes
    ----------
    given : LogDensity
        The density given the scales.
    scales_of : callable
        ``σ`` (C, p), and what is recorded, of ``s`` (C, m) and hyperparameters.
    recorded : tuple of str
        Names of what is recorded, one number a draw each.
    size : int
        ``m``.
    """

    given: Any
    scales_of: Any
    recorded: tuple[str, ...]
    size: int

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of what ``record`` makes of a point."""
        return {**self.given.variables, **{name: () for name in self.recorded}}

    def place(self, operands: MixtureOperands, point: Float[jax.Array, "C E"]) -> Point:
        """``θ`` (C, D) at ``(z, rest, s)`` (C, D + m)."""
        p, D = operands.given.precision.shape[0], point.shape[1] - self.size
        scale, _ = self.scales_of(point[:, D:], operands.scales)
        return jnp.concatenate([scale * point[:, :p], point[:, p:D]], axis=1)

    def log_standard(self, operands: MixtureOperands, point: Float[jax.Array, "C E"]) -> Float[jax.Array, " C"]:
        """Log density of the ``z`` and ``s``, up to a constant."""
        p, D = operands.given.precision.shape[0], point.shape[1] - self.size
        return -0.5 * (jnp.sum(point[:, :p] ** 2, axis=1) + jnp.sum(point[:, D:] ** 2, axis=1))

    def record(self, operands: MixtureOperands, theta: Float[jax.Array, "C E"]) -> dict[str, jax.Array]:
        """Posterior variables at points (C, E)."""
        _, more = self.scales_of(theta[:, theta.shape[1] - self.size :], operands.scales)
        return {**self.given.record(operands.given, self.place(operands, theta)), **more}

    def evaluate(self, operands: MixtureOperands, theta: Float[jax.Array, "C E"]) -> Evaluation:
        """Minus the log density of ``(z, rest, s)`` and its gradient at points (C, E)."""
        inner, pull_back = jax.vjp(lambda point: self.place(operands, point), theta)
        found = self.given.evaluate(operands.given, inner)
        standard, slope = jax.vjp(lambda point: self.log_standard(operands, point), theta)
        gradient = pull_back(found.gradient)[0] - slope(jnp.ones_like(standard))[0]
        return Evaluation(found.cost, found.prior + standard, gradient)


def median_scales(prior: NonCentred, p: int) -> Float[np.ndarray, " p"]:
    """Scales (p,) where all ``s`` are 0, each at its median, at which the normal approximation is made."""
    scales, _ = prior.scales_of(jnp.zeros((1, prior.n_scales(p))), prior.init(jax.random.key(0), 1, p, float))
    return np.asarray(scales[0], dtype=np.float64)


def with_mixture(
    density: Any,
    operands: DensityOperands,
    centre: Float[np.ndarray, " D"],
    factor: Factor,
    prior: NonCentred,
    dtype: Any,
) -> tuple[MixtureDensity, MixtureOperands, Float[np.ndarray, " E"], Factor]:
    """Density and operands with the scales as coordinates, and where and how wide these are.

    ``centre`` and ``factor`` approximate the density at the median scales.
    """
    p, D = operands.precision.shape[0], len(centre)
    m, unit = prior.n_scales(p), np.append(1 / median_scales(prior, p), np.ones(D - p))
    hyper = prior.init(jax.random.key(0), 1, p, dtype)
    _, recorded = prior.scales_of(jnp.zeros((1, m), dtype), hyper)
    given = operands._replace(precision=jnp.zeros_like(operands.precision))
    whole = MixtureDensity(density, prior.scales_of, tuple(recorded), m)
    inside = MixtureOperands(given, jax.tree.map(lambda part: placed(part, dtype), hyper))
    wide: Factor
    if factor.ndim == 1:
        wide = np.append(unit * factor, np.ones(m))
    else:
        wide = np.eye(D + m)
        wide[:D, :D] = unit[:, None] * factor
    return whole, inside, np.append(unit * centre, np.zeros(m)), wide
