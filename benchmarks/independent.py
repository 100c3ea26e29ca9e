"""Posteriors held to densities stated apart from the library: ``python -m benchmarks.independent``.

The feature-noising model is written down once more, in NumPy, with the masks of every row enumerated, and integrated by
importance sampling: weights from a t law around a pilot, rates from their prior. Each statistic is compared with the
exact one as ``z = (drawn − exact) / √(error² + error²)``; tail probabilities of rates, whose ends are what a
sampler gets wrong first, among them. Predicted probabilities and leave-one-out scores are compared as well, and so are
draws of the approximation with masks integrated, before and after :func:`bayesdrop.reweight`.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

import bayesdrop as bd

__all__ = ["main"]

Draws = dict[str, np.ndarray]
PROPOSALS, BLOCK, BATCHES = 2_000_000, 100_000, 20
NEW_ROWS = np.random.default_rng(9).normal(size=(5, 3))
VARIANCE = 0.5
LOSSES = {
    bd.Hinge: lambda y, s: np.maximum(0.0, 1.0 - y * s),
    bd.Logistic: lambda y, s: np.logaddexp(0.0, -y * s),
    bd.Squared: lambda y, s: 0.5 * (y - s) ** 2 / VARIANCE,
}


@dataclass(frozen=True)
class Case:
    """A posterior: model, data, and the free rate of each feature."""

    name: str
    model: Any
    X: np.ndarray
    y: np.ndarray
    index: tuple[int, ...]

    @property
    def binary(self) -> bool:
        """True if the responses are two classes."""
        return not isinstance(self.model.loss, bd.Squared)


def masked_scores(case: Case, draws: Draws, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log prior of each mask, (S, M), and the score of each row under each, (n, S, M)."""
    unbiased = case.model.noise.unbiased
    logit = draws["logit"][:, list(case.index)]
    log_drop, log_keep = special.log_expit(logit), special.log_expit(-logit)
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=X.shape[1])))
    weight = draws["weight"] * np.exp(-log_keep) if unbiased else draws["weight"]
    scores = np.array([(weight * x) @ masks.T + draws["intercept"][:, None] for x in X])
    return log_keep @ masks.T + log_drop @ (1 - masks).T, scores


def log_likelihood(case: Case, draws: Draws) -> np.ndarray:
    """``log p(y_i | w, b, η)``, every mask of every row summed: (n, S)."""
    loss = LOSSES[type(case.model.loss)]
    prior, scores = masked_scores(case, draws, case.X)
    return np.array(
        [special.logsumexp(prior - case.model.C * loss(y, s), axis=1) for s, y in zip(scores, case.y, strict=True)]
    )


def probabilities(case: Case, draws: Draws) -> np.ndarray:
    """Probability of the class +1 of new rows, every mask summed: (rows, S)."""
    loss, C = LOSSES[type(case.model.loss)], case.model.C
    prior, scores = masked_scores(case, draws, NEW_ROWS)
    # A logistic loss keeps its probability whatever C is; a pseudo-likelihood is normalised over the two classes.
    power = 1.0 if isinstance(case.model.loss, bd.Logistic) else C
    chance = special.expit(power * (loss(-1.0, scores) - loss(1.0, scores)))
    return np.sum(np.exp(prior) * chance, axis=2)


def log_gamma(generator: np.random.Generator, shape: Any, size: Any) -> np.ndarray:
    """Logarithms of Gamma variables, however small the shape: ``G(a) = G(a + 1) U^{1/a}``."""
    shape = np.broadcast_to(shape, size)
    return np.log(generator.gamma(shape + 1)) - generator.exponential(size=size) / shape


