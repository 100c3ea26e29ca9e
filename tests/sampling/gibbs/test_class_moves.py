"""Single moves of the sampler of many classes, from draws of the joint law that they leave as it is.

False-alarm rate: 1e-6 for each of five Kolmogorov-Smirnov tests.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.gibbs.moves.class_features import draw_intercepts

K, P = 3, 3
PRIOR = bd.Beta(2.0, 3.0)


class KnownPrecisions:
    """A scale mixture whose precisions stay what they are."""

    @staticmethod
    def sample_precision(key, weight, scales):
        return jnp.tile(jnp.asarray([[0.5, 2.0, 9.0]], weight.dtype), (len(weight), 1)), scales


@pytest.mark.slow
def test_what_classes_have_in_common_follows_its_prior():
    """``Σ_k P_k w_k / √(Σ_k P_k)`` is standard normal of any weights, contrasts stay: Kolmogorov-Smirnov at 1e-6."""
    X, y, chains = np.random.default_rng(0).normal(size=(12, P)), np.arange(12) % K, 4000
    noise, prior = bd.Dropout(unbiased=True), bd.Laplace(2.0)
    model = bd.Model(bd.Softmax(), noise, bd.PerFeature(PRIOR), weight_prior=prior)
    data = as_dataset(X, y, multiclass=True)
    kernel, operands = bd.Gibbs().bind(model, data, model.bind(data.feature_names), 0)
    kernel = replace(kernel, scale_mixture=KnownPrecisions)

    @jax.jit
    def both(operands, key):
        state = kernel.init(operands, key, chains)
        state = state._replace(effective=state.effective + 1.0, score=0 * state.score)
        return state, kernel.draw_scales(operands, state, jax.random.key(2))

    before, after = both(operands, jax.random.key(1))
    kept = np.asarray(kernel.log_multiplier(kernel.feature_logit(operands, before.logit)))
    weight = np.asarray(after.effective) * np.exp(-kept)
    for d, precision in enumerate((0.5, 2.0, 9.0)):
        common = weight[..., d].sum(axis=0) * precision / np.sqrt(K * precision)
        assert stats.kstest(common, "norm").pvalue > 1e-6
    moved = np.asarray(after.effective - before.effective)
    np.testing.assert_allclose(moved[1:], np.tile(moved[:1], (K - 1, 1, 1)), atol=2e-5)
    masks = np.moveaxis(np.asarray(before.masks[0]), 1, 0)
    np.testing.assert_allclose(after.score[2], np.einsum("cd,cdn,nd->cn", moved[0], masks, X), atol=1e-4)


@pytest.mark.slow
def test_intercepts_given_all_else():
    """Contrasts of the intercepts against a grid over both, row weights included: Kolmogorov-Smirnov at 1e-6 each."""
    generator, chains = np.random.default_rng(2), 4000
    y, weight = np.arange(9) % K, np.array([1.0, 2.0, 0.5] * 3)
    fixed = 3 * generator.normal(size=(K, 9))
    own, row_weight = jnp.asarray(y[None] == np.arange(K)[:, None]), jnp.asarray(weight, "float32")
    intercept = jnp.zeros((K, chains))
    score = jnp.broadcast_to(jnp.asarray(fixed, "float32")[:, None], (K, chains, 9))

    def step(i, carry):
        return draw_intercepts(jax.random.fold_in(jax.random.key(0), i), own, row_weight, *carry)

    drawn, moved = jax.jit(lambda carry: jax.lax.fori_loop(0, 40, step, carry))((intercept, score))
    drawn = np.asarray(drawn, float)
    np.testing.assert_allclose(drawn.sum(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(moved, fixed[:, None] + drawn[:, :, None], atol=1e-4)
    t = np.linspace(-25, 25, 501)
    first, second = np.meshgrid(t, t, indexing="ij")
    total = np.stack([0 * first, first, second])[..., None] + fixed[:, None, None]
    log_density = (np.take_along_axis(total, y[None, None, None], axis=0)[0] - np.logaddexp.reduce(total)) @ weight
    density = np.exp(log_density - log_density.max())
    for j in (1, 2):
        below = np.cumsum(density.sum(axis=2 - j))
        chance = np.interp(drawn[j] - drawn[0], t + (t[1] - t[0]) / 2, below / below[-1])
        assert stats.kstest(chance, "uniform").pvalue > 1e-6
