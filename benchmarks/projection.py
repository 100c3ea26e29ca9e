"""Projections of logistic posteriors on few features: ``python -m benchmarks.projection [--sets N]``.

Each set has 400 rows of 50 columns in pairs of correlation .8, and five true weights of size 1.5, each in a pair of its
own. The reference is a horseshoe posterior without noise; the search goes to ten features and is repeated in five
folds. Counted are the sets whose first five features are the true ones; whose size by the stated loss, .005 nats a row,
is 4 to 6; and in which the elpd of that size is within two standard errors of its value on 4,000 new rows, whose own
error is negligible. The processor time is of the projection alone.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.special import expit

import bayesdrop as bd

ROWS, NEW_ROWS, COLUMNS, TRUE = 400, 4000, 50, 5


def simulated(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features and labels, to sample and new."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS + NEW_ROWS, COLUMNS))
    X[:, 1::2] = 0.8 * X[:, ::2] + 0.6 * X[:, 1::2]
    weight = 1.5 * np.where(np.arange(TRUE) % 2, -1.0, 1.0)
    y = (rng.random(len(X)) < expit(X[:, : 2 * TRUE : 2] @ weight)).astype(int)
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def score(post: object, X: np.ndarray, y: np.ndarray) -> float:
    """Log predictive density of new rows, a row, averaged over draws."""
    chance = bd.predict(post, X).mean
    return float(np.mean(np.log(np.where(y == 1, chance, 1 - chance))))


def one(seed: int) -> dict[str, float]:
    """Counts and seconds of one set."""
    X, y, new, new_y = simulated(seed)
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Horseshoe())
    post = bd.sample(model, X, y, draws=500, tune=500, seed=seed, progress=False)
    clock = time.process_time()
    path = bd.project(post, X, sizes=10, seed=seed)
    seconds = time.process_time() - clock
    size = path.size_within()
    found: dict[str, float] = {
        "first five are the true ones": set(path.terms[:TRUE]) == {f"x{d}" for d in range(0, 2 * TRUE, 2)},
        "size by the stated loss is 4 to 6": size is not None and abs(size - TRUE) <= 1,
        "size by one standard error is 4 to 6": abs((path.size_within_standard_error() or 0) - TRUE) <= 1,
        "processor seconds of a projection": seconds,
    }
    at = list(path.sizes).index(TRUE if size is None else size)
    stated, error = path.pointwise[at].mean(), path.pointwise[at].std() / np.sqrt(ROWS)
    away = score(path.posterior(int(path.sizes[at])), new, new_y)
    found["elpd within two errors of new rows"] = abs(stated - away) <= 2 * error
    return found


def main() -> None:
    """Run the sets and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20)
    sets = parser.parse_args().sets
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.MixingWarning)
        every = [one(seed) for seed in range(sets)]
    print(f"Projections of {sets} simulated sets\n\n| what | value |\n|---|---|")
    for name in every[0]:
        values = [part[name] for part in every]
        print(f"| {name} | {np.median(values):.1f} |" if "seconds" in name else f"| {name} | {sum(values)} of {sets} |")


if __name__ == "__main__":
    main()
