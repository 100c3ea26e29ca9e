"""Posteriors under a prior about a mean, against sums over a grid of weights, scales and rates with every mask.

Each comparison of a mean is at 4.5 standard errors, which a correct sampler passes with probability 1 − 7e-6.
"""

import itertools

import jax
import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc.approximations.choices import Limits

pytestmark = pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")

RNG = np.random.default_rng(3)
X = np.round(RNG.normal(size=(8, 2)) + [0.5, 0.0], 2)
LABELS = np.array([1, 1, 0, 1, 0, 0, 1, 1])
SIGN = np.where(LABELS, 1.0, -1.0)
MEAN, SCALE = np.array([1.5, -1.0]), np.array([0.8, 1.2])
RUN = {"draws": 500, "tune": 500, "chains": 20, "progress": False, "seed": 1}
W = np.meshgrid(*(m + s * np.linspace(-6, 6, 97) for m, s in zip(MEAN, SCALE, strict=True)), indexing="ij")


def log_mixture(weights, rate, k):
    """Log likelihood on a grid of weights, each a row's masks summed out; ``k`` multiplies kept entries."""
    total = 0.0
    for x, sign in zip(X, SIGN, strict=True):
        terms = []
        for mask in itertools.product((0, 1), repeat=2):
            score = sum(a * k * w * v for a, w, v in zip(mask, weights, x, strict=True))
            chance = sum(np.log1p(-rate) if a else np.log(rate) for a in mask)
            terms.append(chance + log_expit(sign * score))
        total = total + logsumexp(np.stack(np.broadcast_arrays(*terms)), axis=0)
    return total


def log_prior(weights, scale=SCALE):
    return sum(-0.5 * ((w - m) / s) ** 2 - np.log(s) for w, m, s in zip(weights, MEAN, scale, strict=True))


def model(noise=None, **settings):
    prior = settings.pop("prior", bd.Normal(SCALE, mean=MEAN))
    return bd.Model(noise=noise or bd.Dropout(), weight_prior=prior, fit_intercept=False, **settings)


def sampled(stated, method, **more):
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        return bd.sample(stated, X, LABELS, method=method, **(RUN | more)).posterior


@pytest.mark.slow
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("joint_moves", [0, 2])
def test_masks_are_summed_out_at_a_fixed_rate(averages, assert_means, unbiased, joint_moves):
    rate = 0.4
    expected = averages(log_prior(W) + log_mixture(W, rate, 1 / (1 - rate) if unbiased else 1.0), *W)
    stated = model(bd.Dropout(unbiased=unbiased), rates=bd.Fixed(rate))
    post = sampled(stated, bd.Gibbs(joint_moves=joint_moves))
    assert_means(post, {"weight": expected})


@pytest.mark.slow
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("joint_moves", [0, 2])
def test_masks_are_summed_out_at_a_shared_rate(averages, assert_means, unbiased, joint_moves):
    rate = (np.arange(60) + 0.5) / 60
    few = np.meshgrid(*(m + s * np.linspace(-6, 6, 61) for m, s in zip(MEAN, SCALE, strict=True)), indexing="ij")
    grid, eta = [w[..., None] for w in few], rate[None, None]
    density = log_prior(grid) + 4 * np.log1p(-eta) + log_mixture(grid, eta, 1 / (1 - eta) if unbiased else 1.0)
    expected = averages(density, *grid, eta)
    stated = model(bd.Dropout(unbiased=unbiased), rates=bd.Shared(bd.Beta(1, 5)))
    post = sampled(stated, bd.Gibbs(joint_moves=joint_moves))
    assert_means(post, {"weight": expected[:2], "rate": expected[2:]})


@pytest.mark.slow
def test_rates_of_each_feature_follow_weights_about_a_mean(averages, assert_means):
    """With one feature: the update of a single weight and rate, for noise whose multiplier depends on the rate."""
    weight, rate = np.meshgrid(
        MEAN[0] + SCALE[0] * np.linspace(-6, 6, 241), (np.arange(300) + 0.5) / 300, indexing="ij"
    )
    total = -0.5 * ((weight - MEAN[0]) / SCALE[0]) ** 2 + 4 * np.log1p(-rate)
    for x, sign in zip(X[:, 0], SIGN, strict=True):
        total += np.log((1 - rate) * expit(sign * weight * x / (1 - rate)) + rate / 2)
    stated = bd.Model(
        noise=bd.Dropout(unbiased=True), rates=bd.PerFeature(bd.Beta(1, 5)), fit_intercept=False,
        weight_prior=bd.Normal(SCALE[0], mean=MEAN[0]),
    )  # fmt: skip
    post = bd.sample(stated, X[:, :1], LABELS, method=bd.Gibbs(), **RUN).posterior
    expected = averages(total, weight, rate)
    assert_means(post, {"weight": expected[:1], "rate": expected[1:]})


def bound(weights, rate):
    """Minus the augmentation bound of the marginalised logistic loss, on a grid."""
    mean = sum((1 - rate) * w * x for w, x in zip(weights, X.T[:, :, None, None], strict=True))
    var = sum(rate * (1 - rate) * (w * x) ** 2 for w, x in zip(weights, X.T[:, :, None, None], strict=True))
    return -np.sum(np.log(2 * np.cosh(np.sqrt(mean**2 + var) / 2)) - SIGN[:, None, None] * mean / 2, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["cholesky", "woodbury", "conjugate_gradient"])
def test_every_gaussian_draw_has_the_mean(averages, assert_means, weights):
    expected = averages(log_prior(W) + bound(W, 0.4), *W)
    post = sampled(model(rates=bd.Fixed(0.4)), bd.Gibbs(weights=weights), target="marginalised")
    assert_means(post, {"weight": expected})