def proposals(case: Case, pilot: np.ndarray, generator: np.random.Generator, size: int) -> tuple[Draws, np.ndarray]:
    """Draws of all variables, and their log importance weights before the likelihood.

    Weights and intercept come from a t law with the moments of a pilot (S, p + 1), rates and groups from their priors:
    no tail of theirs is ever missed.
    """
    p, k = case.X.shape[1], max(case.index) + 1
    law = stats.multivariate_t(pilot.mean(axis=0), 1.5 * np.cov(pilot.T), df=4, seed=generator, allow_singular=True)
    theta = law.rvs(size)
    draws = {"weight": theta[:, :p], "intercept": theta[:, p]}
    log_weight = -0.5 * np.sum(theta[:, :p] ** 2, axis=1) - law.logpdf(theta)
    rates = case.model.rates
    if isinstance(rates, bd.Hierarchical):
        shape, scale = rates.strength_prior.shape, rates.strength_prior.scale
        a, b = rates.mean_prior.a, rates.mean_prior.b
        centre = log_gamma(generator, a, (size, 1)) - log_gamma(generator, b, (size, 1))
        log_strength = np.log(scale) + log_gamma(generator, shape, (size, 1))
        draws |= {"group_logit": centre, "group_strength": np.exp(log_strength)}
        a, b = (np.maximum(np.exp(special.log_expit(s * centre) + log_strength), 1e-200) for s in (1, -1))
    else:
        a, b = rates.prior.a, rates.prior.b
    draws["logit"] = log_gamma(generator, a, (size, k)) - log_gamma(generator, b, (size, k))
    return draws, log_weight


def statistics(draws: Draws) -> Draws:
    """What is compared, by name: (S,) each."""
    rate, weight = special.expit(draws["logit"]), draws["weight"]
    found = {"E w": weight[:, 0], "E w²": weight[:, 0] ** 2, "E b": draws["intercept"]}
    found |= {"E rate": rate[:, 0], "E rate w²": rate[:, 0] * weight[:, 0] ** 2}
    found |= {f"P(rate < {x:g})": (rate[:, 0] < x).astype(float) for x in (1e-6, 1e-3, 0.1)}
    found |= {f"P(rate > 1 − {x:g})": (draws["logit"][:, -1] > -special.logit(x)).astype(float) for x in (1e-6, 0.1)}
    if "group_logit" in draws:
        centre = special.expit(draws["group_logit"][:, 0])
        found |= {"P(group_rate < .02)": (centre < 0.02).astype(float), "E group_rate": centre}
        found["E log strength"] = np.log(draws["group_strength"][:, 0])
    return found


@dataclass(frozen=True)
class Exact:
    """What importance sampling found.

    Attributes
    ----------
    statistics : dict
        Posterior mean of each statistic and its standard error.
    probability, probability_error : array (rows,)
        Of the class +1 of the new rows.
    elpd : float
        Sum of the log leave-one-out predictive densities.
    """

    statistics: dict[str, tuple[float, float]]
    probability: np.ndarray
    probability_error: np.ndarray
    elpd: float


