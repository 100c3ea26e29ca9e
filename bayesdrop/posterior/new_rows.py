"""Rows that a posterior or a fit is asked about, matched with those that it was made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Float
from .._validation import check_matrix
from ..data.dataset import check_offset, feature_names_of
from ..designs import Design, as_local_design, checking
from ..model import Model
from ..noise.centre import centre_of
from .draws import Draws

__all__ = ["column_order", "match_columns", "match_design", "match_offset"]


def match_offset(draws: Draws, offset: Any, n: int) -> Float[np.ndarray, " n"] | None:
    """Known parts of the scores of ``n`` rows, (n,), or None without them.

    Raises
    ------
    ValueError
        If there have to be some, or cannot be, or they are no numbers.
    """
    if offset is None and draws.has_offset:
        raise ValueError(
            "offset: expected a number for each row, got none, and the rows that were fitted had an offset, a known "
            "part of their scores; give that of these rows, as in offset=np.log(exposure), or offset=0.0 for an "
            "exposure of one unit."
        )
    if offset is not None and draws.model.loss.multiclass:
        raise ValueError(f"offset: {draws.model.loss!r} has a score for each class, and takes none; leave it out.")
    return None if offset is None else check_offset(offset, n)


def match_columns(X: Any, names: list[str], model: Model) -> Any:
    """Check new rows against the columns that were sampled, as :func:`match_design`, and centre them.

    Returns
    -------
    array or csr (n, p)
        The rows less the centre of the model's noise; what is missing is 0 there.
    """
    design, centre = match_design(X, names, model), centre_of(model.noise)
    return (design if centre is None else design.shifted(centre)).matrix()


def match_design(X: Any, names: list[str], model: Model, **advice: str) -> Design:
    """Check new rows against the columns that were sampled; a data frame's columns are put in their order.

    ``advice`` says what to do about NaN, where the model does not take it for missing entries.

    Raises
    ------
    ValueError
        On another number of columns, other names, infinite or text entries, NaN unless the model takes it for missing
        entries, or data outside the noise's domain.
    """
    order = column_order(X, names)

    def check(X: Any, **options: Any) -> Any:
        matrix = check_matrix(X, **options)
        return matrix if order is None or matrix.shape[1] != len(order) else matrix[:, order]

    design = as_local_design(X, checking(check, model.missing, **advice))
    if design.shape[1] != len(names):
        raise ValueError(f"X: expected {len(names)} columns, as were sampled ({names[:3]} …), got {design.shape[1]}.")
    model.noise.check(design.minimum())
    return design


def column_order(X: Any, names: list[str]) -> list[int] | None:
    """Where the columns that were sampled stand in new rows with names; None if in order, or if there are no names.

    Raises
    ------
    ValueError
        If there are others.
    """
    plain = [f"x{d}" for d in range(len(names))]
    columns = names if getattr(X, "columns", None) is None or names == plain else feature_names_of(X)
    if columns == names:
        return None
    missing = [name for name in names if name not in columns]
    strange = [name for name in columns if name not in names]
    if missing or strange or len(columns) != len(names):
        raise ValueError(
            f"X: expected the {len(names)} columns that were sampled, got {len(columns)}; missing: "
            f"{missing[:5]}, unknown: {strange[:5]}. Give the same columns, in any order."
        )
    return [columns.index(name) for name in names]
