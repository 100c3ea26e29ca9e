"""Without noise every fit is scikit-learn's: how far apart the objectives end; ``python -m benchmarks.limits``."""

from __future__ import annotations

import warnings

import numpy as np

import bayesdrop as bd
from benchmarks.data import amazon
from benchmarks.linear import narrow

__all__ = ["main"]


def main() -> None:
    """Print the table: ours above theirs, relative, at rate 0, rate 1e-6 and Gaussian noise of scale 1e-6."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC, LinearSVR

    warnings.simplefilter("ignore")
    table, outcome = load_breast_cancer(return_X_y=True)
    table = StandardScaler().fit_transform(table)
    plain = {"fit_intercept": False}
    tight = {"tol": 1e-8, "max_iter": 1_000_000, **plain}
    systems = [
        (bd.DropoutLogisticRegression, LogisticRegression(tol=1e-8, max_iter=10_000, **plain), bd.Logistic()),
        (bd.DropoutSVC, LinearSVC(loss="hinge", **tight), bd.Hinge()),
        (bd.DropoutSVR, LinearSVR(epsilon=0.1, **tight), bd.EpsilonInsensitive(0.1)),
        (bd.DropoutRidge, Ridge(alpha=1.0, tol=1e-10, **plain), bd.Squared()),
    ]
    print("| data | beside | rate 0 | rate 1e-6 | Gaussian noise 1e-6 |\n|---|---|---|---|---|")
    for name, X, y in (("breast cancer", table, np.where(outcome == 1, 1, -1)), ("books", *amazon("books", "train"))):
        for kind, peer, loss in systems:
            if name == "books" and kind is bd.DropoutSVR:
                continue  # without noise and with 5,000 columns the tube is a problem of minutes

            def energy(w, X=X, y=y, loss=loss):
                score = X @ w
                return 0.5 * w @ w + loss.value(y.astype(float), score, np.zeros_like(score)).sum()

            theirs = energy(np.ravel(peer.fit(narrow(X), y).coef_))
            cells = []
            for options in ({"rates": 0.0}, {"rates": 1e-6}, {"noise": bd.GaussianNoise(1e-6)}):
                ours = kind(C=1.0, tol=1e-8, max_iter=1000, fit_intercept=False, **options).fit(X, y)
                cells.append(f"{energy(np.ravel(ours.coef_)) / theirs - 1:+.0e}")
            print(f"| {name} | {type(peer).__name__} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
