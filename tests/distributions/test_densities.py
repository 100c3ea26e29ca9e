"""The Polya-Gamma density, by independent statements; shapes, transformations and bad parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from jax import random
from numpyro.handlers import seed, trace

from bayesdrop.distributions import GeneralizedInverseGaussian, InverseGaussian, PolyaGamma, polya_gamma_one


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


LAWS = {
    "inverse Gaussian": (InverseGaussian, (1.3, 2.1)),
    "generalised inverse Gaussian": (GeneralizedInverseGaussian, (0.7, 1.3, 2.1)),
    "Polya-Gamma": (PolyaGamma, (1.0, 0.8)),
}


@pytest.mark.slow_cases("Polya-Gamma")
@pytest.mark.parametrize("name", LAWS)
def test_shapes_and_transformations(name):
    kind, values = LAWS[name]
    first = jnp.full((3, 1), values[0])
    law = kind(first, *(jnp.full(4, value) for value in values[1:]))
    assert law.batch_shape == (3, 4)
    draws = jax.eval_shape(lambda: law.sample(random.key(0), (5,)))
    assert draws.shape == (5, 3, 4)
    assert jax.eval_shape(law.log_prob, draws).shape == (5, 3, 4)
    assert law.mean.shape == law.variance.shape == (3, 4)
    positions = range(1 if name == "generalised inverse Gaussian" else 0, len(values))
    density = jax.jit(jax.vmap(jax.value_and_grad(lambda *values: kind(*values).log_prob(0.6), tuple(positions))))
    # The values, and each moved by a step to both sides.
    step = 1e-6
    points = np.array(values) + step * np.vstack([np.zeros(len(values)), np.eye(len(values)), -np.eye(len(values))])
    found, slopes = density(*jnp.asarray(points).T)
    np.testing.assert_allclose(found[0], kind(*values).log_prob(0.6))
    for slope, position in zip(slopes, positions, strict=True):
        numeric = (found[1 + position] - found[1 + len(values) + position]) / (2 * step)
        np.testing.assert_allclose(slope[0], numeric, rtol=1e-5, atol=1e-7)

    def program():
        with numpyro.plate("obs_id", 4):
            numpyro.sample("x", kind(*values))

    site = jax.eval_shape(lambda: trace(seed(program, random.key(0))).get_trace()["x"]["value"])
    assert site.shape == (4,)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (InverseGaussian, (-1.0, 1.0)),
        (InverseGaussian, (1.0, float("nan"))),
        (GeneralizedInverseGaussian, (0.5, 0.0, 1.0)),
        (PolyaGamma, (-1.0, 0.0)),
        (PolyaGamma, (1.0, float("nan"))),
    ],
)
def test_bad_parameters(kind, values):
    with pytest.raises(ValueError, match="invalid .* parameter"):
        kind(*values, validate_args=True)


@pytest.mark.slow
def test_no_draws_and_one_draw():
    assert polya_gamma_one(random.key(0), jnp.zeros((0, 3))).shape == (0, 3)
    assert polya_gamma_one(random.key(0), jnp.zeros(())).shape == ()


@pytest.mark.slow
def test_chains_may_be_mapped():
    keys = random.split(random.key(1), 4)
    draws = jax.vmap(polya_gamma_one)(keys, jnp.ones((4, 1000)))
    each = jnp.stack([polya_gamma_one(key, jnp.ones(1000)) for key in keys])
    np.testing.assert_allclose(draws, each, rtol=1e-12)
