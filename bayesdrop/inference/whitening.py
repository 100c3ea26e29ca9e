"""Whitened coordinates, ``θ = c + T z``, in which a normal approximation ``N(c, TTᵀ)`` is standard normal.

Shapes: ``C`` chains, ``D`` coordinates. The factor ``T`` is (D, D), or (D,) if it is diagonal.
"""

from __future__ import annotations

from typing import Any

__all__ = ["colour", "pull"]

Array = Any


def colour(centre: Array, factor: Array, z: Array) -> Array:
    """``θ`` (C, D) at whitened coordinates (C, D).

    Examples
    --------
    >>> import numpy as np
    >>> colour(np.array([1.0, 0.0]), np.array([2.0, 3.0]), np.array([[1.0, -1.0]])).tolist()
    [[3.0, -3.0]]
    """
    return centre[None] + (z @ factor.T if factor.ndim == 2 else z * factor[None])


def pull(factor: Array, gradient: Array) -> Array:
    """Gradient in ``z`` from the one in ``θ``, both (C, D).

    Examples
    --------
    >>> import numpy as np
    >>> pull(np.array([[2.0, 0.0], [1.0, 3.0]]), np.array([[1.0, 1.0]])).tolist()
    [[3.0, 3.0]]
    """
    return gradient @ factor if factor.ndim == 2 else gradient * factor[None]
