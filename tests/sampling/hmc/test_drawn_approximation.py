"""Posteriors of many rows and many features: the approximation, its factor, and the kernel of passes.

False-alarm rate: each statistic of chains is allowed 5 standard errors of 64 independent chains (below 1e-5 each by
Student's t); the default suite compares 14 of them, and the slow tests 40 more.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import eye_array

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc.approximations import precision as precise
from bayesdrop.hmc.approximations.choices import Limits, case_of, choose
from bayesdrop.hmc.binding import approximate_scores, bind_density
from bayesdrop.hmc.kernels.factors import DirectionFactor
from bayesdrop.hmc.kernels.kernel import HMCKernel
from bayesdrop.hmc.streamed import StreamedKernel, evaluation_of, one_pass
from bayesdrop.losses import Hinge, Logistic, Squared
from bayesdrop.sampling.run.runner import as_key, run

NO_NOISE = bd.Fixed(0.0)
N, P = 30, 6
SMALL = Limits(dense=2, rows=0)
MODELS = {
    "logistic": bd.Model(Logistic(), rates=NO_NOISE, C=2.0, weight_prior=bd.Normal(np.linspace(0.5, 1.5, P))),
    "hinge": bd.Model(Hinge(), rates=NO_NOISE, fit_intercept=False),
    "squared": bd.Model(Squared(), rates=NO_NOISE, C=2.0),
}


def data_of(model, store=sparse.csr_array):
    generator = np.random.default_rng(4)
    X = generator.normal(size=(N, P)) * (generator.random((N, P)) < 0.5)
    X[:, 1] = X[:, 0]  # two features that always come together
    X[5] = 0.0
    score = 2 * X[:, 0] + generator.normal(size=N)
    y = np.where(score > 0, 1, -1) if model.loss.binary else score
    given = as_dataset(store(X), y, np.tile([2.0, 1.0, 0.5], N // 3), None, model.loss.binary)
    return given.with_offset(np.linspace(-0.5, 0.5, N), False).with_weight()


def bind(model, method, tune=0):
    data = data_of(model)
    return method.bind(model, data, model.bind(data.feature_names), tune, marginalised=True)


def whole_precision(design, prior, curvature, intercept):
    """``P + ADA`` of weights and intercept."""
    A = np.column_stack([design.matrix().toarray(), np.ones((N, int(intercept)))])
    return np.diag(np.append(prior, np.zeros(int(intercept)))) + (A.T * curvature) @ A


# The factor.


@pytest.mark.parametrize("most", [P, 2])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_factor_is_a_root_of_the_covariance_along_its_directions(intercept, most):
    """``TᵀHT`` is one in all directions kept and as it was in the others; products are those of one matrix."""
    generator, design = np.random.default_rng(0), data_of(MODELS["logistic"]).design
    prior, curvature = generator.uniform(0.5, 2.0, P), generator.uniform(0.5, 2.0, N)
    precision = precise.precision_of(design, prior, curvature, intercept, eye_array(P))
    D = P + intercept
    with jax.enable_x64(True):
        factor = precise.direction_factor(precision, intercept, "float64", most=most, beyond=0.0, passes=200)
        assert factor.directions.shape == (most, P)
        factor = factor._replace(stretch=jnp.asarray(generator.uniform(0.5, 2.0, D)))
        products = jax.jit(lambda x: (factor.times(x), factor.solve(x), factor.transposed_times(x)))
        root, inverse, turned = (np.asarray(found) for found in products(jnp.eye(D)))
    np.testing.assert_allclose(root @ inverse, np.eye(D), atol=1e-12)
    np.testing.assert_allclose(turned, root.T, atol=1e-12)
    T, H = root.T / np.asarray(factor.stretch), whole_precision(design, prior, curvature, intercept)
    scale = np.append(np.asarray(factor.scale), np.ones(int(intercept)))
    expected = np.linalg.eigvalsh(scale[:P, None] * precision.times(np.eye(P)) * scale[:P])
    expected[P - most :] = 1.0
    whitened = np.linalg.eigvalsh(T.T @ H @ T)
    np.testing.assert_allclose(whitened, np.sort(np.append(expected, np.ones(int(intercept)))), atol=1e-9)
    if most == P:
        np.testing.assert_allclose(T @ T.T @ H, np.eye(D), atol=1e-9)


def test_the_diagonal_is_that_of_the_precision_and_at_most_four_times_the_priors():
    design, generator = data_of(MODELS["logistic"]).design, np.random.default_rng(1)
    prior, curvature = generator.uniform(0.5, 2.0, P), generator.uniform(0.0, 0.5, N)
    precision = precise.precision_of(design, prior, curvature, True, eye_array(P))
    diagonal = np.diag(precision.times(np.eye(P)))
    np.testing.assert_allclose(precision.diagonal(), diagonal, rtol=1e-12)
    scale = precise.direction_factor(precision, True, "float32").scale
    np.testing.assert_allclose(1 / np.square(scale), np.minimum(diagonal, 4 * prior), rtol=1e-5)


# The approximation.


def approximation(model):
    data = data_of(model)
    rate_map = model.bind(data.feature_names)
    with jax.enable_x64(True):
        density, operands = bind_density("HMC", model, data, rate_map, True, "float64")
        return data, approximate_scores(model, data, rate_map, density, operands, "rows", "float64")


@pytest.mark.parametrize("name", MODELS)
def test_the_approximation_is_nearly_a_fixed_point(name):
    """Mean slopes of the scores vanish, curvatures are their means, by quadrature; variances are those of 16 draws."""
    model = MODELS[name]
    data, found = approximation(model)
    prior, X, intercept = model.weight_prior.precision(P), data.design.matrix().toarray(), model.fit_intercept
    z = np.linspace(-9, 9, 200_001)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    level = found.centre[P] if intercept else 0.0
    curvature = found.precision.curvature
    A = np.column_stack([X, np.ones((N, int(intercept)))])
    whole = whole_precision(data.design, prior, curvature, intercept)
    spread = np.sqrt(np.maximum(np.sum(A * np.linalg.solve(whole, A.T).T, axis=1), 1e-12))
    score = (X @ found.centre[:P] + level + data.offset)[:, None] + spread[:, None] * z
    y = np.broadcast_to(data.target[:, None], score.shape)
    slope = model.loss.plain_value_and_slope(y, score)[1] * (model.C * data.weight)[:, None]
    gradient = A.T @ (slope @ density) + np.append(prior * found.centre[:P], np.zeros(int(intercept)))
    # In posterior standard deviations.
    assert np.sqrt(gradient @ np.linalg.solve(whole, gradient)) < 0.5
    # Stein's identity: E l'' = E l' z / sd.
    seen = spread > 0.01
    # A piecewise-linear loss has curvatures of a few rows, which its spread of few draws sets.
    expected = ((slope @ (density * z)) / spread)[seen]
    np.testing.assert_allclose(curvature[seen], expected, atol=0.2 * expected.max())
    ratio = 16 * found.spread[seen] ** 2 / spread[seen] ** 2
    assert np.all((ratio > 0.5) & (ratio < 80))  # twice a chi-square variable of 8 degrees of freedom


def test_the_mean_of_a_normal_posterior_is_exact():
    model = MODELS["squared"]
    data, found = approximation(model)
    weight = model.C * data.weight
    H = whole_precision(data.design, np.ones(P), weight, True)
    A = np.column_stack([data.design.matrix().toarray(), np.ones(N)])
    np.testing.assert_allclose(
        found.centre, np.linalg.solve(H, A.T @ (weight * (data.target - data.offset))), atol=1e-6
    )


# The kernel.


@pytest.mark.parametrize("name", ["logistic", "hinge"])
def test_a_pass_gives_the_density_in_memory(name):
    """Gradients, and differences of energies, with row weights, an offset and rounded kinks."""
    model = MODELS[name]
    data = data_of(model)
    with jax.enable_x64(True):
        kernel, operands = bind(model, bd.HMC(limits=SMALL, dtype="float64"))
        assert isinstance(kernel, StreamedKernel)
        assert isinstance(operands.chains.factor, DirectionFactor)
        rate_map = model.bind(data.feature_names)
        density, held = bind_density("HMC", model, data, rate_map, True, "float64")
        width = operands.rows.width
        assert (width is not None) == (name == "hinge")
        held = held._replace(width=None if width is None else jnp.asarray(width))
        D = P + model.fit_intercept
        theta = operands.chains.centre[None] + jnp.asarray(np.random.default_rng(5).normal(size=(4, D)))
        expected = density.evaluate(held, theta)
        sums = one_pass(density, operands.rows, density.loadings(operands.chains.density, theta))
        found = evaluation_of(density, operands.chains.density, theta, jax.tree.map(jnp.asarray, sums))
        middle = density.evaluate(held, operands.chains.centre[None]).cost.sum()
        expected, found, middle = (jax.tree.map(np.asarray, value) for value in (expected, found, middle))
    np.testing.assert_allclose(found.cost[:, 0] + middle, expected.cost.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.prior, expected.prior, rtol=1e-12)
    np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-10 * np.abs(expected.gradient).max())


def moments_of(model, method, draws):
    """Means of weights, intercept and their squares in 64 chains."""
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = bind(model, method, tune=60)
        result = run(kernel, operands, as_key(3), tune=60, draws=draws, chains=64, progress=False)
    assert np.mean(result.draws["acceptance_rate"]) > 0.6
    parts = [result.draws["weight"], *([result.draws["intercept"][..., None]] if model.fit_intercept else [])]
    theta = np.concatenate(parts, axis=2).astype(float)
    values = np.concatenate([theta, theta**2], axis=2).mean(axis=1)
    return kernel, values.mean(axis=0), values.var(axis=0, ddof=1) / 64


@pytest.mark.parametrize("name", ["logistic", *(pytest.param(n, marks=pytest.mark.slow) for n in ("hinge", "squared"))])
def test_draws_are_those_of_the_whole_factor(name):
    kernel, mean, square = moments_of(MODELS[name], bd.HMC(limits=SMALL), 60)
    assert isinstance(kernel, StreamedKernel)
    dense, expected, other = moments_of(MODELS[name], bd.HMC(), 60)
    assert isinstance(dense, HMCKernel)
    assert np.max(np.abs(mean - expected) / np.sqrt(square + other)) < 5


@pytest.mark.slow
def test_nuts_takes_the_factor_to_the_same_posterior():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        _, operands = bind(MODELS["logistic"], bd.NUTS(limits=SMALL, dtype="float32"))
        assert isinstance(operands.factor, DirectionFactor)
        _, mean, square = moments_of(MODELS["logistic"], bd.NUTS(limits=SMALL, dtype="float32"), 60)
    _, expected, other = moments_of(MODELS["logistic"], bd.HMC(), 60)
    assert np.max(np.abs(mean - expected) / np.sqrt(square + other)) < 5


class Shifted(bd.Dropout):
    """A noise that moves the mean."""

    def coefficients(self, *rate):
        found = super().coefficients(*rate)
        return found._replace(shift=found.gain)


def test_who_is_approximated_by_draws():
    plain = bd.Model(rates=NO_NOISE)
    for model, expected in (
        (plain, True),
        (bd.Model(rates=bd.Fixed(0.3)), True),
        (bd.Model(rates=bd.Shared()), True),
        (bd.Model(noise=bd.GaussianNoise(0.1)), True),
        (bd.Model(noise=Shifted(), rates=bd.Fixed(0.3)), False),
        (bd.Model(rates=NO_NOISE, weight_prior=bd.Normal(bd.HalfCauchy(1.0))), True),
    ):
        data = data_of(model)
        case = case_of(model, data, model.bind(data.feature_names), False)
        assert (choose(case, SMALL).name == "directions") == expected
    data = data_of(plain)
    assert choose(case_of(plain, data, plain.bind(data.feature_names), False), Limits()).name == "dense"


def test_a_posterior_of_many_rows_and_features_goes_on_from_a_checkpoint(tmp_path):
    """Through :func:`bayesdrop.sample`: the same draws whole and in two parts."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.5))
    y, options = rng.random(N) < 0.5, {"tune": 4, "chains": 2, "progress": False, "method": bd.HMC(limits=SMALL)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        whole = bd.sample(bd.Model(rates=NO_NOISE), X, y, draws=8, **options)
        bd.sample(bd.Model(rates=NO_NOISE), X, y, draws=4, checkpoint=tmp_path / "run", **options)
        parts = bd.sample(bd.Model(rates=NO_NOISE), X, y, draws=8, checkpoint=tmp_path / "run", **options)
    weights = [bd.groups.dataset(post, "posterior")["weight"].values for post in (whole, parts)]
    np.testing.assert_array_equal(*weights)
