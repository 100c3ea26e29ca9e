"""Posteriors of many classes and many coordinates: the factor by eigenvectors.

False-alarm rate: each statistic is allowed 5 standard errors of 64 independent chains (below 1e-5 each by Student's t);
48 are compared.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc.approximations.choices import Limits
from bayesdrop.hmc.approximations.class_factor import ClassFactor, class_factor, class_scores
from bayesdrop.hmc.binding import bind_density
from bayesdrop.hmc.kernels.factors import FactorMap
from bayesdrop.sampling.run.runner import as_key, run

K = 4
SIZES = {"rows": (14, 20), "features": (40, 6)}


def data_of(n, p, store=sparse.csr_array):
    generator = np.random.default_rng(4)
    X = generator.normal(size=(n, p)) * (generator.random((n, p)) < 0.4)
    X[3], X[5] = X[4], 0.0  # two equal rows, and one of zeros
    y = np.argmax(X[:, :K] + 0.5 * generator.gumbel(size=(n, K)), axis=1)
    weight = np.tile([2.0, 1.0, 0.5], n)[:n]
    return as_dataset(store(X), y, weight, None, multiclass=True).with_weight()


NOISES = {
    "none": (bd.Softmax(), bd.Dropout(), 0.0),
    "taylor": (bd.Softmax(), bd.Dropout(), 0.3),
    "gaussian": (bd.Softmax("gaussian"), bd.Dropout(unbiased=True), 0.3),
    "constant": (bd.Softmax("gaussian"), bd.GaussianNoise(0.4), None),
}


def model_of(p, intercept=True, noise="none"):
    prior, (loss, kind, rate) = bd.Normal(np.linspace(0.5, 1.5, p)), NOISES[noise]
    rates = None if rate is None else bd.Fixed(np.linspace(0.5, 1.5, p) * rate)
    return bd.Model(loss, noise=kind, rates=rates, C=2.0, weight_prior=prior, fit_intercept=intercept)


def factor_of(n, p, intercept, noise="none"):
    model, data = model_of(p, intercept, noise), data_of(n, p)
    rate_map = model.bind(data.feature_names)
    density, operands = bind_density("HMC", model, data, rate_map, True, "float64")
    found = class_scores(model, data, rate_map)
    return density, operands, found, class_factor(found, operands.matrix, "float64")


@pytest.mark.parametrize(("intercept", "noise"), [(True, "none"), (False, "none"), (True, "taylor")])
@pytest.mark.parametrize("side", SIZES)
def test_factor_is_the_root_of_the_covariance(side, intercept, noise):
    """``TᵀHT = 1`` for the precision ``H = 1 ⊗ P + M ⊗ XᵀDX`` written out; intercepts are a column of ones.

    Noise multiplies the columns, and adds to ``P``, or where there are fewer features than rows to ``XᵀDX``.
    """
    n, p = SIZES[side]
    with jax.enable_x64(True):
        _, _, found, factor = factor_of(n, p, intercept, noise)
        eye = jnp.eye(len(found.centre))
        T = np.asarray(factor.times(eye)).T
        np.testing.assert_allclose(factor.solve(factor.times(eye)), eye, atol=1e-12)
        np.testing.assert_allclose(factor.transposed_times(eye), T, atol=1e-12)
        stretch = jnp.linspace(0.5, 2.0, len(eye))
        wide = factor.stretched(stretch)
        np.testing.assert_allclose(wide.times(eye).T, T * np.asarray(stretch), atol=1e-12)
        np.testing.assert_allclose(wide.solve(wide.times(eye)), eye, atol=1e-12)
        np.testing.assert_allclose(wide.transposed_times(eye), T * np.asarray(stretch), atol=1e-12)
    assert isinstance(factor, FactorMap)
    assert found.space.by_rows == (side == "rows") == (factor.root is not None)
    model = model_of(p, intercept, noise)
    gain = model.noise.coefficients(model.bind([f"x{d}" for d in range(p)]).initial).gain
    assert np.any(gain != 1) == (noise == "taylor") == np.any(found.extra > 0.01)
    X = data_of(n, p, np.asarray).X * gain
    X = np.column_stack([X, np.ones(n)]) if intercept else X
    shared = found.rotation @ np.diag(found.rotated) @ found.rotation.T
    q, told = p + int(intercept), (X.T * found.curvature) @ X
    prior, extra = (np.append(part, np.zeros(q - p)) for part in (model.weight_prior.precision(p), found.extra))
    own, told = (prior + extra, told) if side == "rows" else (prior, told + np.diag(extra))
    full = np.kron(np.eye(K - 1), np.diag(own)) + np.kron(shared, told)
    order = [j * q + d for j in range(K - 1) for d in range(p)] + [j * q + p for j in range(K - 1) if intercept]
    np.testing.assert_allclose(T.T @ full[np.ix_(order, order)] @ T, np.eye(len(order)), atol=1e-10)


@pytest.mark.parametrize(("side", "noise"), [("rows", "none"), ("features", "none"), ("rows", "taylor")])
def test_moments_of_the_draws(side, noise):
    """Means and variances of weights and intercepts are those that a dense factor's draws have."""
    n, p = SIZES[side]
    model, data = model_of(p, noise=noise), data_of(n, p)
    moments = []
    for dense in (1500, 2):
        with jax.enable_x64(True):
            bound = bd.HMC(n_leapfrog_steps=6, dtype="float64", limits=Limits(dense=dense)).bind(
                model, data, model.bind(data.feature_names), 60, True
            )
            assert isinstance(bound[1].factor, ClassFactor) == (dense == 2)
            draws = run(*bound, as_key(dense), tune=60, draws=60, chains=64, progress=False).draws
        picked = np.concatenate([draws["weight"][..., :3], draws["intercept"][..., None]], axis=3)
        flat = picked.reshape(64, 60, -1)[:, :, :8]
        moments.append(np.concatenate([flat.mean(axis=1), flat.var(axis=1)], axis=1))
    away = moments[0].mean(axis=0) - moments[1].mean(axis=0)
    error = np.sqrt(sum(found.var(axis=0, ddof=1) for found in moments) / 64)
    assert np.all(np.abs(away) < 5 * error)


class Shifted(bd.Dropout):
    """A noise that also moves its features."""

    def coefficients(self, rate):
        return super().coefficients(rate)._replace(shift=1.0 + 0 * rate)


def test_chosen_where_a_dense_factor_would_be_too_large():
    """Of more coordinates than a dense factor is for, and not where noise moves the scores of all rows."""
    for p, noise, taken in ((800, bd.Dropout(), True), (300, bd.Dropout(), False), (800, Shifted(), False)):
        data = data_of(12, p)
        model = bd.Model(bd.Softmax(), noise=noise, rates=bd.Fixed(0.3))
        kernel, operands = bd.HMC().bind(model, data, model.bind(data.feature_names), 10, True)
        assert isinstance(operands.factor, ClassFactor) == taken
        assert np.isfinite(kernel.trust)


def test_features_that_say_nothing():
    """Of zeros alone there is no gradient: the mean is zero, and nothing is divided by it."""
    data = as_dataset(np.zeros((6, 8)), np.array([0, 1, 2, 0, 1, 2]), multiclass=True).with_weight()
    model = model_of(8, intercept=False)
    found = class_scores(model, data, model.bind(data.feature_names))
    np.testing.assert_array_equal(found.centre, 0)
