"""The largest R-hat of thousands of numbers whose chains agree, and what of chains that do not is found.

    python -m benchmarks.r_hat [law] [power] [20]

``law``: rank-normalised split R-hat of independent draws of four chains, 5,001 and 10,001 numbers, beside
:func:`bayesdrop.largest_r_hat`; told off are runs with a number above 1.01 and its own limit. 20 is the number of runs.
``power``: one chain of four is moved in one number of 5,001, by so many standard deviations, or its scale is 1.5 times
that of the others; draws are independent. Found by R-hat above 1.01; and also above the law's limit by the effective
sample size that ArviZ reports; and by what :mod:`bayesdrop.posterior.diagnostics.largest_r_hat` measures, which is the
rule. Shares of 300.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.special import ndtri
from scipy.stats import f

import bayesdrop as bd
from bayesdrop._arviz import arviz
from bayesdrop.posterior.diagnostics.largest_r_hat import limit_of_draws

COUNTS, SIZES, BLOCK = (5001, 10001), (100, 250, 400, 750), 1000
CHANGES = {"0.3": (0.3, 1.0), "0.5": (0.5, 1.0), "0.8": (0.8, 1.0), "scale": (0.0, 1.5)}


def r_hats(draws: np.ndarray) -> np.ndarray:
    """Of continuous draws (chains, even number of draws, p), by its definition."""
    p, half = draws.shape[2], draws.shape[1] // 2
    flat = np.moveaxis(draws, 2, 0).reshape(p, -1)
    found = []
    for values in (flat, np.abs(flat - np.median(flat, axis=1, keepdims=True))):
        scores = np.empty_like(values)
        levels = ndtri((np.arange(1, values.shape[1] + 1) - 0.375) / (values.shape[1] + 0.25))
        np.put_along_axis(scores, np.argsort(values, axis=1), np.broadcast_to(levels, values.shape), axis=1)
        parts = scores.reshape(p, -1, half)
        found.append(parts.mean(axis=2).var(axis=1, ddof=1) / parts.var(axis=2, ddof=1).mean(axis=1))
    return np.sqrt(np.max(found, axis=0) + (half - 1) / half)


def law(runs: int) -> None:
    print("| ESS | numbers | 10 % | median | 90 % | law: 10 % | median | 90 % | 99 % | told off |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    for draws in SIZES:
        largest = np.zeros((runs, len(COUNTS)))
        off = np.zeros((runs, len(COUNTS)), bool)
        for run in range(runs):
            for start in range(0, COUNTS[-1], BLOCK):
                values = rng.normal(size=(4, draws, min(BLOCK, COUNTS[-1] - start)))
                found = r_hats(values)
                above = found > 1.01
                for k, count in enumerate(COUNTS):
                    inside = np.arange(start, start + len(found)) < count
                    largest[run, k] = max(largest[run, k], np.max(found[inside], initial=0.0))
                    some = above & inside
                    off[run, k] |= np.any(found[some] > limit_of_draws(values[:, :, some], count))
        for k, count in enumerate(COUNTS):
            ess = np.full(count, 4.0 * draws)
            said = (bd.largest_r_hat(ess, chains=4, draws=draws, probability=q) for q in (0.1, 0.5, 0.9, 0.99))
            cells = " | ".join(f"{value:.4f}" for value in (*np.quantile(largest[:, k], (0.1, 0.5, 0.9)), *said))
            print(f"| {4 * draws:,} | {count:,} | {cells} | {off[:, k].sum()} of {runs} |", flush=True)


def power(count: int = 5001, shares: int = 300) -> None:
    print("| ESS | change | above 1.01 | by ArviZ's ESS | by the rule |\n|---|---|---|---|---|")
    rng, tail = np.random.default_rng(1), -np.expm1(np.log(0.99) / (2 * count))
    for draws in (*SIZES[:-1], 1000):
        for name, (shift, scale) in CHANGES.items():
            values = rng.normal(size=(4, draws, shares))
            values[0] = scale * values[0] + shift
            found = r_hats(values)
            ess = np.array([float(arviz().ess(values[..., j], method="bulk")) for j in range(shares)])
            ratio = f.isf(tail, 7, np.maximum(ess - 8, 1.0))
            theirs = np.sqrt(1 + 8 * ratio / ess - 2 / draws)
            limits = (1.01, np.maximum(1.01, theirs), np.maximum(1.01, limit_of_draws(values, count)))
            cells = " | ".join(f"{np.mean(found > limit):.2f}" for limit in limits)
            print(f"| {4 * draws:,} | {name} | {cells} |", flush=True)


def main() -> None:
    chosen = sys.argv[1:]
    runs = next((int(part) for part in chosen if part.isdigit()), 20)
    if "power" not in chosen or "law" in chosen:
        law(runs)
    if "law" not in chosen or "power" in chosen:
        power()


if __name__ == "__main__":
    main()
