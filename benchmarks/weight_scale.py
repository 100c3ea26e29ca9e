"""Learnt scales of the weights beside known ones: ``python -m benchmarks.weight_scale [splits] [table …]``.

Log loss (natural) and error (%) of posterior mean probabilities on 30 % of the rows, means over stratified random
splits, the same for all; columns are standardised by the training rows. ``unit`` is the default ``bd.Normal(1.0)``,
``half-normal`` is ``bd.Normal(bd.HalfNormal(2.0))``, ``half-Cauchy`` is ``bd.Normal(bd.HalfCauchy(1.0))``, which has no
posterior where the classes are separated. ``tuned ridge`` is scikit-learn's ``LogisticRegressionCV`` by five-fold log
loss. Rates are fixed at 0 (``plain``, by ``bd.HMC()``) or learnt per feature (``rates``, by ``bd.Gibbs()``); for the
reviews (``amazon-books``, ``amazon-kitchen``, their own test rows) one is shared.

The CSV tables and the reviews are read from BAYESDROP_DATA and skipped where they are absent.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import bayesdrop as bd
from benchmarks.data import amazon
from benchmarks.unscaled import tables

__all__ = ["PRIORS", "main"]

PRIORS: dict[str, Any] = {
    "unit": bd.Normal(1.0),
    "half-normal": bd.Normal(bd.HalfNormal(2.0)),
    "half-Cauchy": bd.Normal(bd.HalfCauchy(1.0)),
}
_RATES: dict[str, Any] = {"plain": bd.Fixed(0.0), "rates": bd.PerFeature(), "shared": bd.Shared()}
_DRAWS, _CHAINS = 500, 4


def _digits() -> Iterator[tuple[str, Any, Any]]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    for one, other in ((4, 9), (1, 7)):
        rows = np.isin(y, (one, other))
        yield f"digits {one} and {other}", X[rows], (y[rows] == other).astype(int)


def _splits(wanted: list[str], count: int) -> Iterator[tuple[str, list[Any]]]:
    """Name of a data set and its splits: training rows and labels, test rows and labels."""
    from sklearn.model_selection import StratifiedShuffleSplit

    for name, X, y in [*tables(), *_digits()]:
        if wanted and name not in wanted:
            continue
        parts = []
        for train, test in StratifiedShuffleSplit(count, test_size=0.3, random_state=0).split(X, y):
            mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
            Z = (X - mean) / np.where(spread > 0, spread, 1.0)
            parts.append((Z[train], y[train], Z[test], y[test]))
        yield name, parts
    for domain in ("books", "kitchen"):
        if f"amazon-{domain}" in wanted:
            yield f"amazon-{domain}", [(*amazon(domain, "train"), *amazon(domain, "test"))]


def _score(y: Any, chance: Any) -> tuple[float, float]:
    """Log loss, and error in percent."""
    chance, positive = np.clip(chance, 1e-12, 1 - 1e-12), y == np.max(y)
    loss = -np.mean(np.where(positive, np.log(chance), np.log1p(-chance)))
    return float(loss), 100 * float(np.mean((chance > 0.5) != positive))


def _sampled(prior: Any, rates: Any, split: Any) -> tuple[float, ...]:
    """Log loss, error, largest R-hat, and posterior mean of the scale of one split."""
    X, y, new, truth = split
    post = bd.sample(
        bd.Model(rates=rates, weight_prior=prior), X, y, draws=_DRAWS, chains=_CHAINS, progress=False
    )  # fmt: skip
    found = bd.predict(post, new)
    scale = bd.groups.dataset(post, "posterior").get("weight_scale")
    mixed = bd.diagnose(post).r_hat
    return (
        *_score(truth, np.asarray(found.mean)), mixed.value if mixed else np.nan,
        np.nan if scale is None else float(scale.mean()),
    )  # fmt: skip


def _ridge(split: Any) -> tuple[float, ...]:
    from sklearn.linear_model import LogisticRegressionCV

    X, y, new, truth = split
    fit = LogisticRegressionCV(Cs=np.logspace(-4, 4, 17), cv=5, scoring="neg_log_loss", max_iter=2000).fit(X, y)
    return (*_score(truth, fit.predict_proba(new)[:, 1]), np.nan, float(np.ravel(fit.C_)[0] ** 0.5))


def main() -> None:
    """Print the table."""
    arguments = sys.argv[1:]
    count = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 3
    kinds = [word for word in arguments if word in _RATES] or ["plain"]
    warnings.simplefilter("ignore")
    print("| data | rates | prior | log loss | error, % | largest R-hat | scale |\n|---|---|---|---|---|---|---|")
    for name, splits in _splits([word for word in arguments if word not in _RATES], count):
        rows = [("", "tuned ridge", lambda split: _ridge(split))]
        for kind in kinds:
            for label, prior in PRIORS.items():
                rows.append((kind, label, lambda split, p=prior, r=_RATES[kind]: _sampled(p, r, split)))
        for kind, label, score in rows:
            try:
                found = np.array([score(split) for split in splits])
            except ValueError as error:
                print(f"| {name} | {kind} | {label} | {str(error)[:40]} |  |  |  |", flush=True)
                continue
            loss, wrong, _, scale = found.mean(axis=0)
            mixed = np.max(found[:, 2])
            print(f"| {name} | {kind} | {label} | {loss:.4f} | {wrong:.2f} | {mixed:.3f} | {scale:.2f} |", flush=True)


if __name__ == "__main__":
    main()
