"""Rows that lose entries, ``python -m benchmarks.deletion [splits] [table …]``.

Models are fitted to complete rows, and entries of the new rows are deleted: every entry with the stated chance, or
every column with a chance of its own, drawn between 0 and 60 %. Log losses and errors (%) on 30 % of the rows, deleted
three times, means over stratified random splits, the same for all; next to the first method what the others have more,
with the standard error of the paired difference, which allows for the rows that splits share (Nadeau & Bengio 2003).
Then the CPU time of a fit with its predictions. Columns are scaled by the training rows, and a deleted entry is the
mean of its column.

    copies          ridge, tuned by log loss on five folds, fitted to five deleted copies of each row, whose copies are
                    held out together
    expected        ``DropoutLogisticRegression(expected_deletion=)``
    expected, CV    ``DropoutLogisticRegressionCV(expected_deletion=)``
    expected, SVC   ``DropoutSVCCV(expected_deletion=)``
    fixed           ``DropoutLogisticRegression(rates, missing="nan", corrupted_inputs=True)``, centred at the means
    default, CV     ``DropoutLogisticRegression()`` and its CV class, which are not told
    ridge           ridge, tuned in the same way on complete rows
    constant        the share of the class

The CSV tables are read from BAYESDROP_DATA and skipped where they are absent.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import bayesdrop as bd
from benchmarks.peers.scores import paired
from benchmarks.unscaled import tables

__all__ = ["CHANCES", "main"]

Array = Any
# Rows, labels, new rows and chances of deletion (p,) to probabilities of the new rows.
Method = Callable[[Array, Array, Array, Array], Array]

CHANCES = ("30 %", "50 %", "by column")
_STRENGTHS = np.logspace(-4, 4, 9)
_COPIES, _TESTS, _TEST_SHARE = 5, 3, 0.3


def _deleted(X: Array, chance: Array, generator: np.random.Generator) -> Array:
    return np.where(generator.random(X.shape) < chance, np.nan, X)


def _ridge(X: Array, y: Array, new: Array, folds: Any = 5) -> Array:
    from sklearn.linear_model import LogisticRegressionCV

    model = LogisticRegressionCV(
        Cs=_STRENGTHS, cv=folds, l1_ratios=(0.0,), use_legacy_attributes=False, scoring="neg_log_loss", max_iter=5000
    )
    return model.fit(X, y).predict_proba(np.nan_to_num(new))


def _copies(X: Array, y: Array, new: Array, chance: Array) -> Array:
    from sklearn.model_selection import StratifiedGroupKFold

    row = np.tile(np.arange(len(y)), _COPIES)
    rows, labels = np.nan_to_num(_deleted(X[row], chance, np.random.default_rng(0))), y[row]
    return _ridge(rows, labels, new, list(StratifiedGroupKFold(5).split(rows, labels, row)))


def _untold(kind: Any) -> Method:
    return lambda X, y, new, chance: kind().fit(X, y).predict_proba(np.nan_to_num(new))


def _told(kind: Any) -> Method:
    return lambda X, y, new, chance: kind(expected_deletion=chance).fit(X, y).predict_proba(new)


def _fixed(X: Array, y: Array, new: Array, chance: Array) -> Array:
    noise = bd.Dropout(centre="mean")
    model = bd.DropoutLogisticRegression(bd.Fixed(chance), noise=noise, missing="nan", corrupted_inputs=True)
    return model.fit(X, y).predict_proba(new)


METHODS: dict[str, Method] = {
    "copies": _copies,
    "expected": _told(bd.DropoutLogisticRegression),
    "expected, CV": _told(bd.DropoutLogisticRegressionCV),
    "expected, SVC": _told(bd.DropoutSVCCV),
    "fixed": _fixed,
    "default": _untold(bd.DropoutLogisticRegression),
    "CV": _untold(bd.DropoutLogisticRegressionCV),
    "ridge": lambda X, y, new, chance: _ridge(X, y, new),
    "constant": lambda X, y, new, chance: np.tile(np.bincount(y) / len(y), (len(new), 1)),
}


def _scores(X: Array, y: Array, which: str, repeats: int) -> Array:
    """Log loss, error and CPU time (3, methods, splits)."""
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedShuffleSplit

    found = np.empty((3, len(METHODS), repeats))
    splits = StratifiedShuffleSplit(repeats, test_size=_TEST_SHARE, random_state=0).split(X, y)
    for s, (train, test) in enumerate(splits):
        generator = np.random.default_rng(s)
        mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
        rows = (X - mean) / np.where(scale > 0, scale, 1.0)
        p = X.shape[1]
        chance = generator.uniform(0, 0.6, p) if which == "by column" else np.full(p, float(which[:2]) / 100)
        new, labels = _deleted(np.tile(rows[test], (_TESTS, 1)), chance, generator), np.tile(y[test], _TESTS)
        for k, method in enumerate(METHODS.values()):
            began = time.process_time()
            probability = method(rows[train], y[train], new, chance)
            found[:, k, s] = (
                log_loss(labels, probability, labels=[0, 1]),
                100 * np.mean(probability.argmax(axis=1) != labels),
                time.process_time() - began,
            )
    return found


def _row(found: Array, digits: int) -> str:
    """The first method's mean, and what the others have more."""
    more = [paired(other, found[0], _TEST_SHARE) for other in found[1:]]
    return " | ".join([f"{found[0].mean():.{digits}f}", *(f"{m:+.{digits}f} ± {e:.{digits}f}" for m, e in more)])


def main(repeats: int = 10, wanted: tuple[str, ...] = ()) -> None:
    """Print a table of log losses, one of errors and one of times."""
    warnings.simplefilter("ignore")
    more = "of ridge on deleted copies, and what others have more"
    lines: dict[str, list[str]] = {f"log loss: {more}": [], f"error, %: {more}": [], "CPU, s, median over splits": []}
    for table, X, y in tables():
        if wanted and table not in wanted:
            continue
        for which in CHANCES:
            found = _scores(X.astype(float), y, which, repeats)
            times = " | ".join(f"{spent:.2g}" for spent in np.median(found[2], axis=1))
            cells = (_row(found[0], 3), _row(found[1], 1), times)
            for title, row in zip(lines, cells, strict=True):
                lines[title].append(f"| {table} | {which} | {row} |")
            print(f"{table}, {which}: {cells[0]}", file=sys.stderr, flush=True)
    for title, rows in lines.items():
        print(f"\n{title}\n")
        print(f"| table | deleted | {' | '.join(METHODS)} |\n|---|---|{'---|' * len(METHODS)}")
        print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, tuple(sys.argv[2:]))
