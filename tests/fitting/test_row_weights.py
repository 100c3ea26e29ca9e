"""A row of weight k is the row k times, in every kind of fit: weights, intercept, rates and their posterior."""

import numpy as np
import pytest

import bayesdrop as bd

RNG = np.random.default_rng(5)
N, P = 60, 5
X = np.round(RNG.normal(size=(N, P)), 1)  # some entries lie at their means, or at 0
SCORE = X @ RNG.normal(size=P) + RNG.normal(size=N)
COPIES = RNG.integers(0, 3, size=N)
HOLES = np.where(RNG.random((N, P)) < 0.2, np.nan, X)
LABELS, CODES, COUNTS = SCORE > 0.3, np.digitize(SCORE, [-1.0, 1.0]), np.floor(np.abs(SCORE))
LEARNT, MEAN = bd.PerFeature(bd.Beta(2, 3)), bd.Dropout(centre="mean")
FITS = {
    "logistic": (bd.Model(rates=bd.Fixed(0.3)), X, LABELS, False),
    "logistic, learnt": (bd.Model(rates=LEARNT), X, LABELS, False),
    "hinge": (bd.Model(bd.Hinge(), rates=bd.Fixed(0.3)), X, LABELS, False),
    "hinge, learnt": (bd.Model(bd.Hinge(), rates=LEARNT), X, LABELS, False),
    "about the mean": (bd.Model(noise=MEAN, rates=LEARNT), X, LABELS, False),
    "missing entries": (bd.Model(noise=MEAN, missing="nan"), HOLES, LABELS, False),
    "softmax": (bd.Model(bd.Softmax("gaussian"), rates=bd.Fixed(0.3)), X, CODES, False),
    "softmax, learnt": (bd.Model(bd.Softmax(), rates=LEARNT), X, CODES, False),
    "squared": (bd.Model(bd.Squared(), rates=bd.Fixed(0.3)), X, SCORE, False),
    "tube": (bd.Model(bd.EpsilonInsensitive(0.2), rates=bd.Fixed(0.3)), X, SCORE, True),
    "quantile": (bd.Model(bd.Quantile(0.3), rates=bd.Fixed(0.3)), X, SCORE, False),
    "counts with an offset": (bd.Model(bd.Poisson(), bd.Dropout(centre=None), LEARNT), X, COUNTS, True),
}


@pytest.mark.parametrize("name", FITS)
def test_weights_are_copies(name):
    model, rows, y, with_offset = FITS[name]
    times, method = np.repeat(np.arange(N), COPIES), bd.Newton(tol=1e-13)
    offset = 0.3 * SCORE if with_offset else np.zeros(N)
    one, two = (
        bd.fit(model, rows[at], y[at], method=method, sample_weight=weight, offset=offset[at] if with_offset else None)
        for at, weight in ((np.arange(N), COPIES), (times, None))
    )
    np.testing.assert_allclose(one.weight, two.weight, atol=1e-5)
    np.testing.assert_allclose(one.intercept, two.intercept, atol=1e-5)
    np.testing.assert_allclose(one.rates, two.rates, atol=1e-12)
    if one.rate_posterior is not None:
        np.testing.assert_allclose(one.rate_posterior.law, two.rate_posterior.law, rtol=1e-12)
