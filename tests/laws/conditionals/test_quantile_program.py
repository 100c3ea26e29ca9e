"""The program of quantile regression: its mixture is exact, and its score is the quantile of what it simulates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import Predictive
from numpyro.infer.util import compute_log_probs
from scipy.stats import binomtest

import bayesdrop as bd
from bayesdrop.distributions import GeneralizedInverseGaussian
from bayesdrop.models import quantile

POWERS, QUANTILES = (0.1, 1.0, 2.5), (0.05, 0.5, 0.8)
SCORES = np.append(np.linspace(-6, 6, 23), [1 + 1e-6, 1 - 1e-6])
Y = np.ones_like(SCORES)


def log_factors(program, C, tau, latent_scale=None):
    """What each row contributes to the log density where the one weight is 1, so that ``x`` is the score."""
    values = {"weight": jnp.ones(1), "intercept": jnp.zeros(())}
    if latent_scale is not None:
        values["latent_scale"] = jnp.full(SCORES.shape, latent_scale)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        sites, _ = compute_log_probs(
            program, (jnp.asarray(SCORES[:, None]), jnp.asarray(Y), C, 1.0, tau), {}, values, sum_log_prob=False
        )
    return sum(sites[name] for name in sites if name not in ("weight", "intercept"))


@pytest.mark.slow
@pytest.mark.parametrize("tau", QUANTILES)
def test_the_program_is_the_normalised_loss(tau, same):
    loss = bd.Quantile(tau)
    for C in POWERS:
        expected = loss.log_constant(C) - C * loss.value(Y, SCORES, np.zeros_like(SCORES))
        same(log_factors(quantile.program, C, tau), expected)


@pytest.mark.slow
@pytest.mark.parametrize("tau", QUANTILES)
def test_joint_over_conditional_does_not_depend_on_the_latent_scale(tau, same):
    """The conditional is what the sampler draws from; the ratio is the plain program."""
    for C in POWERS:
        plain = log_factors(quantile.program, C, tau)
        conditional = GeneralizedInverseGaussian(0.5, 1.0, jnp.asarray(0.5 * C * (Y - SCORES)) ** 2)
        for latent in (0.03, 0.25, 1.0, 4.0):
            joint, posterior = log_factors(quantile.augmented, C, tau, latent), conditional.log_prob(latent)
            same(joint - posterior, plain, joint, posterior)


@pytest.fixture(scope="module")
def simulated():
    """Three thousand rows of the plain program and of the augmented one, at one draw of the parameters."""
    X = np.random.default_rng(0).normal(size=(3000, 2))
    values = {"weight": jnp.array([1.0, -0.5]), "intercept": jnp.array(0.3)}
    drawn = {}
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        for k, program in enumerate((quantile.program, quantile.augmented)):
            predictive = Predictive(program, {name: value[None] for name, value in values.items()})
            drawn[program] = np.asarray(predictive(jax.random.key(k), jnp.asarray(X), C=2.0, tau=0.8)["y"][0])
    return X, X @ [1.0, -0.5] + 0.3, drawn


@pytest.mark.slow
def test_the_score_is_the_quantile_of_what_it_simulates(simulated):
    """Exact tests of the share below the score; false-alarm rate 1e-6 each."""
    _, score, drawn = simulated
    for y in drawn.values():
        assert binomtest(int(np.sum(y < score)), len(y), 0.8).pvalue > 1e-6