def exact(case: Case, pilot: np.ndarray, seed: int = 0, size: int = PROPOSALS) -> Exact:
    """Integrate over weights and rates by importance sampling."""
    generator = np.random.default_rng(seed)
    rows, weights, values, chances = [], [], [], []
    for _ in range(size // BLOCK):
        draws, log_weight = proposals(case, pilot, generator, BLOCK)
        rows.append(log_likelihood(case, draws))
        weights.append(log_weight + rows[-1].sum(axis=0))
        values.append(statistics(draws))
        if case.binary:
            chances.append(probabilities(case, draws))
    log_weight = np.concatenate(weights)
    share = special.softmax(log_weight)

    def moments(value: np.ndarray) -> tuple[float, float]:
        mean = float(share @ value)
        return mean, float(np.sqrt(share**2 @ (value - mean) ** 2))

    found = {name: moments(np.concatenate([part[name] for part in values])) for name in values[0]}
    chance = [moments(row) for row in np.concatenate(chances, axis=1)] if chances else []
    # p(y_i | the others) = Σ v / Σ v / p_i with the weights v of the whole posterior.
    density = np.concatenate(rows, axis=1)
    if not case.binary:
        density -= 0.5 * np.log(2 * np.pi * VARIANCE)
    elpd = len(density) * special.logsumexp(log_weight) - special.logsumexp(log_weight - density, axis=1).sum()
    print(f"  ({case.name}: {1 / np.sum(share**2):,.0f} effective of {len(share):,} exact draws)", file=sys.stderr)
    probability, error = np.array(chance).reshape(-1, 2).T
    return Exact(found, probability, error, float(elpd))


def stacked(post: Any) -> tuple[Draws, tuple[int, int]]:
    """Draws of a posterior, chains one after another, and the numbers of chains and draws."""
    group = bd.groups.dataset(post, "posterior")
    shape = group.sizes["chain"], group.sizes["draw"]
    flat = {name: np.asarray(group[name].values, float).reshape(shape[0] * shape[1], -1) for name in group.data_vars}
    with np.errstate(divide="ignore"):
        draws = {"weight": flat["weight"], "logit": special.logit(flat["rate"])}
        draws["intercept"] = flat["intercept"][:, 0] if "intercept" in flat else np.zeros(len(flat["weight"]))
        if "group_rate" in flat:
            draws |= {"group_logit": special.logit(flat["group_rate"]), "group_strength": flat["group_strength"]}
    return draws, shape


def compare(case: Case, post: Any, truth: Exact, sampler: str) -> None:
    """Print the largest z and the statistic that has it, with the tails of the first rate."""
    draws, shape = stacked(post)
    rows = []
    for name, value in statistics(draws).items():
        mean, error = truth.statistics[name]
        batches = value.reshape(shape[0] * BATCHES, -1).mean(axis=1)
        # A tail that holds no draw at all has the error of its exact probability.
        own = np.sqrt(mean * (1 - mean) / value.size) if np.ptp(value) == 0 else np.std(batches) / np.sqrt(len(batches))
        if own > 0 or error > 0:
            rows.append((abs(value.mean() - mean) / np.hypot(own, error), name, float(value.mean()), mean))
    z, name, drawn, mean = max(rows)
    tails = ", ".join(f"{row[1]} {row[2]:.3f} ({row[3]:.3f})" for row in rows if "rate <" in row[1])
    print(
        f"| {case.name} | {sampler} | {len(rows)} | **{z:.1f}** | {name}: {drawn:.4f} ({mean:.4f}) | {tails} |",
        flush=True,
    )


def cases() -> list[Case]:
    """Few rows, so that the prior is a good proposal, and priors that put mass at the ends."""
    generator = np.random.default_rng(0)
    signs = generator.choice([-1.0, 1.0], size=(30, 3))
    response = np.where(signs @ [0.8, 0.3, 0.0] + generator.normal(size=30) > 0, 1.0, -1.0)
    X = generator.normal(size=(12, 3))
    y = np.where(X @ [2.0, 0.5, -1.0] + generator.normal(size=12) > 0, 1.0, -1.0)
    each, groups, unbiased = (0, 1, 2), ["a", "b", "a"], bd.Dropout(unbiased=True)
    tails = bd.PerFeature(bd.Beta(0.05, 0.05)), bd.PerFeature(bd.Beta(0.1, 0.9)), bd.Shared(bd.Beta(0.2, 0.2))
    pooled, at_ends = bd.Hierarchical(["a"] * 3), bd.Hierarchical(["a"] * 3, bd.Beta(0.1, 0.4))
    few = bd.PerGroup(groups, bd.Beta(0.5, 5))
    squared = bd.Model(bd.Squared(VARIANCE), rates=pooled, weight_prior=bd.Normal(1.0))
    return [
        Case("squared, variance .5, hierarchy", squared, signs, response, each),
        Case("logistic, hierarchy, means Beta(.1, .4)", bd.Model(rates=at_ends), X, y, each),
        Case("logistic, per feature, Beta(.05, .05)", bd.Model(rates=tails[0]), X, y, each),
        Case("hinge, per feature, Beta(.1, .9)", bd.Model(bd.Hinge(), rates=tails[1]), X, y, each),
        Case("hinge, shared, Beta(.2, .2)", bd.Model(bd.Hinge(), rates=tails[2]), X, y, (0, 0, 0)),
        Case("logistic, groups, Beta(.5, 5)", bd.Model(rates=few), X, y, (0, 1, 0)),
        Case("hinge, unbiased, per feature", bd.Model(bd.Hinge(), noise=unbiased, rates=bd.PerFeature()), X, y, each),
    ]


def predicted(case: Case, post: Any, truth: Exact) -> str:
    """A row of what the library says of rows: largest error of a probability, and leave-one-out scores."""
    scores = "pseudo-likelihood"
    if case.model.loss.normalised:
        found = bd.loo(bd.log_likelihood(post, case.X, case.y))
        elpd = float(found.elpd if hasattr(found, "elpd") else found.elpd_loo)  # two lines of ArviZ
        scores = f"{elpd:.3f} ({truth.elpd:.3f})"
    if not case.binary:
        return f"| {case.name} | | | {scores} |"
    mean = bd.predict(post, NEW_ROWS).mean
    worst = int(np.argmax(np.abs(mean - truth.probability)))
    spread = float(truth.probability_error[worst])
    where = f"{mean[worst]:.4f} ({truth.probability[worst]:.4f} ± {spread:.4f})"
    return f"| {case.name} | {np.max(np.abs(mean - truth.probability)):.4f} | {where} | {scores} |"


def approximated() -> None:
    """Masks integrated as if scores were normal: draws, the same reweighted, and every mask summed."""
    print("| data | rate, `bd.HMC()` | rate, `bd.reweight` | exact | error, nats | Pareto k |")
    print("|---|---|---|---|---|---|")
    for n, C, seed in ((60, 2.0, 0), (60, 4.0, 0), (200, 1.0, 0), (200, 1.0, 1), (200, 1.0, 2)):
        generator = np.random.default_rng(seed)
        X, kept = generator.normal(size=(n, 3)), generator.random((n, 3)) >= 0.35
        score = (X * kept) @ np.array([2.0, -2.0, 2.0]) + 0.5 * generator.logistic(size=n)
        y = np.where(score > 0, 1.0, -1.0)
        case = Case(f"{n} × 3, C = {C:g}, seed {seed}", bd.Model(bd.Hinge(), rates=bd.Shared(), C=C), X, y, (0, 0, 0))
        post = bd.sample(case.model, X, y, draws=3000, chains=4, method=bd.HMC(correct=False), progress=False)
        pilot = stacked(bd.sample(case.model, X, y, draws=2000, chains=4, progress=False))[0]
        truth = exact(case, np.column_stack([pilot["weight"], pilot["intercept"]]), size=500_000)
        attrs = bd.groups.dataset(post, "posterior").attrs
        rate = float(bd.groups.dataset(post, "posterior")["rate"].mean())
        try:
            mended = bd.groups.dataset(bd.reweight(post, X, y), "posterior")
            after, k = f"{float(mended['rate'].mean()):.3f}", f"{mended.attrs['reweight_pareto_k']:.2f}"
        except ValueError as refusal:
            if "Pareto k" not in str(refusal):
                raise
            after, k = "refused", f"{attrs['approximation_pareto_k']:.2f}"
        mean, error = truth.statistics["E rate"]
        total = f"{attrs['approximation_total']:.1f}"
        print(f"| {case.name} | {rate:.3f} | {after} | {mean:.3f} ± {error:.3f} | {total} | {k} |", flush=True)


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    print("| posterior | sampler | statistics | largest z | where: drawn (exact) | tails of a rate: drawn (exact) |")
    print("|---|---|---|---|---|---|")
    rows = []
    for case in cases():
        posts = {
            method.dtype: bd.sample(
                case.model, case.X, case.y, draws=8000, chains=8, seed=1, method=method, progress=False
            )
            for method in (bd.Gibbs(), bd.Gibbs(dtype="float64"))
        }
        pilot, _ = stacked(posts["float64"])
        truth = exact(case, np.column_stack([pilot["weight"], pilot["intercept"]]))
        for dtype, post in posts.items():
            compare(case, post, truth, f"Gibbs, {dtype}")
        rows.append(predicted(case, posts["float64"], truth))
    print("\n| posterior | largest error of a probability | where: predicted (exact) | elpd, `bd.loo` (exact) |")
    print("\n".join(["|---|---|---|---|", *rows, ""]))
    approximated()


if __name__ == "__main__":
    main()