BY_ROWS, BY_DIRECTIONS = Limits(dense=1, rows_per_feature=10.0), Limits(dense=1, rows=0)
GRADIENTS = {
    "hmc": bd.HMC(),
    "nuts": bd.NUTS(),
    "rows": bd.HMC(limits=BY_ROWS),
    "directions": bd.HMC(limits=BY_DIRECTIONS),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", GRADIENTS.values(), ids=list(GRADIENTS))
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_gradient_samplers_have_the_mean(averages, assert_means, method, rate):
    expected = averages(log_prior(W) + bound(W, rate), *W)
    stated = model(rates=bd.Fixed(rate))
    assert_means(sampled(stated, method, target="marginalised"), {"weight": expected})


SIGMA = np.exp(np.linspace(-5, 2.5, 90))


def learnt(averages, rate, log_likelihood):
    """Averages of weights and scale under ``w ~ N(μ, σ²)``, ``σ ~ HalfNormal(1)``: weights in units of the scale."""
    unit = np.meshgrid(np.linspace(-5, 5, 61), np.linspace(-5, 5, 61), indexing="ij")
    logs, weights = [], []
    for sigma in SIGMA:
        w = [m + sigma * u for m, u in zip(MEAN, unit, strict=True)]
        logs.append(-0.5 * (unit[0] ** 2 + unit[1] ** 2) - 0.5 * sigma**2 + np.log(sigma) + log_likelihood(w, rate))
        weights.append(w)
    return averages(np.stack(logs), *np.moveaxis(np.array(weights), 1, 0), SIGMA[:, None, None])


LEARNT = bd.Normal(bd.HalfNormal(1.0), mean=MEAN)


@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.Gibbs(), bd.HMC(), bd.NUTS()], ids=["gibbs", "hmc", "nuts"])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_a_learnt_scale_is_about_the_mean(averages, assert_means, method, rate):
    expected = learnt(averages, rate, bound)
    post = sampled(model(rates=bd.Fixed(rate), prior=LEARNT), method, target="marginalised", draws=800)
    assert_means(post, {"weight": expected[:2], "weight_scale": expected[2:]})


@pytest.mark.slow
def test_a_learnt_scale_with_masks_is_about_the_mean(averages, assert_means):
    expected = learnt(averages, 0.4, lambda w, rate: log_mixture(w, rate, 1.0))
    post = sampled(model(rates=bd.Fixed(0.4), prior=LEARNT), bd.Gibbs(), draws=800)
    assert_means(post, {"weight": expected[:2], "weight_scale": expected[2:]})


def test_a_block_of_a_program_draws_about_the_mean():
    """Without noise and with normal errors its draws are independent ones of the posterior."""
    y, names = X @ [1.0, 1.0], ["a", "b"]
    prior = bd.Normal({"a": SCALE[0], "b": SCALE[1]}, mean={"a": MEAN[0], "b": MEAN[1]})
    stated = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), weight_prior=prior, fit_intercept=False)
    block = bd.WeightsBlock(stated, X, y, feature_names=names)
    with jax.enable_x64(True):
        draw = jax.jit(jax.vmap(lambda key: block(key, {"weight": jax.numpy.zeros(2)}, {})["weight"]))
        drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 400)))
    precision = np.diag(SCALE**-2.0) + X.T @ X
    expected = np.linalg.solve(precision, MEAN / SCALE**2 + X.T @ y)
    error = np.sqrt(np.diag(np.linalg.inv(precision)) / 400)
    assert abs((np.mean(drawn, axis=0) - expected) / error).max() < 4.5


@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.NarrowIntervalsWarning")
def test_the_mean_field_is_about_the_mean():
    """Without noise and with normal errors it is the posterior, and its bound the evidence up to a constant."""
    y, bounds, evidence = X @ [1.0, 1.0] + np.arange(8) % 2, [], []
    for mean in (MEAN, np.zeros(2), -MEAN):
        stated = model(rates=bd.Fixed(0.0), loss=bd.Squared(variance=1.0), prior=bd.Normal(SCALE, mean=mean))
        found = bd.variational(stated, X, y)
        precision = np.diag(SCALE**-2.0) + X.T @ X
        np.testing.assert_allclose(found.weight_mean, np.linalg.solve(precision, mean / SCALE**2 + X.T @ y), atol=1e-6)
        bounds.append(found.elbo_trace[-1])
        spread = np.eye(8) + (X * SCALE**2) @ X.T
        away = y - X @ mean
        evidence.append(-0.5 * away @ np.linalg.solve(spread, away))
    np.testing.assert_allclose(np.diff(bounds), np.diff(evidence), atol=1e-6)


def test_an_approximation_beside_a_learnt_variance_is_about_the_mean():
    """Weights are counted from their own means, the coordinates of the intercept and of the variance from 0."""
    y = X @ [1.0, 1.0] + np.arange(8) % 2 + 3.0
    model = bd.Model(bd.Squared(), rates=bd.Fixed(0.0), weight_prior=bd.Normal(SCALE, mean=MEAN))
    data = as_dataset(X, y, binary=False)
    with jax.enable_x64(True):
        _, operands = bd.HMC(dtype="float64").bind(model, data, model.bind(data.feature_names), 10, marginalised=True)
        *theta, log_sigma = np.asarray(operands.centre)
    A = np.column_stack([X, np.ones(8)])
    precision = np.diag(np.append(SCALE**-2.0, 0.0)) + A.T @ A * np.exp(-2 * log_sigma)
    expected = np.linalg.solve(precision, np.append(MEAN / SCALE**2, 0.0) + A.T @ y * np.exp(-2 * log_sigma))
    np.testing.assert_allclose(theta + np.append(MEAN, 0.0), expected, atol=0.03)
