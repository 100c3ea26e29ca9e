"""Folds: the rows that a fit uses, and the rows that score it.

A number of folds means folds of shuffled rows: a table that is sorted by time, by site or by anything else that has to
do with its classes would otherwise be fitted on some of it and scored on what lies apart. Rows that belong together
have ``groups``; those that come one after the other need a splitter of time, which is used unchanged. Equal rows are
held out together, as a row of their weight is (:mod:`.copies`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._typing import AnyArray, Bool, Float, Int, Num, Shaped
from ..._validation import shown
from ...designs import Design
from .copies import Copies, Origins

__all__ = [
    "LEAVE_ONE_OUT",
    "SEED",
    "Fold",
    "Rows",
    "few_rows",
    "make_folds",
    "shuffled_folds",
    "split",
    "standard_error",
]


LEAVE_ONE_OUT = "loo"
"""What ``cv`` says where each row is left out by itself."""

SEED = 0
"""Seed by which rows are shuffled where none is given, so that a choice is the same at every call."""


@dataclass(frozen=True)
class Fold:
    """What part of each row is fitted, (n,), the numbers of those that are held out, (m,), and what part of them.

    One of all rows ``alone`` fits all of them, and each is held out by itself, approximately
    (:mod:`bayesdrop.fitting.objective.leave_one_out`): of its weight a ``share``, which is above 1 where equal rows
    leave with it. The other rows then stay.
    """

    count: Float[np.ndarray, " n"]
    test: Int[np.ndarray, " m"]
    alone: bool = False
    share: Float[np.ndarray, " m"] | None = None

    @property
    def all_shares(self) -> Float[np.ndarray, " n"]:
        """What part of each row is held out; 1 of rows that are not, of one of all rows ``alone``."""
        found = np.ones(len(self.count)) if self.alone else np.zeros(len(self.count))
        found[self.test] = 1.0 if self.share is None else self.share
        return found

    def test_weight(self, weight: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
        """Weight by which the loss of each row that is held out counts."""
        return weight[self.test] * (1.0 if self.alone or self.share is None else self.share)


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
    cv: Any,
    X: Any,
    y: Shaped[np.ndarray, " n"],
    *,
    classifier: bool,
    groups: Shaped[np.ndarray, " n"] | None = None,
    seed: int = SEED,
) -> list[tuple[Shaped[np.ndarray, " train"], Shaped[np.ndarray, " test"]]]:
    """Training and test rows of each fold, as scikit-learn splits; raise ValueError if ``cv`` is no such thing.

    A number means :func:`shuffled_folds`, of whole ``groups`` where they are given; anything else is used unchanged.

    Examples
    --------
    >>> pairs = [([0, 1], [2, 3]), ([2, 3], [0, 1])]
    >>> [test.tolist() for _, test in split(pairs, np.eye(4), np.array([0, 1, 0, 1]), classifier=True)]
    [[2, 3], [0, 1]]
    """
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv

    refusal = ValueError(
        f'cv: expected a number of folds, "loo", a splitter, or pairs of training and test rows, got {shown(cv)}.'
    )
    if isinstance(cv, type | str):
        raise refusal
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if groups is None:
            cv = shuffled_folds(int(cv), classes=classifier, seed=seed)
        else:
            kind = StratifiedGroupKFold if classifier else GroupKFold
            cv = kind(int(cv), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # Some folds then have no row of it, as is meant.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        folds = list(check_cv(cv, y, classifier=classifier).split(X, y, groups))
    pairs = [fold for fold in folds if isinstance(fold, tuple | list) and len(fold) == 2]
    whole = all(np.ndim(rows) == 1 and np.asarray(rows).dtype.kind in "iub" for fold in pairs for rows in fold)
    if not folds or len(pairs) < len(folds) or not whole:
        raise refusal
    return [(np.asarray(train), np.asarray(test)) for train, test in pairs]


@dataclass(frozen=True)
class Rows:
    """The rows that folds are made of, which all have some weight.

    Attributes
    ----------
    copies : Copies
        Which of them are equal, and what they weigh without the weights of classes.
    code : int array (n,), optional
        Class of each row.
    groups : array (n,), optional
        Labels of what belongs together.
    number : int array (n,), optional
        Place of each row among those that were given, which pairs of rows name; None if all have weight.
    given : int, optional
        How many were given.

    Examples
    --------
    >>> Rows.equal(4).copies.weight.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    copies: Copies
    code: Int[np.ndarray, " n"] | None = None
    groups: Shaped[np.ndarray, " n"] | None = None
    number: Int[np.ndarray, " n"] | None = None
    given: int | None = None

    @classmethod
    def of(
        cls, design: Design, known: Num[np.ndarray, "n m"], code: Int[np.ndarray, " n"] | None, origins: Origins
    ) -> Rows:
        """The first rows of a design; of those that are equal their class and what else is ``known`` are too."""
        copies = Copies.of(design, known, origins.weight)
        return cls(copies, code, origins.groups, origins.number, origins.given)

    @classmethod
    def equal(cls, n: int, code: Int[np.ndarray, " n"] | None = None) -> Rows:
        """So many different rows of weight 1."""
        return cls(Copies(np.arange(n), np.ones(n), True), code)

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """Class of each row, zeros where there are none."""
        return np.zeros(len(self.copies.weight), dtype=int) if self.code is None else self.code

    @property
    def single(self) -> Bool[np.ndarray, " n"]:
        """Which rows are all of their class, so that every fit needs them."""
        alone = self.copies.units(self.classes) <= 1
        return alone[self.classes] if self.code is not None else np.zeros(len(self.classes), dtype=bool)

    def without(self, row: int) -> Fold:
        """The fold that holds out one row: a copy of it, or all rows that are equal to it."""
        copies = self.copies
        gone = np.zeros(len(self.classes)) if copies.counts else 1.0 * (copies.group == copies.group[row])
        gone[row] = min(copies.share[row], 1.0)
        return Fold(1 - gone, np.array([row]))

    def pairs(self, cv: Any) -> list[tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]]:
        """Numbers of training and test rows of each fold, as ``cv`` splits them.

        A splitter splits these rows. Pairs that are given name the rows that were, and so does a splitter that names
        more rows than there are, as ``PredefinedSplit`` does.
        """
        n = len(self.classes)
        found = split(cv, np.zeros((n, 1)), self.classes, classifier=self.code is not None, groups=self.groups)
        if self.number is None or self.given is None:
            return [(_numbers(train), _numbers(test)) for train, test in found]
        place = np.arange(n)
        splits = isinstance(cv, int | np.integer) or hasattr(cv, "split")
        if not splits or any(
            len(part) > n if part.dtype == bool else np.any(part >= n) for pair in found for part in pair
        ):
            place = np.full(self.given, -1)
            place[self.number] = np.arange(n)
        kept = [tuple(place[part] for part in pair) for pair in found]
        return [(train[train >= 0], test[test >= 0]) for train, test in kept]


