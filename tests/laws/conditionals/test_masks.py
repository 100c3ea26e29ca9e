"""Full conditionals of the feature-noising model, each against the joint density of the explicit program.

A conditional is right if log joint minus log conditional does not move with the variable. No chain is run.
"""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy.special import logsumexp
from scipy.stats import beta, multivariate_normal

from bayesdrop.distributions import HingePseudoLikelihood, LogisticPseudoLikelihood
from bayesdrop.losses import Hinge, Logistic
from bayesdrop.models import augmented_noising, feature_noising

N, P = 7, 4
A, B, SCALE = 1.7, 2.4, np.array([0.5, 1.0, 1.5, 2.0])
# Each rate structure with another power of the likelihood; the two do not meet in the program.
SETTINGS = {"per feature": (None, 1.0), "per group": ((0, 1, 0, 1), 0.1), "shared": ((0, 0, 0, 0), 2.5)}
# Each loss and each structure by default, and all pairs of them when there is time.
pytestmark = pytest.mark.slow_cases("hinge-per group", "logistic-per feature", "logistic-shared")
LOSSES = {
    "hinge": (Hinge(), HingePseudoLikelihood),
    "logistic": (Logistic(), LogisticPseudoLikelihood),
}


@pytest.fixture(autouse=True)
def _rank_promotion():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        yield


@pytest.fixture(params=SETTINGS)
def setting(request):
    return SETTINGS[request.param]


@pytest.fixture
def groups(setting):
    return setting[0]


@pytest.fixture
def C(setting):
    return setting[1]


@pytest.fixture(params=LOSSES)
def name(request):
    return request.param


@pytest.fixture
def data():
    rng = np.random.default_rng(31)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.75)
    assert 0 < np.sum(X == 0) < X.size / 2
    return jnp.asarray(X), jnp.asarray(np.where(rng.random(N) < 0.5, -1.0, 1.0))


@pytest.fixture
def state(groups):
    rng = np.random.default_rng(32)
    return {
        "weight": jnp.asarray(rng.normal(size=P)),
        "intercept": jnp.asarray(0.3),
        "rate": jnp.asarray(rng.uniform(0.1, 0.9, P if groups is None else max(groups) + 1)),
        "kept": jnp.asarray((rng.random((N, P)) < 0.6).astype(float)),
    }


def joint(data, state, groups, option, C, program=feature_noising.program):
    """Return the log joint density of the program as a function of some of its variables, compiled.

    ``option`` is the likelihood, of the program with both augmentations whether it is the hinge.
    """
    X, y = data
    arguments = (X, y > 0, option, C, A, B, groups, jnp.asarray(SCALE), None)

    @jax.jit
    def density(**some):
        return log_density(program, arguments, {}, {**state, **some})[0]

    return density


@cache
def sampler(name):
    return jax.jit(LOSSES[name][0].sample_pseudo)


def pseudo_observations(name, data, state, groups, C):
    """A draw ``(ω, κ)`` of the sampler's, and the augmented program's joint density at the variables it stands for."""
    X, y = data
    score = (X * state["kept"]) @ state["weight"] + state["intercept"]
    omega, kappa = sampler(name)(jax.random.key(33), y, score, jnp.zeros_like(score), jnp.full_like(score, C))
    latent = {"latent_scale": (C / 2) ** 2 / omega} if name == "hinge" else {"omega": omega}
    return omega, kappa, joint(data, {**state, **latent}, groups, name == "hinge", C, augmented_noising.program)


def flips(kept):
    """All states that differ from ``kept`` in one mask, that mask set to 1 and to 0: (n p, n, p) each."""
    cells = jnp.eye(kept.size).reshape(-1, *kept.shape)
    return jnp.where(cells == 1, 1.0, kept[None]), jnp.where(cells == 1, 0.0, kept[None])


def spread_rate(state, groups):
    return state["rate"] if groups is None else state["rate"][jnp.asarray(groups)]


@pytest.mark.slow
def test_mask_given_latent_scales(name, C, groups, data, state, same):
    """``logit P(α = 1) = log(1 − η) − log η + u(κ − ω(ψ₋ + u/2))``, ``u = w_d x_id``, ``ψ₋`` the score without it."""
    X, _ = data
    omega, kappa, density = pseudo_observations(name, data, state, groups, C)
    kept_one, kept_zero = flips(state["kept"])
    up, down = (jax.vmap(lambda kept: density(kept=kept))(kept) for kept in (kept_one, kept_zero))
    entry = X * state["weight"]
    without = (X * state["kept"]) @ state["weight"] + state["intercept"]
    without = without[:, None] - state["kept"] * entry
    rate = spread_rate(state, groups)
    logit = jnp.log1p(-rate) - jnp.log(rate) + entry * (kappa[:, None] - omega[:, None] * (without + entry / 2))
    # A zero entry says nothing: both values of its mask are the same data.
    same((up - down).reshape(N, P), jnp.where(X != 0, logit, 0.0), up, down)


