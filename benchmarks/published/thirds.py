"""Topics of news, with and without unlabelled rows: random thirds for training, testing and without labels.

20 Newsgroups (bodies of the posts: the header names the group all but openly; 0/1 words) and Reuters-21578 (log(1 +
count)), one class against the rest with the class ratio as row weights, and all classes jointly with the quadratic
penalty, as published. In each of ten random splits ``C`` is the candidate with the least error on a fifth of the
training third, held out; the unlabelled rows count by 0.4 each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

import bayesdrop as bd
from benchmarks.published.cells import Cell, markdown, mean_and_error
from benchmarks.texts import newsgroups, reuters, words

__all__ = ["SOURCE", "TITLE", "cells", "report"]

TITLE = "Topics with unlabelled rows: 20 Newsgroups and Reuters-21578 in random thirds"
SOURCE = "Wager, Wang & Liang (2013), the table of topics."
# Plain, dropout, and dropout with unlabelled rows.
PUBLISHED = {"20 Newsgroups": (76.55, 79.07, 80.47), "Reuters-21578": (90.67, 91.24, 90.30)}

SPLITS, WEIGHT = 10, 0.4
_LOGISTIC = partial(bd.DropoutLogisticRegression, class_weight="balanced", tol=1e-4)
JOINT = "softmax, rate 0.5"
METHODS: dict[str, Callable[[float], Any]] = {
    "logistic, rate 0": lambda C: _LOGISTIC(0.0, C=C),
    "logistic, rate 0.5": lambda C: _LOGISTIC(0.5, C=C),
    "logistic, learnt rates": lambda C: _LOGISTIC(bd.PerFeature(), C=C),
    JOINT: lambda C: bd.DropoutLogisticRegression(0.5, C=C, multiclass="softmax", tol=1e-3),
}
CS = {name: (1.0, 10.0) for name in METHODS} | {"logistic, rate 0": (0.1, 1.0, 10.0), JOINT: (0.3, 1.0, 10.0)}


@cache
def _topics(data: str) -> tuple[Any, np.ndarray]:
    if data == "20 Newsgroups":
        texts, y, _ = newsgroups(headers=False)
        return words(texts)[0], y
    X, y, _ = reuters()
    X = X.copy()
    X.data = np.log1p(X.data)
    return X, y


def _split(data: str, seed: int) -> Mapping[str, Any]:
    X, y = _topics(data)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test, rest = np.array_split(order, 3)
    held, kept = train[: len(train) // 5], train[len(train) // 5 :]
    found: dict[str, Any] = {}
    for name, make in METHODS.items():
        small = [make(C).fit(X[kept], y[kept]) for C in CS[name]]
        best = int(np.argmax([model.score(X[held], y[held]) for model in small]))
        # Every fit goes on from the weights of the last, which are near.
        model = small[best].set_params(warm_start=True).fit(X[train], y[train])
        found[name], found[f"C of {name}"] = 100 * model.score(X[test], y[test]), CS[name][best]
        if name != "logistic, rate 0":
            model.fit(X[train], y[train], unlabelled=X[rest], unlabelled_weight=WEIGHT)
            found[f"{name}, + unlabelled"] = 100 * model.score(X[test], y[test])
    return found


def cells() -> Iterator[Cell]:
    """One for each split of each data set."""
    for data in reversed(PUBLISHED):
        for seed in range(SPLITS):
            yield Cell(f"{data} {seed}", partial(_split, data, seed))


def report(results: Mapping[str, Any]) -> str:
    """Accuracies with standard errors over the splits, beside the published ones."""
    rows, verdicts = [], []
    for place, name in enumerate(("plain", "dropout", "dropout + unlabelled")):
        rows.append([f"{name} (published)", *(f"{PUBLISHED[data][place]:.2f}" for data in PUBLISHED)])
    splits = {data: [one for seed in range(SPLITS) if (one := results.get(f"{data} {seed}"))] for data in PUBLISHED}
    names = [
        key for name in METHODS for key in (name, f"{name}, + unlabelled") if key != "logistic, rate 0, + unlabelled"
    ]
    for name in names:
        columns = [[one[name] for one in found if name in one] for found in splits.values()]
        rows.append([name, *(mean_and_error(column) if column else "" for column in columns)])
    for data, found in splits.items():
        if not found:
            continue
        learnt = np.array([one["logistic, learnt rates"] for one in found])
        above = "above" if learnt.mean() > PUBLISHED[data][1] else "not above"
        gains = {
            name: mean_and_error([one[f"{name}, + unlabelled"] - one[name] for one in found])
            for name in METHODS
            if f"{name}, + unlabelled" in found[0]
        }
        verdicts.append(
            f"- {data}: learnt rates, labelled rows only, {above} the published {PUBLISHED[data][1]:.2f} %. Gain from "
            f"the unlabelled third (published {PUBLISHED[data][2] - PUBLISHED[data][1]:+.2f}): "
            + "; ".join(f"{'' if gain.startswith('-') else '+'}{gain} for {name}" for name, gain in gains.items())
            + f". {len(found)} splits. Largest candidate of `C` taken in "
            + ", ".join(
                f"{sum(one[f'C of {name}'] == max(CS[name]) for one in found)} of them for {name}"
                for name in METHODS
                if f"C of {name}" in found[0]
            )
            + "."
        )
    return "\n".join([markdown(["accuracy, % (± standard error)", *PUBLISHED], rows), "", *verdicts])
