"""Inclusion of features under a spike-and-slab prior: ``python -m benchmarks.inclusion [NAME]``.

``twins``: 200 columns, 300 rows, logistic, five pairs of correlation .8, ten true weights of size 1, one of each pair.
``correlated``: the same without pairs, every two columns of correlation .8. ``words``: 2,000 rows, 5,000 columns of
counts, 30 true, the first chain begun at no word and the last at 40 random ones; the inclusion probability is learnt,
30 words being expected, and in ``known_words`` it is 30/5,000. ``sweep``: a sweep of 20,000 × 100 beside one of the
plain sampler, in turns. ``calibration``: inclusion probabilities of 100 tables drawn from the prior, by their means in
bins and the share of true features in each.

Measured on a busy machine, in seconds of processor time (28 November 2026):

- ``twins``, 5,200 sweeps, 63 s: a true feature or its twin has the probability .954 (standard error .003) for one of
  the ten, at least .999 for the others.
- ``correlated``, 2,200 sweeps, 36 s: of 29 features in doubt the least favourable has 1,986 effective draws; any two
  chains differ by .020 at most.
- ``known_words``, 1,050 sweeps, 85 s: 1,585 effective draws of the log likelihood; first and last chain differ by .023,
  any two by .057; 1 false discovery of 2.7 expected.
- ``words``, 430 sweeps, 218 s: 185 effective draws of the log likelihood; first and last chain differ by .086; 4 false
  discoveries of 1.8 expected. Some 270 words are in, half of them in at most eight rows; their number mixes slowly.
- ``sweep``: .61 times the sweep of the plain sampler.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import arviz as az
import numpy as np
from scipy import sparse

import bayesdrop as bd
from bayesdrop.posterior.problem import Problem

__all__ = ["calibration", "correlated", "known_words", "main", "simulated", "sweep", "twins", "words"]

FIXED: dict[str, Any] = {"rates": bd.Fixed(0.0)}
PRIORS: dict[str, dict[str, Any]] = {
    "twins": {"expected_size": 10},
    "correlated": {"expected_size": 10},
    "words": {"expected_size": 30},
    "known_words": {"inclusion": 30 / 5000},
}


def simulated(kind: str, seed: int = 0) -> tuple[Any, np.ndarray, np.ndarray]:
    """Features, labels and the true features of a benchmark."""
    rng = np.random.default_rng(seed)
    if "words" in kind:
        frequency = 0.2 / (1 + np.arange(5000) / 50)
        X: Any = sparse.csr_array((rng.random((2000, 5000)) < frequency).astype(float))
        true = rng.choice(500, 30, replace=False)
    else:
        X = rng.normal(size=(300, 200))
        true = np.arange(0, 20, 2)
        if kind == "twins":
            X[:, 1:10:2] = 0.8 * X[:, 0:10:2] + 0.6 * X[:, 1:10:2]
        else:
            X = np.sqrt(0.8) * rng.normal(size=(300, 1)) + np.sqrt(0.2) * X
    size = np.where(np.arange(len(true)) % 2, -1.0, 1.0) * (1.5 if "words" in kind else 1.0)
    score = X[:, true] @ size
    return X, (rng.random(X.shape[0]) < 1 / (1 + np.exp(-score))).astype(int), true


def sampled(kind: str, **options: Any) -> tuple[Any, Any, Any, np.ndarray, float]:
    """Posterior, its draws, features, true features and seconds."""
    X, y, true = simulated(kind)
    model = bd.Model(weight_prior=bd.SpikeSlab(**PRIORS[kind]), **FIXED)
    bd.sample(model, X, y, draws=2, tune=2, progress=False)  # compiles
    clock = time.perf_counter()
    post = bd.sample(model, X, y, progress=False, **options)
    return post, bd.groups.dataset(post, "posterior"), (X, y), true, time.perf_counter() - clock


def differences(draws: Any) -> float:
    """Largest difference of inclusion probabilities between two chains."""
    means = draws["inclusion_probability"].mean("draw").values
    return float(np.ptp(means, axis=0).max())


def twins() -> None:
    """Print the share of draws that have each true feature or its twin."""
    _, draws, _, true, seconds = sampled("twins", draws=5000, tune=200)
    included = draws["included"].values.reshape(-1, 200) > 0
    found = [float(np.mean(included[:, d] | (included[:, d + 1] & (d < 10)))) for d in true]
    print(
        f"twins: P(feature or twin) {np.round(found, 3).tolist()}, chains within {differences(draws):.3f}; "
        f"{seconds:.0f} s"
    )


def correlated(draws_of_each: int = 1800) -> None:
    """Print the agreement of chains and the effective draws of features in doubt."""
    _, draws, _, _, seconds = sampled("correlated", draws=draws_of_each, tune=100)
    chance = draws["inclusion_probability"]
    mean = chance.mean(("chain", "draw")).values
    doubtful = chance.isel(feature=(mean > 0.05) & (mean < 0.95))
    ess = az.ess(doubtful.to_dataset(name="x"))["x"].values
    size = float(az.ess(draws[["model_size"]])["model_size"])
    print(
        f"correlated: {ess.size} in doubt, ESS {ess.min():.0f} to {ess.max():.0f}, of the size {size:.0f}, chains "
        f"within {differences(draws):.3f}; {seconds:.0f} s"
    )


def words(kind: str = "words", draws_of_each: int = 600) -> None:
    """Print the agreement of the chains, the effective draws of the likelihood, and the false discoveries."""
    post, draws, (X, y), true, seconds = sampled(kind, draws=draws_of_each, tune=50)
    means = draws["inclusion_probability"].mean("draw").values
    mean = means.mean(axis=0)
    chosen = np.flatnonzero(mean > 0.5)
    rows = bd.groups.dataset(bd.log_likelihood(post, X, y), "log_likelihood")
    total = next(iter(rows.data_vars.values())).sum("obs_id")
    false = np.sum(~np.isin(chosen, true))
    print(
        f"{kind}: first and last chain within {np.abs(means[0] - means[-1]).max():.3f}, {len(chosen) - false} of 30 "
        f"found, {false} false discoveries of {np.sum(1 - mean[chosen]):.1f} expected, ESS of the log likelihood "
        f"{float(az.ess(total.to_dataset(name='x'))['x']):.0f}; {seconds:.0f} s"
    )


def known_words() -> None:
    """Print what :func:`words` prints, of a known inclusion probability."""
    words("known_words", 1000)


def sweep(repeats: int = 5) -> None:
    """Print the ratio of a sweep to that of the plain sampler."""
    import jax

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 100))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-X[:, :10].sum(axis=1)))).astype(int)
    steps = []
    for prior in (bd.SpikeSlab(expected_size=10), bd.Normal(1.0)):
        problem = Problem.of(bd.Model(weight_prior=prior, **FIXED), X, y)
        kernel, operands = problem.bind(bd.Gibbs(), 10)
        state = kernel.init(operands, jax.random.key(0), 4)
        step = kernel.step if isinstance(prior, bd.SpikeSlab) else jax.jit(kernel.step)
        for _ in range(10):
            state, _ = step(operands, state)
        steps.append((step, operands, state))
    times = []
    for _ in range(repeats):
        row = []
        for step, operands, state in steps:
            clock = time.perf_counter()
            jax.block_until_ready(step(operands, state)[1])
            row.append(time.perf_counter() - clock)
        times.append(row)
    ours, plain = np.median(times, axis=0)
    print(f"sweep: {ours:.3f} s of four chains, {plain:.3f} s of the plain sampler, ratio {ours / plain:.2f}")


def calibration(tables: int = 100) -> None:
    """Print mean inclusion and share of true features in bins, and how many sets have one, of tables from the prior."""
    chance, truth, covered = [], [], []
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 10))
        X[:, 1::2] = 0.8 * X[:, ::2] + 0.6 * X[:, 1::2]
        is_true = rng.random(10) < 0.3
        y = (rng.random(60) < 1 / (1 + np.exp(-X @ (is_true * rng.normal(size=10))))).astype(int)
        if len(np.unique(y)) < 2:
            continue
        model = bd.Model(weight_prior=bd.SpikeSlab(0.3), fit_intercept=False, **FIXED)
        post = bd.sample(model, X, y, draws=250, tune=50, chains=2, seed=seed, progress=False)
        chance.append(bd.groups.dataset(post, "posterior")["inclusion_probability"].mean(("chain", "draw")).values)
        truth.append(is_true)
        for features in bd.credible_sets(post, X)["features"]:
            covered.append(any(is_true[int(name[1:])] for name in features))
    every, true = np.concatenate(chance), np.concatenate(truth)
    print("Features by inclusion probability, and the share of them that are true; errors are binomial.\n")
    print("| from | features | mean | true | errors apart |")
    print("|---|---|---|---|---|")
    place = np.minimum((10 * every).astype(int), 9)
    for k in range(10):
        part = place == k
        error = np.sqrt(np.sum(every[part] * (1 - every[part]))) / max(part.sum(), 1)
        mean, share = every[part].mean(), true[part].mean()
        print(f"| {k / 10:.1f} | {part.sum()} | {mean:.3f} | {share:.3f} | {abs(share - mean) / error:.1f} |")
    print(f"\nOf {len(covered)} sets of probability .95, {np.mean(covered):.3f} have a true feature.")


CELLS = {
    "twins": twins,
    "correlated": correlated,
    "words": words,
    "known_words": known_words,
    "sweep": sweep,
    "calibration": calibration,
}


def main(names: list[str] | None = None) -> None:
    """Run the cells of the given names, by default all."""
    for name in names or list(CELLS):
        CELLS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
