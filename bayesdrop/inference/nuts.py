"""The No-U-Turn sampler of NumPyro (Hoffman & Gelman 2014) on the densities without masks.

A second, independent way to the posteriors of ``bd.HMC``: same density and same whitened coordinates, other
trajectories, step size and metric adapted by NumPyro.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import NUTS as NumpyroNUTS

from ..data import Data
from ..model import Model
from ..rates import RateMap
from .density import Density, DensityOperands
from .hmc import bind_density, start_of
from .whitening import colour, pull

__all__ = ["NUTS", "NUTSKernel", "NUTSOperands"]

Array = Any


@dataclass(frozen=True)
class NUTS:
    """NumPyro's No-U-Turn sampler.

    Exact where there are no masks; with masks, they are integrated as if scores were normal and the error is stated, as
    by ``bd.HMC``; :func:`bayesdrop.reweight` corrects the draws.

    Parameters
    ----------
    target_accept : float
        Acceptance probability that the step size aims at, in (0, 1).
    max_tree_depth : int
        Most doublings of a trajectory, at least 1.
    dtype : str
        ``"float32"`` or ``"float64"`` (default: the energies that it compares are sums over all rows).

    Examples
    --------
    >>> NUTS().max_tree_depth
    10
    """

    target_accept: float = 0.8
    max_tree_depth: int = 10
    dtype: str = "float64"
    integrates_masks: ClassVar[bool] = True
    warm_up: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        if not 0 < self.target_accept < 1:
            raise ValueError(f"target_accept: expected a number in (0, 1), got {self.target_accept!r}; 0.8 is usual.")
        depth = self.max_tree_depth
        if isinstance(depth, bool) or not isinstance(depth, int | np.integer) or depth < 1:
            raise ValueError(f"max_tree_depth: expected a whole number of at least 1, got {depth!r}.")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f'dtype: expected "float32" or "float64", got {self.dtype!r}.')

    def bind(
        self, model: Model, data: Data, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[NUTSKernel, NUTSOperands]:
        """Build the kernel and its operands; call it under the precision of ``dtype``."""
        density, operands = bind_density(type(self).__name__, model, data, rate_map, marginalised, self.dtype)
        centre, factor = start_of(model, data, rate_map)
        kernel = NUTSKernel(density, int(tune), float(self.target_accept), int(self.max_tree_depth))
        return kernel, NUTSOperands(operands, *(jnp.asarray(part, dtype=self.dtype) for part in (centre, factor)))


class NUTSOperands(NamedTuple):
    """Data and priors, and the centre (D,) and factor, (D, D) or (D,), of the whitened coordinates."""

    density: DensityOperands
    centre: Array
    factor: Array


@dataclass(frozen=True)
class NUTSKernel:
    """The transition: NumPyro's kernel, one copy per chain side by side.

    Attributes
    ----------
    density : Density
        What is sampled.
    tune : int
        Draws of the warm-up, which fix NumPyro's schedule of adaptation.
    target_accept, max_tree_depth
        As in :class:`NUTS`.
    """

    density: Density
    tune: int
    target_accept: float
    max_tree_depth: int

    def _potential(self, operands: NUTSOperands) -> Any:
        """Minus the log density of one chain, (D,) to (), with the closed-form gradient."""

        def both(z: Array) -> tuple[Array, Array]:
            evaluation = self.density.evaluate(operands.density, colour(operands.centre, operands.factor, z[None]))
            value = jnp.sum(evaluation.cost, axis=1) - evaluation.prior
            return value[0], pull(operands.factor, evaluation.gradient)[0]

        @jax.custom_vjp
        def potential(z: Array) -> Array:
            return both(z)[0]

        potential.defvjp(both, lambda slope, value: (slope * value,))
        return potential

    def _sampler(self, operands: NUTSOperands, key: Array) -> tuple[NumpyroNUTS, Any]:
        """NumPyro's kernel, initialised, and a first state."""
        sampler = NumpyroNUTS(
            potential_fn=self._potential(operands),
            target_accept_prob=self.target_accept,
            max_tree_depth=self.max_tree_depth,
        )
        key, key_start = jax.random.split(key)
        start = 2 * jax.random.normal(key_start, operands.centre.shape, operands.centre.dtype)
        return sampler, sampler.init(key, self.tune, start, model_args=(), model_kwargs={})

    def init(self, operands: NUTSOperands, key: Array, chains: int) -> Any:
        """Start at twice the spread of the normal approximation."""
        return jax.vmap(lambda k: self._sampler(operands, k)[1])(jax.random.split(key, chains))

    def step(self, operands: NUTSOperands, state: Any) -> Any:
        """One draw of every chain."""
        # NumPyro's kernel learns its schedule when it is initialised; the state made on the way is not used.
        sampler, _ = self._sampler(operands, jax.random.key(0))
        return jax.vmap(lambda s: sampler.sample(s, (), {}))(state)

    @staticmethod
    def statistics(state: Any) -> dict[str, Array]:
        """Log density ``lp`` and how the trajectory went, (C,) each."""
        return {
            "lp": -state.potential_energy,
            "acceptance_rate": state.accept_prob,
            "energy": state.energy,
            "step_size": state.adapt_state.step_size,
            "n_steps": state.num_steps,
            "diverging": state.diverging.astype(jnp.int8),
        }

    def record(self, operands: NUTSOperands, state: Any) -> dict[str, Array]:
        """What is kept of a draw: weight (C, p), intercept (C,), logit_rate (C, k), lp and how the trajectory went."""
        theta = colour(operands.centre, operands.factor, state.z)
        weight, intercept = self.density.weights(theta, operands.density.precision.shape[0])
        draw = {"weight": weight} | self.statistics(state)
        if self.density.fit_intercept:
            draw["intercept"] = intercept
        if self.density.free:
            draw["logit_rate"] = self.density.logit_rates(theta)
        return draw
