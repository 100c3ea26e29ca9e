"""The Polya-Gamma density, by independent statements; shapes, transformations and bad parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from jax import random
from numpyro.handlers import seed, trace
from scipy import integrate

from bayesdrop.distributions import GeneralizedInverseGaussian, InverseGaussian, PolyaGamma, polya_gamma_one

SHAPES = [0.3, 1.0, 1.7, 4.0, 9.0, 60.0, 500.0]


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.mark.default_cases("2.0-1.7", "9.0-500.0")
@pytest.mark.parametrize("b", SHAPES)
@pytest.mark.parametrize("z", [0.0, 2.0, 9.0])
def test_density_has_unit_mass_and_the_stated_moments(b, z):
    law = PolyaGamma(b, z)
    mean, sd = float(law.mean), float(jnp.sqrt(law.variance))
    t = np.linspace(np.log(mean) - 40, np.log(mean + 60 * sd), 20_001)
    x = np.exp(t)
    density = np.exp(np.asarray(law.log_prob(jnp.asarray(x)))) * x

    def total(values):
        return integrate.simpson(values, x=t)

    assert total(density) == pytest.approx(1, abs=1e-7)
    assert total(density * x) == pytest.approx(mean, rel=1e-7)
    assert total(density * (x - mean) ** 2) == pytest.approx(sd**2, rel=1e-6)
    for s in (0.7, 6.0):
        assert total(density * np.exp(-s * x)) == pytest.approx(float(jnp.exp(law.log_laplace(s))), rel=1e-7)


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


def test_no_draws_and_one_draw():
    assert polya_gamma_one(random.key(0), jnp.zeros((0, 3))).shape == (0, 3)
    assert polya_gamma_one(random.key(0), jnp.zeros(())).shape == ()


def test_chains_may_be_mapped():
    keys = random.split(random.key(1), 4)
    draws = jax.vmap(polya_gamma_one)(keys, jnp.ones((4, 1000)))
    each = jnp.stack([polya_gamma_one(key, jnp.ones(1000)) for key in keys])
    np.testing.assert_allclose(draws, each, rtol=1e-12)
