"""Film reviews for and against: IMDB, words and pairs of words, labelled rows alone and with unlabelled ones.

25,000 reviews to train on, 25,000 to test, 50,000 without label. Features say which words (or words and pairs of
adjacent words) occur, of those in two training reviews or more. ``C``, the weight of the unlabelled rows, and whether
new rows are scored by their mean under noise or as they are, have the least error over five parts of the training
reviews, held out in turn. The parts are runs of numbers, so that no film is on both sides: a random fifth shares its
films, whose names the model would then be paid to learn, and it is 2 points too kind and asks for ten times the ``C``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np

import bayesdrop as bd
from benchmarks.published.cells import Cell, markdown
from benchmarks.texts import imdb_texts, words

__all__ = ["SOURCE", "TITLE", "cells", "report"]

TITLE = "Film reviews with and without labels: IMDB"
SOURCE = "Wager, Wang & Liang (2013), the IMDB table."
PUBLISHED = {
    "logistic, plain": (None, 90.13),
    "naive Bayes SVM": (None, 91.22),
    "dropout": (87.78, 91.31),
    "dropout + unlabelled": (89.52, 91.98),
}

FEATURES = {"words": 1, "words and pairs": 2}
# The published rule, in one fit; without rates the estimators choose their strength on held-out rows.
LEARNT = bd.PerFeature()
_LOGISTIC = partial(bd.DropoutLogisticRegression, tol=1e-4)
_SVC = partial(bd.DropoutSVC, tol=1e-4)

# How to make each model from C, the candidates of C, and of the weight of the unlabelled rows (0: they stay out).
METHODS: dict[str, tuple[Callable[[float], Any], tuple[float, ...], tuple[float, ...]]] = {
    "logistic, rate 0": (lambda C: _LOGISTIC(0.0, C=C), (0.003, 0.01, 0.03), (0.0,)),
    "logistic, rate 0.5": (lambda C: _LOGISTIC(0.5, C=C), (0.1, 0.3), (0.0,)),
    "logistic, rate 0.5, + unlabelled": (lambda C: _LOGISTIC(0.5, C=C), (0.1, 0.3), (0.4, 2.0)),
    "logistic, rate 0.5, normal scores": (lambda C: _LOGISTIC(0.5, C=C, expectation="gaussian"), (0.1, 0.3), (0.0,)),
    "logistic, rate 0.5, normal scores, + unlabelled": (
        lambda C: _LOGISTIC(0.5, C=C, expectation="gaussian"),
        (0.1, 0.3),
        (0.4, 2.0),
    ),
    "logistic, rate 0.5, quadratic penalty": (lambda C: _LOGISTIC(0.5, C=C, expectation="taylor"), (0.1, 0.3), (0.0,)),
    "logistic, rate 0.5, quadratic penalty, + unlabelled": (
        lambda C: _LOGISTIC(0.5, C=C, expectation="taylor"),
        (0.1, 0.3),
        (0.4, 2.0),
    ),
    "logistic, learnt rates": (lambda C: _LOGISTIC(LEARNT, C=C), (0.1, 0.3, 1.0), (0.0,)),
    "logistic, learnt rates, + unlabelled": (lambda C: _LOGISTIC(LEARNT, C=C), (0.1, 0.3), (0.4, 2.0)),
    "logistic, learnt rates, normal scores": (
        lambda C: _LOGISTIC(LEARNT, C=C, expectation="gaussian"),
        (0.1, 0.3, 1.0),
        (0.0,),
    ),
    "logistic, learnt rates, normal scores, + unlabelled": (
        lambda C: _LOGISTIC(LEARNT, C=C, expectation="gaussian"),
        (0.1, 0.3),
        (0.4, 2.0),
    ),
    "SVM, learnt rates": (lambda C: _SVC(LEARNT, C=C), (0.01, 0.03, 0.1), (0.0,)),
    "SVM, learnt rates, normal scores": (
        lambda C: _SVC(LEARNT, C=C, expectation="gaussian"),
        (0.01, 0.03, 0.1),
        (0.0,),
    ),
}
# First number of each held-out part, and their length.
HELD, LENGTH = (0, 2500, 5000, 7500, 10_000), 2500


@cache
def _reviews(length: int) -> tuple[Any, ...]:
    (train, y, number), (test, y_test, _), (more, _, _) = (
        imdb_texts(part) for part in ("train_labelled", "test_labelled", "train_unsup")
    )
    X, X_test, unlabelled = words(train, test, more, length=length)
    return X, y, number, X_test, y_test, unlabelled


def _fitted(make: Callable[[float], Any], C: float, share: float, X: Any, y: np.ndarray, unlabelled: Any) -> Any:
    more = {"unlabelled": unlabelled, "unlabelled_weight": share} if share else {}
    return make(C).fit(X, y, **more)


def _by_scoring(model: Any, X: Any, y: np.ndarray) -> list[float]:
    """Accuracy in percent where new rows are noised like the others, and where they are taken as they are."""
    return [100 * model.set_params(corrupted_inputs=asis).score(X, y) for asis in (False, True)]


def _accuracy(name: str, length: int) -> Mapping[str, Any]:
    X, y, number, X_test, y_test, unlabelled = _reviews(length)
    make, strengths, shares = METHODS[name]
    settings = list(product(strengths, shares))
    scores = np.zeros((len(settings), 2))
    for start in HELD:
        held = (start <= number) & (number < start + LENGTH)
        for row, one in zip(scores, settings, strict=True):
            row += np.array(_by_scoring(_fitted(make, *one, X[~held], y[~held], unlabelled), X[held], y[held])) / len(
                HELD
            )
    best, asis = np.unravel_index(np.argmax(scores), scores.shape)
    C, share = settings[best]
    accuracy = _by_scoring(_fitted(make, C, share, X, y, unlabelled), X_test, y_test)[asis]
    chosen = {"C": C, "weight": share, "as_is": bool(asis)}
    return {"accuracy": accuracy, "held_out": scores.max(), **chosen, "columns": X.shape[1]}


def cells() -> Iterator[Cell]:
    """One for each kind of features and model."""
    for features, length in FEATURES.items():
        for name in METHODS:
            yield Cell(f"{features}: {name}", partial(_accuracy, name, length))


def report(results: Mapping[str, Any]) -> str:
    """Accuracy beside the published one, and which figures are passed."""
    rows = []
    for name, figures in PUBLISHED.items():
        rows.append([f"{name} (published)", *("" if figure is None else f"{figure:.2f}" for figure in figures), ""])
    for name in METHODS:
        found = [results.get(f"{features}: {name}") for features in FEATURES]
        settings = "; ".join(
            f"C = {one['C']:g}"
            + (f", weight {one['weight']:g}" if one["weight"] else "")
            + (", as they are" if one["as_is"] and name != "logistic, rate 0" else "")
            for one in found
            if one
        )
        rows.append([name, *("" if one is None else f"{one['accuracy']:.2f}" for one in found), settings])
    lines = [markdown(["accuracy, %", *FEATURES, "chosen"], rows), ""]
    for place, features in enumerate(FEATURES):
        mine = {name: results[f"{features}: {name}"] for name in METHODS if f"{features}: {name}" in results}
        alone = {name: one for name, one in mine.items() if "unlabelled" not in name}
        for kind, group, key in (("labelled", alone, "dropout"), ("with unlabelled", mine, "dropout + unlabelled")):
            if not group:
                continue
            best = max(group, key=lambda name: group[name]["held_out"])  # noqa: B023
            accuracy, figure = group[best]["accuracy"], PUBLISHED[key][place]
            verdict = "above" if accuracy > figure else "not above"
            lines.append(
                f"- {features}, {kind}: chosen on held-out training reviews: {best}, {accuracy:.2f} %, {verdict} "
                f"{figure:.2f} %."
            )
    columns = {one["columns"] for one in results.values()}
    lines.append(
        f"\nColumns: {', '.join(f'{count:,}' for count in sorted(columns))}. Standard error of an accuracy on "
        "25,000 reviews: 0.2 points."
    )
    return "\n".join(lines)
