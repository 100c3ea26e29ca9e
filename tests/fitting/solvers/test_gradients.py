"""A fit that says CONVERGED is as near to its optimum as its tolerance asks for: energy, gradient and weights.

Energies, gradients and Hessians are stated anew here, in JAX and by its derivatives.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd

RNG = np.random.default_rng(0)
N, P, RATE = 120, 6, 0.3
X = RNG.normal(size=(N, P))
SCORE = X @ RNG.normal(size=P)
SIGNS = np.where(SCORE + RNG.logistic(size=N) > 0, 1.0, -1.0)
CODES = np.argmax(X[:, :3] + RNG.gumbel(size=(N, 3)), axis=1)
COUNTS = RNG.poisson(np.exp(0.4 * SCORE)).astype(float)


def moments(w):
    return (1 - RATE) * X @ w[:-1] + w[-1], RATE * (1 - RATE) * X**2 @ w[:-1] ** 2


def logistic(w):
    mean, var = moments(w)
    return jnp.sum(jnp.log(2 * jnp.cosh(jnp.sqrt(mean**2 + var + 1e-300) / 2)) - SIGNS * mean / 2)


def squares(w):
    mean, var = moments(w)
    return jnp.sum((SCORE + SIGNS - mean) ** 2 + var) / 2


def poisson(w):
    mean, var = moments(w)
    return jnp.sum(jnp.exp(mean + var / 2) - COUNTS * mean) - np.sum(COUNTS - COUNTS * np.log(np.maximum(COUNTS, 1)))


def softmax(flat):
    w = flat.reshape(P + 1, 3)
    mean = (1 - RATE) * X @ w[:-1] + w[-1:]
    chance = jax.nn.softmax(mean)
    spread = chance @ (w[:-1] ** 2).T - (chance @ w[:-1].T) ** 2
    penalty = RATE * (1 - RATE) * jnp.sum(X**2 * spread) / 2
    return jnp.sum(jax.nn.logsumexp(mean, axis=1) - mean[np.arange(N), CODES]) + penalty


KINDS = {
    "logistic": (bd.Logistic(), SIGNS, logistic),
    "squares": (bd.Squared(), SCORE + SIGNS, squares),
    "poisson": (bd.Poisson("gaussian"), COUNTS, poisson),
    "softmax": (bd.Softmax(), CODES, softmax),
}
METHODS = [
    *((kind, bd.Newton, np.asarray) for kind in KINDS),
    *((kind, bd.Newton, sparse.csr_array) for kind in KINDS),
    ("logistic", bd.EM, np.asarray),
    ("squares", bd.EM, sparse.csr_array),
]


@cache
def derivatives(kind):
    """The energy with its first two derivatives, compiled once."""

    def energy(w):
        return KINDS[kind][2](w) + jnp.sum(jnp.repeat(jnp.append(jnp.ones(P), 0.0), w.size // (P + 1)) * w**2) / 2

    return jax.jit(lambda w: (energy(w), jax.grad(energy)(w), jax.hessian(energy)(w)))


@pytest.mark.parametrize("tol", [1e-5, 1e-8, 1e-11, 1e-14])
@pytest.mark.parametrize(("kind", "method", "storage"), METHODS)
def test_converged_is_a_bound_on_the_gradient(kind, method, storage, tol):
    loss, y, _ = KINDS[kind]
    fit = bd.fit(bd.Model(loss, rates=bd.Fixed(RATE)), storage(X), y, method=method(tol=tol, max_iter=3000))
    assert fit.status.name == "CONVERGED"
    w = np.vstack([np.atleast_2d(fit.weight).T, np.atleast_1d(fit.intercept)]).ravel()
    with jax.enable_x64(True):
        value, gradient, hessian = derivatives(kind)(w)
    value, gradient, hessian = float(value), np.asarray(gradient), np.asarray(hessian)
    np.testing.assert_allclose(fit.objective_trace[-1], value, rtol=1e-10)
    # Of many classes the same intercept added to all changes nothing.
    step = np.linalg.pinv(hessian, rcond=1e-10, hermitian=True) @ gradient
    away = np.sqrt(gradient @ step)
    assert 0.5 * away**2 <= tol * abs(value)
    assert away <= max(1e4 * tol, 1e-15) * np.sqrt(2 * abs(value))
    assert np.abs(step).max() <= max(1e4 * tol, 1e-15) * np.sqrt(2 * abs(value))  # no curvature is below the prior's


def test_what_double_precision_cannot_have_is_told():
    for kind, method, storage in METHODS:
        loss, y, _ = KINDS[kind]
        model = bd.Model(loss, rates=bd.Fixed(RATE))
        tight, fit = (bd.fit(model, storage(X), y, method=method(tol=tol, max_iter=2000)) for tol in (1e-13, 1e-40))
        assert fit.status.name == "ROUND_OFF"
        assert fit.n_iter <= 2 * tight.n_iter + 20
        # Steps that no energy shows go on as long as gradients fall: weights are known to the root of its round-off.
        np.testing.assert_allclose(
            fit.weight, tight.weight, atol=np.sqrt(np.finfo(float).eps * fit.objective_trace[-1])
        )
