"""Joint distribution test (Geweke 2004), from exact draws.

Parameters, masks and labels are drawn from the model; then the sampler's step and a fresh draw of the labels given the
scores alternate. Both keep the joint distribution, so that afterwards every marginal is still the model's. Replicates
are independent, hence a plain two-sample test: no autocorrelation to estimate. It applies to the logistic model with
C = 1, whose likelihood is normalised; the hinge is held to enumeration elsewhere.

Each case compares 14 statistics; the chance of a false alarm is 2e-5 a case.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import bayesdrop as bd
from bayesdrop.data import prepare

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


CASES = {
    "per feature": (bd.PerFeature(PRIOR), bd.Dropout()),
    "per feature, unbiased": (bd.PerFeature(PRIOR), bd.Dropout(unbiased=True)),
    "groups": (bd.PerGroup(["a", "a", "a", "b"], PRIOR), bd.Dropout()),
    "shared": (bd.Shared(PRIOR), bd.Dropout()),
    "fixed": (bd.Fixed(0.3), bd.Dropout()),
}


def prior_state(kernel, operands, key):
    """A state of one chain and the labels, drawn from the model itself."""
    key_state, key_rate, key_weight, key_mask, key_label = jax.random.split(key, 5)
    state = kernel.init(operands, key_state, 1)
    rate = jax.random.beta(key_rate, 2.0, 3.0, state.rate.shape, state.rate.dtype)
    per_feature = kernel.feature_rate(operands, rate)
    weight = jax.random.normal(key_weight, (1, P), state.effective.dtype)
    effective = weight * kernel.multiplier(per_feature)
    uniform = jax.random.uniform(key_mask, state.kept.shape, jnp.float64)
    kept = (uniform >= per_feature.T[:, :, None]) | ~operands.columns.occurs[:, None, :]
    score = operands.columns.product(kept, effective, N)
    state = state._replace(rate=rate, effective=effective, kept=kept, score=score)
    return state, labels(key_label, score)


def labels(key, score):
    return jnp.where(jax.random.uniform(key, (N,), score.dtype) < jax.nn.sigmoid(score[0]), 1.0, -1.0)


def statistics(kernel, operands, state, sign):
    """Fourteen functions of parameters, masks and labels."""
    weight = (state.effective / kernel.multiplier(kernel.feature_rate(operands, state.rate)))[0]
    rate = state.rate[0] if state.rate.size else jnp.full(2, 0.5)
    score = state.score[0]
    share = jnp.mean(state.kept[:, 0, :].astype(score.dtype), axis=1)
    return jnp.stack([
        weight[0], weight[0] ** 2, weight[-1], weight[-1] ** 2, weight[0] * weight[1],
        rate[0], rate[0] ** 2, rate[-1], jnp.log(rate[0] / (1 - rate[0])),
        share[0], share[0] * rate[0], jnp.abs(weight[0]) * share[0],
        jnp.mean(sign * score), jnp.mean(score**2),
    ])  # fmt: skip


def replicate(kernel, operands, steps):
    def one(key):
        key, key_start = jax.random.split(key)
        state, sign = prior_state(kernel, operands, key_start)

        def body(carry, key):
            state, sign = carry
            state = kernel.step(operands._replace(target=sign), state)
            return (state, labels(key, state.score)), None

        (state, sign), _ = jax.lax.scan(body, (state, sign), jax.random.split(key, steps))
        return statistics(kernel, operands, state, sign)

    return jax.jit(jax.vmap(one))


def worst(case, joint_moves, steps=STEPS):
    """Largest |z| over the statistics."""
    rates, noise = CASES[case]
    model = bd.Model(bd.Logistic(), noise, rates, fit_intercept=False)
    data = prepare(design(), np.arange(N) % 2)
    method = bd.Gibbs(sweeps_per_draw=1, joint_moves=joint_moves, dtype="float64")
    with jax.enable_x64(True):
        kernel, operands = method.bind(model, data, model.bind(NAMES), 0)
        after = np.asarray(replicate(kernel, operands, steps)(jax.random.split(jax.random.key(1), REPLICATES)))
        before = np.asarray(replicate(kernel, operands, 0)(jax.random.split(jax.random.key(2), 10 * REPLICATES)))
    scale = np.sqrt(after.var(axis=0) / len(after) + before.var(axis=0) / len(before))
    moving = scale > 0
    return np.abs((after.mean(axis=0) - before.mean(axis=0))[moving] / scale[moving]).max()


BOUND = stats.norm.isf(FALSE_ALARM / 2 / 14)


@pytest.mark.parametrize("case", ["per feature", "groups"])
def test_joint_distribution_is_kept(case):
    assert worst(case, joint_moves=2) < BOUND


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("joint_moves", [0, 2])
def test_joint_distribution_is_kept_by_every_move(case, joint_moves):
    assert worst(case, joint_moves) < BOUND


@pytest.mark.slow
@pytest.mark.parametrize("joint_moves", [0, 2])
def test_a_planted_error_is_found(joint_moves, monkeypatch):
    """The rate's prior with its second shape off by a half: the test must notice."""
    from bayesdrop.inference import gibbs_kernel, gibbs_moves

    right = gibbs_moves.log_beta
    for module in (gibbs_moves, gibbs_kernel):
        monkeypatch.setattr(module, "log_beta", lambda rate, a, b: right(rate, a, b + 0.5))
    assert worst("per feature", joint_moves) > BOUND
