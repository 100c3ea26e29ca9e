"""Samplers of counts against quadrature: one weight, every mask summed.

Means of the weight and of its square, each within 5 Monte Carlo errors from 32 chains of their own: 1.9e-5 a statistic
by Student's t with 31 degrees of freedom, 6 of them.
"""

import numpy as np
import pytest
from scipy import integrate

import bayesdrop as bd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 1)) + 0.5
Y = RNG.negative_binomial(3, 1 / (1 + np.exp(0.7 * X[:, 0])))
CASES = {
    "negative binomial, masks, Gibbs": (
        bd.Model(bd.NegativeBinomial(3.0), bd.Dropout(centre=None), bd.Fixed(0.4), fit_intercept=False),
        bd.Gibbs(joint_moves=0),
        lambda y, s: y * s - (y + 3) * np.logaddexp(0, s),
    ),
    "negative binomial, no masks, Gibbs": (
        bd.Model(bd.NegativeBinomial(3.0), rates=bd.Fixed(0.0), fit_intercept=False),
        bd.Gibbs(),
        lambda y, s: y * s - (y + 3) * np.logaddexp(0, s),
    ),
    "Poisson, no masks, HMC": (
        bd.Model(bd.Poisson(), rates=bd.Fixed(0.0), fit_intercept=False),
        bd.HMC(),
        lambda y, s: y * s - np.exp(s),
    ),
}


@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * ("Gibbs" in name)) for name in CASES])
def test_one_weight_against_quadrature(name):
    model, method, log_likelihood = CASES[name]
    rate = model.rates.rate

    def density(w):
        kept, dropped = (log_likelihood(Y, s) for s in (X[:, 0] * w, 0 * X[:, 0]))
        with np.errstate(divide="ignore"):
            rows = np.logaddexp(np.log1p(-rate) + kept, np.log(rate) + dropped)
        return np.exp(-0.5 * w * w + np.sum(rows) + 20)

    moments = [integrate.quad(lambda w, k=k: w**k * density(w), -6, 6, limit=200)[0] for k in (0, 1, 2)]
    options = {"draws": 100, "tune": 100, "chains": 32, "seed": 1, "progress": False}
    post = bd.sample(model, X, Y, method=method, **options)
    weight = bd.groups.dataset(post, "posterior")["weight"].values[:, :, 0].astype(float)
    for power in (1, 2):
        each = np.mean(weight**power, axis=1)
        error = each.std(ddof=1) / np.sqrt(len(each))
        assert abs(each.mean() - moments[power] / moments[0]) < 5 * error
        assert error < 0.1 * np.std(weight**power), "the chains say too little for the test to see anything"
