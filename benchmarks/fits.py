"""Fit times beside scikit-learn's, in one run, with how far from the optimum each ends.

``python -m benchmarks.fits [--skip-mnist]``

With ``--small`` calls that predict few rows, beside scikit-learn's. With ``--default`` default fits of words, which
choose the strength of their rates, beside one fit with learnt rates. With ``--path`` paths of 20 rates beside one fit.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import sparse

import bayesdrop as bd
from benchmarks.data import amazon, bag_of_words, mnist

RATE, C = 0.3, 1.0


def clock(*jobs: Callable[[], object], repeats: int) -> list[float]:
    """Median wall time of each job, run in turn."""
    times: list[list[float]] = [[] for _ in jobs]
    for _ in range(repeats):
        for job, record in zip(jobs, times, strict=True):
            start = time.perf_counter()
            job()
            record.append(time.perf_counter() - start)
    return [float(np.median(record)) for record in times]


def energy(loss, X, y, coef, intercept) -> float:
    """Plain energy ``½‖w‖² + C Σ loss`` at rate 0."""
    score = X @ coef + intercept
    zero = np.zeros_like(score)
    return 0.5 * coef @ coef + C * loss.value(np.where(y > 0, 1.0, -1.0), score, zero).sum()


def peer(X, hinge: bool, tol: float | None = None):
    """Fit scikit-learn's estimator, at its own tolerance or a tighter one; LinearSVC takes 32-bit indices only."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    data = X
    if sparse.issparse(X):
        data = sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    tighter = {} if tol is None else {"tol": tol, "max_iter": 5000}
    return (LinearSVC(C=C, loss="hinge", **tighter) if hinge else LogisticRegression(C=C, **tighter)), data


