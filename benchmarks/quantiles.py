"""Quantile regression beside scikit-learn's linear programme, 10,000 × 100; ``python -m benchmarks.quantiles``."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import bayesdrop as bd

__all__ = ["main"]

N, P = 10_000, 100


def problem() -> tuple[np.ndarray, np.ndarray]:
    """Features, and responses whose spread depends on one of them and whose tails are long."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(N, P))
    noise = (1 + 0.3 * X[:, 0] ** 2) * generator.standard_t(4, size=N)
    return X, X @ generator.normal(size=P) / np.sqrt(P) + 0.5 + noise


def timed(estimator: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, Any]:
    """Processor time of a fit, which other work on the machine does not change, and the estimator."""
    start = time.process_time()
    estimator.fit(X, y)
    return time.process_time() - start, estimator


def main() -> None:
    """Print the table: times, their ratio, and our check loss above theirs where there is neither noise nor penalty."""
    from sklearn.linear_model import QuantileRegressor
    from threadpoolctl import threadpool_limits

    X, y = problem()
    titles = ["quantile", "QuantileRegressor, s"]
    titles += [f"{what}, s | ratio" for what in ("rate 0, no penalty", "rate 0", "rate 0.1", "rate 0.3")]
    print("| " + " | ".join([*titles, "check loss above theirs"]) + " |")
    print("|---" * 11 + "|")
    with threadpool_limits(1):
        for tau in (0.1, 0.5, 0.9):
            highs, peer = timed(QuantileRegressor(quantile=tau, alpha=0.0, solver="highs"), X, y)

            def excess(fitted: Any, tau: float = tau, peer: Any = peer) -> float:
                total = [np.maximum(tau * r, (tau - 1) * r).sum() for r in (y - f.predict(X) for f in (fitted, peer))]
                return float(total[0] / total[1] - 1)

            vague = {"quantile": tau, "weight_prior": bd.Normal(1e4)}
            runs = [timed(bd.DropoutQuantileRegressor(0.0, **vague), X, y)]
            runs += [timed(bd.DropoutQuantileRegressor(rate, quantile=tau), X, y) for rate in (0.0, 0.1, 0.3)]
            cells = [f"{tau} | {highs:.1f}", *(f"{took:.2f} | **{took / highs:.3f}**" for took, _ in runs)]
            print("| " + " | ".join([*cells, f"{excess(runs[0][1]):.0e}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
