"""Losses of counts: the laws of counts that they are, their limits, and numbers that stay finite.

Moments of simulated counts are allowed 5 standard errors (5.7e-7 each); 24 of them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import bayesdrop as bd
from bayesdrop.models import count_laws

SCORES = np.array([-3.0, -0.4, 0.0, 1.3, 2.2])
CASES = {
    "poisson": (bd.Poisson(), count_laws.poisson, lambda s: stats.poisson(np.exp(s))),
    "binomial": (bd.Binomial(6), count_laws.binomial(6), lambda s: stats.binom(6, 1 / (1 + np.exp(-s)))),
    "negative binomial": (
        bd.NegativeBinomial(2.5),
        count_laws.negative_binomial(2.5),
        lambda s: stats.nbinom(2.5, 1 / (1 + np.exp(s))),
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.mark.default_cases("negative binomial")
def test_it_is_the_law_of_a_count(case):
    """Minus the loss and the base measure, against SciPy's, and what the program samples from."""
    loss, program, law = case
    y, score = (part.ravel() for part in np.meshgrid(np.arange(7.0), SCORES))
    value, _ = loss.plain_value_and_slope(y, score)
    found = loss.log_base_measure(y) - value
    np.testing.assert_allclose(found, law(score).logpmf(y), rtol=1e-12, atol=1e-12)
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        of_program = program.response(jnp.asarray(score)).log_prob(jnp.asarray(y))
    np.testing.assert_allclose(found, of_program, rtol=1e-12, atol=1e-12)
    assert np.all(value >= 0), "an energy that may be 0 has no relative tolerance"


def test_drawn_counts_have_its_moments(case):
    loss, _, law = case
    for score in SCORES[1:]:
        drawn = loss.sample_response(np.random.default_rng(0), np.full(40_000, score), 2.0)
        mean, var, kurtosis = law(score).stats("mvk")
        assert abs(drawn.mean() - mean) < 5 * np.sqrt(var / len(drawn))
        assert abs(np.mean((drawn - mean) ** 2) - var) < 5 * var * np.sqrt((kurtosis + 2) / len(drawn))
    assert np.all(np.isfinite(loss.sample_response(np.random.default_rng(0), np.array([-1e4, 1e4]), 1.0)))


@pytest.mark.parametrize("expectation", ["augmentation", "gaussian", "taylor"])
def test_one_trial_is_the_logistic_loss(expectation):
    y, mean, var = (part.ravel() for part in np.meshgrid([0.0, 1.0], SCORES, [0.0, 0.3, 4.0]))
    one, logistic, sign = bd.Binomial(1, expectation), bd.Logistic(expectation), 2 * y - 1
    np.testing.assert_allclose(one.value(y, mean, var), logistic.value(sign, mean, var), rtol=1e-12)
    for here, there in zip(one.derivatives(y, mean, var), logistic.derivatives(sign, mean, var), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-12, atol=1e-14)


def test_many_failures_leave_a_poisson_count():
    y, score = (part.ravel() for part in np.meshgrid(np.arange(7.0), SCORES))
    parts = [
        loss.log_base_measure(y) - loss.value(y, at, 0 * at)
        for loss, at in ((bd.NegativeBinomial(1e8), score - np.log(1e8)), (bd.Poisson(), score))
    ]
    np.testing.assert_allclose(*parts, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("expectation", ["exact", "gaussian", "taylor"])
def test_a_poisson_mean_never_overflows(expectation, dtype):
    """At the scores that an overshooting search meets; the continuation has the value's own derivatives."""
    y = np.array([0, 1, 1e6], dtype)
    for mean, var in ((1e4, 0.0), (1e12, 1e6), (-1e12, 1e6), (30.0, 0.0)):
        arguments = y, np.full(3, mean, dtype), np.full(3, var, dtype)
        loss = bd.Poisson(expectation)
        for part in (loss.value(*arguments), *loss.derivatives(*arguments)):
            assert part.dtype == dtype
            if mean < 1e12 or dtype == np.float64:
                assert np.all(np.isfinite(part))
    at = np.array([235.0, 236.0, 237.0, 240.0])
    slope = bd.Poisson().plain_value_and_slope(np.ones(4), at)[1]
    ahead = bd.Poisson().plain_value_and_slope(np.ones(4), at + 1e-5)[0]
    behind = bd.Poisson().plain_value_and_slope(np.ones(4), at - 1e-5)[0]
    np.testing.assert_allclose((ahead - behind) / 2e-5, slope, rtol=1e-8)


def test_large_counts_keep_their_digits_in_single_precision():
    """``e^s − y s`` alone would lose 4e-4 of a loss of 0.5 where the count is a thousand."""
    y, score = np.full(50, 1000.0), np.log(1000.0) + np.linspace(-0.1, 0.1, 50)
    exact, _ = bd.Poisson().plain_value_and_slope(y, score)
    single, _ = bd.Poisson().plain_value_and_slope(y.astype(np.float32), score.astype(np.float32))
    rounded = score.astype(np.float32).astype(float)
    np.testing.assert_allclose(single, bd.Poisson().plain_value_and_slope(y, rounded)[0], atol=1e-4)
    assert exact.min() < 0.1 < exact.max()
