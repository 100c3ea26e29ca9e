"""``log p(y, aux | s) − log p(aux | y, s)`` does not depend on the auxiliary variable, and is ``−C loss(y, s)``.

The joint is the program's, the conditional the distribution that the sampler draws from. No chain is run.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import compute_log_probs

from bayesdrop.distributions import GeneralizedInverseGaussian, PolyaGamma
from bayesdrop.losses import Hinge, Logistic
from bayesdrop.models import logistic, svm

POWERS = (0.1, 1.0, 2.5)
# Both sides of the boundary and of the margin, up to 1e-6 of the hinge's kink.
SCORES = np.concatenate([np.linspace(-6, 6, 23), [0.0, 1 - 1e-6, -1 + 1e-6, 1e-6]])
LABELS = np.array([-1.0, 1.0])


def conditional_hinge(y, score, C):
    return GeneralizedInverseGaussian(0.5, 1.0, (0.5 * C * (1 - y * score)) ** 2)


def conditional_logistic(y, score, C):
    return PolyaGamma(jnp.full_like(score, C), score)


CASES = {
    "hinge": (svm, Hinge(), conditional_hinge, "latent_scale"),
    "logistic": (logistic, Logistic(), conditional_logistic, "omega"),
}


@pytest.fixture
def rows():
    """Every score with either label: ``(y, s)``, both (n,)."""
    y, score = (jnp.asarray(part.ravel()) for part in np.meshgrid(LABELS, SCORES))
    return y, score


def log_factors(program, y, score, C, **latent):
    """What each row contributes to the log density of a program with one weight of 1, so that ``x`` is the score."""
    values = {"weight": jnp.ones(1), "intercept": jnp.zeros(()), **latent}
    arguments = (score[:, None], (y > 0).astype(float), C)
    with jax.numpy_dtype_promotion("standard"):  # NumPyro's Bernoulli needs it
        sites, _ = compute_log_probs(program, arguments, {}, values, sum_log_prob=False)
    return sum(jnp.broadcast_to(sites[name], y.shape) for name in sites if name not in ("weight", "intercept"))


def latent_scales(name, C):
    """Small to large within the reach of the conditional."""
    size = C if name == "logistic" else 1.0
    return size * np.array([0.03, 0.1, 0.25, 1.0, 4.0])


@pytest.mark.slow
@pytest.mark.parametrize("C", POWERS)
@pytest.mark.parametrize("name", CASES)
def test_joint_over_conditional_is_the_pseudo_likelihood(name, rows, C, same):
    module, loss, conditional, site = CASES[name]
    y, score = rows
    plain = -C * loss.value(y, score, jnp.zeros_like(score))
    for value in latent_scales(name, C):
        latent = jnp.full_like(score, value)
        joint = log_factors(module.augmented, y, score, C, **{site: latent})
        posterior = conditional(y, score, C).log_prob(latent)
        same(joint - posterior, plain, joint, posterior)
