"""Random terms beside ``bd.Laplace`` and ``bd.Horseshoe``: density, draws from the prior, posteriors, files and errors.

The density in the coordinates of the samplers is stated again by SciPy's laws. Posteriors are compared with NUTS on
NumPyro programs in units of both Monte Carlo errors: |z| < 4.5 for each mean and mean of squares, 7e-6 each under the
normal law and 70 of them, so that a case fails falsely with probability 5e-4.
"""

import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import bayesdrop as bd
from bayesdrop.fitting.by_formula import read_formula
from bayesdrop.hmc.binding import bind_start
from bayesdrop.posterior.problem import Problem
from bayesdrop.priors import RandomEffects

PRIORS = {"laplace": bd.Laplace(0.4), "horseshoe": bd.Horseshoe(0.3)}


def table(sites=5, rows=6, seed=0):
    generator = np.random.default_rng(seed)
    site = np.repeat(np.arange(sites), rows)
    a, b = generator.normal(size=(2, len(site)))
    score = 0.3 + a + 0.8 * generator.normal(size=sites)[site]
    y = score + generator.normal(size=len(site))
    ill = np.where(generator.random(len(site)) < expit(score), "yes", "no")
    return pd.DataFrame({"a": a, "b": b, "site": [f"s{k:02d}" for k in site], "y": y, "ill": ill})


def model_of(name, loss=None, **options):
    return bd.Model(bd.Logistic() if loss is None else loss, weight_prior=PRIORS[name], rates=bd.Fixed(0.0), **options)


def sampled(model, formula, data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.warnings.MixingWarning)
        return bd.sample(model, formula, data, progress=False, **{"draws": 20, "tune": 40, "chains": 2, **options})


def scales_by_scipy(name, s):
    """Scales of two weights whose distribution functions are those of normal variables."""
    if name == "laplace":
        return stats.expon(scale=2 * 0.4**2).isf(stats.norm.sf(s)) ** 0.5
    local = stats.halfcauchy.isf(stats.norm.sf(s))
    return local[:, :2] * 0.3 * local[:, 2:]


