"""Posteriors with noise of many rows and many features: its factor, and the kernel.

False-alarm rate: each statistic of chains is allowed 5 standard errors of 64 independent chains (below 1e-5 each by
Student's t); the default suite compares 16 of them, and the slow tests 54 more. All else is exact.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc.approximations import precision as precise
from bayesdrop.hmc.approximations.choices import Limits
from bayesdrop.hmc.approximations.precision import RateLoading
from bayesdrop.hmc.binding import bind_density
from bayesdrop.hmc.kernels.factors import DirectionFactor
from bayesdrop.hmc.kernels.kernel import HMCKernel
from bayesdrop.hmc.streamed import StreamedKernel
from bayesdrop.losses import Hinge
from bayesdrop.sampling.run.runner import as_key, run

N, P = 30, 6
SMALL = Limits(dense=2, rows=0)
BETA = bd.Beta(2, 3)
MODELS = {
    "fixed": bd.Model(rates=bd.Fixed(0.3), C=2.0, weight_prior=bd.Normal(np.linspace(0.5, 1.5, P))),
    "shared": bd.Model(rates=bd.Shared(BETA), C=2.0),
    "each": bd.Model(rates=bd.PerFeature(BETA), fit_intercept=False),
    "groups": bd.Model(rates=bd.PerGroup(list("abcabc"), BETA)),
    "hinge": bd.Model(Hinge(expectation="gaussian"), noise=bd.GaussianNoise(0.5)),
    "poisson": bd.Model(noise=bd.PoissonNoise(), fit_intercept=False),
}


def data_of(model):
    generator = np.random.default_rng(4)
    X = np.abs(generator.normal(size=(N, P))) * (generator.random((N, P)) < 0.5)
    X[:, 1] = X[:, 0]  # two features that always come together
    X[5] = 0.0
    y = np.where(2 * X[:, 0] - X[:, 2] + generator.normal(size=N) > 0.5, 1, -1)
    given = as_dataset(sparse.csr_array(X), y, np.tile([2.0, 1.0, 0.5], N // 3), None, model.loss.binary)
    return given.with_offset(np.linspace(-0.5, 0.5, N), False).with_weight()


def bind(name, method, tune=0):
    model, data = MODELS[name], data_of(MODELS[name])
    return method.bind(model, data, model.bind(data.feature_names), tune, marginalised=name == "hinge")


# The factor.


@pytest.mark.default_cases("two-True", "each-False")
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rates", ["each", "two"])
def test_the_factor_of_weights_and_rates_is_a_root_of_the_covariance(rates, intercept, monkeypatch):
    """``TTᵀ(P + ADA) = 1`` if no direction is left out, and products are those of one matrix."""
    generator, design = np.random.default_rng(0), data_of(MODELS["fixed"]).design
    index = {"each": generator.permutation(P), "two": np.arange(P) % 2}[rates]
    k, slope = len(np.unique(index)), generator.normal(size=P)
    prior, gain, curvature = (generator.uniform(0.5, 2.0, size) for size in (P + k, P, N))
    loading = precise.loading_of(gain, RateLoading(slope, index, prior[P:]))
    precision = precise.precision_of(design, prior, curvature, intercept, loading)
    # As many entries as directions, whatever the matrix has.
    monkeypatch.setattr(type(design), "occurrences", lambda *_: np.full(P, float(P + k)))
    D = P + k + intercept
    with jax.enable_x64(True):
        factor = precise.direction_factor(precision, intercept, "float64", most=P + k, beyond=0.0, passes=300)
        assert factor.directions.shape == (P + k, P + k)
        factor = factor._replace(stretch=jnp.asarray(generator.uniform(0.5, 2.0, D)))
        products = jax.jit(lambda x: (factor.times(x), factor.solve(x), factor.transposed_times(x)))
        root, inverse, turned = (np.asarray(found) for found in products(jnp.eye(D)))
    T, X = root.T / np.asarray(factor.stretch), design.matrix().toarray()
    moved = X @ (slope[:, None] * (index[:, None] == np.arange(k)))
    A = np.column_stack([X * gain, np.ones((N, int(intercept))), moved])
    H = np.diag(np.concatenate([prior[:P], np.zeros(int(intercept)), prior[P:]])) + (A.T * curvature) @ A
    np.testing.assert_allclose(root @ inverse, np.eye(D), atol=1e-11)
    np.testing.assert_allclose(turned, root.T, atol=1e-11)
    np.testing.assert_allclose(T @ T.T @ H, np.eye(D), atol=1e-8)
    exact = np.diag(precision.times(np.eye(P + k)))
    known = slice(None) if rates == "each" else slice(P)  # features that share a rate count as if in different rows
    np.testing.assert_allclose(precision.diagonal()[known], exact[known], rtol=1e-11)


# The kernel.


@pytest.mark.default_cases("shared", "each")
@pytest.mark.parametrize("name", MODELS)
def test_draws_of_passes_are_those_of_the_kernel_in_memory(name):
    """The same key, the same draws but for rounding."""
    model, data = MODELS[name], data_of(MODELS[name])
    with jax.enable_x64(True):
        kernel, operands = bind(name, bd.HMC(limits=SMALL, dtype="float64"), tune=4)
        assert isinstance(kernel, StreamedKernel)
        assert isinstance(operands.chains.factor, DirectionFactor)
        rate_map = model.bind(data.feature_names)
        _, held = bind_density("HMC", model, data, rate_map, name == "hinge", "float64")
        inside = operands.chains._replace(density=held)
        state = kernel.init(operands, as_key(1), 3)
        other, step = kernel.inner.init(inside, as_key(1), 3), jax.jit(kernel.inner.step)
        for _ in range(6):
            (state, record), (other, expected) = kernel.step(operands, state), step(inside, other)
            np.testing.assert_allclose(record["weight"], expected["weight"], atol=1e-9)
            np.testing.assert_allclose(state.evaluation.gradient, other.evaluation.gradient, atol=1e-7)
            if rate_map.is_free:
                np.testing.assert_allclose(record["logit_rate"], expected["logit_rate"], atol=1e-9)
            known = operands.rows.known
            np.testing.assert_allclose(np.asarray(record["lp"]) - known, expected["lp"], atol=1e-9)


def moments_of(name, method, draws=80):
    """Means of weights, intercept, probits of rates, and their squares in 64 chains."""
    kernel, operands = bind(name, method, tune=60)
    result = run(kernel, operands, as_key(3), tune=60, draws=draws, chains=64, progress=False)
    assert np.mean(result.draws["acceptance_rate"]) > 0.6
    parts = [
        np.asarray(result.draws[key], float) for key in ("weight", "intercept", "logit_rate") if key in result.draws
    ]
    theta = np.concatenate([part.reshape(64, draws, -1) for part in parts], axis=2)
    values = np.concatenate([theta, theta**2], axis=2).mean(axis=1)
    return kernel, values.mean(axis=0), values.var(axis=0, ddof=1) / 64


@pytest.mark.default_cases("shared")
@pytest.mark.parametrize("name", ["fixed", "shared", "each", "hinge"])
def test_draws_are_those_of_the_whole_factor(name):
    kernel, mean, square = moments_of(name, bd.HMC(limits=SMALL))
    assert isinstance(kernel, StreamedKernel)
    dense, expected, other = moments_of(name, bd.HMC())
    assert isinstance(dense, HMCKernel)
    assert np.max(np.abs(mean - expected) / np.sqrt(square + other)) < 5
