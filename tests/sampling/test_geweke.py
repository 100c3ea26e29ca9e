"""Joint distribution test (Geweke 2004), from exact draws.

Parameters, masks and labels are drawn from the model; then the sampler's step and a fresh draw of the labels given the
scores alternate. Both keep the joint distribution, so that afterwards every marginal is still the model's. Replicates
are independent, hence a plain two-sample test: no autocorrelation to estimate. It applies to the logistic and the
squared loss with C = 1, whose likelihoods are normalised; the hinge is held to enumeration elsewhere.

Each case compares up to 23 statistics; the chance of a false alarm is 2e-5 a case. Weights, scores and labels are
squashed into (−1, 1) where their law has heavy tails.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logit
from scipy import stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.priors.horseshoe import HorseshoeScales
from bayesdrop.priors.rate_prior import BetaLaw

FALSE_ALARM = 2e-5
REPLICATES, STEPS = 3000, 12
N, P = 10, 4
NAMES = [f"x{d}" for d in range(P)]
PRIOR = bd.Beta(2.0, 3.0)


def design():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P)) * 1.5
    X[rng.random((N, P)) < 0.2] = 0
    return X


LOGISTIC = bd.Model(bd.Logistic(), fit_intercept=False)
NOISY = bd.Squared(variance=bd.InverseGamma(3.0, 2.0))
POOLED = bd.Hierarchical(["a", "a", "a", "b"], PRIOR, bd.Gamma(2.0, 5.0))
CASES = {
    "per feature": replace(LOGISTIC, rates=bd.PerFeature(PRIOR)),
    "per feature, unbiased": replace(LOGISTIC, rates=bd.PerFeature(PRIOR), noise=bd.Dropout(unbiased=True)),
    "groups": replace(LOGISTIC, rates=bd.PerGroup(["a", "a", "a", "b"], PRIOR)),
    "shared": replace(LOGISTIC, rates=bd.Shared(PRIOR)),
    "fixed": replace(LOGISTIC, rates=bd.Fixed(0.3)),
    "laplace": replace(LOGISTIC, rates=bd.PerFeature(PRIOR), weight_prior=bd.Laplace(0.7)),
    "horseshoe": replace(LOGISTIC, rates=bd.PerFeature(PRIOR), weight_prior=bd.Horseshoe(0.5)),
    "horseshoe, unbiased, groups": replace(
        LOGISTIC, rates=bd.PerGroup(["a", "a", "a", "b"], PRIOR), weight_prior=bd.Horseshoe(0.5),
        noise=bd.Dropout(unbiased=True),
    ),
    "learnt scale, unbiased": replace(
        LOGISTIC, rates=bd.PerFeature(PRIOR), weight_prior=bd.Normal(bd.HalfNormal(1.5)),
        noise=bd.Dropout(unbiased=True),
    ),
    "learnt scales, groups": replace(
        LOGISTIC, rates=bd.PerGroup(["a", "a", "a", "b"], PRIOR),
        weight_prior=bd.Normal(bd.HalfCauchy(0.5), groups=["a", "b", "b", "a"]),
    ),
    "hierarchy": replace(LOGISTIC, rates=POOLED),
    "hierarchy, unbiased": replace(LOGISTIC, rates=POOLED, noise=bd.Dropout(unbiased=True)),
    "unknown variance": replace(LOGISTIC, loss=NOISY, rates=bd.PerFeature(PRIOR)),
    "unknown variance, groups": replace(LOGISTIC, loss=NOISY, rates=bd.PerGroup(["a", "a", "a", "b"], PRIOR)),
    "unknown variance, laplace, hierarchy": replace(
        LOGISTIC, loss=NOISY, rates=POOLED, weight_prior=bd.Laplace(0.7)
    ),
}  # fmt: skip


def known(key, state, prior):
    return state.precision, state.scales


def laplace(key, state, prior):
    return 1 / (2 * prior.scale**2 * jax.random.exponential(key, state.precision.shape, jnp.float64)), state.scales


def horseshoe(key, state, prior):
    keys = jax.random.split(key, 4)
    gamma = lambda key, like: jax.random.gamma(key, 0.5, like.shape, jnp.float64)  # noqa: E731
    local_mixing, shared_mixing = (1 / gamma(k, x) for k, x in zip(keys[:2], state.scales[1:4:2], strict=True))
    local, shared = (
        1 / (local_mixing * gamma(keys[2], local_mixing)),
        1 / (shared_mixing * gamma(keys[3], shared_mixing)),
    )
    scales = HorseshoeScales(local, local_mixing, shared, shared_mixing, state.scales.scale)
    return 1 / (local * shared[:, None] * prior.scale**2), scales


SCALES = {bd.Normal: known, bd.Laplace: laplace, bd.Horseshoe: horseshoe}


def prior_state(model, kernel, operands, key):
    """A state of one chain and the labels, drawn from the model itself."""
    key_state, key_rate, key_weight, key_mask, key_label, key_scale, key_noise, key_group = jax.random.split(key, 8)
    state = kernel.init(operands, key_state, 1)
    state = state._replace(
        group_logit=logit(jax.random.beta(key_group, 2.0, 3.0, state.group_logit.shape, jnp.float64)),
        group_log_strength=jnp.log(5 * jax.random.gamma(key_noise, 2.0, state.group_logit.shape, jnp.float64)),
    )
    a, b = kernel.rate_prior(operands, state)
    rate = jnp.clip(jax.random.beta(key_rate, a, b), 1e-12, 1 - 1e-12)
    precision, scales = SCALES[type(model.weight_prior)](key_scale, state, model.weight_prior)
    log_scale = state.log_scale
    if operands.learnt is not None:
        normal = jax.random.normal(key_scale, (2, *log_scale.shape), jnp.float64)
        size = jnp.abs(normal[0] / normal[1] if isinstance(model.weight_prior.scale, bd.HalfCauchy) else normal[0])
        log_scale = jnp.log(model.weight_prior.scale.scale * size)
        precision = jnp.exp(-2 * log_scale)[:, operands.learnt.index]
    per_feature = rate[:, operands.index] if kernel.free else jnp.full((1, P), 0.3)
    weight = jax.random.normal(key_weight, (1, P), state.effective.dtype) / jnp.sqrt(precision)
    effective = weight / (1 - per_feature) if kernel.noise.unbiased else weight
    (masks,) = state.masks
    uniform = jax.random.uniform(key_mask, masks.shape, jnp.float64)
    kept = ((uniform >= per_feature.T[:, :, None]) | ~operands.columns.blocks[0].occurs[:, None, :],)
    score = operands.columns.product(kept, effective, N)
    noise, log_parameter = state.noise_precision, state.log_parameter
    if kernel.parameter is not None:
        prior = model.loss.variance
        noise = jax.random.gamma(key_noise, prior.shape, (1,), jnp.float64) / prior.scale
        log_parameter = -0.5 * jnp.log(noise)
    state = state._replace(
        logit=logit(rate),
        effective=effective,
        masks=kept,
        score=score,
        precision=precision,
        scales=scales,
        log_scale=log_scale,
        noise_precision=noise,
        log_parameter=log_parameter,
    )
    return state, labels(kernel, key_label, state)


def labels(kernel, key, state):
    if kernel.parameter is not None:
        return state.score[0] + jax.random.normal(key, (N,), jnp.float64) / jnp.sqrt(state.noise_precision)
    return jnp.where(jax.random.uniform(key, (N,), jnp.float64) < jax.nn.sigmoid(state.score[0]), 1.0, -1.0)


def statistics(model, kernel, operands, state, label):
    """Functions of parameters, masks and labels, twenty-three at most; what a model lacks is constant."""
    rate = jax.nn.sigmoid(state.logit[0]) if state.logit.size else jnp.full(2, 0.5)
    weight = state.effective[0] * (1 - rate[operands.index]) if kernel.noise.unbiased else state.effective[0]
    score = state.score[0]
    share = jnp.mean(state.masks[0][:, 0, :].astype(score.dtype), axis=1)
    if not model.weight_prior.has_mean or kernel.parameter is not None:
        weight, score, label = (x / (1 + jnp.abs(x)) for x in (weight, score, label))
    mean, strength = jax.nn.sigmoid(state.group_logit[0]), state.group_log_strength[0]
    mean, strength = (x if x.size else jnp.zeros(2) for x in (mean, strength))
    recorded = kernel.record(operands, state)
    size = jnp.log(recorded.get("global_scale", jnp.ones(1)))[0] + jnp.sum(
        recorded.get("log_weight_scale", jnp.zeros(1))
    )
    log_odds = jnp.clip(jnp.log(rate[0] / (1 - rate[0])), -27, 27)  # the prior's draws end there, others round to 1
    noise, log_precision = jnp.log(state.noise_precision[0]), jnp.log(state.precision[0])
    return jnp.stack([
        weight[0], weight[0] ** 2, weight[-1], weight[-1] ** 2, weight[0] * weight[1],
        rate[0], rate[0] ** 2, rate[-1], log_odds,
        share[0], share[0] * rate[0], jnp.abs(weight[0]) * share[0],
        jnp.mean(label * score), jnp.mean(score**2),
        mean[0], mean[0] ** 2, strength[0], mean[1] * rate[-1], strength[0] * (rate[0] - rate[1]) ** 2,
        size, log_precision[0], noise, noise * jnp.mean(label**2),
    ])  # fmt: skip


def replicate(model, kernel, operands, steps):
    def one(key):
        key, key_start = jax.random.split(key)
        state, sign = prior_state(model, kernel, operands, key_start)

        def body(carry, key):
            state, sign = carry
            state, _ = kernel.step(operands._replace(target=sign), state)
            return (state, labels(kernel, key, state)), None

        (state, sign), _ = jax.lax.scan(body, (state, sign), jax.random.split(key, steps))
        return statistics(model, kernel, operands, state, sign)

    return jax.jit(jax.vmap(one))


def worst(case, joint_moves, steps=STEPS):
    """Largest |z| over the statistics."""
    model = CASES[case]
    data = as_dataset(design(), np.arange(N) % 2, binary=model.loss.binary)
    method = bd.Gibbs(sweeps_per_draw=1, joint_moves=joint_moves, dtype="float64")
    with jax.enable_x64(True):
        kernel, operands = method.bind(model, data, model.bind(NAMES), 0)
        after = np.asarray(replicate(model, kernel, operands, steps)(jax.random.split(jax.random.key(1), REPLICATES)))
        before = np.asarray(replicate(model, kernel, operands, 0)(jax.random.split(jax.random.key(2), 10 * REPLICATES)))
    scale = np.sqrt(after.var(axis=0) / len(after) + before.var(axis=0) / len(before))
    moving = scale > 0
    return np.abs((after.mean(axis=0) - before.mean(axis=0))[moving] / scale[moving]).max()


BOUND = stats.norm.isf(FALSE_ALARM / 2 / 23)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("joint_moves", [0, 2])
def test_joint_distribution_is_kept(case, joint_moves):
    assert worst(case, joint_moves) < BOUND


@pytest.mark.slow
@pytest.mark.parametrize("joint_moves", [0, 2])
def test_a_planted_error_is_found(joint_moves, monkeypatch):
    """The rate's prior with its second shape off by a half: the test must notice."""
    right = BetaLaw.log_density
    monkeypatch.setattr(BetaLaw, "log_density", lambda law, logit: right(law._replace(b=law.b + 0.5), logit))
    assert worst("per feature", joint_moves) > BOUND
