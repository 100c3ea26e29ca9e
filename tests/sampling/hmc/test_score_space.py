"""Posteriors of more features than rows: the factor by rows, the approximation by scores, and trajectories of scores.

False-alarm rate: each statistic is allowed 5 standard errors of 64 independent chains (below 1e-5 each by Student's t);
the default suite compares 50 of them, and the slow tests 42 more.
"""

from dataclasses import dataclass, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc import score_space
from bayesdrop.hmc.approximations.choices import Limits, case_of, choose
from bayesdrop.hmc.approximations.precision import RateLoading, centred_gram, row_factor, row_roots
from bayesdrop.hmc.kernels.factors import RowFactor, unwhiten
from bayesdrop.hmc.kernels.kernel import HMCKernel
from bayesdrop.losses import EpsilonInsensitive, Hinge, Logistic, Squared
from bayesdrop.sampling.matrix import samplers_matrix
from bayesdrop.sampling.run.runner import as_key, run

NO_NOISE = bd.Fixed(0.0)
SMALL = Limits(dense=2)
MODELS = {
    "logistic": bd.Model(Logistic(), rates=NO_NOISE, C=2.0, weight_prior=bd.Normal(np.linspace(0.5, 1.5, 20))),
    "hinge": bd.Model(Hinge(), rates=NO_NOISE, fit_intercept=False),
    "insensitive": bd.Model(EpsilonInsensitive(0.2), rates=NO_NOISE, C=3.0),
    "squared": bd.Model(Squared(), rates=NO_NOISE, C=2.0),
}