def _numbers(part: Shaped[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """Numbers of rows, which may be a mask."""
    return np.flatnonzero(part) if part.dtype == bool else part


def few_rows(cv: Any, rows: Rows, every_class: bool = False) -> int | None:
    """The rows that allow fewer folds than ``cv`` asks for, of all or of the largest class; None if there are enough.

    Of a class with fewer rows than folds some folds hold out none, unless they are to hold out ``every_class``; a row
    that is all of its class is always fitted. To choose takes two rows, and of classes two with two rows: else it is 1.

    Examples
    --------
    >>> code = np.array([0, 0, 0, 0, 0, 1, 1, 2])
    >>> few_rows(5, Rows.equal(8, code)), few_rows(5, Rows.equal(7, code[:7]), every_class=True)
    (None, 2)
    """
    alone = isinstance(cv, str) and cv == LEAVE_ONE_OUT
    if isinstance(cv, bool) or not (alone or isinstance(cv, int | np.integer)):
        return None
    counts = rows.copies.units(rows.classes)
    counts = counts[counts > 0]
    if rows.code is None:
        few = int(counts[0])
    elif every_class:
        few = int(counts.min())
    else:
        few = int(counts.max()) if np.sum(counts >= 2) >= 2 else 1
    if rows.groups is not None:
        few = min(few, len(np.unique(rows.groups)))
    if alone:
        return few if few < 2 else None
    return few if few < cv else None


def make_folds(cv: Any, rows: Rows) -> list[Fold]:
    """Folds of some rows, stratified by their classes if there are any; or the one of all rows alone.

    A number is that of :func:`shuffled_folds`, or, where rows are equal or weigh more than others, of folds that do not
    depend on the order of the rows: equal rows are in one fold, but those that would fill more than one are in all of
    them, a part in each. A row that is all of its class is fitted in every fold, and held out in none, where ``cv`` is
    a number or ``"loo"``.

    Raises
    ------
    ValueError
        If a fold has no row of weight to fit or to score, or fits no row of a class.
    """
    n, single = len(rows.classes), rows.single
    if isinstance(cv, str) and cv == LEAVE_ONE_OUT:
        test = np.flatnonzero(~single)
        return [Fold(np.ones(n), test, alone=True, share=rows.copies.share[test])]
    whole = isinstance(cv, int | np.integer)
    if whole and rows.groups is None and not rows.copies.plain:
        return _with_copies(int(cv), rows)
    folds = []
    for number, (train, test) in enumerate(rows.pairs(cv), 1):
        if whole and np.any(single):
            train, test = np.append(train, test[single[test]]), test[~single[test]]
        if not len(train) or not len(test):
            side = "test" if len(train) else "training"
            raise ValueError(f"cv: fold {number} has no {side} row of some weight; give fewer folds, or other ones.")
        if rows.code is not None:
            seen, classes = np.unique(rows.code[train]), np.unique(rows.code)
            if len(seen) < len(classes):
                raise ValueError(
                    f"cv: fold {number} has training rows of {len(seen)} of {len(classes)} classes; give a number of "
                    "folds, which are stratified, or a splitter that keeps every class in every fold."
                )
        folds.append(Fold(np.bincount(train, minlength=n).astype(float), test))
    return folds


def _with_copies(number: int, rows: Rows) -> list[Fold]:
    """So many folds, in which equal rows are together."""
    copies, single = rows.copies, rows.single
    _, first = np.unique(copies.group, return_index=True)
    size, code = np.bincount(copies.group, copies.weight), rows.classes[first]
    parted = copies.counts & (size > 1) & (size * number > np.bincount(code, size)[code])
    place, start, generator = np.full(len(size), -1), 0, np.random.default_rng(SEED)
    for k in np.unique(code):
        own = generator.permutation(np.flatnonzero((code == k) & ~parted))
        own = own[np.argsort(-size[own], kind="stable")]
        # To and fro, so that folds weigh about the same.
        turn, step = np.divmod(start + np.arange(len(own)), number)
        place[own] = np.where(turn % 2, number - 1 - step, step)
        start += len(own)
    folds = []
    for fold in range(number):
        held = np.where(place == -1, 1 / number, place == fold)[copies.group] * ~single
        test = np.flatnonzero(held)
        folds.append(Fold(1 - held, test, share=held[test]))
    return folds
