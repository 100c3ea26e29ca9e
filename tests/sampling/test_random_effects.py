"""Random intercepts and slopes: densities exactly, what samplers and scores make of them, and their prior.

Posteriors are calibrated in ``test_calibration.py``.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import bayesdrop as bd
from bayesdrop.fitting.by_formula import read_formula
from bayesdrop.hmc.binding import bind_density, bind_start
from bayesdrop.posterior.problem import Problem


def table(seed=0, sites=30, rows=10):
    generator = np.random.default_rng(seed)
    site = np.repeat(np.arange(sites), rows)
    X = generator.normal(size=(len(site), 2))
    score = 0.5 + X @ [1.0, -0.7] + 0.8 * generator.normal(size=sites)[site]
    ill = np.where(generator.random(len(site)) < expit(score), "yes", "no")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": [f"s{k:02d}" for k in site], "ill": ill})


MODELS = {
    "rates of features": bd.Model(),
    "rates of groups": bd.Model(rates=bd.PerGroup()),
    "fixed rates": bd.Model(rates=bd.Fixed(0.3)),
    "learnt scale of the features": bd.Model(weight_prior=bd.Normal(bd.HalfNormal(0.7))),
    "relative scale": bd.Model(weight_prior=bd.Normal(1.5, relative=True)),
}


def problem_of(model, data, scale=None):
    found = read_formula(model, "ill ~ a + b + (1 | site) + (0 + a | site)", data, None)
    if scale is not None:
        from dataclasses import replace

        found = found._replace(model=replace(found.model, weight_prior=replace(found.model.weight_prior, scale=scale)))
    return Problem.of(found.model, found.X, found.y, feature_names=found.feature_names)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_density_of_gradient_samplers_is_that_of_the_model(name):
    """Against sums over rows written out, at differences between points: masks integrated by the same quadrature."""
    data = table(3, sites=4, rows=6)
    found = problem_of(MODELS[name], data)
    model, rate_map = found.centring.model, found.rate_map
    with jax.enable_x64(True):
        bound = bind_start("HMC", model, found.data, rate_map, found.marginalised, "float64", "dense", rounded=False)
        generator = np.random.default_rng(0)
        point = jnp.asarray(0.3 * generator.normal(size=(5, len(bound.centre))))
        value = jax.jit(bound.density.evaluate)(bound.operands, point)
        density = np.asarray(value.prior - value.cost.sum(axis=1))
        theta, log_scale, jacobian = jax.jit(bound.density.place)(bound.operands, point)
        p, k = len(found.data.feature_names), rate_map.size
        w, b = np.asarray(theta[:, :p]), np.asarray(theta[:, p])
        u = np.asarray(theta[:, p + 1 :])
        rate = np.zeros((5, p))
        rate[:, :2] = 0.3 if k == 0 else stats.norm.cdf(u)
        mean = (w * (1 - rate)) @ found.data.X.T + b[:, None]
        var = (w**2 * rate * (1 - rate)) @ (found.data.X**2).T
        nodes, shares = np.polynomial.hermite_e.hermegauss(101)
        score = mean[..., None] + np.sqrt(var)[..., None] * nodes
        rows = expit(found.data.target[:, None] * score) @ (shares / shares.sum())
        t = np.asarray(log_scale)
        sd = np.ones((5, p))
        first = 1.5 / found.data.X[:, :2].std(axis=0) if name == "relative scale" else 1.0
        own = {"learnt scale of the features": np.exp(t[:, :1])}.get(name, np.ones((5, 1)) * first)
        sd[:, :2], sd[:, 2:6], sd[:, 6:] = own, np.exp(t[:, -2, None]), np.exp(t[:, -1, None])
        expected = np.log(rows).sum(axis=1) + stats.norm.logpdf(w, scale=sd).sum(axis=1) + np.asarray(jacobian)
        sizes = np.ones(t.shape[1])
        sizes[0] = 0.7 if name == "learnt scale of the features" else 1.0
        expected += (stats.halfnorm.logpdf(np.exp(t), scale=sizes) + t).sum(axis=1)
        expected += stats.norm.logpdf(u).sum(axis=1) if k else 0.0
    np.testing.assert_allclose(density - density[0], expected - expected[0], rtol=0, atol=2e-3)


@pytest.mark.slow
def test_rates_of_columns_without_noise_have_no_part():
    """With the columns at rate 0 the density is that of fixed rates, to rounding."""
    data = table(3, sites=4, rows=6)
    free, fixed = problem_of(bd.Model(), data, [0.5, 0.4]), problem_of(bd.Model(rates=bd.Fixed(0.25)), data, [0.5, 0.4])
    with jax.enable_x64(True):
        values = []
        for found in (free, fixed):
            density, operands = bind_density(
                "HMC", found.centring.model, found.data, found.rate_map, found.marginalised, "float64"
            )
            w = np.random.default_rng(0).normal(size=(3, 11))
            k = found.rate_map.size
            point = jnp.asarray(np.hstack([w, np.full((3, k), stats.norm.ppf(0.25))]))
            evaluation = jax.jit(density.evaluate)(operands, point)
            values.append(np.asarray(evaluation.cost))
            assert np.all(np.isfinite(evaluation.gradient))
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.Gibbs(), bd.HMC(), bd.NUTS()], ids=["gibbs", "hmc", "nuts"])
def test_samplers_keep_effects_without_noise(method):
    data = table(4, sites=5, rows=4)
    # NumPyro's own code promotes.
    promotion = jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow")
    with warnings.catch_warnings(), promotion[0], promotion[1]:
        warnings.simplefilter("ignore")
        post = bd.sample(
            bd.Model(), "ill ~ a + b + (1 | site)", data, method=method, draws=10, tune=10, chains=2, progress=False
        )
    found = bd.groups.dataset(post, "posterior")
    assert found["rate"].sizes == {"chain": 2, "draw": 10, "feature": 2}
    assert found["1|site"].sizes == {"chain": 2, "draw": 10, "site|level": 5}
    assert np.isfinite(bd.groups.dataset(bd.log_prior(post), "log_prior").to_array()).all()


@pytest.mark.parametrize(
    ("loss", "response"),
    [
        (bd.Softmax(), "kind"),
        pytest.param(bd.Poisson(), "count", marks=pytest.mark.slow),
        pytest.param(bd.Squared(variance=1.0), "b", marks=pytest.mark.slow),
        pytest.param(bd.Hinge(), "ill", marks=pytest.mark.slow),
    ],
)
def test_losses_of_every_kind_take_random_terms(loss, response):
    data = table(5, sites=5, rows=6)
    generator = np.random.default_rng(0)
    data = data.assign(kind=generator.choice(["u", "v", "w"], len(data)), count=generator.poisson(2.0, len(data)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = bd.sample(
            bd.Model(loss, rates=bd.Fixed(0.1)), f"{response} ~ a + (1 | site)", data, draws=10, tune=10, chains=2,
            progress=False,
        )  # fmt: skip
    many = {"class": 3} if loss.multiclass else {}
    sizes = {"chain": 2, "draw": 10, **many, "site|level": 5}
    assert bd.groups.dataset(post, "posterior")["1|site"].sizes == sizes
    assert np.all(np.isfinite(bd.predict(post, data.assign(site="new"), unseen="draw").mean))


@pytest.mark.slow
def test_reweighting_keeps_effects_by_level():
    data = table(6, sites=4, rows=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = bd.sample(
            bd.Model(), "ill ~ a + (1 | site)", data, method=bd.HMC(correct=False), draws=50, tune=50, chains=2,
            progress=False,
        )  # fmt: skip
        found = bd.groups.dataset(bd.reweight(post, data), "posterior")
    before = bd.groups.dataset(post, "posterior")
    assert {name: part.sizes for name, part in found.items()} == {name: part.sizes for name, part in before.items()}
    pairs = {tuple(row) for row in before["1|site"].values.reshape(100, -1).tolist()}
    kept = [tuple(row) in pairs for row in found["1|site"].values.reshape(100, -1).tolist()]
    assert np.mean(kept) > 0.3


# Draws from the prior: each law is refused with probability 1e-5 if it is right.


def prior(formula, model, draws=4000, **options):
    return bd.groups.dataset(bd.prior_draws(model, formula, table(sites=6), draws=draws, **options), "prior")


def test_effects_are_drawn_from_their_scale_and_the_scale_from_its_prior():
    """Effects over their scale are standard normal, and independent of it; slopes and a scale that is known too."""
    scales = {"1|site": bd.HalfCauchy(2.0), "b|site": 0.5}
    drawn = prior("ill ~ a + (1 | site) + (0 + b | site)", bd.Model(), intercept_scale=2.0, random_scale=scales)
    assert set(drawn) == {"weight", "intercept", "rate", "1|site", "1|site|scale", "b|site"}
    assert drawn["feature"].values.tolist() == ["a"]
    assert drawn["rate"].dims == ("chain", "draw", "feature")
    assert drawn["site|level"].values.tolist() == [f"s{k:02d}" for k in range(6)]
    scale, effects = drawn["1|site|scale"].values[0], drawn["1|site"].values[0]
    assert stats.kstest(scale, stats.halfcauchy(scale=2.0).cdf).pvalue > 1e-5
    standard = effects / scale[:, None]
    assert stats.kstest(standard.ravel(), "norm").pvalue > 1e-5
    assert abs(stats.spearmanr(np.abs(standard[:, 0]), scale).statistic) < 5 / np.sqrt(4000)
    assert abs(np.corrcoef(standard.T)[0, 1:]).max() < 5 / np.sqrt(4000)
    assert stats.kstest(drawn["b|site"].values.ravel() / 0.5, "norm").pvalue > 1e-5
    assert stats.kstest(drawn["weight"].values.ravel(), "norm").pvalue > 1e-5


def test_responses_of_the_prior_follow_the_effects_of_their_rows():
    """Of numbers with a known variance each draw's score is known: what is left is standard normal."""
    rows = table(sites=6)
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), fit_intercept=False)
    tree = bd.prior_draws(model, "~ 0 + a + (1 | site)", rows, draws=200, random_scale=bd.HalfNormal(3.0))
    drawn, y = bd.groups.dataset(tree, "prior"), bd.groups.dataset(tree, "prior_predictive")["y"].values[0]
    score = drawn["weight"].values[0, :, 0][:, None] * rows["a"].values
    score += drawn["1|site"].sel({"site|level": rows["site"].values}).values[0]
    assert stats.kstest((y - score).ravel(), "norm").pvalue > 1e-5


