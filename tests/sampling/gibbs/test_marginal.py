"""Gibbs sampling of ``exp(−U)``: posterior moments against importance sampling of the same density, stated in NumPy.

False-alarm rate: each statistic is allowed 5 standard errors (5.7e-7 each under normality); about 100 are compared, so
a correct sampler fails with probability below 1e-4.
"""

import jax
import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import gammaln

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_design
from bayesdrop.hmc.approximations.normal import normal_approximation
from bayesdrop.moments import ScoreMoments
from bayesdrop.sampling.run.runner import as_key, run

LIMIT = 5.0
N, P = 25, 2
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, P)) * (RNG.random((N, P)) < 0.85)
LABELS = np.where(X @ [1.5, -1.0] + RNG.normal(size=N) > 0, 1.0, -1.0)
NUMBERS = X @ [1.5, -1.0] + 0.6 * RNG.normal(size=N)
ROWS = np.tile([2.0, 1.0, 0.5, 1.5, 1.0], 5)


def case(model, weights=None, features=X, method=None):
    return model, weights, features, bd.Gibbs(dtype="float64") if method is None else method


FIXED = bd.Fixed([0.4, 0.2])
CASES = {
    "hinge, C and row weights": case(bd.Model(bd.Hinge(), rates=FIXED, C=1.7), ROWS),
    "tube, Gaussian noise": case(bd.Model(bd.EpsilonInsensitive(0.2), noise=bd.GaussianNoise(0.4))),
    "Laplace prior": case(bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Laplace(0.5), fit_intercept=False)),
    "unknown variance": case(bd.Model(bd.Squared(variance=bd.InverseGamma(3.0, 2.0)), rates=FIXED), ROWS),
    "quantile, C and row weights": case(bd.Model(bd.Quantile(0.8, 1.0), rates=FIXED, C=3.0), ROWS),
    "logistic, C and row weights": case(bd.Model(rates=FIXED, C=0.7), ROWS),
    "logistic, unbiased, single precision": case(
        bd.Model(noise=bd.Dropout(unbiased=True), rates=FIXED), method=bd.Gibbs()
    ),
    "Poisson": case(bd.Model(noise=bd.PoissonNoise()), features=np.abs(X)),
    "sparse, conjugate gradients": case(bd.Model(bd.Hinge(), rates=FIXED), features=sparse.csr_array(X)),
    "factor of the rows": case(bd.Model(rates=FIXED), method=bd.Gibbs(dtype="float64", weights="woodbury")),
}


def unknown_variance(model):
    """The inverse gamma prior of the variance, if there is one."""
    found = getattr(model.loss, "variance", None)
    return found if isinstance(found, bd.InverseGamma) else None


def log_density(model, target, row_weight, features, weight, intercept):
    """``−U`` of many points by the fitting code's moments and losses, (draws,), and the weighted losses' sum."""
    design = as_design(features)
    rate = model.rates.bind(["a", "b"]).initial if model.noise.has_rate else np.zeros(P)
    moments = ScoreMoments(design, model.noise, rate[:, None], model.fit_intercept)
    mean, var = moments.scores(np.concatenate([weight.T, intercept[None]]))
    loss = np.sum(row_weight[:, None] * model.C * model.loss.value(target[:, None], mean, var), axis=0)
    variance = unknown_variance(model)
    if variance is not None:
        # σ² integrated: ∫ σ^{−2(a+1)−N} exp{−(b + L)/σ²} dσ² with N = Σ C s.
        shape = variance.shape + 0.5 * model.C * row_weight.sum()
        return -shape * np.log(variance.scale + loss), loss
    return -loss, loss


def log_prior(model, weight):
    if model.weight_prior.gaussian:
        return -0.5 * np.sum(model.weight_prior.precision(P) * weight**2, axis=1)
    return stats.laplace.logpdf(weight, scale=model.weight_prior.scale).sum(axis=1)


def statistics(weight, intercept):
    return np.concatenate([weight, weight**2, weight[:, :1] * weight[:, 1:], intercept[:, None]], axis=1)


def exact(model, target, row_weight, features, draws=200_000):
    """Posterior means of the statistics, and of σ where it is unknown, with standard errors."""
    generator = np.random.default_rng(1)
    plain = bd.Model(
        bd.Squared(variance=1.0) if unknown_variance(model) else model.loss, model.noise, model.rates, model.C,
        fit_intercept=model.fit_intercept,
    )  # fmt: skip
    data = as_dataset(features, target, row_weight, binary=model.loss.binary)
    rate = model.rates.bind(["a", "b"]).initial if model.noise.has_rate else np.zeros(P)
    centre, factor = normal_approximation(plain, data, rate)
    scatter = generator.standard_t(5, size=(draws, len(centre)))
    theta = centre + 1.5 * scatter @ factor.T
    log_proposal = stats.t.logpdf(scatter, 5).sum(axis=1)
    weight, intercept = theta[:, :P], theta[:, P] if model.fit_intercept else np.zeros(draws)
    likelihood, loss = log_density(model, target, row_weight, features, weight, intercept)
    log_share = likelihood + log_prior(model, weight) - log_proposal
    share = np.exp(log_share - log_share.max())
    share /= share.sum()
    values = statistics(weight, intercept)
    variance = unknown_variance(model)
    if variance is not None:
        shape = variance.shape + 0.5 * model.C * row_weight.sum()
        sigma = np.exp(gammaln(shape - 0.5) - gammaln(shape)) * np.sqrt(variance.scale + loss)
        values = np.concatenate([values, sigma[:, None]], axis=1)
    mean = share @ values
    assert 1 / np.sum(share**2) > 5000
    return mean, np.sqrt(share**2 @ (values - mean) ** 2)


def worst(model, weights, features, method, chains=64, tune=100, draws=400):
    """Largest |z| over the statistics."""
    target = LABELS if model.loss.binary else NUMBERS
    row_weight = np.ones(N) if weights is None else weights
    data = as_dataset(features, target, row_weight, binary=model.loss.binary)
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = method.bind(model, data, model.bind(data.feature_names), tune, marginalised=True)
        drawn = run(kernel, operands, as_key(3), tune=tune, draws=draws, chains=chains, progress=False).draws
    flat = {name: value.astype(float).reshape(chains * draws, *value.shape[2:]) for name, value in drawn.items()}
    values = statistics(flat["weight"], flat.get("intercept", np.zeros(chains * draws)))
    if "log_sigma" in flat:
        values = np.concatenate([values, np.exp(flat["log_sigma"])[:, None]], axis=1)
    means = values.reshape(chains, draws, -1).mean(axis=1)
    truth, error = exact(model, target, row_weight, features)
    total = np.hypot(error, means.std(axis=0, ddof=1) / np.sqrt(chains))
    return np.max(np.abs(means.mean(axis=0) - truth)[total > 0] / total[total > 0])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_moments_are_those_of_the_pseudo_posterior(name):
    assert worst(*CASES[name], draws=1500) < LIMIT


def test_errors_say_what_to_take_instead():
    gaussian = bd.Model(bd.Logistic(expectation="gaussian"), rates=FIXED)
    with pytest.raises(ValueError, match=r'expectation="augmentation", or method=bd.HMC'):
        bd.sample(gaussian, X, LABELS, method=bd.Gibbs(), target="marginalised", progress=False)
