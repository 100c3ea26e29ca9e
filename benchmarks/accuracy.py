"""What the fits reach: one optimum for every solver. ``python -m benchmarks.accuracy``."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import optimize

import bayesdrop as bd
from benchmarks.data import amazon

__all__ = ["main"]


def optima() -> None:
    """Newton, EM and L-BFGS on the energy, on dense and sparse data, for both losses."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    from bayesdrop.designs import as_design
    from bayesdrop.fitting.objective.energy import Energy
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


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    optima()


if __name__ == "__main__":
    main()
