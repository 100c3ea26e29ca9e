"""Smoothed importance weights: ArviZ's where it has them, and those of a law whose shape is known."""

import numpy as np
import pytest

from bayesdrop._arviz import arviz
from bayesdrop.posterior.diagnostics.mixing import largest_k, smoothed_log_weights


@pytest.mark.parametrize("size", [64, 1000, 20_000])
@pytest.mark.parametrize("k", [-0.3, 0.2, 0.8])
def test_the_shape_of_a_tail_is_found(size, k):
    """Quantiles of a generalised Pareto law: only the prior, worth ten weights at 1/2, moves the shape."""
    chance = (np.arange(size) + 0.5) / size
    ratios = np.log1p(np.expm1(-k * np.log1p(-chance)) / k)
    tail = int(np.ceil(min(size / 5, 3 * np.sqrt(size))))
    log_weights, found = smoothed_log_weights(np.random.default_rng(0).permutation(ratios) + 7.0)
    assert np.exp(log_weights).sum() == pytest.approx(1.0)
    # The tail of such a law is one of the same shape; a fit to t quantiles is off by less than 2/√t.
    assert found == pytest.approx((tail * k + 5) / (tail + 10), abs=2 / np.sqrt(tail) * tail / (tail + 10))


def test_agrees_with_arviz():
    az = arviz()
    if not hasattr(az, "psislw"):  # later versions keep it to themselves; the law above remains
        return
    rng = np.random.default_rng(1)
    for ratios in (rng.normal(size=500), 2 * rng.standard_t(4, size=4000), rng.exponential(size=64) * 0.3):
        log_weights, k = smoothed_log_weights(ratios)
        theirs, shape = az.psislw(ratios)
        np.testing.assert_allclose(log_weights, theirs, rtol=0, atol=1e-9)
        assert k == pytest.approx(float(shape), abs=1e-9)


def test_no_tail_and_no_ratios():
    assert smoothed_log_weights(np.array([0.0, 0.0, 1.0]))[1] == np.inf
    log_weights, k = smoothed_log_weights(np.full(50, -1e300))
    assert k == 0.0
    np.testing.assert_allclose(log_weights, -np.log(50))
    assert largest_k(10) == 0.0
