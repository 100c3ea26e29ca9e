"""The Beta law of rates: closed forms agree with SciPy's quadrature, and draws with distribution functions.

Draws are held to distribution functions by Kolmogorov-Smirnov tests with a false-alarm rate of 1e-6 each.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import integrate, special, stats

import bayesdrop as bd
from bayesdrop.posterior.arviz_groups.constants import rate_prior_constants, read_rate_prior
from bayesdrop.priors import RatePrior
from bayesdrop.priors.rate_prior import log_rates

FALSE_ALARM = 1e-6
A, B = np.array([0.3, 1.0, 7.0, 2.0]), np.array([0.6, 1.0, 2.0, 30.0])
K = 4
DROPPED, KEPT = np.array([3.0, 0.0, 1000.0, 0.0]), np.array([5.5, 0.0, 2.0, 7.0])
PRIOR = bd.Beta(A, B).law(np.zeros(K))


def close(found, expected, rtol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def test_a_prior_is_known_by_its_protocol():
    assert isinstance(bd.Beta(), RatePrior)
    assert bd.Beta() == bd.PerFeature(bd.Beta()).prior
    for wrong in (bd.Beta, bd.Normal(), bd.Normal(bd.HalfNormal()), bd.Laplace(1.0), bd.Gamma(2.0, 1.0)):
        with pytest.raises(TypeError, match="prior: expected an object such as"):
            bd.PerFeature(wrong)
    with pytest.raises(ValueError, match="4 in all, got 3"):
        bd.Beta([1.0, 1.0, 1.0]).law(np.zeros(4))
    for counts in (np.zeros(4), np.zeros((4, 2))):
        law = bd.Beta([1.0, 2.0, 3.0, 4.0], 2.0).law(counts)
        assert all(part.shape == counts.shape for part in law)


def test_modes_and_strengths_of_several_rates():
    assert bd.Beta([2.0, 1.0], [4.0, 1.0]).strength.tolist() == [4.0, 0.0]
    relative = bd.Beta.from_mode([0.1, 0.2], relative_strength=3)
    np.testing.assert_allclose(relative.mode, [0.1, 0.2], rtol=1e-15)
    assert bd.Beta.from_mode(0.25, relative_strength=3).mode == 0.25
    assert bd.HalfNormal([1.0, 3.0]).in_units(2.0).scale.tolist() == [0.5, 1.5]


@pytest.mark.slow
def test_the_densities_of_logit_and_rate_agree_in_both_namespaces():
    law, logit = PRIOR, np.linspace(-8.0, 8.0, K)
    log_rate, log_rest = log_rates(logit)
    close(law.log_rate_density(log_rate, log_rest), law.log_density(logit) - log_rate - log_rest)
    close(law.given(0 * DROPPED, 0 * DROPPED).log_density(logit), law.log_density(logit))
    both = law.given(DROPPED, DROPPED + KEPT)
    close(both.log_density(logit), law.log_density(logit) + DROPPED * log_rate + KEPT * log_rest)
    with jax.enable_x64(True):
        there = jax.tree.map(jnp.asarray, law)
        close(there.log_density(jnp.asarray(logit)), law.log_density(logit))
        close(there.given(jnp.asarray(DROPPED), jnp.asarray(DROPPED + KEPT)).log_density(jnp.asarray(logit)),
              both.log_density(logit))  # fmt: skip
        close(there.width(), law.width())
    curve = np.array([both.log_density(np.full(K, x)) for x in np.linspace(-30, 30, 301)])
    assert np.all(np.diff(curve, 2, axis=0) <= 1e-9)


@pytest.mark.slow
def test_draws_quantiles_and_stored_numbers_are_those_of_the_law():
    law, draws = PRIOR, 4000
    rate = law.sample(np.random.default_rng(0), draws)
    wide = law.map(lambda part: np.tile(part, (draws, 1)))
    with jax.enable_x64(True):
        logit = np.asarray(jax.tree.map(jnp.asarray, wide).draw_logit(jax.random.key(0)))
    # A density by its integral over the logit, whatever the law says of itself.
    for j in range(K):
        grid = np.linspace(-80, 80, 400_001)
        density = np.exp(law.map(lambda part, j=j: part[j : j + 1]).log_density(grid))
        below = integrate.cumulative_simpson(density, x=grid, initial=0)
        for drawn in (special.logit(np.clip(rate[:, j], 1e-300, 1 - 1e-16)), logit[:, j]):
            place = np.interp(drawn, grid, below / below[-1])
            assert stats.kstest(place, "uniform").pvalue > FALSE_ALARM
        for chance in (0.05, 0.5, 0.95):
            end = law.quantile(chance)[j]
            if 1e-12 < end < 1 - 1e-12:
                assert np.interp(special.logit(end), grid, below / below[-1]) == pytest.approx(chance, abs=1e-6)
    again = read_rate_prior(xr.Dataset(rate_prior_constants(law, "feature")), [])
    assert type(again) is type(law)
    for one, other in zip(again, law, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("j", range(K))
def test_closed_forms_are_scipys_quadrature(j):
    """Averages over the logit, whose density is analytic, by the trapezoid rule."""
    law = PRIOR.given(DROPPED, DROPPED + KEPT)
    logit = np.linspace(-120.0, 120.0, 2_400_001)
    logs = log_rates(logit)

    def log_density(law):
        density = law.map(lambda part: part[j : j + 1]).log_density(logit)
        return density - np.log(integrate.trapezoid(np.exp(density - density.max()), logit)) - density.max()

    here, before = log_density(law), log_density(PRIOR)
    mean = lambda values: integrate.trapezoid(np.exp(here) * values, logit)  # noqa: E731
    close(law.mean()[j], mean(special.expit(logit)), 1e-10)
    close([part[j] for part in law.expected_logs()], [mean(part) for part in logs], 1e-9)
    close(law.divergence(PRIOR)[j], mean(here - before), 1e-9)


def test_a_law_given_counts_moves_and_is_told_from_its_prior():
    law = PRIOR.given(DROPPED, DROPPED + KEPT)
    moved = law.with_log_odds(law.log_odds() + 0.3)
    close(moved.log_odds(), law.log_odds() + 0.3, rtol=1e-9)
    close(moved.a + moved.b, law.a + law.b)
    close(PRIOR.given(0 * DROPPED, 0 * DROPPED).divergence(PRIOR), np.zeros(K))
    assert law.sample(np.random.default_rng(0), 7).shape == (7, K)
