"""Folds of the rows: which ones a fit sees, and which ones it is scored on.

A number of folds means folds of shuffled rows: a table that is sorted by time, by site or by anything else that has to
do with its classes would otherwise be fitted on some of it and scored on what lies apart. Rows that belong together, or
that come one after the other, take a splitter of groups or of time, which is followed as it is.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._typing import AnyArray, Float, Int, Num, Shaped
from ..._validation import shown

__all__ = ["LEAVE_ONE_OUT", "SEED", "Fold", "few_rows", "make_folds", "shuffled_folds", "split", "standard_error"]


LEAVE_ONE_OUT = "loo"
"""What ``cv`` says where each row is left out by itself."""

SEED = 0
"""Seed by which rows are shuffled where none is given, so that a choice is the same at every call."""


@dataclass(frozen=True)
class Fold:
    """How often each row is fitted, (n,), and the numbers of those that are held out, (m,).

    One of all rows ``alone`` fits all of them, and each is held out by itself, approximately
    (:mod:`bayesdrop.fitting.objective.leave_one_out`).
    """

    count: Float[np.ndarray, " n"]
    test: Int[np.ndarray, " m"]
    alone: bool = False


def standard_error(scores: Float[AnyArray, "*settings folds"]) -> Float[AnyArray, "*settings"]:
    """Standard error of the mean over the last axis, the folds; NaN if there is one fold.

    Examples
    --------
    >>> standard_error(np.array([[0.5, 0.7]])).round(3).tolist()
    [0.1]
    """
    folds = scores.shape[-1]
    if folds < 2:
        return np.full(scores.shape[:-1], np.nan)
    return scores.std(axis=-1, ddof=1) / np.sqrt(folds)


def shuffled_folds(number: int, *, classes: bool, seed: int = SEED) -> Any:
    """Splitter of scikit-learn into so many folds of shuffled rows, stratified if there are classes.

    Examples
    --------
    >>> y = np.array([0, 0, 1, 1, 1, 1])
    >>> [y[test].tolist() for _, test in shuffled_folds(2, classes=True).split(y, y)]
    [[0, 1, 1], [0, 1, 1]]
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    return (StratifiedKFold if classes else KFold)(number, shuffle=True, random_state=seed)


def split(
    cv: Any, X: Any, y: Shaped[np.ndarray, " n"], *, classifier: bool
) -> list[tuple[Shaped[np.ndarray, " train"], Shaped[np.ndarray, " test"]]]:
    """Training and test rows of each fold, as scikit-learn splits; raise ValueError if ``cv`` is no such thing.

    A number means :func:`shuffled_folds`; anything else is followed as it is.

    Examples
    --------
    >>> pairs = [([0, 1], [2, 3]), ([2, 3], [0, 1])]
    >>> [test.tolist() for _, test in split(pairs, np.eye(4), np.array([0, 1, 0, 1]), classifier=True)]
    [[2, 3], [0, 1]]
    """
    from sklearn.model_selection import check_cv

    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        cv = shuffled_folds(int(cv), classes=classifier)
    with warnings.catch_warnings():
        # Some folds then have no row of it, as is meant.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        folds = list(check_cv(cv, y, classifier=classifier).split(X, y))
    pairs = [fold for fold in folds if isinstance(fold, tuple | list) and len(fold) == 2]
    whole = all(np.ndim(rows) == 1 and np.asarray(rows).dtype.kind in "iub" for fold in pairs for rows in fold)
    if not folds or len(pairs) < len(folds) or not whole:
        raise ValueError(
            f'cv: expected a number of folds, "loo", a splitter, or pairs of training and test rows, got {shown(cv)}.'
        )
    return [(np.asarray(train), np.asarray(test)) for train, test in pairs]


def few_rows(cv: Any, n: int, code: Num[np.ndarray, " n"] | None, every_class: bool = False) -> int | None:
    """The rows that allow fewer folds than ``cv`` asks for, of all or of the largest class; None if there are enough.

    Of a class with fewer rows than folds some folds hold out none, unless they are to hold out ``every_class``; a row
    that is all of its class is always fitted. To choose takes two rows, and of classes two with two rows: else it is 1.

    Examples
    --------
    >>> code = np.array([0, 0, 0, 0, 0, 1, 1, 2])
    >>> few_rows(5, 8, code), few_rows(5, 7, code[:7], every_class=True), few_rows(5, 6, code[[0, 1, 2, 3, 4, 7]])
    (None, 2, 1)
    """
    alone = isinstance(cv, str) and cv == LEAVE_ONE_OUT
    if isinstance(cv, bool) or not (alone or isinstance(cv, int | np.integer)):
        return None
    rows = n
    if code is not None:
        counts = np.unique(code, return_counts=True)[1]
        if every_class:
            rows = int(counts.min())
        else:
            rows = int(counts.max()) if np.sum(counts >= 2) >= 2 else 1
    if alone:
        return rows if rows < 2 else None
    return rows if rows < cv else None


def make_folds(cv: Any, n: int, weight: Float[np.ndarray, " n"], code: Num[np.ndarray, " n"] | None) -> list[Fold]:
    """Folds of ``n`` rows, stratified by the ``code`` of their classes if there is one; or the one of all rows alone.

    A number is that of :func:`shuffled_folds`. A row that is all of its class is fitted in every fold, and held out in
    none, where ``cv`` is a number or ``"loo"``.

    Raises
    ------
    ValueError
        If a fold has no row of weight to fit or to score, or fits no row of a class.
    """
    single = np.zeros(n, dtype=bool) if code is None else np.bincount(code.astype(int))[code.astype(int)] == 1
    if isinstance(cv, str) and cv == LEAVE_ONE_OUT:
        return [Fold(np.ones(n), np.flatnonzero(~single), alone=True)]
    folds, own = [], isinstance(cv, int | np.integer) and bool(np.any(single))
    pairs = split(cv, np.zeros((n, 1)), np.zeros(n) if code is None else code, classifier=code is not None)
    for number, (train, test) in enumerate(pairs, 1):
        train, test = (np.flatnonzero(rows) if rows.dtype == bool else rows for rows in (train, test))
        if own:
            train, test = np.append(train, test[single[test]]), test[~single[test]]
        count = np.bincount(train, minlength=n).astype(float)
        if not np.any(weight[train] > 0) or not np.any(weight[test] > 0):
            side = "test" if np.any(weight[train] > 0) else "training"
            raise ValueError(f"cv: fold {number} has no {side} row of some weight; give fewer folds, or other ones.")
        if code is not None:
            seen, classes = np.unique(code[(count > 0) & (weight > 0)]), np.unique(code[weight > 0])
            if len(seen) < len(classes):
                raise ValueError(
                    f"cv: fold {number} has training rows of {len(seen)} of {len(classes)} classes; give a number of "
                    "folds, which are stratified, or a splitter that keeps every class in every fold."
                )
        folds.append(Fold(count, test))
    return folds
