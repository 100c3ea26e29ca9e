"""Loop over the entries of rows, compiled by Numba (the extra ``fast``), for :mod:`.products`.

Compressed rows are ``pointers`` (the start of each row, and the end of the last one), ``indices`` (the column of each
entry; unsigned, so that Numba does not check for negative ones) and ``data``, in single or double precision; sums are
in double precision. Gather is ``X B`` and scatter ``Xᵀ B``; if ``squared``, ``X`` stands for ``X²``, which is not
stored. One and two columns, the usual cases, have their own loops, whose sums stay in registers.

Loops are compiled at their first use, and cached on disk if possible.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from inspect import unwrap
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .._atomic_files import check_private
from .._typing import Float, Int

__all__ = [
    "add_gram",
    "available",
    "compiled",
    "count_entries",
    "gather",
    "gather_one",
    "gather_two",
    "sampled",
    "scatter",
    "scatter_one",
    "scatter_two",
    "write_entries",
    "ROUNDING",
]

Pointers: TypeAlias = Int[np.ndarray, " pointers"]
Indices: TypeAlias = Int[np.ndarray, " m"]
Values: TypeAlias = Float[np.ndarray, " m"]
Inside: TypeAlias = Float[np.ndarray, "inside K"]
Outside: TypeAlias = Float[np.ndarray, "outside K"]
ByRow: TypeAlias = Float[np.ndarray, "n K"]
ByColumn: TypeAlias = Float[np.ndarray, "p K"]
PerColumn: TypeAlias = Float[np.ndarray, " p"]

# Relative difference below which an entry equals a centre: the mean of equal numbers differs from them by rounding.
ROUNDING = 1e-12


def gather_one(
    pointers: Pointers, indices: Indices, data: Values, block: Inside, squared: bool, result: Outside
) -> None:
    """Write ``X b``, or ``X² b``, for one column."""
    first = np.uint32(0)
    for i in range(result.shape[0]):
        total = 0.0
        if not squared:
            for j in range(pointers[i], pointers[i + 1]):
                total += np.float64(data[j]) * block[indices[j], first]
        else:
            for j in range(pointers[i], pointers[i + 1]):
                x = np.float64(data[j])
                total += x * x * block[indices[j], first]
        result[i, 0] = total


def gather_two(
    pointers: Pointers, indices: Indices, data: Values, block: Inside, squared: tuple[bool, bool], result: Outside
) -> None:
    """Write ``X B`` for two columns."""
    first, second = np.uint32(0), np.uint32(1)
    for i in range(result.shape[0]):
        one, two = 0.0, 0.0
        for j in range(pointers[i], pointers[i + 1]):
            d, x = indices[j], np.float64(data[j])
            one += (x * x if squared[0] else x) * block[d, first]
            two += (x * x if squared[1] else x) * block[d, second]
        result[i, 0] = one
        result[i, 1] = two


def gather(pointers: Pointers, indices: Indices, data: Values, block: Inside, squared: bool, result: Outside) -> None:
    """Write ``X B`` for any number of columns."""
    for i in range(result.shape[0]):
        sums = result[i]
        sums[:] = 0.0
        for j in range(pointers[i], pointers[i + 1]):
            x, row = np.float64(data[j]), block[indices[j]]
            scale = x * x if squared else x
            for k in range(block.shape[1]):
                sums[k] += scale * row[k]


def scatter_one(
    pointers: Pointers, indices: Indices, data: Values, block: Inside, squared: bool, result: Outside
) -> None:
    """Add ``Xᵀ b``, or ``X²ᵀ b``, for one column."""
    first = np.uint32(0)
    for i in range(block.shape[0]):
        value = block[i, 0]
        for j in range(pointers[i], pointers[i + 1]):
            x = np.float64(data[j])
            result[indices[j], first] += (x * x if squared else x) * value


def scatter_two(
    pointers: Pointers, indices: Indices, data: Values, block: Inside, squared: tuple[bool, bool], result: Outside
) -> None:
    """Add ``Xᵀ B`` for two columns."""
    first, second = np.uint32(0), np.uint32(1)
    for i in range(block.shape[0]):
        one, two = block[i, 0], block[i, 1]
        for j in range(pointers[i], pointers[i + 1]):
            d, x = indices[j], np.float64(data[j])
            result[d, first] += (x * x if squared[0] else x) * one
            result[d, second] += (x * x if squared[1] else x) * two


def scatter(pointers: Pointers, indices: Indices, data: Values, block: Inside, squared: bool, result: Outside) -> None:
    """Add ``Xᵀ B`` for any number of columns."""
    for i in range(block.shape[0]):
        row = block[i]
        for j in range(pointers[i], pointers[i + 1]):
            x, sums = np.float64(data[j]), result[indices[j]]
            scale = x * x if squared else x
            for k in range(block.shape[1]):
                sums[k] += scale * row[k]


def sampled(
    pointers: Pointers,
    indices: Indices,
    data: Values,
    left: ByRow,
    right: ByColumn,
    square: PerColumn,
    linear: PerColumn,
    forward: ByRow,
    back: ByColumn,
) -> None:
    """Add ``E R`` and ``Eᵀ L`` to results; see :meth:`bayesdrop.designs.Design.sampled_products`.

    The matrix is in compressed columns.
    """
    classes = left.shape[1]
    for d in range(right.shape[0]):
        other, below = right[d], back[d]
        for j in range(pointers[d], pointers[d + 1]):
            i, x = indices[j], np.float64(data[j])
            one, sums = left[i], forward[i]
            inner = 0.0
            for k in range(classes):
                inner += one[k] * other[k]
            inner *= x * (square[d] * x + linear[d])
            for k in range(classes):
                sums[k] += inner * other[k]
            for k in range(classes):
                below[k] += inner * one[k]


def add_gram(
    pointers: Pointers, indices: Indices, data: Values, omega: Float[np.ndarray, " n"], total: Float[np.ndarray, "p p"]
) -> None:
    """Add the lower triangle of ``Xᵀ diag(ω) X``; columns ascend within a row."""
    for i in range(omega.shape[0]):
        if omega[i] != 0.0:
            first = pointers[i]
            for j in range(first, pointers[i + 1]):
                scaled = omega[i] * np.float64(data[j])
                row = total[indices[j]]
                for k in range(first, j + 1):
                    row[indices[k]] += scaled * np.float64(data[k])


def count_entries(X: Float[np.ndarray, "n p"], counts: Int[np.ndarray, " n"]) -> None:
    """Write the number of non-zero entries of each dense row."""
    for i in range(X.shape[0]):
        count = 0
        for d in range(X.shape[1]):
            count += X[i, d] != 0
        counts[i] = count


def write_entries(X: Float[np.ndarray, "n p"], pointers: Pointers, indices: Indices, data: Values) -> None:
    """Write columns and values of the non-zero entries, row by row."""
    for i in range(X.shape[0]):
        place = pointers[i]
        for d in range(X.shape[1]):
            if X[i, d] != 0:
                indices[place] = d
                data[place] = X[i, d]
                place += 1


@cache
def available() -> bool:
    """True if Numba is installed."""
    return find_spec("numba") is not None


@cache
def compiled(loop: Any, *fast: str) -> Callable[..., Any]:
    """Compile a loop over arrays that threads may run in parallel; ``fast`` lists the permitted changes of arithmetic.

    ``"reassoc"`` permits any order of sums, ``"contract"`` fuses a product and a sum, ``"nnan"`` and ``"nsz"`` assume
    that no number is NaN and that the sign of zero does not matter.

    Numba's cache is used if its folder is writable, and by no other user. Otherwise, and if a file is damaged or the
    disk is full, each process compiles for itself.
    """
    import numba

    options: dict[str, Any] = {"nogil": True, "boundscheck": False, "fastmath": set(fast)}
    # Tests may wrap functions in type checks, which Numba cannot compile.
    function = unwrap(loop)
    plain = chosen = numba.njit(**options)(function)
    if not hasattr(plain, "stats"):  # NUMBA_DISABLE_JIT
        return plain
    # RuntimeError: Numba found no folder that it may write to.
    with suppress(OSError, RuntimeError):
        stored = numba.njit(cache=True, **options)(function)
        check_private(Path(stored.stats.cache_path), trusts_group=True)
        chosen = stored

    def run(*arguments: Any) -> Any:
        nonlocal chosen
        try:
            return chosen(*arguments)
        except Exception:  # reading a damaged file may raise any error; the loops raise none
            if chosen is plain:
                raise
            chosen = plain
            return plain(*arguments)

    return run
