"""Formulas without features: an intercept alone, effects of levels alone, and both, through every function."""

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma, logit, polygamma

import bayesdrop as bd
from bayesdrop.data.formulas.formula import encode_formula

GENERATOR = np.random.default_rng(2)
N = 48
TABLE = pd.DataFrame(
    {
        "size": GENERATOR.normal(size=N) + 2,
        "ill": GENERATOR.choice(["no", "yes"], N, p=[0.7, 0.3]),
        "kind": GENERATOR.choice(list("uvw"), N),
        "count": GENERATOR.poisson(3, N),
        "s": GENERATOR.integers(0, 5, N),
        "site": GENERATOR.choice(list("abc"), N),
        "days": GENERATOR.uniform(1, 2, N),
    }
)
MODELS = {
    "size": bd.Model(bd.Squared(), rates=bd.Fixed(0.2)),
    "ill": bd.Model(rates=bd.PerFeature(bd.Beta(1, 1))),
    "kind": bd.Model(bd.Softmax()),
    "count": bd.Model(bd.Poisson(), rates=bd.Fixed(0.2)),
    "s + {5 - s}": bd.Model(bd.Binomial(), rates=bd.Fixed(0.2)),
}
pytestmark = pytest.mark.filterwarnings("ignore")  # a few draws


def sampled(model, formula, method=None, draws=40, **options):
    options = {"draws": draws, "tune": 40, "chains": 2, "progress": False} | options
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        return bd.sample(model, formula, TABLE, method=method, **options)


@pytest.mark.slow
@pytest.mark.parametrize("right", ["1", "(1 | site)"])
@pytest.mark.parametrize("left", MODELS)
def test_every_function_takes_a_model_without_features(left, right, tmp_path):
    formula, model = f"{left} ~ {right}", MODELS[left]
    assert encode_formula(formula, TABLE).feature_names == encode_formula(f"{left} ~ 1 + {right}", TABLE).feature_names
    known = {"random_scale": 0.5} if "|" in right else {}
    fit = bd.fit(model, formula, TABLE, **known)
    bd.fit(formula, TABLE, **known)
    assert not fit.status.is_unfinished  # an intercept alone begins at its optimum
    fit.save(tmp_path / "fit.nc")
    np.testing.assert_array_equal(bd.Fit.load(tmp_path / "fit.nc").predict(TABLE).mean, bd.predict(fit, TABLE).mean)
    post = sampled(model, formula)
    bd.diagnose(post)
    if left != "s + {5 - s}":
        bd.elpd(fit, TABLE)
        bd.loo(bd.log_likelihood(post, TABLE))
    bd.posterior_predictive(post, TABLE)
    assert bd.draws_table(post).shape[0] == 80
    post.to_netcdf(tmp_path / "post.nc")
    np.testing.assert_array_equal(
        bd.predict(bd.groups.load(tmp_path / "post.nc"), TABLE).mean, bd.predict(post, TABLE).mean
    )
    for result in (fit, post):
        assert len(bd.weights_table(result)) == 0
    with pytest.raises(ValueError, match="the model has no features"):
        bd.marginal_effects(fit, TABLE)


def test_an_intercept_alone_is_the_response_s_own():
    np.testing.assert_allclose(bd.fit("size ~ 1", TABLE).intercept, TABLE["size"].mean(), rtol=1e-6)
    np.testing.assert_allclose(bd.fit("ill ~ 1", TABLE).intercept, logit((TABLE.ill == "yes").mean()), rtol=1e-5)
    rate = bd.fit(MODELS["count"], "count ~ 1 + offset(np.log(days))", TABLE).intercept
    np.testing.assert_allclose(rate, np.log(TABLE["count"].sum() / TABLE.days.sum()), rtol=1e-5)


def test_effects_alone_are_the_ridge_of_the_levels():
    """Of normal responses with an intercept that is not penalised, by the normal equations."""
    fit = bd.fit(MODELS["size"], "size ~ (1 | site)", TABLE, random_scale=0.5)
    Z = np.column_stack([np.ones(N), *(TABLE.site == level for level in "abc")])
    y = TABLE["size"].to_numpy()
    # The squared loss is half the square, so that a variance of 1 stands against 0.5².
    expected = np.linalg.solve(Z.T @ Z + np.diag([0, 4, 4, 4]), Z.T @ y)
    np.testing.assert_allclose([fit.intercept, *fit.weight], expected, rtol=1e-5)


@pytest.mark.parametrize(
    "method", [bd.Gibbs(), *(pytest.param(method, marks=pytest.mark.slow) for method in (None, bd.HMC(), bd.NUTS()))]
)
def test_an_intercept_alone_has_the_posterior_of_a_share(method):
    """Under a flat prior of the logit a share is Beta(s, f): moments of its logit are polygamma functions.

    False alarms at 5 standard errors, by the effective sample size: 2 in a million for each moment.
    """
    import arviz as az

    post = sampled(bd.Model(), "ill ~ 1", method, draws=3000, tune=300, seed=1)
    draws = post.posterior["intercept"].values
    s, f = (TABLE.ill == "yes").sum(), (TABLE.ill == "no").sum()
    mean, variance = digamma(s) - digamma(f), polygamma(1, s) + polygamma(1, f)
    assert abs(draws.mean() - mean) < 5 * np.sqrt(variance / az.ess(draws))
    square = (draws - mean) ** 2
    assert abs(square.mean() - variance) < 5 * square.std() / np.sqrt(az.ess(square))


@pytest.mark.slow
def test_other_doors_take_an_intercept_alone():
    assert encode_formula("~ 1", TABLE).X.shape == bd.from_formula("~ 1", TABLE).X.shape == (N, 0)
    assert encode_formula("size ~ 0 + (1 | site)", TABLE).has_intercept is False
    bd.kfold(bd.Model(), "ill ~ 1", TABLE, cv=3, draws=20, tune=20, chains=2, progress=False)
    bd.prior_draws(bd.Model(fit_intercept=False, rates=bd.Fixed(0.0)), "~ 0 + days", TABLE)


@pytest.mark.parametrize("formula", ["", "ill ~", "ill ~ 0", "ill ~ -1"])
def test_nothing_at_all_is_no_model(formula):
    with pytest.raises(ValueError, match="no terms"):
        bd.from_formula(formula, TABLE)


def test_features_that_are_no_columns_are_refused_as_before():
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        bd.fit(bd.Model(), np.empty((4, 0)), [0, 1, 0, 1])
