"""Split rows into folds, each with training rows and held-out rows, for cross-validation.

A number of folds means folds of shuffled rows, because a table is often sorted by time, site or class, and the held-out
rows would differ from the training rows. ``groups`` keeps rows together; a time series needs a splitter of time, which
is used unchanged.

Equal rows may be in different folds: if equal rows of a class were held out together, the fold would depend on the
class. So a row of weight 2 is held out as a whole, but two copies of it need not be, as in scikit-learn. Rows that are
left out one at a time leave out one copy: if all weights are whole numbers, they count copies.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._typing import AnyArray, Bool, Float, Int, Num, PerRow, Shaped
from ..._validation import one_per_row, shown

__all__ = [
    "LEAVE_ONE_OUT",
    "SEED",
    "Fold",
    "Rows",
    "few_rows",
    "make_folds",
    "one_kind",
    "shuffled_folds",
    "split",
    "standard_error",
]


LEAVE_ONE_OUT = "loo"
"""Value of ``cv`` for leaving out rows one at a time."""

SEED = 0
"""Default seed for shuffling rows, so that repeated calls make the same choice."""


@dataclass(frozen=True)
class Fold:
    """Training share of each row, ``count`` (n,), and numbers of the held-out rows, ``test`` (m,).

    A fold with ``alone`` is fitted to all rows. Each test row is then left out alone, approximately
    (:mod:`bayesdrop.fitting.objective.leave_one_out`), with the ``share`` (n,) of its weight.
    """

    count: Float[np.ndarray, " n"]
    test: Int[np.ndarray, " m"]
    alone: bool = False
    share: Float[np.ndarray, " n"] | float = 1.0


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
    """Splitter of scikit-learn into ``number`` folds of shuffled rows, stratified if there are classes.

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
    """Training and test rows of each fold, by scikit-learn; raise ValueError for an invalid ``cv``.

    A number means :func:`shuffled_folds`, or folds of whole ``groups``; anything else is used unchanged.

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
    if isinstance(cv, type | str | bytes):
        raise refusal
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if groups is None:
            cv = shuffled_folds(int(cv), classes=classifier, seed=seed)
        else:
            kind = StratifiedGroupKFold if classifier else GroupKFold
            cv = kind(int(cv), shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        # Folds without a row of the smallest class are intended.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        folds = list(check_cv(cv, y, classifier=classifier).split(X, y, groups))
    pairs = [fold for fold in folds if isinstance(fold, tuple | list) and len(fold) == 2]
    whole = all(np.ndim(rows) == 1 and np.asarray(rows).dtype.kind in "iub" for fold in pairs for rows in fold)
    if not folds or len(pairs) < len(folds) or not whole:
        raise refusal
    return [(np.asarray(train), np.asarray(test)) for train, test in pairs]


def one_kind(groups: Any, n: int) -> Shaped[np.ndarray, " n"]:
    """Return the groups of ``n`` rows; raise ValueError if they cannot be sorted.

    Examples
    --------
    >>> one_kind(["a", "b"], 2).tolist()
    ['a', 'b']
    """
    groups = one_per_row(groups, n, "groups")
    try:
        np.unique(groups)
    except TypeError:
        raise ValueError(f"groups: expected labels of one kind, got {shown(groups)}; make them text.") from None
    return groups


@dataclass(frozen=True)
class Rows:
    """The rows to split into folds, all with a weight above 0.

    Attributes
    ----------
    weight : array (n,)
        Row weights, above 0, without class weights.
    n_passed : int
        Number of rows that the user passed, including rows of weight 0.
    number : int array (n,), optional
        Number of each row among the passed rows, as pairs of rows in ``cv`` count; None if all have weight.
    groups : array (n,), optional
        Labels of the rows that belong together.
    code : int array (n,), optional
        Class of each row.

    Examples
    --------
    >>> rows = Rows.of(np.array([1.0, 0.0, 2.0]), ["a", "a", "b"])
    >>> rows.groups.tolist(), rows.share.tolist()
    (['a', 'b'], [1.0, 0.5])
    """

    weight: PerRow
    n_passed: int
    number: Int[np.ndarray, " n"] | None = None
    groups: Shaped[np.ndarray, " n"] | None = None
    code: Int[np.ndarray, " n"] | None = None

    @classmethod
    def of(cls, weight: PerRow, groups: Any = None) -> Rows:
        """Keep the rows with a weight; check ``groups``, one label per passed row.

        Raises
        ------
        ValueError
            If the number of labels is not that of the rows, or the rows are outside this process.
        """
        is_local = isinstance(weight, np.ndarray)
        if groups is not None:
            if not is_local:
                raise ValueError(f"groups: expected rows in memory, got {shown(groups)} with rows outside it.")
            groups = one_kind(groups, len(weight))
        if not is_local:
            return cls(weight, -1)
        number = np.flatnonzero(weight > 0)
        if len(number) == len(weight):
            return cls(weight, len(weight), None, groups)
        return cls(weight[number], len(weight), number, None if groups is None else groups[number])

    @property
    def classes(self) -> Int[np.ndarray, " n"]:
        """Class of each row; zeros without classes."""
        return np.zeros(len(self.weight), dtype=int) if self.code is None else self.code

    @property
    def share(self) -> Float[np.ndarray, " n"]:
        """Share of each row to leave out, one row at a time: one copy if all weights are whole numbers."""
        are_counts = bool(np.all(self.weight == np.round(self.weight)))
        return 1 / self.weight if are_counts else np.ones(len(self.weight))

    def sizes(self, alone: bool) -> Num[np.ndarray, " K"]:
        """Number of rows of each class, or of copies if they are left out ``alone``."""
        return np.round(np.bincount(self.classes, 1 / self.share if alone else None), 6)

    def is_single(self, alone: bool) -> Bool[np.ndarray, " n"]:
        """Whether each row is the only one of its class, so that every fit needs it."""
        if self.code is None:
            return np.zeros(len(self.weight), dtype=bool)
        return (self.sizes(alone) <= 1)[self.classes]

    def without(self, row: int) -> Fold:
        """The fold that holds out one row, or a copy of it."""
        count = np.ones(len(self.weight))
        count[row] -= self.share[row]
        return Fold(count, np.array([row]))

    def pairs(self, cv: Any) -> list[tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]]:
        """Numbers of training and test rows of each fold, as ``cv`` splits them.

        A splitter splits the rows with a weight. Pairs of rows count the passed rows, and so does a splitter with more
        rows than these, such as ``PredefinedSplit``.
        """
        n = len(self.classes)
        pairs = split(cv, np.zeros((n, 1)), self.classes, classifier=self.code is not None, groups=self.groups)
        if self.number is None:
            return [(_numbers(train), _numbers(test)) for train, test in pairs]
        place = np.arange(n)
        splits = isinstance(cv, int | np.integer) or hasattr(cv, "split")
        if not splits or any(
            len(part) > n if part.dtype == bool else np.any(part >= n) for pair in pairs for part in pair
        ):
            place = np.full(self.n_passed, -1)
            place[self.number] = np.arange(n)
        places = [tuple(place[part] for part in pair) for pair in pairs]
        return [(train[train >= 0], test[test >= 0]) for train, test in places]


def _numbers(part: Shaped[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
    """Row numbers from row numbers or a mask."""
    return np.flatnonzero(part) if part.dtype == bool else part


def few_rows(cv: Any, rows: Rows, every_class: bool = False) -> int | None:
    """Number of rows, of all or of the largest class, if it is below the number of folds in ``cv``; else None.

    A class with fewer rows than folds is absent from the test rows of some folds, which ``every_class`` forbids; the
    only row of a class is always fitted. Without two rows (in each of two classes, if any) the result is 1.

    Examples
    --------
    >>> code = np.array([0, 0, 0, 0, 0, 1, 1, 2])
    >>> rows = Rows(np.ones(8), 8, code=code), Rows(np.ones(7), 7, code=code[:7])
    >>> few_rows(5, rows[0]), few_rows(5, rows[1], every_class=True)
    (None, 2)
    """
    alone = isinstance(cv, str) and cv == LEAVE_ONE_OUT
    if isinstance(cv, bool) or not (alone or isinstance(cv, int | np.integer)):
        return None
    counts = rows.sizes(alone)
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
    """Folds of the rows, stratified by class if there are classes; for ``"loo"`` one fold with each row left out alone.

    A number means :func:`shuffled_folds`. If ``cv`` is a number or ``"loo"``, the only row of a class is fitted in
    every fold and never held out.

    Raises
    ------
    ValueError
        If a fold has no row of weight to fit or to score, or fits no row of a class.
    """
    n, alone = len(rows.weight), isinstance(cv, str) and cv == LEAVE_ONE_OUT
    single = rows.is_single(alone)
    if alone:
        return [Fold(np.ones(n), np.flatnonzero(~single), alone=True, share=rows.share)]
    whole, folds = isinstance(cv, int | np.integer), []
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
