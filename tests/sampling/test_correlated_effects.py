"""Correlated random intercepts and slopes, ``(x | g)``: density, draws, predictions, files and errors.

The density is that of NumPyro's program with ``LKJCholesky``, to 1e-10. Draws are compared with those of NUTS on the
program in units of both Monte Carlo errors: |z| < 4.5 for each mean and mean of squares, 7e-6 each under the normal law
and 86 of them, so that the test fails falsely with probability 6e-4.
"""

import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.infer.util import log_density
from scipy import stats

import bayesdrop as bd
from bayesdrop.fitting.by_formula import read_formula
from bayesdrop.hmc.binding import bind_start
from bayesdrop.models import varying_slopes
from bayesdrop.posterior.draws.draws import read_draws
from bayesdrop.posterior.draws.new_rows import for_rows, with_unseen
from bayesdrop.posterior.problem import Problem
from bayesdrop.priors import RandomEffects
from bayesdrop.priors.correlation import correlation_root, log_lkj, pairs_of, sample_lkj, symmetric

PLAIN = {"rates": bd.Fixed(0.0)}
UNITS = ("intercept", "deviation", "sigma")
FORMULA, TERM = "y ~ days + (days | subject)", "1+days|subject"


@pytest.fixture
def _numpyro_promotion():
    """NumPyro's own code needs both; the package's has neither."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def growth(subjects=18, days=10, seed=0, unit=1.0):
    """Reaction times of subjects without sleep, as in lme4's example."""
    generator = np.random.default_rng(seed)
    effect = generator.multivariate_normal([0, 0], [[625, 45], [45, 36]], subjects)
    subject, day = np.repeat(np.arange(subjects), days), np.tile(np.arange(float(days)), subjects)
    y = 250 + effect[subject, 0] + (10 + effect[subject, 1]) * day + 25 * generator.normal(size=len(day))
    return pd.DataFrame({"y": unit * y, "days": day, "subject": [f"s{k:02d}" for k in subject]})


def sampled(data, model=None, formula=FORMULA, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.warnings.MixingWarning)
        model = bd.Model(bd.Squared(), **PLAIN) if model is None else model
        return bd.sample(model, formula, data, progress=False, **{"draws": 20, "tune": 40, "chains": 2, **options})


POISSON = bd.Model(bd.Poisson(), weight_prior=bd.Normal(0.7), **PLAIN)
CASES = {
    "squared, sigma learnt": bd.Model(bd.Squared(variance=bd.HalfNormal(1.5)), weight_prior=bd.Normal(0.7), **PLAIN),
    "poisson": POISSON,
    "logistic": bd.Model(bd.Logistic(), weight_prior=bd.Normal(0.7), **PLAIN),
    "binomial": bd.Model(bd.Binomial(4), weight_prior=bd.Normal(0.7), **PLAIN),
    "negative binomial": bd.Model(bd.NegativeBinomial(2.5), weight_prior=bd.Normal(0.7), **PLAIN),
    "negative binomial, dispersion learnt": bd.Model(bd.NegativeBinomial(), weight_prior=bd.Normal(0.7), **PLAIN),
}
LAWS = {
    "poisson": lambda s: dist.Poisson(jnp.exp(s)),
    "logistic": lambda s: dist.Bernoulli(logits=s),
    "binomial": lambda s: dist.Binomial(4, logits=s),
    "negative binomial": lambda s: dist.NegativeBinomialLogits(2.5, s),
}


