"""Amazon reviews of books and of kitchen ware: error against the dropout rate, and rates that need no search.

Reproduces Chen, Zhu, Chen & Chen (2015), figures 1 (explicit corruption with M copies), 2 (error against the rate, for
dropout SVM, dropout logistic regression and marginalised corrupted features) and 10 (time), and Zhuo, Zhu & Zhang
(2015), figure 2: rates learnt from nine starts beside every fixed one.

``C`` is chosen by five-fold cross-validation on the training split, anew for each rate and method. Under biased dropout
of rate η a weight works as ``1 − η`` of itself, so that ``C(1 − η)²`` plays the part of ``C`` without dropout: the grid
is one of that product, and no rate is favoured by it. The test split is looked at once, for each fit that is reported.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

import bayesdrop as bd
from bayesdrop.baselines import ExplicitCorruption, MCFExponential, MCFLogistic, MCFQuadratic
from benchmarks.data import amazon
from benchmarks.linear import seconds
from benchmarks.published.cells import Cell, markdown

__all__ = ["SOURCE", "TITLE", "cells", "report"]

TITLE = "Amazon reviews: error against the dropout rate"
SOURCE = (
    "Chen, Zhu, Chen & Chen (2015), figures 1, 2 and 10; Zhuo, Zhu & Zhang (2015), figure 2: curves, so that no number "
    "of theirs is printed here. 0/1 words, 2,000 reviews to train on, 4,465 (books) and 5,945 (kitchen) to test; "
    "5,000 columns, in the papers 20,000. `C` by five-fold cross-validation on the training split."
)
# The table shows times.
ALONE = True
DOMAINS = ("books", "kitchen")
RATES = tuple(round(0.1 * step, 1) for step in range(10))
STARTS = RATES[1:]
COPIES = tuple(2**power for power in range(9))
CORRUPTION_RATE = 0.5
STRENGTHS = (3.0, 10.0, 30.0)
# C(1 − rate)², wide for the methods that take milliseconds.
WIDE = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
NARROW = (0.03, 0.1, 0.3, 1.0)
LEARNT = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Name: estimator, grid of C, tolerance while C is searched, rates. One review decides between values of C: fits go to
# the end, but for the two baselines whose fits take seconds.
METHODS: dict[str, tuple[Any, tuple[float, ...], float, tuple[float, ...]]] = {
    "dropout SVM": (bd.DropoutSVC, WIDE, 1e-6, RATES),
    "dropout logistic": (bd.DropoutLogisticRegression, WIDE, 1e-6, RATES),
    "MCF logistic": (MCFLogistic, NARROW, 1e-2, RATES),
    "MCF quadratic": (MCFQuadratic, WIDE, 1e-6, RATES),
    "MCF exponential": (MCFExponential, NARROW, 1e-2, RATES[1::2]),
}
OURS = ("dropout SVM", "dropout logistic")


@cache
def _data(domain: str) -> tuple[Any, ...]:
    return (*amazon(domain, "train"), *amazon(domain, "test"))


def _chosen(model: Any, grid: Mapping[str, Any], domain: str) -> tuple[dict[str, Any], float]:
    """Parameters with the least error over five folds of the training split, and that error in percent."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    X, y, *_ = _data(domain)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(model, dict(grid), cv=folds, refit=False).fit(X, y)
    return search.best_params_, 100 * (1 - search.best_score_)


def _tested(model: Any, domain: str) -> dict[str, Any]:
    """Test error in percent, and the reviews that are wrong, packed as bits."""
    *_, X, y = _data(domain)
    wrong = model.predict(X) != y
    return {"test": 100 * np.mean(wrong), "wrong": np.packbits(wrong).tobytes().hex(), "reviews": len(y)}


def _fixed(domain: str, name: str, rate: float) -> dict[str, Any]:
    """One rate: C by cross-validation, test error, time of the fit."""
    kind, grid, loose, _ = METHODS[name]
    X, y, *_ = _data(domain)
    best, validation = _chosen(kind(rate, tol=loose), {"C": [value / (1 - rate) ** 2 for value in grid]}, domain)
    # Without noise the kink of the hinge is the hardest to resolve to the end, and no prediction depends on it.
    model = kind(rate, C=best["C"], tol=1e-3 if name == "dropout SVM" and rate == 0 else 1e-6)
    time = seconds(lambda: model.fit(X, y), 0.5)
    return {"C": best["C"], "validation": validation, "fit": time, **_tested(model, domain)}


def _learnt(domain: str, name: str, start: float) -> dict[str, Any]:
    """Rates learnt under the flat prior: C by cross-validation, test error, the rates."""
    kind = METHODS[name][0]
    X, y, *_ = _data(domain)
    # A weight of 1e-4 has a sign, and so a rate, only at a tight tolerance.
    model = kind(bd.PerFeature(bd.Beta(1, 1), start=start), tol=1e-10)
    best, validation = _chosen(model, {"C": LEARNT}, domain)
    model.set_params(**best)
    time = seconds(lambda: model.fit(X, y), 0.5)
    return {
        **best,
        **{"validation": validation, "fit": time, **_tested(model, domain)},
        "rates": np.round(model.rates_, 6).tolist() if start in (STARTS[0], STARTS[-1]) else [],
        "quartiles": np.quantile(model.rates_, (0.25, 0.5, 0.75)).tolist(),
    }


