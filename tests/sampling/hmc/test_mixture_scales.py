"""Mixtures of normal laws in HMC and NUTS: their scales have the right laws, and densities are those given them."""

import jax
import numpy as np
import pytest
from scipy import stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc.binding import bind_start
from bayesdrop.hmc.kernels.factors import StructuredFactor, unwhiten
from bayesdrop.priors.base import NonCentred

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(50, 3))
Y = (X @ np.array([1.5, -0.7, 0.0]) + GENERATOR.logistic(size=50) > 0).astype(int)
PRIORS = {"laplace": bd.Laplace([0.5, 0.3, 1.0]), "horseshoe": bd.Horseshoe(0.5)}
FAR = np.linspace(-6, 6, 49)


def test_both_are_non_centred():
    assert all(isinstance(prior, NonCentred) for prior in PRIORS.values())
    assert not isinstance(bd.Normal(), NonCentred)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scales_of_normal_variables_have_the_laws_of_the_mixture(dtype):
    """The distribution function at the scale is that of the normal variable, exactly."""
    with jax.enable_x64(dtype == "float64"):
        s, tolerance = FAR.astype(dtype)[:, None], 3e-5 if dtype == "float32" else 1e-9
        hyper = bd.Laplace(0.5).init(jax.random.key(0), 1, 1, dtype)
        scale, more = jax.jit(bd.Laplace.scales_of)(s, hyper)
        assert more == {}
        variance = np.asarray(scale[:, 0], float) ** 2
        np.testing.assert_allclose(
            stats.expon(scale=2 * 0.5**2).logcdf(variance), stats.norm.logcdf(FAR), rtol=tolerance, atol=tolerance
        )
        hyper = bd.Horseshoe(0.5).init(jax.random.key(0), 1, 1, dtype)
        scale, more = jax.jit(bd.Horseshoe.scales_of)(np.concatenate([s, s[::-1]], axis=1), hyper)
        shared = np.asarray(more["global_scale"], float)
        law = stats.halfcauchy(scale=0.5)
        np.testing.assert_allclose(law.logcdf(shared), stats.norm.logcdf(FAR[::-1]), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(law.logsf(shared), stats.norm.logsf(FAR[::-1]), rtol=tolerance, atol=tolerance)
        own = np.asarray(scale[:, 0], float) / shared
        np.testing.assert_allclose(stats.halfcauchy.logcdf(own), stats.norm.logcdf(FAR), rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "rates"),
    # With masks, a loss whose slopes are in closed form: those by quadrature are of constant nodes.
    [(bd.Logistic(), bd.Fixed(0.0)), (bd.Hinge(), bd.PerFeature(bd.Beta(2, 3)))],
    ids=["plain", "rates"],
)
@pytest.mark.parametrize("name", PRIORS)
def test_the_density_is_that_of_the_weights_given_standard_normal_variables(name, loss, rates):
    prior, data = PRIORS[name], as_dataset(X, np.where(Y > 0, 1.0, -1.0))
    model = bd.Model(loss, weight_prior=prior, rates=rates, noise=bd.Dropout(centre=None), C=0.7)
    with jax.enable_x64(True):
        rate_map = model.bind(data.feature_names)
        bound = bind_start("HMC", model, data, rate_map, False, "float64", "dense")
        m, k = prior.n_scales(3), rate_map.size if rate_map.is_free else 0
        point = GENERATOR.normal(size=(6, 3 + 1 + k + m))
        evaluate = jax.jit(bound.density.evaluate)
        found = evaluate(bound.operands, point)
        drawn = jax.jit(bound.density.record)(bound.operands, point)
        scale, more = jax.jit(prior.scales_of)(point[:, -m:], prior.init(jax.random.key(0), 1, 3, "float64"))
        np.testing.assert_allclose(drawn["weight"], np.asarray(scale) * point[:, :3], rtol=1e-12)
        assert set(more) <= set(drawn)
        known = bd.Model(loss, weight_prior=bd.Normal(), rates=rates, noise=bd.Dropout(centre=None), C=0.7)
        given = bind_start("HMC", known, data, rate_map, False, "float64", "dense")
        theta = np.concatenate([drawn["weight"], point[:, 3:-m]], axis=1)
        other = jax.jit(given.density.evaluate)(given.operands, theta)
        np.testing.assert_allclose(found.cost, other.cost, rtol=1e-10)
        normal = -0.5 * np.sum(point[:, :3] ** 2, axis=1) - 0.5 * np.sum(point[:, -m:] ** 2, axis=1)
        rest = np.asarray(other.prior) + 0.5 * np.sum(np.asarray(drawn["weight"]) ** 2, axis=1)
        np.testing.assert_allclose(found.prior, normal + rest, rtol=1e-10)
        for d, step in enumerate(1e-5 * np.eye(point.shape[1])):
            up, down = (evaluate(bound.operands, point + way * step) for way in (1, -1))
            rise = np.sum(np.asarray(up.cost) - np.asarray(down.cost), axis=1) - np.asarray(up.prior - down.prior)
            np.testing.assert_allclose(found.gradient[:, d], rise / 2e-5, rtol=1e-5, atol=1e-6)
        assert not isinstance(bound.factor, StructuredFactor)
        assert bound.factor.shape == (point.shape[1],) * 2


