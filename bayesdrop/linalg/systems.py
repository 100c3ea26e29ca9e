"""Solve linear systems by Cholesky factors or conjugate gradients, for the solvers, and raise if a fit overflows.

Factors are computed by LAPACK directly: for twenty columns ``scipy.linalg`` is five times slower.

The squares of features of 1e160 overflow, and an infinite or NaN energy would pass every test of convergence. Therefore
the results of a fit are checked once, at its end; NumPy's warnings during the fit are suppressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, lapack

from .._typing import Float, PerRow

__all__ = [
    "Apply",
    "Factor",
    "Product",
    "conjugate_gradient",
    "double_range",
    "factor",
    "factored",
    "refuse_overflow",
    "solved",
]

Factor: TypeAlias = Float[np.ndarray, "q q"]
"""Cholesky factor in the lower triangle; the upper triangle is arbitrary."""


def factor(matrix: Float[np.ndarray, "q q"]) -> Factor:
    """Cholesky factor of a symmetric matrix, which is overwritten; raise LinAlgError if it is not positive definite.

    Examples
    --------
    >>> solved(factor(np.array([[4.0, 2.0], [2.0, 5.0]])), np.array([6.0, 7.0])).tolist()
    [1.0, 1.0]
    """
    # The transpose of a symmetric matrix is the matrix, in the order of LAPACK: no copy.
    triangle, failed = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise LinAlgError(f"{failed}-th leading minor of the array is not positive definite")
    return np.asarray(triangle)


def solved(cholesky: Factor, right: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
    """``A⁻¹ r`` from the factor of ``A``, for a vector or a block."""
    return np.asarray(lapack.dpotrs(cholesky, right, lower=1)[0])


def factored(matrix: Float[np.ndarray, "q q"], diagonal: Float[np.ndarray, " q"] | float = 0.0) -> Factor:
    """Cholesky factor of a symmetric matrix, which is overwritten, after an addition to its diagonal."""
    whole = matrix.diagonal() + diagonal
    refuse_overflow(curvature=whole)
    # A relative ridge at round-off keeps a nearly singular matrix factorisable.
    np.fill_diagonal(matrix, whole * (1 + 4 * np.finfo(float).eps * len(whole)) + 1e-300)
    return factor(matrix)


_ADVICE = (
    "X, y, sample_weight, unlabelled, margin, epsilon, C: the numbers leave double precision (their {what}); bring "
    "features and targets to a size around 1, as sklearn.preprocessing.StandardScaler does, and lower C or weights if "
    "they are huge."
)


@contextmanager
def double_range() -> Iterator[None]:
    """Suppress NumPy's warnings about overflow, and re-raise failed factorisations with this module's message.

    Examples
    --------
    >>> with double_range():
    ...     _ = np.linalg.cholesky(-np.eye(2))
    Traceback (most recent call last):
    ValueError: X, y, sample_weight, unlabelled, margin, epsilon, C: the numbers leave double precision (their linear
    algebra: Matrix is not positive definite); bring features and targets to a size around 1, as
    sklearn.preprocessing.StandardScaler does, and lower C or weights if they are huge.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            yield
    except (np.linalg.LinAlgError, OverflowError) as error:
        raise ValueError(_ADVICE.format(what=f"linear algebra: {error}")) from error
    except ValueError as error:
        # The message of scipy.linalg for a matrix that overflowed.
        if "infs or NaNs" not in str(error):
            raise
        raise ValueError(_ADVICE.format(what="linear algebra")) from error


def refuse_overflow(**parts: Any) -> None:
    """Raise ValueError if a result is not finite; names of the parts appear in the message.

    Examples
    --------
    >>> refuse_overflow(weights=np.ones(2), energy=np.ones(1))
    """
    broken = [name.replace("_", " ") for name, part in parts.items() if not np.all(np.isfinite(part))]
    if broken:
        raise ValueError(_ADVICE.format(what=f"{' and '.join(broken)} overflow"))


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
        Maximum number of products.
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
            # The matrix is not positive along the first direction: return that direction, for a line search by the
            # caller.
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
