"""One block of rows, wherever it comes from: checked, and made a design in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from ..._typing import Num
from ..admission import admit

__all__ = ["as_matrix", "check_finite", "entries_of", "is_sparse", "known_binary"]


def is_sparse(block: Any) -> bool:
    """True for a scipy sparse matrix or array."""
    return bool(issparse(block))


def entries_of(matrix: Any) -> Num[np.ndarray, ...]:
    """Stored entries, as one array."""
    return matrix.data if is_sparse(matrix) else matrix


def known_binary(matrix: Any) -> bool | None:
    """Whether the entries of a sparse matrix are all 1; None if it is dense or still needs to be put in order."""
    if not is_sparse(matrix) or not matrix.has_canonical_format or not np.all(matrix.data):
        return None
    return bool(np.all(matrix.data == 1))


def as_matrix(block: Any, where: str) -> Any:
    """Real matrix, in compressed rows if sparse; raise an error that says ``where`` if it is none.

    Examples
    --------
    >>> as_matrix([[1, 2]], "X: block 0").shape
    (1, 2)
    """
    block = admit(block, where)
    matrix = csr_array(block) if is_sparse(block) else np.asarray(block)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(
            f"{where} must be a matrix of real numbers, (rows, columns); got shape {matrix.shape} of {matrix.dtype}."
        )
    return matrix


def check_finite(matrix: Any, where: str, start: int | None = None) -> None:
    """Raise ValueError if an entry is not finite; ``start`` is the number of the first row, if known."""
    if np.all(np.isfinite(entries_of(matrix))):
        return
    row, column = _first_bad_entry(matrix)
    whole = "" if start is None else f" (row {start + row} of all)"
    raise ValueError(
        f"{where} has a NaN or infinite entry in its row {row}{whole}, column {column}; fill in or leave out such rows "
        "before the fit."
    )


def _first_bad_entry(matrix: Any) -> tuple[int, int]:
    if is_sparse(matrix):
        place = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        return int(np.searchsorted(matrix.indptr, place, side="right")) - 1, int(matrix.indices[place])
    row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
    return row, int(np.flatnonzero(~np.isfinite(matrix[row]))[0])
