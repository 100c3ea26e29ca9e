"""Fits of counts beside scikit-learn's ``PoissonRegressor`` in one run, and how far from the optimum each ends.

``python -m benchmarks.counts [n] [p]``
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import PoissonRegressor

import bayesdrop as bd

__all__ = ["table"]

REPEATS = 15


def energy(X, y, alpha: float, model) -> float:
    """scikit-learn's objective: mean half deviance and ``½ alpha ‖w‖²``."""
    score = X @ model.coef_ + model.intercept_
    return float(np.mean(bd.Poisson().value(y, score, 0 * score)) + 0.5 * alpha * model.coef_ @ model.coef_)


def table(n: int = 10_000, p: int = 100) -> str:
    """Median user CPU and wall times of fits taken in turn, and their gaps to the best energy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = rng.poisson(np.exp(0.5 + X @ rng.normal(scale=0.5 / np.sqrt(p), size=p))).astype(float)
    alpha = 1e-3
    ours = {"rates": 0.0, "C": 1 / (alpha * n)}
    jobs: dict[str, Callable[[], object]] = {
        "PoissonRegressor(lbfgs)": lambda: PoissonRegressor(alpha=alpha).fit(X, y),
        "PoissonRegressor(lbfgs, tol=1e-7)": lambda: PoissonRegressor(alpha=alpha, tol=1e-7, max_iter=500).fit(X, y),
        "DropoutPoissonRegressor(0.0)": lambda: bd.DropoutPoissonRegressor(**ours).fit(X, y),
        "DropoutPoissonRegressor(0.0, tol=1e-5)": lambda: bd.DropoutPoissonRegressor(**ours, tol=1e-5).fit(X, y),
        "DropoutNegativeBinomialRegressor(0.0)": lambda: bd.DropoutNegativeBinomialRegressor(
            **ours, dispersion=5.0
        ).fit(X, y),
        "DropoutPoissonRegressor(0.3), gaussian": lambda: bd.DropoutPoissonRegressor(
            **(ours | {"rates": 0.3}), expectation="gaussian"
        ).fit(X, y),
        "DropoutPoissonRegressor(0.3), exact": lambda: bd.DropoutPoissonRegressor(**(ours | {"rates": 0.3})).fit(X, y),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
    fits: dict[str, object] = {}
    for _ in range(REPEATS):
        for name, job in jobs.items():
            wall, cpu = time.perf_counter(), time.process_time()
            fits[name] = job()
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    best = energy(X, y, alpha, bd.DropoutPoissonRegressor(**ours, tol=1e-14).fit(X, y))
    lines = [f"| {n:,} × {p} | wall, ms | CPU, ms | relative gap |", "|---|---|---|---|"]
    for name, found in fits.items():
        wall, cpu = 1000 * np.median(times[name], axis=0)
        plain = name.startswith(("PoissonRegressor", "DropoutPoissonRegressor(0.0"))
        gap = f"{energy(X, y, alpha, found) / best - 1:.0e}" if plain else "–"
        lines.append(f"| {name} | {wall:.0f} | {cpu:.0f} | {gap} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(*(int(part) for part in sys.argv[1:3])))
