"""Posteriors of many classes and many coordinates: the factor by eigenvectors, and the approximation by scores.

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
from bayesdrop.mcmc.hmc import class_scores as by_scores
from bayesdrop.mcmc.hmc.binding import bind_density
from bayesdrop.mcmc.hmc.class_density import contrasts
from bayesdrop.mcmc.hmc.class_factor import ClassFactor, class_factor
from bayesdrop.mcmc.hmc.whitening import FactorMap
from bayesdrop.mcmc.run.runner import as_key, run

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
    found = by_scores.class_scores(model, data, rate_map)
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


@pytest.mark.parametrize(
    ("side", "noise"),
    [("rows", "none"), ("features", "none"), ("rows", "taylor"), ("features", "taylor"), ("rows", "gaussian"),
     ("rows", "constant")],
)  # fmt: skip
def test_mean_and_curvature_are_of_the_approximation_itself(side, noise, monkeypatch):
    """Carried to the end, the mean gradient over its draws vanishes, and its rows' curvatures are means over them.

    128 points in place of all draws are right to 2 % of the curvature at such variances, 5 standard errors beside. Of
    noise all is looked at in the whole curvature, the mean of ``zᵀ∇U/D`` whitened, which is 1 but for what one matrix
    for all classes and rows leaves out.
    """
    for name, value in (("_CLOSE", 1e-6), ("_STEPS", 60), ("_NOISY_STEPS", 60)):
        monkeypatch.setattr(by_scores, name, value)
    n, p = SIZES[side]
    model, data, basis = model_of(p), data_of(n, p), contrasts(K)
    with jax.enable_x64(True):
        density, operands, found, factor = factor_of(n, p, True, noise)
        # The Gaussian form takes 128 points for every draw and row.
        half = np.random.default_rng(1).normal(size=(4000 if noise in ("none", "taylor") else 500, len(found.centre)))
        z = jnp.asarray(np.concatenate([half, -half]))
        theta = jnp.asarray(found.centre)[None] + factor.times(z)
        slope = np.asarray(factor.transposed_times(density.evaluate(operands, theta).gradient))
    draws = np.asarray(theta)
    # Whitened, a posterior standard deviation is 1. The fixed point is looked for to a tenth of a score's.
    error = slope.std(axis=0).max() / np.sqrt(len(draws))
    whole = np.sum(slope * np.asarray(z), axis=1) / z.shape[1]
    print(
        "GRAD", side, noise, np.abs(np.mean(slope, axis=0)).max(), error, whole.mean(), whole.std() / len(whole) ** 0.5
    )
    assert np.abs(np.mean(slope, axis=0)).max() < 0.2 + 5 * error
    assert abs(whole.mean() - 1) < 0.05 + 5 * whole.std() / np.sqrt(len(whole))
    if noise != "none":
        return
    weight = draws[:, : (K - 1) * p].reshape(-1, K - 1, p)
    score = np.einsum("sjp,np->snj", weight, data_of(n, p, np.asarray).X) + draws[:, None, (K - 1) * p :]
    chance = np.exp(score @ basis.T)
    chance /= chance.sum(axis=2, keepdims=True)
    # tr(C_i) = c_i Σ_k π_k(1 − π_k), as the contrasts are orthonormal and no probability is along their complement.
    trace = model.C * data.weight * np.sum(chance * (1 - chance), axis=2) / (K - 1)
    away = np.abs(trace.mean(axis=0) - found.curvature)
    assert np.all(away < 0.02 * found.curvature + 5 * trace.std(axis=0) / np.sqrt(len(trace)))


@pytest.mark.parametrize(("side", "noise"), [("rows", "none"), ("features", "none"), ("rows", "taylor")])
def test_moments_of_the_draws(side, noise, monkeypatch):
    """Means and variances of weights and intercepts are those that a dense factor's draws have."""
    n, p = SIZES[side]
    model, data = model_of(p, noise=noise), data_of(n, p)
    moments = []
    for dense in (1500, 2):
        monkeypatch.setattr(by_scores, "DENSE", dense)
        with jax.enable_x64(True):
            bound = bd.HMC(kicks=6, dtype="float64").bind(model, data, model.bind(data.feature_names), 60, True)
            assert isinstance(bound[1].factor, ClassFactor) == (dense == 2)
            draws = run(*bound, as_key(dense), tune=60, draws=60, chains=64, progress=False).draws
        picked = np.concatenate([draws["weight"][..., :3], draws["intercept"][..., None]], axis=3)
        flat = picked.reshape(64, 60, -1)[:, :, :8]
        moments.append(np.concatenate([flat.mean(axis=1), flat.var(axis=1)], axis=1))
    away = moments[0].mean(axis=0) - moments[1].mean(axis=0)
    error = np.sqrt(sum(found.var(axis=0, ddof=1) for found in moments) / 64)
    assert np.all(np.abs(away) < 5 * error)


def test_chosen_where_a_dense_factor_would_be_too_large():
    """Of more coordinates than a dense factor is for, and not where noise moves the scores of all rows."""
    shifted = bd.Dropout(centre=np.linspace(0.5, 1.0, 800))
    for p, noise, taken in ((800, None, True), (300, None, False), (800, shifted, False)):
        data = data_of(12, p)
        model = bd.Model(bd.Softmax(), noise=noise or bd.Dropout(), rates=bd.Fixed(0.3))
        kernel, operands = bd.HMC().bind(model, data, model.bind(data.feature_names), 10, True)
        assert isinstance(operands.factor, ClassFactor) == taken
        assert np.isfinite(kernel.trust)


def test_features_that_say_nothing():
    """Of zeros alone there is no gradient: the mean is zero, and nothing is divided by it."""
    data = as_dataset(np.zeros((6, 8)), np.array([0, 1, 2, 0, 1, 2]), multiclass=True).with_weight()
    model = model_of(8, intercept=False)
    found = by_scores.class_scores(model, data, model.bind(data.feature_names))
    np.testing.assert_array_equal(found.centre, 0)
