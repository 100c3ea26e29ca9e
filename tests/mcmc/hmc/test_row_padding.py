"""Padding rows say nothing, and data of nearly as many rows share a compiled program."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.mcmc.hmc.binding import bind_density
from bayesdrop.mcmc.hmc.row_padding import padded_length, padded_rows
from bayesdrop.mcmc.run import driving

N, P = 19, 3
RNG = np.random.default_rng(0)
X = RNG.poisson(0.8, size=(N, P)).astype(float)
SIGNS = np.where(X @ [1.0, -1.0, 0.5] + RNG.normal(size=N) > 0, 1.0, -1.0)
NUMBERS, COUNTS, CLASSES = RNG.normal(size=N), RNG.poisson(2.0, size=N).astype(float), np.arange(N) % 3
NOISE = {"noise": bd.GaussianNoise(0.7), "rates": None}
# Model, response, and whether the noise is averaged inside the loss.
CASES = {
    "logistic": (bd.Model(rates=bd.Fixed(0.0)), SIGNS, True),
    "logistic, masks": (bd.Model(), SIGNS, False),
    "logistic, averaged": (bd.Model(rates=bd.Fixed(0.3)), SIGNS, True),
    "logistic, Gaussian noise": (bd.Model(**NOISE), SIGNS, True),
    "softmax": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)), CLASSES, True),
    "softmax, averaged": (bd.Model(bd.Softmax(), rates=bd.Fixed(0.3)), CLASSES, True),
    "hinge": (bd.Model(bd.Hinge(), rates=bd.Fixed(0.0)), SIGNS, True),
    "hinge, masks": (bd.Model(bd.Hinge()), SIGNS, False),
    "squared, masks": (bd.Model(bd.Squared(), rates=bd.Fixed(0.3)), NUMBERS, False),
    "epsilon-insensitive, masks": (bd.Model(bd.EpsilonInsensitive(), rates=bd.Fixed(0.3)), NUMBERS, False),
    "quantile, averaged": (bd.Model(bd.Quantile(0.3), rates=bd.Fixed(0.3)), NUMBERS, True),
    "Poisson, masks": (bd.Model(bd.Poisson(), rates=bd.Fixed(0.3)), COUNTS, False),
    "negative binomial, averaged": (bd.Model(bd.NegativeBinomial(2.0), rates=bd.Fixed(0.3)), COUNTS, True),
    "binomial, masks": (bd.Model(bd.Binomial(20), rates=bd.Fixed(0.3)), COUNTS, False),
}


def test_lengths():
    """A row more never takes more than one more length, and none is an eighth too long."""
    lengths = [padded_length(n) for n in range(1, 5000)]
    assert all(n <= length <= n * 1.125 for n, length in enumerate(lengths, 1))
    assert np.all(np.diff(lengths) >= 0)
    assert len(set(lengths)) < 90
    assert lengths[:16] == list(range(1, 17))


@pytest.mark.default_cases("logistic, masks", "softmax, averaged", "hinge", "Poisson, masks")
@pytest.mark.parametrize("case", CASES)
def test_padding_rows_cost_nothing_at_all_and_change_no_gradient(case):
    model, y, marginalised = CASES[case]
    with jax.enable_x64(True):
        data = as_dataset(X, y, RNG.random(N) + 0.5, None, model.loss.binary, multiclass=model.loss.multiclass)
        data = data.with_weight()
        density, given = bind_density("HMC", model, data, model.bind(data.feature_names), marginalised, "float64")
        if case == "hinge":
            given = given._replace(width=jnp.asarray(RNG.random(N) + 0.1))
        padded = padded_rows(given)
        assert padded.matrix.dense.shape == (P, padded_length(N)) == (P, 20)
        D = 2 * (P + 1) if model.loss.multiclass else P + 1 + density.free
        theta = jnp.asarray(np.random.default_rng(1).normal(size=(4, D)) * np.array([[0.1], [1.0], [3.0], [10.0]]))
        first, second = (jax.jit(density.evaluate)(operands, theta) for operands in (given, padded))
    assert np.all(np.asarray(second.cost[:, N:]) == 0)
    np.testing.assert_allclose(second.cost[:, :N], first.cost, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(second.gradient, first.gradient, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(second.prior, first.prior)


@pytest.mark.default_cases("no noise")
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(bd.Model(rates=bd.Fixed(0.0)), id="no noise"),
        pytest.param(bd.Model(bd.Hinge()), id="masks"),
        pytest.param(bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfNormal(1.0))), id="learnt scale"),
    ],
)
def test_nearly_as_many_rows_share_a_program(model):
    rng = np.random.default_rng(2)
    features, draws = rng.normal(size=(36, 2)), {"draws": 5, "tune": 5, "chains": 2, "progress": False}
    labels = np.where(features[:, 0] + rng.normal(size=36) > 0, "yes", "no")
    before = driving._chunk._cache_size()
    for n in (33, 34, 36):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few draws
            bd.sample(model, features[:n], labels[:n], method=bd.HMC(), **draws)
    assert driving._chunk._cache_size() == before + 1
