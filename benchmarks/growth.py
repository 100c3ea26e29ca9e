"""Coverage of 90 % intervals for correlated intercepts and slopes: ``python -m benchmarks.growth [--sets N]``.

Each set has 18 subjects on ten days, as in lme4's example: slope 10, intercept 250, standard deviations 25 of the
intercepts and 6 of the slopes, a correlation between .1 and .5, and responses of standard deviation 25 about their
lines. ``bd.sample`` runs ``y ~ days + (days | subject)``; a response is covered if a new one of the same subject and
day lies in the interval of its posterior predictive draws. Finished sets are kept in a file, one a line, and a later
call goes on from there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import bayesdrop as bd
from bayesdrop.warnings import MixingWarning
from benchmarks.record import facts

SUBJECTS, DAYS, TAILS = 18, 10, (0.05, 0.95)
TRUTH = {"slope": 10.0, "intercept": 250.0, "sigma": 25.0, "scale of intercepts": 25.0, "scale of slopes": 6.0}
NAMES = {
    "slope": "weight", "intercept": "intercept", "sigma": "sigma", "scale of intercepts": "1|subject|scale",
    "scale of slopes": "days|subject|scale", "correlation": "1+days|subject|correlation",
}  # fmt: skip


def simulated(seed: int) -> tuple[pd.DataFrame, np.ndarray, float]:
    """A table, new responses of its rows, and the correlation."""
    generator = np.random.default_rng(seed)
    r, sds = generator.uniform(0.1, 0.5), np.array([TRUTH["scale of intercepts"], TRUTH["scale of slopes"]])
    effect = generator.multivariate_normal([0, 0], np.outer(sds, sds) * [[1, r], [r, 1]], SUBJECTS)
    subject, day = np.repeat(np.arange(SUBJECTS), DAYS), np.tile(np.arange(float(DAYS)), SUBJECTS)
    mean = TRUTH["intercept"] + effect[subject, 0] + (TRUTH["slope"] + effect[subject, 1]) * day
    y, new = mean + TRUTH["sigma"] * generator.normal(size=(2, len(day)))
    return pd.DataFrame({"y": y, "days": day, "subject": [f"s{k:02d}" for k in subject]}), new, r


def coverage(seed: int, draws: int) -> dict[str, float]:
    """Whether the interval of each quantity covers it, and the share of the new responses."""
    table, new, r = simulated(seed)
    model = bd.Model(bd.Squared(), rates=bd.Fixed(0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        post = bd.sample(model, "y ~ days + (days | subject)", table, draws=draws, tune=300, seed=seed, progress=False)
    posterior, truth = bd.groups.dataset(post, "posterior"), TRUTH | {"correlation": r}
    found = {}
    for name, variable in NAMES.items():
        low, high = np.quantile(posterior[variable].values, TAILS)
        found[name] = float(low <= truth[name] <= high)
    checked = bd.groups.dataset(bd.posterior_predictive(post, table, seed=seed), "posterior_predictive")["y"].values
    low, high = np.quantile(checked.reshape(-1, len(new)), TAILS, axis=0)
    return found | {"responses": float(np.mean((low <= new) & (new <= high)))}


def main() -> None:
    """Run the sets that are missing, and print the coverages of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--draws", type=int, default=500)
    # Results of other code are not those of this one.
    kept = f"bayesdrop-growth-{facts('benchmarks.growth')['commit']}.jsonl"
    parser.add_argument("--file", type=Path, default=Path(tempfile.gettempdir()) / kept)
    given = parser.parse_args()
    known = {}
    if given.file.exists():
        known = {part["seed"]: part["covered"] for part in map(json.loads, given.file.read_text().splitlines())}
    for seed in range(given.sets):
        if seed not in known:
            known[seed] = coverage(seed, given.draws)
            with open(given.file, "a", encoding="utf-8") as file:
                file.write(json.dumps({"seed": seed, "covered": known[seed]}) + "\n")
    share = pd.DataFrame([known[seed] for seed in range(given.sets)]).mean()
    share["mean of the parameters"] = share[list(NAMES)].mean()
    print(f"Coverage of 90 % intervals, {given.sets} sets (standard error {np.sqrt(0.09 / given.sets):.3f})\n")
    print("| quantity | coverage |\n|---|---|")
    for name, value in share.items():
        print(f"| {name} | {value:.3f} |")


if __name__ == "__main__":
    main()
