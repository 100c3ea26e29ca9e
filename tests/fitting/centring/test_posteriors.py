"""Noise about a centre in posteriors: that of shifted columns in the user's units, and every mask written out."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.warnings import NarrowIntervalsWarning

CENTRE = (11.0, -38.0, 0.5)
RATES = bd.Fixed([0.3, 0.1, 0.5])
ABOUT = bd.Model(noise=bd.Dropout(centre=CENTRE), rates=RATES)
ZERO = bd.Model(noise=bd.Dropout(centre=None), rates=RATES)


def sample(model, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws are enough for what is exact
        return bd.sample(model, X, y, draws=20, tune=20, chains=2, progress=False, **options)


@pytest.fixture(scope="module")
def pair(far):
    """Posteriors of the model about a centre and of plain dropout on shifted columns, from one seed."""
    X, y = far
    return sample(ABOUT, X, y, log_likelihood=True), sample(ZERO, X - CENTRE, y, log_likelihood=True)


def group(post, name):
    return bd.groups.dataset(post, name)


@pytest.mark.slow
def test_draws_are_those_of_shifted_columns(pair):
    about, zero = (group(post, "posterior") for post in pair)
    np.testing.assert_allclose(about["weight"], zero["weight"], rtol=1e-3, atol=1e-4)
    moved = zero["intercept"].values.astype(float) - zero["weight"].values.astype(float) @ np.array(CENTRE)
    np.testing.assert_allclose(about["intercept"], moved, rtol=1e-13)
    np.testing.assert_array_equal(group(pair[0], "constant_data")["centre"], CENTRE)
    assert about.attrs["centred"] == "noise about a centre in all 3 columns"
    assert "centre" not in group(pair[1], "constant_data")
    assert "centred" not in group(pair[1], "posterior").attrs


@pytest.mark.slow
def test_the_log_likelihood_sums_over_masks_about_the_centre(pair, far, enumerated):
    X, y = far
    posterior, stored = group(pair[0], "posterior"), group(pair[0], "log_likelihood")["y"].values
    again = group(bd.log_likelihood(pair[0], X, y), "log_likelihood")["y"].values
    for chain, draw in ((0, 0), (1, 19)):
        one = posterior.isel(chain=chain, draw=draw)
        weight, intercept = one["weight"].values.astype(float), float(one["intercept"])
        score, chance = enumerated(X, weight, intercept, np.array(CENTRE), np.array([0.3, 0.1, 0.5]))
        exact = np.log((1 / (1 + np.exp(-(2 * y - 1)[:, None] * score))) @ chance)
        np.testing.assert_allclose(stored[chain, draw], exact, rtol=1e-10)
        np.testing.assert_allclose(again[chain, draw], exact, rtol=1e-10)


@pytest.mark.slow
def test_what_takes_a_posterior_takes_the_same_centre(pair, far, tmp_path):
    X, y = far
    shifted = X - CENTRE
    bd.groups.save(pair[0], tmp_path / "post.nc")
    for about in (pair[0], bd.groups.load(tmp_path / "post.nc")):
        for corrupted in (False, True):
            one = bd.predict(about, X, corrupted_inputs=corrupted)
            two = bd.predict(pair[1], shifted, corrupted_inputs=corrupted)
            np.testing.assert_allclose(one.mean, two.mean, atol=1e-12)
            np.testing.assert_allclose(one.low, two.low, atol=1e-12)
        simulate = partial(bd.posterior_predictive, seed=3)
        one, two = (
            group(simulate(p, rows), "posterior_predictive")["y"] for p, rows in ((about, X), (pair[1], shifted))
        )
        np.testing.assert_array_equal(one, two)
        for rows in (sparse.csr_array(X), bd.Blocks([X[:20], X[20:]]), bd.Blocks([sparse.csr_array(X)])):
            np.testing.assert_allclose(bd.predict(about, rows).mean, bd.predict(pair[1], shifted).mean, atol=1e-12)


def test_auto_is_stored_as_numbers(far):
    X, y = far
    post = sample(bd.Model(rates=RATES), X, y)
    expected = [X[:, 0].mean(), X[:, 1].mean(), 0.0]
    np.testing.assert_allclose(group(post, "constant_data")["centre"], expected, rtol=1e-13)
    given = sample(bd.Model(noise=bd.Dropout(centre=expected), rates=RATES), X, y)
    # Rows to be predicted do not move it.
    np.testing.assert_allclose(bd.predict(post, X[:3] + 5).mean, bd.predict(given, X[:3] + 5).mean, rtol=1e-12)


def test_relative_prior_is_stored_with_absolute_scales(far):
    X, y = far
    sd = X.std(axis=0)
    relative = sample(
        bd.Model(noise=bd.Dropout(centre=CENTRE), rates=RATES, weight_prior=bd.Normal(0.7, relative=True)), X, y
    )
    absolute = sample(bd.Model(noise=bd.Dropout(centre=CENTRE), rates=RATES, weight_prior=bd.Normal(0.7 / sd)), X, y)
    np.testing.assert_allclose(group(relative, "constant_data")["weight_precision"], (sd / 0.7) ** 2, rtol=1e-12)
    np.testing.assert_allclose(
        group(relative, "posterior")["weight"], group(absolute, "posterior")["weight"], rtol=1e-3, atol=1e-4
    )


@pytest.mark.slow
def test_the_error_of_integrated_masks_and_its_weights_are_those_of_shifted_columns(far):
    X, y = far
    method = bd.HMC(correct=False)
    found = [sample(model, rows, y, method=method) for model, rows in ((ABOUT, X), (ZERO, X - CENTRE))]
    attrs = [group(post, "posterior").attrs for post in found]
    for name in ("approximation_error", "approximation_total", "approximation_pareto_k"):
        np.testing.assert_allclose(attrs[0][name], attrs[1][name], rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        about, zero = (bd.reweight(post, rows, y) for post, rows in zip(found, (X, X - CENTRE), strict=True))
    np.testing.assert_allclose(
        group(about, "posterior")["weight"], group(zero, "posterior")["weight"], rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(group(about, "sample_stats")["lp"], group(zero, "sample_stats")["lp"], rtol=1e-6)
    np.testing.assert_allclose(bd.predict(about, X).mean, bd.predict(zero, X - CENTRE).mean, atol=1e-10)


def test_a_checkpoint_of_another_centre_is_refused(far, tmp_path):
    X, y = far
    sample(ABOUT, X, y, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match=r"model\.noise\.centre"):
        sample(bd.Model(noise=bd.Dropout(centre=(11.0, -38.0, 0.0)), rates=RATES), X, y, checkpoint=tmp_path / "run")


@pytest.mark.slow
def test_under_numpyro_the_intercept_is_the_users(far):
    import jax

    X, y = far
    found = []
    for centre, rows in ((CENTRE, X), (None, X - CENTRE)):
        kernel = bd.NumpyroKernel(bd.Model(noise=bd.MultiplicativeNoise(0.5, centre=centre)), rows, y)
        start = kernel.init(jax.random.split(jax.random.key(0), 2), 5, None, (), {})
        found.append(kernel.sample(start, (), {}).z)
    about, zero = ({name: np.asarray(value, dtype=float) for name, value in z.items()} for z in found)
    np.testing.assert_allclose(about["weight"], zero["weight"], rtol=1e-3, atol=1e-4)
    # In single precision wᵀc of size 50 is known to some 1e-5.
    np.testing.assert_allclose(about["intercept"], zero["intercept"] - zero["weight"] @ np.array(CENTRE), atol=1e-4)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_variational_moments_are_those_of_the_linear_map(covariance, far):
    X, y = far
    approximate = partial(bd.variational, covariance=covariance, n_init=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NarrowIntervalsWarning)
        about, zero = approximate(ABOUT, X, y), approximate(ZERO, X - CENTRE, y)
    centre = np.array(CENTRE)
    np.testing.assert_allclose(about.weight_mean, zero.weight_mean, atol=1e-12)
    np.testing.assert_allclose(about.intercept_mean, zero.intercept_mean - zero.weight_mean @ centre, rtol=1e-12)
    if covariance == "full":
        turn = np.eye(4)
        turn[-1, :-1] = -centre
        np.testing.assert_allclose(about.covariance, turn @ zero.covariance @ turn.T, rtol=1e-9)
        np.testing.assert_allclose(about.intercept_sd**2, about.covariance[-1, -1])
    else:
        variance = zero.intercept_sd**2 + (centre**2) @ zero.weight_sd**2
        np.testing.assert_allclose(about.intercept_sd**2, variance, rtol=1e-12)
    tree = about.to_arviz(draws=4000, seed=1)
    posterior, constant = group(tree, "posterior"), group(tree, "constant_data")
    np.testing.assert_array_equal(constant["centre"], CENTRE)
    inner = posterior["intercept"].values[0] + posterior["weight"].values[0] @ centre
    # The score of the centre has the moments of the intercept for shifted columns: six standard errors.
    assert abs(inner.mean() - zero.intercept_mean) < 6 * zero.intercept_sd / np.sqrt(4000)
    assert abs(inner.std() / zero.intercept_sd - 1) < 6 / np.sqrt(2 * 4000)
    assert "noise about a centre" in str(about)


def test_prior_draws_put_the_intercept_at_the_centre(far):
    X, _ = far
    about = bd.prior_draws(ABOUT, X, draws=50, intercept_scale=1.0)
    zero = bd.prior_draws(ZERO, X - CENTRE, draws=50, intercept_scale=1.0)
    one, two = group(about, "prior"), group(zero, "prior")
    np.testing.assert_array_equal(one["weight"], two["weight"])
    np.testing.assert_allclose(one["intercept"] + one["weight"].values @ np.array(CENTRE), two["intercept"], atol=1e-9)
    np.testing.assert_array_equal(group(about, "prior_predictive")["y"], group(zero, "prior_predictive")["y"])
