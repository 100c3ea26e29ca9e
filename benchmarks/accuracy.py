"""What the fits reach: one optimum for every solver, and test error on the Amazon reviews with nothing tuned.

``python -m benchmarks.accuracy``. The test error: hinge, C = 0.1, biased dropout, flat prior, binarised words; the
settings come from the published experiments, none was chosen by its error on the test split.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import optimize, sparse

import bayesdrop as bd
from benchmarks.data import amazon

__all__ = ["main"]


def optima() -> None:
    """Newton, EM and L-BFGS on the energy, on dense and sparse data, for both losses."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    from bayesdrop.designs import as_design
    from bayesdrop.inference.energy import Energy
    from bayesdrop.moments import ScoreMoments

    table, outcome = load_breast_cancer(return_X_y=True)
    words, label = amazon("books", "train")
    print("\n| data | loss | EM above Newton | BFGS above Newton |\n|---|---|---|---|")
    for name, X, y in (
        ("breast cancer, dense", StandardScaler().fit_transform(table), outcome),
        ("books, sparse", words, label),
    ):
        for loss in (bd.Hinge(), bd.Logistic()):
            model = bd.Model(loss, rates=bd.Fixed(0.3))
            newton = bd.fit(model, X, y, method=bd.Newton(tol=1e-12)).objective_trace[-1]
            em = bd.fit(model, X, y, method=bd.EM(tol=1e-11, max_iter=20_000)).objective_trace[-1]
            p = X.shape[1]
            sign = np.where(y == np.max(y), 1.0, -1.0)[:, None]
            moments = ScoreMoments(as_design(X), bd.Dropout(), np.full((p, 1), 0.3))
            precision = np.append(np.ones(p), 0.0)[:, None]
            energy = Energy(moments, loss, sign, np.ones_like(sign), precision)

            def both(w, energy=energy):
                w = w[:, None]
                mean, var = energy.moments.scores(w)
                zero = np.zeros(1)
                value = energy.value(w, mean, var, zero)[0]
                return value, energy.gradient(w, energy.derivatives(mean, var, zero))[0][:, 0]

            start = np.full(p + 1, 1e-3)  # the hinge has no curvature in the mean at zero
            options = {"maxiter": 50_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9}
            bfgs = optimize.minimize(both, start, jac=True, method="L-BFGS-B", options=options).fun
            print(f"| {name} | {type(loss).__name__} | {em / newton - 1:.0e} | {bfgs / newton - 1:.0e} |", flush=True)


def reviews() -> None:
    """Test error of learnt rates beside the plain SVM's, and the spread over starts."""
    from sklearn.svm import LinearSVC

    print("\n| data | learnt rates, starts 0.1 / 0.5 / 0.9 | largest difference of the rates | plain SVM (C = 1) |")
    print("|---|---|---|---|")
    for domain in ("books", "kitchen"):
        X, y = amazon(domain, "train")
        X_test, y_test = amazon(domain, "test")
        models = [bd.DropoutSVC(bd.PerFeature(bd.Beta(1, 1), start=s), C=0.1).fit(X, y) for s in (0.1, 0.5, 0.9)]
        errors = [f"{100 * (1 - model.score(X_test, y_test)):.2f} %" for model in models]
        spread = max(np.abs(model.rates_ - models[0].rates_).max() for model in models)
        data = sparse.csr_matrix(X), sparse.csr_matrix(X_test)
        for part in data:
            part.indices, part.indptr = part.indices.astype(np.int32), part.indptr.astype(np.int32)
        plain = 100 * (1 - LinearSVC(loss="hinge", max_iter=100_000).fit(data[0], y).score(data[1], y_test))
        print(f"| {domain} | {' / '.join(errors)} | {spread:.0e} | {plain:.2f} % |", flush=True)


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore")
    optima()
    reviews()


if __name__ == "__main__":
    main()
