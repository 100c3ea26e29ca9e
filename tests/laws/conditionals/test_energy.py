"""The library's energy and the explicit program are one function of the weights, and the fit is its mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import compute_log_probs, log_density
from scipy.optimize import minimize
from scipy.sparse import csr_array

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.distributions import HingePseudoLikelihood, LogisticPseudoLikelihood
from bayesdrop.models import feature_noising, marginalised_dropout
from bayesdrop.moments import ScoreMoments

N, P = 30, 5
NAMES = [f"x{d}" for d in range(P)]
RATES = {
    "none": bd.Fixed(0.0),
    "fixed": bd.Fixed(0.3),
    "fixed each": bd.Fixed([0.0, 0.1, 0.4, 0.7, 0.95]),
    "shared": bd.Shared(),
    "per feature": bd.PerFeature(),
    "per group": bd.PerGroup(["a", "b", "a", "c", "c"]),
}
LOSSES = {
    "hinge": (bd.Hinge(), marginalised_dropout.hinge, HingePseudoLikelihood),
    "logistic": (bd.Logistic(), marginalised_dropout.logistic, LogisticPseudoLikelihood),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.7)
    score = X @ rng.normal(scale=2.0, size=P) + rng.normal(size=N)
    return X, np.where(score > 0, 1.0, -1.0), rng.gamma(2.0, size=N)


def _energy(model, X, y, row_weight, rate, weights):
    """``½ wᵀPw + C Σ s φ`` from the library's components; weights (p + 1,), the intercept last."""
    mean, var = ScoreMoments(as_design(X), model.noise, rate[:, None]).scores(weights[:, None])
    precision = model.weight_prior.precision(P)
    penalty = 0.5 * np.sum(precision * weights[:-1] ** 2)
    return penalty + model.C * np.sum(row_weight * model.loss.value(y, mean[:, 0], var[:, 0]))


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("name", LOSSES)
def test_two_statements_of_the_energy(data, name, rates, unbiased, same):
    """Of dense and of sparse rows."""
    X, y, row_weight = data
    loss, bound, _ = LOSSES[name]
    scale = np.linspace(0.5, 2.0, P)
    model = bd.Model(loss, bd.Dropout(unbiased=unbiased), RATES[rates], C=0.7, weight_prior=bd.Normal(scale))
    bound_rates = model.bind(NAMES)
    rng = np.random.default_rng(6)
    # Learnt rates move: take other values than the start for each free rate, spread over its features.
    theta = rng.uniform(0.05, 0.95, bound_rates.size)
    rate = bound_rates.expand(theta) if bound_rates.is_free else bound_rates.initial

    @jax.jit
    def log_joint(weight, intercept):
        values = {"weight": weight, "intercept": intercept}
        arguments = (jnp.asarray(X), y > 0, jnp.asarray(rate), bound, 0.7 * jnp.asarray(row_weight))
        options = {"scale": jnp.asarray(scale), "unbiased": unbiased, "intercept_scale": None}
        return log_density(marginalised_dropout.program, arguments, options, values)[0]

    constant = np.sum(np.log(scale)) + 0.5 * P * np.log(2 * np.pi)
    for _ in range(3):
        weights = rng.normal(scale=3.0, size=P + 1)
        density = log_joint(jnp.asarray(weights[:-1]), jnp.asarray(weights[-1]))
        for storage in (np.asarray, csr_array):
            library = _energy(model, storage(X), y, row_weight, rate, weights)
            same(-density, library + constant)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_fit_is_the_mode_of_the_program(data, name, unbiased):
    X, y, row_weight = data
    loss, bound, _ = LOSSES[name]
    tolerance = 1e-10
    model = bd.Model(loss, bd.Dropout(unbiased=unbiased), bd.Fixed(0.3), C=0.7)
    fit = bd.fit(model, X, y, sample_weight=row_weight, method=bd.Newton(tol=tolerance))

    @jax.jit
    @jax.value_and_grad
    def energy(weights):
        values = {"weight": weights[:-1], "intercept": weights[-1]}
        rate = jnp.full(P, 0.3)
        arguments = (jnp.asarray(X), y > 0, rate, bound, 0.7 * jnp.asarray(row_weight), 1.0, unbiased)
        return -log_density(marginalised_dropout.program, arguments, {"intercept_scale": None}, values)[0]

    reached = float(energy(jnp.append(jnp.asarray(fit.weight), fit.intercept))[0])
    other = minimize(
        lambda w: tuple(np.asarray(part, dtype=float) for part in energy(jnp.asarray(w))),
        np.zeros(P + 1),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-9},
    )
    assert reached <= other.fun + tolerance * abs(other.fun)


@pytest.mark.parametrize("name", LOSSES)
def test_energy_bounds_the_exact_noising_likelihood(data, name):
    """Jensen: ``−log Σ_α p(α) exp(−C loss) <= C φ``, row by row, and for some rows by far."""
    X, y, _ = data
    loss, _, likelihood = LOSSES[name]
    rng = np.random.default_rng(7)
    gaps = []

    @jax.jit
    def log_likelihoods(C, values):
        arguments = (jnp.asarray(X), y > 0, likelihood, C)
        return compute_log_probs(feature_noising.enumerated, arguments, {}, values, sum_log_prob=False)[0]["y"]

    for C in (0.1, 1.0, 2.5):
        rate, weights = rng.uniform(0.05, 0.9, P), rng.normal(scale=2.0, size=P + 1)
        values = {"weight": jnp.asarray(weights[:-1]), "intercept": jnp.asarray(weights[-1]), "rate": jnp.asarray(rate)}
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code
            exact = np.asarray(log_likelihoods(C, values))
        mean, var = ScoreMoments(as_design(X), bd.Dropout(), rate[:, None]).scores(weights[:, None])
        bound = C * loss.value(y, mean[:, 0], var[:, 0])
        gaps.append(bound + exact)
    gaps = np.concatenate(gaps)
    assert np.all(gaps >= -1e-12 * N)
    assert np.max(gaps) > 0.05
