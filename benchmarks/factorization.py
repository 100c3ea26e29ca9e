"""Matrix factorisation with dropped columns: ``python -m benchmarks.factorization``.

Closed form on MNIST beside scikit-learn's ``TruncatedSVD`` of the rank that was learnt, the two alternating in one run,
medians. The figures of Cavazza et al. (2018) are ``python -m benchmarks.reproduce factors``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import bayesdrop as bd
from benchmarks.data import mnist

__all__ = ["gap_of_averages", "main", "noisy_product"]

WINDOW = 4000


def gap_of_averages(model: bd.DropoutMatrixFactorization, window: int = WINDOW, every: int = 10) -> float:
    """Largest relative gap between the moving averages of sampled and expected loss, after the first tenth."""
    sampled, expected = model.sampled_objective_trace_, model.objective_trace_[:-1]
    mean = np.convolve(sampled, np.full(window, 1 / window), "valid")[::every]
    target = np.convolve(expected, np.full(window // every, every / window), "valid")
    count = min(len(mean), len(target))
    return float(np.abs(mean[:count] / target[:count] - 1)[count // 10 :].max())


def noisy_product(seed: int = 0) -> np.ndarray:
    """100 × 100 of rank 10, factors of standard deviation 0.1 and noise of 0.01, as Cavazza et al. (2018) have it."""
    generator = np.random.default_rng(seed)
    left, right = generator.normal(scale=0.1, size=(100, 10)), generator.normal(scale=0.1, size=(10, 100))
    product = left @ right
    return product + 0.01 * generator.normal(size=(100, 100))


def _seconds(job: Callable[[], object]) -> float:
    clock = time.perf_counter()
    job()
    return time.perf_counter() - clock


def main(repeats: int = 5) -> None:
    """Print the table."""
    from sklearn.decomposition import TruncatedSVD

    try:
        X = mnist("train")[0][:55_000]
    except FileNotFoundError as error:
        print(f"skipped: {error}")
        return
    print("| p | rank learnt | closed form, s | TruncatedSVD, s | ratio |")
    print("|---|---|---|---|---|")
    for retain in (0.8, 0.9, 0.95, 0.99):
        model = bd.DropoutMatrixFactorization(retain=retain).fit(X)
        plain = TruncatedSVD(model.n_components_, random_state=0)
        times = [(_seconds(lambda: model.fit(X)), _seconds(lambda: plain.fit(X))) for _ in range(repeats)]  # noqa: B023
        ours, theirs = np.median(times, axis=0)
        ratio = np.median([a / b for a, b in times])
        print(f"| {retain} | {model.n_components_} | {ours:.2f} | {theirs:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
