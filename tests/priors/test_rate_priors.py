"""Every prior of rates keeps its protocol; the one without closed forms agrees with scipy's quadrature.

Draws are held to distribution functions by Kolmogorov-Smirnov tests with a false-alarm rate of 1e-6 each.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import integrate, special, stats

import bayesdrop as bd
from bayesdrop import priors
from bayesdrop.posterior.arviz_groups.constants import rate_prior_constants, read_rate_prior
from bayesdrop.priors import RatePrior
from bayesdrop.priors.beta import BetaLaw
from bayesdrop.priors.counted_law import CountedLaw
from bayesdrop.priors.rate_prior import log_rates, map_arrays

FALSE_ALARM = 1e-6
SETTINGS = {
    "Beta": {"a": np.array([0.3, 1.0, 7.0, 2.0]), "b": np.array([0.6, 1.0, 2.0, 30.0])},
    "LogitNormal": {"mean": np.array([-1.0, 0.0, 3.0, 0.0]), "scale": np.array([0.5, 1.5, 4.0, 15.0])},
}
K = 4
DROPPED, KEPT = np.array([3.0, 0.0, 1000.0, 0.0]), np.array([5.5, 0.0, 2.0, 7.0])
KINDS = [name for name in priors.__all__ if hasattr(getattr(priors, name), "stored_law") and name != "RatePrior"]


def law_of(name):
    return getattr(priors, name)(**SETTINGS[name]).law(np.zeros(K))


def close(found, expected, rtol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", KINDS)
def test_a_prior_is_known_by_its_protocol(name):
    prior = getattr(priors, name)()
    assert isinstance(prior, RatePrior)
    assert prior == bd.PerFeature(prior).prior
    with pytest.raises(TypeError, match="prior: expected an object such as"):
        bd.PerFeature(getattr(priors, name))
    with pytest.raises(TypeError, match="prior: expected an object such as"):
        bd.PerFeature(bd.Normal())
    with pytest.raises(ValueError, match="4 in all, got 3"):
        getattr(priors, name)([1.0, 1.0, 1.0]).law(np.zeros(4))
    for counts in (np.zeros(4), np.zeros((4, 2))):
        law = getattr(priors, name)([1.0, 2.0, 3.0, 4.0], 2.0).law(counts)
        assert all(part.shape == counts.shape for part in law)


@pytest.mark.parametrize("name", KINDS)
def test_the_densities_of_logit_and_rate_agree_in_both_namespaces(name):
    law, logit = law_of(name), np.linspace(-8.0, 8.0, K)
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


@pytest.mark.parametrize("name", KINDS)
def test_draws_quantiles_and_stored_numbers_are_those_of_the_law(name):
    law, draws = law_of(name), 4000
    rate = law.sample(np.random.default_rng(0), draws)
    wide = map_arrays(lambda part: np.tile(part, (draws, 1)), law)
    with jax.enable_x64(True):
        logit = np.asarray(jax.tree.map(jnp.asarray, wide).draw_logit(jax.random.key(0)))
    # A density by its integral over the logit, whatever the law says of itself.
    for j in range(K):
        grid = np.linspace(-80, 80, 400_001)
        density = np.exp(map_arrays(lambda part, j=j: part[j : j + 1], law).log_density(grid))
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


@pytest.mark.parametrize("name", KINDS)
def test_a_law_given_counts_keeps_its_protocol(name):
    prior = law_of(name)
    law = prior.given(DROPPED, DROPPED + KEPT)
    for probability in (0.3, 0.9):
        low, high = law.interval(probability)
        assert np.all((low <= law.mode()) & (law.mode() <= high))
    moved = law.with_log_odds(law.log_odds() + 0.3)
    close(moved.log_odds(), law.log_odds() + 0.3, rtol=1e-9)
    assert np.all(law.divergence(prior) > -1e-12)
    close(prior.given(0 * DROPPED, 0 * DROPPED).divergence(prior), np.zeros(K))
    assert law.sample(np.random.default_rng(0), 7).shape == (7, K)
    assert all(np.shape(part) == (K,) for part in law.constants().values())


def test_the_logit_normal_density_is_scipys():
    """By the change of variables ``p(η) = N(logit η; μ, σ²) / {η (1 − η)}``."""
    law, rate = law_of("LogitNormal"), np.array([0.2, 0.5, 0.99, 0.01])
    location, scale = SETTINGS["LogitNormal"].values()
    expected = stats.norm(location, scale).logpdf(special.logit(rate)) - np.log(rate) - np.log1p(-rate)
    close(law.log_rate_density(np.log(rate), np.log1p(-rate)) - np.log(scale * np.sqrt(2 * np.pi)), expected)
    close(law.quantile(0.3), special.expit(stats.norm(location, scale).ppf(0.3)))


def by_scipy(law, j):
    """Mode of the logit of rate ``j``, and a function that averages over it, both by scipy."""
    centre, scale = law.prior.location[j], law.prior.scale[j]

    def log_density(x):
        return (-0.5 * ((x - centre) / scale) ** 2
                + law.dropped[j] * -np.logaddexp(0, -x) + law.kept[j] * -np.logaddexp(0, x))  # fmt: skip

    mode = special.logit(law.mode()[j])
    top = log_density(mode)

    def integral(function, low=-np.inf, high=np.inf):
        # Pieces of about a standard deviation, for ends at infinity hide a narrow peak.
        low, high = max(low, mode - 40 * scale), min(high, mode + 40 * scale)
        edges = np.unique(
            np.clip(np.concatenate([np.linspace(low, high, 81), mode + np.linspace(-5, 5, 41)]), low, high)
        )
        pieces = zip(edges[:-1], edges[1:], strict=True)
        return sum(
            integrate.fixed_quad(lambda x: function(x) * np.exp(log_density(x) - top), *ends, n=40)[0]
            for ends in pieces
        )

    return mode, integral, top


@pytest.mark.parametrize("j", range(K))
def test_updates_of_a_logit_normal_are_those_of_scipys_quadrature(j):
    law = law_of("LogitNormal").given(DROPPED, DROPPED + KEPT)
    prior = law.prior.given(0 * DROPPED, 0 * DROPPED)
    mode, integral, top = by_scipy(law, j)
    location, scale = law.prior.location[j], law.prior.scale[j]
    rate = special.expit(mode)
    assert mode == pytest.approx(location + scale**2 * (DROPPED[j] - (DROPPED[j] + KEPT[j]) * rate), rel=1e-9, abs=1e-9)
    total = integral(np.ones_like)
    logs = [integral(lambda x, s=s: -np.logaddexp(0, -s * x)) / total for s in (1, -1)]
    close(law.mean()[j], integral(special.expit) / total, 1e-10)
    close([part[j] for part in law.expected_logs()], logs, 1e-10)
    normaliser = np.log(total) + top - np.log(scale * np.sqrt(2 * np.pi))
    close(law.divergence(law.prior)[j], DROPPED[j] * logs[0] + KEPT[j] * logs[1] - normaliser, 1e-9)
    close(prior.divergence(law.prior)[j], 0.0)
    for probability in (0.5, 0.9):
        low, high = (special.logit(end[j]) for end in law.interval(probability))
        assert integral(np.ones_like, low, high) / total == pytest.approx(probability, abs=1e-6)
        ends = [law.log_density(np.full(K, end))[j] for end in (low, high)]
        assert ends[0] == pytest.approx(ends[1], abs=1e-4)


class BetaByQuadrature(NamedTuple):
    """The conjugate prior as one that does not know that it is."""

    a: np.ndarray
    b: np.ndarray
    log_density = BetaLaw.log_density
    width = BetaLaw.width

    def slope(self, logit):
        return self.a * special.expit(-logit) - self.b * special.expit(logit)


def test_quadrature_gives_a_beta_prior_its_closed_forms():
    a, b = np.array([0.3, 1.0, 7.0, 2.0]), np.array([0.6, 1.0, 2.0, 30.0])
    exact, found = BetaLaw(a + DROPPED, b + KEPT), CountedLaw(BetaByQuadrature(a, b), DROPPED, KEPT)
    close(found.mean(), exact.mean(), 1e-10)
    close(found.mode(), exact.mean())  # the density of the logit peaks at the mean of the rate
    close(found.expected_logs(), exact.expected_logs(), 1e-9)
    close(found.divergence(BetaByQuadrature(a, b)), exact.divergence(BetaLaw(a, b)), 1e-9)
    drawn = found.sample(np.random.default_rng(1), 5000)
    for j in range(K):
        assert stats.kstest(drawn[:, j], stats.beta(exact.a[j], exact.b[j]).cdf).pvalue > FALSE_ALARM


def test_a_law_of_many_problems_is_that_of_each():
    """Shapes (k, K), more rates than are integrated at once."""
    generator = np.random.default_rng(0)
    dropped, kept = generator.gamma(1.0, 20.0, size=(2, 1500, 2))
    law = bd.LogitNormal(-0.5, 0.8).law(dropped).given(dropped, dropped + kept)
    for question in (lambda law: law.mean(), lambda law: law.interval(0.8)[1], lambda law: law.expected_logs()[0]):
        whole, part = question(law), question(map_arrays(lambda a: a[1490:, 1], law))
        assert whole.shape == (1500, 2)
        np.testing.assert_allclose(whole[1490:, 1], part, rtol=1e-10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": 0.0}, "scale: expected finite numbers above 0"),
        ({"scale": [1.0, np.inf]}, "scale: expected finite numbers above 0"),
        ({"mean": np.nan}, "mean: expected finite numbers"),
        ({"mean": "a"}, "mean: expected finite numbers"),
        ({"mean": [[0.0]]}, "mean: expected finite numbers"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        bd.LogitNormal(**settings)
