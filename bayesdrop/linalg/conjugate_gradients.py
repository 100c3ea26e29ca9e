"""Conjugate gradients for a block of symmetric positive definite systems, each with its own step lengths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._typing import Float, PerRow

__all__ = ["Apply", "Product", "conjugate_gradient"]

Apply = Callable[[Float[np.ndarray, "q K"]], Float[np.ndarray, "q K"]]
Product = Callable[[Float[np.ndarray, "q K"]], tuple[Float[np.ndarray, "q K"], tuple[PerRow, ...]]]


def conjugate_gradient(
    product: Product,
    right: Float[np.ndarray, "q K"],
    precondition: Apply,
    tolerance: Float[np.ndarray, " K"],
    max_iter: int,
    persist: Callable[..., tuple[PerRow, ...]] = lambda *parts: parts,
) -> tuple[Float[np.ndarray, "q K"], tuple[PerRow, ...], int]:
    """Solve ``A x = right`` for a block of columns, each with its own step lengths.

    Parameters
    ----------
    product : callable
        ``u ↦ (A u, extras)``; the extras are linear in ``u`` and are returned for the solution ``x``.
    right : array (q, K)
        Right-hand sides.
    precondition : callable
        ``r ↦ z``, approximate inverse of A.
    tolerance : array (K,)
        Relative residual in the preconditioned norm at which a column stops.
    max_iter : int
        Most products.
    persist : callable, optional
        ``Design.persist``, for extras that are vectors over its rows.

    Returns
    -------
    x : array (q, K)
    extras : tuple of arrays
    iterations : int
    """
    x = np.zeros_like(right)
    extras: tuple[PerRow, ...] = ()
    residual = right.copy()
    z = precondition(residual)
    direction = z.copy()
    rho = np.einsum("ij,ij->j", residual, z)
    limit = tolerance**2 * rho
    active = rho > 0
    iteration = 0
    while iteration < max_iter and np.any(active):
        applied, parts = product(direction)
        curvature = np.einsum("ij,ij->j", direction, applied)
        bent = active & ~(curvature > 0)
        active &= curvature > 0
        alpha = np.where(active, rho / np.where(active, curvature, 1.0), 0.0)
        if iteration == 0:
            # The matrix is not positive along the first direction: take that direction, for the caller to search.
            alpha = np.where(bent, 1.0, alpha)
        x += alpha * direction
        residual -= alpha * applied
        extras = persist(
            *(alpha * part for part in parts)
            if iteration == 0
            else (total + alpha * part for total, part in zip(extras, parts, strict=True))
        )
        iteration += 1
        z = precondition(residual)
        fresh = np.einsum("ij,ij->j", residual, z)
        active &= fresh > limit
        if not np.any(active):
            break
        beta = np.where(active, fresh / np.where(rho > 0, rho, 1.0), 0.0)
        direction *= beta
        direction += z
        rho = fresh
    return x, extras, iteration