def _with_prior(domain: str, name: str) -> dict[str, Any]:
    """Rates learnt under a Beta prior around ½, its strength chosen along with C."""
    X, y, *_ = _data(domain)
    rates = [bd.PerFeature(bd.Beta.from_mode(0.5, strength=strength)) for strength in STRENGTHS]
    model = METHODS[name][0](tol=1e-10)
    best, validation = _chosen(model, {"rates": rates, "C": LEARNT}, domain)
    tested = _tested(model.set_params(**best).fit(X, y), domain)
    return {"C": best["C"], "strength": STRENGTHS[rates.index(best["rates"])], "validation": validation, **tested}


def _copies(domain: str, name: str, copies: int) -> dict[str, Any]:
    """Explicit corruption with M copies, C that of the closed form at the same rate; over seeds of the corruption."""
    kind, grid, loose, _ = METHODS[name]
    X, y, *_ = _data(domain)
    rate = CORRUPTION_RATE
    best, _ = _chosen(kind(rate, tol=loose), {"C": [value / (1 - rate) ** 2 for value in grid]}, domain)
    plain = kind(0.0, C=best["C"], tol=1e-3 if name == "dropout SVM" else 1e-6)
    # Their spread falls as 1/√M: three seeds say enough of many copies.
    seeds = range(10 if copies <= 16 else 3)
    models = [ExplicitCorruption(plain, rate, copies=copies, random_state=seed) for seed in seeds]
    times = [seconds(lambda: model.fit(X, y), 0.0) for model in models]  # noqa: B023
    return {"test": [_tested(model, domain)["test"] for model in models], "fit": float(np.median(times))}


def cells() -> Iterator[Cell]:
    """One a domain, method and rate, start or number of copies."""
    for domain in DOMAINS:
        for name, (*_, rates) in METHODS.items():
            for rate in rates:
                yield Cell(f"{domain}, {name}, rate {rate}", partial(_fixed, domain, name, rate))
        for name in OURS:
            for start in STARTS:
                yield Cell(f"{domain}, {name}, learnt from {start}", partial(_learnt, domain, name, start))
            yield Cell(f"{domain}, {name}, Beta prior", partial(_with_prior, domain, name))
            for copies in COPIES:
                yield Cell(f"{domain}, {name}, {copies} copies", partial(_copies, domain, name, copies))


def _of(results: Mapping[str, Any], domain: str, name: str, what: str, values: tuple[Any, ...]) -> dict[Any, Any]:
    """Results there are, by rate, start or number of copies; ``what`` is the end of their key."""
    keys = {value: f"{domain}, {name}, {what.format(value)}" for value in values}
    return {value: results[key] for value, key in keys.items() if key in results}


def _curves(results: Mapping[str, Any], domain: str) -> list[str]:
    found = {name: _of(results, domain, name, "rate {}", RATES) for name in METHODS}
    rows: list[list[Any]] = [
        [rate, *(f"{fits[rate]['test']:.2f}" if rate in fits else "" for fits in found.values())] for rate in RATES
    ]
    searched = {name: _searched(fits) for name, fits in found.items() if fits}
    chosen = {name: found[name][rate]["test"] for name, rate in searched.items()}
    times = {name: np.median([cell["fit"] for cell in fits.values()]) for name, fits in found.items() if fits}
    rows.append(["by validation", *(f"{chosen[n]:.2f} ({searched[n]})" if n in chosen else "" for n in METHODS)])
    rows.append(["median time of a fit", *(f"{1000 * times[n]:.0f} ms" if n in times else "" for n in METHODS)])
    honest = [(error, name) for name, error in chosen.items()]
    for name in OURS:
        learnt = _of(results, domain, name, "learnt from {}", STARTS).values()
        honest += [(max(cell["test"] for cell in learnt), f"**{name}, rates learnt**")] if learnt else []
    order = ", ".join(f"{name} ({error:.2f})" for error, name in sorted(honest))
    words = f"From least to largest error on {domain}, rates learnt or by validation: {order}."
    return [markdown([f"{domain}: rate", *METHODS], rows), words]


def _searched(fits: Mapping[float, Any]) -> float:
    """The rate with the least error over the folds of the training split."""
    return min(fits, key=lambda rate: fits[rate]["validation"])


def _wrong(cell: Mapping[str, Any]) -> np.ndarray:
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(cell["wrong"]), np.uint8))
    return 100.0 * bits[: int(cell["reviews"])]


