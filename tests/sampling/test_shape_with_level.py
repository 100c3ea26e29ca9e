"""A dispersion that is learnt beside a prior of the intercept, against sums over a grid of all three numbers.

Each comparison of a mean is at 4.5 standard errors, which a correct sampler passes with probability 1 − 7e-6.
"""

import numpy as np
import pytest
from scipy.stats import halfnorm, nbinom, norm

import bayesdrop as bd

RNG = np.random.default_rng(8)
X = np.round(RNG.normal(size=(12, 1)) + 0.8, 2)
COUNTS = RNG.poisson(np.exp(0.4 * X[:, 0] + 0.5) * RNG.gamma(1.5, size=12) / 1.5).astype(float)
LEVEL = bd.Normal(0.3, mean=1.0)


def exact(averages):
    """Means of weight, intercept and the logarithm of the dispersion ``r``, whose ``r^{−½}`` is half-normal."""
    weight, level = np.linspace(-4, 4, 121)[:, None, None], np.linspace(-1, 3, 121)[:, None]
    log_r = np.linspace(-5, 16, 211)
    intercept = level - weight * X.mean()
    r = np.exp(log_r)
    density = norm.logpdf(weight) + norm.logpdf(level, LEVEL.mean, LEVEL.scale)
    density = density + halfnorm.logpdf(r**-0.5) - 0.5 * log_r
    for x, y in zip(X[:, 0], COUNTS, strict=True):
        density = density + nbinom.logpmf(y, r, 1 / (1 + np.exp(intercept + weight * x)))
    return dict(zip(("weight", "intercept", "dispersion"), averages(density, weight, intercept, log_r), strict=True))


@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")
@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.Gibbs(), bd.HMC()], ids=["gibbs", "hmc"])
def test_means_are_those_of_the_grid(averages, assert_means, method):
    model = bd.Model(bd.NegativeBinomial(), rates=bd.Fixed(0.0), intercept_prior=LEVEL)
    run = {"draws": 1000, "tune": 300, "chains": 8, "seed": 3, "progress": False}
    post = bd.sample(model, X, COUNTS, method=method, **run).posterior
    found = {"weight": post.weight[..., 0], "intercept": post.intercept, "dispersion": np.log(post.dispersion)}
    assert_means(found, exact(averages))
