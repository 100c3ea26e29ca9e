"""Simulation-based calibration under a spike-and-slab prior (Talts, Betancourt, Simpson, Vehtari & Gelman 2018).

Of features without noise, and of learnt dropout rates. 256 replications of 31 thinned draws. Ranks among equal values,
as of sizes and of weights that are zero, are drawn at random. The false-alarm rate of each loss is 1e-4, shared by its
quantities: each is tested in 8 cells, and by the first two Legendre polynomials of its ranks.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import bayesdrop as bd
from bayesdrop.posterior.problem import Problem
from bayesdrop.sampling.protocols import natural

FALSE_ALARM, REPLICATIONS, DRAWS, BURN, THIN = 1e-4, 256, 31, 50, 3
N, P = 20, 4
X = np.random.default_rng(11).normal(size=(N, P))
X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
LEARNT = bd.Normal(bd.HalfNormal(1.0))
CASES = {
    "logistic": (bd.Logistic(), LEARNT),
    "squared": (bd.Squared(variance=bd.InverseGamma(4.0, 3.0)), LEARNT),
    "negative binomial": (bd.NegativeBinomial(), bd.Normal(0.5)),
    "rates": (bd.Logistic(), LEARNT),
}
MASKS = np.array(list(np.ndindex(*(2,) * P)), dtype=float)


def simulated(kind, score, rng):
    """Responses, and the parameter of the likelihood if it has one."""
    if kind in ("logistic", "rates"):
        return np.where(rng.random(N) < expit(score), 1.0, -1.0), {}
    if kind == "squared":
        sigma = np.sqrt(3.0 / rng.gamma(4.0))
        return score + sigma * rng.normal(size=N), {"sigma": sigma}
    dispersion = rng.normal() ** -2.0
    return rng.negative_binomial(dispersion, expit(-score)).astype(float), {"dispersion": dispersion}


def log_likelihood(kind, y, score, values):
    if kind == "logistic":
        return -np.logaddexp(0, -y * score).sum()
    if kind == "squared":
        return stats.norm.logpdf(y, score, values["sigma"]).sum()
    return stats.nbinom.logpmf(y, values["dispersion"], expit(-score)).sum()


def summary(kind, y, weight, values, rate):
    """The quantities that are ranked."""
    if kind == "rates":
        chance = np.prod(np.where(MASKS > 0, 1 - rate, rate), axis=1)
        likelihood = np.log(expit(y[:, None] * ((X * weight) @ MASKS.T)) @ chance).sum()
        rates = {"rate": rate[0], "gain": (1 - rate[0]) * weight[0], "other": rate[1]}
        return values | rates | {"x0": weight[0], "x1": weight[1], "likelihood": likelihood}
    return values | {"x0": weight[0], "x1": weight[1], "likelihood": log_likelihood(kind, y, X @ weight, values)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_ranks_are_uniform(kind):
    (loss, slab), rng = CASES[kind], np.random.default_rng(12)
    prior = bd.SpikeSlab(bd.Beta(2.0, 2.0), slab=slab)
    rates = bd.PerFeature(bd.Beta(1, 3)) if kind == "rates" else bd.Fixed(0.0)
    model = bd.Model(loss, bd.Dropout(centre=None), rates, weight_prior=prior, fit_intercept=False)
    thin = 2 * THIN if kind == "rates" else THIN
    first = {"squared": rng.normal(size=N), "negative binomial": np.arange(N) % 4}.get(kind, np.arange(N) % 2)
    problem, ranks = Problem.of(model, X, first), {}
    with jax.enable_x64(False):
        kernel, operands = problem.bind(bd.Gibbs(), 10)
        step_of = jax.jit(kernel.step) if kind == "rates" else kernel.step
        for replication in range(REPLICATIONS):
            (weight,), drawn = prior.sample_weight(rng, 1, P)
            values = {name: float(part[0]) for name, part in drawn.items() if name != "included"}
            rate = rng.beta(1, 3, P) if kind == "rates" else np.zeros(P)
            y, more = simulated(kind, (X * (rng.random((N, P)) >= rate)) @ weight, rng)
            truth = summary(kind, y, weight, values | more, rate)
            rows = operands if kind == "rates" else operands.rows
            rows = rows._replace(target=jnp.asarray(y / problem.unit, rows.target.dtype))
            bound = rows if kind == "rates" else operands._replace(rows=rows)
            state, found = kernel.init(bound, jax.random.key(replication), 1), []
            for step in range(BURN + DRAWS * thin):
                state, record = step_of(bound, state)
                if step >= BURN and (step - BURN) % thin == 0:
                    draw = problem.in_response_units(natural({name: np.asarray(x) for name, x in record.items()}))
                    now = {name: float(draw[name][0]) for name in values | more}
                    found.append(summary(kind, y, draw["weight"][0].astype(float), now, draw.get("rate", [rate])[0]))
            for name, value in truth.items():
                others = np.array([one[name] for one in found])
                equal = np.abs(others - value) <= 1e-6 * abs(value)
                below = int(np.sum((others < value) & ~equal))
                ranks.setdefault(name, []).append(below + rng.integers(0, equal.sum() + 1))
    chances = {}
    for name, rank in ranks.items():
        u = (np.array(rank) + rng.random(REPLICATIONS)) / (DRAWS + 1) * 2 - 1
        cells = np.histogram(u, 8, (-1, 1))[0]
        slopes = REPLICATIONS * np.square([np.sqrt(3) * u.mean(), np.sqrt(5) * (1.5 * u * u - 0.5).mean()]).sum()
        chances[name] = min(stats.chisquare(cells).pvalue, stats.chi2.sf(slopes, 2))
    assert min(chances.values()) > FALSE_ALARM / (2 * len(chances)), chances
