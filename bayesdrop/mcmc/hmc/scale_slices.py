"""Split Hamiltonian Monte Carlo with the scales of the weights drawn on their own, along the map that decouples them.

A scale has a posterior that no normal approximation knows the width of: where classes are separated it reaches as far
as its prior. Given the coordinates ``ζ`` of :class:`.scale_map.ScaleMap` it is drawn by slices before each trajectory,
each of whose trials is one density.

Shapes: ``C`` chains, ``D`` coordinates ``ζ``, ``g`` scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ..slice_sampling import slice_sample
from .kernel import HMCKernel, HMCOperands, HMCState
from .learnt_scale import ScaleDensity
from .whitening import whiten

__all__ = ["ScaleKernel", "pilot_scales"]

# Scales up to which each is drawn, and the first width of a slice of a logarithm.
_FEW, _WIDTH = 8, 1.0
# Chains and draws of a pilot, of which the second half counts.
_CHAINS, _DRAWS = 4, 60


@dataclass(frozen=True)
class ScaleKernel(HMCKernel):
    """The transition of a :class:`.learnt_scale.ScaleDensity` whose map is structured."""

    def slice_rates(self, operands: HMCOperands, state: HMCState, backwards: bool = False) -> HMCState:
        """Draw the scales one by one, and all else by what the kernel does next."""
        density, key = self.density, state.key
        assert isinstance(density, ScaleDensity)
        g = operands.density.log_scale.shape[0]
        if g > _FEW:
            return state
        point = self.place(operands, state, state.position)
        first = density.evaluate(operands.density, point)
        for j in range(g):
            key, key_scale = jax.random.split(key)
            column = point.shape[1] - g + j

            def log_density(delta: Float[jax.Array, " C"], point: jax.Array = point, column: int = column) -> jax.Array:
                found = density.evaluate(operands.density, point.at[:, column].set(delta))
                # Row by row, which keeps the digits.
                return found.prior - first.prior + jnp.sum(first.cost - found.cost, axis=1)

            start = point[:, column]
            new = slice_sample(key_scale, log_density, start, jnp.full_like(start, _WIDTH))
            point = point.at[:, column].set(new)
        position = whiten(state.centre, self.factor(operands, state), point)
        return state._replace(position=position, evaluation=density.evaluate(operands.density, point), key=key)


def pilot_scales(kernel: ScaleKernel, operands: HMCOperands) -> Float[np.ndarray, " g"]:
    """Mean ``log σ`` (g,) of a short run: where the approximation should be made.

    What an approximation says of the scale itself may be far off, and the map is the better the nearer it was made.
    """
    found = np.asarray(_pilot(kernel, operands), float)
    known = np.asarray(operands.density.log_scale, float)
    return np.where(np.isfinite(found), found, known)


@partial(jax.jit, static_argnames=("kernel",))
def _pilot(kernel: ScaleKernel, operands: HMCOperands) -> Float[jax.Array, " g"]:
    g = operands.density.log_scale.shape[0]

    def step(i: jax.Array, carry: tuple[HMCState, jax.Array]) -> tuple[HMCState, jax.Array]:
        state, total = carry
        state = kernel.step(operands, state)[0]
        delta = jnp.mean(kernel.place(operands, state, state.position)[:, -g:], axis=0)
        return state, total + jnp.where(2 * i >= _DRAWS, delta, 0)

    start = kernel.init(operands, jax.random.key(0), _CHAINS)
    total = jax.lax.fori_loop(0, _DRAWS, step, (start, jnp.zeros(g, start.position.dtype)))[1]
    return operands.density.log_scale + total / (_DRAWS // 2)
