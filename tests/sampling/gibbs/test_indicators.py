"""Draws of indicators beside learnt dropout rates against all models with all masks summed out.

Marginal likelihoods are in closed form for the squared loss, whose weights and rates are integrated for each set of
masks, and by a grid of weights and rates for the logistic and hinge losses. Means of draws are compared with their
exact values in units of their standard errors, from 20 batches; the false-alarm rate is 1e-4 for each set of means,
shared by its quantities.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.special import betaln, logsumexp, roots_jacobi

import bayesdrop as bd

FALSE_ALARM, BATCHES = 1e-4, 20

# Means are held to their standard errors, however few of the draws are effective.
pytestmark = pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")

RNG = np.random.default_rng(7)
X4 = RNG.normal(size=(4, 4))
X4[:, 1] = 0.9 * X4[:, 0] + 0.4 * X4[:, 1]
Y4 = 1.5 * X4[:, 0] - X4[:, 2] + 0.3 * RNG.normal(size=4)
RATE = bd.Beta(1, 3)


def sampled(model, X, y, draws=1000, **options):
    method = bd.Gibbs(dtype="float64")
    post = bd.sample(model, X, y, draws=draws, tune=50, method=method, progress=False, **options)
    return bd.groups.dataset(post, "posterior")


def scores(draws, exact):
    """Differences of means of draws (C, S, q) from exact ones (q,), in units of their standard errors."""
    draws = np.asarray(draws, dtype=np.float64)
    count = BATCHES // len(draws)
    size = draws.shape[1] // count
    means = draws[:, : size * count].reshape(BATCHES, size, -1).mean(axis=1)
    return (means.mean(axis=0) - exact) / (means.std(axis=0, ddof=1) / np.sqrt(len(means)) + 1e-12)


def assert_means(draws, exact, limit=None):
    limit = stats.t.isf(FALSE_ALARM / (2 * len(exact)), BATCHES - 1) if limit is None else limit
    z = scores(draws, exact)
    assert np.all(np.abs(z) < limit), (exact, z)


def quantities(post, p):
    """Inclusion, weights, rates and what the mean score has of each of ``p`` features, (C, S, q)."""
    names = ("included", "inclusion_probability", "weight")
    included, chance, weight = (post[name].values[..., :p].astype(float) for name in names)
    rate = post["rate"].values[..., :p] if "rate" in post else np.full_like(weight, 0.3)
    both = included[..., [0]] * included[..., [1]]
    return np.concatenate([included, chance, weight, weight**2, rate, (1 - rate) * weight, both], axis=2)


def sets_of(is_in, weight, square, rate):
    """The same, (m, q), of sets of masks (m, p), with the products of rates and weights at each set."""
    one = np.broadcast_to(np.array(is_in, dtype=float), weight.shape)
    return np.concatenate([one, one, weight, square, rate, (1 - rate) * weight, one[:, [0]] * one[:, [1]]], axis=1)


def known(chance):
    return lambda is_in: np.sum(np.where(is_in, np.log(chance), np.log1p(-np.asarray(chance))))


def every_mask(X, y, log_prior, learnt=True, scales=((1.2, 0.0),), always=None, precision=()):
    """Exact means of :func:`quantities`, then of the scale and of weights that are never dropped or excluded.

    All models and masks, weights and rates in closed form; variance 1. ``always`` (n, r) are columns of the others and
    ``precision`` their prior precisions, 0 if it is flat; ``scales`` are scales of the slab and their log densities.
    """
    n, p = X.shape
    always = np.zeros((n, 0)) if always is None else always
    r, masks = always.shape[1], np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    # Entries that are zero are neither dropped nor kept.
    drops = (1 - masks) @ (X != 0)
    kept = masks @ (X != 0)
    log_mask = betaln(1 + drops, 3 + kept) - betaln(1, 3) - np.log(2.0) * (X == 0).sum(axis=0)
    rate, prior_rate = (1 + drops) / (4 + drops + kept), 0.25
    if not learnt:
        log_mask, prior_rate = drops * np.log(0.3) + kept * np.log(0.7) - np.log(2.0) * (X == 0).sum(axis=0), 0.3
        rate = np.full(rate.shape, 0.3)
    logs, values = [], []
    for is_in, (sd, log_sd) in itertools.product(itertools.product([False, True], repeat=p), scales):
        inside, prior = np.flatnonzero(is_in), log_prior(np.array(is_in)) + log_sd
        if prior == -np.inf:
            continue
        chosen = np.array(list(itertools.product(range(2**n), repeat=len(inside))), dtype=int)
        chosen = chosen.reshape(2 ** (n * len(inside)), len(inside))
        Z = masks[chosen].transpose(0, 2, 1) * X[:, inside]
        Z = np.concatenate([Z, np.broadcast_to(always, (len(Z), n, r))], axis=2)
        P = np.append(np.full(len(inside), sd**-2.0), precision)
        covariance = np.linalg.inv(Z.transpose(0, 2, 1) @ Z + np.diag(P))
        u = np.einsum("mnk,n->mk", Z, y)
        mean = np.einsum("mjk,mk->mj", covariance, u)
        log = 0.5 * np.einsum("mk,mk->m", mean, u) + 0.5 * np.linalg.slogdet(covariance)[1]
        log = log - len(inside) * np.log(sd) + log_mask[chosen, inside].sum(axis=1) + prior
        weight, square, rates = np.zeros((3, len(chosen), p))
        weight[:, inside], rates[:] = mean[:, : len(inside)], prior_rate
        square[:, inside] = (mean**2 + np.diagonal(covariance, axis1=1, axis2=2))[:, : len(inside)]
        rates[:, inside] = rate[chosen, inside]
        total = logsumexp(log)
        parts = sets_of(is_in, weight, square, rates), np.full((len(mean), 1), sd), mean[:, len(inside) :]
        logs.append(total)
        values.append(np.exp(log - total) @ np.concatenate(parts, axis=1))
    return np.exp(np.array(logs) - logsumexp(logs)) @ np.array(values)


def squared(learnt=True, intercept=False, **prior):
    rates = bd.PerFeature(RATE) if learnt else bd.Fixed(0.3)
    return bd.Model(
        bd.Squared(variance=1.0), bd.Dropout(centre=None), rates, weight_prior=bd.SpikeSlab(**prior),
        fit_intercept=intercept,
    )  # fmt: skip


CHANCE = np.array([0.4, 0.5, 0.3, 0.6])
KNOWN = {"inclusion": CHANCE, "slab": bd.Normal(1.2)}


@pytest.mark.slow
@pytest.mark.parametrize("learnt", [True, False])
def test_draws_are_those_of_all_models_and_masks(learnt):
    post = sampled(squared(learnt, **KNOWN), X4, Y4, draws=1500)
    assert_means(quantities(post, 4), every_mask(X4, Y4, known(CHANCE), learnt)[:25])


@pytest.mark.slow
def test_draws_are_those_of_all_models_and_masks_over_100000_sweeps():
    post = sampled(squared(True, **KNOWN), X4, Y4, draws=25_000)
    assert_means(quantities(post, 4), every_mask(X4, Y4, known(CHANCE))[:25], 4.0)


@pytest.mark.slow
def test_a_learnt_scale_and_probability_beside_features_that_never_occur():
    """Sparse rows with zeros and an empty column, of which only the prior speaks; one feature is always in."""
    X = X4[:3, :3].copy()
    X[0, 1], X[2, 0] = 0.0, 0.0
    y = 2 * Y4[:3]
    whole = sparse.csr_array(np.insert(X, 1, 0.0, axis=1))
    model = squared(inclusion=bd.Beta(2.0, 3.0), slab=bd.Normal(bd.HalfNormal(1.0)), include=[3])
    post = sampled(model, whole, y, draws=1500)
    nodes = np.linspace(0.03, 4.5, 40)
    scales = tuple(zip(nodes, stats.halfnorm.logpdf(nodes), strict=True))

    def log_prior(is_in):
        count = np.count_nonzero(is_in[:2])
        return (
            np.logaddexp(*(betaln(2 + count + more, 3 + 3 - count - more) for more in (0, 1))) if is_in[2] else -np.inf
        )

    exact = every_mask(X, y, log_prior, scales=scales)
    order = post.isel(feature=[0, 2, 3])
    assert_means(np.concatenate([quantities(order, 3), post["weight_scale"].values[..., None]], axis=2), exact[:20])
    included = post["included"].values.astype(float)
    assert_means(included[..., [1]] - (2 + included[..., [0]] + included[..., [2]]) / 7, np.zeros(1))
    assert_means(
        post["inclusion_prior"].values[..., None] - (2 + included[..., :3].sum(axis=2, keepdims=True)) / 8, [0.0]
    )


@pytest.mark.slow
def test_a_feature_that_never_occurs_has_its_own_prior_in_every_chain():
    """As many chains as features."""
    whole = sparse.csr_array(X4 * [1, 0, 1, 1])
    draws = sampled(squared(inclusion=[0.2, 0.9, 0.5, 0.3]), whole, Y4, draws=20, chains=4)
    np.testing.assert_allclose(draws["inclusion_probability"].isel(feature=1), 0.9, rtol=1e-12)


@pytest.mark.slow
def test_random_terms_and_an_intercept_beside_dropped_entries():
    X, site = X4[:, :2], np.arange(4) % 2
    data = pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "site": np.array(["n", "s"])[site], "y": Y4 + site})
    model = squared(True, True, inclusion=0.4, slab=bd.Normal(1.2))
    post = sampled(model, "y ~ x0 + x1 + (1 | site)", data, draws=1500, random_scale=0.5)
    always = np.column_stack([site[:, None] == np.arange(2), np.ones(4)])
    exact = every_mask(X, Y4 + site, known(0.4), always=always, precision=[4.0, 4.0, 0.0])
    found = np.concatenate([quantities(post, 2), post["1|site"].values, post["intercept"].values[..., None]], axis=2)
    assert_means(found, np.delete(exact, 13))
    np.testing.assert_array_equal(post["model_size"], post["included"].sum("feature"))


LOSSES = {"logistic": bd.Logistic(), "hinge": bd.Hinge(), "unbiased": bd.Logistic(), "fixed": bd.Logistic()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOSSES)
def test_classes_against_a_grid(kind):
    """Gauss-Jacobi nodes of the rates, for which polynomials are exact; masks summed row by row."""
    loss, n = LOSSES[kind], 14
    X = np.random.default_rng(5).normal(size=(n, 2))
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    y = np.where(X[:, 0] + 0.5 * np.random.default_rng(6).normal(size=n) > 0, 1.0, -1.0)
    rates = bd.Fixed(0.3) if kind == "fixed" else bd.PerFeature(RATE)
    noise = bd.Dropout(centre=None, unbiased=kind == "unbiased")
    prior = bd.SpikeSlab(0.4, slab=bd.Normal(1.5))
    post = sampled(bd.Model(loss, noise, rates, weight_prior=prior, fit_intercept=False), X, y)
    places, masses = roots_jacobi(8 if kind != "unbiased" else 16, 2.0, 0.0)
    places, masses = (1 + places) / 2, masses / masses.sum()
    places, masses = (np.array([0.3]), np.ones(1)) if kind == "fixed" else (places, masses)
    nodes, logs, values = np.linspace(-7, 7, 31), [], []
    for is_in in itertools.product([False, True], repeat=2):
        inside = np.flatnonzero(is_in)
        grid = np.array(list(itertools.product(nodes, repeat=len(inside)))).reshape(31 ** len(inside), len(inside))
        weight, rate = np.zeros((len(grid), 2)), np.array(list(itertools.product(places, repeat=2)))
        weight[:, inside] = grid
        log_rate = np.log(np.array(list(itertools.product(masses, repeat=2)))).sum(axis=1)
        log_grid = stats.norm.logpdf(grid, scale=1.5).sum(axis=1) + len(inside) * np.log(nodes[1] - nodes[0])
        rows = np.zeros((n, len(grid), len(rate)))
        for mask in itertools.product([0.0, 1.0], repeat=2):
            chance = np.prod(np.where(mask, 1 - rate, rate), axis=1)
            gain = 1 / (1 - rate) if kind == "unbiased" else np.ones_like(rate)
            score = np.einsum("np,gp,rp->ngr", X * np.array(mask), weight, gain)
            cost = loss.value(np.broadcast_to(y[:, None, None], score.shape), score, np.zeros_like(score))
            rows += chance * np.exp(-cost)
        log = np.log(rows).sum(axis=0) + log_grid[:, None] + log_rate + known(0.4)(np.array(is_in))
        total = logsumexp(log)
        shape = (len(grid), len(rate), 2)
        pairs = [np.broadcast_to(part, shape).reshape(-1, 2) for part in (weight[:, None], rate[None])]
        logs.append(total)
        values.append(np.exp(log - total).ravel() @ sets_of(is_in, pairs[0], pairs[0] ** 2, pairs[1]))
    exact = np.exp(np.array(logs) - logsumexp(logs)) @ np.array(values)
    assert_means(quantities(post, 2), exact)
