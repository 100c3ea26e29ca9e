"""Data of two classes, cut into training and test rows several times.

Tables are cut into four folds, twice; columns are standardised on the training rows. Of words with a given split into
training and test rows, each training half goes with a half of the test rows, in two ways (large sets in one): the
halves of one way share no row. Words are 0/1, those that occur in two of the training rows or more.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.data import amazon, read_packed
from benchmarks.texts import imdb_texts, newsgroups, reuters, words

__all__ = ["SETS", "Set", "Split", "split"]

Rows = tuple[Any, np.ndarray]


@dataclass(frozen=True)
class Split:
    """Training rows ``X`` (n, p) with classes ``y`` (n,), 0 or 1, and test rows."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


@dataclass(frozen=True)
class Set:
    """A set of data.

    Attributes
    ----------
    label : str
        What it is, for people.
    load : callable
        Rows of a table, or training rows and test rows of words.
    words : bool
        True if its features are words.
    large : bool
        True if methods that search long take hours on it.
    """

    label: str
    load: Callable[[], Any]
    words: bool = False
    large: bool = False

    @property
    def splits(self) -> int:
        """How many splits there are."""
        return 8 if not self.words else 2 if self.large else 4

    @property
    def correlation(self) -> float:
        """Of the results of two splits, about: what the standard error of their mean has to allow for.

        For folds it is the share of the test rows (Nadeau & Bengio 2003; Bouckaert & Frank 2004, for repeated folds).
        For halves it is that of a sum over the rows, 0 within a way of halving, which is all of
        large sets, and 1/2 between two ways.
        """
        return 1 / 4 if not self.words else 0.0 if self.large else 1 / 3


def _bundled(name: str, classes: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Rows:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    kept, positive = classes(y)
    return X[kept], positive[kept].astype(int)


def _all(y: np.ndarray) -> np.ndarray:
    return np.ones(len(y), dtype=bool)


def _table(name: str) -> Rows:
    """A table of numbers and categories, the class in the last column, its larger label the positive one."""
    from sklearn.preprocessing import OneHotEncoder

    raw = read_packed(f"tables/{name}.csv", "A data set of the UCI repository, without a header.")
    cells = np.loadtxt(io.BytesIO(raw), dtype=str, delimiter=",")
    columns, y = cells[:, :-1], cells[:, -1]
    text = np.array([not column[0].lstrip("-").replace(".", "").isdigit() for column in columns.T])
    parts = [columns[:, ~text].astype(float)]
    if text.any():
        parts.append(OneHotEncoder(sparse_output=False).fit_transform(columns[:, text]))
    return np.hstack(parts), (y == np.unique(y)[-1]).astype(int)


def _amazon(domain: str) -> tuple[Rows, Rows]:
    (X, y), (X_test, y_test) = (amazon(domain, part) for part in ("train", "test"))
    return (X, (y > 0).astype(int)), (X_test, (y_test > 0).astype(int))


def _imdb() -> tuple[Rows, Rows]:
    (first, y, _), (second, y_test, _) = (imdb_texts(part) for part in ("train_labelled", "test_labelled"))
    X, X_test = words(first, second)
    return (X, y), (X_test, y_test)


def _groups(negative: int, positive: int) -> tuple[Rows, Rows]:
    """Two groups of the 20, by their numbers in the order of the alphabet."""
    texts, group, training = newsgroups(headers=False)
    masks = [use & np.isin(group, (negative, positive)) for use in (training, ~training)]
    X, X_test = words(*([text for text, use in zip(texts, mask, strict=True) if use] for mask in masks))
    y, y_test = ((group[mask] == positive).astype(int) for mask in masks)
    return (X, y), (X_test, y_test)


def _reuters(topic: int) -> tuple[Rows, Rows]:
    X, y, training = reuters()
    X = X.copy()
    X.data[:] = 1.0
    seen = np.bincount(X[training].indices, minlength=X.shape[1]) >= 2
    X = X[:, np.flatnonzero(seen)]
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    first, second = ((X[mask], (y[mask] == topic).astype(int)) for mask in (training, ~training))
    return first, second


SETS = {
    "breast-cancer": Set("breast cancer", lambda: _bundled("breast_cancer", lambda y: (_all(y), y == 1))),
    "wine": Set("wine, cultivar 1 or another", lambda: _bundled("wine", lambda y: (_all(y), y == 1))),
    "digits-3-8": Set("digits, 3 or 8", lambda: _bundled("digits", lambda y: (np.isin(y, (3, 8)), y == 8))),
    "digits-odd": Set("digits, odd or even", lambda: _bundled("digits", lambda y: (_all(y), y % 2 == 1))),
    "banknote": Set("banknote authentication", lambda: _table("banknote_authentication")),
    "pima": Set("Pima diabetes", lambda: _table("pima-indians-diabetes")),
    "sonar": Set("sonar", lambda: _table("sonar")),
    "german": Set("German credit", lambda: _table("german")),
    "books": Set("Amazon books", lambda: _amazon("books"), words=True),
    "kitchen": Set("Amazon kitchen", lambda: _amazon("kitchen"), words=True),
    "religion": Set("newsgroups, atheism or religion", lambda: _groups(0, 19), words=True),
    "graphics": Set("newsgroups, graphics or X windows", lambda: _groups(1, 5), words=True),
    "reuters": Set("Reuters-21578, topic 2 or another", lambda: _reuters(2), words=True),
    "imdb": Set("IMDB", _imdb, words=True, large=True),
}


@cache
def _loaded(name: str) -> Any:
    return SETS[name].load()


def split(name: str, number: int) -> Split:
    """One of the splits of a set, the same every time.

    Raises
    ------
    FileNotFoundError
        If the data are absent; the message says where to get them.
    """
    from sklearn.model_selection import StratifiedKFold
    from sklearn.preprocessing import StandardScaler

    parts = 2 if SETS[name].words else 4
    way, part = divmod(number, parts)
    folds = StratifiedKFold(parts, shuffle=True, random_state=way)
    if SETS[name].words:
        halves = []
        for X, y in _loaded(name):
            rows = list(folds.split(X, y))[part][1]
            halves += [X[rows], y[rows]]
        return Split(*halves)
    X, y = _loaded(name)
    training, test = list(folds.split(X, y))[part]
    scaler = StandardScaler().fit(X[training])
    return Split(scaler.transform(X[training]), y[training], scaler.transform(X[test]), y[test])
