"""Features as people have them, defaults beside tuned ridge: ``python -m benchmarks.peers.scalings [SET ...]``.

Words as 0/1, counts, ``log(1 + count)``, TF-IDF with rows of norm 1, and hashed into 4,096 signed columns with rows of
norm 1; tables divided by the largest size of each column, or brought to [0, 1]. Splits are two halves of the given
training rows with two of the test rows, in two ways, and four folds, twice. Scales and inverse frequencies are those of
the training rows, on which all is chosen.

Printed is the log loss on rows held out, and its difference to that of ``LogisticRegressionCV(scoring="neg_log_loss")``
in pairs over splits, with a standard error that allows for shared rows; bold beyond one of them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, normalize

import bayesdrop as bd
from benchmarks.data import amazon
from benchmarks.peers import sets
from benchmarks.peers.methods import METHODS, REFERENCE
from benchmarks.peers.scores import paired
from benchmarks.texts import narrow, newsgroups, words

__all__ = ["SCALINGS", "main", "splits"]

Rows = tuple[Any, np.ndarray]
Scaled = tuple[Any, Any]


def _hashed(X: Any, X_test: Any, columns: int = 4096) -> Scaled:
    """Columns added up, with random signs, in so many sums, as a signed hash of the words does."""
    generator, p = np.random.default_rng(0), X.shape[1]
    place = (np.arange(p), generator.integers(0, columns, p))
    signs = sparse.csr_array((generator.choice([-1.0, 1.0], p), place), shape=(p, columns))
    return normalize(X @ signs), normalize(X_test @ signs)


def _fitted(scaler: Callable[[], Any]) -> Callable[[Any, Any], Scaled]:
    def scale(X: Any, X_test: Any) -> Scaled:
        fitted = scaler().fit(X)
        return fitted.transform(X), fitted.transform(X_test)

    return scale


SCALINGS: dict[str, dict[str, Callable[[Any, Any], Scaled]]] = {
    "words": {
        "0/1": lambda *parts: tuple((part > 0).astype(float) for part in parts),
        "counts": lambda *parts: parts,
        "log counts": lambda *parts: tuple(part.log1p() for part in parts),
        "TF-IDF, norm 1": _fitted(TfidfTransformer),
        "hashed, norm 1": _hashed,
    },
    "table": {"largest 1": _fitted(MaxAbsScaler), "0 to 1": _fitted(MinMaxScaler)},
}


def _reviews(domain: str) -> tuple[Rows, Rows]:
    (X, y), (X_test, y_test) = (amazon(domain, part, counts=True) for part in ("train", "test"))
    return (X, y), (X_test, y_test)


def _groups(*chosen: int) -> tuple[Rows, Rows]:
    texts, group, training = newsgroups(headers=False)
    masks = [use & np.isin(group, chosen) for use in (training, ~training)]
    parts = ([text for text, use in zip(texts, mask, strict=True) if use] for mask in masks)
    X, X_test = words(*parts, counts=True)
    return (X, group[masks[0]]), (X_test, group[masks[1]])


WORDS: dict[str, tuple[str, Callable[[], tuple[Rows, Rows]]]] = {
    "religion": ("newsgroups, atheism or religion", lambda: _groups(0, 19)),
    "graphics": ("newsgroups, graphics or X windows", lambda: _groups(1, 5)),
    "sport": ("newsgroups, baseball or hockey", lambda: _groups(9, 10)),
    "four": ("newsgroups, four groups", lambda: _groups(0, 1, 14, 19)),
    "books": ("Amazon books", lambda: _reviews("books")),
    "kitchen": ("Amazon kitchen", lambda: _reviews("kitchen")),
}
TABLES = {name: one.label for name, one in sets.SETS.items() if one.family == "tables"}


@cache
def _loaded(name: str) -> Any:
    return WORDS[name][1]() if name in WORDS else sets.SETS[name].load()


def splits(name: str) -> Iterator[tuple[Rows, Rows]]:
    """Training and test rows of each split, not scaled yet; of words the columns of two training rows or more."""
    parts = 2 if name in WORDS else 4
    for way in range(2):
        folds = StratifiedKFold(parts, shuffle=True, random_state=way)
        if name in WORDS:
            for part in range(parts):
                (X, y), (X_test, y_test) = (
                    (X[rows], y[rows]) for X, y in _loaded(name) for rows in [list(folds.split(X, y))[part][1]]
                )
                seen = np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]) >= 2)
                yield (X[:, seen], y), (X_test[:, seen], y_test)
        else:
            X, y = _loaded(name)
            for training, test in folds.split(X, y):
                yield (X[training], y[training]), (X[test], y[test])


def _rows(name: str) -> Iterator[str]:
    kind = "words" if name in WORDS else "table"
    label = WORDS[name][0] if name in WORDS else TABLES[name]
    makers = (METHODS[REFERENCE].make, bd.DropoutLogisticRegression, bd.DropoutLogisticRegressionCV)
    for scaling, scale in SCALINGS[kind].items():
        losses: list[list[float]] = [[] for _ in makers]
        for (X, y), (X_test, y_test) in splits(name):
            X, X_test = (narrow(part) if sparse.issparse(part) else part for part in scale(X, X_test))
            for make, found in zip(makers, losses, strict=True):
                model = make().fit(X, y)
                found.append(float(log_loss(y_test, model.predict_proba(X_test), labels=model.classes_)))
        cells = [f"{np.mean(losses[0]):.4f}"]
        for found in losses[1:]:
            gap, error = paired(found, losses[0], 1 / 3 if kind == "words" else 1 / 4)
            text = f"{gap:+.4f} ± {error:.4f}"
            cells += [f"{np.mean(found):.4f}", f"**{text}**" if abs(gap) > error else text]
        yield f"| {label} | {scaling} | {' | '.join(cells)} |"


def main(chosen: tuple[str, ...] = ()) -> None:
    """Print a row for each set and scaling."""
    ours = ("default", "less ridge", "CV class", "less ridge")
    print(f"| data | features | tuned ridge | {' | '.join(ours)} |\n|{'---|' * 7}")
    for name in chosen or (*WORDS, *TABLES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                for row in _rows(name):
                    print(row, flush=True)
            except FileNotFoundError as error:
                print(f"{name} is skipped: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
