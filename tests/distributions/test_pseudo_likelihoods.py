"""Pseudo-likelihoods: minus the library's losses, draws from the normalised form, and the mixtures that they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from numpyro import distributions as dist
from numpyro.handlers import seed, trace
from scipy import integrate, stats

import bayesdrop as bd
from bayesdrop.distributions import (
    BernoulliPseudoLikelihood,
    CategoricalPseudoLikelihood,
    ConvexPseudoLikelihood,
    EpsilonInsensitiveGivenScales,
    EpsilonInsensitivePseudoLikelihood,
    HingeGivenScale,
    HingePseudoLikelihood,
    LogisticPseudoLikelihood,
    NormalPseudoLikelihood,
)
from bayesdrop.models import marginalised_dropout

DRAWS = 4000
FALSE_ALARM = 1e-5
SCORES = np.array([-2.0, -0.4, 0.0, 0.9, 1.0, 3.0])


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize(
    ("law", "loss"), [(HingePseudoLikelihood, bd.Hinge()), (LogisticPseudoLikelihood, bd.Logistic())]
)
def test_labels_have_minus_the_loss(law, loss):
    for C in (0.3, 2.0):
        for y in (0, 1):
            expected = -C * loss.value(np.full(6, 2.0 * y - 1), SCORES, np.zeros(6))
            np.testing.assert_allclose(law(SCORES, C).log_prob(y), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("law", "loss"),
    [
        (lambda s, C: EpsilonInsensitivePseudoLikelihood(s, C, 0.3), bd.EpsilonInsensitive(0.3)),
        (lambda s, C: NormalPseudoLikelihood(s, C), bd.Squared(variance=1.0)),
    ],
)
def test_numbers_have_minus_the_loss(law, loss):
    y = np.linspace(-3, 3, 6)
    expected = -0.7 * loss.value(y, SCORES, np.zeros(6))
    np.testing.assert_allclose(law(SCORES, 0.7).log_prob(y), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_labels_are_drawn_from_the_normalised_form():
    """Exact binomial and chi-square tests; false-alarm rate 1e-5 together."""
    laws = [BernoulliPseudoLikelihood(-3.0, -2.0), HingePseudoLikelihood(0.3, 2.0), LogisticPseudoLikelihood(-0.5, 3.0)]
    for number, law in enumerate(laws):
        chance = np.exp([float(law.log_prob(y)) for y in (0, 1)])
        drawn = np.asarray(law.sample(random.key(number), (DRAWS,)))
        assert stats.binomtest(int(drawn.sum()), DRAWS, chance[1] / chance.sum()).pvalue > FALSE_ALARM / 4
    law = CategoricalPseudoLikelihood(jnp.array([-1.0, -2.0, -0.5]))
    weight = np.exp([float(law.log_prob(y)) for y in range(3)])
    counts = np.bincount(np.asarray(law.sample(random.key(9), (DRAWS,))), minlength=3)
    assert stats.chisquare(counts, DRAWS * weight / weight.sum()).pvalue > FALSE_ALARM / 4


def tilted(y, mean, var, tau=0.8):
    """The check loss with the augmentation bound: convex, and not symmetric."""
    residual = y - mean
    return 0.5 * jnp.sqrt(residual**2 + var) + (tau - 0.5) * residual


REAL = {
    "tube": EpsilonInsensitivePseudoLikelihood(0.5, 2.0, 0.4),
    "normal": NormalPseudoLikelihood(0.5, 3.0, -7.0),
    "given scales": EpsilonInsensitiveGivenScales(0.5, 1.3, 0.4, 2.0, 0.4),
    "convex, tube": ConvexPseudoLikelihood(marginalised_dropout.epsilon_insensitive, (0.5, 0.0), 2.0),
    "convex, bound": ConvexPseudoLikelihood(marginalised_dropout.epsilon_insensitive, (0.5, 3.0), 40.0),
    "convex, tilted": ConvexPseudoLikelihood(tilted, (0.5, 0.0), 0.7),
}


@pytest.mark.default_cases("normal", "given scales")
@pytest.mark.parametrize("name", REAL)
def test_numbers_are_drawn_from_the_normalised_form(name):
    """Kolmogorov-Smirnov against the integral of ``log_prob``; false-alarm rate 1e-5 each."""
    law = REAL[name]
    grid = np.linspace(-60, 60, 240_001)
    log_density = np.asarray(law.log_prob(jnp.asarray(grid)))
    total = integrate.cumulative_trapezoid(np.exp(log_density - log_density.max()), grid, initial=0)
    drawn = np.asarray(law.sample(random.key(3), (DRAWS,)))
    assert drawn.shape == (DRAWS,)
    assert stats.kstest(drawn, lambda x: np.interp(x, grid, total / total[-1])).pvalue > FALSE_ALARM


@pytest.mark.slow
def test_both_mixtures_are_the_losses():
    """The mean over ``λ ~ Exp(½)``, in log λ by the trapezoidal rule, which converges geometrically there."""
    t = np.linspace(-60, 6, 4001)
    latent = jnp.asarray(np.exp(t))
    log_prior = np.asarray(dist.Exponential(0.5).log_prob(latent)) + t
    C = 1.7

    def log_mean(log_terms):
        return np.logaddexp.reduce(np.asarray(log_terms), axis=-1) + np.log(t[1] - t[0])

    for y in (0, 1):
        terms = HingeGivenScale(SCORES[:, None], latent[None], C).log_prob(y) + log_prior
        np.testing.assert_allclose(log_mean(terms), HingePseudoLikelihood(SCORES, C).log_prob(y), atol=1e-10)
    # Of a number both parts are independent given the scales: twice a mixture, on the grid of one scale at a time.
    t = t[::10]
    grid = jnp.asarray(np.exp(t))
    prior = np.asarray(dist.Exponential(0.5).log_prob(grid)) + t
    for y in (-0.8, 0.35, 2.0):
        law = EpsilonInsensitiveGivenScales(0.3, grid[:, None], grid[None, :], C, 0.2)
        found = log_mean(log_mean(law.log_prob(y) + prior[None, :]) + prior)
        expected = float(EpsilonInsensitivePseudoLikelihood(0.3, C, 0.2).log_prob(y))
        assert found == pytest.approx(expected, abs=1e-8)


@pytest.mark.slow
def test_they_serve_in_plates_mixtures_and_transformations():
    def program():
        import numpyro

        with numpyro.plate("row", 6):
            numpyro.sample("label", HingePseudoLikelihood(SCORES, 0.5))
            numpyro.sample("class", CategoricalPseudoLikelihood(jnp.zeros((6, 3))))
            numpyro.sample("tube", EpsilonInsensitivePseudoLikelihood(SCORES, 0.5))
            components = LogisticPseudoLikelihood(SCORES[:, None] * np.ones(2))
            numpyro.sample("mixed", dist.MixtureSameFamily(dist.Categorical(logits=jnp.zeros(2)), components))

    sites = trace(seed(program, 0)).get_trace()
    assert {sites[name]["value"].shape for name in ("label", "class", "tube", "mixed")} == {(6,)}
    law = HingePseudoLikelihood(SCORES, 0.5)
    np.testing.assert_allclose(jax.jit(lambda law: law.log_prob(1))(law), law.log_prob(1), rtol=1e-6)
    assert law.enumerate_support().shape == (2, 6)
    assert law.expand((4, 6)).sample(random.key(0)).shape == (4, 6)
    checked = HingePseudoLikelihood(0.0, validate_args=True)
    with pytest.warns(UserWarning, match="Out-of-support"):
        assert float(checked.log_prob(2)) == -np.inf
