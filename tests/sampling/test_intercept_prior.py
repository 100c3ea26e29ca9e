"""Posteriors under a prior of the intercept at the means of the columns, against sums over a grid.

Each comparison of a mean is at 4.5 standard errors, which a correct sampler passes with probability 1 − 7e-6.
"""

import jax
import numpy as np
import pytest
from scipy.special import log_expit

import bayesdrop as bd
from bayesdrop.hmc.approximations.choices import Limits

pytestmark = pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")

RNG = np.random.default_rng(5)
X = np.round(RNG.normal(size=(10, 1)) + 1.5, 2)
SIGN = np.array([1, 1, -1, 1, 1, 1, -1, 1, 1, 1.0])
ROWS = 1.0 + (np.arange(10) % 2)
AT = float(np.average(X[:, 0], weights=ROWS))
MEAN, SCALE = 0.7, 0.8
INTERCEPT = bd.Normal(0.5, mean=-1.0)
RUN = {"draws": 500, "tune": 500, "chains": 20, "progress": False, "seed": 1, "sample_weight": ROWS}
W, B = np.meshgrid(MEAN + SCALE * np.linspace(-6, 6, 121), np.linspace(-6, 5, 160), indexing="ij")


def log_prior(weight, intercept):
    away = (intercept + weight * AT - INTERCEPT.mean) / INTERCEPT.scale
    return -0.5 * ((weight - MEAN) / SCALE) ** 2 - 0.5 * away**2


def log_mixture(weight, intercept, rate, centre):
    total = 0.0
    for x, sign, count in zip(X[:, 0], SIGN, ROWS, strict=True):
        kept = np.log1p(-rate) + log_expit(sign * (intercept + weight * x))
        dropped = np.log(rate) + log_expit(sign * (intercept + weight * centre))
        total = total + count * np.logaddexp(kept, dropped)
    return total


def bound(weight, intercept, rate, centre):
    """Minus the augmentation bound of the marginalised logistic loss, on a grid."""
    total, level = 0.0, intercept + weight * centre
    for x, sign, count in zip(X[:, 0] - centre, SIGN, ROWS, strict=True):
        mean, var = (1 - rate) * weight * x + level, rate * (1 - rate) * (weight * x) ** 2
        total = total - count * (np.log(2 * np.cosh(np.sqrt(mean**2 + var) / 2)) - sign * mean / 2)
    return total


def model(rates, centre=None, prior=None, **settings):
    prior = bd.Normal(SCALE, mean=MEAN) if prior is None else prior
    return bd.Model(
        noise=bd.Dropout(centre=centre), rates=rates, weight_prior=prior, intercept_prior=INTERCEPT, **settings
    )


def groups_of(stated, method, **more):
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        return bd.sample(stated, X, SIGN > 0, method=method, **(RUN | more))


def sampled(stated, method, **more):
    return groups_of(stated, method, **more).posterior


@pytest.mark.slow
@pytest.mark.parametrize("centre", [None, "mean"])
@pytest.mark.parametrize("joint_moves", [0, 2])
def test_masks_are_summed_out_at_a_fixed_rate(averages, assert_means, centre, joint_moves):
    density = log_prior(W, B) + log_mixture(W, B, 0.4, AT if centre else 0.0)
    expected = dict(zip(("weight", "intercept"), averages(density, W, B), strict=True))
    assert_means(sampled(model(bd.Fixed(0.4), centre), bd.Gibbs(joint_moves=joint_moves)), expected)


@pytest.mark.slow
@pytest.mark.parametrize("joint_moves", [0, 2])
@pytest.mark.parametrize("rates", [bd.PerFeature, bd.Shared])
def test_masks_are_summed_out_at_a_free_rate(averages, assert_means, rates, joint_moves):
    eta = ((np.arange(50) + 0.5) / 50)[None, None]
    weight, intercept = W[::2, ::2, None], B[::2, ::2, None]
    density = log_prior(weight, intercept) + 3 * np.log1p(-eta) + log_mixture(weight, intercept, eta, 0.0)
    found = averages(density, weight, intercept, eta)
    post = sampled(model(rates(bd.Beta(1, 4))), bd.Gibbs(joint_moves=joint_moves))
    assert_means(post, dict(zip(("weight", "intercept", "rate"), found, strict=True)))


LIMITS = {"rows": Limits(dense=1, rows_per_feature=100.0), "directions": Limits(dense=1, rows=0)}
METHODS = {
    **{name: bd.Gibbs(weights=name) for name in ("cholesky", "woodbury", "conjugate_gradient")},
    "dense": bd.HMC(),
    "nuts": bd.NUTS(),
    **{name: bd.HMC(limits=limits) for name, limits in LIMITS.items()},
}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
@pytest.mark.parametrize(("rate", "centre"), [(0.0, None), (0.4, "mean")])
def test_every_sampler_without_masks_has_it(averages, assert_means, method, rate, centre):
    density = log_prior(W, B) + bound(W, B, rate, AT if centre else 0.0)
    expected = dict(zip(("weight", "intercept"), averages(density, W, B), strict=True))
    assert_means(sampled(model(bd.Fixed(rate), centre), method, target="marginalised"), expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.Gibbs(), bd.HMC()], ids=["gibbs", "hmc"])
def test_a_learnt_scale_goes_with_it(averages, assert_means, method):
    sigma = np.exp(np.linspace(-5, 2.5, 80))[:, None, None]
    unit, level = np.linspace(-5, 5, 81)[None, :, None], INTERCEPT.mean + 0.5 * np.linspace(-6, 6, 81)[None, None]
    weight = MEAN + sigma * unit
    intercept = level - weight * AT
    density = -0.5 * unit**2 - 0.5 * sigma**2 + np.log(sigma) - 0.5 * ((level - INTERCEPT.mean) / 0.5) ** 2
    density = density + bound(weight, intercept, 0.4, 0.0)
    found = averages(density, *np.broadcast_arrays(weight, intercept, sigma))
    stated = model(bd.Fixed(0.4), prior=bd.Normal(bd.HalfNormal(1.0), mean=MEAN))
    post = sampled(stated, method, target="marginalised", draws=800)
    assert_means(post, dict(zip(("weight", "intercept", "weight_scale"), found, strict=True)))


@pytest.mark.slow
def test_a_file_and_the_log_prior_have_it(tmp_path):
    with pytest.warns():
        post = groups_of(model(bd.Fixed(0.4), "mean"), bd.Gibbs(), draws=10, tune=10)
    bd.groups.save(post, tmp_path / "post.nc")
    terms = bd.groups.dataset(bd.log_prior(bd.groups.load(tmp_path / "post.nc")), "log_prior")
    level = post.posterior.intercept + post.posterior.weight[..., 0] * AT
    np.testing.assert_allclose(terms["intercept"], -0.5 * ((level + 1.0) / 0.5) ** 2, rtol=1e-4, atol=1e-4)
    away = (post.posterior.weight[..., 0] - MEAN) / SCALE
    np.testing.assert_allclose(terms["weight"], -0.5 * away**2, rtol=1e-4, atol=1e-4)
    assert float(post.constant_data["intercept_prior_mean"]) == -1.0
    np.testing.assert_allclose(post.constant_data["column_mean"], AT)


def test_masks_of_noise_that_multiplies_kept_entries_are_refused():
    stated = bd.Model(noise=bd.Dropout(unbiased=True), intercept_prior=INTERCEPT)
    with pytest.raises(ValueError, match="intercept_prior: with masks Gibbs takes it where a kept entry is as it was"):
        sampled(stated, bd.Gibbs())
