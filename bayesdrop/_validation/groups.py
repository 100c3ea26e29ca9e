"""Validate groups of features, for priors and rate structures, and folds of cross-validation, for searches."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from .numeric import check_count
from .objects import check_instance, refusal, refuse_masked, shown
from .text_columns import LIMITS

__all__ = ["check_folds", "check_groups", "group_index"]


def check_groups(groups: Any) -> None:
    """Raise TypeError unless groups are a sequence of labels or a mapping from group to columns."""
    expected = "one group label per feature, in a list, or a mapping from group to columns"
    if isinstance(groups, str | bytes):
        raise TypeError(f"groups: expected {expected}, got {shown(groups)}.")
    check_instance(groups, "groups", Iterable, expected)
    refuse_masked(groups, "groups")
    if isinstance(groups, Mapping):
        for group, columns in groups.items():
            if not isinstance(columns, Iterable):
                raise TypeError(f"groups: expected the columns of group {group!r} in a list, got {shown(columns)}.")
        return
    if getattr(groups, "ndim", 1) != 1 or not all(isinstance(label, Hashable) for label in groups):
        raise TypeError(f"groups: expected {expected}, got {shown(groups)}.")


def group_index(groups: Any, feature_names: Sequence[Any]) -> tuple[Int[np.ndarray, " p"], list[str]]:
    """Group of each feature, int (p,), and the names of the groups, as :class:`bayesdrop.PerGroup` takes them."""
    p = len(feature_names)
    if groups is None:
        raise ValueError(
            "groups: without any they are the terms of a formula, and there is none; give one group label per feature, "
            "in a list, or a mapping from group to columns."
        )
    labels = _from_mapping(groups, feature_names) if isinstance(groups, Mapping) else list(groups)
    if len(labels) != p:
        raise ValueError(
            f"groups: expected one group label per feature, {p} in all, got {len(labels)}; "
            "give a list as long as X has columns, or a mapping from group to columns."
        )
    names = list(dict.fromkeys(labels))
    position = {name: j for j, name in enumerate(names)}
    return np.array([position[label] for label in labels], dtype=np.intp), [str(name) for name in names]


def _from_mapping(groups: Mapping[Any, Iterable[Any]], feature_names: Sequence[Any]) -> list[Any]:
    p = len(feature_names)
    by_name: dict[Any, int] = {name: d for d, name in enumerate(feature_names)}
    labels: list[Any] = [None] * p
    has_group = [False] * p
    for group, columns in groups.items():
        for column in [columns] if isinstance(columns, str) else columns:
            d = by_name.get(column)
            if d is None and isinstance(column, int | np.integer) and 0 <= column < p:
                d = int(column)
            if d is None:
                raise ValueError(
                    f"groups: group {group!r} names the unknown column {column!r}; expected one of the {p} features, "
                    f"such as {list(feature_names[: LIMITS.names])}."
                )
            if has_group[d]:
                raise ValueError(
                    f"groups: column {feature_names[d]!r} is in group {labels[d]!r} and in group {group!r}; "
                    "put each column in exactly one group."
                )
            labels[d], has_group[d] = group, True
    missing = [feature_names[d] for d in range(p) if not has_group[d]]
    if missing:
        raise ValueError(
            f"groups: {len(missing)} of {p} columns are in no group, such as {missing[: LIMITS.names]}; "
            "put each column in exactly one group."
        )
    return labels


def check_folds(cv: Any, alone: str | None = None) -> Any:
    """Return the folds unchanged; raise ValueError if they do not split rows.

    Pairs of rows are checked when rows are split, because a generator can be read only once.

    Parameters
    ----------
    cv : object
        A number of folds, a splitter or pairs of rows.
    alone : str, optional
        Text for leave-one-out, if the caller accepts it.

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
    # Text, bytes and the class of a splitter have a method split too.
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
