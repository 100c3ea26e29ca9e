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
from bayesdrop.hmc.approximations.choices import Limits
from bayesdrop.hmc.binding import bind_density
from bayesdrop.hmc.classes import scores as by_scores
from bayesdrop.hmc.classes.density import contrasts
from bayesdrop.hmc.classes.factor import ClassFactor, class_factor
from bayesdrop.hmc.classes.slopes import class_slopes
from bayesdrop.hmc.kernels.factors import FactorMap
from bayesdrop.losses.softmax import normal_points
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
    [("rows", "none"), ("features", "none"), ("features", "taylor"), ("rows", "gaussian"), ("rows", "constant")],
)
def test_mean_and_curvature_are_of_the_approximation_itself(side, noise, monkeypatch):
    """Carried to the end, the mean gradient over its draws vanishes, and its rows' curvatures are means over them.

    128 points in place of all draws are right to 2 % of the curvature at such variances, 5 standard errors beside. With
    noise, the covariances of the scores are the mean ones, and independent of the mean scores, as it takes them.
    """
    for name, value in (("_CLOSE", 1e-6), ("_STEPS", 60), ("_NOISY_STEPS", 60)):
        monkeypatch.setattr(by_scores, name, value)
    n, p = SIZES[side]
    model, data, basis = model_of(p, noise=noise), data_of(n, p), contrasts(K)
    with jax.enable_x64(True):
        density, operands, found, factor = factor_of(n, p, True, noise)
        # The Gaussian form takes 128 points for every draw and row.
        half = np.random.default_rng(1).normal(size=(500 if model.loss.convex else 4000, len(found.centre)))
        theta = jnp.asarray(found.centre)[None] + factor.times(jnp.asarray(np.concatenate([half, -half])))
        mean, *pairs = density.moments(operands, theta)
        pairs = [jnp.broadcast_to(part.mean(axis=0), part.shape) for part in pairs]
        cost, to_moments = jax.vjp(lambda *moments: density.cost(operands, *moments), mean, *pairs)
        centre = jnp.broadcast_to(jnp.asarray(found.centre), theta.shape)
        _, to_weights = jax.vjp(lambda t: (density.moments(operands, t), density.log_prior(operands, t)), centre)
        slopes = to_moments(jnp.ones_like(cost))
        (gradient,) = to_weights((slopes, -jnp.ones(len(theta))))
        slope = np.asarray(factor.transposed_times(gradient))
    draws = np.asarray(theta)
    # Whitened, a posterior standard deviation is 1. The fixed point is looked for to a tenth of a score's.
    error = slope.std(axis=0).max() / np.sqrt(len(draws))
    assert np.abs(np.mean(slope, axis=0)).max() < 0.2 + 5 * error
    X = data_of(n, p, np.asarray).X
    if noise != "none":
        # Of a row, tr Λ_i is twice the slopes in the variances of the contrasts.
        own = np.flatnonzero(np.equal(*np.triu_indices(K - 1)))
        part = [np.broadcast_to(c, p) for c in model.noise.coefficients(model.bind(data.feature_names).initial)]
        entries = part[2] * X**2 + part[3] * X + part[4]
        extra = 2 * np.asarray(slopes[1])[:, own].sum(axis=1) @ entries / (K - 1)
        away, error = np.abs(extra.mean(axis=0) - found.extra), extra.std(axis=0) / np.sqrt(len(extra))
        assert np.all(away < 0.02 * found.extra + 5 * error)
        return
    weight = draws[:, : (K - 1) * p].reshape(-1, K - 1, p)
    score = np.einsum("sjp,np->snj", weight, X) + draws[:, None, (K - 1) * p :]
    chance = np.exp(score @ basis.T)
    chance /= chance.sum(axis=2, keepdims=True)
    # tr(C_i) = c_i Σ_k π_k(1 − π_k), as the contrasts are orthonormal and no probability is along their complement.
    trace = model.C * data.weight * np.sum(chance * (1 - chance), axis=2) / (K - 1)
    away = np.abs(trace.mean(axis=0) - found.curvature)
    assert np.all(away < 0.02 * found.curvature + 5 * trace.std(axis=0) / np.sqrt(len(trace)))


@pytest.mark.parametrize("widened", [False, True])
def test_slopes_are_the_derivatives_of_the_mean_cost(widened):
    """Exactly in means, and of Taylor's form in covariances; to 3 % what rests on 128 points in place of all."""
    generator, n, J = np.random.default_rng(6), 5, K - 1
    mean, spread = generator.normal(size=(n, J)), 0.3 + 0.4 * generator.random((n, J))
    rotation, weight = np.linalg.qr(generator.normal(size=(J, J)))[0], 0.5 + generator.random(n)
    root, basis, code = 0.4 * generator.normal(size=(n, J, J)), contrasts(K), np.arange(n) % K
    variance = root @ np.swapaxes(root, 1, 2)

    def at(mean, variance):
        return class_slopes(mean, spread, rotation, basis, code, weight, variance, widened)

    found, h = at(mean, variance), 1e-5
    points = mean[:, None] + normal_points(J) * spread[:, None] @ rotation.T
    if not widened:
        first, second = np.triu_indices(J)
        every = variance[:, first, second].T
        with jax.enable_x64(True):
            model, data = model_of(6, noise="taylor"), data_of(40, 6)
            density, operands = bind_density("HMC", model, data, model.bind(data.feature_names), True, "float64")
            operands = operands._replace(target=jnp.asarray(code), row_weight=jnp.asarray(weight))
            cost = density.cost(operands, jnp.asarray(np.moveaxis(points, 0, 2)), jnp.asarray(every)[None])
        np.testing.assert_allclose(found.value, np.asarray(cost).mean(axis=0).sum(), rtol=1e-10)
    for a in range(J):
        moved = [at(mean + sign * h * np.eye(J)[a], variance) for sign in (1, -1)]
        curve = (moved[0].slope - moved[1].slope) / (2 * h)
        scale = np.abs(found.curve).max()
        np.testing.assert_allclose(curve, found.curve[:, a], atol=1e-7 if widened else 0.03 * scale)
        for i in range(n):
            up, down = (at(mean + sign * h * np.outer(np.eye(n)[i], np.eye(J)[a]), variance) for sign in (1, -1))
            np.testing.assert_allclose((up.value - down.value) / (2 * h), found.slope[i, a], atol=1e-8)
            step = np.zeros((n, J, J))
            step[i, a, a] = h
            up, down = (at(mean, variance + sign * step) for sign in (1, -1))
            slope = (up.value - down.value) / h
            np.testing.assert_allclose(slope, found.by_variance[i, a, a], atol=0.03 * scale if widened else 1e-8)


@pytest.mark.parametrize(("side", "noise"), [("rows", "none"), ("features", "none"), ("rows", "taylor")])
def test_moments_of_the_draws(side, noise, monkeypatch):
    """Means and variances of weights and intercepts are those that a dense factor's draws have."""
    n, p = SIZES[side]
    model, data = model_of(p, noise=noise), data_of(n, p)
    moments = []
    for dense in (1500, 2):
        monkeypatch.setattr(bd.HMC, "limits", Limits(dense=dense))
        with jax.enable_x64(True):
            bound = bd.HMC(n_leapfrog_steps=6, dtype="float64").bind(
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
    found = by_scores.class_scores(model, data, model.bind(data.feature_names))
    np.testing.assert_array_equal(found.centre, 0)
