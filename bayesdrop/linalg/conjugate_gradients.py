"""Conjugate gradients for a block of symmetric positive definite systems, each with its own step lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .._typing import Float, Int, PerRow

__all__ = ["Apply", "Product", "conjugate_gradient"]

Vector: TypeAlias = Float[np.ndarray, "..."]
Apply = Callable[[Float[np.ndarray, "q K"]], Float[np.ndarray, "q K"]]
Product = Callable[[Float[np.ndarray, "q K"]], tuple[Float[np.ndarray, "q K"], tuple[PerRow, ...]]]

# Numbers of a block from which on it is worth leaving columns out, and the share of them that then are few.
_LARGE, _FEW = 1 << 16, 0.7


def conjugate_gradient(
    product: Product,
    right: Float[np.ndarray, "q K"],
    precondition: Apply,
    tolerance: Float[np.ndarray, " K"],
    max_iter: int,
    persist: Callable[..., tuple[PerRow, ...]] = lambda *parts: parts,
    select: Callable[[Int[np.ndarray, " L"]], tuple[Product, Apply]] | None = None,
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
    select : callable, optional
        The products and the preconditioner of some columns, by their numbers (L,), which a large block goes on with
        when the others have stopped. The extras are then arrays.

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
    # All columns, and which of them are worked on, where that is not all.
    whole: tuple[Vector, ...] | None = None
    live = np.arange(right.shape[1])
    while iteration < max_iter and np.any(active):
        if select and iteration and right.size >= _LARGE and np.sum(active) <= _FEW * len(live):
            if whole is None:
                whole = x, *extras
            else:
                _put_back(whole, live, (x, *extras))
            keep = np.flatnonzero(active)
            live = live[keep]
            x, residual, direction, *rest = (part[:, keep] for part in (x, residual, direction, *extras))
            extras, rho, limit, active = tuple(rest), rho[keep], limit[keep], active[keep]
            product, precondition = select(live)
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
    if whole is None:
        return x, extras, iteration
    _put_back(whole, live, (x, *extras))
    return whole[0], whole[1:], iteration


def _put_back(whole: tuple[Vector, ...], live: Int[np.ndarray, " L"], parts: tuple[Vector, ...]) -> None:
    """The columns that were worked on, (·, L), in their places among all, (·, K)."""
    for block, part in zip(whole, parts, strict=True):
        block[:, live] = part