def test_the_default_scale_of_the_prior_is_that_of_the_posterior():
    rows = table(sites=6).assign(size=lambda frame: 30 * frame["b"])
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0))
    options = {"draws": 4000, "intercept_scale": 1.0}
    drawn = bd.groups.dataset(bd.prior_draws(model, "size ~ a + (1 | site)", rows, **options), "prior")
    law = stats.halfnorm(scale=rows["size"].std(ddof=0))
    assert stats.kstest(drawn["1|site|scale"].values.ravel(), law.cdf).pvalue > 1e-5
    with pytest.raises(ValueError, match="random_scale: by default it is in units of the response"):
        bd.prior_draws(model, "~ a + (1 | site)", rows, **options)
    without = rows.drop(columns="ill")  # classes have a scale without their labels
    tree = bd.prior_draws(bd.Model(), "ill ~ a + (1 | site)", without, **options)
    assert "1|site" in bd.groups.dataset(tree, "prior")
    with pytest.raises(ValueError, match="random_scale: .*leave it out"):
        bd.prior_draws(bd.Model(), rows[["a"]].to_numpy(), random_scale=1.0, **options)


def test_effects_of_classes_sum_to_zero_in_the_prior():
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0))
    drawn = prior("~ a + (1 | site)", model, intercept_scale=1.0, classes=["x", "y", "z"])
    effects, scale = drawn["1|site"].values[0], drawn["1|site|scale"].values[0]
    assert effects.shape == (4000, 3, 6)
    np.testing.assert_allclose(effects.sum(axis=1), 0.0, atol=1e-9)
    # A difference of two classes has twice the variance.
    apart = (effects[:, 0] - effects[:, 1]) / (np.sqrt(2) * scale[:, None])
    assert stats.kstest(apart.ravel(), "norm").pvalue > 1e-5
