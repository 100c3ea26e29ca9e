"""Missing entries in posteriors: the draws are those of the same rows with the centres filled in, in every method."""

import warnings

import numpy as np
import pytest

import bayesdrop as bd

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 3)) + [0.0, 6.0, 0.0]
Y = (X[:, 0] + X[:, 1] - 6 > 0).astype(int)
HOLES = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
HOLES[3] = np.nan
MEAN = np.nanmean(HOLES, axis=0)
FILLED = np.where(np.isnan(HOLES), MEAN, X)
ABOUT = bd.Dropout(centre=MEAN)
SHORT = {"draws": 20, "tune": 20, "chains": 3, "progress": False}  # the program of test_thin.py

pytestmark = pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning")


def _weights(post):
    return bd.groups.dataset(post, "posterior")["weight"].values


@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.Gibbs(), bd.HMC(dtype="float64")], ids=["Gibbs", "HMC"])
def test_draws_and_what_is_made_of_them(method, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.ApproximationWarning)
        one = bd.sample(bd.Model(missing="nan"), HOLES, Y, method=method, **SHORT)
        two = bd.sample(bd.Model(noise=ABOUT), FILLED, Y, method=method, **SHORT)
    # The centres are the same but for rounding, and so are the first draws of a chain.
    np.testing.assert_allclose(_weights(one)[:, :2], _weights(two)[:, :2], rtol=1e-3)
    np.testing.assert_allclose(bd.groups.dataset(one, "constant_data")["centre"].values, MEAN, rtol=1e-12)
    bd.groups.save(one, tmp_path / "post.nc")
    one = bd.groups.load(tmp_path / "post.nc")
    # From here on the same draws, with rows of either kind.
    found = bd.predict(one, HOLES).mean
    np.testing.assert_allclose(found, bd.predict(one, FILLED).mean, rtol=1e-9)
    seen = [bd.posterior_predictive(one, rows, new=True, seed=1) for rows in (HOLES, FILLED)]
    drawn = [bd.groups.dataset(post, "predictions")["y"].values for post in seen]
    assert np.mean(drawn[0] == drawn[1]) > 0.5
    logs = [
        bd.groups.dataset(bd.log_likelihood(one, rows, Y), "log_likelihood")["y"].values for rows in (HOLES, FILLED)
    ]
    np.testing.assert_allclose(logs[0], logs[1], rtol=1e-8)
    np.testing.assert_allclose(bd.elpd(one, HOLES, Y).pointwise, bd.elpd(one, FILLED, Y).pointwise, rtol=1e-8)
    with pytest.raises(ValueError, match="infinity"):
        bd.predict(one, np.where(np.isnan(HOLES), np.inf, HOLES))


@pytest.mark.slow
def test_folds_of_a_posterior():
    options = {"cv": 2, "draws": 20, "tune": 20, "chains": 2, "progress": False}
    models = [
        bd.Model(bd.Squared(variance=1.0), noise=ABOUT, rates=bd.Fixed(0.2), missing=missing)
        for missing in ("nan", None)
    ]
    one, two = (bd.kfold(model, rows, Y * 1.0, **options) for model, rows in zip(models, (HOLES, FILLED), strict=True))
    np.testing.assert_allclose(one.pointwise, two.pointwise, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::bayesdrop.NarrowIntervalsWarning")
def test_mean_field():
    one = bd.variational(bd.Model(missing="nan"), HOLES, Y, n_init=1)
    two = bd.variational(bd.Model(noise=ABOUT), FILLED, Y, n_init=1)
    np.testing.assert_allclose(one.weight_mean, two.weight_mean, rtol=1e-3)


def test_prior_draws_and_a_posterior_that_takes_none():
    draws = bd.prior_draws(bd.Model(missing="nan"), HOLES, draws=5, intercept_scale=1.0)
    assert bd.groups.dataset(draws, "prior_predictive")["y"].shape == (1, 5, 40)
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.1)), X, Y)
    with pytest.raises(ValueError, match='X contains NaN.\nIf these entries are missing, missing="nan"'):
        bd.predict(fit, HOLES)
