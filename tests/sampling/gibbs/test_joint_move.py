"""Coordinates of the joint move of weights, rates and masks: one scale whatever the rates, and the right density."""

import jax
import numpy as np
import pytest
from scipy import special, stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.gibbs.moves.joint_move import _Coordinates, _log_prior, _pack, _unpack
from bayesdrop.sampling.run.runner import as_key

CHAINS, PRIOR, SCALE = 40, bd.Beta(0.3, 0.6), 0.7
NAMES = ["a", "b", "c"]


def at_random(rates, unbiased, dtype):
    """A kernel, its data, and chains whose weights are draws from their prior and whose rates come near both ends."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3))
    model = bd.Model(bd.Hinge(), noise=bd.Dropout(unbiased=unbiased), rates=rates, weight_prior=bd.Normal(SCALE))
    data = as_dataset(X, np.arange(8) % 2, feature_names=NAMES)
    kernel, operands = bd.Gibbs(dtype=dtype).bind(model, data, model.bind(NAMES), 10)
    state = kernel.init(operands, as_key(0), CHAINS)
    logit = rng.uniform(-38, 38, size=state.logit.shape)
    weight = rng.normal(scale=SCALE, size=state.effective.shape)
    kept = np.asarray(np.exp(kernel.log_multiplier(kernel.feature_logit(operands, jax.numpy.asarray(logit)))))
    numbers = {"logit": logit, "effective": weight * kept}
    return kernel, operands, weight, state._replace(**{k: jax.numpy.asarray(v, dtype) for k, v in numbers.items()})


STRUCTURES = {
    "per feature": bd.PerFeature(PRIOR),
    "groups": bd.PerGroup(["u", "v", "u"], PRIOR),
    "hierarchy": bd.Hierarchical(["u", "v", "u"], PRIOR, bd.Gamma(2.0, 10.0)),
    "fixed": bd.Fixed([0.1, 0.5, 0.999]),
}


@pytest.mark.slow
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_are_in_units_of_their_prior_whatever_the_rates(structure, unbiased, dtype):
    """Where a kept entry is multiplied by 1e16 in some chains, no grid of positions puts the others at zero."""
    with jax.enable_x64(dtype == "float64"):
        kernel, operands, weight, state = at_random(STRUCTURES[structure], unbiased, dtype)
        theta = _pack(kernel, operands, state)
        back = _unpack(kernel, operands, state, theta)
        # Of a logit of 38 an exponential keeps that many roundings.
        tolerance = 100 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(theta[:, :3], weight / SCALE, rtol=tolerance)
        # A logit is counted from its group's, and an effective weight is an exponential of it.
        wide = 40 * tolerance if structure == "hierarchy" else tolerance
        np.testing.assert_allclose(back.weight, state.effective, rtol=wide)
        np.testing.assert_allclose(back.logit, state.logit, rtol=wide)


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["per feature", "groups"])
@pytest.mark.parametrize("unbiased", [False, True])
def test_the_prior_is_that_of_the_coordinates(structure, unbiased):
    """Densities of weights and of logits, by scipy: no Jacobian of the effective weights is left over."""
    with jax.enable_x64(True):
        kernel, operands, weight, state = at_random(STRUCTURES[structure], unbiased, "float64")
        found = np.asarray(_log_prior(kernel, operands, state, _Coordinates.of(state)))
    logit = np.asarray(state.logit)
    rates = PRIOR.a * special.log_expit(logit) + PRIOR.b * special.log_expit(-logit)
    expected = stats.norm(scale=SCALE).logpdf(weight).sum(axis=1) + rates.sum(axis=1)
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-9, atol=1e-9)
