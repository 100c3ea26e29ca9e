"""Rows that a posterior or a fit is asked about, matched with those that it was made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import Float
from ..._validation import check_matrix
from ...data.dataset import check_offset
from ...data.frames import ColumnFacts, in_order
from ...designs import Design, as_local_design, checking
from ...model import Model
from ...noise.base import centre_of
from .draws import Draws, read_group

__all__ = ["centred_matrix", "check_rows", "check_width", "match_columns", "match_design", "match_offset"]


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


def match_columns(X: Any, draws: Draws) -> Any:
    """Check new rows against the columns of draws, as :func:`match_design`, and centre them.

    Returns
    -------
    array or csr (n, p)
        The rows less the centre of the model's noise; what is missing is 0 there.
    """
    return centred_matrix(match_design(X, draws.feature_names, draws.model, draws.facts), draws.model)


def centred_matrix(design: Design, model: Model) -> Any:
    """Rows (n, p) less the centre of a model's noise."""
    centre = centre_of(model.noise)
    return (design if centre is None else design.shifted(centre)).matrix()


def match_design(X: Any, names: list[str], model: Model, facts: ColumnFacts | None = None, **advice: str) -> Design:
    """Check new rows against the columns of a fit or of draws; those of a table are put in their order.

    ``advice`` says what to do about NaN, where the model does not take it for missing entries.

    Raises
    ------
    ValueError
        On another number of columns, other names, infinite or text entries, NaN unless the model takes it for missing
        entries, or data outside the noise's domain.
    """
    X = in_order(X, names, ColumnFacts() if facts is None else facts)
    design = as_local_design(X, checking(check_matrix, model.missing, **advice))
    check_width(design, names)
    model.noise.check(design.minimum())
    return design


def check_width(design: Design, names: list[str]) -> None:
    """Raise ValueError unless new rows have as many columns as a fit."""
    if design.shape[1] != len(names):
        raise ValueError(
            f"X: expected {len(names)} columns, as were fitted ({names[:3]} …), got {design.shape[1]}; give the same "
            "columns."
        )


def check_rows(post: Any, n: int) -> None:
    """Raise ValueError unless ``post`` was sampled with ``n`` rows."""
    observed = read_group(post, "observed_data").sizes.get("obs_id")
    if observed != n:
        raise ValueError(
            f"X: expected the {observed} rows that were sampled (those of weight 0 were left out), got {n}; for new "
            "rows use bd.predict, or bd.posterior_predictive(..., new=True)."
        )
