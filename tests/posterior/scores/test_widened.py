"""Draws beyond a sampler's: their density is the sampler's own, and their weights find what it missed."""

import warnings

import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.description import attributes
from bayesdrop.posterior.arviz_groups.groups import dataset
from bayesdrop.posterior.draws.draws import read_draws
from bayesdrop.posterior.scores.approximation_error import approximation_error, errors_of, likelihoods_of
from bayesdrop.posterior.scores.widened import widen

GRID = np.linspace(-6, 6, 4001)


def one_weight(model, weight):
    """Draws (S,) of the single weight of a model with fixed rates and without an intercept."""
    parts = {"weight": (("chain", "draw", "feature"), weight[None, :, None])}
    coords = {"chain": [0], "draw": np.arange(len(weight)), "feature": ["x0"]}
    return read_draws(bd.groups.assemble({"posterior": xr.Dataset(parts, coords)}, attributes(model)))


def narrow(loss, seed, n, rate):
    """Few rows, whose approximation sees one mode alone: model and data, and by quadrature both densities and T."""
    rng = np.random.default_rng(seed)
    X = 3 * rng.normal(size=(n, 1))
    y = 3.0 * X[:, 0] * (rng.random(n) > rate) + 0.3 * rng.normal(size=n)
    noise = bd.Dropout(centre=None)
    model = bd.Model(loss, noise, bd.Fixed(rate), C=4.0, weight_prior=bd.Normal(4.0), fit_intercept=False)
    there = one_weight(model, 4.0 * GRID)
    found = widen(there, None, 1, 0)
    exact, normal, _ = likelihoods_of(found, X, y, np.ones(n))[:, : len(GRID)]
    densities = [np.exp(part - part.max()) for part in (normal - 0.5 * GRID**2, exact - 0.5 * GRID**2)]
    return model, X, y, *(part / part.sum() for part in densities), exact - normal


def deviation(share, values):
    return np.sqrt(share @ (values - share @ values) ** 2)


@pytest.mark.parametrize(
    ("loss", "seed"), [(bd.Squared(variance=1.0), 26), (bd.Quantile(0.3, 1.0), 30), (bd.EpsilonInsensitive(0.3), 8)]
)
def test_what_the_approximation_missed_is_seen(loss, seed):
    """A weight of standard deviation .1 to .2 where it is 3.5, with an error of half a nat at its own draws.

    The distance is exceeded with a probability of 1e-6 (Dvoretzky, Kiefer & Wolfowitz, of the effective draws).
    """
    model, X, y, sampled, wanted, error = narrow(loss, seed, 6, 0.7)
    assert deviation(sampled, error) < 0.7
    assert deviation(wanted, error) > 4
    rng = np.random.default_rng(0)
    own = 4.0 * np.interp((rng.permutation(1000) + rng.random(1000)) / 1000, np.cumsum(sampled), GRID)
    draws = one_weight(model, own)
    at_own = errors_of(draws, X, y, np.ones(6)).sum(axis=1)
    assert np.std(at_own) < 0.7
    found = approximation_error(draws, as_dataset(X, y, None, None, False), None)
    assert found.total > 2
    widened = widen(draws, None, 1000, 0)
    share, k = widened.weights(likelihoods_of(widened, X, y, np.ones(6)))
    assert k < 0.5
    place = np.concatenate([part.weight[:, 0] for part in widened.sets])
    order = np.argsort(place)
    below = np.searchsorted(place[order], 4.0 * GRID, side="right")
    drawn = np.concatenate([[0.0], np.cumsum(share[order])])[below]
    effective = 1 / np.sum(share**2)
    assert effective > 200
    assert np.max(np.abs(drawn - np.cumsum(wanted))) < np.sqrt(np.log(2e6) / (2 * effective))


