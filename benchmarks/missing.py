"""Missing entries as dropped ones beside imputation, ``python -m benchmarks.missing [splits] [table …]``.

Log losses and errors (%) on 30 % of the rows, means over stratified random splits, and what another method has more,
with the standard error of the paired difference. Entries are removed from all rows before the split, then columns are
scaled by what is left of them in the training rows. Three ways to go missing:

    at random        every entry with the stated chance
    by another       each column of a random half, with a chance of 30 % on average that is in proportion to the rank
                     of another column's value, which is there
    large values     54 % of the values above the column's median and 6 % of those below

``variants`` as first argument prints what else could be made of a missing entry:

    counted          it counts as one dropped: ``bd.PerFeature(bd.Beta(1 + M, 1))``, the strength tuned as ever
    rule, rule c.    the published rule in one fit at C = 1, without that count and with it
    unknown          a value drawn from a normal law with the column's mean and variance, five copies of each row
    raw              columns as they come, under ``bd.Normal(1.0, relative=True)``
    raw, zero        the same, and columns are centred by the rule for complete ones alone: others become 0

The CSV tables are read from BAYESDROP_DATA and skipped where they are absent.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import bayesdrop as bd
from benchmarks.unscaled import RULES, tables

__all__ = ["REMOVALS", "main", "removed"]

Array = Any
# Rows, labels and new rows to probabilities of new rows.
Method = Callable[[Array, Array, Array], Array]

REMOVALS = ("at random, 10 %", "at random, 30 %", "by another, 30 %", "large values, 30 %")
_STRENGTHS = np.logspace(-4, 4, 9)
_COPIES = 5


def removed(X: Array, how: str, generator: np.random.Generator) -> Array:
    """A copy of the rows with entries that are missing in one of the ways of ``REMOVALS``."""
    from scipy.stats import rankdata

    n, p = X.shape
    rank = rankdata(X, axis=0) / n
    if how.startswith("at random"):
        chance = np.full((n, p), 0.1 if "10" in how else 0.3)
    elif how.startswith("by another"):
        order = generator.permutation(p)
        there, going = order[: p - p // 2], order[p - p // 2 :]
        chance = np.zeros((n, p))
        chance[:, going] = 0.6 * rank[:, there[: len(going)]]
    else:
        chance = np.where(rank > 0.5, 0.54, 0.06)
    return np.where(generator.random((n, p)) < chance, np.nan, X)


def _logistic(*steps: Any) -> Method:
    """Logistic regression after imputation."""
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline

    def method(X: Array, y: Array, new: Array) -> Array:
        last = LogisticRegressionCV(
            Cs=_STRENGTHS, l1_ratios=(0.0,), use_legacy_attributes=False, scoring="neg_log_loss", max_iter=5000
        )
        return make_pipeline(*map(clone, steps), last).fit(X, y).predict_proba(new)

    return method


def _estimator(kind: Callable[..., Any], **settings: Any) -> Method:
    return lambda X, y, new: kind(**settings).fit(X, y).predict_proba(new)


def _dropped(rates: Any = None, kind: Any = bd.DropoutLogisticRegressionCV) -> Method:
    return _estimator(kind, rates=rates, missing="nan")


def _counting(kind: Any, wrap: Callable[[Any], Any]) -> Method:
    """Missing entries count as dropped ones."""

    def method(X: Array, y: Array, new: Array) -> Array:
        prior = bd.Beta(1.0 + np.isnan(X).sum(axis=0), 1.0)
        return _dropped(wrap(bd.PerFeature(prior)), kind)(X, y, new)

    return method


def _unknown(X: Array, y: Array, new: Array) -> Array:
    """Missing entries are values drawn from a normal law, which the copies of a row average over."""
    from sklearn.model_selection import StratifiedGroupKFold

    generator = np.random.default_rng(0)
    mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)

    def copies(rows: Array) -> Array:
        many = np.repeat(rows, _COPIES, axis=0)
        return np.where(np.isnan(many), generator.normal(mean, scale, many.shape), many)

    labels, row = np.repeat(y, _COPIES), np.repeat(np.arange(len(y)), _COPIES)
    rows = copies(X)
    folds = list(StratifiedGroupKFold(5).split(rows, labels, row))
    # A row counts once, so that C means what it means elsewhere.
    model = bd.DropoutLogisticRegressionCV(cv=folds).fit(rows, labels, np.full(len(labels), 1 / _COPIES))
    return model.predict_proba(copies(new)).reshape(len(new), _COPIES, -1).mean(axis=1)


def _raw(zero: bool) -> Method:
    """Columns that are not scaled: ``X`` comes in its own units."""

    def method(X: Array, y: Array, new: Array) -> Array:
        noise = bd.Dropout()
        if zero:
            there = [column[~np.isnan(column), None] for column in X.T]
            usual = np.array([RULES["usual (auto)"](column)[0] for column in there])
            noise = bd.Dropout(centre=np.where(usual, np.nanmean(X, axis=0), 0.0))
        prior = bd.Normal(1.0, relative=True)
        model = bd.DropoutLogisticRegressionCV(noise=noise, weight_prior=prior, missing="nan")
        return model.fit(X, y).predict_proba(new)

    return method


def _methods(variants: bool) -> dict[str, Method]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    ours = {"dropped": _dropped()}
    if variants:
        plain = bd.DropoutLogisticRegression
        return ours | {
            "counted": _counting(bd.DropoutLogisticRegressionCV, bd.Tuned),
            "rule": _dropped(bd.PerFeature(), plain),
            "rule c.": _counting(plain, lambda rates: rates),
            "unknown": _unknown,
            "raw": _raw(zero=False),
            "raw, zero": _raw(zero=True),
        }
    return ours | {
        "mean": _logistic(SimpleImputer()),
        "mean, indicators": _logistic(SimpleImputer(add_indicator=True)),
        "iterative": _logistic(IterativeImputer(random_state=0)),
        "neighbours": _logistic(KNNImputer()),
        "boosting": _estimator(HistGradientBoostingClassifier, random_state=0),
    }


def _scores(methods: dict[str, Method], X: Array, y: Array, how: str, repeats: int) -> Array:
    """Log loss and error (2, methods, splits)."""
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedShuffleSplit

    found = np.empty((2, len(methods), repeats))
    splits = StratifiedShuffleSplit(repeats, test_size=0.3, random_state=0).split(X, y)
    for s, (train, test) in enumerate(splits):
        left = removed(X, how, np.random.default_rng(s))
        mean, scale = np.nanmean(left[train], axis=0), np.nanstd(left[train], axis=0)
        scaled = (left - mean) / np.where(scale > 0, scale, 1.0)
        for k, (name, method) in enumerate(methods.items()):
            rows = left if name.startswith("raw") else scaled
            chance = method(rows[train], y[train], rows[test])
            found[:, k, s] = (
                log_loss(y[test], chance, labels=[0, 1]),
                100 * np.mean(chance.argmax(axis=1) != y[test]),
            )
    return found


def _row(found: Array, digits: int) -> str:
    """The first method's mean, and what the others have more."""
    more = found[1:] - found[0]
    error = more.std(axis=1, ddof=1) / np.sqrt(more.shape[1])
    cells = [f"{found[0].mean():.{digits}f}"]
    cells += [f"{m:+.{digits}f} ± {e:.{digits}f}" for m, e in zip(more.mean(axis=1), error, strict=True)]
    return " | ".join(cells)


def main(repeats: int = 10, wanted: tuple[str, ...] = (), variants: bool = False) -> None:
    """Print a table of log losses and one of errors."""
    warnings.simplefilter("ignore")  # of imputers that do not converge, and of columns without entries
    methods = _methods(variants)
    lines: dict[str, list[str]] = {"log loss": [], "error, %": []}
    for table, X, y in tables():
        if wanted and table not in wanted:
            continue
        for how in REMOVALS:
            found = _scores(methods, X.astype(float), y, how, repeats)
            for part, digits, kind in zip(found, (3, 1), lines, strict=True):
                lines[kind].append(f"| {table} | {how} | {_row(part, digits)} |")
            print(f"{table}, {how}: done", file=sys.stderr, flush=True)
    for kind, rows in lines.items():
        print(f"\n{kind}: of ours, and what others have more\n")
        print(f"| table | missing | {' | '.join(methods)} |\n|---|---|{'---|' * len(methods)}")
        print("\n".join(rows), flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    others = arguments[:1] == ["variants"]
    arguments = arguments[others:]
    main(int(arguments[0]) if arguments else 10, tuple(arguments[1:]), others)
