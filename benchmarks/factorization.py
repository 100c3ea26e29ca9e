"""Matrix factorisation with dropped columns: ``python -m benchmarks.factorization [speed|sampled|recovery]``.

``sampled``: Cavazza et al. (2018), figure 1. 100 × 100 standard normal data, ``d`` columns, fixed ``θ``: relative gap
between the moving averages (4,000 steps) of the loss of each step's mask and of the expected loss along the same run,
and how far the result's expected loss is above the global minimum. ``recovery``: figure 3, a product of rank 10 with
noise of standard deviation 0.01 and ``p = 0.9``, by every solver. ``speed``: closed form on MNIST beside scikit-learn's
``TruncatedSVD`` of the rank that was learnt, the two alternating in one run, medians.
"""

from __future__ import annotations

import sys
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
    """100 × 100, rank 10 and noise of standard deviation 0.01."""
    generator = np.random.default_rng(seed)
    product = generator.normal(size=(100, 10)) @ generator.normal(size=(10, 100))
    return product + 0.01 * generator.normal(size=(100, 100))


def sampled() -> None:
    X = np.random.default_rng(0).normal(size=(100, 100))
    print("| d | θ | gap of moving averages | above the minimum | seconds |")
    print("|---|---|---|---|---|")
    for width in (10, 40, 160):
        for theta in (0.1, 0.3, 0.5, 0.7, 0.9):
            settings = {"retain": theta, "adaptive": False}
            least = bd.DropoutMatrixFactorization(width, **settings).fit(X).objective_
            clock = time.perf_counter()
            model = bd.DropoutMatrixFactorization(
                width, **settings, solver="stochastic", max_iter=20_000, random_state=0
            ).fit(X)
            seconds = time.perf_counter() - clock
            excess = model.objective_ / least - 1
            print(f"| {width} | {theta} | {gap_of_averages(model):.4f} | {excess:.5f} | {seconds:.1f} |", flush=True)


def recovery() -> None:
    X = noisy_product()
    exact = bd.DropoutMatrixFactorization(retain=0.9).fit(X)
    product = exact.inverse_transform(exact.transform(X))
    print("| solver | columns | rank learnt | relative distance to the closed form | seconds |")
    print("|---|---|---|---|---|")
    print(f"| closed_form | | {exact.n_components_} | 0 | |")
    for solver, width, steps in (
        ("deterministic", 10, None),
        ("deterministic", 40, None),
        ("stochastic", 10, 20_000),
        ("stochastic", 20, 20_000),
        ("stochastic", 40, 40_000),
    ):
        clock = time.perf_counter()
        model = bd.DropoutMatrixFactorization(width, solver=solver, max_iter=steps, random_state=0).fit(X)
        seconds = time.perf_counter() - clock
        other = model.inverse_transform(model.transform(X))
        distance = np.linalg.norm(other - product) / np.linalg.norm(product)
        print(f"| {solver} | {width} | {model.n_components_} | {distance:.1e} | {seconds:.1f} |", flush=True)


def _seconds(job: Callable[[], object]) -> float:
    clock = time.perf_counter()
    job()
    return time.perf_counter() - clock


def speed(repeats: int = 5) -> None:
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


def main() -> None:
    """Print the tables asked for, or all."""
    jobs = {"sampled": sampled, "recovery": recovery, "speed": speed}
    for name in sys.argv[1:] or jobs:
        print(f"\n{name}\n")
        jobs[name]()


if __name__ == "__main__":
    main()
