"""Pixels deleted at test time ("nightmare at test time"): MNIST, linear models and one hidden layer.

The training images are whole; in each test image every pixel is deleted with probability q, six values of it. Settings
are chosen for each q on images of the training set: fitted to 10,000, scored with deletions on another 10,000. With
them the model is fitted to all 60,000 images and tested on five deletions of the 10,000 test images. One-vs-rest models
and learnt rates have the same settings to choose from at every deletion rate, for the best rate lies far below a large
one of deletion. They have no intercept: deletion shrinks the scores and not the intercepts, which would then decide
between the classes. The marginalised baseline and the hidden layer are fitted to the first 10,000 only, for time.
Explicit copies are cheap where they have few pixels left, and are fitted there only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import sparse

import bayesdrop as bd
from benchmarks.data import mnist
from benchmarks.published.cells import Cell, markdown

__all__ = ["SOURCE", "TITLE", "cells", "report"]

TITLE = "Pixels deleted at test time: MNIST"
SOURCE = "Zhuo, Zhu & Zhang (2015), table 1; Chen, Zhu, Chen & Chen (2015), figure 6."

DELETED = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
# Rates of one-vs-rest systems to choose from on held-out images, at every deletion rate: not tied to it.
TUNED = (0.02, 0.1, 0.3, 0.5, 0.7)
PART, REPEATS = 10_000, 5
PUBLISHED = {
    "Dropout-Logistic": (7.94, 8.77, 9.94, 12.07, 16.58, 32.23),
    "Bayes-Logistic, flat": (9.84, 10.10, 10.50, 12.43, 15.63, 33.38),
    "Bayes-Logistic, Beta": (7.97, 8.74, 9.68, 11.98, 16.02, 31.76),
    "Dropout-SVM": (8.14, 8.55, 9.78, 12.04, 15.63, 31.74),
    "Bayes-SVM, flat": (9.86, 10.24, 10.57, 12.25, 15.41, 32.89),
    "Bayes-SVM, Beta": (7.99, 8.40, 9.73, 11.77, 15.51, 31.03),
}

_COMMON = {"corrupted_inputs": True, "tol": 1e-3}
_JOINT = partial(bd.DropoutLogisticRegression, multiclass="softmax")
_LOGISTIC, _SVC = partial(bd.DropoutLogisticRegression, multiclass="one_vs_rest"), bd.DropoutSVC


@dataclass(frozen=True)
class Method:
    """A model from its settings, those to choose from at a deletion rate, and what it is fitted to."""

    make: Callable[..., Any]
    grid: Callable[[float], list[dict[str, Any]]]
    linear: bool = True
    # False where the final fit is to the part as well.
    whole: bool = True
    storage: Callable[[Any], Any] = np.asarray
    deleted: tuple[float, ...] = DELETED
    # False where the settings, and so the fits, are the same at every deletion rate.
    by_rate: bool = True


def _fixed(kind: Any, rate: float, C: float, **more: Any) -> Any:
    return kind(rate, C=C, fit_intercept=False, **more, **_COMMON)


def _flat(kind: Any, C: float) -> Any:
    return kind(bd.PerFeature(bd.Beta(1, 1)), C=C, fit_intercept=False, **_COMMON)


def _beta(kind: Any, rate: float, strength: float, C: float) -> Any:
    rates = bd.PerFeature(bd.Beta.from_mode(max(rate, 0.01), relative_strength=strength))
    return kind(rates, C=C, fit_intercept=False, **_COMMON)


def _softmax(rate: float, C: float, **more: Any) -> Any:
    return _JOINT(rate, C=C, **more, **_COMMON)


def _copies(rate: float, C: float) -> Any:
    return bd.baselines.ExplicitCorruption(
        _JOINT(0.0, C=C, tol=1e-4), rate, copies=32, random_state=0, corrupted_inputs=True
    )


def _hidden(rate: float, C: float) -> Any:
    return bd.LatentDropoutLogisticRegression(rate, n_hidden=20, C=C, n_init=1, corrupted_inputs=True, random_state=0)


def _rates(q: float) -> tuple[float, ...]:
    """The deletion rate and a second one, larger: few deletions need some noise, many are more than their variance."""
    return tuple(sorted({max(q, 0.1), 0.3})) if q < 0.7 else (q, round(q + 0.2 * (1 - q), 2))


def _by_rate(
    Cs: tuple[float, ...], rates: Callable[[float], tuple[float, ...]]
) -> Callable[[float], list[dict[str, Any]]]:
    return lambda q: [{"rate": rate, "C": C} for rate in rates(q) for C in Cs]


def _by_C(_: float) -> list[dict[str, Any]]:
    return [{"C": C} for C in (0.1, 1.0, 10.0)]


def _by_strength(_: float) -> list[dict[str, Any]]:
    return [
        {"rate": rate, "strength": strength, "C": C}
        for rate in TUNED
        for strength in (1.0, 5.0)
        for C in (0.1, 1.0, 10.0)
    ]


def _wide(q: float) -> list[dict[str, Any]]:
    rates = _rates(q) if q != 0.5 else (q,)
    Cs = (0.1, 1.0) if q < 0.5 else (0.3, 1.0, 3.0) if q < 0.7 else (3.0, 10.0)
    return [{"rate": rate, "C": C} for rate in rates if rate >= q for C in Cs]


def _wide_normal(q: float) -> list[dict[str, Any]]:
    Cs = (0.3, 1.0) if q < 0.5 else (1.0, 3.0) if q < 0.7 else (10.0, 30.0) if q < 0.9 else (30.0, 100.0, 300.0)
    return [{"rate": rate, "C": C} for rate in (_rates(q) if q != 0.5 else (q,)) for C in Cs]


_ONE = _by_rate((0.1, 1.0, 10.0), lambda _: TUNED)

METHODS: dict[str, Method] = {
    "softmax, quadratic penalty": Method(_softmax, _wide),
    "softmax, normal scores": Method(partial(_softmax, expectation="gaussian"), _wide_normal),
    "softmax, 32 explicit copies": Method(
        _copies, _by_rate((3.0, 10.0), lambda q: (q,)), storage=sparse.csr_array, deleted=(0.9,)
    ),
    "softmax, learnt, flat": Method(partial(_flat, _JOINT), _by_C, by_rate=False),
    "softmax, learnt, Beta": Method(partial(_beta, _JOINT), _by_strength, by_rate=False),
    "logistic, fixed": Method(partial(_fixed, _LOGISTIC), _ONE, by_rate=False),
    "logistic, learnt, flat": Method(partial(_flat, _LOGISTIC), _by_C, by_rate=False),
    "logistic, learnt, Beta": Method(partial(_beta, _LOGISTIC), _by_strength, by_rate=False),
    "SVM, fixed": Method(partial(_fixed, _SVC), _ONE, by_rate=False),
    "SVM, learnt, flat": Method(partial(_flat, _SVC), _by_C, by_rate=False),
    "SVM, learnt, Beta": Method(partial(_beta, _SVC), _by_strength, by_rate=False),
    "MCF-quadratic": Method(
        lambda rate, C: bd.baselines.MCFQuadratic(rate, C=C, fit_intercept=False),
        _by_rate((0.1, 10.0), _rates),
        whole=False,
    ),
    "hidden layer of 20, softmax": Method(
        _hidden, _by_rate((1.0, 3.0), lambda q: (max(q, 0.1),)), linear=False, whole=False
    ),
    "SVM, fixed, normal scores": Method(
        partial(_fixed, _SVC, expectation="gaussian"), _by_rate((1.0, 10.0), lambda _: TUNED), by_rate=False
    ),
}


@cache
def _images() -> tuple[np.ndarray, ...]:
    X, y = mnist("train")
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order].astype(int), *mnist("test")


def _error(model: Any, X: np.ndarray, y: np.ndarray, q: float, repeats: int) -> float:
    return 100 * (1 - bd.deletion_scorer(q, seed=1, repeats=repeats if q else 1)(model, X, y))


def _row(method: Method, deleted: tuple[float, ...]) -> Mapping[str, Any]:
    """Choose the setting for each of the deletion rates, which share a grid, fit with it and test."""
    X, y, X_test, y_test = _images()
    grid, stored = method.grid(deleted[0]), method.storage(X)
    small = [method.make(**setting).fit(stored[:PART], y[:PART]) for setting in grid]
    held = [[_error(model, X[PART : 2 * PART], y[PART : 2 * PART], q, 1) for model in small] for q in deleted]
    best = [int(np.argmin(errors)) for errors in held]
    models = {j: small[j] for j in set(best)}
    if method.whole:
        for model in models.values():
            if "warm_start" in model.get_params():  # the weights of the part are near
                model.set_params(warm_start=True)
            model.fit(stored, y)
    return {
        "error": [_error(models[j], X_test, y_test, q, REPEATS) for j, q in zip(best, deleted, strict=True)],
        "held_out": [min(errors) for errors in held],
        "chosen": [grid[j] for j in best],
    }


def cells() -> Iterator[Cell]:
    """One for each method and deletion rate, or each method where its fits do not depend on that rate."""
    for name, method in METHODS.items():
        for deleted in [(q,) for q in method.deleted] if method.by_rate else [DELETED]:
            yield Cell(f"{name} {' '.join(map(str, deleted))}", partial(_row, method, deleted))


def _found(results: Mapping[str, Any], name: str, what: str) -> dict[float, Any]:
    """What a method came to, by deletion rate."""
    whole = results.get(f"{name} {' '.join(map(str, DELETED))}")
    if whole:
        return dict(zip(DELETED, whole[what], strict=True))
    return {q: results[f"{name} {q}"][what][0] for q in DELETED if f"{name} {q}" in results}


def report(results: Mapping[str, Any]) -> str:
    """Test errors in percent beside the published ones."""
    ours = {name: _found(results, name, "error") for name in METHODS}
    rows = [[f"{name} (published)", *(f"{error:.2f}" for error in errors)] for name, errors in PUBLISHED.items()]
    rows += [
        [name, *(f"{errors[q]:.2f}" if q in errors else "" for q in DELETED)] for name, errors in ours.items() if errors
    ]
    words = [
        f"The marginalised baseline and the hidden layer saw {PART:,} images; explicit copies are fitted only where "
        "they have few pixels left."
    ]
    held = {name: _found(results, name, "held_out") for name in METHODS if METHODS[name].linear}
    if all(any(q in errors for errors in held.values()) for q in DELETED):
        least = np.min(list(PUBLISHED.values()), axis=0)
        chosen = [min((name for name in held if q in held[name]), key=lambda name: held[name][q]) for q in DELETED]  # noqa: B023
        picked = [ours[name][q] for name, q in zip(chosen, DELETED, strict=True)]
        rows.append(["**linear, chosen on training images**", *(f"**{error:.2f}**" for error in picked)])
        reached = sum(error <= best for error, best in zip(picked, least, strict=True))
        words = [
            f"The linear model with the least error on held-out training images ({', '.join(dict.fromkeys(chosen))}) "
            f"is at or below the best published figure in {reached} of {len(DELETED)} columns (best published: "
            f"{', '.join(f'{value:.2f}' for value in least)}).",
            *words,
        ]
    return "\n".join(
        [
            "Test error in percent, mean of five deletions; columns are the share of the pixels that is deleted.",
            "",
            markdown(["model", *map(str, DELETED)], rows),
            "",
            " ".join(words),
        ]
    )
