"""Folds of cross-validation, as searches, paths and rates take them."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from .numeric import check_count
from .words import refusal

__all__ = ["check_folds"]


def check_folds(cv: Any, alone: str | None = None) -> Any:
    """How rows are split into folds, as it came; raise ValueError on what splits none.

    Pairs of rows are looked at only where rows are split: a generator of them is gone through once.

    Parameters
    ----------
    cv : object
        What came: a number of folds, a splitter or pairs of rows.
    alone : str, optional
        The text that says that each row is left out by itself, where it is taken.

    Examples
    --------
    >>> check_folds(5), check_folds("loo", "loo")
    (5, 'loo')
    >>> check_folds(float("nan"))
    Traceback (most recent call last):
    ValueError: cv: expected a number of folds, a splitter, or pairs of training and test rows, got nan.
    """
    if isinstance(cv, numbers.Integral) and not isinstance(cv, bool | np.bool_):
        return check_count(cv, "cv", 2, advice="one fold is fitted nowhere")
    # Text and bytes have a method split, and so has the class of a splitter.
    if isinstance(cv, str):
        splits = cv == alone
    elif isinstance(cv, np.ndarray):
        splits = cv.dtype.kind in "iubO" and cv.ndim > 0
    else:
        splits = not isinstance(cv, type | bytes | bytearray) and (
            isinstance(cv, Iterable) or callable(getattr(cv, "split", None))
        )
    if not splits:
        name = "" if alone is None else f' "{alone}",'
        expected = f"a number of folds,{name} a splitter, or pairs of training and test rows"
        raise ValueError(refusal("cv", expected, cv, ""))
    return cv
