"""Split Hamiltonian Monte Carlo with the scales of the weights drawn on their own, along the map that decouples them.

A scale has a posterior that no normal approximation knows the width of: where classes are separated it reaches as far
as its prior. Given the coordinates ``ζ`` of :class:`.scale_map.ScaleMap` it is drawn by slices before each trajectory,
each of whose trials is one density.

Shapes: ``C`` chains, ``D`` coordinates ``ζ``, ``g`` scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ...._typing import Float
from ...slice_sampling import slice_sample
from ..kernel import HMCKernel, HMCOperands, HMCState
from ..whitening import whiten
from .learnt import ScaleDensity

__all__ = ["ScaleKernel"]

# Scales up to which each is drawn, and the first width of a slice of a logarithm.
_FEW, _WIDTH = 8, 1.0


@dataclass(frozen=True)
class ScaleKernel(HMCKernel):
    """The transition of a :class:`.scales.learnt.ScaleDensity` whose map is structured."""

    def step(self, operands: HMCOperands, state: HMCState) -> tuple[HMCState, dict[str, jax.Array]]:
        """Draw the scales, then one trajectory of every chain."""
        return HMCKernel.step(self, operands, self.draw_scales(operands, state))

    def draw_scales(self, operands: HMCOperands, state: HMCState) -> HMCState:
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
