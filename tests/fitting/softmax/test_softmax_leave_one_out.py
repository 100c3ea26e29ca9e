"""The Hessian of joint fits, and scores of rows by fits without them, beside derivatives by JAX and such fits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.softmax_energy import centred
from bayesdrop.fitting.objective.softmax_leave_one_out import inverse_hessian, left_out_classes
from bayesdrop.fitting.problems.many_classes import class_chances, fit_classes, softmax_energy
from bayesdrop.fitting.tuning.blocks import scaled
from bayesdrop.fitting.tuning.scores import joint_losses
from bayesdrop.losses.softmax import expected_softmax

P, K = 4, 3


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, P))
    return X, np.argmax(X[:, :K] + rng.gumbel(size=(n, K)), axis=1)


def fit(model, X, y, weight, tol=1e-13, start=None):
    names = [f"x{d}" for d in range(P)]
    return fit_classes(model, as_design(X), model.bind(names), y, weight, K, tol=tol, max_iter=500, start=start)


def energy_of(model, X, y, rates, weight):
    return softmax_energy(model, as_design(X), rates, y, K, model.C * weight, model.C * weight)


def full(theta):
    """Weights (p + 1, K) that sum to zero, from those less the last, class by class."""
    theta = jnp.concatenate([theta.reshape(K - 1, P + 1), jnp.zeros((1, P + 1))]).T
    return theta - theta.mean(axis=1, keepdims=True)


def stated(energy, X, y, weights, mean, rows):
    """Energy of some rows as the formula has it, the Taylor form; ``mean`` holds the mean scores if it is not None."""
    X, y = jnp.asarray(X), jnp.asarray(y)
    own = [jnp.broadcast_to(jnp.asarray(part), (P, 1))[:, 0] for part in energy.moments.coefficients]
    var = own[2] * X[rows] ** 2 + own[3] * X[rows] + own[4]
    if mean is None:
        mean = (own[0] * X[rows] + own[1]) @ weights[:-1] + weights[-1]
    cov = jnp.einsum("nd,dk,dl->nkl", var, weights[:-1], weights[:-1])
    chance = jax.nn.softmax(mean, axis=1)
    extra = jnp.einsum("nk,nkk->n", chance, cov) - jnp.einsum("nk,nkl,nl->n", chance, cov, chance)
    plain = jax.scipy.special.logsumexp(mean, axis=1) - mean[jnp.arange(len(rows)), y[rows]]
    return jnp.sum(jnp.asarray(energy.loss_weight)[rows] * plain + 0.5 * jnp.asarray(energy.noise_weight)[rows] * extra)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [bd.Dropout(), bd.GaussianNoise(0.7), None], ids=["dropout", "gaussian", "none"])
def test_hessian_and_steps_are_those_of_the_formula(noise):
    """The Hessian by JAX; the step without a row by its solution with matrices that are formed."""
    X, y = table(20)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    rates = bd.Fixed(0.3 if noise == bd.Dropout() else 0.0) if noise != bd.GaussianNoise(0.7) else None
    model = bd.Model(bd.Softmax(), noise=noise or bd.Dropout(), rates=rates)
    rate = np.full(P, 0.3 if noise == bd.Dropout() else 0.0)
    energy = energy_of(model, X, y, rate, weight)
    weights = centred(0.4 * np.random.default_rng(2).normal(size=(P + 1, K)))
    theta = (weights[:, :-1] - weights[:, -1:]).T.ravel()
    every = np.arange(len(y))
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):

        def whole(theta):
            w = full(theta)
            return 0.5 * jnp.sum(energy.precision * w**2) + stated(energy, X, y, w, None, every)

        gain, shift = (np.broadcast_to(np.asarray(part), (P, 1))[:, 0] for part in energy.moments.coefficients[:2])

        def of_row(theta, mean, i):
            return stated(energy, X, y, full(theta), mean, i[None])

        rows = np.column_stack([gain * X + shift, np.ones(len(y))])
        here = np.column_stack([rows @ theta.reshape(K - 1, P + 1).T, np.zeros(len(y))])[:, None]
        second = jax.vmap(jax.hessian(of_row, argnums=1), in_axes=(None, 0, 0))
        slopes = jax.vmap(jax.grad(lambda theta, i: of_row(theta, None, i)), in_axes=(None, 0))
        hessian, value, second, slopes = jax.jit(
            lambda t: (jax.hessian(whole)(t), whole(t), second(t, here, every), slopes(t, every))
        )(theta)
        hessian, second, slopes = np.asarray(hessian), np.asarray(second)[:, 0, :-1, 0, :-1], np.asarray(slopes)
        np.testing.assert_allclose(value, energy.value(weights), rtol=1e-12)
    wide = [np.kron(np.eye(K - 1), x[:, None]) for x in rows]
    moved = [np.linalg.solve(hessian - wide[i] @ second[i] @ wide[i].T, slopes[i]) for i in every]
    found = inverse_hessian(energy, weights)
    np.testing.assert_allclose(found.reshape(hessian.shape) @ hessian, np.eye(len(hessian)), atol=1e-9)
    mean, cov = left_out_classes(energy, weights)
    plain, nothing = left_out_classes(energy, weights, corrupted_inputs=True)
    assert not nothing.any()
    _, _, quadratic, linear, constant = (
        np.broadcast_to(np.asarray(part), (P, 1))[:, 0] for part in energy.moments.coefficients
    )
    for i in every:
        alone = (theta + moved[i]).reshape(K - 1, P + 1)
        var = quadratic * X[i] ** 2 + linear * X[i] + constant
        np.testing.assert_allclose(mean[i, :-1], alone @ np.append(gain * X[i] + shift, 1.0), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(plain[i, :-1], alone @ np.append(X[i], 1.0), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(cov[i, :-1, :-1], (alone[:, :-1] * var) @ alone[:, :-1].T, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["taylor", "gaussian"])
def test_differences_of_losses_are_those_of_refits(form):
    """Between strengths, to a quarter of the standard error of the difference; refits learn their rates anew."""
    X, y = table()
    n, losses = len(y), []
    for strength in (0.5, 0.0):
        model = bd.Model(bd.Softmax(form), rates=scaled(bd.PerFeature(), strength))
        whole = fit(model, X, y, np.ones(n))
        energy = energy_of(model, X, y, whole.rates, np.ones(n))
        quick = joint_losses(y, expected_softmax(*left_out_classes(energy, whole.weights)))
        slow = np.empty(n)
        for i in range(n):
            weight = np.where(np.arange(n) == i, 0.0, 1.0)
            alone = fit(model, X, y, weight, tol=1e-8, start=(whole.weights, whole.rates))
            chance = class_chances(model, as_design(X[i : i + 1]), alone.weights, alone.rates, False, np.arange(1))
            slow[i] = joint_losses(y[i : i + 1], chance)[0]
        here = joint_losses(y, class_chances(model, as_design(X), whole.weights, whole.rates, False, np.arange(len(y))))
        assert np.linalg.norm(quick - slow) <= 0.1 * np.linalg.norm(slow - here)
        losses.append((quick, slow))
    quick, slow = (losses[0][j] - losses[1][j] for j in range(2))
    assert abs(np.mean(quick - slow)) < 0.25 * slow.std(ddof=1) / np.sqrt(n)


def test_in_parts():
    X, y = table()
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.3))
    energy = energy_of(model, X, y, np.full(P, 0.3), np.ones(len(y)))
    weights = fit(model, X, y, np.ones(len(y))).weights
    at_once = left_out_classes(energy, weights)
    for one, two in zip(left_out_classes(energy, weights, room=200), at_once, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


def test_it_is_the_default_of_joint_fits():
    X, y = table(150)
    searched = bd.DropoutLogisticRegressionCV(Cs=(0.1, 1.0)).fit(X, y)
    assert searched.selection_.alone
    assert not searched.best_estimator_.warm_start
    plain = bd.DropoutLogisticRegression().fit(X, y)
    assert "rows left out one at a time" in str(plain.selection_)
    # It starts where the search was, and ends where a fit from nothing does: with these rows signs are clear.
    again = bd.DropoutLogisticRegression(plain.selection_.chosen.rates, C=plain.C_).fit(X, y)
    np.testing.assert_allclose(plain.coef_, again.coef_, atol=1e-3)
    wide = np.hstack([X, np.eye(len(X), 1300) + 1.0])
    with pytest.raises(ValueError, match="there are 2610 weights of 3 classes, of which it takes a Hessian"):
        bd.DropoutLogisticRegression(bd.Tuned(cv="loo"), multiclass="softmax").fit(wide, y)
