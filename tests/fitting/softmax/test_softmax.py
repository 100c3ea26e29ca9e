"""Softmax under noise: value against the explicit program, derivatives against JAX, the optimum against BFGS."""

from dataclasses import replace

import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import optimize, sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.softmax_energy import SoftmaxEnergy
from bayesdrop.fitting.solvers.driver import Trace, minimise
from bayesdrop.fitting.solvers.softmax import SoftmaxNewton, start_without_noise
from bayesdrop.losses import Logistic
from bayesdrop.losses.softmax import FORMS, expected_softmax
from bayesdrop.models import softmax
from bayesdrop.moments import ScoreMoments

N, P, K = 40, 5, 3


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.7)
    return X, (X @ rng.normal(size=(P, K)) + rng.normal(size=(N, K))).argmax(axis=1)


def energy(X, y, form, rate=0.3, C=0.7, noise_weight=None, storage=np.asarray, noise=None):
    noise = bd.Dropout() if noise is None else noise
    moments = ScoreMoments(as_design(storage(X)), noise, np.full((P, 1), rate))
    precision = np.append(np.full(P, 1.3), 0.0)[:, None]
    share = np.full(N, C) if noise_weight is None else noise_weight
    return SoftmaxEnergy(moments, form, K, y, np.full(N, C), share, precision)


@pytest.mark.slow
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_taylor_form_is_the_program(storage):
    X, y = problem()
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        for seed in range(3):
            weights = np.random.default_rng(seed).normal(size=(P + 1, K))
            values = {"weight": jnp.asarray(weights[:-1].T), "intercept": jnp.asarray(weights[-1])}
            arguments = (jnp.asarray(X), jnp.asarray(y), jnp.full(P, 0.3), K, 0.7, 1.3**-0.5)
            constant = P * K * (0.5 * np.log(2 * np.pi) - 0.5 * np.log(1.3))
            expected = -float(log_density(softmax.program, arguments, {"intercept_scale": None}, values)[0]) - constant
            assert energy(X, y, "taylor", storage=storage).value(weights) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("noise", [bd.Dropout(), bd.GaussianNoise(0.5)], ids=repr)
def test_gradient_is_the_derivative(form, noise):
    """Central differences of the value: error about 1e-8 of the gradient."""
    X, y = problem()
    weighted = np.linspace(0.0, 2.0, N)  # rows whose penalty counts otherwise than their loss
    problem_energy = energy(X, y, form, noise_weight=weighted, noise=noise)
    weights = np.random.default_rng(3).normal(size=(P + 1, K))
    gradient = problem_energy.evaluate(weights)[1]
    for d, k in np.ndindex(weights.shape):
        step = np.zeros_like(weights)
        step[d, k] = 1e-5
        slope = (problem_energy.value(weights + step) - problem_energy.value(weights - step)) / 2e-5
        assert slope == pytest.approx(gradient[d, k], rel=2e-6, abs=2e-6)


STORAGES = {
    "dense": np.asarray,
    "sparse": sparse.csr_array,
    "blocks": lambda X: bd.Blocks(lambda: iter([X[:15], sparse.csr_array(X[15:])])),
    "dask": lambda X: da.from_array(X, chunks=(15, -1)),
}


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("noise", [bd.Dropout(), bd.PoissonNoise()], ids=repr)
def test_by_entries_is_by_pairs_of_classes(noise, storage):
    """An identity: the value, its slope, and the diagonal of noise and prior."""
    rng = np.random.default_rng(4)
    X, classes = rng.poisson(0.7, size=(N, P)).astype(float), 7
    moments = ScoreMoments(as_design(STORAGES[storage](X)), noise, rng.uniform(0.1, 0.8, size=(P, 1)))
    code, shares = rng.integers(classes, size=N), rng.random((2, N))
    by_entries = SoftmaxEnergy(moments, "taylor", classes, code, *shares, np.ones((P + 1, 1)))
    by_pairs = replace(by_entries, by_entries=False)
    assert by_entries.by_entries
    weights = rng.normal(size=(P + 1, classes))
    same = {"rtol": 1e-11, "atol": 1e-12}
    value, *found = by_entries.evaluate(weights)
    expected_value, *expected = by_pairs.evaluate(weights)
    assert value == pytest.approx(expected_value, rel=1e-12)
    for part, its_part in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(part), np.asarray(its_part), **same)


