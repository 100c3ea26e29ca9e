"""Blocks of many numbers worked on a few rows at a time: what is made on the way then stays in a core's cache.

Pieces of large blocks go in threads. Their size depends on the block alone, and so does every bit of what is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from .._typing import Float
from .block_threads import side_by_side

__all__ = ["add_scaled", "by_number", "in_pieces", "inner_products", "pieces", "scaled", "weighted_products"]

Result = TypeVar("Result")

# Numbers of a piece, and of a block whose pieces are worth threads.
_NUMBERS, _THREADED = 1 << 15, 1 << 17


def pieces(rows: int, width: int) -> list[slice]:
    """The rows of a block of so many columns, a few at a time.

    Examples
    --------
    >>> pieces(10, 3), len(pieces(100_000, 20))
    ([slice(0, 10, None)], 62)
    """
    if rows * width <= _NUMBERS:
        return [slice(0, rows)]
    few = max(1, _NUMBERS // width)
    return [slice(start, min(start + few, rows)) for start in range(0, rows, few)]


def in_pieces(function: Callable[[slice], Result], rows: int, width: int) -> list[Result]:
    """What a function makes of the rows of blocks of so many columns, given a few at a time.

    Examples
    --------
    >>> block = np.ones((3, 2))
    >>> in_pieces(lambda some: block[some].sum(), 3, 2)
    [np.float64(6.0)]
    """
    some = pieces(rows, width)
    if rows * width < _THREADED:
        return [function(part) for part in some]
    found: list[Any] = [None] * len(some)

    def make(place: int) -> None:
        found[place] = function(some[place])

    side_by_side([partial(make, place) for place in range(len(some))])
    return found


def inner_products(one: Float[np.ndarray, "q K"], other: Float[np.ndarray, "q K"]) -> Float[np.ndarray, " K"]:
    """``aᵀb`` of each pair of columns, (K,).

    Examples
    --------
    >>> inner_products(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]))
    array([11.])
    """
    parts = in_pieces(lambda some: np.einsum("ij,ij->j", one[some], other[some]), *one.shape)
    total: Float[np.ndarray, " K"] = np.sum(parts, axis=0) if len(parts) > 1 else parts[0]
    return total


def weighted_products(
    scale: Float[np.ndarray, "q _"], one: Float[np.ndarray, "q K"], other: Float[np.ndarray, "q K"]
) -> Float[np.ndarray, " K"]:
    """``aᵀ(s∘b)`` of each pair of columns, (K,).

    Examples
    --------
    >>> weighted_products(np.array([[2.0], [3.0]]), np.ones((2, 2)), np.ones((2, 2)))
    array([5., 5.])
    """
    parts = in_pieces(lambda some: np.sum(scale[some] * one[some] * other[some], axis=0), *one.shape)
    total: Float[np.ndarray, " K"] = np.sum(parts, axis=0) if len(parts) > 1 else parts[0]
    return total


def by_number(function: Callable[..., Any], *blocks: Float[np.ndarray, "q _"]) -> Float[np.ndarray, "q K"]:
    """What a function makes of every number of blocks (q, K) or (q, 1), the first of which is (q, K).

    Examples
    --------
    >>> by_number(lambda weight, scale: scale * weight**2, np.full((2, 2), 3.0), np.array([[1.0], [2.0]]))
    array([[ 9.,  9.],
           [18., 18.]])
    """
    rows, width = blocks[0].shape
    made = np.empty((rows, width))

    def make(some: slice) -> None:
        made[some] = function(*(block[some] for block in blocks))

    in_pieces(make, rows, width)
    return made


def scaled(
    scale: Float[np.ndarray, "q _"], block: Float[np.ndarray, "q K"], out: Float[np.ndarray, "q K"] | None = None
) -> Float[np.ndarray, "q K"]:
    """``s∘w``.

    Examples
    --------
    >>> scaled(np.array([[2.0], [3.0]]), np.ones((2, 2)))
    array([[2., 2.],
           [3., 3.]])
    """
    made = np.empty(block.shape) if out is None else out
    in_pieces(lambda some: np.multiply(scale[some], block[some], out=made[some]), *block.shape)
    return made


def add_scaled(
    total: Float[np.ndarray, "q K"], scale: Float[np.ndarray, "q _"], block: Float[np.ndarray, "q K"]
) -> None:
    """Add ``s∘w`` to a block.

    Examples
    --------
    >>> total = np.ones((1, 2))
    >>> add_scaled(total, np.array([[2.0]]), np.ones((1, 2)))
    >>> total
    array([[3., 3.]])
    """

    def add(some: slice) -> None:
        total[some] += scale[some] * block[some]

    in_pieces(add, *total.shape)