def row(name: str, X, y, loss, repeats: int) -> None:
    """One line of the table."""
    hinge = isinstance(loss, bd.Hinge)
    kind = bd.DropoutSVC if hinge else bd.DropoutLogisticRegression
    fixed, learnt = (kind(rates, C=C, tol=1e-6) for rates in (RATE, bd.PerFeature()))
    (theirs, data), (tight, _) = peer(X, hinge), peer(X, hinge, 1e-6)
    jobs: list[Callable[[], object]] = [partial(model.fit, X, y) for model in (fixed, learnt)]
    jobs.append(lambda: theirs.fit(data, y))
    if repeats > 1:
        jobs.append(lambda: tight.fit(data, y))
    times = clock(*jobs, repeats=repeats)
    best = bd.fit(bd.Model(loss, rates=bd.Fixed(RATE), C=C), X, y, method=bd.Newton(tol=1e-11)).objective_trace[-1]
    gap = f"{fixed.objective_trace_[-1] / best - 1:.0e}"
    if hinge:  # the intercept of LinearSVC is penalised: another optimum
        gap += " / n/a"
    else:
        plain = bd.fit(bd.Model(loss, rates=bd.Fixed(0.0), C=C), X, y, method=bd.Newton(tol=1e-11)).objective_trace[-1]
        gap += f" / {energy(loss, X, y, theirs.coef_[0], theirs.intercept_[0]) / plain - 1:.0e}"
    at_tight = f"{times[3]:.3f} | **{times[0] / times[3]:.2f}**" if repeats > 1 else "– | –"
    cells = [
        name,
        type(theirs).__name__,
        f"{times[0]:.3f}",
        f"{times[2]:.3f}",
        f"**{times[0] / times[2]:.2f}**",
        at_tight,
        gap,
        f"{times[1]:.3f}",
        f"**{times[1] / times[0]:.2f}**",
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def small() -> None:
    """Predictions of a small table and of one row, the median of many calls in turn."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    models = [kind().fit(X, y) for kind in (LogisticRegression, bd.DropoutLogisticRegression, bd.DropoutSVC)]
    print("| call | rows | LogisticRegression, ms | DropoutLogisticRegression, times | DropoutSVC, times |")
    print("|---|---|---|---|---|")
    for call in ("predict_proba", "predict", "decision_function"):
        for rows in (X, X[:1]):
            jobs = [partial(getattr(model, call), rows) for model in models]
            clock(*jobs, repeats=20)
            theirs, *ours = clock(*jobs, repeats=300)
            times = " | ".join(f"**{one / theirs:.1f}**" for one in ours)
            print(f"| `{call}` | {len(rows)} × {X.shape[1]} | {1e3 * theirs:.2f} | {times} |", flush=True)


def default() -> None:
    """CPU seconds of default fits of words and of one fit with learnt rates, the least of seven in turn."""
    print("| data | estimator | learnt rates, s | default, s | times |")
    print("|---|---|---|---|---|")
    for domain in ("books", "kitchen"):
        X, y = amazon(domain, "train")
        for kind in (bd.DropoutSVC, bd.DropoutLogisticRegression):
            least = [np.inf, np.inf]
            for _ in range(7):
                for place, model in enumerate((kind(bd.PerFeature()), kind())):
                    start = time.process_time()
                    model.fit(X, y)
                    least[place] = min(least[place], time.process_time() - start)
            cells = f"{least[0]:.3f} | {least[1]:.3f} | **{least[1] / least[0]:.1f}**"
            print(f"| {domain} | {kind.__name__} | {cells} |", flush=True)


def path() -> None:
    """CPU seconds of paths of 20 rates, and of as many fits by themselves, over those of one cold fit at rate 0.3.

    The least of five in turn, and how far above a fit by itself the path ends at the worst of its rates.
    """
    grid = np.linspace(0, 0.95, 20)
    generator = np.random.default_rng(0)
    dense = generator.normal(size=(5_000, 50))
    score = dense @ generator.normal(size=50) / 7 + generator.normal(size=5_000)
    print("| data | estimator | one fit, s | path, s | times | fits by themselves, times | worst above these |")
    print("|---|---|---|---|---|---|---|")
    for name, X, y in (
        ("text 2,000 × 20,000", *bag_of_words(2_000, 20_000, 50)),
        ("5,000 × 50", dense, np.where(score > 0, 1, -1)),
    ):
        for kind in (bd.DropoutLogisticRegression, bd.DropoutSVC):
            one, along = kind(RATE, C=C), bd.RatePath(kind(C=C), grid)
            alone = [kind(float(rate), C=C) for rate in grid]
            jobs = [partial(one.fit, X, y)] * 3 + [partial(along.fit, X, y)]
            jobs.append(lambda alone=alone, X=X, y=y: [model.fit(X, y) for model in alone])
            least = [np.inf] * len(jobs)
            for _ in range(5):
                for place, job in enumerate(jobs):
                    start = time.process_time()
                    job()
                    least[place] = min(least[place], time.process_time() - start)
            first, above = (
                min(least[:3]),
                max(
                    float(found / model.objective_trace_[-1] - 1)
                    for found, model in zip(along.objectives_, alone, strict=True)
                ),
            )
            cells = f"{first:.3f} | {least[3]:.3f} | **{least[3] / first:.1f}** | {least[4] / first:.1f} | {above:.0e}"
            print(f"| {name} | {kind.__name__} | {cells} |", flush=True)


def main() -> None:
    if "--path" in sys.argv:
        path()
        return
    if "--default" in sys.argv:
        default()
        return
    if "--small" in sys.argv:
        small()
        return
    warnings.simplefilter("ignore")  # LinearSVC stops at its own iteration limit
    print(
        "| data | beside | fixed rate 0.3, s | default tol, s | ratio | tol 1e-6, s | ratio | above optimum, ours / "
        "theirs | learnt rates, s | per fixed |"
    )
    print("|" + "---|" * 10)
    sets = [("books 2,000 × 5,000", *amazon("books", "train"), 9), ("sparse 20,000 × 50,000", *bag_of_words(), 5)]
    if "--skip-mnist" not in sys.argv:
        X, y = mnist()
        sets.append(("MNIST 3 vs rest 60,000 × 784", X, np.where(y == 3, 1, -1), 1))
    for name, X, y, repeats in sets:
        for loss in (bd.Logistic(), bd.Hinge()):
            row(name, X, y, loss, repeats)


if __name__ == "__main__":
    main()
