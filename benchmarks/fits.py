"""Fit times beside scikit-learn's, in one run, with how far from the optimum each ends.

``python -m benchmarks.fits [--skip-mnist]``
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

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


def peers(X, hinge: bool):
    """scikit-learn's estimator; LinearSVC takes the older sparse matrices and penalises its intercept."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    data = X
    if sparse.issparse(X):  # LinearSVC takes 32-bit indices only
        data = sparse.csr_matrix((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    return (LinearSVC(C=C, loss="hinge") if hinge else LogisticRegression(C=C)), data


def row(name: str, X, y, loss, repeats: int) -> None:
    hinge = isinstance(loss, bd.Hinge)
    estimator = (bd.DropoutSVC if hinge else bd.DropoutLogisticRegression)(RATE, C=C, tol=1e-6)
    learnt = (bd.DropoutSVC if hinge else bd.DropoutLogisticRegression)(C=C, tol=1e-6)
    peer, peer_X = peers(X, hinge)
    jobs = [lambda: estimator.fit(X, y), lambda: learnt.fit(X, y)]
    ours, with_rates, theirs = clock(*jobs, lambda: peer.fit(peer_X, y), repeats=repeats)
    best = bd.fit(bd.Model(loss, rates=bd.Fixed(RATE), C=C), X, y, method=bd.Newton(tol=1e-12)).objective_trace[-1]
    gap = estimator.objective_trace_[-1] / best - 1
    if hinge:  # its intercept is penalised: another optimum
        peer_gap = "n/a"
    else:
        plain = bd.fit(bd.Model(loss, rates=bd.Fixed(0.0), C=C), X, y, method=bd.Newton(tol=1e-12)).objective_trace[-1]
        peer_gap = f"{energy(loss, X, y, peer.coef_[0], peer.intercept_[0]) / plain - 1:.0e}"
    print(
        f"| {name} | {type(loss).__name__} | {ours:.3f} | {theirs:.3f} ({type(peer).__name__}, {np.max(peer.n_iter_)} it.)"
        f" | **{ours / theirs:.2f}** | {gap:.0e} / {peer_gap} | {with_rates:.3f} | **{with_rates / ours:.2f}** |",
        flush=True,
    )


def main() -> None:
    warnings.simplefilter("ignore")  # LinearSVC stops at its own iteration limit
    print(
        "| data | loss | fixed rate 0.3, s | scikit-learn, s | ratio | above optimum, ours / theirs | learnt, s | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    sets = [("books 2,000 × 5,000", *amazon("books", "train"), 9), ("sparse 20,000 × 50,000", *bag_of_words(), 5)]
    if "--skip-mnist" not in sys.argv:
        X, y = mnist()
        sets.append(("MNIST 3 vs rest 60,000 × 784", X, np.where(y == 3, 1, -1), 1))
    for name, X, y, repeats in sets:
        for loss in (bd.Logistic(), bd.Hinge()):
            row(name, X, y, loss, repeats)


if __name__ == "__main__":
    main()