@pytest.mark.usefixtures("_numpyro_promotion")
@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_the_density_is_that_of_the_program(name, dense):
    """At points of the sampler's coordinates, in which the program states the same density up to a constant."""
    data, model = growth(4, 3), CASES[name]
    data["y"] = data.y / 100 if name.startswith("sq") else np.arange(12) % (2 if name == "logistic" else 3)
    with jax.enable_x64(True):
        read = read_formula(model, FORMULA, data, None)
        prior = replace(read.model.weight_prior, scale=[bd.HalfNormal(1.5)] * 2, eta=1.4)
        model = replace(read.model, weight_prior=prior)
        found = Problem.of(model, read.X, read.y, feature_names=read.feature_names)
        choice = "dense" if dense else "diagonal"
        rows = replace(found.data, target=found.data.target / found.unit)
        bound = bind_start("HMC", found.centring.model, rows, found.rate_map, True, "float64", choice)
        g, point = 4, 0.4 * np.random.default_rng(2).normal(size=(4, len(bound.centre)))
        value = jax.jit(bound.density.evaluate)(bound.operands, jnp.asarray(point))
        ours = np.asarray(value.prior - value.cost.sum(axis=1))
        at = jnp.asarray(data.days.to_numpy()), jnp.asarray(data.y.to_numpy())
        keywords = {"group": jnp.arange(12) // 3, "groups": g, "spread": 1.5, "scale": 0.7, "eta": 1.4,
                    "intercept_scale": None}  # fmt: skip

        @jax.jit
        def program(values, r):
            law = LAWS.get(name)
            if name.endswith("dispersion learnt"):
                law = lambda s: dist.NegativeBinomialLogits(r, s)  # noqa: E731
            return log_density(varying_slopes.program, at, {**keywords, "law": law}, values)[0]

        # Weight, effects of intercepts and of slopes, intercept, log σ or log r if it is learnt; log τ, arctanh r.
        theirs = []
        for row in point:
            z, t, y = row[1 : 1 + 2 * g].reshape(2, g).T, row[-3:-1], row[-1]
            values = {
                "weight": 0.7 * row[0], "intercept": row[1 + 2 * g], "deviation": jnp.exp(t), "standard": z,
                "root": correlation_root(jnp.array([y]), 2),
            }  # fmt: skip
            # Jacobians: w = 0.7 z, τ = e^t, r = tanh y; LKJCholesky is a density of the entries of row 2.
            jacobian, r = np.sum(t) - 2 * np.log(np.cosh(y)), 1.0
            if name.startswith("sq"):
                values["sigma"], jacobian = jnp.exp(row[2 + 2 * g]), jacobian + row[2 + 2 * g]
            if name.endswith("dispersion learnt"):  # r^{-1/2} is half-normal, and its logarithm is -1/2 log r
                r = np.exp(row[2 + 2 * g])
                jacobian += stats.halfnorm.logpdf(r**-0.5) - 0.5 * row[2 + 2 * g]
                values["intercept"] -= row[2 + 2 * g]  # the sampler's is that of the mean, r exp(score)
            # The sampler counts responses in units of their standard deviation if σ is learnt.
            values |= {name: values[name] * found.unit for name in UNITS if name in values}
            theirs.append(float(program(values, r)) + jacobian)
    np.testing.assert_allclose(ours - ours[0], np.array(theirs) - theirs[0], rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.usefixtures("_numpyro_promotion")
@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_prior_is_that_of_numpyro(k):
    """Density of the coordinates, and the correlations of its draws: KS tests, false-alarm rate 1e-6 each."""
    y = np.random.default_rng(k).normal(size=(5, k * (k - 1) // 2))
    law = dist.LKJCholesky(k, concentration=1.7)
    with jax.enable_x64(True):
        root = jnp.asarray(correlation_root(y, k))
        transform = dist.biject_to(law.support)

        @jax.jit
        def stated(y, root):
            return transform(y), law.log_prob(root) + transform.log_abs_det_jacobian(y, root)

        place, expected = (np.asarray(part) for part in stated(jnp.asarray(y), root))
        np.testing.assert_allclose(place, root, atol=1e-12)
    found = log_lkj(y, k, 1.7)
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-10, atol=1e-10)
    drawn = sample_lkj(np.random.default_rng(0), 4000, k, 1.7)
    pairs = pairs_of(drawn @ drawn.swapaxes(1, 2))
    shape = 1.7 + (k - 2) / 2  # of each correlation alone
    for column in pairs.T:
        assert stats.kstest((column + 1) / 2, stats.beta(shape, shape).cdf).pvalue > 1e-6
    np.testing.assert_allclose(symmetric(pairs[0], k), drawn[0] @ drawn[0].T, atol=1e-12)


@pytest.mark.slow
def test_the_unit_of_the_response_does_not_matter():
    one, other = (sampled(growth(6, 5, unit=unit), method=bd.HMC(dtype="float64")) for unit in (1.0, 1024.0))
    one, other = (bd.groups.dataset(post, "posterior") for post in (one, other))
    for name in one:
        factor = 1.0 if "correlation" in name else 1024.0
        np.testing.assert_allclose(other[name].values, factor * one[name].values, rtol=1e-9)


@pytest.mark.slow
def test_variables_have_the_names_of_terms_and_pairs():
    data = growth(6, 5)
    data["load"] = np.random.default_rng(3).normal(size=30)
    post = sampled(data, formula="y ~ days + (days + load | subject)")
    draws, term = bd.groups.dataset(post, "posterior"), "1+days+load|subject"
    assert draws[f"{term}|correlation"].dims == ("chain", "draw", f"{term}|pair")
    assert draws[f"{term}|pair"].values.tolist() == ["1,days", "1,load", "days,load"]
    assert {"1|subject|scale", "days|subject|scale", "load|subject|scale"} <= set(draws)
    matrix = symmetric(draws[f"{term}|correlation"].values, 3)
    assert np.linalg.eigvalsh(matrix).min() > 0
    assert float(bd.groups.dataset(post, "constant_data")[f"{term}|correlation_eta"]) == 2.0


@pytest.mark.slow
def test_files_predictions_and_new_subjects(tmp_path):
    data = growth(6, 10)
    post = sampled(data, draws=300, chains=2)
    bd.groups.save(post, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    new = pd.DataFrame({"days": [0.0, 9.0, 9.0], "subject": ["other", "other", "s00"]})
    for options in ({"unseen": "draw"}, {"unseen": "population"}):
        one, two = (bd.predict(which, new, **options) for which in (post, again))
        np.testing.assert_array_equal(one.mean, two.mean)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.warnings.InfluenceWarning)  # some rows of so few weigh much
        assert np.isfinite(bd.loo(bd.log_likelihood(again, data)).elpd_loo)
    assert "correlation" in bd.groups.dataset(bd.log_prior(again), "log_prior")
    # The effects of new subjects have the correlation of each draw: a mean of 600 standardised products, by 6 errors.
    many = pd.DataFrame({"days": np.zeros(400), "subject": [f"n{k}" for k in range(400)]})
    draws = for_rows(with_unseen(read_draws(again), "draw"), many)
    effects = draws.weight[:, 13:].reshape(draws.size, 2, 400)  # of one effect after another
    sd = draws.weight_scale
    r = draws.correlation[:, 0]
    product = np.mean(effects[:, 0] * effects[:, 1], axis=1) / (sd[:, 0] * sd[:, 1])
    error = np.sqrt((1 + r**2) / 400)
    assert abs(np.mean((product - r) / error)) < 6 / np.sqrt(draws.size)


@pytest.mark.parametrize(("shape", "eta"), [({}, 2.0), ({"correlation_shape": 4.5}, 4.5)], ids=["default", "stated"])
def test_the_prior_has_the_correlation(shape, eta):
    """Effects of draws from the prior: their correlations are LKJ, KS at 1e-6; and the table names it."""
    model, data = bd.Model(bd.Squared(), **PLAIN), growth(6, 5)
    tree = bd.prior_draws(model, FORMULA, data, draws=2000, intercept_scale=1.0, **shape)
    prior = bd.groups.dataset(tree, "prior")
    r = prior[f"{TERM}|correlation"].values.ravel()
    assert stats.kstest((r + 1) / 2, stats.beta(eta, eta).cdf).pvalue > 1e-6
    first, second = (
        prior[f"{name}|subject"].values / prior[f"{name}|subject|scale"].values[..., None] for name in ("1", "days")
    )
    product = np.mean(first * second, axis=-1).ravel()
    assert abs(np.mean((product - r) / np.sqrt((1 + r**2) / 6))) < 6 / np.sqrt(2000)
    table = bd.priors_table(model, FORMULA, data, **shape)
    assert table.loc[f"{TERM}|correlation", ["family", "scale"]].tolist() == ["lkj", f"eta {eta:g}"]


@pytest.mark.slow
def test_the_shape_of_the_correlations_is_that_of_the_posterior_and_its_file(tmp_path):
    data, shape = growth(6, 5), {"correlation_shape": 4.5}
    post = sampled(data, **shape)
    bd.groups.save(post, tmp_path / "post.nc")
    for one in (post, bd.groups.load(tmp_path / "post.nc")):
        assert float(bd.groups.dataset(one, "constant_data")[f"{TERM}|correlation_eta"]) == 4.5
        assert read_draws(one).model.weight_prior.eta == 4.5
    assert RandomEffects(bd.Normal(1.0), ["1|g"], [["a"]], [1.0]).eta == 2.0


@pytest.mark.parametrize(
    ("formula", "shape", "message"),
    [
        (FORMULA, 0.0, "correlation_shape: expected"),
        (FORMULA, "wide", "correlation_shape: expected"),
        ("y ~ days + (days || subject)", 1.0, r"correlation_shape: .*no term such as \(x \| site\).*leave it out"),
        ("y ~ days", 1.0, "correlation_shape: .*leave it out"),
    ],
)
def test_a_bad_shape_is_refused_by_every_function(formula, shape, message):
    model, data = bd.Model(bd.Squared(), **PLAIN), growth(4, 4)
    for call in (bd.sample, bd.prior_draws, bd.priors_table, bd.kfold):
        with pytest.raises((TypeError, ValueError), match=message):
            call(model, formula, data, correlation_shape=shape)
    with pytest.raises(ValueError, match="correlation_shape: it says how a formula is encoded"):
        bd.sample(model, np.ones((3, 1)), np.arange(3.0), correlation_shape=1.0)


COUNTED = {"binomial": bd.Binomial(), "negative binomial": bd.NegativeBinomial()}


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTED)
def test_counts_with_correlated_effects(name, tmp_path):
    """Draws, the rows' densities by SciPy's laws, predictions of subjects that are not there, and files."""
    generator, data = np.random.default_rng(5), growth(8, 6)
    effect = generator.multivariate_normal([0.0, 0.0], [[0.4, 0.05], [0.05, 0.02]], 8)
    score = 0.3 + 0.1 * data.days + (effect[np.arange(48) // 6] * np.stack([np.ones(48), data.days], 1)).sum(axis=1)
    if name == "binomial":
        data["y"] = generator.binomial(12, 1 / (1 + np.exp(-score)))
        data, formula = data.assign(n=12 - data.y), "y + n ~ days + (days | subject)"
    else:
        data["y"], formula = generator.poisson(np.exp(score) * generator.gamma(3.0, size=48)), FORMULA
    post = sampled(data, bd.Model(COUNTED[name], **PLAIN), formula, draws=100, tune=300)
    draws = bd.groups.dataset(post, "posterior")
    assert draws[f"{TERM}|correlation"].shape == (2, 100, 1)
    assert ("dispersion" in draws) == (name == "negative binomial")
    subject, day = pd.factorize(data.subject)[0], data.days.to_numpy()
    s = draws["intercept"].values[..., None] + draws["weight"].values * day
    s = s + draws["1|subject"].values[..., subject] + draws["days|subject"].values[..., subject] * day
    chance = 1 / (1 + np.exp(-s))
    if name == "binomial":
        expected = stats.binom.logpmf(data.y, 12, chance)
    else:
        expected = stats.nbinom.logpmf(data.y, draws["dispersion"].values[..., None], 1 - chance)
    found = bd.groups.dataset(bd.log_likelihood(post, data), "log_likelihood")["y"].values
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
    bd.groups.save(post, tmp_path / "post.nc")
    new = data[:2].assign(subject=["other", "s00"])
    one, two = (bd.predict(which, new, unseen="draw") for which in (post, bd.groups.load(tmp_path / "post.nc")))
    np.testing.assert_array_equal(one.mean, two.mean)
    assert one.sd[0] > one.sd[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": bd.Model(bd.Squared(), rates=bd.PerFeature())}, r"rates: .*1\+days\|subject.*bd.Fixed\(0.0\)"),
        ({"method": bd.Gibbs()}, r"method: .*correlated effects.*bd.HMC\(\) or bd.NUTS\(\)"),
        ({"formula": "y ~ (days + a + b + c | subject)"}, r"5 correlated effects, and 4 are the most; write .*\|\|"),
        ({"formula": "y ~ days + (days | subject) + (1 | subject)"}, "there twice"),
        ({"model": bd.Model(bd.Softmax(), **PLAIN)}, r"loss: .*write the term with \|\|"),
    ],
)
def test_what_is_not_taken_is_refused_with_advice(options, message):
    with pytest.raises(ValueError, match=message):
        sampled(growth(4, 4).assign(a=1.0, b=2.0, c=3.0), **options)


def test_a_point_fit_and_bad_priors_are_refused():
    with pytest.raises(ValueError, match=r"correlated, which bd.sample draws; for a point fit write .*\|\|"):
        bd.fit(bd.Model(bd.Squared(), **PLAIN), FORMULA, growth(4, 4), random_scale=1.0)
    levels, scales = [["a", "b"], ["a", "b"]], [bd.HalfNormal(1.0)] * 2
    for correlated, eta in (([["1|g"]], 2.0), ([["1|g", "z|g"]], 2.0), ([["1|g", "1|g"]], 2.0), ([["1|g", "x|g"]], 0)):
        with pytest.raises(ValueError, match="correlated: expected two to 4 terms|eta: expected"):
            RandomEffects(bd.Normal(1.0), ["1|g", "x|g"], levels, scales, correlated, eta)