@pytest.mark.slow
def test_chains_start_where_a_trajectory_can_leave():
    """Weights of heavy tails in the mean ``e^s`` of a count: draws of the approximation are a thousand nats away."""
    data = as_dataset(3 * X, np.random.default_rng(1).poisson(2.0, size=50).astype(float), binary=False)
    model = bd.Model(bd.Poisson(), weight_prior=PRIORS["horseshoe"], rates=bd.Fixed(0.0))
    with jax.enable_x64(True):
        kernel, operands = bd.HMC(dtype="float64").bind(model, data, model.bind(data.feature_names), 0)
        state = jax.jit(kernel.init, static_argnums=2)(operands, jax.random.key(0), 256)
        _, drawn = kernel.start(operands, jax.random.key(0), 256)

        @jax.jit
        def energy_at(z):
            found = kernel.density.evaluate(operands.density, unwhiten(operands.centre, operands.factor, z))
            return found.cost.sum(axis=1) - found.prior

        first, moved, centre = (np.asarray(energy_at(z)) for z in (drawn, state.position, 0 * drawn[:1]))
        drawn, position = np.asarray(drawn), np.asarray(state.position)
    far = ~(first - centre < 30 + drawn.shape[1])
    assert np.max(first) > centre + 1000
    assert np.all(moved - centre < 30 + drawn.shape[1])
    # Those that are near stay, and the others are between there and the centre.
    np.testing.assert_array_equal(position[~far], drawn[~far])
    halvings = np.log2(drawn[far] / position[far])
    np.testing.assert_allclose(halvings, np.broadcast_to(np.round(halvings[:, :1]), halvings.shape), atol=1e-9)


@pytest.mark.slow
def test_losses_without_auxiliary_variables_take_it_by_default():
    counts = GENERATOR.poisson(np.exp(0.3 * X[:, 0]))
    model = bd.Model(bd.Poisson(), weight_prior=bd.Horseshoe(0.3), rates=bd.Fixed(0.0))
    with pytest.warns(bd.MixingWarning):
        post = bd.sample(model, X, counts, draws=20, tune=20, chains=2, progress=False)
    assert post.attrs["method"].startswith("HMC(")
    assert np.all(post.posterior["global_scale"] > 0)


@pytest.mark.slow
def test_masks_under_a_prior_without_a_density_leave_their_error_unknown():
    with pytest.warns(bd.MixingWarning):
        post = bd.sample(
            bd.Model(weight_prior=bd.Horseshoe(0.5)), X, Y, method=bd.HMC(), draws=20, tune=20, chains=2, progress=False
        )
    assert "approximation_error" not in post.attrs
    assert "off is not known" in str(bd.diagnose(post))
    with pytest.raises(ValueError, match="density in closed form"):
        bd.reweight(post, X, Y)


@pytest.mark.parametrize("model", [bd.Model(bd.Softmax(), weight_prior=bd.Laplace(), rates=bd.Fixed(0.0))])
def test_what_it_does_not_draw_says_why(model):
    with pytest.raises(ValueError, match=r"NonCentred\), for one score a row.*bd\.Gibbs"):
        bd.sample(model, X, np.arange(50) % 3, method=bd.HMC(), progress=False)