def test_mask_with_latent_scales_integrated(name, C, groups, data, state, same):
    """``logit P(α = 1) = log(1 − η) − log η + log L(keep) − log L(drop)`` with the library's loss, un-augmented."""
    X, y = data
    loss, likelihood = LOSSES[name]
    density = joint(data, state, groups, likelihood, C)
    kept_one, kept_zero = flips(state["kept"])
    up, down = (jax.vmap(lambda kept: density(kept=kept))(kept) for kept in (kept_one, kept_zero))
    entry = X * state["weight"]
    without = (X * state["kept"]) @ state["weight"] + state["intercept"]
    without = without[:, None] - state["kept"] * entry
    zero, label = jnp.zeros_like(without), jnp.broadcast_to(y[:, None], without.shape)
    gain = C * (loss.value(label, without, zero) - loss.value(label, without + entry, zero))
    rate = spread_rate(state, groups)
    logit = jnp.log1p(-rate) - jnp.log(rate) + gain
    same((up - down).reshape(N, P), jnp.where(X != 0, logit, 0.0), up, down)


def test_rate_given_masks(name, groups, data, state, same):
    """``η | α ~ Beta(A + #dropped, B + #kept)``, counted where ``x ≠ 0``."""
    X, _ = data
    density = joint(data, state, groups, LOSSES[name][1], 1.0)
    owner = np.arange(P) if groups is None else np.asarray(groups)
    k = len(state["rate"])
    occurs, kept = np.asarray(X != 0), np.asarray(state["kept"])
    kept_count, dropped_count = np.zeros(k), np.zeros(k)
    np.add.at(kept_count, owner, np.sum(occurs & (kept == 1), axis=0))
    np.add.at(dropped_count, owner, np.sum(occurs & (kept == 0), axis=0))
    rates = np.random.default_rng(34).uniform(0.02, 0.98, (9, k))
    log_joint = np.asarray(jax.vmap(lambda rate: density(rate=rate))(jnp.asarray(rates)))
    conditional = beta.logpdf(rates, A + dropped_count, B + kept_count).sum(axis=1)
    constant = log_joint - conditional
    same(constant, np.full(9, constant[0]), log_joint, conditional)
    assert np.ptp(conditional) > 1


@pytest.mark.slow
def test_weights_given_latent_scales_and_masks(name, C, groups, data, state, same):
    """``(b, w) | · ~ N(Q⁻¹Zᵀκ, Q⁻¹)``, ``Q = P + ZᵀΩZ``, ``Z = [1, X∘α]``, the intercept's prior flat."""
    X, _ = data
    omega, kappa, density = pseudo_observations(name, data, state, groups, C)
    Z = np.column_stack([np.ones(N), X * state["kept"]])
    omega, kappa = np.asarray(omega), np.asarray(kappa)
    Q = np.diag(np.append(0.0, 1 / SCALE**2)) + Z.T @ (omega[:, None] * Z)
    covariance = np.linalg.inv(Q)
    mean = covariance @ Z.T @ kappa
    draws = mean + 2 * np.random.default_rng(35).normal(size=(9, P + 1))
    log_joint = np.asarray(jax.vmap(lambda v: density(intercept=v[0], weight=v[1:]))(jnp.asarray(draws)))
    conditional = multivariate_normal(mean, (covariance + covariance.T) / 2).logpdf(draws)
    constant = log_joint - conditional
    same(constant, np.full(9, constant[0]), log_joint, conditional)
    assert np.ptp(conditional) > 1


def test_enumerated_is_the_sum_over_all_masks(name, C, groups, state, same):
    """Brute force over the masks of every row at once, where the program sums row by row."""
    rng = np.random.default_rng(36)
    X = rng.normal(size=(3, P))
    X[0, 1] = X[2, 3] = X[2, 0] = 0.0
    data = jnp.asarray(X), jnp.array([1.0, -1.0, 1.0])
    likelihood = LOSSES[name][1]
    density = joint(data, state, groups, likelihood, C)
    cells = np.argwhere(X != 0)
    masks = np.ones((2 ** len(cells), 3, P))
    masks[:, cells[:, 0], cells[:, 1]] = np.array(list(itertools.product((0.0, 1.0), repeat=len(cells))))
    brute = logsumexp(np.asarray(jax.vmap(lambda kept: density(kept=kept))(jnp.asarray(masks))))
    values = {key: state[key] for key in ("weight", "intercept", "rate")}
    arguments = (data[0], data[1] > 0, likelihood, C, A, B, groups, jnp.asarray(SCALE), None)
    same(jax.jit(lambda some: log_density(feature_noising.enumerated, arguments, {}, some)[0])(values), brute)
