"""What rows say of their scores, against adaptive quadrature, and the approximation with noise that is made of it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import norm

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc.approximations import drawn
from bayesdrop.hmc.approximations.noisy_rows import noise_variance
from bayesdrop.hmc.approximations.tilted_moments import tilted_moments
from bayesdrop.losses import Logistic, Squared

LABEL = np.array([1.0, -1.0, 1.0])
VAR = np.array([[0.3], [4.0], [1.0]])
# The sixth row below is of zeros: without an intercept its score stands still, and it says nothing.
SAYS = np.arange(12) != 5


def cost(score):
    y, var = np.broadcast_to(LABEL[:, None], score.shape), np.broadcast_to(VAR, score.shape)
    return Logistic().score_cost(y, score, np.ascontiguousarray(var), np.ones(score.shape))


def test_moments_are_those_of_a_score_under_the_cost_of_its_row():
    mean, spread = np.array([-1.0, 2.0, 0.5]), np.array([1.5, 0.7, 2.0])
    curvature, pull = np.array([0.2, 0.4, 0.0]), np.array([0.3, -0.5, 0.1])
    found = tilted_moments(mean, spread, curvature, pull, cost)
    for i in range(3):
        # The same law, written by its own exponents and integrated adaptively.
        beside = 1 / spread[i] ** 2 - curvature[i], mean[i] / spread[i] ** 2 - pull[i]

        def density(m, i=i, beside=beside):
            row = [part[i, 0] for part in cost(np.full((3, 1), m))]
            return np.exp(beside[1] * m - 0.5 * beside[0] * m * m - row[0]), row[2]

        ends = mean[i] - 12 * spread[i], mean[i] + 12 * spread[i]
        power = [quad(lambda m, k=k: m**k * density(m)[0], *ends, epsabs=1e-13, limit=200)[0] for k in range(3)]
        slope = quad(lambda m: density(m)[0] * density(m)[1], *ends, epsabs=1e-13, limit=200)[0]
        centre, square = power[1] / power[0], power[2] / power[0]
        precision = 1 / (square - centre**2)
        # Two normal factors with the moments of the law: the row's is what the other one lacks. The sum ends at
        # eight deviations of the score, where a wide law has 1e-7 left.
        np.testing.assert_allclose(found.curvature[i], precision - beside[0], rtol=1e-5)
        np.testing.assert_allclose(found.pull[i], precision * centre - beside[1], rtol=1e-5)
        np.testing.assert_allclose(found.for_var[i], slope / power[0], rtol=1e-5)


def data_of(loss, n=12, p=20):
    generator = np.random.default_rng(4)
    X = generator.normal(size=(n, p)) * (generator.random((n, p)) < 0.4)
    X[5] = 0.0
    score = 2 * X[:, 0] + generator.normal(size=n)
    y = np.where(score > 0, 1, -1) if loss.binary else score
    return as_dataset(sparse.csr_array(X), y, np.tile([2.0, 1.0, 0.5], n // 3), None, loss.binary).with_weight()


@pytest.mark.parametrize("intercept", [True, False])
def test_a_normal_posterior_with_noise_is_found(intercept, exact_moments):
    model = bd.Model(Squared(), rates=bd.Fixed(0.3), C=2.0, fit_intercept=intercept)
    data = data_of(model.loss)
    found = drawn.drawn_approximation(model, data, model.bind(data.feature_names), False)
    X, weight = data.design.matrix().toarray(), model.C * data.weight
    second = X**2 * model.noise.coefficients(np.full(20, 0.3)).quadratic
    moved = np.column_stack([X * model.noise.coefficients(np.full(20, 0.3)).gain, np.ones((12, int(intercept)))])
    P = np.diag(np.append(1 + weight @ second, np.zeros(int(intercept))))
    mean = np.linalg.solve(P + (moved.T * weight) @ moved, moved.T @ (weight * data.target))
    np.testing.assert_allclose(found.precision.prior, np.diag(P)[:20], rtol=1e-9)
    np.testing.assert_allclose(found.precision.curvature[SAYS], weight[SAYS], rtol=1e-6)
    np.testing.assert_allclose(found.centre, mean, atol=1e-6)


@pytest.mark.parametrize("rates", ["fixed", "shared"])
def test_the_approximation_has_the_moments_of_every_score(rates, exact_moments, monkeypatch):
    """At the end mean and variance of a score are those that its row makes of what the others say."""
    seen = []

    def spy(*arguments):
        seen[:] = [arguments, tilted_moments(*arguments)]
        return seen[1]

    monkeypatch.setattr(drawn, "tilted_moments", spy)
    model = bd.Model(Logistic(), rates=bd.Fixed(0.3) if rates == "fixed" else bd.Shared(bd.Beta(2, 5)))
    model = replace(model, fit_intercept=rates == "fixed")
    data = data_of(model.loss)
    rate_map = model.bind(data.feature_names)
    found = drawn.drawn_approximation(model, data, rate_map, True)
    mean, spread, curvature, pull = seen[0][:4]
    np.testing.assert_allclose(seen[1].curvature[SAYS], curvature[SAYS], atol=1e-5)
    np.testing.assert_allclose(seen[1].pull, pull, atol=1e-5)
    # The scores are those of the weights, and their variances those of the covariance of all coordinates.
    X, p = data.design.matrix().toarray(), 20
    moved = np.column_stack([X * found.gain, np.ones((12, int(model.fit_intercept)))])
    P = np.append(found.precision.prior[:p], np.zeros(int(model.fit_intercept)))
    if found.rates is not None:
        moved, P = np.column_stack([moved, X @ found.rates.slope]), np.append(P, found.rates.precision)
    covariance = np.linalg.inv(np.diag(P) + (moved.T * found.precision.curvature) @ moved)
    np.testing.assert_allclose(spread[SAYS] ** 2, np.diag(moved @ covariance @ moved.T)[SAYS], rtol=1e-5)
    scores = X @ (found.gain * found.centre[:p]) + (found.centre[p] if model.fit_intercept else 0.0)
    np.testing.assert_allclose(mean, scores, atol=1e-5)
    # What noise adds is taken at the expected squares of the weights.
    rate = norm.cdf(found.centre[-1]) if found.rates is not None else 0.3
    noise, second = model.noise.coefficients(np.full(p, rate)), found.centre[:p] ** 2 + np.diag(covariance)[:p]
    np.testing.assert_allclose(seen[0][4].args[0], noise_variance(data.design, noise, second), rtol=1e-4)
