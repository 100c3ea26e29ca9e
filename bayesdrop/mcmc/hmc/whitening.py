"""Whitened coordinates, ``θ = c + T z``, in which a normal approximation ``N(c, TTᵀ)`` is standard normal.

Shapes: ``C`` chains, ``D`` coordinates. The factor ``T`` is (D, D), (D,) if it is diagonal, or a :class:`FactorMap`,
which multiplies by products: with the rows (:mod:`.row_factor`), some directions (:mod:`.direction_factor`), or
eigenvectors that classes share (:mod:`.classes.factor`).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import jax

from ..._typing import AnyArray, Float

__all__ = ["Factor", "FactorMap", "unwhiten", "whiten", "whiten_gradient"]


@runtime_checkable
class FactorMap(Protocol):
    """A factor ``T`` of ``D`` coordinates that is known by its products; points are (C, D)."""

    @property
    def stretch(self) -> Float[jax.Array, " D"]:
        """Factors of the whitened coordinates, 1 unless something better was learnt."""
        ...

    def stretched(self, stretch: Float[jax.Array, " D"]) -> FactorMap:
        """The same with other factors (D,)."""
        ...

    def times(self, z: Float[jax.Array, "C D"]) -> Float[jax.Array, "C D"]:
        """``Tz``."""
        ...

    def solve(self, theta: Float[jax.Array, "C D"]) -> Float[jax.Array, "C D"]:
        """``T⁻¹θ``."""
        ...

    def transposed_times(self, gradient: Float[jax.Array, "C D"]) -> Float[jax.Array, "C D"]:
        """``Tᵀ`` times a gradient."""
        ...


Factor = Float[AnyArray, "D D"] | Float[AnyArray, " D"] | FactorMap


def unwhiten(centre: Float[AnyArray, " D"], factor: Factor, z: Float[AnyArray, "C D"]) -> Float[AnyArray, "C D"]:
    """``θ`` (C, D) at whitened coordinates (C, D).

    Examples
    --------
    >>> import numpy as np
    >>> unwhiten(np.array([1.0, 0.0]), np.array([2.0, 3.0]), np.array([[1.0, -1.0]])).tolist()
    [[3.0, -3.0]]
    """
    if isinstance(factor, FactorMap):
        return centre[None] + factor.times(z)
    return centre[None] + (z @ factor.T if factor.ndim == 2 else z * factor[None])


def whiten(centre: Float[AnyArray, " D"], factor: Factor, theta: Float[AnyArray, "C D"]) -> Float[AnyArray, "C D"]:
    """Whitened coordinates (C, D) of ``θ`` (C, D); a dense factor is lower-triangular.

    Examples
    --------
    >>> import numpy as np
    >>> whiten(np.array([1.0, 0.0]), np.array([2.0, 3.0]), np.array([[3.0, -3.0]])).tolist()
    [[1.0, -1.0]]
    """
    away = theta - centre[None]
    if isinstance(factor, FactorMap):
        return factor.solve(away)
    if factor.ndim == 1:
        return away / factor[None]
    return jax.scipy.linalg.solve_triangular(factor, away.T, lower=True).T


def whiten_gradient(factor: Factor, gradient: Float[AnyArray, "C D"]) -> Float[AnyArray, "C D"]:
    """Gradient in ``z`` from the one in ``θ``, both (C, D).

    Examples
    --------
    >>> import numpy as np
    >>> whiten_gradient(np.array([[2.0, 0.0], [1.0, 3.0]]), np.array([[1.0, 1.0]])).tolist()
    [[3.0, 3.0]]
    """
    if isinstance(factor, FactorMap):
        return factor.transposed_times(gradient)
    return gradient @ factor if factor.ndim == 2 else gradient * factor[None]
