"""A prior that is not conjugate goes wherever a Beta goes: point fits, variational Bayes, draws, files, pictures."""

import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import integrate, special

import bayesdrop as bd
from bayesdrop import plots
from bayesdrop.data.dataset import as_dataset
from bayesdrop.posterior.arviz_groups.groups import dataset
from bayesdrop.posterior.draws.log_prior import drawn_prior_interval, prior_interval
from bayesdrop.variational_bayes.fitting import _problem, _start

NAMES = ["x0", "x1", "x2", "x3"]
PRIOR = bd.LogitNormal([-1.0, 0.0, 0.5, 2.0], [0.5, 1.5, 1.0, 2.0])
STRUCTURES = {
    "per feature": bd.PerFeature(PRIOR),
    "per group": bd.PerGroup(["a", "b", "a", "c"], bd.LogitNormal([-1.0, 0.0, 2.0], 0.7)),
    "shared": bd.Shared(bd.LogitNormal(-0.5, 0.4)),
}


@pytest.fixture(scope="module")
def problem():
    """Sixty rows; the last column is empty, so that its rate is the prior's."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    X[rng.random(X.shape) < 0.3] = 0
    X[:, 3] = 0
    return X, np.where(X @ [1.0, -0.7, 0.3, 0.0] + rng.normal(size=60) > 0, 1, -1)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("loss", [bd.Logistic(), bd.Hinge()], ids=["logistic", "hinge"])
def test_learnt_rates_solve_their_equation(problem, structure, loss):
    """``logit η = μ + σ² (n⁻ − nη)``, counts taken entry by entry at the signs of the fitted weights."""
    X, y = problem
    fit = bd.fit(bd.Model(loss, rates=STRUCTURES[structure]), X, y)
    assert fit.status.name == "CONVERGED"
    rate_map = fit.model.bind(NAMES)
    against = (y[:, None] * X * fit.weight < 0).sum(axis=0).astype(float)
    occurs = (X != 0).sum(axis=0).astype(float)
    dropped, total = (np.bincount(rate_map.index, part, rate_map.size) for part in (against, occurs))
    law, rate = rate_map.prior.law(total), fit.rate_posterior.mode
    np.testing.assert_array_equal(fit.rates, rate[rate_map.index])
    np.testing.assert_allclose(special.logit(rate), law.location + law.scale**2 * (dropped - total * rate), rtol=1e-9)
    low, high = fit.rate_posterior.interval(0.9)
    assert np.all((low < rate) & (rate < high))
    if structure == "per feature":
        assert fit.rate_posterior.never_seen == ["x3"]
        assert fit.rates[3] == pytest.approx(special.expit(2.0))
    assert "plug-in" in str(fit)
    assert {"rate_logit_mean", "rate_logit_scale", "rate_dropped", "rate_kept"} <= set(fit.to_dataset())


def test_a_flat_logit_normal_learns_shares(problem):
    """As ``σ → ∞`` the prior says nothing on the scale of the logit: the rate is the share of signs that disagree."""
    X, y = problem
    fit = bd.fit(bd.Model(rates=bd.PerFeature(bd.LogitNormal(0.0, 1e3))), X, y)
    share = (y[:, None] * X * fit.weight < 0).sum(axis=0)[:3] / (X != 0).sum(axis=0)[:3]
    np.testing.assert_allclose(fit.rates[:3], share, rtol=1e-5)


def test_one_against_the_rest(problem):
    X, _ = problem
    y = np.random.default_rng(1).integers(0, 3, size=60)
    model = bd.DropoutLogisticRegression(bd.PerFeature(PRIOR), multiclass="one_vs_rest").fit(X, y)
    assert model.rates_.shape == (3, 4)
    low, high = model.rate_posterior_.interval(0.8)
    assert np.all((low <= model.rate_posterior_.mode) & (model.rate_posterior_.mode <= high))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_the_bound_of_variational_bayes_never_falls(problem, structure, covariance):
    X, y = problem
    model = bd.Model(rates=STRUCTURES[structure])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.NarrowIntervalsWarning)
        result = bd.variational(model, X, y, covariance=covariance, n_init=2)
    assert result.status.name == "CONVERGED"
    assert np.all(np.diff(result.elbo_trace) > -1e-9 * np.abs(result.elbo))
    tree = result.to_arviz(400)
    rate = dataset(tree, "posterior")["rate"].values[0]
    error = rate.std(axis=0) / np.sqrt(400)
    assert np.all(np.abs(rate.mean(axis=0) - result.rate_posterior.mean) < 5 * error)
    assert "rate_prior_logit_mean" in dataset(tree, "constant_data")


def test_the_mean_fields_term_of_the_rates_is_its_integral(problem):
    """``E_q log p(η) − E_q log q(η)`` of each rate, by quadrature of the densities themselves."""
    X, y = problem
    model = bd.Model(rates=bd.PerFeature(PRIOR))
    data = as_dataset(X, y)
    rate_map = model.bind(NAMES)
    field = _start(_problem(model, data, rate_map, "full"), rate_map, 0, 1)
    x = np.linspace(-40, 40, 40_001)
    total = 0.0
    for j in range(4):
        prior = -0.5 * ((x - PRIOR.mean[j]) / PRIOR.scale[j]) ** 2 - np.log(PRIOR.scale[j] * np.sqrt(2 * np.pi))
        found = prior + field.rates.dropped[j] * -np.logaddexp(0, -x) + field.rates.kept[j] * -np.logaddexp(0, x)
        found -= np.log(integrate.trapezoid(np.exp(found - found.max()), x)) + found.max()
        total += integrate.trapezoid(np.exp(found) * (prior - found), x)
    assert field._rate_term() == pytest.approx(total, rel=1e-9)


def test_the_prior_is_drawn_stored_shown_and_read(problem, tmp_path):
    X, y = problem
    model = bd.Model(rates=bd.PerFeature(PRIOR), fit_intercept=False)
    drawn = dataset(bd.prior_draws(model, X, draws=2000), "prior")["rate"].values[0]
    place = (special.logit(drawn) - PRIOR.mean) / PRIOR.scale
    assert np.all(np.abs(place.mean(axis=0)) < 5 / np.sqrt(2000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.MixingWarning)  # 100 draws
        post = bd.sample(model, X, y, draws=100, tune=100, chains=2, method=bd.HMC(), progress=False)
    bd.groups.save(post, tmp_path / "post.nc")
    post = bd.groups.load(tmp_path / "post.nc")
    expected = special.expit(np.array(PRIOR.mean) + np.array(PRIOR.scale) * special.ndtri([[0.1], [0.9]]))
    np.testing.assert_allclose(drawn_prior_interval(post, 0.8), expected, rtol=1e-12)
    # A bare group has the description of its model.
    np.testing.assert_allclose(drawn_prior_interval(dataset(post, "posterior"), 0.8), expected, rtol=1e-12)
    fit = bd.fit(model, X, y)
    np.testing.assert_allclose(prior_interval(fit, 0.8), expected, rtol=1e-12)
    ax = plots.rates_forest(post, fit, probability=0.8, ax=Figure().add_subplot())
    np.testing.assert_allclose(sorted(bar.get_x() for bar in ax.patches), np.sort(expected[0]))
    assert bd.diagnose(post).n_rates == 4
