"""Secant pairs: what the last steps have shown of the curvature (Nocedal & Wright 2006, section 7.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy

from .._typing import Float

__all__ = ["Pair", "remember", "two_loops"]

_PAIRS = 10


class Pair(NamedTuple):
    """A step, what it changed in the slope, and one over their product."""

    step: Float[np.ndarray, ...]
    change: Float[np.ndarray, ...]
    inverse: float


def remember(pairs: tuple[Pair, ...], step: Float[np.ndarray, ...], change: Float[np.ndarray, ...]) -> tuple[Pair, ...]:
    """The last ten pairs with this one, unless no curvature was seen along the step, whatever the units of its numbers.

    Examples
    --------
    >>> len(remember((), np.ones(2), np.ones(2))), len(remember((), np.ones(2), -np.ones(2)))
    (1, 0)
    """
    curvature = float(np.vdot(step, change))
    if curvature > np.finfo(float).eps * float(np.vdot(np.abs(step), np.abs(change))):
        return (*pairs, Pair(step, change, 1 / curvature))[-_PAIRS:]
    return pairs


def two_loops(
    slope: Float[np.ndarray, ...],
    pairs: Sequence[Pair],
    inverse: Callable[[Float[np.ndarray, ...]], Float[np.ndarray, ...]] | None = None,
) -> Float[np.ndarray, ...]:
    """Minus an inverse Hessian times the slope (theirs, algorithm 7.4).

    Parameters
    ----------
    slope : array
        Of any shape.
    pairs : sequence of Pair
        The oldest first.
    inverse : callable, optional
        A first inverse Hessian, which the pairs correct; by default a multiple of the identity, from the last pair.

    Examples
    --------
    One pair gives the exact curvature along its step:

    >>> two_loops(np.array([2.0, 0.0]), [Pair(np.array([1.0, 0.0]), np.array([4.0, 0.0]), 0.25)]).tolist()
    [-0.5, 0.0]
    """
    direction, shares = np.array(-slope, dtype=float, order="C"), []
    for pair in reversed(pairs):
        share = pair.inverse * float(np.vdot(pair.step, direction))
        _add(direction, -share, pair.change)
        shares.append(share)
    if inverse is not None:
        # It may be given back what it was given, or a part of something else.
        direction = np.array(inverse(direction), dtype=float, order="C")
    elif pairs:
        last = pairs[-1]
        direction /= last.inverse * float(np.vdot(last.change, last.change))
    for pair, share in zip(pairs, reversed(shares), strict=True):
        _add(direction, share - pair.inverse * float(np.vdot(pair.change, direction)), pair.step)
    return direction


def _add(total: Float[np.ndarray, ...], share: float, part: Float[np.ndarray, ...]) -> None:
    """Add ``share × part`` to ``total``, doubles side by side, in one pass and without a temporary."""
    daxpy(part.ravel(), total.reshape(-1), a=share)