CASES = {
    "shared": bd.Model(rates=bd.Shared(bd.Beta(2, 3)), C=1.5),
    "relative, groups": bd.Model(
        bd.EpsilonInsensitive(0.2),
        rates=bd.PerGroup(["a", "b", "a"], bd.Beta([2.0, 0.7], 3.0)),
        weight_prior=bd.Normal(2.0, relative=True),
    ),
    "centred": bd.Model(bd.Hinge(), bd.Dropout(centre="mean")),
    "no intercept": bd.Model(bd.Hinge(), bd.Dropout(centre=None), bd.Fixed(0.3), fit_intercept=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_density_is_that_of_the_sampler(name):
    """Prior and likelihood under normal scores against the sampler's own, up to a constant; here two statements."""
    model, rng = CASES[name], np.random.default_rng(3)
    X, offset = rng.normal(size=(30, 3)) + 0.5, 0.3 * rng.normal(size=30)
    y = (X[:, 0] + offset > 0).astype(int) if model.loss.binary else X[:, 0] + rng.normal(size=30)
    weight = rng.integers(1, 3, 30).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        post = bd.sample(
            model, X, y, method=bd.HMC(dtype="float64", correct=False), draws=20, tune=20, chains=2, offset=offset,
            sample_weight=weight, progress=False,
        )  # fmt: skip
        exact = bd.reweight(post, X, y)
    draws, stats = read_draws(post), dataset(exact, "sample_stats")
    before, own = dataset(post, "sample_stats")["lp"].values, stats["source_draw"].values >= 0
    assert own.any()
    target = np.where(y > 0, 1.0, -1.0) if model.loss.binary else y
    centre = draws.model.noise.centre
    rows = X if centre is None else X - centre
    error = errors_of(draws, rows, target, weight, offset).sum(axis=1).reshape(before.shape)
    place = stats["source_chain"].values[own], stats["source_draw"].values[own]
    gap = stats["lp"].values[own] - (before + error)[place]
    np.testing.assert_allclose(gap, gap[0], atol=1e-6)


def test_the_density_of_scales_and_rates_is_that_of_scipy():
    """Of logarithms and probits, where the sampler has coordinates of its own."""
    from scipy.stats import beta, halfnorm, norm

    model = bd.Model(rates=bd.Shared(bd.Beta(2, 5)), weight_prior=bd.Normal(bd.HalfNormal(1.5), groups=list("uvv")))
    rng = np.random.default_rng(0)
    parts = {"weight": (("chain", "draw", "feature"), rng.normal(size=(2, 30, 3)))}
    parts |= {"weight_scale": (("chain", "draw", "weight_group"), rng.gamma(2, size=(2, 30, 2)))}
    parts |= {"rate": (("chain", "draw", "group"), rng.random((2, 30, 1)))}
    parts |= {"intercept": (("chain", "draw"), rng.normal(size=(2, 30)))}
    coords = {"chain": [0, 1], "draw": np.arange(30), "feature": list("abc"), "group": ["all"]}
    tree = bd.groups.assemble({"posterior": xr.Dataset(parts, coords)}, attributes(model))
    found = widen(read_draws(tree), bd.Beta(2, 5).law(np.zeros(1)), 20, 0)
    assert [part.size for part in found.sets] == [60, 20]
    scale, rate, weight = (
        np.concatenate([getattr(part, name) for part in found.sets]) for name in ("weight_scale", "free_rate", "weight")
    )
    rate = rate[:, 0]
    density = norm.logpdf(weight, scale=scale[:, [0, 1, 1]]).sum(axis=1)
    density += (halfnorm.logpdf(scale, scale=1.5) + np.log(scale)).sum(axis=1)
    density += beta.logpdf(rate, 2, 5) + norm.logpdf(norm.ppf(rate))
    gap = found.log_prior - density
    np.testing.assert_allclose(gap, gap[0], atol=1e-8)
    assert sorted(found.order) == list(range(80))
    assert np.all(np.diff([number // 30 for number in found.order if number < 60]) >= 0)