@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(
    ("name", "formula", "known"),
    [
        ("laplace", "ill ~ a + b + (1 | site)", None),
        ("horseshoe", "ill ~ a + b + (a || site)", None),
        ("laplace", "ill ~ a + b + (a | site)", None),
        ("horseshoe", "ill ~ a + b + (a | site)", 0.6),
        ("laplace", "ill ~ a + b + (1 | site)", 0.6),
    ],
)
def test_the_density_is_that_of_weights_scales_and_effects(name, formula, known, dense):
    """At points of the coordinates, up to one constant: laws of the natural variables and Jacobians."""
    data, levels = table(), 5
    read = read_formula(model_of(name), formula, data, None)
    if known is not None:
        prior = replace(read.model.weight_prior, scale=[known] * len(read.model.weight_prior.scale))
        read = read._replace(model=replace(read.model, weight_prior=prior))
    found = Problem.of(read.model, read.X, read.y, feature_names=read.feature_names)
    is_correlated, terms = "(a | site)" in formula, 1 if "(1" in formula else 2
    with jax.enable_x64(True):
        choice = "dense" if dense else "diagonal"
        bound = bind_start("HMC", found.centring.model, found.data, found.rate_map, True, "float64", choice)
        point = np.random.default_rng(1).normal(size=(6, len(bound.centre)))
        value = jax.jit(bound.density.evaluate)(bound.operands, jnp.asarray(point))
        drawn = jax.jit(bound.density.record)(bound.operands, jnp.asarray(point))
        ours = np.asarray(value.prior - value.cost.sum(axis=1))
    assert np.all(np.isfinite(value.gradient))
    # Coordinates: two weights, effects of one term after another, intercept; scales of weights, log σ, arctanh r.
    z, b, s = point[:, :2], point[:, 2 + terms * levels], point[:, 3 + terms * levels :]
    standard = point[:, 2 : 2 + terms * levels].reshape(6, terms, levels)
    m = 2 if name == "laplace" else 3
    tau = scales_by_scipy(name, s[:, :m])
    t = s[:, m : m + terms] if known is None else np.full((6, terms), np.log(known))
    r = np.tanh(s[:, -1]) if is_correlated else np.zeros(6)
    assert s.shape[1] == m + (terms if known is None else 0) + is_correlated
    w, effects = tau * z, np.exp(t)[..., None] * standard
    if terms == 2:
        effects[:, 1] = np.exp(t[:, 1:]) * (r[:, None] * standard[:, 0] + np.sqrt(1 - r[:, None] ** 2) * standard[:, 1])
    expected = stats.norm.logpdf(w, scale=tau).sum(axis=1) + np.log(tau).sum(axis=1)
    expected += stats.norm.logpdf(s[:, :m]).sum(axis=1)
    for i in range(6):
        sd = np.exp(t[i])
        cov = np.diag(sd) @ (np.eye(terms) + r[i] * (1 - np.eye(terms))) @ np.diag(sd)
        law = stats.multivariate_normal(np.zeros(terms), cov)
        expected[i] += np.sum(law.logpdf(effects[i].T.reshape(levels, terms)))
        expected[i] += levels * 0.5 * np.linalg.slogdet(cov)[1]  # of effects in terms of z
    if known is None:
        expected += (stats.halfnorm.logpdf(np.exp(t)) + t).sum(axis=1)
    if is_correlated:  # LKJ(2), and dr = (1 − r²) dy
        expected += (2 - 1) * np.log(1 - r**2) + np.log(1 - r**2)
    site, a = pd.factorize(data.site)[0], data.a.to_numpy()
    score = b[:, None] + w @ data[["a", "b"]].to_numpy().T + effects[:, 0, site]
    if terms == 2:
        score = score + effects[:, 1, site] * a
    expected += np.log(expit(np.where(data.ill == "yes", score, -score))).sum(axis=1)
    np.testing.assert_allclose(ours - ours[0], expected - expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(drawn["weight"], np.concatenate([w, effects.reshape(6, -1)], axis=1), rtol=1e-9)
    assert ("global_scale" in drawn) == (name == "horseshoe")
    assert ("log_weight_scale" in drawn) == (known is None)
    assert ("correlation" in drawn) == is_correlated


def test_draws_from_the_prior_have_its_laws():
    """Each law is refused with probability 1e-5 if it is right; those of a horseshoe are in tests/posterior."""
    model = model_of("laplace")
    tree = bd.prior_draws(model, "ill ~ a + b + (1 | site)", table(), draws=4000, intercept_scale=1.0)
    drawn = bd.groups.dataset(tree, "prior")
    weight, scale = drawn["weight"].values[0], drawn["1|site|scale"].values[0]
    assert drawn["weight"].dims == ("chain", "draw", "feature")
    assert drawn["feature"].values.tolist() == ["a", "b"]
    assert stats.kstest(scale, stats.halfnorm.cdf).pvalue > 1e-5
    assert stats.kstest((drawn["1|site"].values[0] / scale[:, None]).ravel(), "norm").pvalue > 1e-5
    assert stats.kstest(weight.ravel(), stats.laplace(scale=0.4).cdf).pvalue > 1e-5


CASES = [
    pytest.param("laplace", bd.Squared(), "y ~ a + b + (1 | site)", marks=pytest.mark.slow),
    ("laplace", bd.Logistic(), "ill ~ a + b + (a | site)"),
    ("horseshoe", bd.Logistic(), "ill ~ a + b + (a || site)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "loss", "formula"), CASES)
def test_from_a_formula_to_files_and_predictions(name, loss, formula, tmp_path):
    data, model = table(), model_of(name, loss)
    post = sampled(model, formula, data, draws=60, tune=100)
    assert post.attrs["method"].startswith("HMC(")
    draws = bd.groups.dataset(post, "posterior")
    assert draws["weight"].sizes == {"chain": 2, "draw": 60, "feature": 2}
    assert draws["1|site"].sizes == {"chain": 2, "draw": 60, "site|level": 5}
    assert {"1|site|scale", "intercept"} <= set(draws)
    assert ("global_scale" in draws) == (name == "horseshoe")
    assert ("1+a|site|correlation" in draws) == ("(a | site)" in formula)
    bd.groups.save(post, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    new = data[:2].assign(site=["other", "s00"])
    for options in ({"unseen": "draw"}, {"unseen": "population"}):
        one, two = (bd.predict(which, new, **options) for which in (post, again))
        np.testing.assert_array_equal(one.mean, two.mean)
        assert np.all(np.isfinite(one.mean))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.warnings.InfluenceWarning)
        assert np.isfinite(bd.loo(bd.log_likelihood(again, data)).elpd_loo)
    assert str(bd.diagnose(again))
    assert bd.weights_table(again).index.tolist()[:2] == ["a", "b"]
    constants = bd.groups.dataset(post, "constant_data")
    assert ("weight_scale" if name == "laplace" else "global_scale_median") in constants
    rows = bd.priors_table(model, formula, data)
    assert rows["family"].tolist()[:3] == [name, name, "normal"]
    if name == "horseshoe":
        with pytest.raises(ValueError, match="Horseshoe: the density of the weights has no closed form"):
            bd.log_prior(post)
        return
    terms = bd.groups.dataset(bd.log_prior(again), "log_prior")
    w, sd = draws["weight"].values.astype(float), draws["1|site|scale"].values.astype(float)
    expected = stats.laplace.logpdf(w, scale=0.4).sum(axis=-1)
    if "(1 | site)" in formula:
        expected += stats.norm.logpdf(draws["1|site"].values, scale=sd[..., None]).sum(axis=-1)
    else:
        u = np.stack([draws["1|site"].values, draws["a|site"].values], axis=-1).astype(float)
        sds = np.stack([sd, draws["a|site|scale"].values], axis=-1)
        r = draws["1+a|site|correlation"].values[..., 0].astype(float)
        for place in np.ndindex(r.shape):
            cov = np.outer(sds[place], sds[place]) * np.array([[1, r[place]], [r[place], 1]])
            expected[place] += stats.multivariate_normal([0, 0], cov).logpdf(u[place]).sum()
    found = terms["weight"].values
    np.testing.assert_allclose(found - found[0, 0], expected - expected[0, 0], rtol=1e-4, atol=1e-3)
    assert "weight_scale" in terms


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": bd.Model(weight_prior=bd.Laplace())}, r"rates: .*Laplace.* with random terms.*bd.Fixed\(0.0\)"),
        ({"method": bd.Gibbs()}, r"method: .*Laplace.* with random terms.*bd.HMC\(\) or bd.NUTS\(\)"),
        ({"model": model_of("laplace", bd.Softmax())}, r"weight_prior: with random terms Softmax.*bd.Normal"),
    ],
)
def test_what_is_not_taken_is_refused_with_advice(options, message):
    model = options.pop("model", model_of("laplace"))
    with pytest.raises(ValueError, match=message):
        sampled(model, "ill ~ a + (1 | site)", table(), **options)


def test_point_fits_and_priors_of_no_form_are_refused():
    for name in PRIORS:
        with pytest.raises(ValueError, match="weight_prior: with random terms a point fit takes bd.Normal"):
            bd.fit(model_of(name), "ill ~ a + (1 | site)", table())
    with pytest.raises(ValueError, match="weight_prior: with random terms the features need .*NonCentred"):
        RandomEffects(bd.HalfNormal(1.0), ["1|g"], [["a"]], [1.0])


@pytest.mark.slow
def test_correlated_effects_of_known_scales_are_sampled():
    """Their prior terms are those of the normal law of two effects."""
    formula, data = "y ~ a + (a | site)", table()
    post = sampled(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), formula, data, random_scale=0.7)
    draws = bd.groups.dataset(post, "posterior")
    assert "1|site|scale" not in draws
    terms = bd.groups.dataset(bd.log_prior(post), "log_prior")
    assert {"weight", "correlation"} <= set(terms)
    r = draws["1+a|site|correlation"].values[..., 0].astype(float)
    np.testing.assert_allclose(terms["correlation"].values, np.log(1 - r**2), rtol=1e-3, atol=1e-4)