def _learnt_row(results: Mapping[str, Any], domain: str, name: str) -> dict[str, Any] | None:
    """Learnt rates beside the fixed ones, by heading."""
    fixed, learnt = (_of(results, domain, name, *w) for w in (("rate {}", RATES), ("learnt from {}", STARTS)))
    if len(fixed) < len(RATES) or len(learnt) < len(STARTS):
        return None
    errors = [cell["test"] for cell in learnt.values()]
    best, searched = min(fixed, key=lambda rate: fixed[rate]["test"]), _searched(fixed)
    worst = max(learnt.values(), key=lambda cell: cell["test"])
    behind, spread = max(errors) - fixed[best]["test"], max(errors) - min(errors)
    paired = _wrong(worst) - _wrong(fixed[best])
    ends = [np.array(learnt[start]["rates"]) for start in (STARTS[0], STARTS[-1])]
    prior = results.get(f"{domain}, {name}, Beta prior")
    return {
        "flat prior": f"{domain}, {name}",
        "learnt, nine starts": " to ".join(dict.fromkeys((f"{min(errors):.2f}", f"{max(errors):.2f}"))),
        "largest difference of a rate": f"{np.abs(ends[0] - ends[1]).max():.0e}",
        "quartiles of the rates": " / ".join(f"{quartile:.2f}" for quartile in learnt[STARTS[4]]["quartiles"]),
        "best fixed rate, by test error": f"{fixed[best]['test']:.2f} at {best}",
        "validation error, learnt / that rate": f"{worst['validation']:.2f} / {fixed[best]['validation']:.2f}",
        "fixed rate by validation": f"{fixed[searched]['test']:.2f} at {searched}",
        "rate 0": f"{fixed[0.0]['test']:.2f}",
        "Beta prior around ½": f"{prior['test']:.2f} (strength {prior['strength']:g})" if prior else "",
        "learnt less the best (wanted: 0.3)": f"**{behind:+.2f}** ± {paired.std() / np.sqrt(len(paired)):.2f}, "
        f"{'reached' if behind <= 0.3 else 'missed'}",
        "spread over starts (wanted: 0.1)": f"**{spread:.2f}**, {'reached' if spread <= 0.1 else 'missed'}",
        "ahead": max(errors) < fixed[searched]["test"],
    }


def _corruption(results: Mapping[str, Any]) -> str:
    rows, ahead, slower = [], [], []
    for domain, name in itertools.product(DOMAINS, OURS):
        found = _of(results, domain, name, "{} copies", COPIES)
        closed = results.get(f"{domain}, {name}, rate {CORRUPTION_RATE}")
        if not found or not closed:
            continue
        errors = [f"{np.mean(found[copies]['test']):.2f}" if copies in found else "" for copies in COPIES]
        ahead.append(closed["test"] <= min(np.mean(cell["test"]) for cell in found.values()))
        slower.append(found[max(found)]["fit"] / closed["fit"])
        times = [f"{1000 * closed['fit']:.0f} ms", f"{slower[-1]:.0f} × at {max(found)}"]
        rows.append([f"{domain}, {name}", *errors, f"**{closed['test']:.2f}**", *times])
    table = markdown(["test error, %; M =", *COPIES, "closed form", "its time", "time of the copies"], rows)
    least, most = min(slower, default=0), max(slower, default=0)
    words = (
        f"The closed form has no larger error than any number of copies in {sum(ahead)} of {len(ahead)} cases; "
        f"the most copies take {least:.0f} to {most:.0f} times as long. It bounds the loss that copies tend to."
    )
    return f"{table}\n\n{words}"


def report(results: Mapping[str, Any]) -> str:
    """Curves, learnt rates beside them, explicit corruption, and what came of the wanted figures."""
    parts = ["Test error in percent (standard error of one: about 0.5 on books, 0.4 on kitchen; the rates share rows)."]
    parts += [part for domain in DOMAINS for part in _curves(results, domain)]
    rows = [row for domain in DOMAINS for name in OURS if (row := _learnt_row(results, domain, name))]
    if rows:
        ahead = sum(row.pop("ahead") for row in rows)
        near, still = (sum("reached" in list(row.values())[place] for row in rows) for place in (-2, -1))
        parts += [
            "Rates learnt with nothing tuned but `C`, beside the best of ten fixed rates, which no one knows without "
            "the test labels (difference with the standard error over paired reviews, of the worst start), and beside "
            "the rate that cross-validation takes:",
            markdown(list(rows[0]), [list(row.values()) for row in rows]),
            f"Learnt rates are within 0.3 points of the best fixed rate in {near} of {len(rows)} cases, independent of "
            f"the start in {still} of {len(rows)}, and better than the rate by cross-validation in {ahead}.",
        ]
    parts += [
        f"Explicit corruption at rate {CORRUPTION_RATE}, same `C`, mean over seeds (ten up to 16 copies, then three):",
        _corruption(results),
    ]
    return "\n\n".join(parts)