def data_of(model, n=12, p=20, store=sparse.csr_array):
    generator = np.random.default_rng(4)
    X = generator.normal(size=(n, p)) * (generator.random((n, p)) < 0.4)
    X[3] = X[4]  # two equal rows, and one of zeros
    X[5] = 0.0
    score = 2 * X[:, 0] + generator.normal(size=n)
    y = np.where(score > 0, 1, -1) if model.loss.binary else score
    return as_dataset(store(X), y, np.tile([2.0, 1.0, 0.5], n // 3), None, model.loss.binary).with_weight()


def bind(model, method, tune=0, **options):
    data = data_of(model, **options)
    return method.bind(model, data, model.bind(data.feature_names), tune, marginalised=True)


# The factor.


@pytest.mark.default_cases("True-none", "False-each")
@pytest.mark.parametrize("rates", ["none", "each", "two"])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_factor_by_rows_is_a_root_of_the_covariance(intercept, rates):
    """``TTᵀ(P + ADA) = 1``, and products with ``T``, its inverse and its transpose are those of one matrix."""
    generator, data = np.random.default_rng(0), data_of(MODELS["logistic"])
    n, p = data.design.shape
    index = {"none": np.zeros(0, int), "each": generator.permutation(p), "two": np.arange(p) % 2}[rates]
    k = len(np.unique(index))
    precision, gain, curvature, of_rates = (generator.uniform(0.5, 2.0, size) for size in (p, p, n, k))
    slope = generator.normal(size=p)
    loading = RateLoading(slope, index, of_rates) if k else None
    with jax.enable_x64(True):
        matrix = samplers_matrix(data.design, "float64", False)
        gram = data.design.outer_gram(gain**2 / precision) + (loading.gram(data.design) if k else 0)
        roots = row_roots(centred_gram(gram, curvature, intercept), curvature)
        factor = row_factor(data, matrix, precision, gain, curvature, roots, intercept, "float64", loading)
        D = p + intercept + k
        factor = factor._replace(stretch=jnp.asarray(generator.uniform(0.5, 2.0, D)))
        products = jax.jit(lambda x: (factor.times(x), factor.solve(x), factor.transposed_times(x)))
        root, inverse, turned = (np.asarray(found) for found in products(jnp.eye(D)))
    T, X = root.T / np.asarray(factor.stretch), data.design.matrix().toarray()
    moved = X @ (slope[:, None] * (index[:, None] == np.arange(k))) if k else np.zeros((n, 0))
    A = np.column_stack([X * gain, np.ones((n, int(intercept))), moved])
    P = np.diag(np.concatenate([precision, np.zeros(int(intercept)), of_rates]))
    np.testing.assert_allclose(T @ T.T @ (P + (A.T * curvature) @ A), np.eye(D), atol=1e-11)
    np.testing.assert_allclose(root @ inverse, np.eye(D), atol=1e-11)
    np.testing.assert_allclose(turned, root.T, atol=1e-11)


# The approximation.


def test_the_approximation_of_a_normal_posterior_is_that_posterior():
    model = MODELS["squared"]
    data = data_of(model)
    with jax.enable_x64(True):
        _, found = bind(model, bd.HMC(limits=SMALL, dtype="float64"))
    X = np.column_stack([data.design.matrix().toarray(), np.ones(12)])
    weight = model.C * data.weight
    covariance = np.linalg.inv(np.diag(np.append(np.ones(20), 0.0)) + (X.T * weight) @ X)
    mean = covariance @ X.T @ (weight * data.target)
    np.testing.assert_allclose(np.square(found.factor.row.root), weight, rtol=1e-12)
    np.testing.assert_allclose(found.factor.mean, X @ mean, atol=1e-9)
    np.testing.assert_allclose(found.factor.covariance, X @ covariance @ X.T, atol=1e-9)
    np.testing.assert_allclose(data.design.rmatvec(np.asarray(found.factor.dual)), mean[:-1], atol=1e-9)
    np.testing.assert_allclose(found.centre, mean, atol=1e-9)


# Trajectories of scores beside trajectories of weights.


@cache
def both(name):
    """The kernel of scores with operands, and the general one with the same whitening as a matrix."""
    model = MODELS[name]
    kernel, operands = bind(model, bd.HMC(limits=SMALL, dtype="float64"))
    D = len(operands.centre)
    dense = operands.factor.times(jnp.eye(D)).T
    general = HMCKernel(kernel.density, float("inf"))
    return kernel, operands, general, operands._replace(factor=dense)


@pytest.mark.parametrize(
    "name", ["logistic", *(pytest.param(n, marks=pytest.mark.slow) for n in ("hinge", "insensitive"))]
)
def test_scores_move_as_the_weights_do(name):
    """The same start and momentum lead to the same end, with the same error of the energy."""
    with jax.enable_x64(True):
        kernel, operands, general, whole = both(name)
        assert isinstance(kernel, score_space.ScoreHMCKernel)
        state, rng = jax.jit(kernel.init, static_argnums=2)(operands, jax.random.key(1), 7), np.random.default_rng(2)
        momentum = jnp.asarray(rng.normal(size=state.position.shape))
        z, moved, there = jax.jit(kernel.trajectory)(operands, state, momentum, 0.4, 5)
        beside = jax.jit(general.init, static_argnums=2)(whole, jax.random.key(1), 7)
        np.testing.assert_array_equal(beside.position, state.position)
        end, r, evaluation = jax.jit(general.trajectory)(whole, beside, momentum, 0.4, 5)
        np.testing.assert_allclose(z, end, atol=1e-9)
        np.testing.assert_allclose(moved, r, atol=1e-9)
        energies = [
            np.sum(new.cost - old.cost, axis=1) - (new.prior - old.prior)
            for new, old in ((there, state.evaluation), (evaluation, beside.evaluation))
        ]
        np.testing.assert_allclose(*energies, atol=1e-8)
        assert np.max(np.abs(energies[0])) > 1e-3
        score = operands.factor.scores(z)
        np.testing.assert_allclose(kernel.evaluation(operands, z, score).cost, there.cost, atol=1e-9)


def chains_of(model, method, draws=150, **options):
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = bind(model, method, tune=60, **options)
        result = run(kernel, operands, as_key(3), tune=60, draws=draws, chains=64, progress=False)
    parts = [result.draws["weight"], *([result.draws["intercept"][..., None]] if model.fit_intercept else [])]
    return kernel, result, np.concatenate(parts, axis=2).astype(float)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in ("logistic", "hinge", "insensitive")]
)
def test_draws_are_those_of_the_whole_factor(name):
    model, found = MODELS[name], []
    for many in (2, 10_000):
        kernel, result, theta = chains_of(model, bd.HMC(limits=Limits(dense=many)))
        assert isinstance(kernel, score_space.ScoreHMCKernel) == (many == 2)
        assert np.mean(result.draws["acceptance_rate"]) > 0.6
        values = np.concatenate([theta, theta**2], axis=2).mean(axis=1)
        found.append((values.mean(axis=0), values.var(axis=0, ddof=1) / 64))
    z = (found[0][0] - found[1][0]) / np.sqrt(found[0][1] + found[1][1])
    assert np.max(np.abs(z)) < 5


def test_a_normal_posterior_is_never_rejected():
    _, result, _ = chains_of(MODELS["squared"], bd.HMC(limits=SMALL, dtype="float64"), draws=20)
    assert np.min(result.draws["acceptance_rate"]) > 1 - 1e-9


