"""The energy of a hidden layer is the stated one, and its gradient is exact."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.latent.objective.criteria import OneVersusRest, Softmax
from bayesdrop.latent.objective.energy import LatentEnergy, Parameters, blocks_of
from bayesdrop.latent.objective.rules import Rules

N, P, K, M = 25, 6, 3, 4
CRITERIA = {
    "hinge": OneVersusRest(bd.Hinge(), 1e-3),
    "hinge, gaussian": OneVersusRest(bd.Hinge(expectation="gaussian"), 1e-3),
    "logistic": OneVersusRest(bd.Logistic()),
    "logistic, taylor": OneVersusRest(bd.Logistic(expectation="taylor")),
    "softmax, taylor": Softmax("taylor"),
    "softmax, gaussian": Softmax("gaussian"),
}
NOISES = {
    "dropout": bd.Dropout(),
    "unbiased": bd.Dropout(unbiased=True),
    "additive": bd.GaussianNoise(0.4),
    "poisson": bd.PoissonNoise(),
}


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.9, size=(N, P)).astype(float)
    X[3] = 0
    code = rng.integers(0, M, N)
    parameters = Parameters(0.7 * rng.normal(size=(P + 1, K)), rng.normal(size=(K + 1, M)))
    return X, code, rng.gamma(2.0, size=N), np.linspace(0.1, 0.8, P), parameters


def energy_of(criterion, noise, X, code, weight, rate, precision=None):
    target = code if isinstance(criterion, Softmax) else np.where(code[:, None] == np.arange(M), 1.0, -1.0)
    return LatentEnergy(
        blocks_of(X, target, weight, K), noise, rate, criterion, np.ones(P) if precision is None else precision
    )


def stated(criterion, noise, X, code, weight, rate, precision, hidden, output):
    """The energy feature by feature, as section 4.2 has it, in JAX."""
    gain, shift, quadratic, linear, constant = noise.coefficients(rate)
    mean_input = gain * X + shift
    var_input = quadratic * X**2 + linear * X + constant
    unit = jax.nn.sigmoid(mean_input @ hidden[:-1] + hidden[-1][None])
    score = unit @ output[:-1] + output[-1][None]
    slope = unit * (1 - unit)
    # Slope of each score in each feature, h_id = Σ_k w_k σ'_ik α_dk: (n, p, M).
    pull = jnp.einsum("nk,km,dk->ndm", slope, output[:-1], hidden[:-1])
    cov = jnp.einsum("nd,ndm,ndl->nml", jnp.asarray(var_input), pull, pull)
    penalty = 0.5 * jnp.sum(precision[:, None] * hidden[:-1] ** 2) + 0.5 * jnp.sum(output[:-1] ** 2)
    if isinstance(criterion, Softmax):
        chance = jax.nn.softmax(score, axis=1)
        bend = jax.vmap(lambda pi: jnp.diag(pi) - jnp.outer(pi, pi))(chance)
        extra = 0.5 * jnp.einsum("nml,nml->n", bend, cov)
        loss = jax.scipy.special.logsumexp(score, axis=1) - score[jnp.arange(len(code)), code] + extra
        return penalty + jnp.sum(weight * loss)
    target = jnp.where(code[:, None] == jnp.arange(M)[None], 1.0, -1.0)
    var = jnp.einsum("nmm->nm", cov) + criterion.smoothing
    return penalty + jnp.sum(weight[:, None] * criterion.loss.value(target, score, var))


@pytest.mark.slow_cases("logistic, taylor", "hinge, gaussian", "hinge-add", "hinge-un", "logistic-dr", "logistic-po")
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("criterion", [name for name in CRITERIA if name != "softmax, gaussian"])
def test_value_and_gradient_are_those_of_the_stated_energy(criterion, noise):
    """To 1e-10 of the largest entry, the gradient by autodiff of the sum over features."""
    X, code, weight, rate, parameters = problem()
    precision = np.linspace(0.5, 2.0, P)
    value, gradient = energy_of(
        CRITERIA[criterion], NOISES[noise], X, code, weight, rate, precision
    ).value_and_gradient(parameters)
    with jax.enable_x64(True):
        arguments = tuple(jnp.asarray(part) for part in parameters)

        def function(hidden, output):
            return stated(
                CRITERIA[criterion], NOISES[noise], X, jnp.asarray(code), weight, rate, precision, hidden, output
            )

        expected, slopes = jax.jit(jax.value_and_grad(function, (0, 1)))(*arguments)
    assert value == pytest.approx(float(expected), rel=1e-12)
    for found, slope in zip(gradient, slopes, strict=True):
        np.testing.assert_allclose(found, slope, rtol=0, atol=1e-10 * np.max(np.abs(slope)))


@pytest.mark.parametrize("noise", NOISES)
def test_gaussian_softmax_has_the_slope_of_its_value(noise):
    """By a symmetric difference, exact to 1e-7 of the slope: step 1e-4, third derivatives of the energy's own size."""
    X, code, weight, rate, parameters = problem()
    energy = energy_of(CRITERIA["softmax, gaussian"], NOISES[noise], X, code, weight, rate)
    flat = parameters.flatten()
    slope = energy.value_and_gradient(parameters)[1].flatten()
    for direction in np.random.default_rng(1).normal(size=(3, flat.size)):
        ahead, behind = (energy.value_and_gradient(parameters.like(flat + h * direction))[0] for h in (1e-4, -1e-4))
        assert (ahead - behind) / 2e-4 == pytest.approx(slope @ direction, rel=1e-5)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_sparse_and_blocks_change_nothing(criterion):
    """Storage, and cutting the rows: sums in another order, equal to 1e-12."""
    X, code, weight, rate, parameters = problem()
    noise, rule = bd.Dropout(), CRITERIA[criterion]
    value, gradient = energy_of(rule, noise, X, code, weight, rate).value_and_gradient(parameters)
    others = [energy_of(rule, noise, sparse.csr_array(X), code, weight, rate)]
    for rows in (X, sparse.csr_array(X)):
        small = Rules(block_entries=5 * P)
        blocks = blocks_of(rows, others[0].blocks[0].target, weight, K, small)
        others.append(replace(others[0], blocks=blocks))
    assert len(others[1].blocks) > 1
    for other in others:
        again, slopes = other.value_and_gradient(parameters)
        assert again == pytest.approx(value, rel=1e-12)
        for here, there in zip(gradient, slopes, strict=True):
            np.testing.assert_allclose(here, there, rtol=0, atol=1e-12 * np.max(np.abs(here)))
