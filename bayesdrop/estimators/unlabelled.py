"""Rows without labels, checked against the labelled ones."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.utils import check_array

from .._validation import check_number
from ..designs import Design, as_design, checking
from .validation import FLOATS

__all__ = ["check_unlabelled"]


def check_unlabelled(rows: Any, weight: Any, labelled: Design, missing: str | None = None) -> Design:
    """Return the rows as a design, or raise ValueError if they or their weight do not fit.

    Examples
    --------
    >>> check_unlabelled([[1.0, 2.0]], 0.5, as_design([[0.0, 0.0]])).shape
    (1, 2)
    """
    check_number(weight, "unlabelled_weight", least=0, advice="it is that of each unlabelled row")
    labelled.check_stackable()
    check = partial(check_array, accept_sparse="csr", dtype=FLOATS, input_name="unlabelled")
    design, columns = as_design(rows, checking(check, missing), "unlabelled"), labelled.shape[1]
    design.check_stackable()
    if design.shape[1] != columns:
        raise ValueError(
            f"unlabelled: expected {columns} columns as in X, got {design.shape[1]}; transform both with the same "
            "vocabulary or encoder."
        )
    return design