def test_who_moves_scores():
    plain = bd.Model(rates=NO_NOISE)
    for model, expected in (
        (plain, True),
        (bd.Model(rates=bd.Fixed(0.3)), False),
        (bd.Model(rates=bd.Shared()), False),
        (bd.Model(noise=bd.GaussianNoise(0.1)), False),
        (bd.Model(rates=NO_NOISE, weight_prior=bd.Normal(bd.HalfCauchy(1.0))), False),
    ):
        data = data_of(model)
        case = case_of(model, data, model.bind(data.feature_names), True)
        assert (choose(case, SMALL).name == "scores") == expected
    tall = data_of(plain, n=60)
    assert choose(case_of(plain, tall, plain.bind(tall.feature_names), True), SMALL).name == "directions"


@dataclass(frozen=True)
class Counting(Logistic):
    """A logistic loss that counts how often it is traced."""

    def plain_value_and_slope(self, y, score):
        TRACES.append(1)
        return super().plain_value_and_slope(y, score)


TRACES = []


def test_a_second_run_compiles_nothing():
    counts = []
    for C in (1.0, 2.0):
        with jax.enable_x64(False):
            kernel, operands = bind(bd.Model(Counting(), rates=NO_NOISE, C=C), bd.HMC(limits=SMALL), tune=2)
            run(kernel, operands, as_key(0), tune=2, draws=2, chains=2, progress=False)
        counts.append(len(TRACES))
    assert counts[0] == counts[1] > 0


# With noise, the general kernel goes through the factor by rows.

NOISY = {
    "rates": bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)), C=2.0),
    "shared": bd.Model(rates=bd.Shared(bd.Beta(2, 3)), fit_intercept=False),
    "dropout": bd.Model(Hinge(expectation="gaussian"), rates=bd.Fixed(0.3)),
}


def noisy_chains(model, many, method, draws=120):
    method = replace(method, limits=Limits(dense=many))
    data = data_of(model, n=9, p=12)
    rate_map = model.bind(data.feature_names)
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = method.bind(model, data, rate_map, 60, marginalised=not rate_map.is_free)
        result = run(kernel, operands, as_key(3), tune=60, draws=draws, chains=64, progress=False)
    parts = [result.draws[name] for name in ("weight", "intercept", "logit_rate") if name in result.draws]
    theta = np.concatenate([part.reshape(64, draws, -1) for part in parts], axis=2).astype(float)
    return operands, result, np.concatenate([theta, theta**2], axis=2).mean(axis=1)


@pytest.mark.default_cases("rates")
@pytest.mark.parametrize("name", NOISY)
def test_draws_with_noise_are_those_of_the_whole_factor(name):
    model, found = NOISY[name], []
    for many in (2, 10_000):
        operands, result, values = noisy_chains(model, many, bd.HMC())
        assert isinstance(operands.factor, RowFactor) == (many == 2)
        assert np.mean(result.draws["acceptance_rate"]) > 0.6
        found.append((values.mean(axis=0), values.var(axis=0, ddof=1) / 64))
    z = (found[0][0] - found[1][0]) / np.sqrt(found[0][1] + found[1][1])
    assert np.max(np.abs(z)) < 5


@pytest.mark.slow
def test_a_pilot_stretches_and_leaves_the_chains_where_they_are():
    model = NOISY["rates"]
    data = data_of(model, n=9, p=12)
    with jax.enable_x64(True):
        kernel, operands = bd.HMC(limits=SMALL, dtype="float64").bind(model, data, model.bind(data.feature_names), 40)
        state, step = kernel.init(operands, jax.random.key(0), 5), jax.jit(kernel.step)
        evaluate, seen = jax.jit(kernel.density.evaluate), []
        for number in range(40):
            before, (state, _) = state, step(operands, state)
            theta = unwhiten(state.centre, kernel.factor(operands, state), state.position)
            np.testing.assert_allclose(
                state.evaluation.cost, evaluate(operands.density, theta).cost, rtol=1e-8, atol=1e-9
            )
            if np.any(np.asarray(state.factor) != np.asarray(before.factor)):
                seen.append(number + 1)
    assert seen == [6, 16, 28]


@pytest.mark.slow
def test_nuts_goes_by_rows_to_the_same_posterior():
    model, found = bd.Model(rates=NO_NOISE, C=2.0), []
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        for many, method in ((2, bd.NUTS(dtype="float32")), (10_000, bd.HMC())):
            operands, _, values = noisy_chains(model, many, method)
            assert isinstance(operands.factor, RowFactor) == (many == 2)
            found.append((values.mean(axis=0), values.var(axis=0, ddof=1) / 64))
    z = (found[0][0] - found[1][0]) / np.sqrt(found[0][1] + found[1][1])
    assert np.max(np.abs(z)) < 5