@pytest.mark.parametrize("form", FORMS)
def test_diagonal_of_noise_has_the_trace_of_its_curvature(form):
    """Of each feature, over weights that sum to zero; at equal probabilities all of the curvature is equal to it."""
    X, y = problem()
    problem_energy, basis = energy(X, y, form), np.linalg.svd(np.ones((1, K)))[2][1:]
    for weights in (np.zeros((P + 1, K)), np.random.default_rng(5).normal(size=(P + 1, K))):
        _, _, _, diagonal = problem_energy.evaluate(weights)
        covariance = np.asarray(problem_energy.covariance(weights))
        _, _, _, positive = FORMS[form](problem_energy.moments.mean(weights), covariance)
        variance = problem_energy.moments.coefficients.quadratic[:, 0] * X**2
        curvature = 2 * 0.7 * np.einsum("np,nkl->pkl", variance, positive)
        of_weights = basis @ curvature @ basis.T
        of_diagonal = basis @ ((diagonal[:-1] - 1.3)[:, :, None] * np.eye(K)) @ basis.T
        traces = (np.einsum("pjj->p", part) for part in (of_diagonal, of_weights))
        np.testing.assert_allclose(*traces, rtol=1e-6)
        if not np.any(weights):
            np.testing.assert_allclose(of_diagonal, of_weights, rtol=1e-6, atol=1e-9)


def test_by_entries_is_refused_where_zeros_have_a_variance():
    X, y = problem()
    moments = energy(X, y, "taylor", noise=bd.GaussianNoise(0.5)).moments
    with pytest.raises(ValueError, match="leaves zeros alone"):
        SoftmaxEnergy(moments, "taylor", K, y, np.ones(N), np.ones(N), np.ones((P + 1, 1)), by_entries=True)


@pytest.mark.parametrize("form", FORMS)
def test_optimum_is_that_of_bfgs_and_nothing_rises(form):
    X, y = problem()
    problem_energy = energy(X, y, form)
    method, trace = SoftmaxNewton(1e-11, 200), Trace()
    start = method.init(problem_energy, start_without_noise(problem_energy, np.zeros((P + 1, K)), method))
    state, _ = minimise(method, problem_energy, start, 1e-11, 200, trace)
    weights = state.weights
    values = np.array(trace.values)[:, 0]
    assert np.all(np.diff(values) <= 1e-12 * values[:-1])

    def both(theta):
        value, gradient, _, _ = problem_energy.evaluate(theta.reshape(P + 1, K))
        return value, gradient.ravel()

    other = optimize.minimize(both, weights.ravel(), jac=True, method="BFGS", options={"gtol": 1e-7})
    assert values[-1] == pytest.approx(other.fun, rel=1e-9)


def test_fit_goes_on_where_rows_are_certain_of_a_wrong_class():
    """Without noise the energy is convex. At these intercepts its curvature is below 1e-60, and its slope is not."""
    X, y = problem()
    problem_energy = energy(X, y, "taylor").without_noise()
    ends = []
    for intercepts in (np.zeros(K), np.array([100.0, -50.0, -50.0])):
        weights = np.zeros((P + 1, K))
        weights[-1] = intercepts
        method = SoftmaxNewton(1e-10, 200)
        state, done = minimise(method, problem_energy, method.init(problem_energy, weights), 1e-10, 200, Trace())
        ends.append(state.value[0])
        assert done.all()
    assert ends[1] == pytest.approx(ends[0], rel=1e-9)


def test_gaussian_form_of_two_classes_is_the_closed_form():
    """Two scores differ by a normal variable, whose expected logistic loss is known; 128 points leave 2e-3 of it."""
    rng = np.random.default_rng(4)
    mean, root = rng.normal(size=(30, 2)), rng.normal(size=(30, 2, 2))
    cov = root @ np.swapaxes(root, 1, 2)
    value, _, _, _ = FORMS["gaussian"](mean, cov)
    gap, var = mean[:, 0] - mean[:, 1], cov[:, 0, 0] + cov[:, 1, 1] - 2 * cov[:, 0, 1]
    one = np.ones(30)
    expected = Logistic("gaussian").value(one, gap, var) - Logistic().value(one, gap, 0 * var)
    np.testing.assert_allclose(value, expected, rtol=2e-2, atol=2e-3)
    chance = expected_softmax(mean, cov)[:, 0]
    np.testing.assert_allclose(chance, Logistic().expected_probability(gap, var, 1.0), atol=2e-3)


@pytest.mark.slow
def test_gaussian_form_against_many_points():
    """Three classes against 400,000 draws: Monte Carlo error 3e-3 at 5 standard errors, points 1e-2."""
    rng = np.random.default_rng(5)
    mean, root = rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 3))
    value, _, _, _ = FORMS["gaussian"](mean, root @ np.swapaxes(root, 1, 2))
    for i in range(4):
        score = mean[i] + rng.normal(size=(400_000, 3)) @ root[i].T
        expected = np.logaddexp.reduce(score, axis=1).mean() - np.logaddexp.reduce(mean[i])
        assert value[i] == pytest.approx(expected, abs=1.3e-2)
