"""Ten small posteriors with masks, held to the truth: ``python -m benchmarks.small_truth [only this in the name]``.

The density is written down once more, the ``2^p`` masks of every row enumerated, and drawn from by NumPyro's NUTS;
where there are three coordinates, two weights and a rate, it is summed on a grid too, which checks those draws. Held to
that are masks integrated as if scores were normal, the same draws reweighted, and masks drawn. Errors are in posterior
standard deviations of the truth, the largest over the rates of a problem (or their 5, 50 and 95 % quantiles, or the
weights); the Monte Carlo error of the difference stands beside those of means.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC, NUTS

import bayesdrop as bd
from bayesdrop._arviz import arviz

CHAINS, DRAWS, TRUTH_DRAWS, QUANTILES = 4, 5000, 8000, (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Problem:
    """Data, and what distinguishes a model: loss, free rate of each feature, scale of the weights, an intercept."""

    name: str
    loss: Any
    X: np.ndarray
    y: np.ndarray
    index: tuple[int, ...]
    scale: float
    intercept: bool = True

    @property
    def model(self) -> Any:
        """The model."""
        p, groups = self.X.shape[1], max(self.index) + 1
        rates = bd.PerGroup([f"g{j}" for j in self.index])
        rates = bd.Shared() if groups == 1 else bd.PerFeature() if groups == p else rates
        return bd.Model(self.loss, rates=rates, weight_prior=bd.Normal(self.scale), fit_intercept=self.intercept)


def problem(name: str, loss: Any, n: int, index: tuple[int, ...], scale: float, seed: int, **options: Any) -> Problem:
    """Labels from masks at a rate of .35; ``few``: rows of one to three entries, each 1."""
    generator, p, few = np.random.default_rng(seed), len(index), options.pop("few", False)
    X = generator.normal(size=(n, p))
    if few:
        X = np.array([generator.permutation(np.arange(p) < generator.integers(1, 4)) for _ in range(n)], float)
    kept = X * (generator.random((n, p)) >= 0.35)
    score = kept @ (2 * (-1.0) ** np.arange(p)) * min(scale, 1.5) + 0.5 * generator.logistic(size=n)
    return Problem(name, loss, X, np.where(score > 0, 1.0, -1.0), index, scale, **options)


def problems() -> list[Problem]:
    """The ten."""
    log, hinge = bd.Logistic(), bd.Hinge()
    return [
        problem("logistic, shared, 20 × 2", log, 20, (0, 0), 1.0, 0, intercept=False),
        problem("logistic, per feature, 30 × 3", log, 30, (0, 1, 2), 1.0, 1),
        problem("logistic, shared, few entries, 40 × 5", log, 40, (0,) * 5, 3.0, 2, few=True),
        problem("logistic, two groups, 40 × 4", log, 40, (0, 1, 0, 1), 2.0, 3),
        problem("logistic, per feature, scale 5, 40 × 3", log, 40, (0, 1, 2), 5.0, 4),
        problem("logistic, shared, scale .3, 10 × 5", log, 10, (0,) * 5, 0.3, 5),
        problem("hinge, shared, 20 × 2", hinge, 20, (0, 0), 1.0, 6, intercept=False),
        problem("hinge, per feature, 30 × 3", hinge, 30, (0, 1, 2), 1.0, 7),
        problem("hinge, two groups, few entries, 40 × 4", hinge, 40, (0, 1, 0, 1), 2.0, 8, few=True),
        problem("hinge, shared, scale 3, 40 × 5", hinge, 40, (0,) * 5, 3.0, 9),
    ]


def negative_log_density(case: Problem, theta: Any) -> Any:
    """Of weights, intercept and logits of the rates, every mask of every row summed."""
    p, masks = case.X.shape[1], jnp.asarray(list(itertools.product((0.0, 1.0), repeat=case.X.shape[1])))
    weight, logit = theta[:p], theta[p + case.intercept :]
    keep, drop = jax.nn.log_sigmoid(-logit[np.array(case.index)]), jax.nn.log_sigmoid(logit[np.array(case.index)])
    agreement = case.y[:, None] * ((case.X * weight) @ masks.T + (theta[p] if case.intercept else 0.0))
    log_kernel = -jnp.maximum(0.0, 1 - agreement)
    if isinstance(case.loss, bd.Logistic):
        log_kernel = jax.nn.log_sigmoid(agreement)
    rows = jax.nn.logsumexp(log_kernel + (masks @ keep + (1 - masks) @ drop)[None], axis=1)
    flat = jnp.sum(jax.nn.log_sigmoid(logit) + jax.nn.log_sigmoid(-logit))
    return 0.5 * jnp.sum(weight**2) / case.scale**2 - jnp.sum(rows) - flat


def truth(case: Problem) -> dict[str, np.ndarray]:
    """Draws of weights and rates, (chains, draws, …)."""
    p, k = case.X.shape[1], max(case.index) + 1
    kernel = NUTS(potential_fn=lambda theta: negative_log_density(case, theta), target_accept_prob=0.9)
    mcmc = MCMC(
        kernel, num_warmup=1000, num_samples=TRUTH_DRAWS, num_chains=CHAINS, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    start = 0.1 * jax.random.normal(jax.random.key(1), (CHAINS, p + case.intercept + k))
    mcmc.run(jax.random.key(0), init_params=start)
    theta = np.asarray(mcmc.get_samples(group_by_chain=True), float)
    return {"weight": theta[..., :p], "rate": 1 / (1 + np.exp(-theta[..., p + case.intercept :]))}


def on_a_grid(case: Problem) -> tuple[float, float]:
    """Mean and standard deviation of the rate where there are three coordinates, by a sum over 120³ points."""
    weight, logit = np.linspace(-6, 6, 120) * case.scale, np.linspace(-12, 10, 160)
    points = jnp.asarray(np.stack(np.meshgrid(weight, weight, logit, indexing="ij"), axis=-1).reshape(-1, 3))
    found = jax.lax.map(lambda theta: negative_log_density(case, theta), points, batch_size=20_000)
    share, rate = jax.nn.softmax(-found), jax.nn.sigmoid(points[:, 2])
    mean = float(share @ rate)
    return mean, float(jnp.sqrt(share @ (rate - mean) ** 2))


def drawn(post: Any) -> dict[str, np.ndarray]:
    """Draws of weights and rates, (chains, draws, …)."""
    group = bd.groups.dataset(post, "posterior")
    both = {name: np.asarray(group[name].transpose("chain", "draw", ...).values, float) for name in ("weight", "rate")}
    return {name: part.reshape(*part.shape[:2], -1) for name, part in both.items()}


@dataclass(frozen=True)
class Errors:
    """Largest errors in posterior standard deviations: of mean and quantiles of the rates, and of mean weights."""

    rate: float
    noise: float
    quantile: float
    weight: float


def errors(found: dict[str, np.ndarray], exact: dict[str, np.ndarray]) -> Errors:
    """Of some draws."""
    ess = arviz().ess
    means, noise, quantiles = [], [], []
    for j in range(exact["rate"].shape[2]):
        a, b = found["rate"][..., j], exact["rate"][..., j]
        means.append(abs(a.mean() - b.mean()) / b.std())
        noise.append(np.sqrt(1 / float(ess(a, method="mean")) + 1 / float(ess(b, method="mean"))))
        quantiles.append(np.max(np.abs(np.quantile(a, QUANTILES) - np.quantile(b, QUANTILES))) / b.std())
    worst = int(np.argmax(means))
    weights = [np.mean(part["weight"], axis=(0, 1)) for part in (found, exact)]
    weight = np.max(np.abs(weights[0] - weights[1]) / exact["weight"].std(axis=(0, 1)))
    return Errors(means[worst], noise[worst], max(quantiles), float(weight))


def samplers(case: Problem) -> list[Errors | str]:
    """Errors of the three, or why there are no draws; the second with its Pareto k."""
    exact = truth(case)
    if exact["weight"].shape[2] + exact["rate"].shape[2] == 3 and not case.intercept:
        (mean, sd), rate = on_a_grid(case), exact["rate"]
        print(f"  ({case.name}: {rate.mean():.4f}, sd {rate.std():.4f}; on a grid {mean:.4f}, {sd:.4f})", flush=True)

    def draw(method: Any) -> Any:
        return bd.sample(case.model, case.X, case.y, method=method, draws=DRAWS, chains=CHAINS, seed=1, progress=False)

    nearly = draw(bd.HMC(correct=False))
    found: list[Errors | str] = [errors(drawn(nearly), exact)]
    for attempt in (
        lambda: bd.reweight(nearly, case.X, case.y),
        lambda: draw(bd.Gibbs()),
    ):
        try:
            post = attempt()
        except ValueError as refusal:
            if not str(refusal).startswith(("masks:", "post:")):
                raise
            found.append("refused")
            continue
        found.append(errors(drawn(post), exact))
        if len(found) == 2:
            found.append(f"{bd.groups.dataset(post, 'posterior').attrs['reweight_pareto_k']:.2f}")
    if len(found) == 3:
        found.insert(2, "above 1")
    return found


def main() -> None:
    """Print the two tables."""
    warnings.simplefilter("ignore")
    chosen = [case for case in problems() if all(part in case.name for part in sys.argv[1:])]
    found = {}
    print("| problem | `bd.HMC()` | `bd.reweight` | Pareto k | `bd.Gibbs()` |")
    print("|---|---|---|---|---|")
    for case in chosen:
        with jax.enable_x64(True):
            row = found[case.name] = samplers(case)
        cells = [part if isinstance(part, str) else f"{part.rate:.2f} ± {part.noise:.2f}" for part in row]
        print(f"| {case.name} | {' | '.join(cells)} |", flush=True)
    print("\n| problem | `bd.HMC()` | `bd.reweight` | `bd.Gibbs()` |")
    print("|---|---|---|---|")
    for name, row in found.items():
        kept = [part for j, part in enumerate(row) if j != 2]
        cells = [part if isinstance(part, str) else f"{part.quantile:.2f}, {part.weight:.2f}" for part in kept]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
