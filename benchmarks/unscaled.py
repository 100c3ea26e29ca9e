"""Where to centre the noise: raw and standardised tables, ``python -m benchmarks.unscaled [splits] [table …]``.

Errors (%) and log losses on 30 % of the rows, means over stratified random splits, the same for all; C = 1, the default
prior, rates fixed and learnt. The centre is None, the means of the columns that one of four rules takes, from the
training rows, or all means. The column ``kept`` has rate 0; ``relative`` is ``bd.Normal(1.0, relative=True)``.

    never zero      dense columns without a zero and of one sign
    usual (auto)    of one sign, non-zero in more than half of the rows, with more than one value other than zero
    dummies too     the same with columns of one value other than zero
    without zeros   columns without a zero, of both signs too
    all             every column

The CSV tables are read from BAYESDROP_DATA and skipped where they are absent.
"""

from __future__ import annotations

import csv
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import bayesdrop as bd
from benchmarks.data import read_packed

__all__ = ["RULES", "main", "tables"]

Array = Any


def _one_sign(X: Array) -> Array:
    return (X >= 0).all(axis=0) | (X <= 0).all(axis=0)


def _several_values(X: Array) -> Array:
    size = np.abs(X)
    return np.where(size > 0, size, np.inf).min(axis=0) < size.max(axis=0)


def _often(X: Array) -> Array:
    return (X != 0).mean(axis=0) > 0.5


RULES: dict[str, Callable[[Array], Array]] = {
    "none": lambda X: np.zeros(X.shape[1], bool),
    "never zero": lambda X: _one_sign(X) & (X != 0).all(axis=0),
    "usual (auto)": lambda X: _one_sign(X) & _often(X) & _several_values(X),
    "dummies too": lambda X: _one_sign(X) & _often(X),
    "without zeros": lambda X: (X != 0).all(axis=0),
    "all": lambda X: np.ones(X.shape[1], bool),
}


def tables() -> Iterator[tuple[str, Array, Array]]:
    """Bundled tables, then those of UCI: name, features (n, p) in their own units, labels 0 and 1."""
    from sklearn import datasets

    X, y = datasets.load_breast_cancer(return_X_y=True)
    yield "breast cancer", X, y
    X, y = datasets.load_wine(return_X_y=True)
    yield "wine, class 1", X, (y == 1).astype(int)
    X, y = datasets.load_digits(return_X_y=True)
    rows = (y == 3) | (y == 8)
    yield "digits 3 and 8", X[rows], (y[rows] == 8).astype(int)
    for name in ("banknote_authentication", "pima-indians-diabetes", "sonar", "german"):
        try:
            text = read_packed(f"tables/{name}.csv", "A table of the UCI repository.").decode()
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            continue
        columns = [
            np.array(column) for column in zip(*(row for row in csv.reader(io.StringIO(text)) if row), strict=True)
        ]
        yield (
            name,
            np.hstack([_numbers(column) for column in columns[:-1]]),
            (columns[-1] == max(columns[-1])).astype(int),
        )


def _numbers(column: Array) -> Array:
    """A column of numbers, or a 0/1 column for each category."""
    try:
        return column.astype(float)[:, None]
    except ValueError:
        return (column[:, None] == np.unique(column)).astype(float)


def _score(model: Any, X: Array, y: Array, splits: list[tuple[Array, Array]], rule: Callable[[Array], Array]) -> str:
    """Mean error and log loss over the splits, and the columns centred in the first."""
    from sklearn.base import clone
    from sklearn.metrics import log_loss

    errors, losses, counts = [], [], []
    for train, test in splits:
        centre = np.where(rule(X[train]), X[train].mean(axis=0), 0.0)
        fitted = clone(model).set_params(noise=bd.Dropout(centre=centre)).fit(X[train], y[train])
        errors.append(100 * np.mean(fitted.predict(X[test]) != y[test]))
        losses.append(log_loss(y[test], fitted.predict_proba(X[test]), labels=[0, 1]))
        counts.append(int(np.count_nonzero(centre)))
    return f"{np.mean(errors):.1f} / {np.mean(losses):.3f} ({counts[0]})"


def main(repeats: int = 10, wanted: tuple[str, ...] = ()) -> None:
    """Print one table for each kind of rate and each classifier."""
    from sklearn.model_selection import StratifiedShuffleSplit

    warnings.simplefilter("ignore", bd.UnscaledWarning)
    relative = bd.Normal(1.0, relative=True)
    heads = ["kept", *RULES, "auto, relative"]
    for kind in (bd.DropoutLogisticRegression, bd.DropoutSVC):
        for name, rates in (("0.1", 0.1), ("0.5", 0.5), ("learnt", None)):
            print(f"\n{kind.__name__}, rates {name}: error % / log loss (columns centred)\n")
            print(f"| table | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
            for table, X, y in tables():
                if wanted and table not in wanted:
                    continue
                splits = list(StratifiedShuffleSplit(repeats, test_size=0.3, random_state=0).split(X, y))
                for form in ("raw", "standardised"):
                    if form == "standardised":
                        # Of all rows: means and scales alone, without a label, and the same for every rule.
                        X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
                    cells = [_score(kind(0.0), X, y, splits, RULES["none"])]
                    cells += [_score(kind(rates), X, y, splits, rule) for rule in RULES.values()]
                    cells.append(_score(kind(rates, weight_prior=relative), X, y, splits, RULES["usual (auto)"]))
                    print(f"| {table}, {form} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, tuple(sys.argv[2:]))
