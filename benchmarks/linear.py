"""Every linear system beside scikit-learn's plain fit: rates 0.1 to 0.9, C = 0.1 and 1, dense and sparse data.

``python -m benchmarks.linear [--skip-mnist] [NAME]``, NAME a part of a data set's name. Ours end within 1e-6 of their
optimum; theirs stop at their default tolerance (LinearSVC and LinearSVR often at their default limit of 1,000
iterations). The regression has the labels as numbers. Ratios below 1 mean that the fit with noise is the faster one.
Of many classes all of a logistic regression are fitted jointly, and one against the rest. Each estimator makes fits of
little and of much noise before the first that is timed, which compile what is compiled.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

import bayesdrop as bd
from benchmarks.data import amazon, bag_of_words, imdb, mnist

__all__ = ["main"]

RATES = (0.1, 0.3, 0.5, 0.7, 0.9)


def seconds(job: Callable[[], object], budget: float = 3.0) -> float:
    """Median wall time over as many runs as the budget holds, at least one."""
    times: list[float] = []
    while not times or (sum(times) < budget and len(times) < 9):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def pairs(C: float, several: bool) -> list[tuple[str, Callable[[float], Any], Any]]:
    """Names, our estimators for a rate, and the plain ones."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC, LinearSVR

    logistic, margins = LogisticRegression(C=C), LinearSVC(C=C, loss="hinge")
    svc = ("LinearSVC", partial(bd.DropoutSVC, C=C, tol=1e-6), margins)
    joint = partial(bd.DropoutLogisticRegression, C=C, tol=1e-6)
    if several:
        one = partial(joint, multiclass="one_vs_rest")
        joint = partial(joint, multiclass="softmax")
        return [
            ("LogisticRegression, jointly", joint, logistic),
            ("LogisticRegression, one against the rest", one, OneVsRestClassifier(logistic)),
            svc,
        ]
    svr = ("LinearSVR", partial(bd.DropoutSVR, C=C, tol=1e-6), LinearSVR(C=C))
    return [("LogisticRegression", joint, logistic), svc, svr]


def narrow(X):
    """Their format: 32-bit indices."""
    if not sparse.issparse(X):
        return X
    return sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def main() -> None:
    """Print the table, then the median and the largest ratio."""
    warnings.simplefilter("ignore")
    sets = [
        ("books 2,000 × 5,000", *amazon("books", "train")),
        ("synthetic 20,000 × 50,000", *bag_of_words()),
        ("IMDB unigrams", *imdb()),
    ]
    if "--skip-mnist" not in sys.argv:
        X, digit = mnist()
        sets += [("MNIST 3 vs rest 60,000 × 784", X, np.where(digit == 3, 1, -1))]
        sets += [("MNIST 10,000 × 784, ten classes", X[:10_000], digit[:10_000].astype(int))]
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")]
    sets = [part for part in sets if all(word in part[0] for word in wanted)]
    print("| data | C | beside | theirs, s | " + " | ".join(f"rate {rate}" for rate in RATES) + " |")
    print("|---|---|---|---|" + "---|" * len(RATES))
    ratios: list[float] = []
    for name, X, y in sets:
        several = len(np.unique(y)) > 2
        for C in (0.1, 1.0):
            for peer, ours_at, plain in pairs(C, several):
                data = narrow(X)
                theirs = seconds(lambda: plain.fit(data, y))  # noqa: B023
                if C == 0.1:
                    for rate in (RATES[0], RATES[-1]):
                        ours_at(rate).fit(X, y)
                ours = [seconds(lambda: ours_at(rate).fit(X, y)) for rate in RATES]  # noqa: B023
                here = [t / theirs for t in ours]
                ratios += here
                cells = [name, f"{C:g}", peer, f"{theirs:.3f}", *(f"{ratio:.2f}" for ratio in here)]
                print("| " + " | ".join(cells) + " |", flush=True)
    print(f"\nMedian ratio **{np.median(ratios):.2f}**, largest **{np.max(ratios):.2f}**, of {len(ratios)}.")


if __name__ == "__main__":
    main()
