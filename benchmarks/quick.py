"""Things that users do, each beside its peer, in three minutes: what a change must not make slower.

    python -m benchmarks.quick [--out FILE] [--against FILE] [NAME ...]

Writes ``benchmarks/results/quick.json``: of each cell seconds and processor seconds, ours and the peer's, and of a
posterior its smallest bulk effective sample size. Calls are whole, compilation included, as a user waits for them;
short ones are repeated and the median counts. With ``--against`` the ratio to an earlier file is printed: a cell may
take 1.3 times as long (the posteriors of words 1.5 times), or any time below 50 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bayesdrop as bd
from benchmarks.data import amazon, bag_of_words, mnist
from benchmarks.texts import newsgroups, words

__all__ = ["CELLS"]

RESULTS = Path(__file__).parent / "results" / "quick.json"
_LONG = 10.0
Job = Callable[[], Any]
# A cell makes our job and its peer's (or None), outside what is timed.
Cell = Callable[[], tuple[Job, Job | None]]


def table(n: int = 1000, p: int = 30) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, p))
    score = X @ generator.normal(size=p) / np.sqrt(p) * 2
    return X, (generator.random(n) < 1 / (1 + np.exp(-score))).astype(int)


def ridge_by_folds(X: Any, y: Any) -> Job:
    from sklearn.linear_model import LogisticRegressionCV

    return lambda: LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=1000).fit(X, y)


def svc_by_folds(X: Any, y: Any) -> Job:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    grid = {"C": np.logspace(-4, 4, 10)}
    return lambda: GridSearchCV(LinearSVC(loss="hinge", max_iter=10_000), grid, cv=5).fit(X, y)


def ridge(X: Any, y: Any, tol: float = 1e-4) -> Job:
    from sklearn.linear_model import LogisticRegression

    return lambda: LogisticRegression(tol=tol, max_iter=1000).fit(X, y)


def nuts(program: Any, draws: int, **arguments: Any) -> Job:
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    def run() -> Any:
        mcmc = MCMC(
            NUTS(program), num_warmup=draws, num_samples=draws, num_chains=4, chain_method="vectorized",
            progress_bar=False,
        )  # fmt: skip
        known = {name: jnp.asarray(value) if np.ndim(value) else value for name, value in arguments.items()}
        mcmc.run(jax.random.key(0), **known, intercept_scale=None)
        return {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}

    return run


def default_reviews() -> tuple[Job, Job]:
    X, y = amazon("books", "train")
    return lambda: bd.DropoutLogisticRegression().fit(X, y), ridge_by_folds(X, y)


def default_svc_reviews() -> tuple[Job, Job]:
    X, y = amazon("books", "train")
    return lambda: bd.DropoutSVC().fit(X, y), svc_by_folds(X, y)


def default_table() -> tuple[Job, Job]:
    X, y = table()
    return lambda: bd.DropoutLogisticRegression().fit(X, y), ridge_by_folds(X, y)


def default_svc_table() -> tuple[Job, Job]:
    X, y = table()
    return lambda: bd.DropoutSVC().fit(X, y), svc_by_folds(X, y)


def sparse_fixed() -> tuple[Job, Job]:
    X, y = bag_of_words()
    return lambda: bd.DropoutLogisticRegression(0.3).fit(X, y), ridge(X, y)


def digits() -> tuple[Job, Job]:
    X, digit = mnist()
    return lambda: bd.DropoutLogisticRegression(0.3).fit(X, digit == 3), ridge(X, digit == 3)


def topics() -> tuple[Job, Job]:
    texts, group, training = newsgroups()
    (X,) = words([text for text, mine in zip(texts, training, strict=True) if mine][::2])
    y = group[training][::2]
    return lambda: bd.DropoutLogisticRegression(0.3, multiclass="softmax").fit(X, y), ridge(X, y)


def folds_table() -> tuple[Job, Job]:
    X, y = table()
    return lambda: bd.DropoutLogisticRegressionCV().fit(X, y), ridge_by_folds(X, y)


def gibbs_rates() -> tuple[Job, Job]:
    from bayesdrop.models import normal_scores

    X, y = breast_cancer()
    job = partial(bd.sample, bd.Model(), X, y, method=bd.Gibbs(), tune=300, draws=300, seed=0, progress=False)
    peer = nuts(normal_scores.program, 150, X=X, y=1.0 * y, log_likelihood=normal_scores.logistic)
    return job, peer


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def hmc_plain() -> tuple[Job, Job]:
    from bayesdrop.models import logistic

    X, y = table(20_000, 100)
    model = bd.Model(rates=bd.Fixed(0.0))
    job = partial(bd.sample, model, X, y, method=bd.HMC(), tune=200, draws=300, seed=0, progress=False)
    return job, nuts(logistic.program, 50, X=X.astype("float32"), y=y.astype("float32"))


def hmc_words(rates: Any) -> tuple[Job, None]:
    X, y = amazon("books", "train")
    model = bd.Model(rates=rates)
    return partial(bd.sample, model, X, y, method=bd.HMC(), tune=60, draws=100, seed=0, progress=False), None


def streamed() -> tuple[Job, None]:
    X, y = table(1_000_000, 50)
    model, blocks = bd.Model(rates=bd.Fixed(0.0)), bd.Blocks(np.array_split(X, 4))
    return partial(bd.sample, model, blocks, y, method=bd.HMC(), tune=30, draws=30, seed=0, progress=False), None


CELLS: dict[str, Cell] = {
    "default logistic, reviews": default_reviews,
    "default SVC, reviews": default_svc_reviews,
    "default logistic, 1,000 × 30": default_table,
    "default SVC, 1,000 × 30": default_svc_table,
    "rate 0.3, 20,000 × 50,000 sparse": sparse_fixed,
    "rate 0.3, MNIST 3": digits,
    "rate 0.3, 20 Newsgroups jointly": topics,
    "CV class, 1,000 × 30": folds_table,
    "Gibbs with rates, breast cancer": gibbs_rates,
    "HMC, 20,000 × 100": hmc_plain,
    "HMC, words": partial(hmc_words, bd.Fixed(0.0)),
    "HMC, words with a shared rate": partial(hmc_words, bd.Shared()),
    "HMC, streamed 1,000,000 × 50": streamed,
}


def clock(job: Job) -> dict[str, float]:
    """Median seconds and processor seconds, after one call that is not counted, which compiles, but of long calls."""
    times: list[tuple[float, float]] = []
    result = None
    while len(times) < 2 or (len(times) < 6 and sum(wall for wall, _ in times) < 2):
        wall, cpu = time.perf_counter(), time.process_time()
        result = job()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
        if times[0][0] > _LONG:
            break
    wall, cpu = np.median(times[1:] or times, axis=0)
    found = {"seconds": float(wall), "cpu_seconds": float(cpu)}
    ess = least_ess(result)
    return found if ess is None else {**found, "least_ess": ess}


def least_ess(result: Any) -> float | None:
    """Smallest bulk effective sample size of the draws; None of a fit."""
    from bayesdrop._arviz import arviz

    draws: Any = result
    if hasattr(result, "posterior"):
        draws = {name: variable.values for name, variable in bd.groups.dataset(result, "posterior").items()}
    if not isinstance(draws, dict):
        return None
    kept = [np.asarray(draws[name], float) for name in ("weight", "intercept", "rate") if name in draws]
    flat = np.concatenate([value.reshape(*value.shape[:2], -1) for value in kept], axis=2)[..., :200]
    return min(float(arviz().ess(flat[..., j])) for j in range(flat.shape[2]) if np.ptp(flat[..., j]) > 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quick")
    parser.add_argument("names", nargs="*", help="cells whose names hold one of these words")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--against", type=Path)
    chosen = parser.parse_args()
    before = json.loads(chosen.against.read_text())["cells"] if chosen.against else {}
    warnings.simplefilter("ignore")
    cells: dict[str, Any] = {}
    for name, make in CELLS.items():
        if chosen.names and not any(word in name for word in chosen.names):
            continue
        ours, peer = make()
        cells[name] = {"ours": clock(ours)} | ({} if peer is None else {"peer": clock(peer)})
        line = f"{name}: {cells[name]['ours']['seconds']:.3f} s"
        if peer is not None:
            line += f", peer {cells[name]['peer']['seconds']:.3f} s"
        if name in before:
            ratios = (cells[name]["ours"][kind] / before[name]["ours"][kind] for kind in ("seconds", "cpu_seconds"))
            line += ", {:.2f} times before (processor {:.2f})".format(*ratios)
        print(line, flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    held = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.now().date().isoformat(),
        "commit": commit,
        "idle": os.getloadavg()[0] < 1.5 * (os.cpu_count() or 1),
        "cells": cells,
    }
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
