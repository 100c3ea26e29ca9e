"""Alternating least squares on the expected loss of a factorisation whose columns are dropped.

Each half of a sweep minimises the expected loss of :mod:`bayesdrop.factorization.entries` in one factor exactly, so the
loss never rises. It is not convex in both together. With every entry observed the closed form tells whether the end is
the global minimum, and the tests find it so from every start; with missing entries nothing tells, and several starts
are worth their time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Float
from .entries import Entries

__all__ = ["Factors", "alternate", "start"]


class Factors(NamedTuple):
    """Factors (n, d) and (p, d), the expected loss on the way, the steps taken and whether they sufficed."""

    left: Float[np.ndarray, "n d"]
    right: Float[np.ndarray, "p d"]
    trace: Float[np.ndarray, " n_iter"]
    n_iter: int
    converged: bool


def start(
    entries: Entries, width: int, generator: np.random.RandomState
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "p d"]]:
    """Random factors whose product has about the size of the data.

    Examples
    --------
    >>> from bayesdrop.factorization.entries import Complete
    >>> left, right = start(Complete(np.ones((4, 3))), 2, np.random.RandomState(0))
    >>> left.shape, right.shape
    ((4, 2), (3, 2))
    """
    n, p = entries.shape
    size = np.sqrt(entries.square_norm / max(entries.count, 1) / width) ** 0.5
    left, right = generator.normal(scale=size, size=(n, width)), generator.normal(scale=size, size=(p, width))
    return left.astype(entries.dtype), right.astype(entries.dtype)


def alternate(
    entries: Entries,
    width: int,
    theta: float,
    *,
    tol: float = 1e-9,
    max_iter: int = 500,
    generator: np.random.RandomState,
) -> Factors:
    """Minimise the expected loss over factors of the given width.

    Parameters
    ----------
    entries : Entries
        The data.
    width : int
        Number of columns ``d``.
    theta : float
        Retain probability of a column, in (0, 1).
    tol : float
        Stop when a sweep lowers the loss by less than this share of it; no less than the round-off of the dtype.
    max_iter : int
        Most sweeps.
    generator : numpy.random.RandomState
        Of the start.

    Returns
    -------
    Factors
        ``trace`` (n_iter,) is the expected loss after each sweep.

    Examples
    --------
    >>> from bayesdrop.factorization.entries import Complete
    >>> X = np.outer([1.0, 2.0], [3.0, 4.0])
    >>> found = alternate(Complete(X), 1, 0.5, generator=np.random.RandomState(0))
    >>> np.round(found.left @ found.right.T, 4)  # γ = 1 halves the singular value
    array([[1.5, 2. ],
           [3. , 4. ]])
    """
    left, right = start(entries, width, generator)
    least = max(tol, 4 * float(np.finfo(entries.dtype).eps))
    trace: list[float] = []
    converged = False
    while len(trace) < max_iter and not converged:
        left = entries.solve_left(right, theta)
        right = entries.solve_right(left, theta)
        trace.append(entries.objective(left, right, theta))
        # Relative to the data as well: the loss of an exact fit is round-off.
        converged = len(trace) > 1 and trace[-2] - trace[-1] <= least * max(
            abs(trace[-1]), 1e-6 * entries.square_norm, np.finfo(float).tiny
        )
    return Factors(left, right, np.array(trace), len(trace), converged)
