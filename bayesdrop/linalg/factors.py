"""Cholesky factors by LAPACK itself: of twenty columns the functions of ``scipy.linalg`` take five times as long."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, lapack

from .._typing import Float

__all__ = ["Factor", "factor", "solved"]

Factor: TypeAlias = Float[np.ndarray, "q q"]
"""Below its diagonal a Cholesky factor, above it anything."""


def factor(matrix: Float[np.ndarray, "q q"]) -> Factor:
    """Cholesky factor of a symmetric matrix, which is overwritten; raise LinAlgError if it is not positive definite.

    Examples
    --------
    >>> solved(factor(np.array([[4.0, 2.0], [2.0, 5.0]])), np.array([6.0, 7.0])).tolist()
    [1.0, 1.0]
    """
    # Being symmetric, rows are columns as well, which spares a copy.
    found, failed = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise LinAlgError(f"{failed}-th leading minor of the array is not positive definite")
    return np.asarray(found)


def solved(known: Factor, right: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
    """``A⁻¹ r`` of a matrix by its factor, for a vector or a block."""
    return np.asarray(lapack.dpotrs(known, right, lower=1)[0])
