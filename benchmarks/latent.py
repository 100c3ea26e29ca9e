"""One hidden layer on 10,000 images of MNIST: error against the linear model and against no noise; time against an MLP.

    python -m benchmarks.latent [hidden units ...]
    python -m benchmarks.latent times [hidden units ...]

``C`` is chosen on 5,000 other training images, for each model and rate; the error is that on the test images, the mean
over seeds. The peer is scikit-learn's ``MLPClassifier`` with one hidden layer of as many logistic units, run to its own
convergence, its ``alpha`` chosen on the same images. ``times`` has settings chosen so, the softmax with noise at ``C``
1 and ``alpha`` 0.01, and prints the processor time of both, one fit after the other, for every seed.
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

import bayesdrop as bd

from .data import mnist

SEEDS = (0, 1, 2)
ROWS, HELD_OUT = 10_000, 5_000
RATES = (0.0, 0.3)


def images() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    X, y = mnist()
    X = X / X.max()
    order = np.random.default_rng(0).permutation(len(y))
    X_test, y_test = mnist("test")
    train, held = order[:ROWS], order[ROWS : ROWS + HELD_OUT]
    return {"train": (X[train], y[train]), "held out": (X[held], y[held]), "test": (X_test / X_test.max(), y_test)}


def error(model: Any, part: tuple[np.ndarray, np.ndarray]) -> float:
    return 100 * (1 - model.score(*part))


def chosen(make: Any, grid: Any, parts: Any) -> tuple[Any, list[float], list[float]]:
    """The setting with the least held-out error at the first seed; its test errors and times at all seeds."""
    found = {value: error(make(value, SEEDS[0]).fit(*parts["train"]), parts["held out"]) for value in grid}
    best = min(found, key=lambda value: found[value])
    errors, seconds = [], []
    for seed in SEEDS:
        start = time.perf_counter()
        model = make(best, seed).fit(*parts["train"])
        seconds.append(time.perf_counter() - start)
        errors.append(error(model, parts["test"]))
    return best, errors, seconds


def times(units: list[int], parts: Any) -> None:
    print("| hidden units | seed | energy a row | steps | error, % | CPU, s | MLP: error, % | CPU, s | ratio |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for seed in SEEDS:
        for hidden in units:
            models = (
                bd.LatentDropoutLogisticRegression(0.3, n_hidden=hidden, random_state=seed),
                MLPClassifier(hidden, activation="logistic", alpha=0.01, max_iter=1000, random_state=seed),
            )
            seconds = []
            for model in models:
                start = time.process_time()
                model.fit(*parts["train"])
                seconds.append(time.process_time() - start)
            ours, peer = (error(model, parts["test"]) for model in models)
            fit = f"{models[0].objective_trace_[-1] / ROWS:.4f} | {models[0].n_iter_} | {ours:.2f} | {seconds[0]:.1f}"
            other = f"{peer:.2f} | {seconds[1]:.1f} | {seconds[0] / seconds[1]:.2f}"
            print(f"| {hidden} | {seed} | {fit} | {other} |", flush=True)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    parts = images()
    only_times = sys.argv[1:2] == ["times"]
    units = [int(part) for part in sys.argv[1 + only_times :]] or [20, 40]
    if only_times:
        times(units, parts)
        return
    print("| model | units | " + " | ".join(f"error at rate {rate:g}, % | C or alpha | s" for rate in RATES) + " |")
    print("|---|---|" + 3 * len(RATES) * "---|", flush=True)

    def row(name: str, hidden: Any, make: Any, grid: Any, rates: tuple[float, ...] = RATES) -> None:
        cells = [name, str(hidden)]
        for rate in rates:
            best, errors, seconds = chosen(partial(make, rate), grid, parts)
            spread = f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}"
            cells += [spread, f"{best:g}", f"{np.median(seconds):.0f}"]
        cells += 3 * (len(RATES) - len(rates)) * [""]
        print(f"| {' | '.join(cells)} |", flush=True)

    def linear(rate: float, C: float, _: int) -> Any:
        return bd.DropoutLogisticRegression(rate, C=C, tol=1e-5, multiclass="softmax")

    def latent(hidden: int, rate: float, C: float, seed: int) -> Any:
        return bd.LatentDropoutLogisticRegression(rate, n_hidden=hidden, C=C, random_state=seed)

    def peer(hidden: int, _: float, alpha: float, seed: int) -> Any:
        return MLPClassifier(hidden, activation="logistic", alpha=alpha, max_iter=1000, random_state=seed)

    row("linear", "", linear, (0.01, 0.1, 1.0))
    for hidden in units:
        row("hidden layer", hidden, partial(latent, hidden), (0.3, 1.0, 3.0))
        row("MLPClassifier", hidden, partial(peer, hidden), (1e-4, 1e-2, 1.0), RATES[:1])


if __name__ == "__main__":
    main()
