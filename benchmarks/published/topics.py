"""Topics of news at the usual split: error of one-vs-rest models against the dropout rate, and with learnt rates.

Reuters-21578 (log(1 + count), 5,946 documents to train, 2,347 to test) and 20 Newsgroups by date (0/1 words of the
bodies of the posts, 11,314 and 7,532). Row weights carry the class ratio. ``C`` is chosen for each model and rate on a
fifth of the training documents, held out. The SVM without noise is liblinear's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

import bayesdrop as bd
from benchmarks.published.cells import Cell, markdown
from benchmarks.texts import newsgroups, reuters, words

__all__ = ["SOURCE", "TITLE", "cells", "report"]

TITLE = "Topics, one class against the rest: Reuters-21578 and 20 Newsgroups"
SOURCE = "Chen, Zhu, Chen & Chen (2015), figure 3; Zhuo, Zhu & Zhang (2015), figure 4 (curves without numbers)."

DATA = ("Reuters-21578", "20 Newsgroups")
RATES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
# Noise penalises too, so that its fits take a larger C.
CS, NOISY_CS = (0.1, 1.0), (1.0, 10.0)
KINDS = {"logistic": partial(bd.DropoutLogisticRegression, multiclass="one_vs_rest"), "SVM": bd.DropoutSVC}
# The published rule, in one fit.
LEARNT = {"learnt": bd.PerFeature()}


@cache
def _documents(data: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    if data == "Reuters-21578":
        X, y, training = reuters()
        X = X.copy()
        X.data = np.log1p(X.data)
        return X[training], y[training], X[~training], y[~training]
    texts, y, training = newsgroups(headers=False)
    first, second = ([text for text, use in zip(texts, mask, strict=True) if use] for mask in (training, ~training))
    X, X_test = words(first, second)
    return X, y[training], X_test, y[~training]


def _error(data: str, kind: str, rate: float | bd.PerFeature) -> Mapping[str, Any]:
    X, y, X_test, y_test = _documents(data)
    order = np.random.default_rng(0).permutation(len(y))
    held, kept = order[: len(y) // 5], order[len(y) // 5 :]

    def model(C: float) -> Any:
        if kind == "SVM" and rate == 0.0:
            return LinearSVC(loss="hinge", C=C, class_weight="balanced", max_iter=20_000)
        return KINDS[kind](rate, C=C, class_weight="balanced", tol=1e-3)

    candidates = CS if rate == 0.0 else NOISY_CS
    scores = [model(C).fit(X[kept], y[kept]).score(X[held], y[held]) for C in candidates]
    C = candidates[int(np.argmax(scores))]
    return {"error": 100 * (1 - model(C).fit(X, y).score(X_test, y_test)), "held_out": 100 * (1 - max(scores)), "C": C}


def cells() -> Iterator[Cell]:
    """One for each data set, loss and rate."""
    for kind in KINDS:
        for data in DATA:
            for name, rate in (LEARNT | {str(rate): rate for rate in RATES}).items():
                yield Cell(f"{data}, {kind}, {name}", partial(_error, data, kind, rate))


def report(results: Mapping[str, Any]) -> str:
    """Errors along the rates, with who is ahead."""
    rows, verdicts = [], []
    for data in DATA:
        for kind in KINDS:
            found = [results.get(f"{data}, {kind}, {rate}") for rate in (*RATES, *LEARNT)]
            rows.append([data, kind, *("" if one is None else f"{one['error']:.2f}" for one in found)])
            if any(one is None for one in found):
                continue
            errors = [one["error"] for one in found]
            best = int(np.argmin(errors[:-1]))
            verdicts.append(
                f"- {data}, {kind}: learnt rates {errors[-1] - errors[best]:+.2f} points against the best fixed rate "
                f"on the test set ({RATES[best]:g}), {errors[-1] - errors[0]:+.2f} against no noise."
            )
    header = ["test error, %", "loss", *(f"rate {rate:g}" for rate in RATES), "learnt"]
    return "\n".join([markdown(header, rows), "", *verdicts])
